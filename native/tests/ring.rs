//! Rings between threads and a worker, as random histories of both ends.
#![cfg(target_os = "linux")]
#![allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap)]

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use penstock_native::lane::epoll::{Waker, calls, wait_for_either};
use penstock_native::ring::layout::{self, Outcome};
use penstock_native::ring::memory::Memory;
use penstock_native::ring::pool::Pool;
use penstock_native::ring::reader::Reader;
use penstock_native::ring::sender::{Batch, Late, NOT_BEGUN, Ring};

const THREADS: u16 = 3;

/// Numbers that look random: xorshift.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }

    fn bytes(&mut self, most: u64) -> Vec<u8> {
        (0..self.below(most)).map(|_| self.below(256) as u8).collect()
    }
}

fn reader_of(ring: &Ring) -> Reader {
    let done: Vec<_> = ring.done().map(|each| each.as_raw_fd()).collect();
    Reader::open(ring.memory().as_raw_fd(), ring.work().as_raw_fd(), &done).unwrap()
}

fn batch<'a>(connection: u64, plan: &'a Arc<[u8]>, records: &'a [u8]) -> Batch<'a> {
    let thread = (connection % u64::from(THREADS)) as u16;
    let partition = connection as i32;
    Batch {
        connection,
        thread,
        version: 9,
        partition,
        topic_id: [7; 16],
        plan,
        context: None,
        records,
        may_wait: true,
    }
}

/// Return whether a thread that waits for this is woken.
fn is_readable(waker: &Waker) -> bool {
    let (_, never) = calls().unwrap();
    wait_for_either(&never, waker.as_fd().as_raw_fd(), 0).unwrap().1
}

fn plan(text: &str) -> Arc<[u8]> {
    text.as_bytes().into()
}

#[test]
fn a_batch_is_judged() {
    let ring = Ring::new(5, THREADS.into()).unwrap();
    let mut reader = reader_of(&ring);
    assert!(reader.begin_next().is_none());
    let ticket = ring.submit(&batch(4, &plan("plan"), b"records")).unwrap();
    let slot = reader.begin_next().unwrap();
    assert_eq!((slot.number, slot.version, slot.partition, slot.thread), (1, 9, 4, 1));
    assert_eq!(slot.topic_id, [7; 16]);
    assert_eq!(reader.plan(&slot).unwrap(), b"plan");
    assert_eq!(reader.records(&slot).unwrap(), b"records");
    assert_eq!(ring.figures().current, 1);
    reader.reply(slot, Outcome::Accepted, 1500);
    assert!(ring.take(0).is_empty());
    let judged = ring.take(1);
    assert_eq!(judged.len(), 1);
    assert_eq!((judged[0].connection, judged[0].ticket, judged[0].number), (4, ticket, 1));
    assert_eq!(judged[0].outcome, Outcome::Accepted);
    assert!((judged[0].took_s - 0.0015).abs() < 1e-9);
    let figures = ring.figures();
    assert_eq!((figures.current, figures.written, figures.answered), (0, 1, 1));
}

#[test]
fn a_context_is_read_between_plan_and_records() {
    let ring = Ring::new(1, 1).unwrap();
    let mut reader = reader_of(&ring);
    let (plan, context) = (plan("plan"), plan("context"));
    let with_context = Batch { context: Some(&context), ..batch(0, &plan, b"records") };
    for sent in [with_context, batch(0, &plan, b"others")] {
        ring.submit(&sent).unwrap();
        let slot = reader.begin_next().unwrap();
        assert_eq!(reader.plan(&slot).unwrap(), b"plan");
        let expected: &[u8] = if sent.context.is_some() { b"context" } else { b"" };
        assert_eq!(reader.context(&slot).unwrap(), expected);
        assert_eq!(reader.records(&slot).unwrap(), sent.records);
        reader.reply(slot, Outcome::Accepted, 0);
    }
    // It counts as bytes of the ring.
    let long: Arc<[u8]> = vec![0; layout::LONGEST].into();
    assert!(ring.submit(&Batch { context: Some(&long), ..batch(0, &plan, b"") }).is_none());
}

