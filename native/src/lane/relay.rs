//! The protocol of a connection that is forwarded, without sockets: which bytes may pass.
//!
//! Bytes are forwarded unchanged and in order, so the bytes that may pass are always the first.
//! It is `penstock.gateway.sessions.session.Session` for exchanges that are only forwarded.
#![forbid(unsafe_code)]

use std::sync::{Arc, Mutex};

use super::counts::{AcceptedBatch, Counts};
use super::exchange::{Exchange, Receiving, State};
use super::judge::Work;
#[cfg(target_os = "linux")]
use super::judging::{Decision, Early, Judging, Place, observe};
use super::locked;
use super::produce::{self, Acks, Request};
use super::slices::{Slice, Slices};
use super::table::{Action, Table};

/// The bytes with which every request begins: its length, API key, version and correlation id.
pub const REQUEST_HEAD_BYTES: usize = 12;
const RESPONSE_HEAD_BYTES: usize = 8;
const LENGTH_BYTES: usize = 4;
/// The most requests without a response, as in Python, which then stops to read the client.
pub const UNANSWERED_MAX: usize = 256;
/// The most bytes of a response that is read as a whole, and of a request whose batches are judged
/// in one read; those of longer requests are judged in slices.
const WHOLE_MAX_BYTES: usize = 128 * 1024;
/// With more bytes of a compressed batch they are judged in slices at once: of most of these there is
/// not enough room for the records in one read. Others are, too, if they could not be judged there.
const COMPRESSED_MAX_BYTES: usize = 16 * 1024;
/// The most bytes of a request that is read as a whole; longer requests are Python's.
const REQUEST_MAX_BYTES: usize = 2 * 1024 * 1024;

/// The bytes that may pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Passed {
    /// Their number.
    pub bytes: usize,
    /// Whether Python has to continue after them.
    pub stopped: bool,
}

/// Limits of a connection.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// The largest length of a request that is accepted.
    pub request_max_bytes: usize,
    /// When the client's authentication expires, by the same clock as `now`.
    pub valid_until: f64,
}

/// Decides which bytes pass.
pub struct Relay {
    state: State,
    table: Arc<Table>,
    limits: Limits,
    waiting_since: f64,
    forwarded: u64,
    suspended: bool,
    /// The request whose batches are judged in slices.
    slices: Option<Box<Slices>>,
    /// The request whose batches workers judge.
    #[cfg(target_os = "linux")]
    judging: Option<Box<Judging>>,
    /// The outcomes of the batches of the request that is Python's.
    #[cfg(target_os = "linux")]
    early: Vec<Early>,
    /// The connection.
    #[cfg(target_os = "linux")]
    place: Option<Arc<Place>>,
}

impl Relay {
    /// Continue from a state; None if it has an exchange that needs Python.
    pub fn new(state: State, table: Arc<Table>, limits: Limits) -> Option<Self> {
        let mut all = state.expected.iter().chain(match &state.receiving {
            Receiving::WithoutResponse(exchange) => Some(exchange),
            _ => None,
        });
        let forwardable = all.all(|one| table.action(one.api_key, one.version) != Action::Python);
        let fits = (state.receiving != Receiving::Last || !state.expected.is_empty())
            && state.expected.len() < UNANSWERED_MAX
            && (state.request_left > 0) == (state.receiving != Receiving::Nothing);
        (forwardable && fits).then_some(Self {
            state,
            table,
            limits,
            waiting_since: 0.0,
            forwarded: 0,
            suspended: false,
            slices: None,
            #[cfg(target_os = "linux")]
            judging: None,
            #[cfg(target_os = "linux")]
            early: Vec::new(),
            #[cfg(target_os = "linux")]
            place: None,
        })
    }

    /// Return a relay in the same state, between two requests.
    fn copied(&self) -> Self {
        Self {
            state: self.state.clone(),
            table: Arc::clone(&self.table),
            limits: self.limits,
            waiting_since: self.waiting_since,
            forwarded: self.forwarded,
            suspended: self.suspended,
            slices: None,
            #[cfg(target_os = "linux")]
            judging: None,
            #[cfg(target_os = "linux")]
            early: Vec::new(),
            #[cfg(target_os = "linux")]
            place: None,
        }
    }

    /// Name the connection for workers that only observe.
    #[cfg(target_os = "linux")]
    pub fn set_place(&mut self, place: Arc<Place>) {
        self.place = Some(place);
    }

    /// Return the state.
    pub const fn state(&self) -> &State {
        &self.state
    }

