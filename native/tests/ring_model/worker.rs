//! A worker process in steps: between any two it may be killed, and the gateway may do anything.

use std::collections::{HashMap, VecDeque};
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use penstock_native::lane::epoll::{Called, Caller, calls, wait_for_either};
use penstock_native::ring::layout::{self, Outcome, Reply, Slot};
use penstock_native::ring::memory::Memory;
use penstock_native::ring::reader::Reader;
use penstock_native::ring::saying::Saying;
use penstock_native::ring::sender::Ring;

use crate::random::Random;

/// What the policies say about a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Accepted,
    Refused,
    Failed,
}

/// Return the verdict on a batch, which follows from its id and the plan.
pub fn verdict_of(plan: &[u8], id: u64) -> Verdict {
    let version = plan.iter().fold(0_u64, |sum, byte| sum * 31 + u64::from(*byte));
    match (id.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32).wrapping_add(version * 7) % 9 {
        0 => Verdict::Refused,
        1 => Verdict::Failed,
        _ => Verdict::Accepted,
    }
}

/// Return the id with which the records of a batch begin.
pub fn id_of(records: &[u8]) -> u64 {
    records.first_chunk().map_or(0, |id| u64::from_le_bytes(*id))
}

/// After a slow batch, an outcome is said at once for so many times as long.
const SLOW_TIMES: u32 = 8;
const SLOW: Duration = Duration::from_millis(1);
/// No outcome is said later than so long after it was written, but for the time of one batch.
const SAY_EVERY: Duration = Duration::from_micros(200);

/// How the end of a ring is used.
enum Hands {
    /// As the process does: whole calls.
    Real(Box<Reader>),
    /// Each access to the memory is a step.
    Steps,
}

/// The next step.
#[derive(Clone, Copy)]
enum At {
    Idle,
    /// The slot was read.
    Found(Slot),
    /// It is in no list of batches to leave out.
    Checked(Slot),
    /// It is noted that the batch is being judged.
    Noted(Slot),
    /// The batch is being judged.
    Hand(Slot),
    /// The verdict is sent, if it has to be.
    Judged(Slot, Outcome),
    /// The outcome is written.
    Written(u16),
    /// The outcome counts.
    Counted,
    /// It is noted that the worker waits.
    Announced,
    Waiting,
    Woken,
}

pub struct Worker {
    pub ring: Arc<Ring>,
    memory: Memory,
    work: Called,
    done: Vec<Caller>,
    hands: Hands,
    at: At,
    read: u64,
    replies: [u64; layout::THREADS_MAX],
    unsaid: [bool; layout::THREADS_MAX],
    saying: Saying,
    /// When it was found that outcomes have to be said before the next batch is begun.
    due_at: Option<Instant>,
    now: Instant,
    /// Since when each thread has outcomes, but for batches that were left out, that it did not take.
    owed: [Option<Instant>; layout::THREADS_MAX],
    /// Until when others may be as slow as a slow batch.
    slow_until: Instant,
    /// The most microseconds that a batch takes.
    most_us: u64,
    /// Sent to Python, and not received: the batch's number, and its verdict.
    pub socket: VecDeque<(u64, Verdict)>,
    /// The plan and the records of each batch that was begun, by its number.
    pub begun: HashMap<u64, (Vec<u8>, Vec<u8>)>,
    /// Whether it has written nonsense.
    pub is_liar: bool,
    /// Whether it reads its ring at all.
    pub reads: bool,
    /// Whether its process runs.
    pub runs: bool,
}

