//! What is counted of requests and bytes. Python collects it when somebody reads its metrics.
#![forbid(unsafe_code)]

/// API keys from here on are counted together, as Python counts those that it does not know.
const KEYS: usize = 128;
/// The bounds of buckets are Python's; there are no more of them than this.
pub const BUCKETS_MAX: usize = 32;

/// How long the requests of one API took.
#[derive(Debug, Clone)]
pub struct Times {
    /// How many took no longer than each bound, and longer than the one before.
    pub buckets: Vec<u64>,
    /// Their times together, in seconds.
    pub total_s: f64,
}

/// Counts of one thread.
#[derive(Debug, Default)]
pub struct Counts {
    bounds: Vec<f64>,
    whole: Vec<Option<Times>>,
    broker: Vec<Option<Times>>,
    /// Bytes received from clients.
    pub client_bytes: u64,
    /// Bytes received from brokers.
    pub broker_bytes: u64,
}

/// What was counted since the last time.
#[derive(Debug, Default)]
pub struct Collected {
    /// By API key, -1 for all that are not known: from the first bytes of a request to its answer.
    pub whole: Vec<(i16, Times)>,
    /// The same from the moment in which a request that was held was sent.
    pub broker: Vec<(i16, Times)>,
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

    /// Return what was counted, and begin again.
    pub fn collect(&mut self) -> Collected {
        let fresh = Self::new(&self.bounds);
        let counted = std::mem::replace(self, fresh);
        Collected {
            whole: by_key(counted.whole),
            broker: by_key(counted.broker),
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
    let Some(cell) = cells.get_mut(key) else { return };
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