#[test]
fn plans_are_open_until_their_batches_have_an_outcome() {
    let ring = Ring::new(1, 1).unwrap();
    let mut reader = reader_of(&ring);
    let (first, second) = (plan("first"), plan("second"));
    let large = vec![0; layout::LONGEST - 8];
    for (plan, records) in [(&first, &large), (&first, &large), (&second, &large)] {
        ring.submit(&batch(0, plan, records)).unwrap();
    }
    assert_eq!(ring.figures().waiting, 1);
    assert_eq!(ring.open_plans(), [first, Arc::clone(&second)]);
    for left in [2, 1, 0] {
        let slot = reader.begin_next().unwrap();
        reader.reply(slot, Outcome::Accepted, 0);
        ring.take(0);
        assert_eq!(ring.open_plans().len(), left);
    }
}

#[test]
fn a_worker_waits_until_there_is_a_batch() {
    let ring = Ring::new(1, 1).unwrap();
    let reader = reader_of(&ring);
    let other = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| reader.wait(other.as_raw_fd(), 60_000).unwrap());
        std::thread::sleep(std::time::Duration::from_millis(20));
        ring.submit(&batch(0, &plan(""), b"records")).unwrap();
        assert!(!waiting.join().unwrap());
    });
    assert!(reader.has_more());
    assert!(!reader.wait(other.as_raw_fd(), 60_000).unwrap());
}

/// A worker that falls asleep and a thread that submits a batch at every distance in time: each call
/// arrives.
#[test]
fn no_call_is_lost() {
    let ring = Ring::new(1, 1).unwrap();
    let mut reader = reader_of(&ring);
    let (other, stop) = UnixStream::pair().unwrap();
    let end = Instant::now() + Duration::from_secs(2);
    let mut random = Random(7);
    std::thread::scope(|scope| {
        let judging = scope.spawn(move || {
            let mut sleeps = 0_u64;
            while !reader.wait(other.as_raw_fd(), -1).unwrap() {
                sleeps += 1;
                while let Some(slot) = reader.begin_next() {
                    reader.reply(slot, Outcome::Accepted, 0);
                }
                reader.say();
            }
            sleeps
        });
        let done = ring.done_of(0).unwrap();
        let mut sent = 0;
        while Instant::now() < end {
            for _ in 0..random.below(3_000) {
                std::hint::spin_loop();
            }
            let most = 1 + random.below(3);
            let tickets = (0..most).map(|_| ring.submit(&batch(0, &plan(""), b"r")).unwrap());
            let mut left = tickets.collect::<HashSet<_>>();
            sent += most;
            while !left.is_empty() {
                let (is_called, _) = wait_for_either(done, stop.as_raw_fd(), 10_000).unwrap();
                assert!(is_called, "a call is lost after {sent} batches");
                done.reset();
                for judged in ring.take(0) {
                    assert!(left.remove(&judged.ticket));
                }
            }
        }
        drop(stop);
        let sleeps = judging.join().unwrap();
        assert!(sleeps > 10 && sent > 10, "{sleeps} {sent}");
    });
}

#[test]
fn what_is_too_large_or_comes_after_the_end_is_pythons() {
    let ring = Ring::new(1, THREADS.into()).unwrap();
    let large = vec![0; layout::LONGEST];
    assert!(ring.submit(&batch(0, &plan("p"), &large)).is_none());
    assert!(ring.submit(&batch(0, &plan(""), &large)).is_some());
    assert!(ring.submit(&Batch { thread: THREADS, ..batch(0, &plan(""), b"") }).is_none());
    assert!(ring.close().is_empty());
    assert!(ring.submit(&batch(0, &plan(""), b"records")).is_none());
}

