//! The gateway's end of a ring.
//!
//! Each batch has an entry here, from the moment in which it is submitted until the worker has said
//! its outcome. The place of a batch in the ring becomes free only then, whatever the worker writes.
//! Batches of which nobody waits for the outcome any more stay for the same reason.
#![forbid(unsafe_code)]

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use super::layout::{self, BATCHES_MAX, DATA, DATA_BYTES, LONGEST, Outcome, Reply, Slot};
use super::memory::Memory;
use super::observed::Observed;
use super::turns::{LEAST_S, Turns};
use crate::lane::epoll::{Called, Caller, Waker, calls};
use crate::lane::locked;

/// A worker may always have so many batches.
const AT_ONCE_MIN: usize = 2;
/// And so many if they are quick.
const AT_ONCE_MAX: usize = 512;
/// It gets no more batches while its own are expected to take longer: the next client is chosen
/// after them.
const AHEAD_S: f64 = 0.02;
/// How much a new batch counts in the average of quick batches.
const RECENT_SHARE: f64 = 0.125;
/// More bytes do not wait here.
const WAITING_MAX_BYTES: usize = 32 * 1024 * 1024;
/// Batches that have waited longer are Python's, which answers before their clients give up.
pub const WAITING_MAX: Duration = Duration::from_secs(5);

/// The number of a batch that no worker has begun: Python has it judged, and knows how long it waited.
pub const NOT_BEGUN: u64 = u64::MAX;

/// A batch to be judged.
#[derive(Debug, Clone, Copy)]
pub struct Batch<'a> {
    /// The connection that waits for the outcome.
    pub connection: u64,
    /// The thread of this connection.
    pub thread: u16,
    /// The version of the Produce request.
    pub version: i16,
    /// The partition.
    pub partition: i32,
    /// The topic's id; zeros where it is not known.
    pub topic_id: [u8; 16],
    /// The topic's plan, encoded.
    pub plan: &'a Arc<[u8]>,
    /// Who sent it, if a policy takes that: `context::encoded`.
    pub context: Option<&'a Arc<[u8]>>,
    /// The batch as it was received.
    pub records: &'a [u8],
    /// Whether it may be copied, to wait until the worker has room.
    pub may_wait: bool,
}

/// The outcome of a batch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Judged {
    /// The connection.
    pub connection: u64,
    /// The batch, as `submit` named it.
    pub ticket: u64,
    /// The outcome.
    pub outcome: Outcome,
    /// The batch's number, under which Python gets its verdict; `NOT_BEGUN` if it is to be
    /// judged again.
    pub number: u64,
    /// How many seconds it was judged.
    pub took_s: f64,
}

impl Judged {
    const fn left_out(connection: u64, ticket: u64, number: u64) -> Self {
        Self { connection, ticket, outcome: Outcome::LeftOut, number, took_s: 0.0 }
    }
}

/// Batches that were recalled while they were in the worker's hand: their numbers.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Late {
    /// Those that are accepted.
    pub accepted: Vec<u64>,
    /// Those that the worker had not begun after all.
    pub left_out: Vec<u64>,
}

/// The state of a ring, for Python.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Figures {
    /// The number of the batch that is being judged; 0 for none.
    pub current: u64,
    /// How many batches were written.
    pub written: u64,
    /// How many of them have an outcome.
    pub answered: u64,
    /// How many wait to be written.
    pub waiting: usize,
    /// Whether the worker has written nonsense.
    pub is_broken: bool,
}

#[derive(Debug)]
struct Entry {
    ticket: u64,
    thread: u16,
    connection: u64,
    /// Whether nobody waits for it any more.
    is_withdrawn: bool,
    is_answered: bool,
    /// Whether Python waits for its outcome.
    is_pythons: bool,
    /// How long it is expected to take, by the account of its client.
    expected_s: f64,
    /// The same, or the average of quick batches.
    counted_s: f64,
    bytes: usize,
    plan: Arc<[u8]>,
    /// The batch, if it is only observed, until it has an outcome.
    observed: Option<Arc<Observed>>,
    /// Until where the ring is in use, from its beginning on.
    end: u64,
}

#[derive(Debug)]
struct Waiting {
    head: Head,
    /// Empty where the batch is only observed.
    records: Vec<u8>,
}

