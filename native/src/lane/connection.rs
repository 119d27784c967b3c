//! The two sockets of a connection while it is the lane's.
//!
//! Back-pressure: while bytes of a side cannot be written to the other side, no more are read. So a
//! connection holds the bytes of one read, and an incomplete frame of bounded size.
#![forbid(unsafe_code)]

use std::net::TcpStream;
use std::sync::{Arc, Mutex};

use super::counts::Counts;
use super::epoll::Interest;
use super::exchange::State;
use super::judging::{Early, Place};
use super::locked;
use super::relay::{Passed, REQUEST_HEAD_BYTES, Relay};
use super::slices::{SLICE_S, Slice};
use super::stream::{Behind, Received, Stream};
use crate::ring::sender::{Judged, Ring};

const KEPT_CAPACITY: usize = 4096;
/// Where memory is short, so much is read of a client at once, and of a broker.
const FEW_BYTES: usize = 4096;
const FEW_OF_BROKER_BYTES: usize = 16 * 1024;

/// A socket of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The client's.
    Client,
    /// The broker's.
    Broker,
}

/// Bytes on their way from one side to the other.
#[derive(Debug, Default)]
struct Pipe {
    bytes: Vec<u8>,
    /// How many of them are to be sent; the others are not decided yet.
    passed: usize,
}

/// A connection that Python gets back.
#[derive(Default)]
pub struct GivenBack {
    /// The state between the bytes.
    pub state: State,
    /// How many requests were forwarded.
    pub forwarded: u64,
    /// How many bytes of the client were received.
    pub received: u64,
    /// For how long the client was not read.
    pub unread_s: f64,
    /// Bytes that are still to be sent to the broker.
    pub to_broker: Vec<u8>,
    /// Bytes that are still to be sent to the client.
    pub to_client: Vec<u8>,
    /// Bytes of the client that Python has to process.
    pub from_client: Vec<u8>,
    /// Bytes of the broker that Python has to process.
    pub from_broker: Vec<u8>,
    /// Whether the client's connection has failed.
    pub client_failed: bool,
    /// Whether the broker's connection has failed.
    pub broker_failed: bool,
    /// The outcomes of the batches of the request with which the bytes of the client begin.
    pub early: Vec<Early>,
}

/// A connection.
pub struct Connection {
    client: Stream,
    broker: Stream,
    relay: Relay,
    to_broker: Pipe,
    to_client: Pipe,
    client_failed: bool,
    broker_failed: bool,
    /// Whether Python has to continue.
    pub stopped: bool,
    /// The most bytes of a batch that is copied to wait for a worker.
    pub copied_max_bytes: usize,
    /// Its client, as turns know it.
    pub client_number: u64,
    /// The events that each side is waited for with the system.
    pub waited_for: [Interest; 2],
    /// The side with bytes that are not to be read now.
    unread: Option<Side>,
    /// When bytes were received last.
    pub last_active: f64,
    /// How many bytes of the client were received.
    received: u64,
    /// For how long the client was not read, until it was read last.
    unread_s: f64,
    /// Since when it is not read.
    unread_since: Option<f64>,
    /// Its number, the rings of its thread, and its client.
    place: Option<Arc<Place>>,
}

impl Connection {
    /// Take over two non-blocking sockets, with their unprocessed bytes.
    pub fn new(
        client: Stream,
        broker: Stream,
        relay: Relay,
        from_client: Vec<u8>,
        from_broker: Vec<u8>,
        now: f64,
    ) -> Self {
        Self {
            client,
            broker,
            relay,
            to_broker: Pipe { bytes: from_client, passed: 0 },
            to_client: Pipe { bytes: from_broker, passed: 0 },
            client_failed: false,
            broker_failed: false,
            stopped: false,
            copied_max_bytes: usize::MAX,
            client_number: 0,
            waited_for: [Interest::NONE; 2],
            unread: None,
            last_active: now,
            received: 0,
            unread_s: 0.0,
            unread_since: None,
            place: None,
        }
    }

    /// Name the connection for workers, the rings of its thread, and its client.
    pub fn set_place(&mut self, place: Arc<Place>) {
        self.relay.set_place(Arc::clone(&place));
        self.place = Some(place);
    }

    /// Forward the bytes that were received before the lane had the connection.
    pub fn begin(&mut self, now: f64, counts: &Mutex<Counts>) {
        self.forward(Side::Client, &[], now, counts);
        self.forward(Side::Broker, &[], now, counts);
        self.resume(now, counts);
    }