#[test]
fn the_plan_of_the_batch_in_hand_is_known_when_batches_are_recalled() {
    let ring = Ring::new(1, THREADS.into()).unwrap();
    let mut reader = reader_of(&ring);
    for (connection, name) in [(0, "slow"), (1, "next"), (2, "last")] {
        ring.submit(&batch(connection, &plan(name), b"records")).unwrap();
    }
    let slot = reader.begin_next().unwrap();
    assert_eq!(ring.recall(), b"slow");
    for thread in 0..THREADS {
        let judged = ring.take(thread);
        assert_eq!(judged.len(), 1);
        assert_eq!(judged[0].outcome, Outcome::LeftOut);
        // Python waits for the first.
        assert_eq!(judged[0].number, if thread == 0 { 1 } else { NOT_BEGUN });
    }
    assert_eq!(ring.take_late(), Late::default());
    // What it says afterwards concerns nobody; the others it leaves out.
    reader.reply(slot, Outcome::Accepted, 1);
    assert!(reader.begin_next().is_none());
    for thread in 0..THREADS {
        assert!(ring.take(thread).is_empty());
    }
    assert_eq!(ring.figures().answered, 3);
    assert_eq!(ring.take_late().accepted, [1]);
    assert!(ring.submit(&batch(0, &plan("p"), b"records")).is_none()); // it is paused
    ring.resume();
    assert!(ring.submit(&batch(0, &plan("p"), b"records")).is_some());
    assert!(ring.recall().is_empty());
}

#[test]
fn a_batch_that_is_left_out_as_it_is_begun_is_judged_again() {
    let ring = Ring::new(1, THREADS.into()).unwrap();
    let mut reader = reader_of(&ring);
    let memory = Memory::open(ring.memory().as_raw_fd(), layout::BYTES).unwrap();
    ring.submit(&batch(0, &plan("p"), b"records")).unwrap();
    // The worker has noted the batch, and does not know yet that it is recalled.
    memory.number(layout::CURRENT).unwrap().store(1, Ordering::SeqCst);
    assert_eq!(ring.recall(), b"p");
    assert_eq!(ring.take(0)[0].number, 1);
    assert!(reader.begin_next().is_none());
    assert!(ring.take(0).is_empty());
    assert_eq!(ring.take_late(), Late { accepted: vec![], left_out: vec![1] });
}

#[test]
fn a_batch_that_is_withdrawn_as_it_is_begun_is_judged_again() {
    let ring = Ring::new(1, THREADS.into()).unwrap();
    let mut reader = reader_of(&ring);
    let memory = Memory::open(ring.memory().as_raw_fd(), layout::BYTES).unwrap();
    let first = ring.submit(&batch(0, &plan("p"), b"records")).unwrap();
    let second = ring.submit(&batch(0, &plan("p"), b"records")).unwrap();
    // The worker has noted the batch, and does not know yet that it is withdrawn.
    memory.number(layout::CURRENT).unwrap().store(1, Ordering::SeqCst);
    let judged = ring.withdraw(first).unwrap();
    assert_eq!((judged.outcome, judged.number), (Outcome::LeftOut, 1));
    assert_eq!(ring.withdraw(first), None);
    // The batch behind it stays.
    assert_eq!(reader.begin_next().unwrap().number, 2);
    assert!(ring.take(0).is_empty());
    assert_eq!(ring.take_late(), Late { accepted: vec![], left_out: vec![1] });
    assert_eq!(ring.withdraw(second).unwrap().number, 2);
}

#[test]
fn a_plan_is_never_read_from_the_memory() {
    let ring = Ring::new(1, THREADS.into()).unwrap();
    let mut reader = reader_of(&ring);
    let memory = Memory::open(ring.memory().as_raw_fd(), layout::BYTES).unwrap();
    ring.submit(&batch(0, &plan("plan"), b"records")).unwrap();
    let slot = reader.begin_next().unwrap();
    assert!(memory.write(layout::DATA + slot.start as usize, b"lies"));
    assert_eq!(ring.close(), b"plan");
}