impl Waiting {
    /// How many bytes it takes in the ring.
    fn size(&self) -> usize {
        self.head.size().saturating_add(self.records().len())
    }

    fn records(&self) -> &[u8] {
        self.head.observed.as_ref().map_or(&self.records, |observed| &observed.records)
    }
}

#[derive(Debug, Default)]
struct State {
    /// The ring's number.
    ring: u64,
    /// Whether the worker is to wake threads for these, too: batches wait for a place.
    is_wanted: bool,
    is_closed: bool,
    /// Whether it takes no batches for now: they were recalled.
    is_paused: bool,
    /// The last ticket.
    ticket: u64,
    /// The number of the first entry.
    first: u64,
    entries: VecDeque<Entry>,
    /// How many entries have no outcome.
    unanswered: usize,
    /// How long they are expected to take together.
    expected_s: f64,
    /// How long batches have taken of late, where each counts `LEAST_S` at most.
    quick_s: f64,
    /// Until where bytes were written, and what was skipped, since the ring was empty last.
    end: u64,
    /// How many outcomes of each thread were read.
    read: [u64; layout::THREADS_MAX],
    turns: Turns<Waiting>,
    /// The connections of the batches that wait, and since when, by their tickets.
    waiting: BTreeMap<u64, (u64, Instant)>,
    waiting_bytes: usize,
    /// What threads have not learned yet of their batches.
    untaken: [Vec<Judged>; layout::THREADS_MAX],
    /// What became of the batches that were recalled in the worker's hand.
    late: Late,
}

/// The gateway's end.
#[derive(Debug)]
pub struct Ring {
    memory: Memory,
    work: (Caller, Called),
    done: Vec<(Caller, Called)>,
    state: Mutex<State>,
    is_broken: AtomicBool,
    /// The number of the last mark: a class may have written to where the worker reads it.
    mark: AtomicU64,
    /// Its number, by which Python knows it.
    number: u64,
    /// The threads that wait for its outcomes.
    threads: [OnceLock<Arc<Waker>>; layout::THREADS_MAX],
}

impl Ring {
    /// Make a ring with a number for so many threads.
    ///
    /// # Errors
    /// There is no memory, or there are no descriptors left.
    pub fn new(number: u64, threads: usize) -> io::Result<Self> {
        let threads = threads.clamp(1, layout::THREADS_MAX);
        let done = (0..threads).map(|_| calls()).collect::<io::Result<_>>()?;
        let state = State { ring: number, first: 1, quick_s: LEAST_S, ..State::default() };
        Ok(Self {
            memory: Memory::new(layout::BYTES)?,
            work: calls()?,
            done,
            state: Mutex::new(state),
            is_broken: AtomicBool::new(false),
            mark: AtomicU64::new(0),
            number,
            threads: Default::default(),
        })
    }

    /// Return its number.
    pub const fn number(&self) -> u64 {
        self.number
    }

    /// Note that a thread waits for outcomes from now on; return false if it did before.
    pub fn begin_waiting(&self, thread: u16, waker: &Arc<Waker>) -> bool {
        let Some(place) = self.threads.get(usize::from(thread)) else { return false };
        let is_first = place.get().is_none() && place.set(Arc::clone(waker)).is_ok();
        // Nobody could be woken if its batches were recalled before.
        if is_first && locked(&self.state).has_untaken(thread) {
            waker.wake();
        }
        is_first
    }

    /// Return whether a thread waits for outcomes.
    pub fn is_waited_for(&self, thread: u16) -> bool {
        self.threads.get(usize::from(thread)).is_some_and(|place| place.get().is_some())
    }

