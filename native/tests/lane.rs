//! Connections that are forwarded: the bytes that pass and that are given back, and in which state.
#![cfg(target_os = "linux")]

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::{Duration, Instant};

use penstock_native::cursor::put_varint;
use penstock_native::json::compile::compile;
use penstock_native::json::document::Json;
use penstock_native::json::node::{Document, Schema};
use penstock_native::lane::batch;
use penstock_native::lane::compression::{Decompression, decompressed};
use penstock_native::lane::connection::GivenBack;
use penstock_native::lane::counts::{Counts, Times};
use penstock_native::lane::exchange::{Exchange, Receiving, State};
use penstock_native::lane::judge::{Check, Judge, Judged, STEPS_A_READ, Work};
use penstock_native::lane::locked;
use penstock_native::lane::produce::{
    self, Acks, has_errors, names_no_leaders, read_acks, read_if_known,
};
use penstock_native::lane::relay::{Limits, Passed, Relay};
use penstock_native::lane::slices::Slice;
use penstock_native::lane::table::{Action, Table, Topic};
use penstock_native::lane::threads::{Adopted, Lane};
use penstock_native::lane::worked::Worked;
use penstock_native::ring::layout::Outcome;
use penstock_native::ring::pool::Pool;
use penstock_native::ring::reader::Reader;
use penstock_native::ring::sender::Ring;

const LIMITS: Limits = Limits { request_max_bytes: 10_000, valid_until: f64::INFINITY };

/// A version of Produce whose responses may name leaders.
const VERSION: i16 = 10;

/// API 0 is Produce, 3 is Python's, 5 is judged unless a topic is known; others are forwarded.
fn table() -> Arc<Table> {
    let all = |action| vec![action; 14];
    Arc::new(Table::new([
        (0, 0, all(Action::Produce)),
        (3, 0, all(Action::Python)),
        (5, 0, all(Action::ProduceWhole)),
    ]))
}

fn relay() -> Relay {
    Relay::new(State::default(), table(), LIMITS).unwrap()
}

fn request(api_key: i16, number: i32, body: &[u8]) -> Vec<u8> {
    let length = i32::try_from(8 + body.len()).unwrap();
    let mut frame = length.to_be_bytes().to_vec();
    frame.extend(api_key.to_be_bytes());
    frame.extend(VERSION.to_be_bytes());
    frame.extend(number.to_be_bytes());
    frame.extend(body);
    frame
}

fn response(number: i32, body: &[u8]) -> Vec<u8> {
    let length = i32::try_from(4 + body.len()).unwrap();
    [&length.to_be_bytes()[..], &number.to_be_bytes(), body].concat()
}

fn put_unsigned_varint(into: &mut Vec<u8>, mut value: u32) {
    while value >= 0x80 {
        into.push(u8::try_from(value & 0x7F).unwrap() | 0x80);
        value >>= 7;
    }
    into.push(u8::try_from(value).unwrap());
}

/// The timeout of requests.
const TIMEOUT_MS: i32 = 30_000;

/// A body of Produce, with acks: one partition of one topic.
fn produce_body(acks: i16, topic: &str, records: &[u8]) -> Vec<u8> {
    let mut body = vec![0, 1, b'c', 0, 0];
    body.extend(acks.to_be_bytes());
    body.extend(TIMEOUT_MS.to_be_bytes());
    body.extend([2, u8::try_from(topic.len() + 1).unwrap()]);
    body.extend(topic.as_bytes());
    body.extend([2, 0, 0, 0, 0]);
    let size = u32::try_from(records.len() + 1).unwrap();
    put_unsigned_varint(&mut body, size);
    body.extend(records);
    body.extend([0, 0, 0]);
    body
}

/// A batch of records with these values, and the key `k`.
fn batch_of(values: &[&str]) -> Vec<u8> {
    batch_with(values, &[0])
}

/// The same, with encoded headers.
fn batch_with(values: &[&str], headers: &[u8]) -> Vec<u8> {
    let mut records = Vec::new();
    for (number, value) in values.iter().enumerate() {
        let mut record = vec![0, 0];
        put_varint(&mut record, i32::try_from(number).unwrap());
        put_varint(&mut record, 1);
        record.push(b'k');
        put_varint(&mut record, i32::try_from(value.len()).unwrap());
        record.extend(value.as_bytes());
        record.extend(headers);
        put_varint(&mut records, i32::try_from(record.len()).unwrap());
        records.extend(record);
    }
    let mut batch = vec![0; 61];
    batch[8..12].copy_from_slice(&i32::try_from(49 + records.len()).unwrap().to_be_bytes());
    batch[16] = 2;
    let count = i32::try_from(values.len()).unwrap();
    batch[23..27].copy_from_slice(&(count - 1).to_be_bytes());
    batch[43..57].fill(0xFF);
    batch[57..61].copy_from_slice(&count.to_be_bytes());
    batch.extend(records);
    sealed(batch)
}

/// The same batch with the correct checksum: of each byte bit by bit, as RFC 3720 has it.
fn sealed(mut batch: Vec<u8>) -> Vec<u8> {
    static OF_BYTES: LazyLock<[u32; 256]> = LazyLock::new(|| {
        std::array::from_fn(|byte| {
            (0..8).fold(u32::try_from(byte).unwrap(), |crc, _| {
                if crc & 1 == 1 { crc >> 1 ^ 0x82F6_3B78 } else { crc >> 1 }
            })
        })
    });
    let mut crc = u32::MAX;
    let of_bytes = &*OF_BYTES;
    for byte in &batch[21..] {
        crc = crc >> 8 ^ of_bytes[usize::from(crc.to_le_bytes()[0] ^ byte)];
    }
    batch[17..21].copy_from_slice(&(!crc).to_be_bytes());
    batch
}

fn schema(text: &str) -> Arc<Schema> {
    let (uri, draft) = ("file:///schema.json".to_owned(), 2020);
    let json = Json::read(text.as_bytes()).unwrap();
    let document = Document { uri, draft, text: text.into(), json };
    Arc::new(compile(vec![document], false).unwrap_or_else(|_| panic!("{text}")))
}

const SMALL: batch::Limits = batch::Limits { max_bytes: 32_768, max_records: 1000 };

fn fits(text: &str) -> Check {
    Check::Fits { keys: false, accepts_null: false, schema: schema(text), longest: usize::MAX }
}

fn judged_by(checks: Vec<Check>) -> Topic {
    let judge = Arc::new(Judge::new("names", checks, SMALL));
    Topic::Judged(Arc::new([Judged::new("t", judge)]))
}

const WITH_ID: &str = r#"{"type": "object", "required": ["id"]}"#;

/// A relay that judges topic t by a schema that requires an id.
fn judging() -> Relay {
    let table = table();
    table.know_name(b"t", judged_by(vec![fits(WITH_ID)]), f64::INFINITY);
    Relay::new(State::default(), table, LIMITS).unwrap()
}

fn produced(number: i32, records: &[u8]) -> Vec<u8> {
    request(5, number, &produce_body(1, "t", records))
}

/// A response to it, without errors.
fn plain_response_body(topic: &str) -> Vec<u8> {
    let mut body = vec![0, 2, u8::try_from(topic.len() + 1).unwrap()];
    body.extend(topic.as_bytes());
    body.push(2);
    body.extend([0; 30]);
    body.extend([1, 0, 0, 0]);
    body.extend([0; 5]);
    body
}

fn exchange(api_key: i16, number: i32) -> Exchange {
    Exchange {
        api_key,
        version: VERSION,
        correlation_id: number,
        received_at: 0.0,
        sent_at: 0.0,
        was_held: false,
    }
}

fn passed(bytes: usize) -> Passed {
    Passed { bytes, stopped: false }
}

fn stopped(bytes: usize) -> Passed {
    Passed { bytes, stopped: true }
}

fn sent(relay: &mut Relay, data: &[u8]) -> Passed {
    relay.client_data(data, 0.0, &Mutex::default())
}

fn answered(relay: &mut Relay, data: &[u8]) -> Passed {
    relay.broker_data(data, 0.0, &Mutex::default())
}

#[test]
fn what_is_forwarded_passes_up_to_what_is_not() {
    let mut relay = relay();
    let (first, second) = (request(1, 1, b"x"), request(3, 2, b""));
    let both = [first.clone(), second].concat();
    assert_eq!(sent(&mut relay, &both), stopped(first.len()));
    assert_eq!(relay.state().expected, VecDeque::from([exchange(1, 1)]));
}

#[test]
fn a_request_passes_in_pieces_and_its_head_waits_until_it_is_there() {
    let mut relay = relay();
    let frame = request(1, 1, &[7; 100]);
    assert_eq!(sent(&mut relay, &frame[..11]), passed(0));
    assert_eq!(sent(&mut relay, &frame[..50]), passed(50));
    assert_eq!((relay.missing_bytes(b""), &relay.state().receiving), (62, &Receiving::Last));
    assert_eq!(sent(&mut relay, &frame[50..]), passed(62));
    assert_eq!(relay.state().receiving, Receiving::Nothing);
}

#[test]
fn lengths_that_cannot_be_are_left_to_python() {
    for length in [-1_i32, 0, 7, 10_001, i32::MAX] {
        let mut frame = request(1, 1, b"");
        frame[..4].copy_from_slice(&length.to_be_bytes());
        assert_eq!(sent(&mut relay(), &frame), stopped(0), "{length}");
    }
    for length in [-1_i32, 0, 3] {
        let mut relay = relay();
        sent(&mut relay, &request(1, 1, b""));
        let mut frame = response(1, b"");
        frame[..4].copy_from_slice(&length.to_be_bytes());
        assert_eq!(answered(&mut relay, &frame), stopped(0), "{length}");
    }
}

#[test]
fn versions_that_cannot_be_are_left_to_python() {
    let table = table();
    for api_key in [0, 1, 5] {
        assert_eq!(table.action(api_key, -1), Action::Python);
        assert_eq!(table.action(api_key, i16::MIN), Action::Python);
    }
    assert_eq!(table.action(1, i16::MAX), Action::Forward);
    assert_eq!(table.action(0, 14), Action::Python);
}

#[test]
fn responses_pass_in_order_and_others_stop() {
    let mut relay = relay();
    sent(&mut relay, &[request(1, 1, b""), request(1, 2, b"")].concat());
    let first = response(1, b"one");
    let both = [first.clone(), response(3, b"")].concat();
    assert_eq!(answered(&mut relay, &both), stopped(first.len()));
    assert_eq!(relay.state().expected, VecDeque::from([exchange(1, 2)]));
    let second = response(2, b"");
    let more = [second.clone(), response(4, b"")].concat();
    assert_eq!(answered(&mut relay, &more), stopped(second.len()));
}

#[test]
fn a_request_without_acks_expects_no_response() {
    let mut relay = relay();
    let frame = request(0, 1, &produce_body(0, "t", b"records"));
    assert_eq!(sent(&mut relay, &frame), passed(frame.len()));
    assert!(relay.state().expected.is_empty());
    assert!(relay.state().unconfirmed);
}