    /// Continue with a client that got too far ahead, if enough of its requests have a response.
    fn resume(&mut self, now: f64, counts: &Mutex<Counts>) {
        if self.relay.resume() {
            self.forward(Side::Client, &[], now, counts);
        }
    }

    /// Return the sockets.
    pub const fn socket(&self, side: Side) -> &TcpStream {
        match side {
            Side::Client => self.client.socket(),
            Side::Broker => self.broker.socket(),
        }
    }

    /// Return the events that a side is waited for.
    pub const fn interest(&self, side: Side) -> Interest {
        let (from, to) = match side {
            Side::Client => (&self.to_broker, &self.to_client),
            Side::Broker => (&self.to_client, &self.to_broker),
        };
        let (own, other) = match side {
            Side::Client => (&self.client, &self.broker),
            Side::Broker => (&self.broker, &self.client),
        };
        let suspended = matches!(side, Side::Client) && self.relay.is_suspended();
        let judges = matches!(side, Side::Client) && self.relay.is_judging();
        let read = from.passed == 0 && !other.has_unsent() && !suspended && !judges;
        Interest {
            read,
            write: to.passed > 0 || own.has_unsent(),
            // Nothing else of the connection might happen for as long as a batch is judged.
            end: matches!(side, Side::Client) && (judges || read),
        }
    }

    /// Return whether a side may stay waited for as it is, whatever `interest` is.
    ///
    /// While a batch is judged, the client sends nothing in most cases, and is read again soon: two
    /// calls of the system less. If it does send something, that is noticed once.
    pub fn stays_waited_for(&mut self, side: Side) -> bool {
        matches!(side, Side::Client)
            && self.unread.take() != Some(Side::Client)
            && self.relay.is_judging()
            && !self.interest(side).write
    }

    /// Return how many bytes of memory are held, also in rings.
    pub fn held_bytes(&self) -> usize {
        let encrypted = self.client.held_bytes().saturating_add(self.broker.held_bytes());
        let plain = self.to_broker.bytes.capacity().saturating_add(self.to_client.bytes.capacity());
        let judged = self.relay.sliced_bytes().saturating_add(self.relay.worked_bytes());
        plain.saturating_add(encrypted).saturating_add(judged)
    }

    /// Return whether a side is not read because of the other side.
    pub const fn is_blocked(&self) -> bool {
        self.to_broker.passed > 0
            || self.to_client.passed > 0
            || self.client.has_unsent()
            || self.broker.has_unsent()
            || self.relay.is_suspended()
    }

    /// Return how many bytes of the client's request have not been received yet.
    pub fn missing_bytes(&self) -> usize {
        let waiting = self.to_broker.bytes.get(self.to_broker.passed..).unwrap_or_default();
        self.relay.missing_bytes(waiting)
    }

    /// Return how many bytes of the client's request, or of its head, have not been received yet;
    /// None between requests.
    pub fn request_left(&self) -> Option<usize> {
        let waiting = self.to_broker.bytes.get(self.to_broker.passed..).unwrap_or_default();
        self.relay.request_left(waiting).or_else(|| {
            // Nothing is known of a request whose first record of TLS is not complete.
            self.client.has_part().then_some(REQUEST_HEAD_BYTES)
        })
    }

    /// Return how many bytes of the client were received.
    pub const fn received_bytes(&self) -> u64 {
        self.received
    }

    /// Return for how long the client was not read, because the other side does not take its bytes.
    pub fn unread_s(&self, now: f64) -> f64 {
        self.unread_s + self.unread_since.map_or(0.0, |since| now - since)
    }

    /// Note whether the client is read from now on.
    pub fn note_unread(&mut self, now: f64) {
        if self.interest(Side::Client).read {
            self.end_unread(now);
        } else if self.unread_since.is_none() {
            self.unread_since = Some(now);
        }
    }

    /// Count the time for which the client was not read until now: somebody else reads it.
    pub fn end_unread(&mut self, now: f64) {
        self.unread_s = self.unread_s(now);
        self.unread_since = None;
    }

    /// Return how many requests await their response.
    pub fn unanswered(&self) -> usize {
        self.relay.unanswered()
    }