    /// Return the descriptor of the memory.
    pub fn memory(&self) -> BorrowedFd<'_> {
        self.memory.as_fd()
    }

    /// Return the descriptor that is readable when there is work.
    pub fn work(&self) -> BorrowedFd<'_> {
        self.work.1.as_fd()
    }

    /// Return the descriptors that are written to when there are outcomes for a thread.
    pub fn done(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.done.iter().map(|(caller, _)| caller.as_fd())
    }

    /// Return the descriptor of a thread.
    pub fn done_of(&self, thread: u16) -> Option<&Called> {
        self.done.get(usize::from(thread)).map(|(_, called)| called)
    }

    /// Submit a batch; return its ticket, or None if Python has to have it judged.
    pub fn submit(&self, batch: &Batch<'_>) -> Option<u64> {
        let mut state = locked(&self.state);
        self.enter(&mut state, Head::of(batch), batch.records, batch.may_wait)
    }

    /// Have a batch judged for which nobody waits; return false if Python has to have it judged.
    ///
    /// `thread` is woken as long as batches wait for a place.
    pub fn observe(&self, observed: &Arc<Observed>, thread: u16) -> bool {
        let mut state = locked(&self.state);
        // No thread takes the outcomes.
        self.read_outcomes(&mut state);
        state.free();
        self.refill(&mut state);
        let head = Head::observing(observed, thread);
        let is_taken = self.enter(&mut state, head, &observed.records, true).is_some();
        self.want_outcomes(&mut state);
        is_taken
    }

    /// Read the outcomes of batches for which nobody waits, and let others follow.
    pub fn look(&self) {
        let mut state = locked(&self.state);
        self.read_outcomes(&mut state);
        state.free();
        self.refill(&mut state);
        self.give_up(&mut state, Instant::now());
        self.want_outcomes(&mut state);
    }

    /// Have the worker wake threads for each outcome while batches wait, and only then.
    fn want_outcomes(&self, state: &mut State) {
        let next = state.turns.peek();
        let is_wanted = next.is_some_and(|waiting| waiting.head.observed.is_some());
        if is_wanted == state.is_wanted {
            return;
        }
        state.is_wanted = is_wanted;
        if let Some(wanted) = self.memory.number(layout::WANTED) {
            wanted.store(is_wanted.into(), Ordering::SeqCst);
        }
        if is_wanted {
            // The worker may have written its last outcome before.
            self.read_outcomes(state);
            state.free();
            self.refill(state);
        }
    }

    /// Write a batch, or let it wait; return its ticket, or None if Python has to have it judged.
    fn enter(
        &self,
        state: &mut State,
        mut head: Head,
        records: &[u8],
        may_wait: bool,
    ) -> Option<u64> {
        let bytes = head.size().saturating_add(records.len());
        if bytes > LONGEST || usize::from(head.thread) >= self.done.len() {
            return None;
        }
        if state.is_closed || state.is_paused {
            return None;
        }
        let is_next = state.turns.is_empty() && state.has_room(bytes);
        let waiting_bytes = state.waiting_bytes.saturating_add(bytes);
        let is_bounded = head.observed.is_some(); // elsewhere
        if !is_next && (!may_wait || (waiting_bytes > WAITING_MAX_BYTES && !is_bounded)) {
            return None;
        }
        state.ticket = state.ticket.saturating_add(1);
        let (ticket, connection) = (state.ticket, head.connection);
        head.ticket = ticket;
        if is_next {
            let expected_s = state.turns.begin_at_once(connection);
            return self.write(state, &head, records, expected_s).then_some(ticket);
        }
        state.waiting_bytes = waiting_bytes;
        state.waiting.insert(ticket, (connection, Instant::now()));
        let records = if head.observed.is_some() { Vec::new() } else { records.to_vec() };
        state.turns.enter(connection, Waiting { head, records });
        Some(ticket)
    }

    /// Write a batch for which there is room, and wake the worker; false if that is not possible.
    fn write(&self, state: &mut State, head: &Head, records: &[u8], expected_s: f64) -> bool {
        let pieces = [&*head.plan, head.context(), records];
        let bytes = head.size().saturating_add(records.len());
        let Some((start, end)) = state.place(bytes) else { return false };
        let mut at = DATA.saturating_add(start);
        for piece in pieces {
            if !self.memory.write(at, piece) {
                return false;
            }
            at = at.saturating_add(piece.len());
        }
        let number = state.next_number();
        let small = |size: usize| u32::try_from(size).unwrap_or(0);
        let slot = Slot {
            number,
            start: small(start),
            plan_bytes: small(head.plan.len()),
            record_bytes: small(records.len()),
            partition: head.partition,
            version: head.version,
            thread: head.thread,
            topic_id: head.topic_id,
            context_bytes: small(head.context().len()),
            is_observed: head.observed.is_some().into(),
        };
        let (Some(written), Some(waits)) =
            (self.memory.number(layout::WRITTEN), self.memory.number(layout::WAITS))
        else {
            return false;
        };
        if !self.memory.write(layout::slot(number), &slot.encode()) {
            return false;
        }
        let counted_s = if expected_s > 0.0 { expected_s } else { state.quick_s };
        state.end = end;
        state.unanswered = state.unanswered.saturating_add(1);
        state.expected_s += counted_s;
        state.entries.push_back(Entry {
            ticket: head.ticket,
            thread: head.thread,
            connection: head.connection,
            is_withdrawn: head.observed.is_some(),
            is_answered: false,
            is_pythons: false,
            expected_s,
            counted_s,
            bytes,
            plan: Arc::clone(&head.plan),
            observed: head.observed.clone(),
            end,
        });
        // The worker says that it waits, and then looks once more.
        written.store(number, Ordering::SeqCst);
        if waits.swap(0, Ordering::SeqCst) != 0 {
            self.work.0.wake();
        }
        true
    }

    /// Return the outcomes for a thread, and let batches that wait follow.
    pub fn take(&self, thread: u16) -> Vec<Judged> {
        self.take_at(thread, Instant::now())
    }

    /// Do so at a time.
    ///
    /// Outcomes for all threads are read: batches that wait do not wait for a thread that takes none.
    pub fn take_at(&self, thread: u16, now: Instant) -> Vec<Judged> {
        let mut state = locked(&self.state);
        self.read_outcomes(&mut state);
        state.free();
        self.refill(&mut state);
        self.give_up(&mut state, now);
        self.want_outcomes(&mut state);
        state.take_untaken(thread)
    }

    /// Read the outcomes for all threads; after nonsense, have no thread wait.
    fn read_outcomes(&self, state: &mut State) {
        // A broken ring is not read again: each thread that it wakes reads here, too.
        if !self.is_broken.load(Ordering::Acquire) && !self.read_all(state) {
            state.withdraw_all(0);
            self.wake_threads();
        }
    }

    /// Read the outcomes for all threads; return false if they end in nonsense.
    fn read_all(&self, state: &mut State) -> bool {
        let are_read = (0..self.done.len()).all(|thread| self.read(state, thread).is_some());
        if !are_read {
            self.is_broken.store(true, Ordering::Release);
            state.is_closed = true;
        }
        are_read
    }

    /// Read the outcomes for a thread; None if they end in nonsense.
    fn read(&self, state: &mut State, thread: usize) -> Option<()> {
        let before = *state.read.get(thread)?;
        // Not before `WANTED` is written: the worker writes its outcome, and then reads that.
        let written = self.memory.number(layout::outcomes(thread))?.load(Ordering::SeqCst);
        let count = written.wrapping_sub(before);
        if count > BATCHES_MAX as u64 {
            return None;
        }
        for position in before..written {
            let mut bytes = [0; layout::REPLY_BYTES];
            if !self.memory.read(layout::reply(thread, position), &mut bytes) {
                return None;
            }
            state.answer(Reply::decode(&bytes)?, thread)?;
            *state.read.get_mut(thread)? = position.saturating_add(1);
        }
        Some(())
    }

    /// Write batches that wait, as far as there is room.
    fn refill(&self, state: &mut State) {
        while state.turns.peek().is_some_and(|next| state.has_room(next.size())) {
            let Some((next, expected_s)) = state.turns.begin_next() else { return };
            state.waiting.remove(&next.head.ticket);
            state.waiting_bytes = state.waiting_bytes.saturating_sub(next.size());
            if !self.write(state, &next.head, next.records(), expected_s) {
                self.leave_to_python(state, &next.head);
            }
        }
    }

    /// Leave batches to Python that have waited for too long.
    fn give_up(&self, state: &mut State, now: Instant) {
        while let Some((ticket, (_, since))) = state.waiting.first_key_value()
            && now.saturating_duration_since(*since) > WAITING_MAX
        {
            let ticket = *ticket;
            let Some(waiting) = state.remove_waiting(ticket) else { return };
            self.leave_to_python(state, &waiting.head);
        }
    }

    fn leave_to_python(&self, state: &mut State, head: &Head) {
        if let Some(observed) = &head.observed {
            return observed.give_back();
        }
        state.put_untaken(head.thread, Judged::left_out(head.connection, head.ticket, NOT_BEGUN));
        if let Some(waker) = self.threads.get(usize::from(head.thread)).and_then(OnceLock::get) {
            waker.wake();
        }
    }

    /// Have no thread wait for the outcome of a batch any more; return the outcome if there is one.
    ///
    /// A batch that the worker has not begun is left out. Python waits for that which it judges now,
    /// whose outcome is `LeftOut` with its number, as in a recall.
    pub fn withdraw(&self, ticket: u64) -> Option<Judged> {
        let mut state = locked(&self.state);
        if state.remove_waiting(ticket).is_some() {
            return None;
        }
        let Some((number, entry)) = (state.first..)
            .zip(&state.entries)
            .find(|(_, entry)| entry.ticket == ticket && !entry.is_withdrawn)
            .filter(|(_, entry)| !entry.is_answered)
        else {
            return state.take_untaken_of(ticket);
        };
        let connection = entry.connection;
        if let Some(left_out) = self.memory.number(layout::left_out(number)) {
            left_out.store(1, Ordering::SeqCst);
        }
        let is_current = self.figure(layout::CURRENT) == number;
        // It may have an outcome that its thread has not taken.
        self.read_outcomes(&mut state);
        if let Some(judged) = state.take_untaken_of(ticket) {
            return Some(judged);
        }
        let entry = state.entries.iter_mut().find(|entry| entry.ticket == ticket)?;
        (entry.is_withdrawn, entry.is_pythons) = (true, is_current);
        is_current.then(|| Judged::left_out(connection, ticket, number))
    }

    /// Have the worker leave out what it has not begun, and the threads what it has not judged, and
    /// take no more batches for now; return the plan of the batch that it judges now, which is empty if
    /// there is none.
    pub fn recall(&self) -> Vec<u8> {
        let mut state = locked(&self.state);
        state.is_paused = true;
        self.recall_all(&mut state)
    }

    /// Take batches again.
    pub fn resume(&self) {
        locked(&self.state).is_paused = false;
    }

    /// Take no more batches, and recall all.
    pub fn close(&self) -> Vec<u8> {
        let mut state = locked(&self.state);
        state.is_closed = true;
        self.recall_all(&mut state)
    }

    fn recall_all(&self, state: &mut State) -> Vec<u8> {
        if let Some(left_out) = self.memory.number(layout::LEFT_OUT) {
            left_out.store(state.last_number(), Ordering::SeqCst);
        }
        // The worker may wait for a mark that is never sent.
        self.write_mark();
        // Outcomes are read after that: a batch that is in hand no more has its outcome.
        let current = self.figure(layout::CURRENT);
        self.read_all(state);
        let place = current.checked_sub(state.first).and_then(|place| usize::try_from(place).ok());
        let entry = place.and_then(|place| state.entries.get(place));
        let in_hand = entry.filter(|entry| !entry.is_answered);
        let plan = in_hand.map(|entry| entry.plan.to_vec()).unwrap_or_default();
        state.withdraw_all(current);
        self.wake_threads();
        plan
    }

    fn wake_threads(&self) {
        for waker in self.threads.iter().filter_map(OnceLock::get) {
            waker.wake();
        }
    }

    /// Return what became of the batches for which Python waits, but for those with a verdict.
    pub fn take_late(&self) -> Late {
        let mut state = locked(&self.state);
        // Their threads may not look any more.
        if state.entries.iter().any(|entry| entry.is_pythons && !entry.is_answered) {
            self.read_outcomes(&mut state);
        }
        std::mem::take(&mut state.late)
    }

    /// Wait for no outcome of a batch that is only observed: the worker has ended. Python knows
    /// whether that batch has ended it.
    pub fn abandon(&self) {
        let mut state = locked(&self.state);
        let (ring, first) = (state.ring, state.first);
        for (number, entry) in (first..).zip(&mut state.entries) {
            if let Some(observed) = entry.observed.take() {
                observed.refuse(ring, number, 0.0);
            }
        }
    }

    /// Return the plans of the batches that have no outcome: each once.
    pub fn open_plans(&self) -> Vec<Arc<[u8]>> {
        let state = locked(&self.state);
        let open = state.entries.iter().filter(|entry| !entry.is_answered);
        let waiting = state.turns.values().map(|waiting| &waiting.head.plan);
        let mut plans: Vec<Arc<[u8]>> = Vec::new();
        for plan in open.map(|entry| &entry.plan).chain(waiting) {
            if !plans.iter().any(|other| Arc::ptr_eq(other, plan)) {
                plans.push(Arc::clone(plan));
            }
        }
        plans
    }

    /// Have the worker handle all messages up to a mark before it begins a batch that is submitted
    /// from now on. Marks are numbered from 1, in the order in which they are sent.
    pub fn expect_mark(&self, number: u64) {
        self.mark.store(number, Ordering::SeqCst);
        self.write_mark();
    }

    fn write_mark(&self) {
        if let Some(mark) = self.memory.number(layout::MARK) {
            mark.store(self.mark.load(Ordering::SeqCst), Ordering::SeqCst);
        }
    }

    /// Return whether it takes no more batches, and a thread has nothing to learn of any.
    pub fn is_over(&self, thread: u16) -> bool {
        let state = locked(&self.state);
        let has_open = state
            .entries
            .iter()
            .any(|entry| entry.thread == thread && !entry.is_withdrawn && !entry.is_answered);
        state.is_closed && !has_open && !state.has_untaken(thread)
    }

    /// Return its state.
    pub fn figures(&self) -> Figures {
        let state = locked(&self.state);
        let written = state.last_number();
        Figures {
            current: self.figure(layout::CURRENT),
            written,
            answered: written.saturating_sub(state.unanswered as u64),
            waiting: state.turns.len(),
            is_broken: self.is_broken.load(Ordering::Acquire),
        }
    }

    fn figure(&self, at: usize) -> u64 {
        self.memory.number(at).map_or(0, |number| number.load(Ordering::SeqCst))
    }
}

