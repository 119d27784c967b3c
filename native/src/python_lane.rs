//! The lane as Python sees it: connections are handed over as the numbers of their sockets, and the
//! state between the bytes as tuples.

use std::collections::VecDeque;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::{Arc, Mutex, OnceLock};

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};

use crate::lane::batch;
use crate::lane::compression;
use crate::lane::connection::GivenBack;
use crate::lane::counts::Counts;
use crate::lane::exchange::{self, Receiving, State};
use crate::lane::judge::{self, Check, Judged};
use crate::lane::judging::{Early, Sender};
use crate::lane::locked;
use crate::lane::panics;
use crate::lane::relay::{self, Limits, Passed};
use crate::lane::slices::Slice;
use crate::lane::table::{self, Action, Topic};
use crate::lane::threads::{self, Adopted};
use crate::lane::worked::{Observers, Worked};
use crate::python_counts::{Collected, collected};
use crate::python_json::JsonSchema;
use crate::python_ring::RingPool;
use crate::python_tls::Tls;

/// API key, version, correlation id, when it was received, when it was sent, whether it was held.
type Exchange = (i16, i16, i32, f64, f64, bool);
/// Missing bytes of the request; whether it is the last exchange that awaits a response; otherwise
/// which request it is; missing bytes of the response; the exchanges that await a response; whether
/// the broker may not have read a request without a response.
type Between = (usize, bool, Option<Exchange>, usize, Vec<Exchange>, bool);
/// Plan, ring, number, whether it is accepted, seconds of judging, seconds before.
type OutcomeFields<'py> = (Bound<'py, PyBytes>, u64, u64, bool, f64, f64);
/// Topic, its id if the request has it, partition, the outcome.
type EarlyOutcome<'py> = (String, Option<[u8; 16]>, i32, OutcomeFields<'py>);
/// The names of policies, their plan, encoded, whether one takes the client, and their workers.
type Part<'py> = (String, Vec<u8>, bool, PyRef<'py, RingPool>);
/// Native judges, the policies that clients wait for, and those that only observe.
type Judging<'py> = (Vec<PyRef<'py, Judge>>, Option<Part<'py>>, Option<Part<'py>>);
type Figures = (usize, usize, usize, bool, f64, u64, Option<usize>, f64);
/// Accepts the batches of topics by Penstock's own policies.
///
/// It is made once, with all its checks, before a topic is judged by it.
#[pyclass(frozen, module = "penstock._native")]
pub struct Judge {
    names: String,
    limits: batch::Limits,
    checks: Mutex<Vec<Check>>,
    made: OnceLock<Arc<judge::Judge>>,
}

#[pymethods]
impl Judge {
    /// `names` are the names of the policies in metrics. Batches with more bytes or records are not
    /// judged.
    #[new]
    fn new(names: String, max_bytes: usize, max_records: usize) -> Self {
        let limits = batch::Limits { max_bytes, max_records };
        Self { names, limits, checks: Mutex::default(), made: OnceLock::new() }
    }

    /// Require keys, or values, to fit a schema. Return false, and change nothing, if it is not
    /// bounded.
    ///
    /// `longest` is the most bytes of a text; None for any number.
    fn fits(
        &self,
        schema: &JsonSchema,
        keys: bool,
        accepts_null: bool,
        longest: Option<usize>,
    ) -> bool {
        let Some(schema) = schema.bounded() else { return false };
        let longest = longest.unwrap_or(usize::MAX);
        self.add(Check::Fits { keys, accepts_null, schema, longest })
    }

    /// Require records to have a key.
    fn has_key(&self, accepts_empty: bool) -> bool {
        self.add(Check::HasKey { accepts_empty })
    }

    /// Limit the bytes of keys, values, all headers of a record, and all three together.
    fn sizes(
        &self,
        key: Option<usize>,
        value: Option<usize>,
        headers: Option<usize>,
        record: Option<usize>,
    ) -> bool {
        self.add(Check::Sizes { key, value, headers, record })
    }