impl Worker {
    pub fn new(ring: Arc<Ring>, real: bool, most_us: u64) -> Self {
        let done: Vec<_> = ring.done().map(|each| each.as_raw_fd()).collect();
        let (memory, work) = (ring.memory().as_raw_fd(), ring.work().as_raw_fd());
        let reader = || Reader::open(memory, work, &done).unwrap();
        let now = Instant::now();
        Self {
            hands: if real { Hands::Real(Box::new(reader())) } else { Hands::Steps },
            memory: Memory::open(memory, layout::BYTES).unwrap(),
            work: Called::duplicate(work).unwrap(),
            done: done.iter().map(|each| Caller::duplicate(*each).unwrap()).collect(),
            at: At::Idle,
            read: 0,
            replies: [0; layout::THREADS_MAX],
            unsaid: [false; layout::THREADS_MAX],
            saying: Saying::new(now),
            due_at: None,
            now,
            owed: [None; layout::THREADS_MAX],
            slow_until: now,
            most_us,
            socket: VecDeque::new(),
            begun: HashMap::new(),
            is_liar: false,
            reads: true,
            runs: true,
            ring,
        }
    }

    fn number(&self, at: usize) -> u64 {
        self.memory.number(at).unwrap().load(Ordering::SeqCst)
    }

    fn set(&self, at: usize, value: u64) {
        self.memory.number(at).unwrap().store(value, Ordering::SeqCst);
    }

    fn has_more(&self) -> bool {
        match &self.hands {
            Hands::Real(reader) => reader.has_more(),
            Hands::Steps => self.number(layout::WRITTEN) > self.read,
        }
    }

    /// Return whether it has nothing to do before somebody wakes it.
    pub fn rests(&self) -> bool {
        !self.runs || !self.reads || (matches!(self.at, At::Waiting) && !is_readable(&self.work))
    }

    /// Return whether it waits for batches and has judged all that it was given.
    pub fn is_done(&self) -> bool {
        matches!(self.at, At::Announced | At::Waiting) && !self.has_more()
    }

    /// Note that a thread takes the outcomes that it has.
    pub const fn note_taken(&mut self, thread: usize) {
        self.owed[thread] = None;
    }

    /// Return a thread that has outcomes, and would learn of them after the batch in hand only,
    /// which may be slow.
    pub fn is_late_for(&self) -> Option<usize> {
        let is_begun = self.runs && matches!(self.at, At::Hand(_));
        let is_late = |since: Instant| self.now < self.slow_until || self.now - since > SAY_EVERY;
        let is_woken = |thread| self.ring.done_of(thread as u16).is_none_or(is_readable);
        let owed = (0..).zip(&self.owed).filter(|_| is_begun);
        let mut late = owed.filter(|(_, since)| since.is_some_and(is_late));
        late.find(|(thread, _)| !is_woken(*thread)).map(|(thread, _)| thread)
    }

    /// Do the next step.
    pub fn step(&mut self, random: &mut Random) {
        if self.rests() {
            return;
        }
        self.at = match self.at {
            At::Idle => self.next(random),
            At::Found(slot) => {
                self.read = slot.number;
                if slot.number <= self.number(layout::LEFT_OUT) {
                    At::Judged(slot, Outcome::LeftOut)
                } else {
                    At::Checked(slot)
                }
            }
            At::Checked(slot) => {
                self.set(layout::CURRENT, slot.number);
                At::Noted(slot)
            }
            At::Noted(slot)
                if slot.number <= self.number(layout::LEFT_OUT)
                    || self.number(layout::left_out(slot.number)) != 0 =>
            {
                At::Judged(slot, Outcome::LeftOut)
            }
            At::Noted(slot) => At::Hand(slot),
            At::Hand(slot) => self.judge(slot),
            At::Judged(slot, outcome) => self.reply(slot, outcome, random),
            At::Written(thread) => {
                let thread = usize::from(thread);
                self.replies[thread] += 1;
                self.set(layout::outcomes(thread), self.replies[thread]);
                self.unsaid[thread] = true;
                At::Counted
            }
            At::Counted => {
                self.set(layout::CURRENT, 0);
                At::Idle
            }
            At::Announced if self.has_more() => {
                self.set(layout::WAITS, 0);
                At::Idle
            }
            At::Announced => At::Waiting,
            At::Waiting => {
                self.set(layout::WAITS, 0);
                At::Woken
            }
            At::Woken => {
                self.work.reset();
                At::Idle
            }
        };
    }

