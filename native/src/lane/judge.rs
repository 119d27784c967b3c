//! Accepts batches in the lane, by Penstock's own policies whose work is bounded.
//!
//! It is a short form of `penstock.engine.inline.InlineJudge`. It only accepts: Python judges all
//! other batches from the beginning, also those that would be too much work here.
#![forbid(unsafe_code)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::batch::{self, Limits, Reading};
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
/// The limits of a batch that is judged in one read. Larger batches are judged in slices.
const AT_ONCE: Limits = Limits { max_bytes: 256 * 1024, max_records: 10_000 };
/// So many bytes of records, and so many records, are judged in a step of a slice.
const STEP_BYTES: usize = 32 * 1024;
const STEP_RECORDS: usize = 1_000;
/// Policies that took too long for a batch do not judge here for so long (`SUSPENDED_S`).
const SUSPENDED_S: f64 = 30.0;

/// The work that the batches of one read may take together, and have taken.
#[derive(Debug)]
pub struct Work {
    steps: u64,
    seconds_max: f64,
    seconds: f64,
    has_refused: bool,
}

impl Default for Work {
    fn default() -> Self {
        Self::new(STEPS_A_READ, SECONDS_A_READ)
    }
}

impl Work {
    /// They may take so many steps, and so long.
    pub const fn new(steps: u64, seconds_max: f64) -> Self {
        Self { steps, seconds_max, seconds: 0.0, has_refused: false }
    }

    /// Return how many seconds they have taken.
    pub const fn seconds(&self) -> f64 {
        self.seconds
    }

    /// Return whether records of a batch were not accepted, though there was work left for them.
    pub const fn has_refused(&self) -> bool {
        self.has_refused
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

/// A batch that is judged in steps, between which a thread serves others.
pub(super) struct InSteps {
    stage: Stage,
    values: Values,
    /// How many seconds the steps have taken.
    seconds: f64,
    /// How many they may take.
    allowed_s: f64,
}

enum Stage {
    /// Nothing was read.
    New,
    /// Records are read.
    Reads(Reading),
    /// All records were read, and so many judged.
    Judges(Section, usize),
}

/// The result of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// There is more to do.
    GoesOn,
    /// All records are accepted: so many.
    Accepted(usize),
    /// Python judges the batch.
    Pythons,
}

impl InSteps {
    /// A batch of which nothing was read.
    pub fn new() -> Self {
        let (values, seconds, allowed_s) = (Values::default(), 0.0, f64::INFINITY);
        Self { stage: Stage::New, values, seconds, allowed_s }
    }

    /// Return whether nothing was read yet.
    pub const fn is_new(&self) -> bool {
        matches!(self.stage, Stage::New)
    }

    /// Return how many bytes of memory are held.
    pub fn held_bytes(&self) -> usize {
        let records = match &self.stage {
            Stage::New => 0,
            Stage::Reads(reading) => reading.held_bytes(),
            Stage::Judges(records, _) => records.held_bytes(),
        };
        records.saturating_add(self.values.held_bytes())
    }

    /// Return how many seconds the steps have taken.
    pub const fn seconds(&self) -> f64 {
        self.seconds
    }

    /// Begin to judge the records, for which the time depends on their size: how long it took to read
    /// them is not the policies' fault.
    fn judge(&mut self, records: &Section) {
        let reads = records.size().checked_div(AT_ONCE.max_bytes).unwrap_or(0).saturating_add(1);
        let allowed_s = SECONDS_A_READ * f64::from(u32::try_from(reads).unwrap_or(u32::MAX));
        self.allowed_s = self.seconds + allowed_s;
    }
}

/// The thread's judgment of a batch.
enum Found {
    /// All records are accepted: so many.
    Accepted(usize),
    /// Some are not, or that took too much work.
    Unaccepted,
    /// It is not read here, or not at once.
    Unread,
}

impl Found {
    const fn accepted(&self) -> Option<usize> {
        match self {
            Self::Accepted(count) => Some(*count),
            Self::Unaccepted | Self::Unread => None,
        }
    }
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

    /// Return whether it does not judge here at a time.
    pub(super) fn is_suspended(&self, now: f64) -> bool {
        now < f64::from_bits(self.suspended_until.load(Ordering::Relaxed))
    }

    /// Return how many records a batch has if all are accepted.
    ///
    /// None, too, if that takes too much work: Python, which may take longer, decides then.
    pub fn accepts(&self, data: &[u8], work: &mut u64) -> Option<usize> {
        self.within(data, work, &Stopwatch::start(0, false), f64::INFINITY).accepted()
    }

