//! The lane as Python sees it: connections are handed over as the numbers of their sockets, and the
//! state between the bytes as tuples.

use std::collections::VecDeque;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};

use crate::lane::connection::GivenBack;
use crate::lane::counts::{Counts, Times};
use crate::lane::relay::{self, Limits, Passed, Receiving, State};
use crate::lane::table::{self, Action};
use crate::lane::threads::{self, Adopted};

/// API key, version, correlation id, when it was received, when it was sent, whether it was held.
type Exchange = (i16, i16, i32, f64, f64, bool);
/// Bytes of the request that are missing; whether that is the last exchange that awaits a response;
/// otherwise which one it is; bytes of the response that are missing; the exchanges that await a
/// response; whether the broker may not have read a request without one.
type Between = (usize, bool, Option<Exchange>, usize, Vec<Exchange>, bool);
/// API key, buckets, seconds altogether.
type Counted = (i16, Vec<u64>, f64);

/// What happens to requests, and the topics whose batches nobody judges.
#[pyclass(frozen, module = "penstock_native")]
pub struct Table(Arc<table::Table>);

#[pymethods]
impl Table {
    /// Rows are API keys, their first version, and a byte for each version: 0 for Python, 1 to
    /// forward both, 2 for Produce, 3 for Produce if nobody judges it.
    #[new]
    fn new(rows: Vec<(i16, i16, Vec<u8>)>) -> Self {
        let rows = rows.into_iter().map(|(key, first, actions)| {
            (key, first, actions.into_iter().map(Action::of).collect())
        });
        Self(Arc::new(table::Table::new(rows)))
    }

    /// Remember a topic whose batches nobody judges.
    fn pass_name(&self, name: &[u8]) {
        self.0.pass_name(name);
    }

    /// Forget the names of such topics, and not their ids.
    fn forget_names(&self) {
        self.0.forget_names();
    }

    /// Forget all such topics.
    fn forget_topics(&self) {
        self.0.forget_topics();
    }

    /// Remember the id of such a topic.
    fn pass_id(&self, id: [u8; 16]) {
        self.0.pass_id(id);
    }
}

/// The threads.
#[pyclass(frozen, module = "penstock_native")]
pub struct Lane(threads::Lane);

#[pymethods]
impl Lane {
    #[new]
    #[allow(clippy::needless_pass_by_value)] // it is what Python's is converted to
    fn new(threads: usize, bounds: Vec<f64>, held_max_bytes: usize, now: f64) -> PyResult<Self> {
        Ok(Self(threads::Lane::start(threads, &bounds, held_max_bytes, now)?))
    }

    /// The descriptor that is readable when connections were given back.
    fn fileno(&self) -> RawFd {
        self.0.ready_descriptor().as_raw_fd()
    }

    /// Return the numbers of the connections that were given back, and are to be taken.
    fn ready(&self) -> Vec<u64> {
        self.0.ready()
    }

