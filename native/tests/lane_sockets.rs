//! Connections that change their owner at random, with real sockets: each byte arrives once, in order.
//!
//! Requests and responses are small and large, both ends read and write parts of any size, and a side
//! that does not read for a while has the lane write only a part. In between, as Python does, the
//! connection is taken back at any byte, its unsent bytes are sent, and it is handed over again.
#![cfg(target_os = "linux")]

use std::io::{ErrorKind, Read, Write};
use std::mem::take;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

use penstock_native::cursor::put_varint;
use penstock_native::header::{HEADER_BYTES, checksum};
use penstock_native::lane::batch;
use penstock_native::lane::exchange::State;
use penstock_native::lane::judge::{Check, Judge, Judged};
use penstock_native::lane::relay::Limits;
use penstock_native::lane::table::{Action, Table, Topic};
use penstock_native::lane::threads::{Adopted, Lane};

const LIMITS: Limits = Limits { request_max_bytes: 10_000_000, valid_until: f64::INFINITY };
const VERSION: i16 = 9;

struct Chance(u64);

impl Chance {
    fn below(&mut self, most: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % u64::try_from(most).unwrap()).unwrap()
    }

    /// Mostly few, sometimes many more than a socket takes at once.
    fn size(&mut self) -> usize {
        match self.below(20) {
            0 => self.below(3_000_000),
            1..5 => self.below(30_000),
            _ => self.below(60),
        }
    }

    fn bytes(&mut self, size: usize) -> Vec<u8> {
        let start = self.below(256);
        (0..size).map(|at| u8::try_from((start + at * 7) % 256).unwrap()).collect()
    }
}

fn frame(head: &[u8], body: &[u8]) -> Vec<u8> {
    let length = i32::try_from(head.len() + body.len()).unwrap();
    [&length.to_be_bytes(), head, body].concat()
}

/// A request, and whether it is answered.
fn request(number: i32, chance: &mut Chance) -> (Vec<u8>, bool) {
    let size = chance.size();
    let head = |api_key: i16| {
        [&api_key.to_be_bytes()[..], &VERSION.to_be_bytes(), &number.to_be_bytes()].concat()
    };
    match chance.below(5) {
        // Produce: a client id, and no tags, transactional id or tagged fields
        kind @ 0..2 => {
            let acks = i16::try_from(kind).unwrap();
            let start = [&[0, 1, b'c', 0, 0][..], &acks.to_be_bytes(), &[0; 4]].concat();
            (frame(&head(0), &[start, chance.bytes(size)].concat()), acks != 0)
        }
        // The same of a known topic: these requests have to be complete
        2 => {
            let records = chance.bytes(size.min(100));
            let start = [&[0, 1, b'c', 0, 0, 0, 1, 0, 0, 0, 0][..], &[2, 2, b't', 2, 0, 0, 0, 0]];
            let length = [u8::try_from(records.len() + 1).unwrap()];
            (frame(&head(5), &[&start.concat()[..], &length, &records[..], &[0; 3]].concat()), true)
        }
        // The same of a topic whose batches are judged, in slices where they are large
        3 => {
            let batch = batch_of(&chance.bytes(size.min(1_900_000)));
            let start = [&[0, 1, b'c', 0, 0, 0, 1, 0, 0, 39, 16][..], &[2, 2, b'j', 2, 0, 0, 0, 0]];
            let mut length = Vec::new();
            let mut left = batch.len() + 1;
            while left >= 0x80 {
                length.push(u8::try_from(left & 0x7F).unwrap() | 0x80);
                left >>= 7;
            }
            length.push(u8::try_from(left).unwrap());
            (frame(&head(5), &[&start.concat()[..], &length, &batch, &[0; 3]].concat()), true)
        }
        _ => (frame(&head(1), &chance.bytes(size)), true),
    }
}

