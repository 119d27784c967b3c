//! Connections whose batches workers judge: what they hold, and what is Python's.
#![cfg(target_os = "linux")]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use penstock_native::lane::epoll::{Epoll, Waker};
use penstock_native::lane::exchange::State;
use penstock_native::lane::relay::{Limits, Passed, Relay};
use penstock_native::lane::table::{Action, Table, Topic};
use penstock_native::lane::threads::{Adopted, Figures, Lane};
use penstock_native::lane::waiting::Rings;
use penstock_native::lane::worked::Worked;
use penstock_native::ring::layout::{LONGEST, Outcome};
use penstock_native::ring::pool::Pool;
use penstock_native::ring::reader::Reader;
use penstock_native::ring::sender::{Batch, Ring};

const LIMITS: Limits = Limits { request_max_bytes: 1 << 30, valid_until: f64::INFINITY };
const LARGE: usize = 100 * 1024;

/// Batches of the topic `worked` are judged by the worker of a ring, those of `free` by nobody.
fn table(ring: &Arc<Ring>) -> Arc<Table> {
    let table = Table::new([(0, 0, vec![Action::ProduceWhole; 14])]);
    let pool = Pool::default();
    pool.set(vec![Some(Arc::clone(ring))]);
    let worked = Worked::new("worked", "P", b"plan", [0; 16], Arc::new(pool));
    table.know_name(b"worked", Topic::Worked(Arc::new(worked)), f64::INFINITY);
    table.know_name(b"free", Topic::Unjudged, f64::INFINITY);
    Arc::new(table)
}

fn reader_of(ring: &Ring) -> Reader {
    let done: Vec<_> = ring.done().map(|each| each.as_raw_fd()).collect();
    Reader::open(ring.memory().as_raw_fd(), ring.work().as_raw_fd(), &done).unwrap()
}

/// A Produce request, version 8: one batch of one partition.
fn request(topic: &str, records: &[u8]) -> Vec<u8> {
    let mut body =
        vec![0, 0, 0, 8, 0, 0, 0, 7, 0, 1, b'c', 255, 255, 0, 1, 0, 0, 39, 16, 0, 0, 0, 1];
    body.extend(u16::try_from(topic.len()).unwrap().to_be_bytes());
    body.extend(topic.as_bytes());
    body.extend([0, 0, 0, 1, 0, 0, 0, 3]);
    body.extend(u32::try_from(records.len()).unwrap().to_be_bytes());
    body.extend(records);
    let length = u32::try_from(body.len()).unwrap();
    [&length.to_be_bytes()[..], &body].concat()
}

fn pair() -> (TcpStream, TcpStream) {
    let listening = TcpListener::bind("127.0.0.1:0").unwrap();
    let outer = TcpStream::connect(listening.local_addr().unwrap()).unwrap();
    let inner = listening.accept().unwrap().0;
    inner.set_nonblocking(true).unwrap();
    (outer, inner)
}

fn adopted(lane: &Lane, table: Arc<Table>) -> (u64, TcpStream, TcpStream) {
    let ((client, ours), (broker, theirs)) = (pair(), pair());
    let adopted = Adopted {
        client: ours.as_raw_fd(),
        broker: theirs.as_raw_fd(),
        client_tls: None,
        broker_tls: None,
        state: State::default(),
        from_client: vec![],
        from_broker: vec![],
        limits: LIMITS,
        sender: None,
    };
    let number = lane.adopt(adopted, table).unwrap().unwrap();
    (number, client, broker)
}

fn until(mut is_there: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !is_there() {
        assert!(Instant::now() < end);
        std::thread::yield_now();
    }
}

fn wait_for(lane: &Lane, number: u64, is_there: impl Fn(Figures) -> bool) {
    until(|| is_there(lane.figures(number).unwrap()));
}

/// Return the connections that are given back, once there are any.
fn given_back(lane: &Lane) -> Vec<u64> {
    let mut ready = Vec::new();
    until(|| {
        ready = lane.ready();
        !ready.is_empty()
    });
    ready
}

#[test]
fn what_is_in_a_ring_or_waits_for_it_counts_as_memory_of_its_connection() {
    let ring = Arc::new(Ring::new(1, 1).unwrap());
    let mut reader = reader_of(&ring);
    let lane = Lane::start(1, &[], usize::MAX, 0.0).unwrap();
    // It fills a half of the ring, and the first batch of the connection the other: the next waits.
    let (plan, records) = (Arc::from(*b""), vec![1; LONGEST]);
    let first = Batch {
        connection: 1 << 40,
        thread: 0,
        version: 8,
        partition: 0,
        topic_id: [0; 16],
        plan: &plan,
        context: None,
        records: &records,
        may_wait: true,
    };
    ring.submit(&first).unwrap();
    let large = vec![2; LONGEST - 1024];
    let connections: Vec<_> = (0..2).map(|_| adopted(&lane, table(&ring))).collect();
    for (number, client, _) in &connections {
        (&*client).write_all(&request("worked", &large)).unwrap();
        wait_for(&lane, *number, |figures| figures.held_bytes >= 2 * large.len());
    }
    assert_eq!(ring.figures().waiting, 1);
    for _ in 0..3 {
        until(|| reader.has_more());
        let slot = reader.begin_next().unwrap();
        reader.reply(slot, Outcome::Accepted, 5);
        reader.say();
    }
    for (number, _, mut broker) in connections {
        broker.read_exact(&mut vec![0; large.len()]).unwrap();
        wait_for(&lane, number, |figures| figures.held_bytes < 4 * 1024);
    }
}