/// A batch without its bytes.
#[derive(Debug)]
struct Head {
    ticket: u64,
    connection: u64,
    thread: u16,
    version: i16,
    partition: i32,
    topic_id: [u8; 16],
    plan: Arc<[u8]>,
    context: Option<Arc<[u8]>>,
    observed: Option<Arc<Observed>>,
}

impl Head {
    fn context(&self) -> &[u8] {
        self.context.as_deref().unwrap_or_default()
    }

    /// How many bytes it takes in the ring, without records.
    fn size(&self) -> usize {
        self.plan.len().saturating_add(self.context().len())
    }

    fn observing(observed: &Arc<Observed>, thread: u16) -> Self {
        let head = &observed.head;
        Self {
            ticket: 0,
            connection: head.connection,
            thread,
            version: head.version,
            partition: head.partition,
            topic_id: head.topic_id,
            plan: Arc::clone(&head.plan),
            context: head.takes_client.then(|| Arc::clone(&head.context)),
            observed: Some(Arc::clone(observed)),
        }
    }

    fn of(batch: &Batch<'_>) -> Self {
        Self {
            ticket: 0,
            connection: batch.connection,
            thread: batch.thread,
            version: batch.version,
            partition: batch.partition,
            topic_id: batch.topic_id,
            plan: Arc::clone(batch.plan),
            context: batch.context.cloned(),
            observed: None,
        }
    }
}

