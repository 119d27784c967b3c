//! Sections that are right, wrong and random; nothing here needs Python, so that a sanitizer or Miri
//! can run it.

use penstock_native::cursor::put_varint;
use penstock_native::fault::{Fault, Part, Wrong};
use penstock_native::section::{Origin, Section, Unread};
use penstock_native::splice::{Appended, Change, ForAll, Splicer, Unwritten};

const LOG: Origin = Origin::Log { last_offset_delta: 90 };

type Headers<'a> = &'a [(&'a str, Option<&'a [u8]>)];

fn field(out: &mut Vec<u8>, bytes: Option<&[u8]>) {
    put_varint(out, bytes.map_or(-1, |bytes| i32::try_from(bytes.len()).unwrap()));
    out.extend_from_slice(bytes.unwrap_or_default());
}

fn record(delta: i32, key: Option<&[u8]>, value: Option<&[u8]>, headers: Headers<'_>) -> Vec<u8> {
    let mut body = vec![0];
    put_varint(&mut body, 10 * delta);
    put_varint(&mut body, delta);
    field(&mut body, key);
    field(&mut body, value);
    put_varint(&mut body, i32::try_from(headers.len()).unwrap());
    for (key, value) in headers {
        field(&mut body, Some(key.as_bytes()));
        field(&mut body, *value);
    }
    let mut out = Vec::new();
    put_varint(&mut out, i32::try_from(body.len()).unwrap());
    out.extend_from_slice(&body);
    out
}

fn sample() -> Vec<Vec<u8>> {
    vec![
        record(0, Some(b"key"), Some(b"value"), &[("name", Some(b"x")), ("", None)]),
        record(1, None, Some(&[7; 90]), &[]),
        record(2, Some(b""), None, &[("\u{e4}", Some(b""))]),
        record(3, None, None, &[]),
    ]
}

fn read_sent(bytes: Vec<u8>, count: usize) -> Result<Section, Unread> {
    Section::read(bytes, count, Origin::Producer)
}

fn put(splicer: &mut Splicer<'_>, record: usize, key: Change<'_>, value: Change<'_>) {
    splicer.put(record, key, value, &Appended::default()).unwrap();
}

fn fault(bytes: &[u8], count: usize) -> Fault {
    match read_sent(bytes.to_vec(), count) {
        Err(Unread::Wrong(fault)) => fault,
        other => panic!("{other:?}"),
    }
}

/// Numbers without a pattern, the same in each run (xorshift).
struct Chance(u64);

impl Chance {
    fn next(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap() % below
    }
}

/// Look at everything that a section offers.
fn walk(section: &Section) -> usize {
    let fields: usize = section.keys().chain(section.values()).flatten().map(<[u8]>::len).sum();
    let headers: usize = section
        .headers()
        .flatten()
        .map(|(key, value)| key.len() + value.map_or(0, <[u8]>::len))
        .sum();
    for key in section.keys().flatten() {
        let own = section.keys_after(key).map(Iterator::count);
        assert_eq!(
            own.is_some(),
            section.keys().all(|one| one.is_some_and(|one| one.starts_with(key)))
        );
    }
    assert_eq!(section.has_header(""), section.headers().flatten().any(|(key, _)| key.is_empty()));
    let deltas = section.timestamp_deltas().len();
    // All of it but the first, renumbered.
    let mut splicer = Splicer::new(section, ForAll::default(), section.size()).unwrap();
    for index in 1..section.len() {
        put(&mut splicer, index, Change::Same, Change::Same);
    }
    if section.len() > 1 {
        let spliced = splicer.finish().unwrap();
        let rest = Section::read(spliced, section.len() - 1, LOG).unwrap();
        assert!(rest.values().eq(section.values().skip(1)));
        assert!(rest.offset_deltas().is_none());
    }
    let for_all = ForAll { without: &[b"", b"n"], retimed: true, ..ForAll::default() };
    let mut splicer = Splicer::new(section, for_all, 0).unwrap();
    let mut appended = Appended::default();
    appended.push(b"h", None).unwrap();
    for index in 0..section.len() {
        splicer.put(index, Change::Same, Change::Same, &appended).unwrap();
    }
    let letters = read_sent(splicer.finish().unwrap(), section.len()).unwrap();
    assert!(letters.keys().eq(section.keys()));
    assert!(letters.headers().all(|headers| headers.eq([(&b"h"[..], None)])));
    fields + headers + deltas
}

