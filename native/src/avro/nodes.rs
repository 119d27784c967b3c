//! A schema as a table of nodes, which name each other by number; 0 is the schema's own.

/// A type, or several records that are in each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Node {
    /// A value that always takes so many bytes.
    Step(usize),
    /// One byte, 0 or 1.
    Boolean,
    /// A number of 32 bits.
    Int,
    /// A number of 64 bits.
    Long,
    /// A length, and so many bytes.
    Bytes,
    /// The same in UTF-8.
    String,
    /// The number of a symbol; the enum has so many symbols.
    Enum(usize),
    /// The number of a branch, and a value of it.
    Union(Box<[u32]>),
    /// Blocks of items.
    Array {
        /// The items' node.
        item: u32,
        /// How many values without bytes an item has, if it takes no bytes.
        empty: u64,
    },
    /// Blocks of keys and values.
    Map(u32),
    /// The fields that may take bytes, in order.
    Record(Box<[Field]>),
    /// Records of which each has nothing but the next record.
    Chain {
        /// How many records.
        records: usize,
        /// The node of the last record's field.
        end: u32,
        /// The field of the first record.
        first: Field,
    },
}

/// A record's field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// Its name in messages.
    pub name: Box<str>,
    /// Its type.
    pub node: u32,
}

/// The limits of a payload.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// How many records, arrays and maps may be around a value, itself included.
    pub levels: usize,
    /// How many values that take no bytes the arrays of a payload may have.
    pub empty_items: u64,
    /// How many characters of a place are shown.
    pub path: usize,
}

/// A node names a node that does not exist, or that it cannot contain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoSuchNode;

/// A schema.
#[derive(Debug)]
pub struct Nodes {
    pub(super) nodes: Box<[Node]>,
    pub(super) limits: Limits,
}

impl Nodes {
    /// Check that all named nodes exist, and that each way through them has an end.
    ///
    /// # Errors
    /// A node does not exist, there are no nodes, a union is in a union, or a chain has no records.
    pub fn new(nodes: Vec<Node>, limits: Limits) -> Result<Self, NoSuchNode> {
        let is_there = |node: &u32| usize::try_from(*node).is_ok_and(|node| node < nodes.len());
        let is_union = |node: &u32| matches!(nodes[*node as usize], Node::Union(_));
        let are_there = |node: &Node| match node {
            Node::Union(branches) => {
                branches.iter().all(|branch| is_there(branch) && !is_union(branch))
            }
            Node::Array { item: inner, .. } | Node::Map(inner) => is_there(inner),
            Node::Record(fields) => fields.iter().all(|field| is_there(&field.node)),
            Node::Chain { records, end, first } => {
                *records > 0 && is_there(end) && is_there(&first.node)
            }
            _ => true,
        };
        if nodes.is_empty() || !nodes.iter().all(are_there) {
            return Err(NoSuchNode);
        }
        Ok(Self { nodes: nodes.into_boxed_slice(), limits })
    }
}
