//! Batches that are only observed: they are forwarded, and nobody waits for their verdicts.
//!
//! Each is copied, within limits, so that another worker can judge it when one ends. Those that are
//! accepted are counted here; Python takes all others, and gives their room back later. The batches
//! that only Python has take room here, too.
#![forbid(unsafe_code)]

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use crate::lane::counts::{Collected, Counts, Labels};
use crate::lane::locked;

/// A batch without its bytes.
#[derive(Debug, Clone)]
pub struct Head {
    /// The labels of its topic.
    pub labels: Arc<Labels>,
    /// The topic's plan, encoded.
    pub plan: Arc<[u8]>,
    /// Its sender: `context::encoded`.
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
    /// All but its bytes.
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
    /// How many batches Python has not taken.
    open: usize,
    /// How many batches there are, those of Python as well, and their bytes.
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
    max_records: usize,
}

impl std::fmt::Debug for Observers {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Observers").finish_non_exhaustive()
    }
}

impl Observers {
    /// Observe no batch yet, and never more than these; `bounds` are those of histograms. No batch
    /// counts more records than `max_records`, whatever its header says.
    pub fn new(bounds: &[f64], max_batches: usize, max_bytes: usize, max_records: usize) -> Self {
        let state = State { counts: Counts::new(bounds), ..State::default() };
        Self { state: Mutex::new(state), max_batches, max_bytes, max_records }
    }

    /// Take room for a batch with so many bytes; return false if there is none.
    pub fn reserve(&self, bytes: usize) -> bool {
        let mut state = locked(&self.state);
        let all_bytes = state.bytes.saturating_add(bytes);
        let has_room = state.batches < self.max_batches && all_bytes <= self.max_bytes;
        if has_room {
            state.batches = state.batches.saturating_add(1);
            state.bytes = all_bytes;
        }
        has_room
    }

    /// Give the room of a batch back.
    pub fn release(&self, bytes: usize) {
        locked(&self.state).release(bytes);
    }

    /// Keep a batch; return its head if there is no room.
    ///
    /// # Errors
    /// There is no room.
    pub fn enter(self: &Arc<Self>, mut head: Head, records: &[u8]) -> Result<Arc<Observed>, Head> {
        if !self.reserve(size(&head, records)) {
            return Err(head);
        }
        head.count = head.count.min(self.max_records);
        let mut state = locked(&self.state);
        state.open = state.open.saturating_add(1);
        drop(state);
        Ok(Arc::new(Observed { head, records: records.into(), observers: Arc::clone(self) }))
    }

    /// Count a batch for which there was no room.
    pub fn leave_out(&self, head: Head) {
        let mut state = locked(&self.state);
        let (batches, records) = state.taken.left_out.entry(head.plan).or_default();
        *batches = batches.saturating_add(1);
        *records = records.saturating_add(head.count.min(self.max_records) as u64);
    }

    /// Return how many batches Python has not taken, and that have no verdict.
    pub fn open_count(&self) -> usize {
        locked(&self.state).open
    }

    /// Return what Python has to do. It gives the room of these batches back later.
    pub fn take(&self) -> Taken {
        let mut state = locked(&self.state);
        let taken = std::mem::take(&mut state.taken);
        let count = taken.refused.len().saturating_add(taken.returned.len());
        state.open = state.open.saturating_sub(count);
        taken
    }

    /// Return the counts of accepted batches since the last call.
    pub fn collect(&self) -> Collected {
        locked(&self.state).counts.collect()
    }
}

impl State {
    fn release(&mut self, bytes: usize) {
        self.batches = self.batches.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(bytes);
    }
}

/// Return how many bytes a batch takes.
fn size(head: &Head, records: &[u8]) -> usize {
    records.len().saturating_add(head.context.len())
}

impl Observed {
    /// Return how many bytes it takes.
    pub fn size(&self) -> usize {
        size(&self.head, &self.records)
    }

    /// Count it as accepted.
    pub fn accept(&self, took_s: f64) {
        let mut state = locked(&self.observers.state);
        state.counts.accepted(&self.head.labels, self.head.count, took_s);
        state.open = state.open.saturating_sub(1);
        state.release(self.size());
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

    fn observers() -> Arc<Observers> {
        Arc::new(Observers::new(&[1.0], 3, 10, 5))
    }

    #[test]
    fn there_are_never_more_than_its_limits() {
        let observers = observers();
        let first = observers.enter(head(), b"12345").unwrap();
        assert!(observers.enter(head(), b"123456").is_err());
        let second = observers.enter(head(), b"12345").unwrap();
        assert!(observers.enter(head(), b"1").is_err());
        first.accept(0.5);
        second.refuse(7, 8, 0.25);
        assert_eq!(observers.open_count(), 1);
        let taken = observers.take();
        assert_eq!((taken.refused[0].ring, taken.refused[0].number), (7, 8));
        // Python has it still.
        assert!(observers.enter(head(), b"123456").is_err());
        observers.release(taken.refused[0].batch.size());
        let third: Vec<_> = (0..3).map(|_| observers.enter(head(), b"").unwrap()).collect();
        assert!(observers.enter(head(), b"").is_err());
        third[0].give_back();
        assert_eq!(observers.take().returned.len(), 1);
        assert_eq!(observers.open_count(), 2);
        let counted = observers.collect().accepted;
        assert_eq!((counted.len(), counted[0].2), (1, 3));
    }

    #[test]
    fn batches_of_python_and_clients_take_room() {
        let observers = observers();
        assert!(observers.reserve(8));
        assert!(!observers.reserve(3));
        assert!(observers.enter(head(), b"123").is_err());
        let of_client = Head { context: b"ab"[..].into(), ..head() };
        assert!(observers.enter(of_client.clone(), b"1").is_err());
        observers.release(8);
        assert_eq!(observers.enter(of_client, b"1").unwrap().size(), 3);
    }

    #[test]
    fn a_header_counts_no_more_records_than_a_batch_may_have() {
        let observers = observers();
        let many = Head { count: usize::MAX, ..head() };
        observers.leave_out(head());
        observers.leave_out(many.clone());
        assert_eq!(observers.take().left_out.values().collect::<Vec<_>>(), [&(2, 3 + 5)]);
        observers.enter(many, b"").unwrap().accept(0.5);
        assert_eq!(observers.collect().accepted[0].2, 5);
    }
}