    /// Return the state, and forget it.
    pub fn take_state(&mut self) -> State {
        std::mem::take(&mut self.state)
    }

    /// Return how many bytes of the current request have not been received yet: of the request that is
    /// forwarded, or that begins with the bytes that wait.
    pub fn missing_bytes(&self, waiting: &[u8]) -> usize {
        if self.state.request_left > 0 {
            return self.state.request_left;
        }
        let Some([l0, l1, l2, l3, ..]) = waiting.first_chunk::<REQUEST_HEAD_BYTES>() else {
            return 0;
        };
        let length = usize::try_from(i32::from_be_bytes([*l0, *l1, *l2, *l3])).unwrap_or(0);
        length.saturating_add(LENGTH_BYTES).saturating_sub(waiting.len())
    }

    /// Return how many bytes of the current request, or of its head, have not been received yet; None
    /// between requests.
    pub fn request_left(&self, waiting: &[u8]) -> Option<usize> {
        let head_left = REQUEST_HEAD_BYTES.saturating_sub(waiting.len());
        match (self.state.request_left, waiting.is_empty()) {
            (0, true) => None,
            (0, false) => Some(self.missing_bytes(waiting).max(head_left)),
            (left, _) => Some(left),
        }
    }

    /// Return whether the client gets too far ahead, so that it is not to be read for now.
    pub const fn is_suspended(&self) -> bool {
        self.suspended
    }

    /// End the suspension if enough requests have their response; return whether it has ended.
    pub fn resume(&mut self) -> bool {
        let resumes = self.suspended && self.state.expected.len() <= UNANSWERED_MAX / 2;
        self.suspended &= !resumes;
        resumes
    }

    /// Return how many requests have been forwarded.
    pub const fn forwarded(&self) -> u64 {
        self.forwarded
    }

    /// Return how many requests await their response.
    pub fn unanswered(&self) -> usize {
        self.state.expected.len()
    }

    /// Return whether the first request in received bytes is Python's; no batch is judged.
    pub fn begins_with_pythons(&self, received: &[u8], now: f64) -> bool {
        self.state.request_left == 0
            && matches!(
                self.copied().begin_request(received, now, None, &Mutex::default()),
                Begun::Stops
            )
    }

    /// Return how many of a client's bytes may be sent to the broker.
    pub fn client_data(&mut self, data: &[u8], now: f64, counts: &Mutex<Counts>) -> Passed {
        if self.is_judging() {
            return Passed { bytes: 0, stopped: false };
        }
        let (mut position, mut work) = (0, Work::default());
        loop {
            let rest = data.get(position..).unwrap_or_default();
            if self.state.request_left > 0 {
                let part = self.state.request_left.min(rest.len());
                position = position.saturating_add(part);
                self.state.request_left = self.state.request_left.saturating_sub(part);
                if self.state.request_left > 0 {
                    return Passed { bytes: position, stopped: false };
                }
                self.state.receiving = Receiving::Nothing;
                continue;
            }
            match self.begin_request(rest, now, Some(&mut work), counts) {
                Begun::Passes(_) => {}
                Begun::Waits => return Passed { bytes: position, stopped: false },
                Begun::Stops => return Passed { bytes: position, stopped: true },
            }
        }
    }

    /// Begin with the next request. Without `work`, no batch is judged.
    fn begin_request(
        &mut self,
        rest: &[u8],
        now: f64,
        work: Option<&mut Work>,
        counts: &Mutex<Counts>,
    ) -> Begun {
        let Some(head) = rest.first_chunk::<REQUEST_HEAD_BYTES>() else { return Begun::Waits };
        let [l0, l1, l2, l3, k0, k1, v0, v1, c0, c1, c2, c3] = *head;
        let (api_key, version) = (i16::from_be_bytes([k0, k1]), i16::from_be_bytes([v0, v1]));
        let Ok(length) = usize::try_from(i32::from_be_bytes([l0, l1, l2, l3])) else {
            return Begun::Stops;
        };
        let size = length.saturating_add(LENGTH_BYTES);
        if size < REQUEST_HEAD_BYTES
            || length > self.limits.request_max_bytes
            || now > self.limits.valid_until
        {
            return Begun::Stops;
        }
        self.suspended = self.state.expected.len() >= UNANSWERED_MAX;
        if self.suspended {
            return Begun::Waits;
        }
        let frame = rest.get(..size);
        let exchange = Exchange {
            api_key,
            version,
            correlation_id: i32::from_be_bytes([c0, c1, c2, c3]),
            received_at: if self.waiting_since > 0.0 { self.waiting_since } else { now },
            sent_at: 0.0,
            was_held: false,
        };
        let acks = match self.table.action(api_key, version) {
            Action::Python => return Begun::Stops,
            Action::Forward => 1,
            Action::Produce => {
                match produce::read_acks(frame.unwrap_or(rest), version, frame.is_some()) {
                    Acks::Are(acks) => acks,
                    Acks::More => return self.wait(now),
                    Acks::Unclear => return Begun::Stops,
                }
            }
            Action::ProduceWhole => {
                return self.begin_whole(rest, exchange, size, now, work, counts);
            }
        };
        self.passes(exchange, size, acks, now, counts);
        Begun::Passes(size)
    }

