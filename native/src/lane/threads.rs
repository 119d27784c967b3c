//! The threads of the lane, and the connections that each of them has.
//!
//! Python gives a connection to a thread (`adopt`) and can take it back at any moment (`take`). A
//! thread that cannot continue with a connection puts it on a list (`ready`), and wakes Python.
//! Each connection has a lock; a thread has it for the time of one read. No thread ever waits for
//! Python.
#![forbid(unsafe_code)]

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd, RawFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use super::connection::{Connection, GivenBack, Side};
use super::counts::{Collected, Counts};
use super::epoll::{End, Epoll, Event, Interest, Waker, duplicate};
use super::exchange::State;
use super::judging::{Place as OfConnection, Sender};
use super::locked;
use super::panics;
use super::relay::{Limits, Relay};
use super::sliced::Sliced;
use super::slices::{Slice, seconds_after};
use super::stopwatch::Stopwatch;
use super::stream::Stream;
use super::table::Table;
use super::tls::{Phase, Tls};
use super::waiting::{RINGS, Rings};

const READ_BYTES: usize = 256 * 1024;
/// A connection that holds no more may stay, however much is held altogether. Python, too,
/// counts so few once a second only (`SMALL_BYTES`).
const LOW_USE_BYTES: usize = 16 * 1024;
/// Schemas are judged inside each other, up to a depth that Python's threads have room for, too.
const STACK_BYTES: usize = 8 * 1024 * 1024;
const WAKE: u64 = u64::MAX;
const READ: Interest = Interest { read: true, write: false, end: true };
const SIDES: [Side; 2] = [Side::Client, Side::Broker];

/// A connection, and its figures after its last read: Python does not wait for a read.
#[derive(Default)]
struct Place {
    connection: Mutex<Option<Connection>>,
    figures: Mutex<Figures>,
}

type Slot = Arc<Place>;

/// The figures of a connection that is the lane's, for Python.
#[derive(Debug, Default, Clone, Copy)]
pub struct Figures {
    /// How many bytes are held.
    pub held_bytes: usize,
    /// How many bytes of its request have not been received yet.
    pub missing_bytes: usize,
    /// How many requests await their response.
    pub unanswered: usize,
    /// Whether a side is not read because of the other side.
    pub is_blocked: bool,
    /// When bytes were received last.
    pub last_active: f64,
    /// How many bytes of the client were received.
    pub received_bytes: u64,
    /// How many bytes of its request, or of its head, are missing; None between requests.
    pub request_left: Option<usize>,
    /// For how long the client was not read.
    pub unread_s: f64,
    /// Whether it is not read now.
    is_unread: bool,
    /// The time of these figures.
    at: f64,
}

/// The state that all threads share.
#[derive(Debug)]
struct Shared {
    began: Instant,
    began_at: f64,
    ready: Mutex<Vec<u64>>,
    waker: Waker,
    held_bytes: AtomicUsize,
    held_max_bytes: usize,
    /// Whether all clients of the gateway together hold too much.
    is_short: AtomicBool,
    panics: AtomicU64,
    /// Where the lane's own errors happened, since the last time.
    errors: Mutex<Vec<String>>,
    ends: AtomicBool,
}

impl Shared {
    /// The time by Python's monotonic clock.
    fn now(&self) -> f64 {
        self.began_at + self.began.elapsed().as_secs_f64()
    }

    fn give_back(&self, number: u64) {
        locked(&self.ready).push(number);
        self.waker.wake();
    }

    /// Whether the lane holds too much, or the gateway does.
    fn is_short(&self) -> bool {
        self.is_short.load(Ordering::Relaxed) || self.holds_much()
    }

    fn holds_much(&self) -> bool {
        self.held_bytes.load(Ordering::Relaxed) > self.held_max_bytes
    }

    fn count_held(&self, before: usize, after: usize) {
        if after >= before {
            self.held_bytes.fetch_add(after.saturating_sub(before), Ordering::Relaxed);
        } else {
            self.held_bytes.fetch_sub(before.saturating_sub(after), Ordering::Relaxed);
        }
    }
}

/// A thread, as the others see it.
struct Worker {
    epoll: Arc<Epoll>,
    waker: Arc<Waker>,
    slots: Mutex<HashMap<u64, Slot>>,
    /// Connections with bytes that were received before it had them.
    begun: Mutex<Vec<u64>>,
    /// Connections whose next request is judged in slices.
    sliced: Mutex<Sliced>,
    counts: Mutex<Counts>,
    /// The rings whose outcomes it waits for.
    rings: Arc<Rings>,
    /// Whether its thread has ended before its time. It is set while `slots` is locked.
    has_failed: AtomicBool,
}

/// All threads.
pub struct Lane {
    shared: Arc<Shared>,
    workers: Vec<Arc<Worker>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    next: AtomicU64,
}

/// A connection that the lane takes over.
#[derive(Debug)]
pub struct Adopted {
    /// The client's socket.
    pub client: RawFd,
    /// The broker's socket.
    pub broker: RawFd,
    /// The client's TLS.
    pub client_tls: Option<Arc<Mutex<Tls>>>,
    /// The broker's TLS.
    pub broker_tls: Option<Arc<Mutex<Tls>>>,
    /// The state between the bytes.
    pub state: State,
    /// Bytes of the client that are not processed.
    pub from_client: Vec<u8>,
    /// Bytes of the broker that are not processed.
    pub from_broker: Vec<u8>,
    /// The connection's limits.
    pub limits: Limits,
    /// Its client, if policies may be given it by native threads.
    pub sender: Option<Sender>,
}