#[test]
fn what_a_worker_does_with_its_descriptors_makes_nobody_wait() {
    let ring = Ring::new(1, 1).unwrap();
    for end in ring.done().chain([ring.work()]) {
        // Only the flag of the description is set, whatever it is.
        let end = UnixStream::from(end.try_clone_to_owned().unwrap());
        end.set_nonblocking(false).unwrap();
    }
    let memory = Memory::open(ring.memory().as_raw_fd(), layout::BYTES).unwrap();
    let mut reader = reader_of(&ring);
    for number in 0..100_000 {
        memory.number(layout::WAITS).unwrap().store(1, Ordering::SeqCst);
        ring.submit(&batch(3 * number, &plan(""), b"")).unwrap(); // the pipe is full at some time
        let slot = reader.begin_next().unwrap();
        reader.reply(slot, Outcome::Accepted, 0);
        assert_eq!(ring.take(0).len(), 1);
    }
    ring.done_of(0).unwrap().reset(); // nothing is there, and nobody waits
    assert!(ring.close().is_empty());
}

#[test]
fn a_ring_that_is_broken_is_not_over_before_its_threads_know() {
    let ring = Ring::new(1, THREADS.into()).unwrap();
    let memory = Memory::open(ring.memory().as_raw_fd(), layout::BYTES).unwrap();
    for connection in 0..3 {
        ring.submit(&batch(connection, &plan("p"), b"records")).unwrap();
    }
    let outcomes = memory.number(layout::outcomes(0)).unwrap();
    outcomes.store(u64::MAX, Ordering::SeqCst);
    assert_eq!(ring.take(0).len(), 1);
    assert!(ring.figures().is_broken && ring.is_over(0));
    assert!(!ring.is_over(1) && !ring.is_over(2));
    assert_eq!((ring.take(1).len(), ring.take(2).len()), (1, 1));
    assert!(ring.is_over(1) && ring.is_over(2));
}

/// Judge the batches that are there; return the partitions, which are their connections.
fn judge_all(ring: &Ring, reader: &mut Reader, took_us: u32, most: usize) -> Vec<i32> {
    let mut partitions = Vec::new();
    while partitions.len() < most
        && let Some(slot) = reader.begin_next()
    {
        partitions.push(slot.partition);
        reader.reply(slot, Outcome::Accepted, took_us);
        for thread in 0..THREADS {
            ring.take(thread);
        }
    }
    partitions
}

#[test]
fn a_client_of_many_batches_does_not_delay_those_of_others() {
    let ring = Ring::new(1, THREADS.into()).unwrap();
    let mut reader = reader_of(&ring);
    let plan = plan("");
    let submit = |connection: u64, count: i32| {
        for partition in 0..count {
            ring.submit(&Batch { partition, ..batch(connection, &plan, b"records") }).unwrap();
        }
    };
    submit(1, 200);
    judge_all(&ring, &mut reader, 10_000, 30);
    submit(1, 20);
    submit(2, 3);
    let connections: Vec<_> = (0..30)
        .map(|_| {
            let slot = reader.begin_next().unwrap();
            reader.reply(slot, Outcome::Accepted, 10_000);
            (0..THREADS).flat_map(|thread| ring.take(thread)).next().unwrap().connection
        })
        .collect();
    let places: Vec<_> = (0..30).filter(|place| connections[*place] == 2).collect();
    assert!(places.len() == 3 && places[2] <= 8, "{places:?}");
}