    /// Begin with a Produce request that is read as a whole. Without `work`, no batch is judged.
    fn begin_whole(
        &mut self,
        rest: &[u8],
        mut exchange: Exchange,
        size: usize,
        now: f64,
        work: Option<&mut Work>,
        counts: &Mutex<Counts>,
    ) -> Begun {
        let version = exchange.version;
        if size > WHOLE_MAX_BYTES
            && (size > REQUEST_MAX_BYTES || !produce::may_be_known(rest, version, now, &self.table))
        {
            return Begun::Stops;
        }
        let Some(frame) = rest.get(..size) else { return self.wait(now) };
        let Some(request) = produce::read_if_known(frame, version, now, &self.table) else {
            return Begun::Stops;
        };
        exchange.was_held = true;
        exchange.sent_at = now;
        let Some(work) = work else {
            return self.held(request, exchange, size, Vec::new(), counts);
        };
        if !self.may_observe(&request, frame) || (has_workers(&request) && !request.may_wait()) {
            return Begun::Stops;
        }
        let compressed = request.compressed_bytes(frame);
        let is_large = !request.judged.is_empty() && size > WHOLE_MAX_BYTES
            || compressed > COMPRESSED_MAX_BYTES;
        let accepted =
            if is_large { None } else { produce::accepts(&request, frame, now, &self.table, work) };
        let Some(accepted) = accepted else {
            let is_pythons = !is_large && (compressed == 0 || work.has_refused());
            if is_pythons || !request.may_wait() || request.is_suspended(now) {
                return Begun::Stops;
            }
            self.slices = Some(Box::new(Slices::new(request, exchange, size)));
            return Begun::Waits;
        };
        exchange.sent_at += work.seconds();
        self.observe(&request, frame, &exchange);
        self.held(request, exchange, size, accepted, counts)
    }

    /// Let a request pass, and count its batches, which native judges have accepted; or have it wait
    /// for workers.
    fn held(
        &mut self,
        request: Request,
        exchange: Exchange,
        size: usize,
        accepted: Vec<AcceptedBatch>,
        counts: &Mutex<Counts>,
    ) -> Begun {
        #[cfg(target_os = "linux")]
        if !request.worked.is_empty() {
            self.judging = Some(Box::new(Judging::new(request, exchange, size, accepted)));
            return Begun::Waits;
        }
        if !accepted.is_empty() {
            locked(counts).passed(&accepted);
        }
        self.passes(exchange, size, request.acks, exchange.sent_at, counts);
        Begun::Passes(size)
    }

    /// Return the request whose batches are judged in slices.
    pub const fn slices(&mut self) -> Option<&mut Box<Slices>> {
        self.slices.as_mut()
    }

    /// Return how many bytes of memory the request takes that is judged in slices.
    pub fn sliced_bytes(&self) -> usize {
        self.slices.as_ref().map_or(0, |slices| slices.held_bytes())
    }

    /// Judge a slice of the request that waits for it, of so many seconds, and continue with the
    /// request if it was the last. The request begins the bytes that have not passed.
    ///
    /// Python continues, too, if a topic of its own was forgotten meanwhile, or its name is not known
    /// any more: policies may judge it that have not.
    pub fn judge_slice(
        &mut self,
        waiting: &[u8],
        now: f64,
        slice_s: f64,
        counts: &Mutex<Counts>,
    ) -> Slice {
        let Some(mut slices) = self.slices.take() else { return Slice::Pythons };
        let frame = waiting.get(..slices.size).unwrap_or_default();
        let (slice, took_s) = slices.go_on(frame, now, slice_s);
        match slice {
            Slice::GoesOn | Slice::Between => {
                self.slices = Some(slices);
                return slice;
            }
            Slice::Accepted if slices.request.holds(frame, now, &self.table) => {}
            _ => return Slice::Pythons,
        }
        let Slices { request, mut exchange, size, accepted, .. } = *slices;
        exchange.sent_at = now + took_s;
        self.observe(&request, frame, &exchange);
        self.held(request, exchange, size, accepted, counts);
        Slice::Accepted
    }