impl Lane {
    /// Start the threads.
    ///
    /// `bounds` are those of histograms, `now` is the time by Python's clock. If all connections
    /// hold more than `held_max_bytes`, those that hold much are given back.
    ///
    /// # Errors
    /// There are no descriptors left, or no thread can be started.
    pub fn start(
        threads: usize,
        bounds: &[f64],
        held_max_bytes: usize,
        now: f64,
    ) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            began: Instant::now(),
            began_at: now,
            ready: Mutex::default(),
            waker: Waker::new()?,
            held_bytes: AtomicUsize::new(0),
            held_max_bytes,
            is_short: AtomicBool::new(false),
            panics: AtomicU64::new(0),
            errors: Mutex::default(),
            ends: AtomicBool::new(false),
        });
        let mut lane = Self {
            shared,
            workers: Vec::new(),
            threads: Mutex::default(),
            next: AtomicU64::new(0),
        };
        for place in 0..u16::try_from(threads.max(1)).unwrap_or(1) {
            let (epoll, waker) = (Arc::new(Epoll::new()?), Arc::new(Waker::new()?));
            let rings = Arc::new(Rings::new(place, Arc::clone(&epoll), Arc::clone(&waker)));
            let worker = Arc::new(Worker {
                epoll,
                waker,
                slots: Mutex::default(),
                begun: Mutex::default(),
                sliced: Mutex::default(),
                counts: Mutex::new(Counts::new(bounds)),
                rings,
                has_failed: AtomicBool::new(false),
            });
            worker.epoll.add(&*worker.waker, WAKE, Interest::READ)?;
            let (of_thread, shared) = (Arc::clone(&worker), Arc::clone(&lane.shared));
            let started = thread::Builder::new()
                .name("penstock-lane".into())
                .stack_size(STACK_BYTES)
                .spawn(move || run(&of_thread, &shared))?;
            locked(&lane.threads).push(started);
            lane.workers.push(worker);
        }
        Ok(lane)
    }

    /// Return the descriptor that is readable when a connection was given back.
    pub fn ready_descriptor(&self) -> BorrowedFd<'_> {
        self.shared.waker.as_fd()
    }

    /// Return the connections that threads have given back since the last time.
    pub fn ready(&self) -> Vec<u64> {
        self.shared.waker.reset();
        std::mem::take(&mut *locked(&self.shared.ready))
    }

    /// Take over a connection; return its number, or None if it has to stay Python's.
    ///
    /// Nobody else may read the sockets, or write to them, until it is taken back.
    ///
    /// # Errors
    /// A socket cannot be used.
    pub fn adopt(&self, adopted: Adopted, table: Arc<Table>) -> io::Result<Option<u64>> {
        let Some(relay) = Relay::new(adopted.state, table, adopted.limits) else {
            return Ok(None);
        };
        let mut tls = adopted.client_tls.iter().chain(&adopted.broker_tls);
        if !tls.all(|tls| locked(tls).phase() == Phase::Open) {
            return Ok(None);
        }
        // It would come back in a later turn of Python's loop, which may take long.
        if relay.begins_with_pythons(&adopted.from_client, self.shared.now()) {
            return Ok(None);
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let Some(worker) = self.worker(number) else { return Ok(None) };
        let (client, broker) = (duplicate(adopted.client)?, duplicate(adopted.broker)?);
        let now = self.shared.now();
        let Adopted { from_client, from_broker, client_tls, broker_tls, sender, .. } = adopted;
        let (client, broker) = (Stream::new(client, client_tls), Stream::new(broker, broker_tls));
        let has_received = !(from_client.is_empty() && from_broker.is_empty());
        let mut connection = Connection::new(client, broker, relay, from_client, from_broker, now);
        connection.client_number = client_of(sender.as_ref(), connection.socket(Side::Client));
        let rings = Arc::clone(&worker.rings);
        connection.set_place(Arc::new(OfConnection { number, rings, sender }));
        connection.waited_for = interests(&connection);
        let waited_for = connection.waited_for;
        // The threads know it from here on; they wait for its lock.
        let slot = Slot::default();
        let mut place = locked(&slot.connection);
        if !worker.take_in(number, &slot) {
            return Ok(None);
        }
        for (side, interest) in SIDES.into_iter().zip(waited_for) {
            let added = worker.epoll.add(connection.socket(side), token(number, side), interest);
            if let Err(error) = added {
                locked(&worker.slots).remove(&number);
                worker.forget(&connection);
                return Err(error);
            }
        }
        settle(worker, &self.shared, number, (&slot, &mut connection), 0);
        *place = Some(connection);
        drop(place);
        // Judging the received batches takes too long for Python's loop.
        if has_received {
            locked(&worker.begun).push(number);
            worker.waker.wake();
        }
        Ok(Some(number))
    }

    /// Take a connection back; None if it is not the lane's.
    pub fn take(&self, number: u64) -> Option<GivenBack> {
        let worker = self.worker(number)?;
        let slot = locked(&worker.slots).remove(&number)?;
        let mut connection = locked(&slot.connection).take()?;
        connection.end_unread(self.shared.now());
        worker.forget(&connection);
        self.shared.count_held(connection.held_bytes(), 0);
        Some(connection.give_back(self.shared.now()))
    }

    /// Return the last figures of a connection; None if it is not the lane's.
    pub fn figures(&self, number: u64) -> Option<Figures> {
        let slot = locked(&self.worker(number)?.slots).get(&number).map(Arc::clone)?;
        let mut figures = *locked(&slot.figures);
        if figures.is_unread {
            figures.unread_s += self.shared.now() - figures.at;
        }
        Some(figures)
    }

    /// Say whether all clients of the gateway together hold too much: then little is read at once.
    pub fn set_short(&self, is_short: bool) {
        self.shared.is_short.store(is_short, Ordering::Relaxed);
    }

    /// Return the counts of each thread since the last call.
    pub fn collect(&self) -> Vec<Collected> {
        self.workers.iter().map(|worker| locked(&worker.counts).collect()).collect()
    }

    /// Return how many errors of its own the lane had: each closed a connection, or ended a thread.
    pub fn panics(&self) -> u64 {
        self.shared.panics.load(Ordering::Relaxed)
    }

    /// Return where the lane's own errors happened since the last call: only the first of them.
    pub fn errors(&self) -> Vec<String> {
        std::mem::take(&mut *locked(&self.shared.errors))
    }

    /// Panic with a connection, as an error of the lane's own does: for tests.
    ///
    /// # Errors
    /// No thread can be started.
    #[cfg_attr(not(test), expect(clippy::panic))]
    pub fn panic_with(&self, number: u64) -> io::Result<()> {
        let Some(worker) = self.worker(number) else { return Ok(()) };
        let panics = |_: &mut Connection, _| std::panic::panic_any("a record's content");
        thread::scope(|scope| {
            let work = || {
                panics::note();
                work_on(worker, &self.shared, number, panics);
            };
            thread::Builder::new().spawn_scoped(scope, work).map(drop)
        })
    }

    /// End the threads, and drop the connections that were not taken back.
    pub fn close(&self) {
        self.shared.ends.store(true, Ordering::Release);
        for worker in &self.workers {
            worker.waker.wake();
        }
        for thread in std::mem::take(&mut *locked(&self.threads)) {
            let _ = thread.join();
        }
        for worker in &self.workers {
            locked(&worker.slots).clear();
        }
    }

    fn worker(&self, number: u64) -> Option<&Worker> {
        let count = u64::try_from(self.workers.len()).ok()?;
        let position = usize::try_from(number.checked_rem(count)?).ok()?;
        self.workers.get(position).map(Arc::as_ref)
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        self.close();
    }
}

