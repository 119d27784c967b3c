//! Counts as Python sees them.

use crate::lane::counts::{self, Times};

/// API key, buckets, seconds altogether.
type Counted = (i16, Vec<u64>, f64);
/// Topic, policies, records, buckets of batches, seconds altogether.
type Accepted = (String, String, u64, Vec<u64>, f64);
/// Policies, buckets of batches, seconds altogether.
type Waited = (String, Vec<u64>, f64);
pub type Collected = (Vec<Counted>, Vec<Counted>, Vec<Accepted>, u64, u64, Vec<Waited>);

pub fn collected(of: counts::Collected) -> Collected {
    let accepted = of.accepted.into_iter().map(|(topic, policies, records, times)| {
        let Times { buckets, total_s } = times.unwrap_or_default();
        (topic, policies, records, buckets, total_s)
    });
    let (whole, broker) = (counted(of.whole), counted(of.broker));
    let waiting = of.waiting.into_iter().map(|(by, times)| (by, times.buckets, times.total_s));
    let bytes = (of.client_bytes, of.broker_bytes);
    (whole, broker, accepted.collect(), bytes.0, bytes.1, waiting.collect())
}

fn counted(times: Vec<(i16, Times)>) -> Vec<Counted> {
    times.into_iter().map(|(key, of)| (key, of.buckets, of.total_s)).collect()
}