    /// Let a request pass that was sent at a time.
    fn passes(
        &mut self,
        exchange: Exchange,
        size: usize,
        acks: i16,
        sent_at: f64,
        counts: &Mutex<Counts>,
    ) {
        self.waiting_since = 0.0;
        self.forwarded = self.forwarded.saturating_add(1);
        self.state.request_left = size;
        self.state.receiving = if acks == 0 {
            locked(counts).answered(exchange.api_key, sent_at - exchange.received_at);
            self.state.unconfirmed = true;
            Receiving::WithoutResponse(exchange)
        } else {
            self.state.expected.push_back(exchange);
            Receiving::Last
        };
    }

    /// Return whether batches of a request can be observed, if any are to be.
    #[cfg(target_os = "linux")]
    fn may_observe(&self, request: &produce::Request, frame: &[u8]) -> bool {
        request.observed.is_empty() || self.context(frame).is_some()
    }

    #[cfg(not(target_os = "linux"))]
    const fn may_observe(&self, _request: &produce::Request, _frame: &[u8]) -> bool {
        true
    }

    /// Observe the batches of a request that passes now: of others, it is done when they pass.
    #[cfg(target_os = "linux")]
    fn observe(&self, request: &produce::Request, frame: &[u8], exchange: &Exchange) {
        if request.worked.is_empty() && !request.observed.is_empty() {
            self.observe_all(request, frame, exchange);
        }
    }

    #[cfg(not(target_os = "linux"))]
    const fn observe(&self, _request: &produce::Request, _frame: &[u8], _exchange: &Exchange) {}

    #[cfg(target_os = "linux")]
    fn observe_all(&self, request: &produce::Request, frame: &[u8], exchange: &Exchange) {
        if let Some((place, context)) = self.place.as_ref().zip(self.context(frame)) {
            observe(request, frame, exchange, place, &context);
        }
    }

    /// Return who sends a request, as observers report it; None if Python has to write it.
    #[cfg(target_os = "linux")]
    fn context(&self, frame: &[u8]) -> Option<Arc<[u8]>> {
        self.place.as_ref()?.sender.as_ref()?.context(frame)
    }

    /// Return whether batches of a request are judged in slices, or by workers: no bytes of a client
    /// pass meanwhile.
    #[cfg(target_os = "linux")]
    pub const fn is_judging(&self) -> bool {
        self.slices.is_some() || self.judging.is_some()
    }

    /// The same.
    #[cfg(not(target_os = "linux"))]
    pub const fn is_judging(&self) -> bool {
        self.slices.is_some()
    }

    /// Return the request whose batches workers judge.
    #[cfg(target_os = "linux")]
    pub const fn judging(&mut self) -> Option<&mut Box<Judging>> {
        self.judging.as_mut()
    }

    /// Return how many bytes of memory the request takes whose batches workers judge, also in rings.
    #[cfg(target_os = "linux")]
    pub fn worked_bytes(&self) -> usize {
        self.judging.as_ref().map_or(0, |judging| judging.held_bytes())
    }

    /// Return the outcomes of batches of the request that is Python's, and forget them.
    #[cfg(target_os = "linux")]
    pub fn take_early(&mut self) -> Vec<Early> {
        std::mem::take(&mut self.early)
    }

    /// Judge no batch of the request any more, and wait for no outcome: it is Python's, with the
    /// outcomes that there are.
    #[cfg(target_os = "linux")]
    pub fn end_judging(&mut self, now: f64) {
        self.slices = None;
        if let Some(mut judging) = self.judging.take() {
            judging.withdraw(now);
            self.early = judging.outcomes();
        }
    }