    /// Require records to have headers with these names.
    fn has_headers(&self, names: Vec<String>) -> bool {
        self.add(Check::HasHeaders(names))
    }

    /// Require records to have no header with one of these names.
    fn has_no_headers(&self, names: Vec<String>) -> bool {
        self.add(Check::HasNoHeaders(names))
    }

    /// Return how many records a batch has if all are accepted, else None: for tests.
    fn accepts(&self, data: &[u8]) -> Option<usize> {
        self.made().accepts(data, &mut { judge::STEPS_A_READ })
    }

    /// Return whether all records of a batch are accepted, as native threads do; false, too, where
    /// that is too much work.
    fn accepts_in_time(&self, data: &[u8]) -> bool {
        self.made().accepts_in_time(data, &mut judge::Work::default())
    }
}

impl Judge {
    fn add(&self, check: Check) -> bool {
        locked(&self.checks).push(check);
        true
    }

    fn made(&self) -> &Arc<judge::Judge> {
        self.made.get_or_init(|| {
            let mut checks = locked(&self.checks);
            Arc::new(judge::Judge::new(&self.names, std::mem::take(&mut checks), self.limits))
        })
    }
}

/// The actions for requests, and the known topics.
#[pyclass(frozen, module = "penstock._native")]
pub struct Table(Arc<table::Table>);

#[pymethods]
impl Table {
    /// Rows are API keys, their first version, and a byte for each version: 0 for Python, 1 to
    /// forward both, 2 for Produce, 3 for Produce if its topics are known and accept their batches.
    #[new]
    fn new(rows: Vec<(i16, i16, Vec<u8>)>) -> Self {
        let rows = rows.into_iter().map(|(key, first, actions)| {
            (key, first, actions.into_iter().map(Action::of).collect())
        });
        Self(Arc::new(table::Table::new(rows)))
    }

    /// Remember a topic by its name until a time. Its batches are accepted if each of the judges
    /// accepts them; with `unnumbered`, only those without a producer id.
    #[allow(clippy::needless_pass_by_value)] // pyo3 passes converted arguments by value
    fn know_name(&self, name: &str, judges: Vec<PyRef<'_, Judge>>, unnumbered: bool, until: f64) {
        self.0.know_name(name.as_bytes(), topic(name, &judges, unnumbered), until);
    }

    /// Remember a topic by its id, whose name never changes.
    #[allow(clippy::needless_pass_by_value)] // pyo3 passes converted arguments by value
    fn know_id(&self, id: [u8; 16], name: &str, judges: Vec<PyRef<'_, Judge>>, unnumbered: bool) {
        self.0.know_id(id, name.as_bytes(), topic(name, &judges, unnumbered));
    }

    /// Remember a topic whose batches workers judge, by its name until a time; with `unnumbered`, only
    /// those without a producer id. `topic_id` is its id; zeros if it is not needed.
    #[allow(clippy::needless_pass_by_value)] // pyo3 passes converted arguments by value
    fn know_worked_name(
        &self,
        name: &str,
        topic_id: [u8; 16],
        judging: Judging<'_>,
        unnumbered: bool,
        until: f64,
    ) {
        let worked = worked(name, topic_id, judging, unnumbered);
        self.0.know_name(name.as_bytes(), Topic::Worked(Arc::new(worked)), until);
    }

    /// The same by its id.
    #[allow(clippy::needless_pass_by_value)] // pyo3 passes converted arguments by value
    fn know_worked_id(&self, id: [u8; 16], name: &str, judging: Judging<'_>, unnumbered: bool) {
        let worked = worked(name, id, judging, unnumbered);
        self.0.know_id(id, name.as_bytes(), Topic::Worked(Arc::new(worked)));
    }

    /// Return the names of the known topics.
    fn names(&self) -> Vec<String> {
        let text = |name: Box<[u8]>| String::from_utf8_lossy(&name).into_owned();
        self.0.names().into_iter().map(text).collect()
    }