    /// Hand over two sockets, and what was received of them; return the connection's number.
    #[allow(clippy::too_many_arguments)] // each is one of Python's
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
    ) -> PyResult<Option<u64>> {
        let limits = Limits { request_max_bytes, valid_until };
        let state = state(between);
        let adopted = Adopted { client, broker, state, from_client, from_broker, limits };
        Ok(self.0.adopt(adopted, Arc::clone(&table.0))?)
    }

    /// Take a connection back: the state, what is to be sent to the broker and to the client, what
    /// was received of the client and of the broker, which of their connections have failed, and how
    /// many requests were forwarded.
    fn take<'py>(&self, py: Python<'py>, number: u64) -> PyResult<Option<Bound<'py, PyTuple>>> {
        let Some(back) = self.0.take(number) else { return Ok(None) };
        let GivenBack { to_broker, to_client, from_client, from_broker, .. } = &back;
        let [to_broker, to_client, from_client, from_broker] =
            [to_broker, to_client, from_client, from_broker].map(|one| PyBytes::new(py, one));
        let (failed, forwarded) = ((back.client_failed, back.broker_failed), back.forwarded);
        let state = between(back.state);
        let bytes = (to_broker, to_client, from_client, from_broker);
        let all = (state, bytes.0, bytes.1, bytes.2, bytes.3, failed.0, failed.1, forwarded);
        all.into_pyobject(py).map(Some)
    }

    /// Return bytes held, bytes of the request missing, requests without a response, whether a side
    /// is blocked, and when bytes were received last.
    fn figures(&self, number: u64) -> Option<(usize, usize, usize, bool, f64)> {
        self.0.figures(number).map(|of| {
            (of.held_bytes, of.missing_bytes, of.unanswered, of.is_blocked, of.last_active)
        })
    }

    /// Return what each thread has counted since the last time: times of requests, times of
    /// brokers, bytes of clients, bytes of brokers.
    fn collect(&self) -> Vec<(Vec<Counted>, Vec<Counted>, u64, u64)> {
        let all = self.0.collect().into_iter();
        all.map(|one| (counted(one.whole), counted(one.broker), one.client_bytes, one.broker_bytes))
            .collect()
    }

    /// How many errors of its own the lane had: each closed a connection, or ended a thread.
    #[getter]
    fn panics(&self) -> u64 {
        self.0.panics()
    }

    /// End the threads.
    fn close(&self, py: Python<'_>) {
        py.detach(|| self.0.close());
    }
}

/// What decides in the lane, without sockets: for tests.
#[pyclass(frozen, module = "penstock_native")]
pub struct Relay(Mutex<relay::Relay>);

#[pymethods]
impl Relay {
    /// Begin in a state; fails if it needs Python.
    #[new]
    fn new(table: &Table, between: Between, request_max_bytes: usize) -> PyResult<Self> {
        let limits = Limits { request_max_bytes, valid_until: f64::INFINITY };
        relay::Relay::new(state(between), Arc::clone(&table.0), limits)
            .map(|relay| Self(Mutex::new(relay)))
            .ok_or_else(|| pyo3::exceptions::PyValueError::new_err("it needs Python"))
    }

    /// Return how many of a client's bytes pass, and whether Python goes on behind them.
    fn client_data(&self, data: &[u8]) -> (usize, bool) {
        let Passed { bytes, stopped } = self.relay().client_data(data, 0.0, &mut Counts::default());
        (bytes, stopped)
    }

    /// The same for a broker's bytes.
    fn broker_data(&self, data: &[u8]) -> (usize, bool) {
        let Passed { bytes, stopped } = self.relay().broker_data(data, 0.0, &mut Counts::default());
        (bytes, stopped)
    }

    /// Return the state.
    fn state(&self) -> Between {
        between(self.relay().state().clone())
    }
}

impl Relay {
    fn relay(&self) -> std::sync::MutexGuard<'_, relay::Relay> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn state(between: Between) -> State {
    let (request_left, is_last, receiving, response_left, expected, unconfirmed) = between;
    let receiving = match (is_last, receiving) {
        (true, _) => Receiving::Last,
        (false, Some(one)) => Receiving::WithoutResponse(exchange(one)),
        (false, None) => Receiving::Nothing,
    };
    let expected: VecDeque<_> = expected.into_iter().map(exchange).collect();
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

const fn exchange(of: Exchange) -> relay::Exchange {
    let (api_key, version, correlation_id, received_at, sent_at, was_held) = of;
    relay::Exchange { api_key, version, correlation_id, received_at, sent_at, was_held }
}

const fn fields(of: relay::Exchange) -> Exchange {
    (of.api_key, of.version, of.correlation_id, of.received_at, of.sent_at, of.was_held)
}

fn counted(times: Vec<(i16, Times)>) -> Vec<Counted> {
    times.into_iter().map(|(key, of)| (key, of.buckets, of.total_s)).collect()
}