#[test]
fn columns_are_what_was_written() {
    let section = read_sent(sample().concat(), 4).unwrap();
    assert_eq!(section.keys().collect::<Vec<_>>(), [Some(&b"key"[..]), None, Some(&b""[..]), None]);
    assert_eq!(
        section.values().collect::<Vec<_>>(),
        [Some(&b"value"[..]), Some(&[7; 90][..]), None, None]
    );
    assert_eq!(section.timestamp_deltas().collect::<Vec<_>>(), [0, 10, 20, 30]);
    let headers: Vec<Vec<_>> = section.headers().map(Iterator::collect).collect();
    assert_eq!(headers[0], [(&b"name"[..], Some(&b"x"[..])), (b"", None)]);
    assert_eq!(headers[2], [("\u{e4}".as_bytes(), Some(&b""[..]))]);
    assert!(headers[1].is_empty() && headers[3].is_empty());
}

#[test]
fn what_follows_a_prefix() {
    let all: Vec<u8> = [(0, &b"abc"[..]), (1, b"ab"), (2, b"abd")]
        .map(|(at, value)| record(at, Some(b""), Some(value), &[]))
        .concat();
    let section = read_sent(all, 3).unwrap();
    assert!(section.values_after(b"ab").unwrap().eq([&b"c"[..], b"", b"d"]));
    assert!(section.values_after(b"").unwrap().eq([&b"abc"[..], b"ab", b"abd"]));
    assert!(section.values_after(b"abc").is_none() && section.values_after(b"b").is_none());
    assert!(section.keys_after(b"").unwrap().eq([b""; 3]));
    assert!(section.keys_after(b"a").is_none());
    let last = section.part(2..3).unwrap();
    assert!(last.values_after(b"abd").unwrap().eq([b""]));
    assert_eq!(section.part(3..3).unwrap().values_after(b"x").unwrap().len(), 0);
    let with_null = read_sent(sample().concat(), 4).unwrap();
    assert!(with_null.keys_after(b"").is_none() && with_null.values_after(b"").is_none());
}

#[test]
fn headers_of_a_name() {
    let section = read_sent(sample().concat(), 4).unwrap();
    for (name, is_there) in [
        ("name", true),
        ("", true),
        ("\u{e4}", true),
        ("nam", false),
        ("x", false),
        ("\u{fffd}", false),
    ] {
        assert_eq!(section.has_header(name), is_there, "{name}");
    }
    assert!(!section.part(1..2).unwrap().has_header("name"));
    let mut odd = record(0, None, None, &[("k", None)]);
    let key = odd.len() - 2;
    odd[key] = 0xFF;
    let section = Section::read(odd, 1, LOG).unwrap();
    assert!(section.has_header("\u{fffd}") && !section.has_header("k"));
}