#[test]
fn a_worker_has_little_work_ahead_also_of_quick_batches() {
    for (took_us, least, most) in [(900, 20, 30), (20, 300, 512)] {
        let ring = Ring::new(1, THREADS.into()).unwrap();
        let mut reader = reader_of(&ring);
        let plan = plan("");
        for connection in 0..600 {
            ring.submit(&batch(connection, &plan, b"records")).unwrap();
        }
        judge_all(&ring, &mut reader, took_us, 200);
        for connection in 600..1000 {
            ring.submit(&batch(connection, &plan, b"records")).unwrap();
        }
        judge_all(&ring, &mut reader, took_us, 1);
        let figures = ring.figures();
        let ahead = figures.written - figures.answered;
        assert!((least..=most).contains(&ahead), "{took_us}: {ahead}");
        assert_eq!(judge_all(&ring, &mut reader, took_us, 1000).len(), 1000 - 201);
    }
}

#[test]
fn what_nobody_waits_for_any_more_takes_no_memory() {
    let ring = Ring::new(1, THREADS.into()).unwrap();
    let plan = plan("");
    let large = vec![0; layout::LONGEST];
    let mut tickets = Vec::new();
    while let Some(ticket) = ring.submit(&batch(tickets.len() as u64, &plan, &large)) {
        tickets.push(ticket);
    }
    assert_eq!((tickets.len(), ring.figures().waiting), (2 + 16, 16));
    assert!(ring.submit(&batch(100, &plan, &large)).is_none());
    ring.withdraw(tickets[5]);
    assert_eq!(ring.figures().waiting, 15);
    assert!(ring.submit(&batch(100, &plan, &large)).is_some());
}

#[test]
fn a_batch_that_may_not_wait_is_pythons_where_there_is_no_room() {
    let ring = Ring::new(1, THREADS.into()).unwrap();
    let plan = plan("");
    let large = vec![0; layout::LONGEST];
    let submit = |may_wait| ring.submit(&Batch { may_wait, ..batch(0, &plan, &large) }).is_some();
    assert_eq!(
        [submit(false), submit(false), submit(false), submit(true)],
        [true, true, false, true]
    );
    assert_eq!(ring.figures().waiting, 1);
}

#[test]
fn thousands_of_clients_that_leave_wait_no_more() {
    let ring = Ring::new(1, THREADS.into()).unwrap();
    let plan = plan("");
    let tickets: Vec<_> =
        (0..10_000).map(|of| ring.submit(&batch(of, &plan, b"records")).unwrap()).collect();
    for ticket in tickets.iter().rev() {
        ring.withdraw(*ticket);
    }
    assert_eq!(ring.figures().waiting, 0);
}

#[test]
fn batches_that_wait_long_are_pythons() {
    let ring = Ring::new(1, THREADS.into()).unwrap();
    let mut reader = reader_of(&ring);
    let plan = plan("");
    let waker = Arc::new(Waker::new().unwrap());
    assert!(ring.begin_waiting(1, &waker));
    let tickets: Vec<_> =
        (0..30).map(|of| ring.submit(&batch(of, &plan, b"records")).unwrap()).collect();
    let waiting = ring.figures().waiting as u64;
    assert!(waiting > 3 && !was_woken(&waker));
    let taken = ring.take_at(0, Instant::now() + Duration::from_secs(4));
    assert!(taken.is_empty() && !was_woken(&waker));
    let mut left_out = ring.take_at(0, Instant::now() + Duration::from_secs(6));
    assert!(was_woken(&waker));
    left_out.extend((1..THREADS).flat_map(|thread| ring.take(thread)));
    assert!(left_out.iter().all(|of| of.outcome == Outcome::LeftOut && of.number == NOT_BEGUN));
    let left_out: HashSet<_> = left_out.iter().map(|of| of.ticket).collect();
    let last = tickets.len() - waiting as usize;
    assert_eq!(left_out, tickets[last..].iter().copied().collect());
    assert_eq!(ring.figures().waiting, 0);
    assert_eq!(judge_all(&ring, &mut reader, 10, 100).len(), last);
}

