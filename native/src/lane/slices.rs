//! Requests with large batches, which are judged in slices: in between, their thread serves others.
//!
//! A thread judges one such request after the other, so that the records of one batch are
//! decompressed at a time.
#![forbid(unsafe_code)]

use super::counts::Counts;
use super::exchange::Exchange;
use super::judge::{InSteps, Step};
use super::produce::Request;

/// How long a slice is.
pub const SLICE_S: f64 = 0.001;
/// The share of its time that a thread has for slices where its other connections need all of it.
const SHARE: f64 = 0.2;

/// Return for how long a thread judges slices that has served others for so many seconds; it judges
/// one, at least.
pub fn seconds_after(others_s: f64) -> f64 {
    others_s * (SHARE / (1.0 - SHARE))
}

/// A request whose batches are judged in slices.
pub struct Slices {
    /// The request.
    pub request: Request,
    /// The request, as it is counted.
    pub exchange: Exchange,
    /// Its bytes, with those of its length.
    pub size: usize,
    /// Whether its thread knows that it has to judge it.
    is_queued: bool,
    /// The batch that is being judged, and by which of its judges.
    batch: usize,
    judge: usize,
    steps: InSteps,
    /// The records and seconds of the batches that were accepted, for each judge.
    accepted: Vec<(usize, f64)>,
}

/// The result of a slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Slice {
    /// There is more to do.
    GoesOn,
    /// All batches are accepted.
    Accepted,
    /// Python continues.
    Pythons,
}

impl Slices {
    /// A request of which nothing was judged.
    pub fn new(request: Request, exchange: Exchange, size: usize) -> Self {
        let (steps, accepted) = (InSteps::new(), Vec::new());
        Self { request, exchange, size, is_queued: false, batch: 0, judge: 0, steps, accepted }
    }

    /// Return whether its thread has to be notified; it is from now on.
    pub const fn queue(&mut self) -> bool {
        !std::mem::replace(&mut self.is_queued, true)
    }

    /// Return how many bytes of memory are held, but for those of the request.
    pub fn held_bytes(&self) -> usize {
        self.steps.held_bytes()
    }

    /// Judge a slice of a request, which are these bytes: steps that take so many seconds together.
    /// Return how many they have taken, too.
    pub fn go_on(&mut self, frame: &[u8], now: f64, slice_s: f64) -> (Slice, f64) {
        let mut seconds = 0.0;
        loop {
            let Some((judges, records)) = self.request.judged.get(self.batch) else {
                return (Slice::Accepted, seconds);
            };
            let Some(judged) = judges.get(self.judge) else {
                (self.batch, self.judge) = (self.batch.saturating_add(1), 0);
                continue;
            };
            if seconds > slice_s {
                return (Slice::GoesOn, seconds);
            }
            let data = frame.get(records.clone()).unwrap_or_default();
            let before = self.steps.seconds();
            let step = judged.judge.go_on(data, &mut self.steps, now);
            seconds += self.steps.seconds() - before;
            match step {
                Step::Pythons => return (Slice::Pythons, seconds),
                Step::GoesOn => {}
                Step::Accepted(count) => {
                    self.accepted.push((count, self.steps.seconds()));
                    self.steps = InSteps::new();
                    self.judge = self.judge.saturating_add(1);
                }
            }
        }
    }

    /// Count the batches, which are all accepted.
    pub fn count(&self, counts: &mut Counts) {
        let judges = self.request.judged.iter().flat_map(|(judges, _)| judges.iter());
        for (judged, (count, seconds)) in judges.zip(&self.accepted) {
            counts.accepted(&judged.labels, *count, *seconds);
        }
    }
}