/// A batch of records with these bytes as their values, and an empty key.
fn batch_of(bytes: &[u8]) -> Vec<u8> {
    let mut records = Vec::new();
    let values: Vec<_> = bytes.chunks(1000).chain([&b"last"[..]]).collect();
    let count = i32::try_from(values.len()).unwrap();
    for (number, value) in (0..).zip(&values) {
        let mut record = vec![0, 0];
        put_varint(&mut record, number);
        record.push(0);
        put_varint(&mut record, i32::try_from(value.len()).unwrap());
        record.extend_from_slice(value);
        record.push(0);
        put_varint(&mut records, i32::try_from(record.len()).unwrap());
        records.extend(record);
    }
    let mut header = [0; HEADER_BYTES];
    header[8..12].copy_from_slice(&i32::try_from(49 + records.len()).unwrap().to_be_bytes());
    header[16] = 2;
    header[23..27].copy_from_slice(&(count - 1).to_be_bytes());
    header[43..57].fill(0xFF);
    header[57..].copy_from_slice(&count.to_be_bytes());
    let checksum = checksum(&header, &records);
    header[17..21].copy_from_slice(&checksum.to_be_bytes());
    [&header[..], &records].concat()
}

fn pair() -> (TcpStream, TcpStream) {
    let listening = TcpListener::bind("127.0.0.1:0").unwrap();
    let outer = TcpStream::connect(listening.local_addr().unwrap()).unwrap();
    outer.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let (inner, _) = listening.accept().unwrap();
    for end in [&outer, &inner] {
        end.set_nodelay(true).unwrap(); // as clients, brokers and the gateway have it
    }
    inner.set_nonblocking(true).unwrap();
    (outer, inner)
}

/// Write in parts of any size.
fn send(mut socket: &TcpStream, mut data: &[u8], chance: &mut Chance) {
    while !data.is_empty() {
        let size = data.len().min(1 + chance.size());
        socket.write_all(&data[..size]).unwrap();
        data = &data[size..];
    }
}

/// Read in parts of any size until there are so many bytes; sometimes not for a while.
fn receive(mut socket: &TcpStream, total: usize, chance: &mut Chance, mut each: impl FnMut(&[u8])) {
    let mut room = vec![0; 3_000_000];
    let mut left = total;
    while left > 0 {
        if chance.below(50) == 0 {
            thread::sleep(Duration::from_millis(5));
        }
        let size = left.min(1 + chance.size());
        let count = socket.read(&mut room[..size]).unwrap();
        assert!(count > 0, "it has ended");
        each(&room[..count]);
        left -= count;
    }
}

/// Send the bytes that the lane has not sent, as Python does.
fn send_rest(mut socket: &TcpStream, mut data: &[u8]) {
    while !data.is_empty() {
        match socket.write(data) {
            Ok(count) => data = &data[count..],
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                thread::sleep(Duration::from_millis(1));
            }
            Err(error) => panic!("{error}"),
        }
    }
}

/// A table with a topic that is not judged, and another whose records need a key.
fn table() -> Arc<Table> {
    let table =
        Table::new([(0, 0, vec![Action::Produce; 10]), (5, 0, vec![Action::ProduceWhole; 10])]);
    table.know_name(b"t", Topic::Unjudged, f64::INFINITY);
    let limits = batch::Limits { max_bytes: 2_000_000, max_records: 10_000 };
    let judge = Judge::new("", vec![Check::HasKey { accepts_empty: true }], limits);
    let judged = Topic::Judged(Arc::new([Judged::new("j", Arc::new(judge))]));
    table.know_name(b"j", judged, f64::INFINITY);
    Arc::new(table)
}