    /// Forget all topics.
    fn forget_topics(&self) {
        self.0.forget_topics();
    }

    /// Forget a topic, by its name.
    fn forget(&self, name: &str) {
        self.0.forget(name.as_bytes());
    }

    /// Forget a topic, by its name, but for its batches that have no sequence numbers.
    fn forget_numbered(&self, name: &str) {
        self.0.forget_numbered(name.as_bytes());
    }
}

/// Decompress records as the lane does; None where it does not: for tests.
#[pyfunction]
pub fn decompressed<'py>(
    py: Python<'py>,
    codec: u16,
    data: &[u8],
    limit: usize,
) -> Option<Bound<'py, PyBytes>> {
    compression::decompressed(codec, data, limit).map(|found| PyBytes::new(py, &found))
}

fn early<'py>(py: Python<'py>, of: &Early) -> EarlyOutcome<'py> {
    let (topic, plan) = (of.topic.labels.topic.to_string(), PyBytes::new(py, &of.topic.plan));
    let outcome = (plan, of.ring, of.number, of.is_accepted, of.took_s, of.waited_s);
    (topic, of.topic_id, of.partition, outcome)
}

fn worked(
    name: &str,
    id: [u8; 16],
    (judges, waited, observed): Judging<'_>,
    unnumbered: bool,
) -> Worked {
    let topic = waited.map_or_else(
        || Worked::unawaited(name),
        |(policies, plan, takes_client, pool)| {
            let pool = Arc::clone(&pool.inner);
            Worked::new(name, &policies, &plan, id, pool).with_client(takes_client)
        },
    );
    let judged = judges.iter().map(|judge| Judged::new(name, Arc::clone(judge.made())));
    let observers = observed.map(|(policies, plan, takes_client, pool)| {
        Observers::new(name, &policies, &plan, id, takes_client, Arc::clone(&pool.inner))
    });
    topic.only_unnumbered(unnumbered).beside(judged.collect(), observers)
}