#[test]
fn where_memory_is_short_large_batches_do_not_wait_for_a_ring() {
    let ring = Arc::new(Ring::new(1, 1).unwrap());
    let lane = Lane::start(1, &[], usize::MAX, 0.0).unwrap();
    lane.set_short(true);
    let table = table(&ring);
    let sent = |records: &[u8]| {
        let (number, client, broker) = adopted(&lane, Arc::clone(&table));
        (&client).write_all(&request("worked", records)).unwrap();
        (number, client, broker)
    };
    // They fill the ring: there is room, so nothing is held but what is there.
    let filling: Vec<_> = (0..2).map(|_| sent(&vec![1; LONGEST - 1024])).collect();
    until(|| ring.figures().written == 2);
    let (small, _client, _broker) = sent(&[2; 4000]);
    wait_for(&lane, small, |figures| figures.held_bytes > 8000);
    let (large, _client, _broker) = sent(&vec![3; LARGE]);
    assert_eq!(given_back(&lane), [large]);
    let back = lane.take(large).unwrap();
    assert!(back.from_client == request("worked", &vec![3; LARGE]) && back.early.is_empty());
    assert_eq!(ring.figures().waiting, 1);
    drop(filling);
}

#[test]
fn where_the_lane_holds_too_much_a_batch_is_pythons_and_frees_its_place() {
    let ring = Arc::new(Ring::new(1, 1).unwrap());
    let lane = Lane::start(1, &[], 3 * LARGE, 0.0).unwrap();
    let table = table(&ring);
    let connections: Vec<_> = (0..2).map(|_| adopted(&lane, Arc::clone(&table))).collect();
    for (_, client, _) in &connections {
        (&*client).write_all(&request("worked", &vec![1; LARGE])).unwrap();
    }
    let ready = given_back(&lane); // its frame and its copy are more than is left
    assert_eq!(ready.len(), 1);
    assert!(!lane.take(ready[0]).unwrap().from_client.is_empty());
}

#[test]
fn long_requests_are_read_as_a_whole_only_if_their_first_topic_is_known() {
    let ring = Arc::new(Ring::new(1, 1).unwrap());
    let table = table(&ring);
    let passed = |data: &[u8]| {
        let mut relay = Relay::new(State::default(), Arc::clone(&table), LIMITS).unwrap();
        relay.client_data(data, 0.0, &Mutex::default())
    };
    let waits = Passed { bytes: 0, stopped: false };
    let stops = Passed { bytes: 0, stopped: true };
    let of = |topic| request(topic, &vec![0; 1 << 20]);
    let (worked, free, other) = (of("worked"), of("free"), of("other"));
    for start in [12, 30, 43, 100, 2000, worked.len() - 1, worked.len()] {
        assert_eq!(passed(&worked[..start]), waits, "{start}");
    }
    assert_eq!(passed(&free[..free.len() - 1]), waits);
    assert_eq!(passed(&free), Passed { bytes: free.len(), stopped: false });
    assert_eq!(passed(&other[..30]), waits);
    for start in [43, 100, 2000, other.len()] {
        assert_eq!(passed(&other[..start]), stops, "{start}");
    }
    assert_eq!(passed(&request("worked", &vec![0; 2 << 20])), stops);
    let mut long_id = request("worked", &vec![0; 1 << 20]);
    long_id[12..14].copy_from_slice(&5000_i16.to_be_bytes());
    assert_eq!(passed(&long_id[..100]), waits);
    assert_eq!(passed(&long_id[..1024]), stops);
    let small = request("free", &[0; 100]);
    assert_eq!(passed(&small), Passed { bytes: small.len(), stopped: false });
}

#[test]
fn a_request_is_pythons_if_a_name_in_it_is_not_known_any_more_when_its_batches_are_judged() {
    for (at, is_pythons) in [(4.9, false), (5.0, true)] {
        let ring = Arc::new(Ring::new(1, 1).unwrap());
        let (mut reader, pool) = (reader_of(&ring), Pool::default());
        pool.set(vec![Some(Arc::clone(&ring))]);
        let table = Table::new([(0, 0, vec![Action::ProduceWhole; 14])]);
        let worked = Worked::new("worked", "P", b"plan", [0; 16], Arc::new(pool));
        table.know_name(b"worked", Topic::Worked(Arc::new(worked)), 5.0);
        let mut relay = Relay::new(State::default(), Arc::new(table), LIMITS).unwrap();
        let (frame, counts) = (request("worked", b"data"), Mutex::default());
        assert_eq!(relay.client_data(&frame, 0.0, &counts).bytes, 0);
        let (epoll, waker) = (Arc::new(Epoll::new().unwrap()), Arc::new(Waker::new().unwrap()));
        let rings = Rings::new(0, epoll, waker);
        let judging = relay.judging().unwrap();
        assert!(judging.begin(&frame, 1, &rings, None, usize::MAX, 0.0));
        let slot = reader.begin_next().unwrap();
        reader.reply(slot, Outcome::Accepted, 5);
        judging.note(&ring, ring.take(0)[0], 1.0);
        assert_eq!(relay.finish_judging(&frame, at, &counts), is_pythons);
        assert_eq!(
            (relay.forwarded() == 0, relay.take_early().len()),
            (is_pythons, is_pythons.into())
        );
    }
}