impl Shared {
    /// Do something with a connection; where that panics, it is this connection that is closed.
    fn guard(&self, connection: &mut Connection, work: impl FnOnce(&mut Connection)) {
        if catch_unwind(AssertUnwindSafe(|| work(connection))).is_err() {
            self.panics.fetch_add(1, Ordering::Relaxed);
            connection.fail();
        }
        self.note(panics::noted());
    }

    /// Keep where errors happened until Python logs it.
    fn note(&self, places: Vec<String>) {
        if !places.is_empty() {
            let mut errors = locked(&self.errors);
            let room = panics::PLACES_MAX.saturating_sub(errors.len());
            errors.extend(places.into_iter().take(room));
        }
    }
}

impl Worker {
    /// Have the thread know a connection; return false if there is no thread any more.
    fn take_in(&self, number: u64, slot: &Slot) -> bool {
        let mut slots = locked(&self.slots);
        let lives = !self.has_failed.load(Ordering::Acquire);
        if lives {
            slots.insert(number, Arc::clone(slot));
        }
        lives
    }

    /// Wait for the sockets of a connection no longer.
    ///
    /// That is needed before they are closed: Python has the same sockets by other descriptors, so
    /// closing these alone does not end it.
    fn forget(&self, connection: &Connection) {
        for side in SIDES {
            self.epoll.remove(connection.socket(side));
        }
    }

    /// Give all connections back: the thread has failed.
    fn fail(&self, shared: &Shared) {
        let slots = {
            let slots = locked(&self.slots);
            self.has_failed.store(true, Ordering::Release);
            slots.clone()
        };
        shared.panics.fetch_add(1, Ordering::Relaxed);
        shared.waker.wake();
        for (number, slot) in slots {
            if let Some(connection) = locked(&slot.connection).as_mut().filter(|one| !one.stopped) {
                connection.stopped = true;
                end_judging(connection, shared);
                self.forget(connection);
                shared.give_back(number);
            }
        }
    }
}

fn run(worker: &Worker, shared: &Shared) {
    panics::note();
    let served = catch_unwind(AssertUnwindSafe(|| serve(worker, shared)));
    shared.note(panics::noted());
    match served {
        Ok(Ok(())) => return,
        Ok(Err(error)) => shared.note(vec![error.to_string()]),
        Err(_) => {}
    }
    worker.fail(shared);
}

fn serve(worker: &Worker, shared: &Shared) -> io::Result<()> {
    let mut events = Vec::new();
    let mut room = vec![0_u8; READ_BYTES];
    while !shared.ends.load(Ordering::Acquire) {
        let waits = locked(&worker.sliced).is_empty();
        worker.epoll.wait(&mut events, waits)?;
        let watch = if waits { None } else { Some(Stopwatch::of_thread()) };
        for event in &events {
            if event.token == WAKE {
                worker.waker.reset();
                begin(worker, shared);
                for token in worker.rings.tokens() {
                    continue_judged(worker, shared, token); // batches were recalled
                }
            } else if event.token >= RINGS {
                continue_judged(worker, shared, event.token);
            } else {
                handle(worker, shared, event, &mut room);
            }
        }
        judge_slices(worker, shared, watch.map_or(0.0, |watch| watch.seconds()));
    }
    Ok(())
}

/// Judge a slice of the request that has a turn; or more, after so many seconds for others.
fn judge_slices(worker: &Worker, shared: &Shared, others_s: f64) {
    if locked(&worker.sliced).is_empty() {
        return;
    }
    leave_late(worker, shared, shared.now());
    let watch = Stopwatch::of_thread();
    while judge_slice(worker, shared) && watch.seconds() < seconds_after(others_s) {}
}

/// Judge a slice of the request that has a turn; return whether there was one.
fn judge_slice(worker: &Worker, shared: &Shared) -> bool {
    let Some(number) = locked(&worker.sliced).next(shared.now()) else { return false };
    let (mut slice, watch) = (Slice::Pythons, Stopwatch::of_thread());
    work_on(worker, shared, number, |connection, now| {
        slice = connection.judge_slice(now, &worker.counts);
    });
    locked(&worker.sliced).note(slice, watch.seconds(), shared.now());
    true
}

