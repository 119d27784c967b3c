//! Accepts batches in the lane, by Penstock's own policies whose work is bounded.
//!
//! It is a short form of `penstock.engine.inline.InlineJudge`. It only accepts: Python judges all
//! other batches from the beginning, also those that would be too much work here.
#![forbid(unsafe_code)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::batch::{self, Limits};
use super::counts::Labels;
use super::panics::caught;
use super::stopwatch::Stopwatch;
use crate::json::node::Schema;
use crate::json::text::Values;
use crate::section::Section;

/// How much the batches of one read may take together, in the steps of `json::check`: about 5 ms.
pub const STEPS_A_READ: u64 = 500_000;
/// How long the batches of one read may take together: steps of some patterns take far longer.
const SECONDS_A_READ: f64 = 0.005;
/// How much the keys, or the values, of a batch may take, as in Python (`INLINE_STEPS`).
const STEPS_A_COLUMN: u64 = 200_000;
/// After so many bytes of texts, a judge looks at the clock. Longer texts are not judged here.
const PACE_BYTES: usize = 32 * 1024;
/// Policies that took too long for a batch do not judge here for so long (`SUSPENDED_S`).
const SUSPENDED_S: f64 = 30.0;

/// The work that the batches of one read may take together, and have taken.
#[derive(Debug)]
pub struct Work {
    steps: u64,
    seconds_max: f64,
    seconds: f64,
}

impl Default for Work {
    fn default() -> Self {
        Self::new(STEPS_A_READ, SECONDS_A_READ)
    }
}

impl Work {
    /// They may take so many steps, and so long.
    pub const fn new(steps: u64, seconds_max: f64) -> Self {
        Self { steps, seconds_max, seconds: 0.0 }
    }

    /// Return how many seconds they have taken.
    pub const fn seconds(&self) -> f64 {
        self.seconds
    }
}

/// Ends the judging of a batch that takes too long: some patterns take far longer than others.
struct Pace<'a> {
    watch: &'a Stopwatch,
    allowed_s: f64,
    bytes: usize,
}

impl Pace<'_> {
    /// Return whether there is time after work on so many bytes more.
    fn goes_on(&mut self, size: usize) -> bool {
        self.bytes = self.bytes.saturating_add(size);
        if self.bytes <= PACE_BYTES {
            return true;
        }
        self.bytes = 0;
        self.watch.seconds() <= self.allowed_s
    }

    /// Return whether a text of so many bytes is judged.
    fn allows(&mut self, size: usize) -> bool {
        size <= PACE_BYTES && self.goes_on(size)
    }
}

/// A policy of a topic, or a part of a policy.
pub enum Check {
    /// Keys, or values, fit a schema.
    Fits {
        /// Whether keys are judged, rather than values.
        keys: bool,
        /// Whether null is accepted.
        accepts_null: bool,
        /// The schema.
        schema: Arc<Schema>,
        /// Longer keys or values are not judged.
        longest: usize,
    },
    /// Each record has a key.
    HasKey {
        /// Whether an empty key is accepted.
        accepts_empty: bool,
    },
    /// Parts are no larger than so many bytes.
    Sizes {
        /// Keys.
        key: Option<usize>,
        /// Values.
        value: Option<usize>,
        /// All headers of a record: names and values.
        headers: Option<usize>,
        /// All three together.
        record: Option<usize>,
    },
    /// Each record has headers with these names.
    HasHeaders(Vec<String>),
    /// No record has a header with one of these names.
    HasNoHeaders(Vec<String>),
}

impl Check {
    /// Return whether all records are accepted; steps are taken from `work`.
    fn accepts(
        &self,
        records: &Section,
        values: &mut Values,
        work: &mut u64,
        pace: &mut Pace<'_>,
    ) -> bool {
        match self {
            Self::Fits { keys, accepts_null, schema, longest } => {
                let allowed = STEPS_A_COLUMN.min(*work);
                let mut left = allowed;
                let mut fits = |text: Option<&[u8]>| match text {
                    None => *accepts_null,
                    Some(text) => {
                        text.len() <= *longest
                            && pace.allows(text.len())
                            && schema.fits(text, values, &mut left)
                    }
                };
                let all = if *keys {
                    records.keys().all(&mut fits)
                } else {
                    records.values().all(&mut fits)
                };
                *work = work.saturating_sub(allowed.saturating_sub(left));
                all
            }
            Self::HasKey { accepts_empty } => {
                records.keys().all(|key| key.is_some_and(|key| *accepts_empty || !key.is_empty()))
            }
            Self::Sizes { key, value, headers, record } => {
                let is_in =
                    |size: usize, limit: &Option<usize>| limit.is_none_or(|most| size <= most);
                let sizes_of_headers = records.headers().map(|headers| {
                    headers
                        .map(|(name, value)| size_of(Some(name)).saturating_add(size_of(value)))
                        .sum()
                });
                let all = records.keys().zip(records.values()).zip(sizes_of_headers);
                let mut sizes =
                    all.map(|((key, value), headers)| (size_of(key), size_of(value), headers));
                sizes.all(|(own_key, own_value, own_headers): (usize, usize, usize)| {
                    is_in(own_key, key)
                        && is_in(own_value, value)
                        && is_in(own_headers, headers)
                        && is_in(
                            own_key.saturating_add(own_value).saturating_add(own_headers),
                            record,
                        )
                })
            }
            Self::HasHeaders(names) => records.headers().all(|headers| {
                names.iter().all(|name| {
                    let is_there = headers.clone().any(|(own, _)| {
                        *work = work.saturating_sub(1);
                        own == name.as_bytes()
                    });
                    is_there && *work > 0
                })
            }),
            Self::HasNoHeaders(names) => records.headers().all(|mut headers| {
                headers.all(|(own, _)| {
                    *work = work.saturating_sub(1);
                    *work > 0 && names.iter().all(|name| own != name.as_bytes())
                })
            }),
        }
    }
}