fn topic(name: &str, judges: &[PyRef<'_, Judge>], unnumbered: bool) -> Topic {
    let judged = judges.iter().map(|judge| Judged::new(name, Arc::clone(judge.made())));
    match (judges.is_empty(), unnumbered) {
        (_, true) => Topic::Unnumbered(judged.collect()),
        (true, false) => Topic::Unjudged,
        (false, false) => Topic::Judged(judged.collect()),
    }
}

/// The threads.
#[pyclass(frozen, module = "penstock._native")]
pub struct Lane {
    lane: threads::Lane,
    /// Errors of the TLS library before it began.
    before: u64,
}

#[pymethods]
impl Lane {
    #[new]
    #[allow(clippy::needless_pass_by_value)] // pyo3 passes converted arguments by value
    fn new(threads: usize, bounds: Vec<f64>, held_max_bytes: usize, now: f64) -> PyResult<Self> {
        let lane = threads::Lane::start(threads, &bounds, held_max_bytes, now)?;
        let _ = panics::noted_elsewhere(); // as `before`: not of this lane's time
        Ok(Self { lane, before: panics::caught_count() })
    }

    /// The descriptor that is readable when connections were given back.
    fn fileno(&self) -> RawFd {
        self.lane.ready_descriptor().as_raw_fd()
    }

    /// Return the numbers of the connections that were given back, and are to be taken.
    fn ready(&self) -> Vec<u64> {
        self.lane.ready()
    }

    /// Hand over two sockets, with the decrypted bytes received from them; return the connection's
    /// number. `client_tls` is on the client's socket, `broker_tls` on the broker's. `sender` is the
    /// client's principal, its address and the number of its connection in Python, if policies may be
    /// given them by native threads.
    #[pyo3(signature = (
        table, client, broker, between, from_client, from_broker, request_max_bytes, valid_until,
        client_tls=None, broker_tls=None, sender=None
    ))]
    #[allow(clippy::too_many_arguments)] // each is an argument in Python
    fn adopt(
        &self,
        table: &Table,
        client: RawFd,
        broker: RawFd,
        between: Between,
        from_client: Vec<u8>,
        from_broker: Vec<u8>,
        request_max_bytes: usize,
        valid_until: f64,
        client_tls: Option<&Tls>,
        broker_tls: Option<&Tls>,
        sender: Option<(Option<String>, Option<String>, u64)>,
    ) -> PyResult<Option<u64>> {
        let limits = Limits { request_max_bytes, valid_until };
        let state = state(between);
        let [client_tls, broker_tls] =
            [client_tls, broker_tls].map(|tls| tls.map(|tls| Arc::clone(&tls.inner)));
        let adopted = Adopted {
            client,
            broker,
            client_tls,
            broker_tls,
            state,
            from_client,
            from_broker,
            limits,
            sender: sender.map(|(principal, address, number)| Sender {
                principal,
                address,
                number,
            }),
        };
        Ok(self.lane.adopt(adopted, Arc::clone(&table.0))?)
    }

    /// Take a connection back: the state, the unsent bytes for the broker and for the client, the
    /// unprocessed bytes of the client and of the broker, which of their connections have failed,
    /// how many requests were forwarded, how many bytes of the client were received, for how long it
    /// was not read, and the outcomes of batches of the request with which its bytes begin.
    fn take<'py>(&self, py: Python<'py>, number: u64) -> PyResult<Option<Bound<'py, PyTuple>>> {
        let Some(back) = py.detach(|| self.lane.take(number)) else { return Ok(None) };
        let GivenBack { to_broker, to_client, from_client, from_broker, .. } = &back;
        let [to_broker, to_client, from_client, from_broker] =
            [to_broker, to_client, from_client, from_broker].map(|one| PyBytes::new(py, one));
        let (failed, forwarded) = ((back.client_failed, back.broker_failed), back.forwarded);
        let (received, unread_s) = (back.received, back.unread_s);
        let state = between(back.state);
        let bytes = (to_broker, to_client, from_client, from_broker);
        let (to_broker, to_client, from_client, from_broker) = bytes;
        let early: Vec<_> = back.early.iter().map(|of| early(py, of)).collect();
        let all = (
            state,
            to_broker,
            to_client,
            from_client,
            from_broker,
            failed.0,
            failed.1,
            forwarded,
            received,
            unread_s,
            early,
        );
        all.into_pyobject(py).map(Some)
    }

    /// Return bytes held, bytes of the request missing, requests without a response, whether a side
    /// is blocked, when bytes were received last, how many bytes of the client were received, how
    /// many are left of its request, or of its head, and for how long it was not read.
    fn figures(&self, number: u64) -> Option<Figures> {
        self.lane.figures(number).map(|of| {
            (
                of.held_bytes,
                of.missing_bytes,
                of.unanswered,
                of.is_blocked,
                of.last_active,
                of.received_bytes,
                of.request_left,
                of.unread_s,
            )
        })
    }

    /// Say whether all clients of the gateway together hold too much: then little is read at once.
    fn set_short(&self, is_short: bool) {
        self.lane.set_short(is_short);
    }

    /// Return the counts of each thread since the last call: times of requests, times of brokers,
    /// accepted records, bytes of clients, bytes of brokers, times that batches waited for workers.
    fn collect(&self) -> Vec<Collected> {
        self.lane.collect().into_iter().map(collected).collect()
    }

    /// How many errors of its own the lane had, or the TLS library in any thread: each closed a
    /// connection, or ended a thread.
    #[getter]
    fn panics(&self) -> u64 {
        self.lane.panics().saturating_add(panics::caught_count().saturating_sub(self.before))
    }

    /// Return where these errors happened, since the last call: places in the source, or messages
    /// of the system; no received bytes.
    fn errors(&self) -> Vec<String> {
        let mut places = self.lane.errors();
        places.extend(panics::noted_elsewhere());
        places
    }

    /// Panic with a connection, as an error of the lane's own does: for tests.
    fn panic_with(&self, py: Python<'_>, number: u64) -> PyResult<()> {
        Ok(py.detach(|| self.lane.panic_with(number))?)
    }

    /// End the threads.
    fn close(&self, py: Python<'_>) {
        py.detach(|| self.lane.close());
    }
}