#[test]
fn what_a_broker_stores_has_gaps_and_keys_of_any_bytes() {
    let mut odd = record(7, None, None, &[("k", None)]);
    let key = odd.len() - 2;
    odd[key] = 0xFF;
    let bytes = [record(3, None, Some(b"a"), &[]), record(4, None, None, &[]), odd].concat();
    let section = Section::read(bytes.clone(), 3, LOG).unwrap();
    assert_eq!(section.offset_deltas(), Some(&[3, 4, 7][..]));
    assert_eq!(section.headers().nth(2).unwrap().next(), Some((&[0xFF][..], None)));
    for last_offset_delta in [-1, 0, 3, 6] {
        let origin = Origin::Log { last_offset_delta };
        match Section::read(bytes.clone(), 3, origin) {
            Err(Unread::Wrong(fault)) => assert_eq!(fault.wrong, Wrong::Descending),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(fault(&bytes, 3), Fault { record: 0, wrong: Wrong::Order });
    let same = [record(5, None, None, &[]), record(5, None, None, &[])].concat();
    match Section::read(same, 2, LOG) {
        Err(Unread::Wrong(fault)) => {
            assert_eq!(fault, Fault { record: 1, wrong: Wrong::Descending });
        }
        other => panic!("{other:?}"),
    }
    assert!(Section::read(Vec::new(), 0, LOG).unwrap().is_empty());
}

#[test]
fn a_part_shares_its_bytes() {
    let bytes: Vec<u8> = [0, 1, 5, 6].map(|delta| record(delta, None, None, &[])).concat();
    let section = Section::read(bytes, 4, LOG).unwrap();
    assert_eq!(section.part(1..3).unwrap().offset_deltas(), Some(&[1, 5][..]));
    let part = section.part(2..4).unwrap();
    assert_eq!(part.offset_deltas(), None);
    assert_eq!((part.offset_delta(0), part.offset_delta(1)), (5, 6));
    assert_eq!(part.record(0).as_ptr(), section.record(2).as_ptr());
    assert_eq!(part.timestamp_delta(0), 50);
    assert_eq!(part.part(1..2).unwrap().offset_delta(0), 6);
    assert_eq!((part.size(), section.part(4..4).unwrap().size()), (14, 0));
    let mut splicer = Splicer::new(&part, ForAll::default(), part.size()).unwrap();
    put(&mut splicer, 0, Change::Same, Change::Same);
    put(&mut splicer, 1, Change::Same, Change::Same);
    let spliced = read_sent(splicer.finish().unwrap(), 2).unwrap();
    assert!(spliced.timestamp_deltas().eq([50, 60]));
}

#[test]
fn headers_are_left_out_and_appended() {
    let section = read_sent(sample().concat(), 4).unwrap();
    let for_all = ForAll { without: &[b"na", b"other"], retimed: true, ..ForAll::default() };
    let mut splicer = Splicer::new(&section, for_all, 0).unwrap();
    let mut appended = Appended::default();
    splicer.put(0, Change::Same, Change::Same, &appended).unwrap();
    appended.push(b"more", Some(b"1")).unwrap();
    appended.push(b"none", None).unwrap();
    splicer.put(1, Change::Same, Change::New(None), &appended).unwrap();
    appended.clear();
    splicer.put(3, Change::Same, Change::Same, &appended).unwrap();
    let spliced = read_sent(splicer.finish().unwrap(), 3).unwrap();
    assert!(spliced.timestamp_deltas().eq([0, 0, 0]));
    let headers: Vec<Vec<_>> = spliced.headers().map(Iterator::collect).collect();
    assert_eq!(headers[0], [(&b""[..], None)]);
    assert_eq!(headers[1], [(&b"more"[..], Some(&b"1"[..])), (b"none", None)]);
    assert!(headers[2].is_empty());
    assert_eq!(spliced.key(0), Some(&b"key"[..]));
    assert_eq!(spliced.value(1), None);
}

#[test]
fn records_follow_others_in_a_batch() {
    let section = read_sent(sample().concat(), 4).unwrap();
    let times: Vec<i64> = section.timestamp_deltas().collect();
    for (retimed, shift) in [(false, 0), (false, -7), (true, 1 << 40)] {
        let for_all = ForAll { first: 300, retimed, shift, ..ForAll::default() };
        let mut splicer = Splicer::new(&section, for_all, 0).unwrap();
        for index in 0..section.len() {
            put(&mut splicer, index, Change::Same, Change::Same);
        }
        let origin = Origin::Log { last_offset_delta: 303 };
        let written = Section::read(splicer.finish().unwrap(), 4, origin).unwrap();
        assert_eq!((written.offset_delta(0), written.offset_delta(3)), (300, 303));
        let expected = times.iter().map(|own| if retimed { shift } else { own + shift });
        assert!(written.timestamp_deltas().eq(expected));
        assert!(written.values().eq(section.values()));
        assert!(
            written
                .headers()
                .map(Iterator::collect::<Vec<_>>)
                .eq(section.headers().map(Iterator::collect::<Vec<_>>))
        );
    }
}

#[test]
#[cfg_attr(miri, ignore = "Miri touches all memory")]
fn a_record_does_not_grow_past_what_its_length_can_say() {
    let section = read_sent(sample().concat(), 4).unwrap();
    let mut splicer = Splicer::new(&section, ForAll::default(), 0).unwrap();
    // Memory that is never touched.
    let value = vec![0; 1 << 31];
    let new = Change::New(Some(&value[1..]));
    let written = splicer.put(0, Change::Same, new, &Appended::default());
    assert_eq!(written, Err(Unwritten::TooLarge));
    assert_eq!(Appended::default().push(b"h", Some(&value)), Err(Unwritten::TooLarge));
}

#[test]
fn a_splice_is_what_a_writer_would_write() {
    let section = read_sent(sample().concat(), 4).unwrap();
    let mut splicer = Splicer::new(&section, ForAll::default(), 0).unwrap();
    put(&mut splicer, 0, Change::Same, Change::Same);
    put(&mut splicer, 2, Change::New(None), Change::New(Some(b"new")));
    put(&mut splicer, 3, Change::Same, Change::Same);
    let spliced = read_sent(splicer.finish().unwrap(), 3).unwrap();
    assert_eq!(spliced.record(0), section.record(0));
    assert_eq!(spliced.keys().collect::<Vec<_>>(), [Some(&b"key"[..]), None, None]);
    assert_eq!(
        spliced.values().collect::<Vec<_>>(),
        [Some(&b"value"[..]), Some(&b"new"[..]), None]
    );
    assert_eq!(spliced.timestamp_deltas().collect::<Vec<_>>(), [0, 20, 30]);
    assert!(spliced.headers().nth(1).unwrap().eq(section.headers().nth(2).unwrap()));
}

#[test]
fn what_does_not_change_keeps_its_bytes() {
    // Lengths and numbers that take more bytes than they need.
    let odd = [0x94, 0x00, 0x00, 0x80, 0x00, 0x80, 0x00, 0x81, 0x00, 0x01, 0x00];
    let length = 2 * (odd.len() - 2);
    let mut first = odd.to_vec();
    first[0] = u8::try_from(length).unwrap() | 0x80;
    let bytes = [first.clone(), record(1, None, None, &[])].concat();
    let section = read_sent(bytes.clone(), 2).unwrap();
    let mut splicer = Splicer::new(&section, ForAll::default(), 0).unwrap();
    put(&mut splicer, 0, Change::Same, Change::Same);
    put(&mut splicer, 1, Change::Same, Change::New(Some(b"v")));
    assert_eq!(splicer.finish().unwrap()[..first.len()], first);
    let mut splicer = Splicer::new(&section, ForAll::default(), 0).unwrap();
    put(&mut splicer, 0, Change::Same, Change::New(Some(b"v")));
    let spliced = splicer.finish().unwrap();
    assert_eq!(spliced[1..7], [0x00, 0x80, 0x00, 0x80, 0x00, 0x81], "timestamp, delta and key");
}

#[test]
fn cut_off_at_every_byte() {
    let bytes = sample().concat();
    for size in 0..bytes.len() {
        assert_eq!(fault(&bytes[..size], 4).wrong, Wrong::Ended);
    }
    assert_eq!(fault(&bytes, 3), Fault { record: 3, wrong: Wrong::Remaining });
    for count in [5, 20, 1000, usize::MAX] {
        assert_eq!(fault(&bytes, count), Fault { record: 4, wrong: Wrong::Ended });
    }
}

#[test]
fn every_bit_turned_over() {
    let bytes = sample().concat();
    let (mut read, mut refused) = (0, 0);
    let step = if cfg!(miri) { 23 } else { 1 };
    for bit in (0..8 * bytes.len()).step_by(step) {
        let mut bytes = bytes.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        match read_sent(bytes, 4) {
            Ok(section) => read += usize::from(walk(&section) > 0),
            Err(Unread::Wrong(fault)) => refused += usize::from(!fault.to_string().is_empty()),
            Err(Unread::OutOfMemory) => panic!("of a few bytes"),
        }
    }
    assert!(read * step > 100 && refused * step > 100, "{read} {refused}");
}

#[test]
fn random_changes() {
    let inputs = std::env::var("FUZZ_INPUTS").ok().and_then(|number| number.parse().ok());
    let inputs = inputs.unwrap_or(if cfg!(miri) { 300 } else { 30_000 });
    let striking = [0x00, 0x01, 0x02, 0x03, 0x7E, 0x7F, 0x80, 0x81, 0xFE, 0xFF];
    let mut chance = Chance(0x9E37_79B9_7F4A_7C15);
    let bytes = sample().concat();
    let mut read = 0;
    for _ in 0..inputs {
        let mut bytes = bytes.clone();
        for _ in 0..=chance.next(3) {
            let at = chance.next(bytes.len());
            match chance.next(4) {
                0 => bytes[at] = striking[chance.next(striking.len())],
                1 => bytes[at] ^= 1 << chance.next(8),
                2 => bytes.insert(at, striking[chance.next(striking.len())]),
                _ => {
                    bytes.remove(at);
                }
            }
        }
        if let Ok(section) = Section::read(bytes.clone(), 4, LOG) {
            walk(&section);
            assert!(section.part(1..3).unwrap().values().eq(section.values().skip(1).take(2)));
        }
        if let Ok(section) = read_sent(bytes, 4) {
            read += usize::from(walk(&section) > 0);
        }
    }
    assert!(read * 100 > inputs, "{read} of {inputs} could be read");
}

#[test]
fn the_first_wrong_part_is_named() {
    let cases: [(&[u8], Wrong); 13] = [
        (&[0x01], Wrong::Structure(Part::Length)),
        (&[0x80, 0x80, 0x80, 0x80, 0x80], Wrong::Structure(Part::Length)),
        (&[0x00], Wrong::Structure(Part::Attributes)),
        (&[0x02, 0x80], Wrong::Structure(Part::Attributes)),
        (&[0x02, 0x00], Wrong::Structure(Part::Timestamp)),
        (&[0x04, 0x00, 0x00], Wrong::Structure(Part::OffsetDelta)),
        (&[0x06, 0x00, 0x00, 0x02], Wrong::Order),
        (&[0x08, 0x00, 0x00, 0x00, 0x02], Wrong::Structure(Part::Key)),
        (&[0x0A, 0x00, 0x00, 0x00, 0x01, 0x02], Wrong::Structure(Part::Value)),
        (&[0x0C, 0x00, 0x00, 0x00, 0x01, 0x01, 0x03], Wrong::HeaderCount(-2)),
        (&[0x0C, 0x00, 0x00, 0x00, 0x01, 0x01, 0x04], Wrong::TooManyHeaders(2)),
        (&[0x0E, 0x00, 0x00, 0x00, 0x01, 0x01, 0x02, 0x01], Wrong::HeaderKeySize(-1)),
        (&[0x0E, 0x00, 0x00, 0x00, 0x01, 0x01, 0x00, 0x00], Wrong::Size { announced: 7, read: 6 }),
    ];
    for (bytes, wrong) in cases {
        assert_eq!(fault(bytes, 1), Fault { record: 0, wrong }, "{bytes:?}");
    }
}