/// Whether a thread was woken, which takes note of it.
fn was_woken(waker: &Waker) -> bool {
    File::from(waker.as_fd().try_clone_to_owned().unwrap()).read(&mut [0; 8]).is_ok()
}

#[test]
fn a_thread_whose_batches_are_recalled_before_it_waits_is_woken() {
    let ring = Ring::new(1, THREADS.into()).unwrap();
    ring.submit(&batch(1, &plan(""), b"records")).unwrap();
    ring.recall();
    let wakers = [0, 1].map(|_| Arc::new(Waker::new().unwrap()));
    for (thread, waker) in (0..).zip(&wakers) {
        assert!(ring.begin_waiting(thread, waker) && !ring.begin_waiting(thread, waker));
    }
    assert_eq!(wakers.map(|waker| was_woken(&waker)), [false, true]);
}

#[test]
fn a_thread_that_takes_no_outcomes_does_not_keep_others_waiting() {
    let ring = Ring::new(1, THREADS.into()).unwrap();
    let mut reader = reader_of(&ring);
    let plan = plan("");
    let large = vec![0; layout::LONGEST];
    let tickets = [1, 1, 0].map(|of| ring.submit(&batch(of, &plan, &large)).unwrap());
    while let Some(slot) = reader.begin_next() {
        reader.reply(slot, Outcome::Accepted, 10);
    }
    assert!(ring.take(0).is_empty());
    let slot = reader.begin_next().unwrap();
    reader.reply(slot, Outcome::Accepted, 10);
    assert_eq!(ring.take(0)[0].ticket, tickets[2]);
    ring.withdraw(tickets[0]);
    let rest: Vec<_> = ring.take(1).iter().map(|of| of.ticket).collect();
    assert_eq!(rest, [tickets[1]]);
}

#[test]
fn a_ring_takes_only_as_much_memory_as_was_needed_at_once() {
    let ring = Ring::new(1, THREADS.into()).unwrap();
    let mut reader = reader_of(&ring);
    let (plan, records) = (plan("plan"), vec![1; 100_000]);
    for _ in 0..100 {
        for connection in 0..2 {
            ring.submit(&batch(connection, &plan, &records)).unwrap();
        }
        for start in [0, 100_004] {
            let slot = reader.begin_next().unwrap();
            assert_eq!(slot.start, start);
            reader.reply(slot, Outcome::Accepted, 10);
        }
        assert_eq!((ring.take(0).len(), ring.take(1).len()), (1, 1));
    }
}

#[test]
fn a_thread_that_begins_to_wait_knows_of_what_was_recalled_before() {
    let ring = Ring::new(1, THREADS.into()).unwrap();
    let [waker, other] = [0, 1].map(|_| Arc::new(Waker::new().unwrap()));
    assert!(ring.begin_waiting(1, &other));
    ring.submit(&batch(0, &plan("p"), b"records")).unwrap();
    ring.recall(); // before its thread waits
    assert!(ring.begin_waiting(0, &waker));
    assert!(is_readable(&waker));
    assert_eq!(ring.take(0).len(), 1);
    // A thread with nothing to learn is not woken.
    let waker = Arc::new(Waker::new().unwrap());
    assert!(ring.begin_waiting(2, &waker) && !is_readable(&waker));
}

#[test]
fn threads_are_woken_once_by_a_ring_that_breaks() {
    let ring = Ring::new(1, THREADS.into()).unwrap();
    let wakers = [0, 1].map(|_| Arc::new(Waker::new().unwrap()));
    for (thread, waker) in (0..).zip(&wakers) {
        ring.begin_waiting(thread, waker);
    }
    let memory = Memory::open(ring.memory().as_raw_fd(), layout::BYTES).unwrap();
    memory.number(layout::outcomes(0)).unwrap().store(u64::MAX, Ordering::SeqCst);
    ring.take(0);
    for waker in &wakers {
        assert!(is_readable(waker));
        waker.reset();
    }
    // Each thread that is woken looks at all its rings.
    for thread in [0, 1, 0] {
        ring.take(thread);
        assert!(!wakers.iter().any(|waker| is_readable(waker)));
    }
}