/// The lane's decisions, without sockets: for tests.
#[pyclass(frozen, module = "penstock._native")]
pub struct Relay {
    relay: Mutex<relay::Relay>,
    counts: Mutex<Counts>,
}

#[pymethods]
impl Relay {
    /// Begin in a state; fails if it needs Python. `bounds` are those of histograms.
    #[new]
    #[allow(clippy::needless_pass_by_value)] // pyo3 passes converted arguments by value
    fn new(
        table: &Table,
        between: Between,
        request_max_bytes: usize,
        bounds: Vec<f64>,
    ) -> PyResult<Self> {
        let limits = Limits { request_max_bytes, valid_until: f64::INFINITY };
        relay::Relay::new(state(between), Arc::clone(&table.0), limits)
            .map(|relay| Self {
                relay: Mutex::new(relay),
                counts: Mutex::new(Counts::new(&bounds)),
            })
            .ok_or_else(|| pyo3::exceptions::PyValueError::new_err("it needs Python"))
    }

    /// Return how many of a client's bytes pass, and whether Python continues after them.
    fn client_data(&self, data: &[u8]) -> (usize, bool) {
        let Passed { bytes, stopped } = locked(&self.relay).client_data(data, 0.0, &self.counts);
        (bytes, stopped)
    }

    /// Judge a slice of the request with which the bytes begin that have not passed, of so many
    /// seconds. Return whether that was not the last, and whether Python continues; None if no
    /// request waits for it.
    fn judge_slice(&self, data: &[u8], seconds: f64) -> Option<(bool, bool)> {
        let mut relay = locked(&self.relay);
        relay.slices()?;
        let slice = relay.judge_slice(data, 0.0, seconds, &self.counts);
        let goes_on = matches!(slice, Slice::GoesOn | Slice::Between);
        Some((goes_on, slice == Slice::Pythons))
    }

    /// As `client_data`, for a broker's bytes.
    fn broker_data(&self, data: &[u8]) -> (usize, bool) {
        let Passed { bytes, stopped } = locked(&self.relay).broker_data(data, 0.0, &self.counts);
        (bytes, stopped)
    }

    /// Return the state.
    fn state(&self) -> Between {
        between(locked(&self.relay).state().clone())
    }

    /// Return the counts since the last call, as `Lane.collect`.
    fn collect(&self) -> Collected {
        collected(locked(&self.counts).collect())
    }
}

fn state(between: Between) -> State {
    let (request_left, is_last, receiving, response_left, expected, unconfirmed) = between;
    let receiving = match (is_last, receiving) {
        (true, _) => Receiving::Last,
        (false, Some(one)) => Receiving::WithoutResponse(exchange_of(one)),
        (false, None) => Receiving::Nothing,
    };
    let expected: VecDeque<_> = expected.into_iter().map(exchange_of).collect();
    State { request_left, receiving, response_left, expected, unconfirmed }
}

fn between(state: State) -> Between {
    let State { request_left, receiving, response_left, expected, unconfirmed } = state;
    let (is_last, receiving) = match receiving {
        Receiving::Nothing => (false, None),
        Receiving::Last => (true, None),
        Receiving::WithoutResponse(exchange) => (false, Some(fields(exchange))),
    };
    let expected = expected.into_iter().map(fields).collect();
    (request_left, is_last, receiving, response_left, expected, unconfirmed)
}

const fn exchange_of(of: Exchange) -> exchange::Exchange {
    let (api_key, version, correlation_id, received_at, sent_at, was_held) = of;
    exchange::Exchange { api_key, version, correlation_id, received_at, sent_at, was_held }
}

const fn fields(of: exchange::Exchange) -> Exchange {
    (of.api_key, of.version, of.correlation_id, of.received_at, of.sent_at, of.was_held)
}