    fn next(&mut self, random: &mut Random) -> At {
        let has_more = self.has_more();
        if self.unsaid.contains(&true) && (!has_more || self.due_at.is_some()) {
            self.say(random);
            return At::Idle;
        }
        self.due_at = None;
        if !has_more {
            self.now += Duration::from_micros(random.below(self.most_us));
            self.saying.note_said(self.now);
            self.set(layout::WAITS, 1);
            return At::Announced;
        }
        match &mut self.hands {
            Hands::Real(reader) => {
                self.unsaid[0] = true; // it may have left batches out
                reader.begin_next().map_or(At::Idle, At::Hand)
            }
            Hands::Steps => {
                let number = self.read + 1;
                let mut bytes = [0; layout::SLOT_BYTES];
                assert!(self.memory.read(layout::slot(number), &mut bytes));
                let slot = Slot::decode(&bytes).filter(|slot| {
                    let end = [slot.start, slot.plan_bytes, slot.record_bytes];
                    let end: u64 = end.into_iter().map(u64::from).sum();
                    slot.number == number && end <= layout::DATA_BYTES as u64
                });
                slot.map_or(At::Idle, At::Found)
            }
        }
    }

    fn judge(&mut self, slot: Slot) -> At {
        let bytes = |at: usize, size: u32| {
            let mut bytes = vec![0; size as usize];
            assert!(self.memory.read(at, &mut bytes));
            bytes
        };
        let start = layout::DATA + slot.start as usize;
        let plan = bytes(start, slot.plan_bytes);
        let records = bytes(start + plan.len(), slot.record_bytes);
        let verdict = verdict_of(&plan, id_of(&records));
        self.begun.insert(slot.number, (plan, records));
        if verdict == Verdict::Accepted {
            return At::Judged(slot, Outcome::Accepted);
        }
        self.socket.push_back((slot.number, verdict));
        At::Judged(slot, Outcome::Verdict)
    }

    /// Let the time of a batch pass; return its microseconds.
    fn take_time(&mut self, slot: Slot, random: &mut Random) -> u32 {
        let most_us = if random.chance(4) { self.most_us } else { self.most_us.min(50) };
        let took_us = random.below(most_us) as u32;
        let took = Duration::from_micros(took_us.into());
        self.now += took;
        if took > SLOW {
            self.slow_until = self.slow_until.max(self.now + took * SLOW_TIMES);
        }
        if let Some(owed) = self.owed.get_mut(usize::from(slot.thread)) {
            owed.get_or_insert(self.now);
        }
        if self.saying.note_outcome(self.now, took) {
            self.due_at = Some(self.now);
        }
        took_us
    }

    fn reply(&mut self, slot: Slot, outcome: Outcome, random: &mut Random) -> At {
        let is_left_out = outcome == Outcome::LeftOut;
        let took_us = if is_left_out { 0 } else { self.take_time(slot, random) };
        if let Hands::Real(reader) = &mut self.hands {
            reader.reply(slot, outcome, took_us);
            self.unsaid[0] = true;
            return At::Idle;
        }
        self.write(slot, outcome, took_us)
    }

    fn write(&self, slot: Slot, outcome: Outcome, took_us: u32) -> At {
        let thread = usize::from(slot.thread);
        if thread >= layout::THREADS_MAX {
            return At::Counted;
        }
        let reply = Reply { number: slot.number, took_us, outcome };
        assert!(self.memory.write(layout::reply(thread, self.replies[thread]), &reply.encode()));
        At::Written(slot.thread)
    }

    fn say(&mut self, random: &mut Random) {
        if let Hands::Real(reader) = &mut self.hands {
            reader.say();
            self.unsaid = Default::default();
            return;
        }
        let first = random.below(layout::THREADS_MAX as u64) as usize;
        let mut order = (first..layout::THREADS_MAX).chain(0..first);
        if let Some(thread) = order.find(|thread| self.unsaid[*thread]) {
            self.unsaid[thread] = false;
            if let Some(done) = self.done.get(thread) {
                done.wake();
            }
        }
    }

