//! Requests with large batches, which are judged in slices: in between, their thread serves others.
#![forbid(unsafe_code)]

use std::sync::Arc;

use super::counts::AcceptedBatch;
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
    /// How many seconds the turn has taken that it has.
    turn_s: f64,
    /// The batches that were accepted, for each judge.
    pub accepted: Vec<AcceptedBatch>,
}

/// The result of a slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Slice {
    /// There is more to do.
    GoesOn,
    /// There is more to do, of another batch, or by another judge: no records are held.
    Between,
    /// All batches are accepted.
    Accepted,
    /// Python continues.
    Pythons,
}

impl Slices {
    /// A request of which nothing was judged.
    pub fn new(request: Request, exchange: Exchange, size: usize) -> Self {
        let (steps, accepted) = (InSteps::new(), Vec::new());
        let (is_queued, batch, judge, turn_s) = (false, 0, 0, 0.0);
        Self { request, exchange, size, is_queued, batch, judge, steps, turn_s, accepted }
    }

    /// Return whether its thread has to be notified; it is from now on.
    pub const fn queue(&mut self) -> bool {
        !std::mem::replace(&mut self.is_queued, true)
    }

    /// Return how many bytes of memory are held, but for those that were received.
    pub fn held_bytes(&self) -> usize {
        let accepted = self.accepted.capacity().saturating_mul(size_of::<AcceptedBatch>());
        let judged = self.steps.held_bytes().saturating_add(accepted);
        judged.saturating_add(self.request.held_bytes())
    }

    /// Judge a slice of a request, which are these bytes: steps that take so many seconds together.
    /// Return how many they have taken, too.
    pub fn go_on(&mut self, frame: &[u8], now: f64, slice_s: f64) -> (Slice, f64) {
        let mut took_s = 0.0;
        loop {
            let Some((judges, records)) = self.request.judged.get(self.batch) else {
                return (Slice::Accepted, took_s);
            };
            let Some(judged) = judges.get(self.judge) else {
                (self.batch, self.judge) = (self.batch.saturating_add(1), 0);
                continue;
            };
            if self.steps.is_new() && self.turn_s > slice_s {
                self.turn_s = 0.0;
                return (Slice::Between, took_s);
            }
            if took_s > slice_s {
                return (Slice::GoesOn, took_s);
            }
            let data = frame.get(records.clone()).unwrap_or_default();
            let before = self.steps.seconds();
            let step = judged.judge.go_on(data, &mut self.steps, now);
            let seconds = self.steps.seconds() - before;
            (took_s, self.turn_s) = (took_s + seconds, self.turn_s + seconds);
            match step {
                Step::Pythons => return (Slice::Pythons, took_s),
                Step::GoesOn => {}
                Step::Accepted(records) => {
                    let (labels, seconds) = (Arc::clone(&judged.labels), self.steps.seconds());
                    self.accepted.push(AcceptedBatch { labels, records, seconds });
                    self.steps = InSteps::new();
                    self.judge = self.judge.saturating_add(1);
                }
            }
        }
    }
}