/// Give requests to Python that have waited for their turn for too long.
fn leave_late(worker: &Worker, shared: &Shared, now: f64) {
    let late = locked(&worker.sliced).take_late(now);
    for number in late {
        work_on(worker, shared, number, |connection, _| connection.leave_slices());
    }
}

/// Return the client of a connection, as turns know it: a principal with an address, or the address
/// alone if no more is known.
fn client_of(sender: Option<&Sender>, socket: &TcpStream) -> u64 {
    let mut hasher = DefaultHasher::new();
    match sender {
        Some(Sender { principal, address, .. }) => (principal, address).hash(&mut hasher),
        None => socket.peer_addr().ok().map(|address| address.ip()).hash(&mut hasher),
    }
    hasher.finish()
}

/// Forward the bytes that were received before the thread had the connections.
fn begin(worker: &Worker, shared: &Shared) {
    let begun = std::mem::take(&mut *locked(&worker.begun));
    for number in begun {
        work_on(worker, shared, number, |connection, now| connection.begin(now, &worker.counts));
    }
}

/// Continue with the connections whose batches have an outcome.
fn continue_judged(worker: &Worker, shared: &Shared, token: u64) {
    let Some((ring, mut outcomes)) = worker.rings.take(token) else { return };
    // Those of a connection together: it might be given back after the first.
    outcomes.sort_by_key(|judged| judged.connection);
    for of_one in outcomes.chunk_by(|judged, next| judged.connection == next.connection) {
        let Some(first) = of_one.first() else { continue };
        work_on(worker, shared, first.connection, |connection, now| {
            for judged in of_one {
                connection.judged(&ring, *judged, now, &worker.counts);
            }
        });
    }
}

fn handle(worker: &Worker, shared: &Shared, event: &Event, room: &mut [u8]) {
    let (number, side) = connection_of(event.token);
    work_on(worker, shared, number, |connection, now| {
        if event.writable {
            connection.writable(side, now, &worker.counts);
        }
        if event.readable || event.end == End::Connection {
            let mut most = room.len();
            if shared.is_short() {
                most = connection.readable_in_shortage(side).min(most);
            }
            let room = room.get_mut(..most).unwrap_or_default();
            connection.readable(side, room, now, &worker.counts);
        }
        match event.end {
            End::None => {}
            End::Sending => connection.ended(),
            End::Connection => connection.broken(side),
        }
    });
}

/// Do something with a connection, at a time, if it is not Python's.
fn work_on(worker: &Worker, shared: &Shared, number: u64, work: impl FnOnce(&mut Connection, f64)) {
    let Some(slot) = locked(&worker.slots).get(&number).map(Arc::clone) else { return };
    let mut place = locked(&slot.connection);
    let Some(connection) = place.as_mut().filter(|connection| !connection.stopped) else { return };
    let held_before = connection.held_bytes();
    let now = shared.now();
    connection.copied_max_bytes = if shared.is_short() { LOW_USE_BYTES } else { usize::MAX };
    shared.guard(connection, |connection| work(connection, now));
    settle(worker, shared, number, (&slot, connection), held_before);
}

/// Note the figures of a connection, wait for its events, or give it back to Python.
fn settle(
    worker: &Worker,
    shared: &Shared,
    number: u64,
    (place, connection): (&Place, &mut Connection),
    held_before: usize,
) {
    let (held, now) = (connection.held_bytes(), shared.now());
    connection.note_unread(now);
    *locked(&place.figures) = Figures {
        held_bytes: held,
        missing_bytes: connection.missing_bytes(),
        unanswered: connection.unanswered(),
        is_blocked: connection.is_blocked(),
        last_active: connection.last_active,
        received_bytes: connection.received_bytes(),
        request_left: connection.request_left(),
        unread_s: connection.unread_s(now),
        is_unread: !connection.interest(Side::Client).read,
        at: now,
    };
    shared.count_held(held_before, held);
    if held > LOW_USE_BYTES && shared.holds_much() {
        connection.stopped = true;
    }
    if connection.queue_slices() {
        locked(&worker.sliced).enter(connection.client_number, number, now);
    }
    wait_for_events(worker, number, connection);
    if connection.stopped {
        end_judging(connection, shared);
        worker.forget(connection);
        shared.give_back(number);
    }
}

/// Have no batch of a connection judged, of which no records and no bytes in rings are held then.
fn end_judging(connection: &mut Connection, shared: &Shared) {
    let held_before = connection.held_bytes();
    connection.end_judging(shared.now());
    shared.count_held(held_before, connection.held_bytes());
}

/// Wait for the events of a connection, where they are others than before.
fn wait_for_events(worker: &Worker, number: u64, connection: &mut Connection) {
    for (position, side) in SIDES.into_iter().enumerate() {
        let (wanted, stays) = (connection.interest(side), connection.stays_waited_for(side));
        let waited_for = connection.waited_for.get(position).copied();
        let is_same = waited_for == Some(wanted);
        if connection.stopped || is_same || (stays && waited_for == Some(READ)) {
            continue;
        }
        if worker.epoll.modify(connection.socket(side), token(number, side), wanted).is_err() {
            connection.stopped = true; // without memory; Python needs none for that
        } else if let Some(place) = connection.waited_for.get_mut(position) {
            *place = wanted;
        }
    }
}

const fn interests(connection: &Connection) -> [Interest; 2] {
    [connection.interest(Side::Client), connection.interest(Side::Broker)]
}

const fn token(number: u64, side: Side) -> u64 {
    (number << 1) | if matches!(side, Side::Client) { 0 } else { 1 }
}