    /// Write what no worker writes: a class of a user has this memory, too.
    pub fn lie(&mut self, random: &mut Random) {
        self.is_liar = true;
        let written = self.number(layout::WRITTEN).min(1 << 20);
        let thread = random.below(4) as usize;
        match random.below(8) {
            0 => {
                let at = random.below(layout::DATA as u64) as usize;
                assert!(self.memory.write(at, &random.bytes(64)));
            }
            1 => {
                let at = layout::DATA + random.below(1 << 14) as usize;
                assert!(self.memory.write(at, &random.bytes(256)));
            }
            2 => {
                let slot = layout::slot(random.below(written + 2));
                assert!(self.memory.write(slot, &random.bytes(64)));
            }
            3 => {
                let flags = [layout::WRITTEN, layout::LEFT_OUT, layout::CURRENT, layout::WAITS];
                let value = [0, 1, written, random.below(8), u64::MAX][random.below(5) as usize];
                self.set(flags[random.below(4) as usize], value);
            }
            4 => self.set(layout::outcomes(thread), random.below(5)),
            5 => self.set(layout::outcomes(thread), u64::MAX - random.below(3)),
            6 => {
                // An outcome of any batch, in the form of an outcome.
                let count = self.number(layout::outcomes(thread));
                let outcomes = [Outcome::Accepted, Outcome::Verdict, Outcome::LeftOut];
                let outcome = outcomes[random.below(3) as usize];
                let reply = Reply { number: random.below(written + 2), took_us: 1, outcome };
                assert!(self.memory.write(layout::reply(thread, count), &reply.encode()));
                self.set(layout::outcomes(thread), count.wrapping_add(1));
            }
            _ => {
                self.work.reset();
                for done in &self.done {
                    done.wake();
                }
            }
        }
    }
}

/// Return whether there is something to read.
pub fn is_readable(end: &impl AsFd) -> bool {
    thread_local!(static NEVER: (Caller, Called) = calls().unwrap());
    let descriptor = end.as_fd().as_raw_fd();
    NEVER.with(|(_, never)| wait_for_either(never, descriptor, 0).unwrap().1)
}

#[cfg(test)]
mod tests {
    use penstock_native::ring::sender::Batch;

    use super::*;

    fn memory_of(worker: &Worker) -> Vec<u8> {
        let mut bytes = vec![0; layout::DATA];
        assert!(worker.memory.read(0, &mut bytes));
        bytes
    }

    /// Let a worker judge until it waits.
    fn run(worker: &mut Worker) {
        let mut random = Random::of(7);
        for _ in 0..10_000 {
            worker.step(&mut random);
        }
        assert!(worker.rests());
    }

    #[test]
    fn steps_write_what_the_reader_writes() {
        let mut random = Random::of(1);
        let mut workers = [true, false].map(|real| {
            let ring = Arc::new(Ring::new(1, 3).unwrap());
            Worker::new(ring, real, 1)
        });
        let plan: Arc<[u8]> = b"plan".as_slice().into();
        for _ in 0..30 {
            for connection in 0..random.below(9) {
                let records = random.bytes(100);
                for worker in &workers {
                    let batch = Batch {
                        connection,
                        thread: (connection % 3) as u16,
                        version: 8,
                        partition: 0,
                        topic_id: [0; 16],
                        plan: &plan,
                        context: None,
                        records: &records,
                        may_wait: true,
                    };
                    worker.ring.submit(&batch).unwrap();
                }
            }
            if random.chance(4) {
                for worker in &workers {
                    worker.ring.recall();
                    worker.ring.resume();
                }
            }
            for worker in &mut workers {
                run(worker);
            }
            assert!(memory_of(&workers[0]) == memory_of(&workers[1]));
            assert_eq!(workers[0].socket, workers[1].socket);
            for thread in 0..3 {
                let [ours, theirs] = [0, 1].map(|place: usize| workers[place].ring.take(thread));
                assert_eq!(ours, theirs);
            }
        }
        assert!(!workers[0].socket.is_empty());
    }
}