    /// Continue with the request if all its batches have an outcome; return whether Python
    /// continues.
    ///
    /// It does, too, if a topic of its own was forgotten meanwhile, or its name is not known any more:
    /// policies may judge it that have not. `frame` is the request, which is the first that has not passed.
    #[cfg(target_os = "linux")]
    pub fn finish_judging(&mut self, frame: &[u8], now: f64, counts: &Mutex<Counts>) -> bool {
        let Some(judging) = self.judging.as_ref() else { return false };
        match judging.decision() {
            Decision::Open => return false,
            Decision::Accepted if judging.request.holds(frame, now, &self.table) => {}
            _ => {
                // If policies have changed, Python finds that a plan is another.
                self.end_judging(now);
                return true;
            }
        }
        let Some(judging) = self.judging.take() else { return false };
        {
            let mut counts = locked(counts);
            counts.passed(&judging.accepted);
            for (batch, took_s, waited_s) in judging.judged() {
                counts.accepted(&batch.topic.labels, batch.count, took_s);
                counts.waited(&batch.topic.labels, waited_s);
            }
        }
        let mut exchange = judging.exchange;
        if !judging.request.observed.is_empty() {
            self.observe_all(&judging.request, frame, &exchange);
        }
        exchange.sent_at = now;
        self.passes(exchange, judging.size, judging.request.acks, now, counts);
        false
    }

    fn wait(&mut self, now: f64) -> Begun {
        if self.waiting_since <= 0.0 {
            self.waiting_since = now;
        }
        Begun::Waits
    }

    /// Return how many of a broker's bytes may be sent to the client.
    pub fn broker_data(&mut self, data: &[u8], now: f64, counts: &Mutex<Counts>) -> Passed {
        let mut position = 0_usize;
        loop {
            let rest = data.get(position..).unwrap_or_default();
            if self.state.response_left > 0 {
                let part = self.state.response_left.min(rest.len());
                position = position.saturating_add(part);
                self.state.response_left = self.state.response_left.saturating_sub(part);
                if self.state.response_left > 0 {
                    return Passed { bytes: position, stopped: false };
                }
                self.answered(now, counts);
                continue;
            }
            match self.begin_response(rest) {
                Begun::Passes(size) => self.state.response_left = size,
                Begun::Waits => return Passed { bytes: position, stopped: false },
                Begun::Stops => return Passed { bytes: position, stopped: true },
            }
        }
    }

    fn begin_response(&self, rest: &[u8]) -> Begun {
        let Some(head) = rest.first_chunk::<RESPONSE_HEAD_BYTES>() else { return Begun::Waits };
        let [l0, l1, l2, l3, c0, c1, c2, c3] = *head;
        let Ok(length) = usize::try_from(i32::from_be_bytes([l0, l1, l2, l3])) else {
            return Begun::Stops;
        };
        let size = length.saturating_add(LENGTH_BYTES);
        let Some(expected) = self.state.expected.front() else { return Begun::Stops };
        if size < RESPONSE_HEAD_BYTES
            || expected.correlation_id != i32::from_be_bytes([c0, c1, c2, c3])
        {
            return Begun::Stops;
        }
        let is_produce = matches!(
            self.table.action(expected.api_key, expected.version),
            Action::Produce | Action::ProduceWhole
        );
        let names_leaders = is_produce && expected.version >= produce::LEADERS_FROM;
        // The batches of a request that waits may be behind one that the client has to retry: Python
        // knows what becomes of them then. Longer responses are to requests that are Python's, too.
        let is_before_waiting = is_produce && self.is_judging() && size <= WHOLE_MAX_BYTES;
        if !names_leaders && !is_before_waiting {
            return Begun::Passes(size);
        }
        if size > WHOLE_MAX_BYTES {
            return Begun::Stops;
        }
        let Some(frame) = rest.get(..size) else { return Begun::Waits };
        let version = expected.version;
        let is_pythons = (names_leaders && !produce::names_no_leaders(frame, version))
            || (is_before_waiting && produce::has_errors(frame, version));
        if is_pythons { Begun::Stops } else { Begun::Passes(size) }
    }

    fn answered(&mut self, now: f64, counts: &Mutex<Counts>) {
        if let Some(done) = self.state.expected.pop_front() {
            let mut counts = locked(counts);
            counts.answered(done.api_key, now - done.received_at);
            if done.sent_at > 0.0 {
                counts.broker_answered(done.api_key, now - done.sent_at);
            }
            if self.state.expected.is_empty() && self.state.receiving == Receiving::Last {
                // A broker may answer before it has read all of a request.
                self.state.receiving = Receiving::WithoutResponse(done);
            }
        }
    }
}

#[cfg(target_os = "linux")]
const fn has_workers(request: &Request) -> bool {
    !request.worked.is_empty()
}

#[cfg(not(target_os = "linux"))]
const fn has_workers(_request: &Request) -> bool {
    false
}

enum Begun {
    /// So many bytes pass, those of the head included.
    Passes(usize),
    /// More bytes are needed.
    Waits,
    /// Python continues from here.
    Stops,
}
