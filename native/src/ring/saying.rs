//! When a worker says to threads that there are outcomes: it is a system call, and wakes a thread.
//!
//! Outcomes of quick batches are said together. But whoever judges the next batch knows how long it
//! takes only when it is done, and outcomes that were not said before wait for it. So after a slow
//! batch each outcome is said at once, for a multiple of its time: where slow batches are frequent,
//! none of the other outcomes waits for them, and where they are rare, few do.
#![forbid(unsafe_code)]

use std::time::{Duration, Instant};

/// How long outcomes of quick batches are not said while there are more batches.
pub const SAY_EVERY: Duration = Duration::from_micros(200);
/// A batch that takes longer is slow.
pub const SLOW: Duration = Duration::from_millis(1);
/// So many times as long as it has taken, other batches may be slow, too.
pub const SLOW_TIMES: u32 = 8;

/// When outcomes were said, and until when each is said at once.
#[derive(Debug)]
pub struct Saying {
    said_at: Instant,
    slow_until: Option<Instant>,
}

impl Saying {
    /// Nothing is known of batches.
    pub const fn new(now: Instant) -> Self {
        Self { said_at: now, slow_until: None }
    }

    /// Note that there is nothing to say.
    pub const fn note_said(&mut self, now: Instant) {
        self.said_at = now;
    }

    /// Note an outcome, and how long the batch has taken; return whether to say now what is to be
    /// said.
    pub fn note_outcome(&mut self, now: Instant, took: Duration) -> bool {
        if took > SLOW {
            let until = now.checked_add(took.saturating_mul(SLOW_TIMES));
            self.slow_until = self.slow_until.max(until);
        }
        let may_be_slow = self.slow_until.is_some_and(|until| now < until);
        let is_due = may_be_slow || now.saturating_duration_since(self.said_at) > SAY_EVERY;
        if is_due {
            self.said_at = now;
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUICK: Duration = Duration::from_micros(15);

    /// Judge batches one after the other; return for each whether its outcome was said before the
    /// next batch.
    fn said(times: &[Duration]) -> Vec<bool> {
        let mut now = Instant::now();
        let mut saying = Saying::new(now);
        let each = times.iter().map(|took| {
            now += *took;
            saying.note_outcome(now, *took)
        });
        each.collect()
    }

    #[test]
    fn outcomes_of_quick_batches_are_said_together() {
        let count = said(&[QUICK; 1000]).iter().filter(|is_said| **is_said).count();
        assert!((60..=75).contains(&count), "{count}");
    }

    #[test]
    fn outcomes_of_slow_batches_are_said_at_once() {
        assert_eq!(said(&[SAY_EVERY * 2; 3]), [true; 3]);
        assert_eq!(said(&[SLOW * 90; 3]), [true; 3]);
    }

    #[test]
    fn no_outcome_waits_for_one_of_many_slow_batches() {
        let slow = SLOW * 90;
        for quick_count in [1, 10, 1000] {
            let round = [vec![slow], vec![QUICK; quick_count]].concat();
            assert!(said(&round.repeat(5)).iter().all(|is_said| *is_said), "{quick_count}");
        }
    }

    #[test]
    fn one_slow_batch_does_not_make_later_outcomes_costly() {
        let count = said(&[vec![SLOW * 2], vec![QUICK; 10_000]].concat())
            .iter()
            .filter(|is_said| **is_said)
            .count();
        // 16 ms of single outcomes, and 134 ms of others.
        assert!((1_600..=1_900).contains(&count), "{count}");
    }

    #[test]
    fn after_a_rest_outcomes_are_said_together_again() {
        let start = Instant::now();
        let mut saying = Saying::new(start);
        let later = start + SLOW * 10;
        saying.note_said(later);
        assert!(!saying.note_outcome(later + QUICK, QUICK));
    }
}
