//! Small batches that are merged, and those that are left to Python.

use penstock_native::cursor::put_varint;
use penstock_native::header::{CONTROL, LOG_APPEND_TIME, TRANSACTIONAL, checksum};
use penstock_native::merge::{Limits, Merged, Wanted, merge};
use penstock_native::section::{Origin, Section};

const LIMITS: Limits =
    Limits { small_bytes: 1000, small_records: 10, enough_bytes: 5000, enough_records: 100 };
const ALL: Wanted = Wanted { first: 0, end: i64::MAX, with_transactions: true };

fn record(delta: i32, timestamp_delta: i32, value: &[u8]) -> Vec<u8> {
    let mut body = vec![0];
    put_varint(&mut body, timestamp_delta);
    put_varint(&mut body, delta);
    put_varint(&mut body, -1);
    put_varint(&mut body, i32::try_from(value.len()).unwrap());
    body.extend_from_slice(value);
    put_varint(&mut body, 0);
    let mut out = Vec::new();
    put_varint(&mut out, i32::try_from(body.len()).unwrap());
    out.extend_from_slice(&body);
    out
}

/// A batch with a record for each value, ten milliseconds apart.
fn batch(base: i64, time: i64, attributes: u16, values: &[&[u8]]) -> Vec<u8> {
    let count = i32::try_from(values.len()).unwrap();
    let records: Vec<u8> =
        (0..).zip(values).flat_map(|(delta, value)| record(delta, 10 * delta, value)).collect();
    let mut out = Vec::new();
    out.extend_from_slice(&base.to_be_bytes());
    out.extend_from_slice(&i32::try_from(49 + records.len()).unwrap().to_be_bytes());
    out.extend_from_slice(&4_i32.to_be_bytes());
    out.push(2);
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&attributes.to_be_bytes());
    out.extend_from_slice(&(count - 1).to_be_bytes());
    out.extend_from_slice(&time.to_be_bytes());
    out.extend_from_slice(&time.wrapping_add(500).to_be_bytes());
    out.extend_from_slice(&(-1_i64).to_be_bytes());
    out.extend_from_slice(&(-1_i16).to_be_bytes());
    out.extend_from_slice(&(-1_i32).to_be_bytes());
    out.extend_from_slice(&count.to_be_bytes());
    out.extend_from_slice(&records);
    sealed(out)
}

fn sealed(mut batch: Vec<u8>) -> Vec<u8> {
    let (header, records) = batch.split_first_chunk().unwrap();
    let found = checksum(header, records).to_be_bytes();
    batch[17..21].copy_from_slice(&found);
    batch
}

fn merged(response: &[u8]) -> Option<Merged> {
    merge(response, ALL, LIMITS).unwrap().map(|(merged, _)| merged)
}

/// Two batches, then another.
fn followed_by(third: &[u8]) -> Vec<u8> {
    [&batch(7, 0, 0, &[b"a"]), &batch(8, 0, 0, &[b"b"]), third].concat()
}

#[test]
fn batches_become_one() {
    let response = [
        batch(7, 1000, 0, &[b"a", b"b"]),
        batch(9, 2000, LOG_APPEND_TIME, &[b"c", b"d"]),
        batch(11, 900, TRANSACTIONAL, &[b"e"]),
    ]
    .concat();
    let (merged, section) = merge(&response, ALL, LIMITS).unwrap().unwrap();
    assert_eq!((merged.batches, merged.records, merged.size), (3, 5, response.len()));
    assert_eq!((merged.base_offset, merged.last_offset), (7, 11));
    assert_eq!((merged.base_timestamp, merged.max_timestamp), (1000, 2500));
    assert_eq!((merged.leader_epoch, merged.codec), (4, 0));
    let records = Section::read(section, 5, Origin::Log { last_offset_delta: 4 }).unwrap();
    assert!(records.offset_deltas().is_none());
    assert!(records.values().map(Option::unwrap).eq([b"a", b"b", b"c", b"d", b"e"]));
    assert!(records.timestamp_deltas().eq([0, 10, 1500, 1500, -100]));
}

#[test]
fn a_single_batch_is_left_as_it_is() {
    assert!(merged(&batch(7, 0, 0, &[b"a"])).is_none());
    assert!(merged(&[]).is_none());
}

#[test]
fn other_batches_end_it() {
    let third = batch(9, 0, 0, &[b"c"]);
    assert_eq!(merged(&followed_by(&third)).unwrap().batches, 3);
    let wrong = |at: usize, byte: u8| {
        let mut wrong = third.clone();
        wrong[at] = byte;
        sealed(wrong)
    };
    let mut damaged = third.clone();
    *damaged.last_mut().unwrap() ^= 1;
    for other in [
        damaged,
        batch(10, 0, 0, &[b"c"]),
        batch(9, 0, CONTROL, &[b"c"]),
        batch(9, 0, 4, &[b"c"]),
        batch(9, 0, 1, &[b"c"]),
        batch(9, 0, 0, &[&[7; 1000]]),
        batch(9, 0, 0, &[&b"c"[..]; 11]),
        batch(9, 0, 0, &[]),
        wrong(16, 1),
        wrong(26, 1),
        wrong(60, 2),
        wrong(62, 0x80),
        third[..third.len() - 1].to_vec(),
        third[..60].to_vec(),
    ] {
        assert_eq!(merged(&followed_by(&other)).unwrap().batches, 2);
        assert!(merged(&other).is_none());
    }
}

#[test]
fn only_batches_within_the_range() {
    let response = followed_by(&batch(9, 0, 0, &[b"c", b"d"]));
    let count = |first, end| {
        let wanted = Wanted { first, end, ..ALL };
        merge(&response, wanted, LIMITS).unwrap().map(|(merged, _)| merged.batches)
    };
    assert_eq!(count(7, 11), Some(3));
    assert_eq!(count(0, 10), Some(2));
    assert_eq!(count(8, 11), None);
    assert_eq!(count(7, 8), None);
}

#[test]
fn transactions_are_only_merged_if_they_are_wanted() {
    let response = [batch(0, 0, TRANSACTIONAL, &[b"a"]), batch(1, 0, 0, &[b"b"])].concat();
    assert!(merged(&response).is_some());
    let wanted = Wanted { with_transactions: false, ..ALL };
    assert!(merge(&response, wanted, LIMITS).unwrap().is_none());
}

#[test]
fn there_is_a_limit() {
    let response: Vec<u8> = (0..300).flat_map(|at| batch(at, 0, 0, &[b"a"])).collect();
    assert_eq!(merged(&response).unwrap().records, 100);
    let response: Vec<u8> = (0..300).flat_map(|at| batch(at, 0, 0, &[&[7; 500]])).collect();
    assert_eq!(merged(&response).unwrap().records, 10);
}

#[test]
fn the_ends_of_numbers() {
    let last = i64::MAX - 1;
    let response = [batch(last - 1, i64::MAX, 0, &[b"a"]), batch(last, i64::MIN, 0, &[b"b"])];
    let (merged, section) = merge(&response.concat(), ALL, LIMITS).unwrap().unwrap();
    assert_eq!((merged.last_offset, merged.max_timestamp), (last, i64::MAX));
    let records = Section::read(section, 2, Origin::Log { last_offset_delta: 1 }).unwrap();
    assert!(records.timestamp_deltas().eq([0, 1]));
}