/// A history of a ring, until everything has an outcome.
fn run(seed: u64, ends: bool) {
    let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let ring = Ring::new(1, THREADS.into()).unwrap();
    let mut reader = reader_of(&ring);
    let most = [10, 2_000, 900_000][random.below(3) as usize];
    let mut sent: HashMap<u64, (u64, Vec<u8>)> = HashMap::new();
    let (mut withdrawn, mut answered, mut by_number) =
        (HashSet::new(), HashSet::new(), HashMap::new());
    let mut in_hand = None;
    let mut note = |judged: Vec<penstock_native::ring::sender::Judged>,
                    sent: &HashMap<u64, (u64, Vec<u8>)>,
                    by_number: &HashMap<u64, (Vec<u8>, Outcome)>,
                    withdrawn: &HashSet<u64>| {
        for of in judged {
            let (connection, records) = &sent[&of.ticket];
            assert_eq!(of.connection, *connection, "seed {seed}");
            assert!(!withdrawn.contains(&of.ticket), "seed {seed}");
            assert!(answered.insert(of.ticket), "seed {seed}: twice");
            if of.outcome != Outcome::LeftOut {
                let (judged, outcome) = &by_number[&of.number];
                assert!(judged == records && *outcome == of.outcome, "seed {seed}");
            }
        }
        answered.len()
    };
    for _ in 0..random.below(400) {
        match random.below(20) {
            0..7 => {
                let records = random.bytes(most);
                let connection = random.below(8);
                if let Some(ticket) = ring.submit(&batch(connection, &plan("plan"), &records)) {
                    assert!(sent.insert(ticket, (connection, records)).is_none());
                }
            }
            7..14 => {
                if let Some(slot) = in_hand.take() {
                    let outcome = [Outcome::Accepted, Outcome::Verdict][random.below(2) as usize];
                    let records = reader.records(&slot).unwrap();
                    assert_eq!(reader.plan(&slot).unwrap(), b"plan");
                    by_number.insert(slot.number, (records, outcome));
                    reader.reply(slot, outcome, random.below(40_000) as u32);
                } else {
                    in_hand = reader.begin_next();
                }
            }
            14..18 => {
                let judged = ring.take(random.below(THREADS.into()) as u16);
                note(judged, &sent, &by_number, &withdrawn);
            }
            18 if ends && random.below(10) == 0 => {
                if random.below(4) == 0 {
                    ring.close()
                } else {
                    ring.recall()
                };
                if random.below(2) == 0 {
                    ring.resume();
                }
            }
            _ => {
                let ticket = random.below(sent.len() as u64 + 1);
                // A thread withdraws what it has no outcome of: it takes all first.
                for thread in 0..THREADS {
                    note(ring.take(thread), &sent, &by_number, &withdrawn);
                }
                let done = note(Vec::new(), &sent, &by_number, &withdrawn);
                assert!(done <= sent.len());
                if sent.contains_key(&ticket) {
                    ring.withdraw(ticket);
                    withdrawn.insert(ticket);
                }
            }
        }
        assert!(!ring.figures().is_broken, "seed {seed}");
    }
    let mut turns = 0;
    loop {
        if let Some(slot) = in_hand.take() {
            by_number.insert(slot.number, (reader.records(&slot).unwrap(), Outcome::Accepted));
            reader.reply(slot, Outcome::Accepted, 10);
        }
        in_hand = reader.begin_next();
        for thread in 0..THREADS {
            note(ring.take(thread), &sent, &by_number, &withdrawn);
        }
        let figures = ring.figures();
        if in_hand.is_none() && figures.written == figures.answered && figures.waiting == 0 {
            break;
        }
        turns += 1;
        assert!(turns < 10_000, "seed {seed}: it never ends");
    }
    let done = note(Vec::new(), &sent, &by_number, &withdrawn);
    assert!(done + withdrawn.len() >= sent.len(), "seed {seed}: an outcome is missing");
}