const fn connection_of(token: u64) -> (u64, Side) {
    (token >> 1, if token & 1 == 0 { Side::Client } else { Side::Broker })
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::net::TcpListener;
    use std::os::fd::AsRawFd;

    use std::io::Write;

    use super::super::batch;
    use super::super::exchange::{Exchange, Receiving};
    use super::super::judge::{self, Check, Judge};
    use super::super::table::{Action, Topic};
    use super::super::worked::Worked;
    use super::*;
    use crate::cursor::put_varint;
    use crate::header::{HEADER_BYTES, checksum};
    use crate::ring::layout::Outcome;
    use crate::ring::pool::Pool;
    use crate::ring::reader::Reader;
    use crate::ring::sender::Ring;

    const LIMITS: Limits = Limits { request_max_bytes: 2_000_000, valid_until: f64::INFINITY };

    fn pair() -> (TcpStream, TcpStream) {
        let listening = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listening.local_addr().unwrap()).unwrap();
        let accepted = listening.accept().unwrap().0;
        accepted.set_nonblocking(true).unwrap();
        (stream, accepted)
    }

    /// A connection whose other end stays open as long as the process.
    fn connected() -> TcpStream {
        let listening = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listening.local_addr().unwrap()).unwrap();
        std::mem::forget(listening.accept().unwrap());
        stream
    }

    fn adopt(lane: &Lane, client: RawFd, broker: RawFd) -> io::Result<Option<u64>> {
        adopt_with(lane, client, broker, vec![])
    }

    fn adopt_by(
        lane: &Lane,
        table: Table,
        ends: (&TcpStream, &TcpStream),
        from_client: Vec<u8>,
    ) -> io::Result<Option<u64>> {
        adopt_known(lane, Arc::new(table), ends, from_client)
    }

    fn adopt_known(
        lane: &Lane,
        table: Arc<Table>,
        (client, broker): (&TcpStream, &TcpStream),
        from_client: Vec<u8>,
    ) -> io::Result<Option<u64>> {
        let adopted = Adopted {
            client: client.as_raw_fd(),
            broker: broker.as_raw_fd(),
            client_tls: None,
            broker_tls: None,
            state: State::default(),
            from_client,
            from_broker: vec![],
            limits: LIMITS,
            sender: None,
        };
        lane.adopt(adopted, table)
    }

    fn reader_of(ring: &Ring) -> Reader {
        let done: Vec<_> = ring.done().map(|each| each.as_raw_fd()).collect();
        Reader::open(ring.memory().as_raw_fd(), ring.work().as_raw_fd(), &done).unwrap()
    }

    fn adopt_with(
        lane: &Lane,
        client: RawFd,
        broker: RawFd,
        from_client: Vec<u8>,
    ) -> io::Result<Option<u64>> {
        let (state, limits) = (State::default(), LIMITS);
        let from_broker = vec![];
        let (client_tls, broker_tls) = (None, None);
        let adopted = Adopted {
            client,
            broker,
            client_tls,
            broker_tls,
            state,
            from_client,
            from_broker,
            limits,
            sender: None,
        };
        lane.adopt(adopted, Arc::default())
    }

    #[test]
    fn what_cannot_be_waited_for_is_not_taken_and_leaves_nothing() {
        let lane = Lane::start(1, &[], 0, 0.0).unwrap();
        let (client, file) = (connected(), File::open("/proc/self/exe").unwrap());
        assert!(adopt(&lane, client.as_raw_fd(), file.as_raw_fd()).is_err());
        assert_eq!(lane.workers[0].epoll.count(), 1); // the waker
        assert!(locked(&lane.workers[0].slots).is_empty());
    }

    #[test]
    fn the_connections_of_a_thread_that_has_failed_are_given_back() {
        let lane = Lane::start(1, &[], 0, 0.0).unwrap();
        let (client, broker) = (connected(), connected());
        client.set_nonblocking(true).unwrap();
        broker.set_nonblocking(true).unwrap();
        let taken = || adopt(&lane, client.as_raw_fd(), broker.as_raw_fd()).unwrap();
        let number = taken().unwrap();
        lane.workers[0].fail(&lane.shared);
        assert_eq!(lane.ready(), [number]);
        assert_eq!(lane.panics(), 1);
        assert!(!lane.take(number).unwrap().client_failed);
        assert_eq!(taken(), None);
    }

    /// A request with a batch that a worker judges; its table, the ring, and a lane whose threads have
    /// ended.
    fn judged_by_a_worker() -> (Vec<u8>, Table, Arc<Ring>, Lane) {
        judged_by_workers(2, &[0, 0, 0, 0, 5, b'd', b'a', b't', b'a', 0], usize::MAX)
    }

    /// The same with the given partitions, of which there is one less than `count`.
    fn judged_by_workers(
        count: u8,
        partitions: &[u8],
        held_max_bytes: usize,
    ) -> (Vec<u8>, Table, Arc<Ring>, Lane) {
        let mut request = vec![0, 0, 0, 0, 0, 5, 0, 9, 0, 0, 0, 1, 0, 1, b'c', 0, 0, 0, 1];
        request.extend([0, 0, 39, 16, 2, 2, b't', count]);
        request.extend(partitions);
        request.extend([0, 0]);
        let length = u32::try_from(request.len() - 4).unwrap();
        request[..4].copy_from_slice(&length.to_be_bytes());
        let (ring, pool) = (Arc::new(Ring::new(1, 1).unwrap()), Pool::default());
        pool.set(vec![Some(Arc::clone(&ring))]);
        let table = Table::new([(5, 0, vec![Action::ProduceWhole; 10])]);
        let worked = Worked::new("t", "policies", b"plan", [7; 16], Arc::new(pool));
        table.know_name(b"t", Topic::Worked(Arc::new(worked)), f64::INFINITY);
        let lane = Lane::start(1, &[], held_max_bytes, 0.0).unwrap();
        lane.close();
        (request, table, ring, lane)
    }

    #[test]
    fn a_batch_is_pythons_if_its_outcome_cannot_be_waited_for() {
        let (request, table, ring, lane) = judged_by_a_worker();
        let worker = &lane.workers[0];
        // The system refuses to wait twice for the same.
        worker.epoll.add(ring.done_of(0).unwrap(), RINGS, Interest::READ).unwrap();
        let (client, broker) = (connected(), connected());
        let number = adopt_by(&lane, table, (&client, &broker), request.clone()).unwrap().unwrap();
        begin(worker, &lane.shared);
        assert_eq!(lane.ready(), [number]);
        assert_eq!(ring.figures().written, 0);
        let back = lane.take(number).unwrap();
        assert_eq!((back.from_client, back.early.len()), (request, 0));
        assert!(!back.client_failed && !back.broker_failed);
    }

    #[test]
    fn a_connection_whose_events_cannot_be_waited_for_is_given_back_with_its_batch() {
        let (request, table, ring, lane) = judged_by_a_worker();
        let worker = &lane.workers[0];
        let (client, broker) = (connected(), connected());
        let number = adopt_by(&lane, table, (&client, &broker), request.clone()).unwrap().unwrap();
        let slot = Arc::clone(&locked(&worker.slots)[&number]);
        worker.epoll.remove(locked(&slot.connection).as_ref().unwrap().socket(Side::Client));
        begin(worker, &lane.shared);
        // The next request may wait: its client is not to be read until the batch is judged.
        let token = token(number, Side::Client);
        let event = Event { token, readable: true, writable: false, end: End::None };
        handle(worker, &lane.shared, &event, &mut [0; 10]);
        assert_eq!(lane.ready(), [number]);
        let back = lane.take(number).unwrap();
        assert_eq!((back.from_client, back.early.len()), (request, 0));
        assert!(!back.client_failed && !back.broker_failed);
        // The worker does not judge it: Python has it judged.
        let mut reader = reader_of(&ring);
        assert!(reader.begin_next().is_none());
        assert!(ring.take(0).is_empty());
        assert_eq!((ring.figures().written, ring.figures().answered), (1, 1));
        assert_eq!(worker.epoll.count(), 2); // the waker, and the ring
    }

    #[test]
    fn a_batch_in_hand_comes_back_with_the_connections_of_a_thread_that_has_failed() {
        let (request, table, ring, lane) = judged_by_a_worker();
        let (client, broker) = (connected(), connected());
        let number = adopt_by(&lane, table, (&client, &broker), request).unwrap().unwrap();
        begin(&lane.workers[0], &lane.shared);
        let mut reader = reader_of(&ring);
        let slot = reader.begin_next().unwrap();
        lane.workers[0].fail(&lane.shared);
        let back = lane.take(number).unwrap();
        assert_eq!((back.early[0].number, back.early[0].is_accepted), (1, false));
        reader.reply(slot, Outcome::Accepted, 5);
        assert_eq!(ring.take_late().accepted, [1]);
        assert_eq!(lane.shared.held_bytes.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_connection_hears_of_all_outcomes_before_it_is_given_back_for_memory() {
        let mut partitions = Vec::new();
        for index in 0..2 {
            partitions.extend([0, 0, 0, index, 169, 70]); // 9,000 bytes
            partitions.extend([1; 9000]);
            partitions.push(0);
        }
        let (request, table, ring, lane) = judged_by_workers(3, &partitions, 1_000_000);
        let (client, broker) = (connected(), connected());
        let number = adopt_by(&lane, table, (&client, &broker), request).unwrap().unwrap();
        begin(&lane.workers[0], &lane.shared);
        let mut reader = reader_of(&ring);
        while let Some(slot) = reader.begin_next() {
            reader.reply(slot, Outcome::Accepted, 5);
        }
        lane.shared.count_held(0, 1_000_001);
        continue_judged(&lane.workers[0], &lane.shared, lane.workers[0].rings.tokens()[0]);
        let back = lane.take(number).unwrap();
        assert_eq!((back.from_client.len(), back.early.len()), (0, 0), "it was forwarded");
    }

    #[test]
    fn nothing_is_held_of_a_connection_whose_client_leaves() {
        let (request, table, _, lane) = judged_by_a_worker();
        let worker = &lane.workers[0];
        let (client, broker) = (connected(), connected());
        let number = adopt_by(&lane, table, (&client, &broker), request).unwrap().unwrap();
        begin(worker, &lane.shared);
        let token = token(number, Side::Client);
        let event = Event { token, readable: false, writable: false, end: End::Sending };
        handle(worker, &lane.shared, &event, &mut [0; 10]);
        assert!(lane.take(number).is_some());
        assert_eq!(lane.shared.held_bytes.load(Ordering::Relaxed), 0);
    }

    /// A request with a batch of almost two megabytes, and a table by which its records need a key.
    fn judged_in_slices() -> (Vec<u8>, Table) {
        let mut records = Vec::new();
        for number in 0..900 {
            let mut record = vec![0, 0];
            put_varint(&mut record, number);
            record.push(0);
            put_varint(&mut record, 2000);
            record.extend([b'x'; 2000]);
            record.push(0);
            put_varint(&mut records, i32::try_from(record.len()).unwrap());
            records.extend(record);
        }
        let mut header = [0; HEADER_BYTES];
        header[8..12].copy_from_slice(&u32::try_from(49 + records.len()).unwrap().to_be_bytes());
        header[16] = 2;
        header[23..27].copy_from_slice(&899_u32.to_be_bytes());
        header[43..57].fill(0xFF);
        header[57..].copy_from_slice(&900_u32.to_be_bytes());
        let checksum = checksum(&header, &records);
        header[17..21].copy_from_slice(&checksum.to_be_bytes());
        let size = HEADER_BYTES + records.len() + 1;
        let mut request = vec![0, 0, 0, 0, 0, 5, 0, 9, 0, 0, 0, 1, 0, 1, b'c', 0, 0, 0, 1];
        request.extend([0, 0, 39, 16, 2, 2, b't', 2, 0, 0, 0, 0]);
        request.extend([size, size >> 7].map(|part| u8::try_from(part & 0x7F).unwrap() | 0x80));
        request.push(u8::try_from(size >> 14).unwrap());
        request.extend([&header[..], &records, &[0; 3]].concat());
        let length = u32::try_from(request.len() - 4).unwrap();
        request[..4].copy_from_slice(&length.to_be_bytes());
        let table = Table::new([(5, 0, vec![Action::ProduceWhole; 10])]);
        let most = batch::Limits { max_bytes: 1 << 24, max_records: 1000 };
        let judge = Judge::new("", vec![Check::HasKey { accepts_empty: true }], most);
        let judged = Topic::Judged(Arc::new([judge::Judged::new("t", Arc::new(judge))]));
        table.know_name(b"t", judged, f64::INFINITY);
        (request, table)
    }

    #[test]
    fn a_connection_comes_back_whole_and_without_records_if_its_client_leaves_between_slices() {
        let (request, table) = judged_in_slices();
        let lane = Lane::start(1, &[], usize::MAX, 0.0).unwrap();
        lane.close();
        let (worker, shared) = (&lane.workers[0], &lane.shared);
        let (client, broker) = (connected(), connected());
        let number = adopt_by(&lane, table, (&client, &broker), request.clone()).unwrap().unwrap();
        begin(worker, shared);
        let held = || shared.held_bytes.load(Ordering::Relaxed);
        let before = held();
        assert!(judge_slice(worker, shared));
        assert_eq!(lane.figures(number).unwrap().held_bytes, held());
        assert!(held() > before + 1_800_000, "{before} {}", held());
        let token = token(number, Side::Client);
        let event = Event { token, readable: false, writable: false, end: End::Sending };
        handle(worker, shared, &event, &mut [0; 10]);
        assert_eq!(lane.ready(), [number]);
        assert!((request.len()..=before).contains(&held()), "{before} {}", held());
        assert!(judge_slice(worker, shared)); // of a connection that is Python's now: nothing
        assert!(!judge_slice(worker, shared));
        let back = lane.take(number).unwrap();
        assert!(back.from_client == request && back.to_broker.is_empty());
        assert_eq!((back.forwarded, held()), (0, 0));
    }

    #[test]
    fn a_thread_that_served_others_for_long_judges_more_slices() {
        let (request, table) = judged_in_slices();
        let table = Arc::new(table);
        let lane = Lane::start(1, &[], usize::MAX, 0.0).unwrap();
        lane.close();
        let (worker, shared) = (&lane.workers[0], &lane.shared);
        let ends = [(connected(), connected()), (connected(), connected())];
        for (client, broker) in &ends {
            let taken = adopt_known(&lane, Arc::clone(&table), (client, broker), request.clone());
            taken.unwrap().unwrap();
        }
        begin(worker, shared);
        judge_slices(worker, shared, 0.0);
        assert!(!locked(&worker.sliced).is_empty());
        judge_slices(worker, shared, f64::INFINITY);
        assert!(locked(&worker.sliced).is_empty());
        assert!([0, 1].map(|number| lane.take(number).unwrap().forwarded) == [1, 1]);
    }

    /// Adopt connections of the given clients, each with a request that is judged in slices.
    fn judged_in_slices_of(lane: &Lane, clients: &[&str]) -> Vec<(TcpStream, TcpStream)> {
        let (request, table) = judged_in_slices();
        let table = Arc::new(table);
        let adopted = clients.iter().map(|client| {
            let ends = (connected(), connected());
            let adopted = Adopted {
                client: ends.0.as_raw_fd(),
                broker: ends.1.as_raw_fd(),
                client_tls: None,
                broker_tls: None,
                state: State::default(),
                from_client: request.clone(),
                from_broker: vec![],
                limits: LIMITS,
                sender: Some(Sender { principal: Some((*client).into()), ..Sender::default() }),
            };
            lane.adopt(adopted, Arc::clone(&table)).unwrap().unwrap();
            ends
        });
        adopted.collect()
    }

    #[test]
    fn a_client_with_many_requests_in_slices_does_not_hold_others_up() {
        let lane = Lane::start(1, &[], usize::MAX, 0.0).unwrap();
        lane.close();
        let (worker, shared) = (&lane.workers[0], &lane.shared);
        let _ends = judged_in_slices_of(&lane, &["many", "many", "many", "many", "other"]);
        begin(worker, shared);
        let is_judging = |number: &u64| lane.figures(*number).unwrap().request_left.is_some();
        while is_judging(&4) {
            assert!(judge_slice(worker, shared));
        }
        assert_eq!((0..5).filter(is_judging).count(), 3);
    }

    #[test]
    fn a_request_that_waits_too_long_for_its_slices_is_pythons_and_what_has_begun_goes_on() {
        let lane = Lane::start(1, &[], usize::MAX, 0.0).unwrap();
        lane.close();
        let (worker, shared) = (&lane.workers[0], &lane.shared);
        let _ends = judged_in_slices_of(&lane, &["one", "other"]);
        begin(worker, shared);
        assert!(judge_slice(worker, shared));
        leave_late(worker, shared, shared.now() + 4.0);
        assert!(lane.ready().is_empty());
        leave_late(worker, shared, shared.now() + 6.0);
        assert_eq!(lane.ready(), [1]);
        let back = lane.take(1).unwrap();
        assert_eq!((back.forwarded, back.from_client.len()), (0, judged_in_slices().0.len()));
        judge_slices(worker, shared, f64::INFINITY);
        assert_eq!(lane.take(0).unwrap().forwarded, 1);
    }

    #[test]
    fn what_is_known_of_a_connection_does_not_wait_for_its_read() {
        let lane = Lane::start(1, &[], 0, 5.0).unwrap();
        let (client, broker) = (connected(), connected());
        let number = adopt(&lane, client.as_raw_fd(), broker.as_raw_fd()).unwrap().unwrap();
        let slot = Arc::clone(&locked(&lane.workers[0].slots)[&number]);
        let reading = locked(&slot.connection);
        let figures = lane.figures(number).unwrap();
        assert!(figures.last_active >= 5.0 && !figures.is_blocked);
        drop(reading);
        lane.take(number).unwrap();
        assert!(lane.figures(number).is_none());
    }

    #[test]
    fn what_was_received_before_is_left_to_the_thread() {
        let lane = Lane::start(1, &[], 0, 0.0).unwrap();
        lane.close();
        let (client, broker) = (connected(), connected());
        let request = [0, 0, 0, 8, 0, 99, 0, 0, 0, 0, 0, 1];
        let (client, broker) = (client.as_raw_fd(), broker.as_raw_fd());
        let number = adopt_with(&lane, client, broker, request.to_vec()).unwrap().unwrap();
        let back = lane.take(number).unwrap();
        assert_eq!((back.from_client, back.forwarded), (request.to_vec(), 0));
    }

    #[test]
    fn what_is_not_counted_at_once_is_given_back_where_much_is_held() {
        let lane = Lane::start(1, &[], 0, 0.0).unwrap();
        lane.close();
        let (client, broker) = (connected(), connected());
        let mut held = Vec::with_capacity(20 * 1024);
        held.extend([0; 4]);
        let number = adopt_with(&lane, client.as_raw_fd(), broker.as_raw_fd(), held).unwrap();
        assert_eq!(lane.ready(), [number.unwrap()]);
    }

    #[test]
    fn a_panic_closes_its_connection_and_is_counted() {
        let lane = Lane::start(1, &[], 0, 0.0).unwrap();
        let client = connected();
        let broker = Stream::new(client.try_clone().unwrap(), None);
        let client = Stream::new(client, None);
        let relay = Relay::new(State::default(), Arc::default(), LIMITS).unwrap();
        let mut connection = Connection::new(client, broker, relay, vec![], vec![], 0.0);
        lane.shared.guard(&mut connection, |_| panic!("an error of the lane"));
        assert_eq!(lane.panics(), 1);
        assert!(connection.stopped);
        let back = connection.give_back(0.0);
        assert!(back.client_failed && back.broker_failed);
    }

    #[test]
    fn of_a_client_it_is_known_how_much_came_and_is_missing_and_for_how_long_it_was_not_read() {
        let lane = Lane::start(1, &[], usize::MAX, 0.0).unwrap();
        let (mut client, ours) = pair();
        let (theirs, broker) = pair();
        let table = Table::new([(99, 0, vec![Action::Forward])]);
        let adopted = Adopted {
            client: ours.as_raw_fd(),
            broker: broker.as_raw_fd(),
            client_tls: None,
            broker_tls: None,
            state: State::default(),
            from_client: vec![],
            from_broker: vec![],
            limits: Limits { request_max_bytes: 1 << 30, valid_until: f64::INFINITY },
            sender: None,
        };
        let number = lane.adopt(adopted, Arc::new(table)).unwrap().unwrap();
        let until = |done: &dyn Fn(Figures) -> bool| {
            while !done(lane.figures(number).unwrap()) {
                thread::yield_now();
            }
        };
        until(&|figures| figures.request_left.is_none());
        let head = [0, 64, 0, 0, 0, 99, 0, 0, 0, 0, 0, 1];
        client.write_all(&head[..5]).unwrap();
        until(&|figures| figures.received_bytes == 5);
        assert_eq!(lane.figures(number).unwrap().request_left, Some(7));
        client.write_all(&head[5..]).unwrap();
        until(&|figures| figures.received_bytes == 12);
        let figures = lane.figures(number).unwrap();
        assert_eq!(figures.request_left, Some(64 * 65536 + 4 - 12));
        assert!(figures.unread_s < f64::EPSILON);
        // The broker does not read.
        client.set_nonblocking(true).unwrap();
        let sent = AtomicUsize::new(0);
        until(&|figures| {
            let sent_now = (&client).write(&vec![0; 65536]).unwrap_or(0);
            sent.fetch_add(sent_now, Ordering::Relaxed);
            figures.unread_s > 0.0
        });
        let back = lane.take(number).unwrap();
        assert!(back.unread_s > 0.0 && back.received > 12);
        drop(theirs);
    }

    #[test]
    fn in_shortage_a_few_bytes_are_read_unless_they_are_forwarded() {
        let readable = |state: State| {
            let (_, ours) = pair();
            let relay = Relay::new(state, Arc::default(), LIMITS).unwrap();
            let broker = Stream::new(ours.try_clone().unwrap(), None);
            let client = Stream::new(ours, None);
            let connection = Connection::new(client, broker, relay, vec![], vec![], 0.0);
            SIDES.map(|side| connection.readable_in_shortage(side))
        };
        assert_eq!(readable(State::default()), [4096, 16 * 1024]);
        let exchange = Exchange {
            api_key: 99,
            version: 0,
            correlation_id: 1,
            received_at: 0.0,
            sent_at: 0.0,
            was_held: false,
        };
        let receiving = Receiving::WithoutResponse(exchange);
        let forwarded = State { request_left: 1 << 20, receiving, ..State::default() };
        assert_eq!(readable(forwarded), [1 << 20, 16 * 1024]);
    }
}