#[test]
fn a_request_whose_acks_are_not_there_yet_waits() {
    let frame = request(0, 1, &produce_body(1, "t", b"records"));
    let mut relay = relay();
    for end in 12..22 {
        assert_eq!(sent(&mut relay, &frame[..end]), passed(0), "{end}");
    }
    assert_eq!(sent(&mut relay, &frame[..23]), passed(23));
    assert_eq!(read_acks(&frame[..15], VERSION, true), Acks::Unclear);
}

#[test]
fn a_request_with_strings_that_are_none_is_left_to_python() {
    let table = table();
    table.know_name(b"free", Topic::Unjudged, f64::INFINITY);
    let frame = request(0, 1, &produce_body(1, "free", b"records"));
    assert!(read_if_known(&frame, VERSION, 0.0, &table).is_some());
    let mut of_no_client = frame.clone();
    of_no_client[14] = 0xFF;
    let mut of_no_transaction = frame;
    of_no_transaction.splice(16..17, [2, 0xFF]);
    of_no_transaction[3] += 1;
    for frame in [of_no_client, of_no_transaction] {
        assert!(read_if_known(&frame, VERSION, 0.0, &table).is_none());
        assert_eq!(read_acks(&frame, VERSION, true), Acks::Unclear);
    }
}

#[test]
fn a_produce_response_that_names_leaders_is_left_to_python() {
    let mut relay = relay();
    let requests: Vec<u8> =
        (1..4).flat_map(|number| request(0, number, &produce_body(1, "t", b"r"))).collect();
    assert_eq!(sent(&mut relay, &requests), passed(requests.len()));
    let plain = response(1, &plain_response_body("t"));
    assert_eq!(answered(&mut relay, &plain[..plain.len() - 1]), passed(0));
    assert_eq!(answered(&mut relay, &plain), passed(plain.len()));
    let mut tagged = plain_response_body("t");
    *tagged.last_mut().unwrap() = 1;
    tagged.extend([0, 1, 7]);
    assert_eq!(answered(&mut relay, &response(2, &tagged)), stopped(0));
    assert!(!names_no_leaders(&response(2, &tagged), VERSION));
    assert!(!names_no_leaders(&[], VERSION));
}

/// A response to Produce for one partition of topics a and b, of which b has an error code.
fn response_of(version: i16, code: i16) -> Vec<u8> {
    let flexible = version >= 9;
    let count = |of: u8| if flexible { vec![of + 1] } else { vec![0, 0, 0, of] };
    let mut body = vec![0; usize::from(flexible)];
    body.extend(count(2));
    for (topic, code) in [(b'a', 0), (b'b', code)] {
        match version {
            13 => body.extend([topic; 16]),
            9.. => body.extend([2, topic]),
            _ => body.extend([0, 1, topic]),
        }
        body.extend(count(1));
        body.extend([0, 0, 0, 7]);
        body.extend(code.to_be_bytes());
        body.extend([0xFF; 16]);
        body.extend([0; 8].iter().filter(|_| version >= 5));
        match version {
            9.. => body.extend([1, 0, 0, 0]),
            8 => body.extend([0, 0, 0, 0, 0xFF, 0xFF]),
            _ => {}
        }
    }
    body.extend([0; 4]);
    body.extend([0].iter().filter(|_| flexible));
    response(1, &body)
}

#[test]
fn an_error_in_a_response_is_found_in_each_version() {
    for version in 3..=13 {
        assert!(!has_errors(&response_of(version, 0), version), "{version}");
        for code in [6, -1, 256] {
            let frame = response_of(version, code);
            assert!(has_errors(&frame, version), "{version}");
            for end in 0..frame.len() {
                assert!(!has_errors(&frame[..end], version), "{version}: {end}");
            }
            assert!(!has_errors(&[&frame[..], &[0]].concat(), version));
        }
    }
    assert!(names_no_leaders(&response_of(VERSION, 6), VERSION));
}

#[test]
fn an_error_in_a_response_is_found_behind_texts_and_tagged_fields() {
    let partition = [&[0, 0, 0, 7, 0, 87][..], &[0xFF; 24]].concat();
    let old = [&[0, 0, 0, 1, 0, 1, b'a', 0, 0, 0, 1][..], &partition[..]].concat();
    let errors = [0, 0, 0, 1, 0, 0, 0, 5, 0, 2, b'n', b'o', 0, 1, b'x', 0, 0, 0, 0];
    let old = response(1, &[&old[..], &errors].concat());
    let new = [&[1, 3, 1, b't', 2, 2, b'a', 2][..], &partition[..]].concat();
    let errors = [2, 0, 0, 0, 5, 3, b'n', b'o', 0, 2, b'x', 1, 0, 1, 9, 0, 0, 0, 0, 0, 0];
    let new = response(1, &[&new[..], &errors].concat());
    for (frame, version) in [(old, 8), (new, 9)] {
        assert!(has_errors(&frame, version), "{version}");
        assert!(!has_errors(&frame, 17 - version));
    }
}

#[test]
fn a_request_of_which_a_topic_is_not_known_to_be_unjudged_is_left_to_python() {
    let table = table();
    let acks =
        |frame: &[u8]| read_if_known(frame, VERSION, 0.0, &table).map(|request| request.acks);
    let frame = request(5, 1, &produce_body(-1, "free", b"records"));
    assert_eq!(acks(&frame), None);
    table.know_name(b"free", Topic::Unjudged, f64::INFINITY);
    assert_eq!(acks(&frame), Some(-1));
    for end in 0..frame.len() {
        assert_eq!(acks(&frame[..end]), None, "{end}");
    }
    assert_eq!(acks(&[&frame[..], b"\0"].concat()), None);
    assert_eq!(acks(&request(5, 1, &produce_body(2, "free", b"records"))), None);

    let mut relay = Relay::new(State::default(), Arc::clone(&table), LIMITS).unwrap();
    assert_eq!(sent(&mut relay, &frame[..frame.len() - 1]), passed(0));
    assert_eq!(sent(&mut relay, &frame), passed(frame.len()));
    assert!(relay.state().expected[0].was_held);
    let judged = request(5, 2, &produce_body(-1, "judged", b"records"));
    assert_eq!(sent(&mut relay, &judged), stopped(0));
    table.forget_topics();
    assert_eq!(sent(&mut relay, &frame), stopped(0));
}

