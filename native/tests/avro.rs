//! Avro payloads that are right, wrong and random; nothing here needs Python.

use penstock_native::avro::nodes::{Field, Limits, Node, Nodes};

const LIMITS: Limits = Limits { levels: 127, empty_items: 10_000, path: 200 };

fn fields(fields: &[(&str, u32)]) -> Node {
    let field = |(name, node): &(&str, u32)| Field { name: (*name).into(), node: *node };
    Node::Record(fields.iter().map(field).collect())
}

fn schema(nodes: Vec<Node>) -> Nodes {
    Nodes::new(nodes, LIMITS).unwrap()
}

/// A record of a text, a list of the same records, and a map of unions.
fn tree() -> Nodes {
    schema(vec![
        fields(&[("label", 1), ("leaves", 2), ("named", 3)]),
        Node::String,
        Node::Array { item: 0, empty: 0 },
        Node::Map(4),
        Node::Union([5, 6, 7, 8].into()),
        Node::Int,
        Node::Step(0),
        Node::Boolean,
        Node::Enum(3),
    ])
}

#[track_caller]
fn refused(schema: &Nodes, payload: &[u8], expected: &str) {
    assert_eq!(schema.objection(payload), Some(format!("Avro: {expected}")));
}

#[test]
fn what_fits_has_no_objection() {
    let tree = tree();
    for payload in [
        &b"\x02a\x00\x00"[..],
        b"\x02a\x02\x04\xc3\xa4\x00\x00\x00\x00",
        b"\x00\x01\x06\x00\x00\x00\x00\x00",
        b"\x00\x00\x08\x02a\x00\x7f\x00\x02\x02b\x04\x01\x02c\x06\x04\x00",
    ] {
        assert_eq!(tree.objection(payload), None, "{payload:?}");
    }
}

#[test]
fn what_is_wrong_is_said_with_its_place() {
    let tree = tree();
    refused(&tree, b"", "ends before the field label does");
    refused(&tree, b"\x02a\x02", "ends before the field leaves[0].label does");
    refused(&tree, b"\x04\xc3(", "the field label is not UTF-8");
    refused(&tree, b"\x01", "the field label has a length that is negative or too large");
    refused(
        &tree,
        b"\x00\x00\x02\x02a\x08",
        "the field named[*] has an index of no branch of its union",
    );
    refused(&tree, b"\x00\x00\x02\x02\xff", "the field named[*] has a key that is not UTF-8");
    refused(
        &tree,
        b"\x00\x00\x02\x02a\x06\x06",
        "the field named[*] has an index of no symbol of its enum",
    );
    refused(
        &tree,
        b"\x00\x00\x02\x02a\x04\x02",
        "the field named[*] is a boolean of another byte than 0 and 1",
    );
    refused(
        &tree,
        b"\x00\x01\x04\x00\x00\x00\x00",
        "the field leaves has a block that does not end where it says",
    );
    refused(&tree, b"\x00\x01\x01", "the field leaves has a block with a wrong count or size");
    refused(&tree, b"\x00\x00\x00\x00", "has 1 bytes after its end");
}

#[test]
fn levels_are_counted() {
    let deep = |levels: usize| [&b"\x00\x02".repeat(levels)[..], b"\x00\x00\x00"].concat();
    let tree = tree();
    // Each level of the payload is a record and an array; the innermost has both, too.
    let whole = [deep(62), b"\x00\x00".repeat(62)].concat();
    assert_eq!(tree.objection(&whole), None);
    let text = tree.objection(&deep(63)).unwrap();
    let end = "leaves[0].leaves is inside more than 127 records, arrays and maps";
    assert!(text.starts_with("Avro: the field ...") && text.ends_with(end), "{text}");
    let shown = text.split(' ').nth(3).unwrap();
    assert_eq!(shown.len(), "...".len() + LIMITS.path);
}

#[test]
fn a_chain_shows_the_names_of_all_its_records() {
    let name = |name: &str, node| Field { name: name.into(), node };
    let chain = schema(vec![
        Node::Chain { records: 2, end: 2, first: name("a", 1) },
        Node::Chain { records: 1, end: 2, first: name("b", 2) },
        fields(&[("x", 3)]),
        Node::Long,
    ]);
    assert_eq!(chain.objection(&[0]), None);
    refused(&chain, &[], "ends before the field a.b.x does");
    let short = Limits { levels: 1, ..LIMITS };
    let endless = Node::Chain { records: 2, end: 0, first: name("a", 0) };
    refused(
        &Nodes::new(vec![endless], short).unwrap(),
        &[],
        "the field a is inside more than 1 records, arrays and maps",
    );
}

#[test]
fn items_without_bytes_are_counted_and_huge_counts_are_no_work() {
    let nulls = schema(vec![Node::Array { item: 1, empty: 1 }, Node::Step(0)]);
    let too_many = "the value has more than 10000 items that take no bytes";
    assert_eq!(nulls.objection(b"\xa0\x9c\x01\x00"), None);
    refused(&nulls, b"\xa2\x9c\x01\x00", too_many);
    refused(&nulls, &[&[0xFF; 9][..], &[1, 0, 0]].concat(), too_many);
    let doubles = schema(vec![Node::Array { item: 1, empty: 0 }, Node::Step(8)]);
    refused(&doubles, &[&[0x80; 9][..], &[1, 0]].concat(), "ends before the value does");
    let huge = schema(vec![Node::Step(usize::MAX)]);
    refused(&huge, &[0], "ends before the value does");
}

#[test]
fn nodes_that_are_none_are_refused() {
    let new = |nodes| Nodes::new(nodes, LIMITS).is_err();
    assert!(new(vec![]));
    assert!(new(vec![Node::Map(1)]));
    assert!(new(vec![Node::Array { item: 1, empty: 0 }]));
    assert!(new(vec![fields(&[("a", 7)])]));
    assert!(new(vec![Node::Union([0].into())]));
    let first = Field { name: "a".into(), node: 0 };
    assert!(new(vec![Node::Chain { records: 0, end: 0, first }]));
}

#[test]
fn random_bytes_are_judged() {
    let inputs = std::env::var("FUZZ_INPUTS").ok().and_then(|text| text.parse().ok());
    let (tree, mut state) = (tree(), 0x9E37_79B9_7F4A_7C15_u64);
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for _ in 0..inputs.unwrap_or(20_000) {
        let bytes: Vec<u8> = (0..next() % 40)
            .map(|_| {
                if next() % 3 == 0 {
                    next().to_le_bytes()[0]
                } else {
                    (next() % 5).to_le_bytes()[0]
                }
            })
            .collect();
        if let Some(text) = tree.objection(&bytes) {
            assert!(text.starts_with("Avro: ") && text.len() < 400, "{text}");
        }
    }
}