/// Forward requests and responses; return how often the connection has changed its owner.
fn happens(lane: &Lane, seed: u64) -> usize {
    let mut chance = Chance(seed);
    let all: Vec<_> = (0..200).map(|number| request(number, &mut chance)).collect();
    let requests: Vec<u8> = all.iter().flat_map(|(frame, _)| frame.clone()).collect();
    let answers: Vec<Vec<u8>> = all
        .iter()
        .enumerate()
        .filter(|(_, (_, answered))| *answered)
        .map(|(number, _)| {
            let size = chance.size();
            frame(&i32::try_from(number).unwrap().to_be_bytes(), &chance.bytes(size))
        })
        .collect();
    let responses = answers.concat();
    // After so many bytes of requests the broker answers a request.
    let mut ends = Vec::new();
    let mut end = 0;
    for (frame, answered) in &all {
        end += frame.len();
        if *answered {
            ends.push(end);
        }
    }

    let table = table();
    let ((client, inner_client), (broker, inner_broker)) = (pair(), pair());
    let (mut state, mut from_client, mut from_broker) = (State::default(), vec![], vec![]);
    let (mut changes, mut forwarded) = (0, 0);
    let (inner_client, inner_broker) = (&inner_client, &inner_broker);
    thread::scope(|scope| {
        let seeds = [(); 4].map(|()| Chance(u64::try_from(1 + chance.below(1 << 40)).unwrap()));
        let [mut of_sender, mut of_receiver, mut of_broker, mut of_answers] = seeds;
        let (client, broker, requests, responses) = (&client, &broker, &requests, &responses);
        let (answer, to_answer) = channel();
        let sender = scope.spawn(move || send(client, requests, &mut of_sender));
        let receiver = scope.spawn(move || {
            let mut found = Vec::new();
            receive(client, responses.len(), &mut of_receiver, |part| {
                found.extend_from_slice(part);
            });
            assert!(found == *responses, "the client has received other bytes");
        });
        let reader = scope.spawn(move || {
            let mut found = Vec::new();
            let mut answered = 0;
            receive(broker, requests.len(), &mut of_broker, |part| {
                found.extend_from_slice(part);
                while ends.get(answered).is_some_and(|end| *end <= found.len()) {
                    answer.send(answered).unwrap();
                    answered += 1;
                }
            });
            assert!(found == *requests, "the broker has received other bytes");
        });
        let answering = scope.spawn(move || {
            for number in to_answer {
                send(broker, &answers[number], &mut of_answers);
            }
        });
        loop {
            let adopted = Adopted {
                client: inner_client.as_raw_fd(),
                broker: inner_broker.as_raw_fd(),
                client_tls: None,
                broker_tls: None,
                state: take(&mut state),
                from_client: take(&mut from_client),
                from_broker: take(&mut from_broker),
                limits: LIMITS,
                sender: None,
            };
            let number = lane.adopt(adopted, Arc::clone(&table)).unwrap().expect("not taken");
            let is_over = || {
                [&sender, &receiver, &reader, &answering]
                    .into_iter()
                    .all(ScopedJoinHandle::is_finished)
            };
            thread::sleep(Duration::from_micros(u64::try_from(chance.below(3_000)).unwrap()));
            while chance.below(4) == 0 && !is_over() && !lane.ready().contains(&number) {
                thread::sleep(Duration::from_millis(1));
            }
            let is_over = is_over();
            let back = lane.take(number).unwrap();
            assert!(!back.client_failed && !back.broker_failed);
            forwarded += back.forwarded;
            changes += 1;
            send_rest(inner_broker, &back.to_broker);
            send_rest(inner_client, &back.to_client);
            (state, from_client, from_broker) = (back.state, back.from_client, back.from_broker);
            if is_over {
                break;
            }
        }
    });
    assert_eq!(forwarded, 200);
    assert!(state.expected.is_empty() && from_client.is_empty() && from_broker.is_empty());
    assert_eq!((state.request_left, state.response_left), (0, 0));
    changes
}

#[test]
fn every_byte_arrives_once_and_in_order_whoever_has_the_connection() {
    let inputs = std::env::var("FUZZ_INPUTS").ok().map(|count| count.parse::<u64>().unwrap());
    let rounds = inputs.map_or(4, |inputs| 1 + inputs / 50_000);
    let lane = Lane::start(2, &[0.1], 100_000_000, 0.0).unwrap();
    let changes: usize = (1..=rounds).map(|seed| happens(&lane, seed * 0x9E37_79B9)).sum();
    assert!(changes > 10);
    assert_eq!(lane.panics(), 0);
}