#[test]
fn each_batch_has_one_outcome_in_all_histories() {
    for seed in 0..60 {
        run(seed, false);
        run(seed, true);
    }
}

/// A worker that writes anything anywhere: only its own batches suffer, and all come back.
#[test]
fn nonsense_of_a_worker_harms_only_its_own_batches() {
    let mut broken = 0;
    for seed in 0..300 {
        let mut random = Random((seed + 1) * 0x9E37_79B9);
        let ring = Ring::new(1, THREADS.into()).unwrap();
        let mut reader = reader_of(&ring);
        let memory = Memory::open(ring.memory().as_raw_fd(), layout::BYTES).unwrap();
        let (mut sent, mut answered) = (HashSet::new(), HashSet::new());
        for _ in 0..100 {
            match random.below(6) {
                0..2 => {
                    sent.extend(ring.submit(&batch(random.below(5), &plan("plan"), b"records")));
                }
                2 => {
                    if let Some(slot) = reader.begin_next() {
                        reader.reply(slot, Outcome::Accepted, 5);
                    }
                }
                3 => {
                    // Where it matters most: counters, slots, outcomes.
                    let at = random.below(1 << 18) as usize;
                    let bytes = random.bytes(40);
                    assert!(memory.write(at, &bytes));
                }
                4 => {
                    let thread = random.below(THREADS.into()) as u16;
                    let count = [0, 1, 5, u64::MAX][random.below(4) as usize];
                    let number = memory.number(layout::outcomes(thread.into())).unwrap();
                    number.store(count, Ordering::SeqCst);
                }
                _ => {
                    for of in ring.take(random.below(THREADS.into()) as u16) {
                        assert!(sent.contains(&of.ticket) && answered.insert(of.ticket));
                    }
                }
            }
        }
        broken += u32::from(ring.figures().is_broken);
        ring.close();
        for thread in 0..THREADS {
            for of in ring.take(thread) {
                assert!(sent.contains(&of.ticket) && answered.insert(of.ticket));
            }
            assert!(ring.is_over(thread));
        }
        assert_eq!(answered, sent, "seed {seed}");
    }
    assert!(broken > 100);
}

#[test]
fn a_partition_has_the_ring_of_its_slot() {
    let pool = Pool::default();
    assert!(pool.ring(b"orders", 0).is_none());
    let rings = [1, 2].map(|number| Arc::new(Ring::new(number, 1).unwrap()));
    pool.set(rings.iter().map(|ring| Some(Arc::clone(ring))).collect());
    let numbers: HashSet<_> =
        (0..20).map(|partition| pool.ring(b"orders", partition).unwrap().number()).collect();
    assert_eq!(numbers.len(), 2);
    pool.set(vec![None, None]);
    assert!(pool.ring(b"orders", 0).is_none());
}

#[test]
fn a_batch_that_is_in_hand_no_more_has_its_outcome_in_a_recall() {
    let ring = Ring::new(1, THREADS.into()).unwrap();
    let mut reader = reader_of(&ring);
    let tickets: Vec<_> =
        (0..2).map(|_| ring.submit(&batch(0, &plan("plan"), b"records")).unwrap()).collect();
    let slot = reader.begin_next().unwrap();
    reader.reply(slot, Outcome::Accepted, 10); // and its thread has not looked
    assert!(ring.recall().is_empty());
    let outcomes: Vec<_> = ring.take(0).iter().map(|of| (of.ticket, of.outcome)).collect();
    assert_eq!(outcomes, [(tickets[0], Outcome::Accepted), (tickets[1], Outcome::LeftOut)]);
}