    /// Judge a batch as long as the stopwatch shows no more seconds.
    fn within(&self, data: &[u8], work: &mut u64, watch: &Stopwatch, allowed_s: f64) -> Found {
        let Some(records) = batch::read(data, self.limits_at_once()) else { return Found::Unread };
        let mut pace = Pace { watch, allowed_s, bytes: 0 };
        if self.accepts_all(&records, &mut Values::default(), work, &mut pace) {
            Found::Accepted(records.len())
        } else {
            Found::Unaccepted
        }
    }

    fn limits_at_once(&self) -> Limits {
        Limits {
            max_bytes: self.limits.max_bytes.min(AT_ONCE.max_bytes),
            max_records: self.limits.max_records.min(AT_ONCE.max_records),
        }
    }

    fn accepts_all(
        &self,
        records: &Section,
        values: &mut Values,
        work: &mut u64,
        pace: &mut Pace<'_>,
    ) -> bool {
        // To read the batch was work, and all headers are read once more for some policies.
        let mut checks = self.checks.iter();
        checks
            .all(|check| pace.goes_on(records.size()) && check.accepts(records, values, work, pace))
    }

    /// Take the next step with a batch that may be larger than those that are judged in one read.
    ///
    /// A step is short, or is not to be divided.
    pub(super) fn go_on(&self, data: &[u8], batch: &mut InSteps, now: f64) -> Step {
        if self.is_suspended(now) {
            return Step::Pythons;
        }
        let watch = Stopwatch::of_thread();
        let judges = matches!(batch.stage, Stage::Judges(..));
        // Where the evaluator fails, a worker has the reason.
        let step = catch_unwind(AssertUnwindSafe(|| self.step(data, batch, &watch)));
        let seconds = watch.seconds();
        batch.seconds += seconds;
        if batch.seconds > batch.allowed_s || (judges && seconds > SECONDS_A_READ) {
            self.suspended_until.store((now + SUSPENDED_S).to_bits(), Ordering::Relaxed);
            return Step::Pythons;
        }
        step.ok().flatten().unwrap_or(Step::Pythons)
    }

    /// The same, but None if Python judges the batch, and however long it takes.
    fn step(&self, data: &[u8], batch: &mut InSteps, watch: &Stopwatch) -> Option<Step> {
        let stage = match std::mem::replace(&mut batch.stage, Stage::New) {
            Stage::New => Stage::Reads(Reading::begin(data, self.limits)?),
            Stage::Reads(reading) => match reading.go_on(data)? {
                batch::Step::GoesOn(reading) => Stage::Reads(reading),
                batch::Step::Read(records) => {
                    batch.judge(&records);
                    Stage::Judges(records, 0)
                }
            },
            Stage::Judges(records, first) => {
                let end = end_of_step(&records, first);
                let part = records.part(first..end).ok()?;
                let mut pace = Pace { watch, allowed_s: SECONDS_A_READ, bytes: 0 };
                let mut steps = STEPS_A_READ;
                if !self.accepts_all(&part, &mut batch.values, &mut steps, &mut pace) {
                    return None;
                }
                if end == records.len() {
                    return Some(Step::Accepted(end));
                }
                Stage::Judges(records, end)
            }
        };
        batch.stage = stage;
        Some(Step::GoesOn)
    }

    /// Return whether all records of a batch are accepted, within so much work.
    pub fn accepts_in_time(&self, data: &[u8], work: &mut Work) -> bool {
        let watch = Stopwatch::start(data.len(), batch::is_compressed(data));
        let allowed_s = work.seconds_max - work.seconds;
        let found = caught(|| self.within(data, &mut work.steps, &watch, allowed_s));
        found.is_some_and(|found| found.accepted().is_some())
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
            self.within(data, &mut work.steps, &watch, allowed_s)
        }));
        let seconds = watch.seconds();
        work.seconds += seconds;
        if watch.is_slow(seconds) {
            self.suspended_until.store((now + SUSPENDED_S).to_bits(), Ordering::Relaxed);
        }
        let is_within = work.steps > 0 && seconds <= allowed_s;
        work.has_refused |= is_within && matches!(judged, Ok(Found::Unaccepted));
        judged.ok()?.accepted().map(|count| (count, seconds))
    }
}

/// Return the record before which a step ends that begins with another.
fn end_of_step(records: &Section, first: usize) -> usize {
    let last = first.saturating_add(STEP_RECORDS).min(records.len());
    let mut bytes = 0_usize;
    for record in first..last {
        bytes = bytes.saturating_add(records.record(record).len());
        if bytes >= STEP_BYTES {
            return record.saturating_add(1);
        }
    }
    last
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