impl State {
    fn next_number(&self) -> u64 {
        self.first.saturating_add(self.entries.len() as u64)
    }

    fn last_number(&self) -> u64 {
        self.next_number().saturating_sub(1)
    }

    /// Whether the worker may be sent another batch of so many bytes.
    fn has_room(&self, bytes: usize) -> bool {
        let may_have_more = self.unanswered < AT_ONCE_MIN
            || (self.unanswered < AT_ONCE_MAX && self.expected_s <= AHEAD_S);
        may_have_more && self.entries.len() < BATCHES_MAX && self.place(bytes).is_some()
    }

    /// Return where so many bytes begin, and until where the ring is in use then; None if there is
    /// no room. Bytes of a batch are never in two pieces.
    fn place(&self, bytes: usize) -> Option<(usize, u64)> {
        let size = DATA_BYTES as u64;
        let used_from = self
            .entries
            .front()
            .map_or(self.end, |entry| entry.end.saturating_sub(entry.bytes as u64));
        let mut start = self.end;
        let at = start.checked_rem(size)?;
        if at.saturating_add(bytes as u64) > size {
            start = start.saturating_add(size.saturating_sub(at));
        }
        let end = start.saturating_add(bytes as u64);
        let fits = end.saturating_sub(used_from) <= size;
        fits.then_some((usize::try_from(start.checked_rem(size)?).ok()?, end))
    }