fn size_of(field: Option<&[u8]>) -> usize {
    field.map_or(0, <[u8]>::len)
}

/// Judges the batches of topics. Several topics may share a judge.
pub struct Judge {
    names: Box<str>,
    checks: Vec<Check>,
    limits: Limits,
    /// Until when it does not judge here: the bits of seconds.
    suspended_until: AtomicU64,
}

impl Judge {
    /// `names` are the names of the policies in metrics.
    pub fn new(names: &str, checks: Vec<Check>, limits: Limits) -> Self {
        Self { names: names.into(), checks, limits, suspended_until: AtomicU64::new(0) }
    }

    fn is_suspended(&self, now: f64) -> bool {
        now < f64::from_bits(self.suspended_until.load(Ordering::Relaxed))
    }

    /// Return how many records a batch has if all are accepted.
    ///
    /// None, too, if that takes too much work: Python, which may take longer, decides then.
    pub fn accepts(&self, data: &[u8], work: &mut u64) -> Option<usize> {
        self.accepts_within(data, work, &Stopwatch::start(0, false), f64::INFINITY)
    }

    /// The same, as long as the stopwatch shows no more seconds.
    fn accepts_within(
        &self,
        data: &[u8],
        work: &mut u64,
        watch: &Stopwatch,
        allowed_s: f64,
    ) -> Option<usize> {
        let records = batch::read(data, self.limits)?;
        let mut values = Values::default();
        let mut pace = Pace { watch, allowed_s, bytes: 0 };
        // To read the batch was work, and all headers are read once more for some policies.
        let mut checks = self.checks.iter();
        checks
            .all(|check| {
                pace.goes_on(records.size())
                    && check.accepts(&records, &mut values, work, &mut pace)
            })
            .then(|| records.len())
    }

    /// Return whether all records of a batch are accepted, within so much work.
    pub fn accepts_in_time(&self, data: &[u8], work: &mut Work) -> bool {
        let watch = Stopwatch::start(data.len(), batch::is_compressed(data));
        let allowed_s = work.seconds_max - work.seconds;
        caught(|| self.accepts_within(data, &mut work.steps, &watch, allowed_s)).flatten().is_some()
    }

    /// The same, and how many seconds it took.
    pub(super) fn timed(&self, data: &[u8], now: f64, work: &mut Work) -> Option<(usize, f64)> {
        if self.is_suspended(now) || work.seconds >= work.seconds_max {
            return None;
        }
        let watch = Stopwatch::start(data.len(), batch::is_compressed(data));
        // Where the evaluator fails, a worker has the reason.
        let allowed_s = work.seconds_max - work.seconds;
        let judged = catch_unwind(AssertUnwindSafe(|| {
            self.accepts_within(data, &mut work.steps, &watch, allowed_s)
        }));
        let seconds = watch.seconds();
        work.seconds += seconds;
        if watch.is_slow(seconds) {
            self.suspended_until.store((now + SUSPENDED_S).to_bits(), Ordering::Relaxed);
        }
        judged.ok().flatten().map(|count| (count, seconds))
    }
}

/// A topic whose batches are judged.
pub struct Judged {
    /// The labels of its batches.
    pub labels: Arc<Labels>,
    pub(super) judge: Arc<Judge>,
}

impl Judged {
    /// A topic, by its name, and the judge of its batches.
    pub fn new(topic: &str, judge: Arc<Judge>) -> Self {
        let labels = Labels { topic: topic.into(), policies: judge.names.clone() };
        Self { labels: Arc::new(labels), judge }
    }
}