    /// Return how much may be read of a side at once where memory is short.
    ///
    /// The rest of a request that is forwarded is not held.
    pub fn readable_in_shortage(&self, side: Side) -> usize {
        match side {
            Side::Client => self.relay.state().request_left.max(FEW_BYTES),
            Side::Broker => FEW_OF_BROKER_BYTES,
        }
    }

    /// Read bytes of a side into `room`, and forward them.
    pub fn readable(&mut self, side: Side, room: &mut [u8], now: f64, counts: &Mutex<Counts>) {
        if self.stopped || !self.interest(side).read {
            self.unread = Some(side);
            return;
        }
        let stream = match side {
            Side::Client => &mut self.client,
            Side::Broker => &mut self.broker,
        };
        match stream.read(room) {
            // Python finds the end, too, when it reads.
            Ok(Received::End) => self.stopped = true,
            Ok(Received::Bytes(data)) => self.received(side, data, now, counts),
            Ok(Received::Decrypted(data, behind)) => {
                if !data.is_empty() {
                    self.received(side, &data, now, counts);
                }
                match behind {
                    Behind::More => {}
                    Behind::End => self.stopped = true,
                    Behind::Failure => self.failed(side),
                }
            }
            Ok(Received::Nothing) => {}
            Err(_) => self.failed(side),
        }
    }

    fn received(&mut self, side: Side, data: &[u8], now: f64, counts: &Mutex<Counts>) {
        self.last_active = now;
        if side == Side::Client {
            self.received = self.received.saturating_add(data.len() as u64);
        }
        self.forward(side, data, now, counts);
        self.resume(now, counts);
    }

    /// Send a side the bytes that it did not take before.
    pub fn writable(&mut self, side: Side, now: f64, counts: &Mutex<Counts>) {
        let (pipe, stream) = match side {
            Side::Client => (&mut self.to_client, &mut self.client),
            Side::Broker => (&mut self.to_broker, &mut self.broker),
        };
        match stream.write(pipe.bytes.get(..pipe.passed).unwrap_or_default()) {
            Ok(count) => {
                pipe.bytes.drain(..count.min(pipe.bytes.len()));
                pipe.passed = pipe.passed.saturating_sub(count);
                free(&mut pipe.bytes);
                if side == Side::Broker {
                    self.forward(Side::Client, &[], now, counts); // it may have been suspended
                }
            }
            Err(_) => self.failed(side),
        }
    }

    /// Handle a connection that is closed or failed, and that is not read.
    pub const fn broken(&mut self, side: Side) {
        if !self.interest(side).read {
            self.stopped = true;
        }
    }

    /// Handle that a client sends nothing more, while its batches are judged: Python finds the end
    /// behind its requests, and knows which of them are to be judged and answered then.
    pub const fn ended(&mut self) {
        if self.relay.is_judging() {
            self.stopped = true;
        }
    }

    /// Close the connection: the lane has failed itself.
    pub const fn fail(&mut self) {
        self.failed(Side::Client);
        self.failed(Side::Broker);
    }

    const fn failed(&mut self, side: Side) {
        self.stopped = true;
        match side {
            Side::Client => self.client_failed = true,
            Side::Broker => self.broker_failed = true,
        }
    }

    /// Forward the bytes that may pass, of those that wait and the received bytes.
    fn forward(&mut self, side: Side, received: &[u8], now: f64, counts: &Mutex<Counts>) {
        let (pipe, sink, to) = match side {
            Side::Client => (&mut self.to_broker, &mut self.broker, Side::Broker),
            Side::Broker => (&mut self.to_client, &mut self.client, Side::Client),
        };
        if self.stopped || pipe.passed > 0 {
            pipe.bytes.extend_from_slice(received);
            return;
        }
        let mut before = std::mem::take(&mut pipe.bytes);
        let data = if before.is_empty() {
            received
        } else {
            before.extend_from_slice(received);
            before.as_slice()
        };
        let Passed { bytes: passed, stopped } = pass(&mut self.relay, side, data, now, counts);
        let passing = data.get(..passed).unwrap_or_default();
        let written = sink.write(passing);
        let sent = *written.as_ref().unwrap_or(&0);
        pipe.passed = passed.saturating_sub(sent);
        if before.is_empty() {
            pipe.bytes.extend_from_slice(data.get(sent..).unwrap_or_default());
        } else {
            before.drain(..sent.min(before.len()));
            pipe.bytes = before;
        }
        free(&mut pipe.bytes);
        self.stopped |= stopped;
        if written.is_err() {
            self.failed(to);
        }
        if side == Side::Client {
            self.submit(now);
        }
    }