    /// Note an outcome; None for nonsense.
    fn answer(&mut self, reply: Reply, thread: usize) -> Option<()> {
        let place = usize::try_from(reply.number.checked_sub(self.first)?).ok()?;
        let entry = self.entries.get_mut(place).filter(|entry| !entry.is_answered)?;
        if usize::from(entry.thread) != thread {
            return None;
        }
        entry.is_answered = true;
        let took_s = f64::from(reply.took_us) / 1e6;
        self.unanswered = self.unanswered.saturating_sub(1);
        self.expected_s -= entry.counted_s;
        if self.unanswered == 0 {
            self.expected_s = 0.0;
        }
        if reply.outcome != Outcome::LeftOut {
            self.turns.settle(entry.connection, entry.expected_s, took_s);
            self.quick_s += RECENT_SHARE * (took_s.min(LEAST_S) - self.quick_s);
        }
        match reply.outcome {
            Outcome::Accepted if entry.is_pythons => self.late.accepted.push(reply.number),
            Outcome::LeftOut if entry.is_pythons => self.late.left_out.push(reply.number),
            _ => {}
        }
        if let Some(observed) = entry.observed.take() {
            match reply.outcome {
                Outcome::Accepted => observed.accept(took_s),
                Outcome::Verdict => observed.refuse(self.ring, reply.number, took_s),
                Outcome::LeftOut => observed.give_back(),
            }
        }
        let (connection, ticket, outcome) = (entry.connection, entry.ticket, reply.outcome);
        if !entry.is_withdrawn {
            let of = Judged { connection, ticket, outcome, number: reply.number, took_s };
            self.untaken.get_mut(thread)?.push(of);
        }
        Some(())
    }