#[test]
fn a_request_passes_if_all_its_records_are_accepted() {
    let mut relay = judging();
    let good = produced(1, &batch_of(&[r#"{"id": 1}"#, r#"{"id": 2}"#]));
    let bad = produced(2, &batch_of(&[r#"{"id": 1}"#, r#"{"no": 2}"#]));
    let counts = Mutex::new(Counts::new(&[1.0]));
    for end in 0..good.len() {
        assert_eq!(relay.client_data(&good[..end], 0.0, &counts), passed(0), "{end}");
    }
    let both = [good.clone(), bad].concat();
    assert_eq!(relay.client_data(&both, 0.0, &counts), stopped(good.len()));
    let counted = counts.lock().unwrap().collect().accepted;
    assert_eq!(counted.len(), 1);
    let (topic, policies, records, times) = &counted[0];
    assert_eq!((topic.as_str(), policies.as_str(), *records), ("t", "names", 2));
    assert_eq!(times.as_ref().unwrap().buckets.iter().sum::<u64>(), 1);
    assert!(counts.lock().unwrap().collect().accepted.is_empty());
}

#[test]
fn what_is_not_exactly_the_batch_of_a_producer_is_left_to_python() {
    let judge = Judge::new("", vec![], SMALL);
    let accepts = |data: &[u8]| judge.accepts(data, &mut { STEPS_A_READ });
    let good = batch_of(&["one", "two"]);
    assert_eq!(accepts(&good), Some(2));
    for end in 0..good.len() {
        assert_eq!(accepts(&good[..end]), None, "{end}");
    }
    assert_eq!(accepts(&[&good[..], b"\0"].concat()), None);
    let not_looked_at = 12..16; // the leader epoch, which has no checksum
    for at in 0..good.len() {
        for bit in 0..8 {
            let mut changed = good.clone();
            changed[at] ^= 1 << bit;
            assert_eq!(accepts(&changed).is_some(), not_looked_at.contains(&at), "{at} {bit}");
        }
    }
}

/// A frame of lz4 with these blocks; its flags say no more than that they are independent.
fn lz4_frame(blocks: &[&[u8]]) -> Vec<u8> {
    let mut frame = b"\x04\x22\x4d\x18\x60\x40\x82".to_vec();
    frame.extend(blocks.concat());
    frame.extend([0; 4]);
    frame
}

#[test]
fn lz4_frames_with_blocks_of_nothing_are_left_to_python() {
    const STORED: &[u8] = b"\x07\0\0\x80records";
    let lz4 = |blocks: &[&[u8]]| decompressed(3, &lz4_frame(blocks), 100);
    assert_eq!(lz4(&[STORED]).as_deref(), Some(b"records".as_slice()));
    assert_eq!(lz4(&[STORED, STORED]).as_deref(), Some(b"recordsrecords".as_slice()));
    for nothing in [b"\x01\0\0\0\0".as_slice(), b"\x01\0\0\0\x0f", b"\0\0\0\x80"] {
        assert_eq!(lz4(&[nothing]), None);
        assert_eq!(lz4(&[nothing, STORED]), None);
        assert_eq!(lz4(&[STORED, nothing]), None);
    }
}

#[test]
fn snappy_in_the_framing_of_any_version_is_read() {
    let framed = |version: u8| {
        [b"\x82SNAPPY\0\0\0\0", [version].as_slice(), b"\0\0\0\x01\0\0\0\x03\x01\0x"].concat()
    };
    for version in [0, 1, 2] {
        assert_eq!(decompressed(2, &framed(version), 100).as_deref(), Some(b"x".as_slice()));
    }
}

#[test]
fn headers_that_lie_are_left_to_python_though_their_checksum_is_right() {
    let judge = Judge::new("", vec![], SMALL);
    let accepts = |at: usize, bytes: &[u8]| {
        let mut changed = batch_of(&["one", "two"]);
        changed[at..at + bytes.len()].copy_from_slice(bytes);
        judge.accepts(&sealed(changed), &mut { STEPS_A_READ })
    };
    assert_eq!(accepts(57, &2_i32.to_be_bytes()), Some(2));
    for count in [i32::MIN, -1, 0, 1, 3, 1001, i32::MAX] {
        let last = count.wrapping_sub(1).to_be_bytes();
        assert_eq!(accepts(57, &count.to_be_bytes()), None, "{count}");
        assert_eq!(accepts(23, &last), None, "{count}");
        let mut both = batch_of(&["one", "two"]);
        both[23..27].copy_from_slice(&last);
        both[57..61].copy_from_slice(&count.to_be_bytes());
        assert_eq!(judge.accepts(&sealed(both), &mut { STEPS_A_READ }), None, "{count}");
    }
    for codec in 1..8 {
        assert_eq!(accepts(22, &[codec]), None, "{codec}");
    }
    assert_eq!(accepts(22, &[0x08]), None);
    assert_eq!(accepts(22, &[0x20]), None);
    assert_eq!(accepts(22, &[0x10]), Some(2)); // of a transaction
    assert_eq!(accepts(43, &[0; 8]), None); // a producer without a sequence number
    for length in [i32::MIN, -1, 0, 48, i32::MAX] {
        assert_eq!(accepts(8, &length.to_be_bytes()), None, "{length}");
    }
}

#[test]
fn larger_batches_are_left_to_python() {
    let accepts =
        |limits, data: &[u8]| Judge::new("", vec![], limits).accepts(data, &mut { STEPS_A_READ });
    let good = batch_of(&["one", "two"]);
    let limits = |max_bytes, max_records| batch::Limits { max_bytes, max_records };
    assert_eq!(accepts(limits(good.len(), 2), &good), Some(2));
    assert_eq!(accepts(limits(good.len() - 1, 2), &good), None);
    assert_eq!(accepts(limits(good.len(), 1), &good), None);
}

#[test]
fn each_check_has_its_say() {
    let accepts = |check: Check, value: &str| {
        let judge = Judge::new("", vec![check], SMALL);
        judge.accepts(&batch_of(&["[]", value]), &mut { STEPS_A_READ }).is_some()
    };
    let array = r#"{"type": "array"}"#;
    assert!(accepts(fits(array), "[1]"));
    assert!(!accepts(fits(array), "1"));
    assert!(!accepts(fits(array), "["));
    let keys = |text: &str| {
        let (keys, accepts_null, longest) = (true, true, usize::MAX);
        Check::Fits { keys, accepts_null, schema: schema(text), longest }
    };
    assert!(!accepts(keys(array), "[]")); // the keys are not JSON
    let short = Check::Fits { keys: false, accepts_null: true, schema: schema(array), longest: 3 };
    assert!(accepts(short, "[1]"));
    let short = Check::Fits { keys: false, accepts_null: true, schema: schema(array), longest: 3 };
    assert!(!accepts(short, "[12]"));
    assert!(accepts(Check::HasKey { accepts_empty: false }, ""));
    assert!(!accepts(Check::HasHeaders(vec!["h".into()]), ""));
    assert!(accepts(Check::HasHeaders(vec![]), ""));
    let sizes = |key, value, record| Check::Sizes { key, value, headers: Some(0), record };
    assert!(accepts(sizes(Some(1), Some(4), Some(5)), "1234"));
    assert!(!accepts(sizes(Some(0), None, None), "1234"));
    assert!(!accepts(sizes(None, Some(3), None), "1234"));
    assert!(!accepts(sizes(None, None, Some(4)), "1234"));
}

#[test]
fn records_with_one_of_some_headers_are_left_to_python() {
    let names = || vec!["mark".to_owned(), "other".to_owned()];
    let accepts = |headers: &[u8], steps: u64| {
        let judge = Judge::new("", vec![Check::HasNoHeaders(names())], SMALL);
        judge.accepts(&batch_with(&["1", "2"], headers), &mut { steps }).is_some()
    };
    assert!(accepts(&[0], STEPS_A_READ));
    assert!(accepts(b"\x04\x0amarks\x02x\x06mar\x01", STEPS_A_READ));
    assert!(!accepts(b"\x04\x06mar\x01\x08mark\x01", STEPS_A_READ)); // null, too, is there
    assert!(!accepts(b"\x02\x0aother\x02x", STEPS_A_READ));
    assert!(!accepts(b"\x04\x0amarks\x02x\x06mar\x01", 4)); // four headers are all the work
}

#[test]
fn all_judges_of_a_topic_have_to_accept_and_each_of_them_counts() {
    let judged = |text: &str, names: &str| {
        Judged::new("t", Arc::new(Judge::new(names, vec![fits(text)], SMALL)))
    };
    let names = r#"{"required": ["name"]}"#;
    let (enforced, observed) = (|| judged(WITH_ID, "enforced"), || judged(names, "observed"));
    for judges in [[enforced(), observed()], [observed(), enforced()]] {
        let table = table();
        table.know_name(b"t", Topic::Judged(Arc::new(judges)), f64::INFINITY);
        let mut relay = Relay::new(State::default(), table, LIMITS).unwrap();
        let counts = Mutex::new(Counts::new(&[1.0]));
        let mut sends = |value: &str| {
            let frame = produced(1, &batch_of(&[value]));
            relay.client_data(&frame, 1.0, &counts).bytes == frame.len()
        };
        assert!(!sends(r#"{"id": 1}"#));
        assert!(!sends(r#"{"name": "n"}"#));
        assert!(locked(&counts).collect().accepted.is_empty());
        assert!(sends(r#"{"id": 1, "name": "n"}"#));
        let mut found = locked(&counts).collect().accepted;
        found.sort_by(|one, other| one.1.cmp(&other.1));
        let named = found.iter().map(|(topic, by, count, _)| (&**topic, &**by, *count));
        let named: Vec<_> = named.collect();
        assert_eq!(named, [("t", "enforced", 1), ("t", "observed", 1)]);
    }
}

#[test]
fn batches_with_sequence_numbers_are_left_to_python_where_these_may_change() {
    let table = table();
    let judge = Arc::new(Judge::new("names", vec![fits(WITH_ID)], SMALL));
    table.know_name(b"t", Topic::Unnumbered(Arc::new([Judged::new("t", judge)])), f64::INFINITY);
    let plain = batch_of(&[r#"{"id": 1}"#]);
    let with_producer = |id: i64, sequence: i32| {
        let mut batch = plain.clone();
        batch[43..51].copy_from_slice(&id.to_be_bytes());
        batch[51..53].fill(0);
        batch[53..57].copy_from_slice(&sequence.to_be_bytes());
        sealed(batch)
    };
    let sends = |batch: &[u8]| {
        let mut relay = Relay::new(State::default(), Arc::clone(&table), LIMITS).unwrap();
        let frame = produced(1, batch);
        sent(&mut relay, &frame) == passed(frame.len())
    };
    assert!(sends(&plain));
    assert!(sends(&with_producer(-1, 0)));
    assert!(sends(&with_producer(i64::MIN, 0)));
    assert!(!sends(&batch_of(&["{}"])));
    for (id, sequence) in [(0, 0), (7, 5), (i64::MAX, 0), (7, -1)] {
        assert!(!sends(&with_producer(id, sequence)), "{id}");
    }
    for size in [0, 1, 60] {
        assert!(!sends(&plain[..size]), "{size}");
    }
    let forgotten = table.topics().forgotten();
    table.forget_numbered(b"t"); // sequence numbers change: it has none
    assert!(sends(&plain));
    assert_eq!(table.topics().forgotten(), forgotten);
    table.forget(b"t"); // policies change
    assert!(!sends(&plain));
}

#[test]
fn of_the_ids_of_a_topic_those_are_forgotten_whose_sequence_numbers_may_change() {
    let table = table();
    let unnumbered = || Topic::Unnumbered(Arc::new([]));
    table.know_name(b"t", unnumbered(), f64::INFINITY);
    table.know_id([1; 16], b"t", unnumbered());
    table.know_id([2; 16], b"t", Topic::Unjudged);
    let known = || {
        let topics = table.topics();
        let ids = [1, 2].map(|id| topics.with_id(&[id; 16]).is_some());
        (topics.named(b"t", 0.0).is_some(), ids, topics.forgotten())
    };
    table.forget_numbered(b"t");
    assert_eq!(known(), (true, [true, false], 1));
    table.forget_numbered(b"t");
    assert_eq!(known(), (true, [true, false], 1));
    table.know_id([1; 16], b"t", Topic::Unjudged);
    table.forget_numbered(b"t");
    assert_eq!(known(), (true, [false, false], 2));
    table.know_name(b"t", Topic::Unjudged, f64::INFINITY);
    table.forget_numbered(b"t");
    assert_eq!(known(), (false, [false, false], 3));
}

#[test]
fn what_is_too_much_work_for_one_read_is_left_to_python() {
    let table = table();
    let long = format!(r#"{{"items": {{"anyOf": [{}{{}}]}}}}"#, r#"{"type": "null"},"#.repeat(200));
    table.know_name(b"t", judged_by(vec![fits(&long)]), f64::INFINITY);
    let limits = Limits { request_max_bytes: 100_000, ..LIMITS };
    let mut relay = Relay::new(State::default(), table, limits).unwrap();
    let value = format!("[{}1]", "1,".repeat(200));
    let frame = produced(1, &batch_of(&[&value]));
    let many = frame.repeat(100);
    let found = sent(&mut relay, &many);
    assert!(found.stopped && found.bytes > 0 && found.bytes < many.len(), "{found:?}");
    assert_eq!(sent(&mut relay, &frame), passed(frame.len())); // the next read has its own work
}

#[test]
fn what_takes_too_long_in_one_read_is_left_to_python() {
    let table = table();
    table.know_name(b"t", judged_by(vec![fits(WITH_ID)]), f64::INFINITY);
    let frame = produced(1, &batch_of(&[r#"{"id": 1}"#]));
    let request = read_if_known(&frame, VERSION, 0.0, &table).unwrap();
    let accepts = |work: &mut Work| produce::accepts(&request, &frame, 0.0, &table, work).is_some();
    let mut work = Work::new(STEPS_A_READ, 1e-9);
    assert!(accepts(&mut work));
    assert!(work.seconds() > 1e-9);
    assert!(!accepts(&mut work));
    assert!(accepts(&mut Work::default()));
}

#[test]
fn a_large_batch_that_takes_too_long_is_left_before_its_end() {
    let large = batch::Limits { max_bytes: 1 << 20, max_records: 10_000 };
    let judge = Arc::new(Judge::new("names", vec![fits(WITH_ID)], large));
    let table = table();
    table.know_name(b"t", Topic::Judged(Arc::new([Judged::new("t", judge)])), f64::INFINITY);
    let value = format!(r#"{{"id": 1, "x": "{}"}}"#, "x".repeat(1000));
    let accepts = |records: usize, work: &mut Work| {
        let frame = produced(1, &batch_of(&vec![value.as_str(); records]));
        let request = read_if_known(&frame, VERSION, 0.0, &table).unwrap();
        produce::accepts(&request, &frame, 0.0, &table, work).is_some()
    };
    assert!(accepts(15, &mut Work::new(STEPS_A_READ, 1e-9))); // nobody looks at the clock
    assert!(!accepts(40, &mut Work::new(STEPS_A_READ, 1e-9)));
    assert!(accepts(100, &mut Work::new(STEPS_A_READ, 10.0)));
}

#[test]
fn a_long_text_is_not_judged() {
    let large = batch::Limits { max_bytes: 1 << 20, max_records: 10_000 };
    let judge = Judge::new("names", vec![fits(WITH_ID)], large);
    let accepts = |size: usize| {
        let value = format!(r#"{{"id": 1, "x": "{}"}}"#, "x".repeat(size));
        judge.accepts(&batch_of(&[&value]), &mut { STEPS_A_READ })
    };
    assert_eq!(accepts(32_000), Some(1));
    assert_eq!(accepts(33_000), None);
}

#[test]
fn to_look_for_headers_is_work() {
    let mut headers = Vec::new();
    put_varint(&mut headers, 300);
    for number in 0..300 {
        headers.extend([2, if number < 299 { b'a' } else { b'z' }, 1]);
    }
    let batch = batch_with(&["v"; 20], &headers);
    let accepts = |names: usize, steps| {
        let check = Check::HasHeaders(vec!["z".into(); names]);
        Judge::new("", vec![check], SMALL).accepts(&batch, &mut { steps })
    };
    assert_eq!(accepts(10, STEPS_A_READ), Some(20));
    assert_eq!(accepts(100, STEPS_A_READ), None);
    assert_eq!(accepts(10, 20 * 300 * 10 + 1), Some(20));
    assert_eq!(accepts(10, 20 * 300 * 10), None);
}

#[test]
fn a_request_is_sent_when_its_batches_have_been_judged() {
    let mut relay = judging();
    let frame = produced(1, &batch_of(&[r#"{"id": 1}"#]));
    assert_eq!(relay.client_data(&frame, 0.5, &Mutex::default()), passed(frame.len()));
    let exchange = relay.state().expected[0];
    assert!((0.5..=0.5).contains(&exchange.received_at));
    assert!(exchange.sent_at > exchange.received_at);
}

/// A request with two topics, of two partitions each.
fn of_two_topics(names: [u8; 2], numbers: [u8; 2]) -> Vec<u8> {
    let mut body = produce_body(1, "", b"");
    body.truncate(11);
    body.push(3);
    for name in names {
        body.extend([2, name, 3, 0, 0, 0, numbers[0], 1, 0, 0, 0, 0, numbers[1], 1, 0, 0]);
    }
    body.push(0);
    request(5, 1, &body)
}

#[test]
fn a_request_that_names_a_topic_or_partition_twice_is_left_to_python() {
    let table = table();
    table.know_name(b"a", Topic::Unjudged, f64::INFINITY);
    table.know_name(b"b", Topic::Unjudged, f64::INFINITY);
    let is_read = |frame: &[u8]| read_if_known(frame, VERSION, 0.0, &table).is_some();
    assert!(is_read(&of_two_topics(*b"ab", [0, 1])));
    assert!(!is_read(&of_two_topics(*b"aa", [0, 1])));
    assert!(!is_read(&of_two_topics(*b"ab", [1, 1])));
}

#[test]
fn records_of_too_many_topics_are_counted_by_their_policies() {
    let mut counts = Counts::new(&[1.0]);
    for number in 0..1002 {
        let judge =
            Arc::new(Judge::new(if number % 2 == 0 { "even" } else { "odd" }, vec![], SMALL));
        counts.accepted(&Judged::new(&format!("t{number}"), judge).labels, 3, 0.1);
    }
    let mut others = counts.collect().accepted;
    others.retain(|(topic, ..)| topic == "(other)");
    let mut named: Vec<_> = others.iter().map(|(_, names, count, _)| (&**names, *count)).collect();
    named.sort_unstable();
    assert_eq!(named, [("even", 3), ("odd", 3)]);
}

#[test]
fn a_request_is_judged_by_what_is_known_of_its_topics_when_it_is_read() {
    let table = table();
    let (good, bad) = (batch_of(&[r#"{"id": 1}"#]), batch_of(&["{}"]));
    let mut relay = Relay::new(State::default(), Arc::clone(&table), LIMITS).unwrap();
    table.know_name(b"t", judged_by(vec![fits(WITH_ID)]), f64::INFINITY);
    assert_eq!(sent(&mut relay, &produced(1, &bad)), stopped(0));
    table.know_name(b"t", judged_by(vec![fits("{}")]), f64::INFINITY);
    let frame = produced(1, &bad);
    assert_eq!(sent(&mut relay, &frame), passed(frame.len()));
    table.know_name(b"free", Topic::Unjudged, f64::INFINITY);
    table.forget(b"t");
    assert_eq!(sent(&mut relay, &produced(2, &good)), stopped(0));
    let free = request(5, 2, &produce_body(1, "free", &bad));
    assert_eq!(sent(&mut relay, &free), passed(free.len()));
}

#[test]
fn a_topic_is_forgotten_by_its_name_with_its_ids_and_no_other_topic() {
    let table = table();
    let judged = |name: &str| {
        Topic::Judged(Arc::new([Judged::new(name, Arc::new(Judge::new("", vec![], SMALL)))]))
    };
    for (name, ids) in [("one", [1, 2]), ("two", [3, 4])] {
        table.know_name(name.as_bytes(), judged(name), f64::INFINITY);
        for id in ids {
            table.know_id([id; 16], name.as_bytes(), judged(name));
        }
    }
    for (name, id) in [("free", 5), ("other", 6)] {
        table.know_name(name.as_bytes(), Topic::Unjudged, f64::INFINITY);
        table.know_id([id; 16], name.as_bytes(), Topic::Unjudged);
    }
    for name in ["one", "free", "unknown"] {
        table.forget(name.as_bytes());
    }
    let topics = table.topics();
    let names =
        ["one", "two", "free", "other"].map(|name| topics.named(name.as_bytes(), 0.0).is_some());
    assert_eq!(names, [false, true, false, true]);
    let ids = [1, 2, 3, 4, 5, 6].map(|id| topics.with_id(&[id; 16]).is_some());
    assert_eq!(ids, [false, false, true, true, false, true]);
}

#[test]
fn a_topic_that_is_known_by_its_id_alone_is_forgotten_by_its_name() {
    let table = table();
    table.know_id([1; 16], b"t", Topic::Unjudged);
    table.forget(b"t");
    assert!(table.topics().with_id(&[1; 16]).is_none());
}

#[test]
fn what_is_judged_while_a_topic_is_forgotten_does_not_pass_and_is_not_counted() {
    let table = table();
    let frame = produced(1, &batch_of(&[r#"{"id": 1}"#]));
    let know = || table.know_name(b"t", judged_by(vec![fits(WITH_ID)]), f64::INFINITY);
    let passes = |request| {
        let accepted = produce::accepts(&request, &frame, 0.0, &table, &mut Work::default());
        accepted.map(|batches| batches.iter().map(|batch| batch.records).collect::<Vec<_>>())
    };
    let others = || (0_u32..20_000).map(|number| format!("t-{number}"));
    let forgets: [&dyn Fn(); 6] = [
        &|| table.forget(b"t"),
        &|| table.forget_topics(),
        &|| others().for_each(|name| table.know_name(name.as_bytes(), Topic::Unjudged, 1.0)),
        &|| {
            for (number, name) in (0_u128..).zip(others()) {
                table.know_id(number.to_be_bytes(), name.as_bytes(), Topic::Unjudged);
            }
            table.know_id([255; 16], b"t", Topic::Unjudged);
        },
        &know,
        &|| table.forget(b"unknown"),
    ];
    let mut found = Vec::new();
    for forget in forgets {
        know();
        let request = read_if_known(&frame, VERSION, 0.0, &table).unwrap();
        forget();
        know(); // again: facts that were read before no longer hold
        found.push(passes(request));
    }
    let all = Some(vec![1]);
    assert_eq!(found, [None, None, None, None, all.clone(), all]);
}

#[test]
fn what_is_judged_while_another_topic_is_forgotten_passes_and_is_counted() {
    let table = table();
    let frame = produced(1, &batch_of(&[r#"{"id": 1}"#]));
    let free = request(5, 2, &produce_body(1, "free", &batch_of(&["{}"])));
    let mut found = Vec::new();
    for forgotten in ["other", "free", "t"] {
        table.know_name(b"t", judged_by(vec![fits(WITH_ID)]), f64::INFINITY);
        table.know_name(b"free", Topic::Unjudged, f64::INFINITY);
        table.know_name(b"other", Topic::Unjudged, f64::INFINITY);
        let read = [&frame, &free]
            .map(|frame| (frame, read_if_known(frame, VERSION, 0.0, &table).unwrap()));
        table.forget(forgotten.as_bytes());
        found.extend(read.map(|(frame, request)| {
            let accepted = produce::accepts(&request, frame, 0.0, &table, &mut Work::default());
            accepted.map(|batches| batches.len())
        }));
    }
    assert_eq!(found, [Some(1), Some(0), Some(1), None, None, Some(0)]);
}

#[test]
fn a_topic_that_has_a_judge_since_it_was_forgotten_is_not_as_it_was_read() {
    let table = table();
    let free = request(5, 1, &produce_body(1, "free", &batch_of(&["{}"])));
    for (known, passes) in [(judged_by(vec![fits("{}")]), false), (Topic::Unjudged, true)] {
        table.know_name(b"free", Topic::Unjudged, f64::INFINITY);
        let request = read_if_known(&free, VERSION, 0.0, &table).unwrap();
        table.forget(b"free");
        table.know_name(b"free", known, f64::INFINITY);
        assert_eq!(request.holds(&free, 0.0, &table), passes);
    }
}

#[test]
fn the_names_by_which_topics_are_forgotten_are_known() {
    let table = table();
    table.know_name(b"name", Topic::Unjudged, 5.0);
    for id in [1, 2] {
        table.know_id([id; 16], b"of ids", Topic::Unjudged);
    }
    let mut names: Vec<_> = table.names().into_iter().collect();
    names.sort_unstable();
    assert_eq!(names, [(*b"name").into(), Box::from(*b"of ids")]);
}

#[test]
fn a_name_is_known_until_its_time_and_no_other() {
    let table = table();
    table.know_name(b"old", Topic::Unjudged, 5.0);
    table.know_name(b"new", Topic::Unjudged, 6.0);
    let topics = table.topics();
    let known = |now| [b"old", b"new"].map(|name| topics.named(name, now).is_some());
    assert_eq!(known(4.9), [true, true]);
    assert_eq!(known(5.0), [false, true]);
    assert_eq!(known(6.0), [false, false]);
}

#[test]
fn a_panic_closes_its_connection_and_no_other_and_only_its_place_is_kept() {
    let lane = lane();
    let (first, mut second) =
        (adopted(&lane, State::default(), b""), adopted(&lane, State::default(), b""));
    lane.panic_with(first.number).unwrap();
    let back = given_back(&lane, first.number);
    assert!(back.client_failed && back.broker_failed);
    let errors = lane.errors();
    assert!(matches!(&errors[..], [place] if place.contains("threads.rs:")), "{errors:?}");
    assert!(lane.errors().is_empty());
    assert_eq!(lane.panics(), 1);
    let frame = request(1, 1, b"x");
    second.client.write_all(&frame).unwrap();
    assert_eq!(received(&mut second.broker, frame.len()), frame);
}

#[test]
fn whether_a_connection_is_taken_is_found_out_without_judging() {
    let relay = judging();
    assert!(!relay.begins_with_pythons(&produced(1, &batch_of(&["{}"])), 0.0));
    assert!(relay.begins_with_pythons(&request(5, 1, &produce_body(1, "other", b"")), 0.0));
}

#[test]
fn the_deepest_schema_has_room_on_the_stack_of_a_thread() {
    let links = 1_990;
    let chain: Vec<String> = (0..links)
        .map(|number| {
            format!(r##""s{number}": {{"allOf": [{{"$ref": "#/$defs/s{}"}}]}}"##, number + 1)
        })
        .collect();
    let text = format!(
        r##"{{"$ref": "#/$defs/s0", "$defs": {{{}, "s{links}": {{"type": "object"}}}}}}"##,
        chain.join(",")
    );
    let (lane, table) = (lane(), table());
    table.know_name(b"t", judged_by(vec![fits(&text)]), f64::INFINITY);
    let mut ends = adopted_by(&lane, table, State::default(), b"");
    let frame = produced(1, &batch_of(&["{}"]));
    ends.client.write_all(&frame).unwrap();
    let back = given_back(&lane, ends.number); // it is deeper than a lane judges
    assert_eq!((back.from_client, lane.panics()), (frame, 0));
}

#[test]
fn an_authentication_that_has_expired_is_left_to_python() {
    let limits = Limits { valid_until: 10.0, ..LIMITS };
    let mut relay = Relay::new(State::default(), table(), limits).unwrap();
    let frame = request(1, 1, b"");
    assert_eq!(relay.client_data(&frame, 10.0, &Mutex::default()), passed(frame.len()));
    assert_eq!(relay.client_data(&frame, 10.1, &Mutex::default()), stopped(0));
}

#[test]
fn a_state_that_needs_python_is_not_taken() {
    let with = |api_key| State { expected: [exchange(api_key, 1)].into(), ..State::default() };
    assert!(Relay::new(with(3), table(), LIMITS).is_none());
    assert!(Relay::new(with(1), table(), LIMITS).is_some());
    let without = State { request_left: 1, ..State::default() };
    assert!(Relay::new(without, table(), LIMITS).is_none());
}

#[test]
fn a_client_gets_only_so_far_ahead() {
    let mut relay = relay();
    let frame = request(1, 1, b"");
    let many = frame.repeat(300);
    assert_eq!(sent(&mut relay, &many), passed(256 * frame.len()));
    assert!(relay.is_suspended());
    let answer = response(1, b"");
    answered(&mut relay, &answer.repeat(127));
    assert!(!relay.resume());
    answered(&mut relay, &answer);
    assert!(relay.resume());
    assert!(!relay.is_suspended());
}

#[test]
fn a_client_that_was_too_far_ahead_is_read_again() {
    let lane = lane();
    let mut ends = adopted(&lane, State::default(), b"");
    let frame = request(1, 1, b"");
    ends.client.write_all(&frame.repeat(300)).unwrap();
    received(&mut ends.broker, 256 * frame.len());
    ends.broker.write_all(&response(1, b"").repeat(128)).unwrap();
    received(&mut ends.broker, 44 * frame.len());
    ends.client.write_all(&frame).unwrap();
    received(&mut ends.broker, frame.len());
}

#[test]
fn random_bytes_never_pass_more_than_there_are_and_never_panic() {
    let mut seed = 0x9E37_79B9_7F4A_7C15_u64;
    let mut next = || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    };
    let rounds = std::env::var("FUZZ_INPUTS").map_or(200_000, |count| count.parse().unwrap());
    let table = table();
    table.know_name(b"t", Topic::Unjudged, f64::INFINITY);
    for _ in 0..rounds {
        let mut relay = Relay::new(State::default(), Arc::clone(&table), LIMITS).unwrap();
        let mut data = Vec::new();
        for number in 0..next() % 4 {
            let api_key = [0, 1, 3, 5][usize::try_from(next() % 4).unwrap()];
            let number = i32::try_from(number).unwrap();
            data.extend(request(api_key, number, &produce_body(1, "t", b"records")));
        }
        for _ in 0..next() % 4 {
            if let Some(place) = usize::try_from(next()).unwrap().checked_rem(data.len()) {
                data[place] = u8::try_from(next() % 256).unwrap();
            }
        }
        data.truncate(usize::try_from(next()).unwrap() % (data.len() + 1));
        let found = sent(&mut relay, &data);
        assert!(found.bytes <= data.len());
        let mut answers: Vec<u8> = relay
            .state()
            .expected
            .iter()
            .flat_map(|one| response(one.correlation_id, &plain_response_body("t")))
            .collect();
        if let Some(place) = usize::try_from(next()).unwrap().checked_rem(answers.len()) {
            answers[place] = u8::try_from(next() % 256).unwrap();
        }
        assert!(answered(&mut relay, &answers).bytes <= answers.len());
    }
}

#[test]
fn random_batches_are_judged_or_left_and_never_panic() {
    let mut seed = 0x2545_F491_4F6C_DD1D_u64;
    let mut next = || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        usize::try_from(seed % (1 << 31)).unwrap()
    };
    let rounds = std::env::var("FUZZ_INPUTS").map_or(100_000, |count| count.parse().unwrap());
    let good =
        batch_of(&[r#"{"id": "x\u00e9", "n": [1, 2.5e3]}"#, r#"{"id": 1}"#, r#"{"id": {}}"#]);
    let sizes = Check::Sizes { key: Some(9), value: Some(99), headers: Some(9), record: Some(99) };
    let checks = vec![fits(WITH_ID), sizes, Check::HasKey { accepts_empty: true }];
    let judge = Judge::new("", checks, SMALL);
    let mut accepted = 0;
    for _ in 0..rounds {
        let mut data = good.clone();
        for _ in 0..next() % 4 {
            let at = 21 + next() % (data.len() - 21);
            match next() % 3 {
                0 => data[at] = u8::try_from(next() % 256).unwrap(),
                1 => data[at] ^= 1 << (next() % 8),
                _ => drop(data.remove(at)),
            }
        }
        let length = i32::try_from(data.len() - 12).unwrap();
        data[8..12].copy_from_slice(&length.to_be_bytes());
        let data = if data.len() < 61 { data } else { sealed(data) };
        accepted += usize::from(judge.accepts(&data, &mut { STEPS_A_READ }).is_some());
    }
    assert!(accepted > rounds / 10 && accepted < rounds, "{accepted}");
}

// In slices

const LARGE: batch::Limits = batch::Limits { max_bytes: 16 << 20, max_records: 100_000 };
const FRAMES: Limits = Limits { request_max_bytes: 100_000_000, ..LIMITS };

/// A table that judges topic t by some checks, also in large batches.
fn large_table(checks: Vec<Check>) -> Arc<Table> {
    let table = table();
    let judge = Arc::new(Judge::new("names", checks, LARGE));
    table.know_name(b"t", Topic::Judged(Arc::new([Judged::new("t", judge)])), f64::INFINITY);
    table
}

fn with_key() -> Vec<Check> {
    vec![Check::HasKey { accepts_empty: false }]
}

/// The batch with its records compressed, or in another form: they follow the header.
fn with_codec(batch: &[u8], codec: u8, records: &[u8]) -> Vec<u8> {
    let mut changed = [&batch[..61], records].concat();
    changed[22] = codec;
    let length = i32::try_from(changed.len() - 12).unwrap();
    changed[8..12].copy_from_slice(&length.to_be_bytes());
    sealed(changed)
}

/// A batch of so many records of so many bytes.
fn large_batch(records: usize, bytes: usize) -> Vec<u8> {
    let value = format!(r#"{{"id": 1, "x": "{}"}}"#, "x".repeat(bytes));
    batch_of(&vec![value.as_str(); records])
}

/// Judge slices of a request, of a step each, until there is no more to do; return their number.
fn judged_in_slices(relay: &mut Relay, frame: &[u8], counts: &Mutex<Counts>) -> (usize, Slice) {
    let mut slices = 0;
    loop {
        slices += 1;
        match relay.judge_slice(frame, 0.0, 0.0, counts) {
            Slice::GoesOn | Slice::Between => assert!(relay.is_judging()),
            last => return (slices, last),
        }
    }
}

#[test]
fn a_large_batch_is_judged_in_slices_while_no_bytes_of_its_client_pass() {
    let counts = Mutex::new(Counts::new(&[1.0]));
    let mut relay = Relay::new(State::default(), large_table(with_key()), FRAMES).unwrap();
    let frame = produced(1, &large_batch(1900, 1000));
    let both = [frame.clone(), request(1, 2, b"")].concat();
    assert!(frame.len() > 1_900_000);
    assert_eq!(relay.client_data(&both[..frame.len() - 1], 0.5, &counts), passed(0));
    assert!(!relay.is_judging());
    for _ in 0..3 {
        assert_eq!(relay.client_data(&both, 1.0, &counts), passed(0));
        assert!(relay.is_judging());
    }
    let (slices, last) = judged_in_slices(&mut relay, &both, &counts);
    assert!(slices > 50, "{slices}");
    assert_eq!(last, Slice::Accepted);
    let exchange = relay.state().expected[0];
    assert!(exchange.was_held && (0.5..=0.5).contains(&exchange.received_at));
    assert_eq!(relay.client_data(&both, 2.0, &counts), passed(both.len()));
    assert_eq!(relay.unanswered(), 2);
    assert_eq!(relay.sliced_bytes(), 0);
    let counted = locked(&counts).collect().accepted;
    assert_eq!(counted.len(), 1);
    assert_eq!((&*counted[0].0, counted[0].2), ("t", 1900));
}

#[test]
fn an_error_of_the_broker_in_front_of_a_large_batch_is_left_to_python() {
    let counts = Mutex::new(Counts::new(&[1.0]));
    for (code, outcome) in [(0, passed as fn(usize) -> Passed), (6, |_| stopped(0))] {
        let mut relay = Relay::new(State::default(), large_table(with_key()), FRAMES).unwrap();
        let first = produced(1, &batch_of(&["x"]));
        assert_eq!(relay.client_data(&first, 1.0, &counts), passed(first.len()));
        let frame = produced(2, &large_batch(1900, 1000));
        assert_eq!(relay.client_data(&frame, 1.0, &counts), passed(0));
        assert!(relay.is_judging());
        let response = response_of(VERSION, code);
        assert_eq!(relay.broker_data(&response[..20], 1.0, &counts), passed(0));
        assert_eq!(relay.broker_data(&response, 1.0, &counts), outcome(response.len()));
    }
}

#[test]
fn a_large_batch_of_which_a_record_is_not_accepted_is_left_to_python() {
    let counts = Mutex::new(Counts::new(&[1.0]));
    let value = format!(r#"{{"id": "{}"}}"#, "x".repeat(2000));
    for bad in [0, 1, 57, 99] {
        let mut values = vec![value.as_str(); 100];
        values[bad] = "{}";
        let frame = produced(1, &batch_of(&values));
        let checks = vec![with_key().remove(0), fits(WITH_ID)];
        let mut relay = Relay::new(State::default(), large_table(checks), FRAMES).unwrap();
        assert_eq!(relay.client_data(&frame, 0.0, &counts), passed(0));
        assert_eq!(judged_in_slices(&mut relay, &frame, &counts).1, Slice::Pythons);
        assert!(!relay.is_judging() && relay.state() == &State::default());
    }
    assert!(locked(&counts).collect().accepted.is_empty());
}

#[test]
fn all_batches_of_a_request_are_judged_in_slices_by_all_judges() {
    let judged = |names: &str, check: Check| {
        Judged::new("t", Arc::new(Judge::new(names, vec![check], LARGE)))
    };
    let has_key = || Check::HasKey { accepts_empty: false };
    let sizes = |record| Check::Sizes { key: None, value: None, headers: None, record };
    let batch = large_batch(100, 1000);
    let mut body = produce_body(1, "t", &batch);
    body.truncate(body.len() - 2); // another partition of the topic
    body[14] = 3;
    body.extend([0, 0, 0, 1]);
    put_unsigned_varint(&mut body, u32::try_from(batch.len() + 1).unwrap());
    body.extend([&batch[..], &[0, 0, 0]].concat());
    let frame = request(5, 1, &body);
    for (record, accepts) in [(5000, true), (900, false)] {
        let table = table();
        let judges = [judged("a", has_key()), judged("b", sizes(Some(record)))];
        table.know_name(b"t", Topic::Judged(Arc::new(judges)), f64::INFINITY);
        let mut relay = Relay::new(State::default(), table, FRAMES).unwrap();
        let counts = Mutex::new(Counts::new(&[1.0]));
        assert_eq!(relay.client_data(&frame, 0.0, &counts), passed(0));
        let last = judged_in_slices(&mut relay, &frame, &counts).1;
        assert_eq!(last == Slice::Accepted, accepts);
        let mut counted = locked(&counts).collect().accepted;
        counted.sort_by(|one, other| one.1.cmp(&other.1));
        let counted: Vec<_> = counted.iter().map(|of| (of.1.as_str(), of.2)).collect();
        assert_eq!(counted, if accepts { vec![("a", 200), ("b", 200)] } else { vec![] });
    }
}

#[test]
fn a_name_that_is_not_known_any_more_after_the_last_slice_is_pythons() {
    let frame = produced(1, &large_batch(1000, 1000));
    let judge = Arc::new(Judge::new("names", with_key(), LARGE));
    let topic = Topic::Judged(Arc::new([Judged::new("t", judge)]));
    let table = table();
    for (known_again, at, last) in [
        (None, 4.9, Slice::Accepted),
        (None, 5.0, Slice::Pythons),
        (Some(topic.clone()), 6.0, Slice::Accepted),
        (Some(Topic::Unjudged), 6.0, Slice::Pythons),
    ] {
        table.know_name(b"t", topic.clone(), 5.0);
        let mut relay = Relay::new(State::default(), Arc::clone(&table), FRAMES).unwrap();
        assert_eq!(relay.client_data(&frame, 0.0, &Mutex::default()), passed(0));
        if let Some(topic) = known_again {
            table.know_name(b"t", topic, 10.0);
        }
        assert_eq!(relay.judge_slice(&frame, at, f64::INFINITY, &Mutex::default()), last);
    }
}

#[test]
fn native_batches_of_a_request_that_waits_for_a_worker_are_counted_when_it_passes() {
    for records in [1, 200] {
        let frame = produced(1, &large_batch(records, 1000)); // at once, and in slices
        for outcome in [Outcome::Accepted, Outcome::Verdict] {
            let ring = Arc::new(Ring::new(1, 2).unwrap());
            let done: Vec<_> = ring.done().map(|each| each.as_raw_fd()).collect();
            let (memory, work) = (ring.memory().as_raw_fd(), ring.work().as_raw_fd());
            let mut reader = Reader::open(memory, work, &done).unwrap();
            let pool = Pool::default();
            pool.set(vec![Some(Arc::clone(&ring))]);
            let table = table();
            let judge = Judged::new("t", Arc::new(Judge::new("native", with_key(), LARGE)));
            let worked = Worked::new("t", "worker", b"plan", [0; 16], Arc::new(pool));
            let worked = Arc::new(worked.beside(Arc::new([judge]), None));
            table.know_name(b"t", Topic::Worked(worked), f64::INFINITY);
            let lane = Lane::start(2, &[1.0], usize::MAX, 0.0).unwrap();
            let mut ends = adopted_by(&lane, Arc::clone(&table), State::default(), &frame);
            until(|| reader.has_more());
            let slot = reader.begin_next().unwrap();
            reader.reply(slot, outcome, 5);
            reader.say();
            let mut names = vec![];
            if outcome == Outcome::Accepted {
                assert!(received(&mut ends.broker, frame.len()) == frame);
                names = vec![("native".to_owned(), 1), ("worker".to_owned(), 1)];
            } else {
                given_back(&lane, ends.number);
            }
            let counts = lane.collect().into_iter().flat_map(|counts| counts.accepted);
            let batches = |times: Option<Times>| times.unwrap().buckets.iter().sum::<u64>();
            let mut counts: Vec<_> = counts.map(|of| (of.1, batches(of.3))).collect();
            counts.sort_unstable();
            assert_eq!(counts, names, "{records} {outcome:?}");
        }
    }
}

#[test]
fn a_request_whose_client_does_not_wait_for_as_long_as_others_is_pythons_if_it_would_wait() {
    let worked = Worked::new("w", "worker", b"plan", [0; 16], Arc::default());
    let table = large_table(with_key());
    table.know_name(b"w", Topic::Worked(Arc::new(worked)), f64::INFINITY);
    let waits = [
        ("t", large_batch(200, 1000), true),
        ("t", batch_of(&[r#"{"id": 1}"#]), false),
        ("w", batch_of(&["a"]), true),
    ];
    for (topic, batch, waits) in waits {
        for (timeout_ms, is_pythons) in [(6_999, waits), (7_000, false)] {
            let mut body = produce_body(1, topic, &batch);
            body[7..11].copy_from_slice(&i32::to_be_bytes(timeout_ms));
            let frame = request(5, 1, &body);
            let mut relay = Relay::new(State::default(), Arc::clone(&table), FRAMES).unwrap();
            let bytes = if waits { 0 } else { frame.len() };
            let expected = if is_pythons { stopped(0) } else { passed(bytes) };
            assert_eq!(sent(&mut relay, &frame), expected, "{topic} {timeout_ms}");
        }
    }
}

#[test]
fn a_topic_that_is_forgotten_between_slices_is_pythons() {
    let frame = produced(1, &large_batch(1000, 1000));
    for (name, last) in [("t", Slice::Pythons), ("other", Slice::Accepted)] {
        let table = large_table(with_key());
        table.know_name(b"other", Topic::Unjudged, f64::INFINITY);
        let mut relay = Relay::new(State::default(), Arc::clone(&table), FRAMES).unwrap();
        assert_eq!(sent(&mut relay, &frame), passed(0));
        assert_eq!(relay.judge_slice(&frame, 0.0, 0.0, &Mutex::default()), Slice::GoesOn);
        table.forget(name.as_bytes());
        let counts = Mutex::new(Counts::new(&[1.0]));
        assert_eq!(judged_in_slices(&mut relay, &frame, &counts).1, last);
        assert_eq!(relay.state().expected.len(), usize::from(last == Slice::Accepted));
        assert_eq!(locked(&counts).collect().accepted.len(), relay.state().expected.len());
    }
}

#[test]
fn records_that_are_compressed_are_judged_in_slices_if_they_are_too_many_for_a_read() {
    let batch = large_batch(2000, 1000);
    let mut blocks = Vec::new();
    for block in batch[61..].chunks(60_000) {
        let stored = u32::try_from(block.len()).unwrap() | 0x8000_0000;
        blocks.extend([&stored.to_le_bytes(), block].concat());
    }
    let of = |blocks: &[u8], codec| produced(1, &with_codec(&batch, codec, &lz4_frame(&[blocks])));
    let result = |frame: &[u8]| {
        let mut relay = Relay::new(State::default(), large_table(with_key()), FRAMES).unwrap();
        assert_eq!(sent(&mut relay, frame), passed(0));
        judged_in_slices(&mut relay, frame, &Mutex::default())
    };
    assert!(blocks.len() > 1_900_000);
    let (slices, last) = result(&of(&blocks, 3));
    assert!(slices > 50 && last == Slice::Accepted, "{slices} {last:?}");
    assert_eq!(result(&of(&blocks[..blocks.len() - 1], 3)).1, Slice::Pythons);
    assert_eq!(result(&of(&blocks, 2)).1, Slice::Pythons);
    // A copy of 255 bytes for each that there are, so a short batch is judged in slices, too.
    let short = batch_of(&vec!["1"; 70_000]);
    assert!(short.len() > 256 * 1024);
    let mut lie = with_codec(&short, 3, &lz4_frame(&[&[1, 0, 0, 0x80, 0]]));
    assert!(lie.len() < 100);
    assert_eq!(result(&produced(1, &lie)).1, Slice::Pythons);
    lie[17] ^= 1;
    assert_eq!(result(&produced(1, &lie)).1, Slice::Pythons);
}

/// A gzip member of blocks, which are whole bytes, and of a last block with these bytes.
fn gzip_member(blocks: &[u8], content: &[u8]) -> Vec<u8> {
    let mut member = b"\x1f\x8b\x08\0\0\0\0\0\0\xff".to_vec();
    member.extend(blocks);
    let size = u16::try_from(content.len()).unwrap();
    member.push(1); // the last block, stored
    member.extend([size.to_le_bytes(), (!size).to_le_bytes()].concat());
    member.extend(content);
    let mut crc = flate2::Crc::new();
    crc.update(content);
    member.extend([crc.sum().to_le_bytes(), crc.amount().to_le_bytes()].concat());
    member
}

#[test]
fn blocks_of_gzip_without_content_are_read_in_slices() {
    let batch = large_batch(20, 1000);
    let blocks = b"\0\0\0\xff\xff".repeat(300_000);
    let frame = produced(1, &with_codec(&batch, 1, &gzip_member(&blocks, &batch[61..])));
    let mut relay = Relay::new(State::default(), large_table(with_key()), FRAMES).unwrap();
    assert_eq!(sent(&mut relay, &frame), passed(0));
    let (slices, last) = judged_in_slices(&mut relay, &frame, &Mutex::default());
    assert_eq!(last, Slice::Accepted);
    assert!(slices > blocks.len() / 10_000, "{slices}");
}

/// Eight blocks of deflate with a tree of codes each, and without content.
const DYNAMIC: &[u8] =
    b"\x04\xc0\x01\x09\x00\x00\x00\x00\x10\xff\x57\x93\x00\x38\x20\x01\x00\x00\x00\x00\
    \xe2\xff\x6a\x12\x00\x07\x24\x00\x00\x00\x00\x40\xfc\x5f\x4d\x02\xe0\x80\x04\x00\
    \x00\x00\x00\x88\xff\xab\x49\x00\x1c\x90\x00\x00\x00\x00\x00\xf1\x7f\x35\x09\x80\
    \x03\x12\x00\x00\x00\x00\x20\xfe\xaf\x26\x01\x70\x40\x02\x00\x00\x00\x00\xc4\xff\
    \xd5\x24\x00\x0e\x48\x00\x00\x00\x00\x80\xf8\xbf\x9a";

#[test]
fn records_that_are_decompressed_slowly_do_not_suspend_their_judge() {
    let batch = large_batch(2, 1000);
    let member = gzip_member(&DYNAMIC.repeat(4_000), &batch[61..]);
    let frame = produced(1, &with_codec(&batch, 1, &member));
    let mut relay = Relay::new(State::default(), large_table(with_key()), FRAMES).unwrap();
    assert_eq!(sent(&mut relay, &frame), passed(0));
    assert_eq!(judged_in_slices(&mut relay, &frame, &Mutex::default()).1, Slice::Accepted);
    assert_eq!(sent(&mut relay, &frame).bytes, frame.len());
    let small = produced(2, &large_batch(1, 10));
    assert_eq!(sent(&mut relay, &small), passed(small.len()));
}

#[test]
fn zstd_frames_of_many_blocks_are_left_to_python() {
    let batch = large_batch(20, 1000);
    let block = |content: &[u8], is_last: usize| {
        let header = content.len() << 3 | is_last;
        [&header.to_le_bytes()[..3], content].concat()
    };
    let content = &batch[61..];
    let size = u32::try_from(content.len()).unwrap();
    let heads = [
        b"\x00\x50".to_vec(),
        [&[0x60], &(size - 256).to_le_bytes()[..2]].concat(),
        [&[0xA0][..], &size.to_le_bytes()].concat(),
        [&[0xE0][..], &u64::from(size).to_le_bytes()].concat(),
    ];
    for (blocks, is_found) in [(1024, true), (1025, false), (300_000, false)] {
        for head in &heads {
            let mut frame = [&b"\x28\xb5\x2f\xfd"[..], head].concat();
            frame.extend(block(b"", 0).repeat(blocks - 1));
            frame.extend(block(content, 1));
            let found = decompressed(4, &frame, 1 << 20);
            assert_eq!(found.as_deref(), is_found.then_some(content), "{blocks} {head:?}");
        }
    }
}

/// Decompress a batch in steps; return how many there were, and the most bytes that were held.
fn in_steps(codec: u16, data: &[u8]) -> (usize, usize) {
    let mut decompression = Decompression::begin(codec, data, LARGE.max_bytes).unwrap();
    let (mut steps, mut held, mut is_over) = (0, 0, false);
    while !is_over {
        is_over = decompression.go_on(data).unwrap();
        (steps, held) = (steps + 1, held.max(decompression.held_bytes()));
    }
    assert!(decompression.found().len() <= held);
    (steps, held)
}

#[test]
fn a_step_has_not_too_many_blocks() {
    let empty =
        [&b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01"[..], &[0, 0, 0, 1, 0].repeat(65_536)].concat();
    let (steps, held) = in_steps(2, &empty);
    assert!(steps >= 64 && held < 1000, "{steps} {held}");
    let of_a_byte = lz4_frame(&[&[1, 0, 0, 0x80, b'x'].repeat(65_536)]);
    let (steps, held) = in_steps(3, &of_a_byte);
    assert!(steps >= 64 && held < 200_000, "{steps} {held}");
    assert_eq!(
        decompressed(3, &lz4_frame(&[&[1, 0, 0, 0x80, b'x'].repeat(65_537)]), 1 << 20),
        None
    );
    let more = [&empty[..], &[0, 0, 0, 1, 0]].concat();
    assert_eq!(decompressed(2, &more, 1 << 20), None);
}

#[test]
fn a_batch_that_is_decompressed_holds_no_more_than_its_content_needs() {
    let content = |size: usize| -> Vec<u8> {
        (0..size).map(|at| u8::try_from(at * at / 7 % 251).unwrap()).collect()
    };
    let block = content(60_000);
    let stored = [&0x8000_EA60_u32.to_le_bytes()[..], &block].concat();
    let (_, held) = in_steps(3, &lz4_frame(&[stored.as_slice(); 10]));
    assert!(held <= 900_000, "{held}");
    // Compressed blocks, which might be far larger.
    let compressed = lz4_flex::block::compress(&block);
    let size = u32::try_from(compressed.len()).unwrap();
    let compressed = [&size.to_le_bytes()[..], &compressed].concat();
    let (_, held) = in_steps(3, &lz4_frame(&[compressed.as_slice(); 10]));
    assert!(held <= 1_000_000, "{held}");
    // A window of eight megabytes, and two stored blocks.
    let blocks = [0, 1]
        .map(|last| [&(100_000_u32 << 3 | last).to_le_bytes()[..3], &content(100_000)].concat());
    let frame = [&b"\x28\xb5\x2f\xfd\x00\x68"[..], &blocks.concat()].concat();
    let (_, held) = in_steps(4, &frame);
    assert!(held < 1_000_000, "{held}");
}

#[test]
fn the_places_of_the_batches_of_a_request_that_waits_are_counted_as_memory() {
    let table = large_table(with_key());
    let worked = Worked::new("w", "worker", b"plan", [0; 16], Arc::default());
    table.know_name(b"w", Topic::Worked(Arc::new(worked)), f64::INFINITY);
    let mut relay = Relay::new(State::default(), table, FRAMES).unwrap();
    let frame = |topic: &str| {
        let mut body = produce_body(1, topic, &large_batch(200, 1000));
        body.truncate(body.len() - 2); // more partitions of the topic
        body.splice(14..15, [0xE8, 0x07]); // 999
        for partition in 1_u32..999 {
            body.extend([&partition.to_be_bytes()[..], &[1, 0]].concat());
        }
        body.extend([0, 0]);
        request(5, 1, &body)
    };
    assert_eq!(sent(&mut relay, &frame("t")), passed(0));
    assert!(relay.sliced_bytes() >= 32_000, "{}", relay.sliced_bytes());
    relay.end_judging(0.0);
    assert_eq!(sent(&mut relay, &frame("w")), passed(0));
    assert!(relay.worked_bytes() >= 50_000, "{}", relay.worked_bytes());
}

#[test]
fn a_batch_beyond_the_limits_of_slices_is_left_to_python() {
    let limits = |max_bytes, max_records| batch::Limits { max_bytes, max_records };
    let batch = large_batch(400, 1000);
    let frame = produced(1, &batch);
    let accepts = |limits| {
        let table = table();
        let judge = Arc::new(Judge::new("names", with_key(), limits));
        table.know_name(b"t", Topic::Judged(Arc::new([Judged::new("t", judge)])), f64::INFINITY);
        let mut relay = Relay::new(State::default(), table, FRAMES).unwrap();
        assert_eq!(sent(&mut relay, &frame), passed(0));
        judged_in_slices(&mut relay, &frame, &Mutex::default()).1 == Slice::Accepted
    };
    assert!(accepts(limits(batch.len(), 400)));
    assert!(!accepts(limits(batch.len() - 1, 400)));
    assert!(!accepts(limits(batch.len(), 399)));
    let mut relay = Relay::new(State::default(), large_table(with_key()), FRAMES).unwrap();
    let longer = produced(1, &vec![0; 2 * 1024 * 1024]);
    assert_eq!(sent(&mut relay, &longer[..100]), stopped(0));
}

#[test]
fn a_long_record_is_left_to_python_before_it_is_read() {
    let batch = batch_of(&[&"x".repeat(1_048_500), "y"]);
    let longer = batch_of(&[&"x".repeat(1_048_600), "y"]);
    for (batch, last) in [(batch, Slice::Accepted), (longer, Slice::Pythons)] {
        let frame = produced(1, &batch);
        let mut relay = Relay::new(State::default(), large_table(with_key()), FRAMES).unwrap();
        assert_eq!(sent(&mut relay, &frame), passed(0));
        assert_eq!(judged_in_slices(&mut relay, &frame, &Mutex::default()).1, last);
    }
}

#[test]
fn policies_that_take_too_long_for_a_large_batch_do_not_judge_for_a_while() {
    let some = r#"{"type": "null"},"#.repeat(900);
    let slow = format!(r#"{{"items": {{"anyOf": [{some}{{}}]}}}}"#);
    let table = large_table(vec![fits(&slow)]);
    // A step has one of the values that take long, so that no step takes too long.
    let (long, padding) = (format!("[{}1]", "1,".repeat(200)), "x".repeat(32_700));
    let padding = format!("\"{padding}\"");
    let frame = produced(1, &batch_of(&[long.as_str(), &padding].repeat(6)));
    let mut relay = Relay::new(State::default(), Arc::clone(&table), FRAMES).unwrap();
    assert_eq!(sent(&mut relay, &frame), passed(0));
    assert_eq!(judged_in_slices(&mut relay, &frame, &Mutex::default()).1, Slice::Pythons);
    let quick = produced(1, &batch_of(&["1"]));
    assert_eq!(relay.client_data(&quick, 29.0, &Mutex::default()), stopped(0));
    // A large batch, and a compressed batch, do not wait for slices either.
    assert_eq!(relay.client_data(&frame, 29.0, &Mutex::default()), stopped(0));
    let batch = batch_of(&["1"]);
    let member = gzip_member(b"", &batch[61..]);
    let compressed = produced(1, &with_codec(&batch, 1, &member));
    assert_eq!(relay.client_data(&compressed, 29.0, &Mutex::default()), stopped(0));
    assert_eq!(relay.client_data(&quick, 31.0, &Mutex::default()), passed(quick.len()));
}

#[test]
fn random_large_batches_are_judged_in_slices_as_in_one_read_and_never_panic() {
    let mut seed = 0x1F83_D9AB_FB41_BD6B_u64;
    let mut next = || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        usize::try_from(seed % (1 << 31)).unwrap()
    };
    let rounds = std::env::var("FUZZ_INPUTS").map_or(300, |count| count.parse().unwrap()) / 100;
    let mut accepted = 0;
    let good = large_batch(200, 1000);
    for _ in 0..rounds.max(30) {
        let mut batch = good.clone();
        for _ in 0..next() % 3 {
            let at = 61 + next() % (batch.len() - 61);
            match next() % 3 {
                0 => batch[at] = u8::try_from(next() % 256).unwrap(),
                1 => batch[61 + at % 20] ^= 1 << (next() % 8),
                _ => drop(batch.remove(at)),
            }
        }
        let frame = produced(1, &with_codec(&batch, 0, &batch[61..]));
        let records = batch::read(&with_codec(&batch, 0, &batch[61..]), LARGE);
        let accepts = records.is_some_and(|records| records.keys().all(|key| key.is_some()));
        let mut relay = Relay::new(State::default(), large_table(with_key()), FRAMES).unwrap();
        assert_eq!(sent(&mut relay, &frame), passed(0));
        let last = judged_in_slices(&mut relay, &frame, &Mutex::default()).1;
        assert_eq!(last == Slice::Accepted, accepts);
        accepted += usize::from(accepts);
    }
    assert!(accepted > 5, "{accepted}");
}

// With sockets and threads

/// A connection through the lane: the ends of a client and a broker.
struct Ends {
    client: TcpStream,
    broker: TcpStream,
    number: u64,
    inner: (TcpStream, TcpStream),
}

fn pair() -> (TcpStream, TcpStream) {
    let listening = TcpListener::bind("127.0.0.1:0").unwrap();
    let outer = TcpStream::connect(listening.local_addr().unwrap()).unwrap();
    outer.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let (inner, _) = listening.accept().unwrap();
    inner.set_nonblocking(true).unwrap();
    (outer, inner)
}

fn adopted(lane: &Lane, state: State, from_client: &[u8]) -> Ends {
    offered(lane, state, from_client).expect("it is not taken")
}

fn adopted_by(lane: &Lane, table: Arc<Table>, state: State, from_client: &[u8]) -> Ends {
    offered_to(lane, table, state, from_client).expect("it is not taken")
}

fn offered(lane: &Lane, state: State, from_client: &[u8]) -> Option<Ends> {
    offered_to(lane, table(), state, from_client)
}

fn offered_to(lane: &Lane, table: Arc<Table>, state: State, from_client: &[u8]) -> Option<Ends> {
    let ((client, inner_client), (broker, inner_broker)) = (pair(), pair());
    let adopted = Adopted {
        client: inner_client.as_raw_fd(),
        broker: inner_broker.as_raw_fd(),
        client_tls: None,
        broker_tls: None,
        state,
        from_client: from_client.to_vec(),
        from_broker: Vec::new(),
        limits: Limits { request_max_bytes: 100_000_000, ..LIMITS },
        sender: None,
    };
    let number = lane.adopt(adopted, table).unwrap()?;
    Some(Ends { client, broker, number, inner: (inner_client, inner_broker) })
}

fn lane() -> Lane {
    Lane::start(2, &[0.1, 1.0], 1_000_000, 1000.0).unwrap()
}

fn received(socket: &mut TcpStream, size: usize) -> Vec<u8> {
    let mut data = vec![0; size];
    socket.read_exact(&mut data).unwrap();
    data
}

fn given_back(lane: &Lane, number: u64) -> GivenBack {
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        if lane.ready().contains(&number) {
            return lane.take(number).unwrap();
        }
        assert!(Instant::now() < until, "it was not given back");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn until(condition: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !condition() {
        assert!(Instant::now() < end);
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn requests_and_responses_go_through_and_are_counted() {
    let lane = lane();
    let early = request(1, 1, b"early");
    let mut ends = adopted(&lane, State::default(), &early);
    assert_eq!(received(&mut ends.broker, early.len()), early);
    let frame = request(1, 2, b"request");
    ends.client.write_all(&frame).unwrap();
    assert_eq!(received(&mut ends.broker, frame.len()), frame);
    let answers = [response(1, b"a"), response(2, b"b")].concat();
    ends.broker.write_all(&answers).unwrap();
    assert_eq!(received(&mut ends.client, answers.len()), answers);
    let back = lane.take(ends.number).unwrap();
    assert_eq!((back.state, back.forwarded), (State::default(), 2));
    let counted = lane.collect();
    let requests: u64 =
        counted.iter().flat_map(|one| &one.whole).flat_map(|(_, of)| &of.buckets).sum();
    assert_eq!(requests, 2);
    let bytes = |of: fn(&penstock_native::lane::counts::Collected) -> u64| -> u64 {
        counted.iter().map(of).sum()
    };
    assert_eq!(bytes(|one| one.client_bytes), (early.len() + frame.len()) as u64);
    assert_eq!(bytes(|one| one.broker_bytes), answers.len() as u64);
    assert!(lane.take(ends.number).is_none());
}

#[test]
fn what_needs_python_is_given_back_with_all_behind_it() {
    let lane = lane();
    let mut ends = adopted(&lane, State::default(), b"");
    let (first, held) = (request(1, 1, b""), request(3, 2, b"held"));
    ends.client.write_all(&[first.clone(), held.clone()].concat()).unwrap();
    assert_eq!(received(&mut ends.broker, first.len()), first);
    let back = given_back(&lane, ends.number);
    assert_eq!(back.from_client, held);
    assert_eq!(back.state.expected.iter().map(|one| one.correlation_id).collect::<Vec<_>>(), [1]);
    assert!(!back.client_failed && !back.broker_failed);
}

#[test]
fn the_end_of_a_side_is_left_to_python() {
    let lane = lane();
    let ends = adopted(&lane, State::default(), b"");
    ends.client.shutdown(std::net::Shutdown::Write).unwrap();
    let back = given_back(&lane, ends.number);
    assert!(!back.client_failed);
    let ends = adopted(&lane, State::default(), b"");
    ends.broker.shutdown(std::net::Shutdown::Write).unwrap();
    assert!(!given_back(&lane, ends.number).broker_failed);
}

#[test]
fn what_a_side_does_not_take_is_kept_and_the_other_side_not_read() {
    let lane = lane();
    let mut ends = adopted(&lane, State::default(), b"");
    let frame = request(1, 1, &vec![7; 50_000_000]);
    let mut client = ends.client.try_clone().unwrap();
    let whole = frame.clone();
    let sending = std::thread::spawn(move || client.write_all(&whole));
    until(|| lane.figures(ends.number).unwrap().is_blocked);
    assert!(lane.figures(ends.number).unwrap().held_bytes <= 2 * 256 * 1024);
    assert!(lane.figures(ends.number).unwrap().missing_bytes > 0);
    assert_eq!(received(&mut ends.broker, frame.len()), frame);
    sending.join().unwrap().unwrap();
    until(|| lane.figures(ends.number).unwrap().held_bytes <= 4096);
}

#[test]
fn when_too_much_is_held_a_connection_that_holds_much_is_given_back() {
    let lane = Lane::start(1, &[], 0, 0.0).unwrap();
    let mut ends = adopted(&lane, State::default(), b"");
    let frame = request(5, 1, &produce_body(1, "t", &[7; 100]));
    let unfinished = [&100_000_i32.to_be_bytes()[..], &frame[4..], &vec![7; 80_000]].concat();
    ends.client.write_all(&unfinished).unwrap();
    let back = given_back(&lane, ends.number);
    assert!(back.from_client.len() > 64 * 1024);
    assert_eq!(back.from_client, unfinished[..back.from_client.len()]);
    assert_eq!(back.state, State::default());
}

#[test]
fn bytes_are_missing_of_a_request_that_is_read_as_a_whole() {
    let lane = lane();
    let mut ends = adopted(&lane, State::default(), b"");
    let frame = request(5, 1, &produce_body(1, "t", &[7; 100]));
    ends.client.write_all(&frame[..20]).unwrap();
    until(|| lane.figures(ends.number).unwrap().missing_bytes == frame.len() - 20);
    ends.client.write_all(&frame[20..frame.len() - 1]).unwrap();
    until(|| lane.figures(ends.number).unwrap().missing_bytes == 1);
    ends.client.write_all(&frame[frame.len() - 1..]).unwrap();
    assert_eq!(given_back(&lane, ends.number).from_client, frame); // nobody knows the topic
}

#[test]
fn a_client_that_was_too_far_ahead_goes_on_after_responses_that_came_before() {
    let lane = lane();
    let ((client, inner_client), (mut broker, inner_broker)) = (pair(), pair());
    let frame = request(1, 1, b"");
    let adopted = Adopted {
        client: inner_client.as_raw_fd(),
        broker: inner_broker.as_raw_fd(),
        client_tls: None,
        broker_tls: None,
        state: State::default(),
        from_client: frame.repeat(300),
        from_broker: response(1, b"").repeat(256),
        limits: LIMITS,
        sender: None,
    };
    let number = lane.adopt(adopted, table()).unwrap().unwrap();
    assert_eq!(received(&mut broker, 300 * frame.len()), frame.repeat(300));
    assert!(lane.take(number).is_some());
    drop(client);
}

#[test]
fn memory_for_many_bytes_is_not_kept_for_a_few() {
    let lane = lane();
    let mut ends = adopted(&lane, State::default(), b"");
    let frame = request(1, 1, &vec![7; 200_000]);
    ends.client.write_all(&frame[..5]).unwrap();
    until(|| lane.figures(ends.number).unwrap().held_bytes > 0);
    ends.client.write_all(&[&frame[5..], &frame[..5]].concat()).unwrap();
    assert_eq!(received(&mut ends.broker, frame.len()), frame);
    until(|| lane.figures(ends.number).unwrap().held_bytes <= 4096);
    assert_eq!(lane.take(ends.number).unwrap().from_client, &frame[..5]);
}

#[test]
fn a_connection_whose_next_request_is_pythons_is_not_taken() {
    let lane = lane();
    assert!(offered(&lane, State::default(), &request(3, 1, b"held")).is_none());
    let judged = request(5, 1, &produce_body(1, "judged", b"records"));
    assert!(offered(&lane, State::default(), &judged).is_none());
    let forwarded = request(1, 1, b"");
    let mut ends = adopted(&lane, State::default(), &forwarded);
    assert_eq!(received(&mut ends.broker, forwarded.len()), forwarded);
    assert_eq!(lane.take(ends.number).unwrap().forwarded, 1);
    // The rest of a request that is forwarded comes first.
    let halfway = State {
        request_left: 100,
        receiving: Receiving::Last,
        expected: [exchange(1, 1)].into(),
        ..State::default()
    };
    adopted(&lane, halfway, &request(3, 1, b"held"));
}

#[test]
fn closing_ends_the_threads() {
    let lane = lane();
    let _ends = adopted(&lane, State::default(), b"");
    lane.close();
    lane.close();
}

#[test]
fn large_batches_of_several_clients_are_judged_by_a_thread_one_after_the_other() {
    let lane = Lane::start(1, &[0.1, 1.0], 100_000_000, 1000.0).unwrap();
    let table = large_table(with_key());
    let batch = large_batch(1500, 1000);
    let sent = Arc::new([produced(1, &batch), produced(2, &batch)].concat());
    let clients: Vec<_> = (0..4)
        .map(|_| {
            let ends = adopted_by(&lane, Arc::clone(&table), State::default(), &[]);
            let (mut client, mut broker) = (ends.client.try_clone().unwrap(), ends.broker);
            let (sends, expects) = (Arc::clone(&sent), Arc::clone(&sent));
            let sending = std::thread::spawn(move || client.write_all(&sends).unwrap());
            let receiving = std::thread::spawn(move || {
                assert!(received(&mut broker, expects.len()) == *expects);
                broker
            });
            (ends.number, sending, receiving, ends.client)
        })
        .collect();
    for (number, sending, receiving, _client) in clients {
        sending.join().unwrap();
        let broker = receiving.join().unwrap();
        let back = lane.take(number).unwrap();
        assert_eq!((back.forwarded, back.state.expected.len()), (2, 2));
        assert!(back.from_client.is_empty() && back.to_broker.is_empty());
        drop(broker);
    }
    let records: u64 = lane.collect()[0].accepted.iter().map(|of| of.2).sum();
    assert_eq!((records, lane.panics()), (8 * 1500, 0));
}

#[test]
fn a_large_batch_that_is_not_accepted_is_given_back_with_all_behind_it() {
    let lane = Lane::start(1, &[0.1, 1.0], 100_000_000, 1000.0).unwrap();
    let table = large_table(with_key());
    let mut batch = large_batch(1500, 1000);
    *batch.last_mut().unwrap() ^= 1;
    let sent = [produced(1, &batch), request(1, 2, b"behind")].concat();
    let mut ends = adopted_by(&lane, table, State::default(), &sent[..1000]);
    let mut client = ends.client.try_clone().unwrap();
    let rest = sent[1000..].to_vec();
    let sending = std::thread::spawn(move || client.write_all(&rest).unwrap());
    let mut back = given_back(&lane, ends.number);
    sending.join().unwrap();
    ends.inner.0.read_to_end(&mut back.from_client).unwrap_err(); // the lane had not read these
    assert!(back.from_client == sent && back.to_broker.is_empty());
    assert_eq!(back.state, State::default());
}

#[test]
fn a_client_that_leaves_while_its_batch_is_judged_is_given_back() {
    let lane = Lane::start(1, &[0.1, 1.0], 100_000_000, 1000.0).unwrap();
    let table = large_table(with_key());
    for _ in 0..20 {
        let mut ends = adopted_by(&lane, Arc::clone(&table), State::default(), &[]);
        ends.client.write_all(&produced(1, &large_batch(190, 1000))).unwrap();
        drop(ends.client);
        let back = given_back(&lane, ends.number);
        assert!(!back.broker_failed);
        let whole = back.from_client.len() + back.to_broker.len();
        assert!(back.forwarded == 1 || whole > 190_000);
    }
    assert_eq!(lane.panics(), 0);
}