    /// Have workers judge the batches of the next request, if it waits for that.
    fn submit(&mut self, now: f64) {
        let waiting = self.to_broker.bytes.get(self.to_broker.passed..).unwrap_or_default();
        let place = self.place.as_ref();
        if let Some(judging) = self.relay.judging().filter(|judging| !judging.is_begun())
            && !place.is_some_and(|place| {
                let Place { number, rings, sender } = &**place;
                let copied_max_bytes = self.copied_max_bytes;
                judging.begin(waiting, *number, rings, sender.as_ref(), copied_max_bytes, now)
            })
        {
            self.relay.end_judging(now);
            self.stopped = true;
        }
    }

    /// Have no batch judged for the lane any more: Python continues.
    pub fn end_judging(&mut self, now: f64) {
        self.relay.end_judging(now);
    }

    /// Note the outcome of a batch, and continue if it was the last.
    pub fn judged(&mut self, ring: &Arc<Ring>, of: Judged, now: f64, counts: &Mutex<Counts>) {
        let Some(judging) = self.relay.judging() else { return };
        judging.note(ring, of, now);
        let size = judging.size;
        let waiting = self.to_broker.bytes.get(self.to_broker.passed..).unwrap_or_default();
        let frame = waiting.get(..size).unwrap_or_default();
        if self.relay.finish_judging(frame, now, counts) {
            self.stopped = true;
        } else if !self.relay.is_judging() {
            self.forward(Side::Client, &[], now, counts);
            self.resume(now, counts);
        }
    }

    /// Return whether the thread has to judge slices of the next request, and does not know it.
    pub fn queue_slices(&mut self) -> bool {
        self.relay.slices().is_some_and(|slices| slices.queue())
    }

    /// Judge a slice of the next request.
    pub fn judge_slice(&mut self, now: f64, counts: &Mutex<Counts>) -> Slice {
        let waiting = self.to_broker.bytes.get(self.to_broker.passed..).unwrap_or_default();
        let slice = self.relay.judge_slice(waiting, now, SLICE_S, counts);
        match slice {
            Slice::GoesOn | Slice::Between => {}
            Slice::Pythons => self.stopped = true,
            Slice::Accepted => {
                self.forward(Side::Client, &[], now, counts);
                self.resume(now, counts);
            }
        }
        slice
    }

    /// Leave the next request to Python if it is to be judged in slices.
    pub fn leave_slices(&mut self) {
        self.stopped |= self.relay.slices().is_some();
    }

    /// Return everything, and close the lane's descriptors.
    pub fn give_back(mut self, now: f64) -> GivenBack {
        self.relay.end_judging(now);
        let parts = |mut pipe: Pipe| {
            let rest = pipe.bytes.split_off(pipe.passed.min(pipe.bytes.len()));
            (pipe.bytes, rest)
        };
        let (to_broker, from_client) = parts(self.to_broker);
        let (to_client, from_broker) = parts(self.to_client);
        GivenBack {
            forwarded: self.relay.forwarded(),
            received: self.received,
            unread_s: self.unread_s,
            state: self.relay.take_state(),
            to_broker,
            to_client,
            from_client,
            from_broker,
            client_failed: self.client_failed,
            broker_failed: self.broker_failed,
            early: self.relay.take_early(),
        }
    }
}

/// Decide which bytes pass, and count them. The counts are not locked while a batch is judged or a
/// socket is written to.
fn pass(relay: &mut Relay, side: Side, data: &[u8], now: f64, counts: &Mutex<Counts>) -> Passed {
    let passed = match side {
        Side::Client => relay.client_data(data, now, counts),
        Side::Broker => relay.broker_data(data, now, counts),
    };
    let mut counts = locked(counts);
    let bytes = match side {
        Side::Client => &mut counts.client_bytes,
        Side::Broker => &mut counts.broker_bytes,
    };
    *bytes = bytes.saturating_add(passed.bytes as u64);
    passed
}

/// Keep no memory that a connection does not need for its bytes.
fn free(bytes: &mut Vec<u8>) {
    if bytes.capacity() > KEPT_CAPACITY.max(bytes.len().saturating_mul(4)) {
        bytes.shrink_to_fit();
    }
}