    /// Have no thread wait for any batch: those who did learn of it. Python waits for the current
    /// batch, which is not judged again.
    fn withdraw_all(&mut self, current: u64) {
        for (number, entry) in (self.first..).zip(&mut self.entries) {
            if !entry.is_answered && !entry.is_withdrawn {
                entry.is_pythons = number == current;
                let known_number = if entry.is_pythons { number } else { NOT_BEGUN };
                let of = Judged::left_out(entry.connection, entry.ticket, known_number);
                if let Some(untaken) = self.untaken.get_mut(usize::from(entry.thread)) {
                    untaken.push(of);
                }
            }
            entry.is_withdrawn = true;
            if let Some(observed) = entry.observed.take_if(|_| number != current) {
                observed.give_back();
            }
        }
        for Waiting { head, .. } in self.turns.drain() {
            if let Some(observed) = head.observed {
                observed.give_back();
                continue;
            }
            let of = Judged::left_out(head.connection, head.ticket, NOT_BEGUN);
            self.put_untaken(head.thread, of);
        }
        self.waiting.clear();
        self.waiting_bytes = 0;
    }

    /// Remove a batch that waits.
    fn remove_waiting(&mut self, ticket: u64) -> Option<Waiting> {
        let (connection, _) = self.waiting.remove(&ticket)?;
        let waiting = self.turns.remove(connection, |waiting| waiting.head.ticket == ticket)?;
        self.waiting_bytes = self.waiting_bytes.saturating_sub(waiting.size());
        Some(waiting)
    }

    fn put_untaken(&mut self, thread: u16, judged: Judged) {
        if let Some(untaken) = self.untaken.get_mut(usize::from(thread)) {
            untaken.push(judged);
        }
    }

    fn has_untaken(&self, thread: u16) -> bool {
        self.untaken.get(usize::from(thread)).is_some_and(|untaken| !untaken.is_empty())
    }

    fn take_untaken(&mut self, thread: u16) -> Vec<Judged> {
        self.untaken.get_mut(usize::from(thread)).map(std::mem::take).unwrap_or_default()
    }

    fn take_untaken_of(&mut self, ticket: u64) -> Option<Judged> {
        self.untaken.iter_mut().find_map(|judged| {
            let place = judged.iter().position(|of| of.ticket == ticket)?;
            Some(judged.remove(place))
        })
    }

    /// Let the places of batches that have an outcome be used again.
    fn free(&mut self) {
        while self.entries.front().is_some_and(|entry| entry.is_answered) {
            self.entries.pop_front();
            self.first = self.first.saturating_add(1);
        }
        if self.entries.is_empty() {
            self.end = 0; // the same memory again, rather than all of it
        }
    }
}
