//! Batches that are only observed: they are forwarded, and nobody waits for their verdicts.
//!
//! Each is copied, within limits, so that another worker can judge it when one ends. Those that are
//! accepted are counted here; Python takes all others.
#![forbid(unsafe_code)]

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use crate::lane::counts::{Collected, Counts, Labels};
use crate::lane::locked;

/// What is known of a batch, apart from its bytes.
#[derive(Debug, Clone)]
pub struct Head {
    /// The labels of its topic.
    pub labels: Arc<Labels>,
    /// The topic's plan, encoded.
    pub plan: Arc<[u8]>,
    /// Who has sent it: `context::encoded`.
    pub context: Arc<[u8]>,
    /// Whether a policy takes that.
    pub takes_client: bool,
    /// The connection that it came by.
    pub connection: u64,
    /// The version of the Produce request.
    pub version: i16,
    /// The partition.
    pub partition: i32,
    /// The topic's id; zeros where it is not known.
    pub topic_id: [u8; 16],
    /// How many records it has, as its header says.
    pub count: usize,
}

/// A batch.
#[derive(Debug)]
pub struct Observed {
    /// What is known of it.
    pub head: Head,
    /// The batch as it was received.
    pub records: Box<[u8]>,
    observers: Arc<Observers>,
}

/// A batch that its worker did not accept.
#[derive(Debug)]
pub struct Refused {
    /// The number of the ring.
    pub ring: u64,
    /// Its number there, under which Python gets its verdict.
    pub number: u64,
    /// How many seconds it was judged.
    pub took_s: f64,
    /// The batch.
    pub batch: Arc<Observed>,
}

/// How many batches of a plan, and records in them, were not observed for lack of room.
pub type LeftOut = HashMap<Arc<[u8]>, (u64, u64)>;

/// What Python has to do.
#[derive(Debug, Default)]
pub struct Taken {
    /// To report these.
    pub refused: Vec<Refused>,
    /// To have these judged.
    pub returned: Vec<Arc<Observed>>,
    /// To count these.
    pub left_out: LeftOut,
}

#[derive(Default)]
struct State {
    counts: Counts,
    /// How many batches there are, and their bytes.
    batches: usize,
    bytes: usize,
    taken: Taken,
}

/// The batches of the observers of a configuration.
#[derive(Default)]
pub struct Observers {
    state: Mutex<State>,
    max_batches: usize,
    max_bytes: usize,
}

impl std::fmt::Debug for Observers {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Observers").finish_non_exhaustive()
    }
}

impl Observers {
    /// Observe no batch yet, and never more than these; `bounds` are those of histograms.
    pub fn new(bounds: &[f64], max_batches: usize, max_bytes: usize) -> Self {
        let state = State { counts: Counts::new(bounds), ..State::default() };
        Self { state: Mutex::new(state), max_batches, max_bytes }
    }

    /// Keep a batch; None if there is no room, which is counted.
    pub fn enter(self: &Arc<Self>, head: Head, records: &[u8]) -> Option<Arc<Observed>> {
        let mut state = locked(&self.state);
        let bytes = state.bytes.saturating_add(records.len());
        if state.batches >= self.max_batches || bytes > self.max_bytes {
            let (batches, count) = state.taken.left_out.entry(head.plan).or_default();
            *batches = batches.saturating_add(1);
            *count = count.saturating_add(head.count as u64);
            return None;
        }
        state.batches = state.batches.saturating_add(1);
        state.bytes = bytes;
        drop(state);
        Some(Arc::new(Observed { head, records: records.into(), observers: Arc::clone(self) }))
    }

    /// Return how many batches have no verdict.
    pub fn open_count(&self) -> usize {
        locked(&self.state).batches
    }

    /// Return what Python has to do. These batches are no longer kept here.
    pub fn take(&self) -> Taken {
        let mut state = locked(&self.state);
        let taken = std::mem::take(&mut state.taken);
        for batch in taken.refused.iter().map(|of| &of.batch).chain(&taken.returned) {
            state.forget(batch);
        }
        taken
    }

    /// Return the counts of accepted batches since the last call.
    pub fn collect(&self) -> Collected {
        locked(&self.state).counts.collect()
    }
}

impl State {
    fn forget(&mut self, batch: &Observed) {
        self.batches = self.batches.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(batch.records.len());
    }
}

impl Observed {
    /// Count it as accepted.
    pub fn accept(&self, took_s: f64) {
        let mut state = locked(&self.observers.state);
        state.counts.accepted(&self.head.labels, self.head.count, took_s);
        state.forget(self);
    }

    /// Have Python report it, with the verdict that it gets.
    pub fn refuse(self: &Arc<Self>, ring: u64, number: u64, took_s: f64) {
        let batch = Arc::clone(self);
        locked(&self.observers.state).taken.refused.push(Refused { ring, number, took_s, batch });
    }

    /// Have Python judge it.
    pub fn give_back(self: &Arc<Self>) {
        locked(&self.observers.state).taken.returned.push(Arc::clone(self));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head() -> Head {
        let labels = Labels { topic: "t".into(), policies: "p".into() };
        Head {
            labels: Arc::new(labels),
            plan: b"plan"[..].into(),
            context: Arc::default(),
            takes_client: false,
            connection: 1,
            version: 9,
            partition: 0,
            topic_id: [0; 16],
            count: 3,
        }
    }

    #[test]
    fn there_are_never_more_than_its_limits() {
        let observers = Arc::new(Observers::new(&[1.0], 3, 10));
        let first = observers.enter(head(), b"12345").unwrap();
        assert!(observers.enter(head(), b"123456").is_none());
        let second = observers.enter(head(), b"12345").unwrap();
        assert!(observers.enter(head(), b"1").is_none());
        first.accept(0.5);
        second.refuse(7, 8, 0.25);
        assert_eq!(observers.open_count(), 1);
        let taken = observers.take();
        assert_eq!((taken.refused[0].ring, taken.refused[0].number), (7, 8));
        assert_eq!(taken.left_out.values().collect::<Vec<_>>(), [&(2, 6)]);
        let third: Vec<_> = (0..3).map(|_| observers.enter(head(), b"").unwrap()).collect();
        assert!(observers.enter(head(), b"").is_none());
        third[0].give_back();
        assert_eq!(observers.take().returned.len(), 1);
        assert_eq!(observers.open_count(), 2);
        let counted = observers.collect().accepted;
        assert_eq!((counted.len(), counted[0].2), (1, 3));
    }
}
