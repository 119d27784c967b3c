//! Counts of requests, bytes and records. Python collects it when somebody reads its metrics.
#![forbid(unsafe_code)]

use std::collections::HashMap;
use std::sync::Arc;

/// API keys from here on are counted together, as Python counts unknown API keys.
const KEYS: usize = 128;
/// The bounds of buckets are Python's; there are no more of them than this.
pub const BUCKETS_MAX: usize = 32;
/// Records of more topics are counted together until the next `collect`, as in Python.
const TOPICS_MAX: usize = 1000;
/// The name for these topics, as in `penstock.gateway.observing.metrics.cells`.
const OTHER: &str = "(other)";

/// How long the requests of an API took.
#[derive(Debug, Clone, Default)]
pub struct Times {
    /// How many took no longer than each bound, and longer than the previous bound.
    pub buckets: Vec<u64>,
    /// Their times together, in seconds.
    pub total_s: f64,
}

/// The labels of a batch in metrics.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Labels {
    /// The name of the topic.
    pub topic: Box<str>,
    /// The names of the policies.
    pub policies: Box<str>,
}

/// A batch that is accepted: it is counted when its request passes.
#[derive(Debug, Clone)]
pub struct AcceptedBatch {
    /// Its labels.
    pub labels: Arc<Labels>,
    /// How many records it has.
    pub records: usize,
    /// How many seconds it was judged.
    pub seconds: f64,
}

/// Accepted records of a topic.
#[derive(Default)]
struct Accepted {
    records: u64,
    times: Option<Times>,
}

/// Accepted records of a topic: its name, the names of its policies, records, times of batches.
pub type AcceptedOf = (String, String, u64, Option<Times>);

/// Counts of a thread.
#[derive(Default)]
pub struct Counts {
    bounds: Vec<f64>,
    whole: Vec<Option<Times>>,
    broker: Vec<Option<Times>>,
    accepted: HashMap<Arc<Labels>, Accepted>,
    /// By the names of policies.
    others: HashMap<Box<str>, Accepted>,
    /// How long batches waited for a worker, by the names of their policies.
    waiting: HashMap<Box<str>, Option<Times>>,
    /// Bytes received from clients.
    pub client_bytes: u64,
    /// Bytes received from brokers.
    pub broker_bytes: u64,
}

/// The counts since the last `collect`.
#[derive(Debug, Default)]
pub struct Collected {
    /// By API key, -1 for all unknown keys: from the first bytes of a request to its response.
    pub whole: Vec<(i16, Times)>,
    /// The same from the moment in which a request that was held was sent.
    pub broker: Vec<(i16, Times)>,
    /// By topic and policies.
    pub accepted: Vec<AcceptedOf>,
    /// How long batches waited for a worker that accepted them, by policies.
    pub waiting: Vec<(String, Times)>,
    /// Bytes received from clients.
    pub client_bytes: u64,
    /// Bytes received from brokers.
    pub broker_bytes: u64,
}

impl Counts {
    /// Count nothing yet; without `bounds`, no times.
    pub fn new(bounds: &[f64]) -> Self {
        Self { bounds: bounds.to_vec(), ..Self::default() }
    }

    /// Count a request that is done.
    pub fn answered(&mut self, api_key: i16, seconds: f64) {
        count(&mut self.whole, &self.bounds, api_key, seconds);
    }

    /// Count how long a broker took to answer a request that was held.
    pub fn broker_answered(&mut self, api_key: i16, seconds: f64) {
        count(&mut self.broker, &self.bounds, api_key, seconds);
    }

    /// Count a batch that was accepted, and how long that took.
    pub fn accepted(&mut self, labels: &Arc<Labels>, records: usize, seconds: f64) {
        if self.bounds.is_empty() {
            return;
        }
        let cell = if self.accepted.contains_key(labels) || self.accepted.len() < TOPICS_MAX {
            self.accepted.entry(Arc::clone(labels)).or_default()
        } else {
            self.others.entry(labels.policies.clone()).or_default()
        };
        cell.records = cell.records.saturating_add(records as u64);
        observe(&mut cell.times, &self.bounds, seconds);
    }

    /// Count the accepted batches of a request that passes.
    pub fn passed(&mut self, batches: &[AcceptedBatch]) {
        for batch in batches {
            self.accepted(&batch.labels, batch.records, batch.seconds);
        }
    }

    /// Count how long a batch waited for the worker that accepted it.
    pub fn waited(&mut self, labels: &Labels, seconds: f64) {
        if self.bounds.is_empty() {
            return;
        }
        if !self.waiting.contains_key(&labels.policies) {
            self.waiting.insert(labels.policies.clone(), None);
        }
        if let Some(times) = self.waiting.get_mut(&labels.policies) {
            observe(times, &self.bounds, seconds);
        }
    }

    /// Return the counts, and begin again.
    pub fn collect(&mut self) -> Collected {
        let fresh = Self::new(&self.bounds);
        let counted = std::mem::replace(self, fresh);
        Collected {
            whole: by_key(counted.whole),
            broker: by_key(counted.broker),
            accepted: by_labels(counted.accepted, counted.others),
            waiting: by_policies(counted.waiting),
            client_bytes: counted.client_bytes,
            broker_bytes: counted.broker_bytes,
        }
    }
}

fn count(cells: &mut Vec<Option<Times>>, bounds: &[f64], api_key: i16, seconds: f64) {
    if bounds.is_empty() {
        return;
    }
    let key = usize::try_from(api_key).map_or(KEYS, |key| key.min(KEYS));
    if cells.len() <= key {
        cells.resize(key.saturating_add(1), None);
    }
    if let Some(cell) = cells.get_mut(key) {
        observe(cell, bounds, seconds);
    }
}

fn observe(cell: &mut Option<Times>, bounds: &[f64], seconds: f64) {
    let times = cell.get_or_insert_with(|| Times {
        buckets: vec![0; bounds.len().saturating_add(1)],
        total_s: 0.0,
    });
    let position = bounds.partition_point(|bound| *bound < seconds);
    if let Some(bucket) = times.buckets.get_mut(position) {
        *bucket = bucket.saturating_add(1);
    }
    times.total_s += seconds;
}

fn by_key(cells: Vec<Option<Times>>) -> Vec<(i16, Times)> {
    let numbered = cells.into_iter().enumerate();
    numbered
        .filter_map(|(key, times)| {
            let key = if key < KEYS { i16::try_from(key).ok()? } else { -1 };
            times.map(|times| (key, times))
        })
        .collect()
}

fn by_policies(waiting: HashMap<Box<str>, Option<Times>>) -> Vec<(String, Times)> {
    let cells = waiting.into_iter();
    cells.filter_map(|(policies, times)| Some((policies.into(), times?))).collect()
}

fn by_labels(
    accepted: HashMap<Arc<Labels>, Accepted>,
    others: HashMap<Box<str>, Accepted>,
) -> Vec<AcceptedOf> {
    let named = |topic: &str, policies: &str, of: Accepted| {
        (topic.to_owned(), policies.to_owned(), of.records, of.times)
    };
    let known = accepted.into_iter().map(|(of, found)| named(&of.topic, &of.policies, found));
    let others = others.into_iter().map(|(policies, found)| named(OTHER, &policies, found));
    known.chain(others).collect()
}
