//! The rings of the workers of one configuration: which of them judges which partition.
#![forbid(unsafe_code)]

use std::sync::{Arc, PoisonError, RwLock};

use crc::{CRC_32_ISO_HDLC, Crc};

use super::observed::{Head, Observed, Observers};
use super::sender::Ring;

const PARTITIONS: Crc<u32> = Crc::<u32>::new(&CRC_32_ISO_HDLC);

/// The rings, by the slot of their worker; None where Python has batches judged.
#[derive(Debug, Default)]
pub struct Pool {
    slots: Arc<RwLock<Vec<Option<Arc<Ring>>>>>,
    /// Whether Python has all batches judged.
    is_beside: bool,
    /// The batches that these workers only observe.
    pub observers: Arc<Observers>,
}

impl Pool {
    /// No rings yet, of workers that only observe.
    pub fn of(observers: Observers) -> Self {
        Self { observers: Arc::new(observers), ..Self::default() }
    }

    /// The same, where Python has all batches judged.
    #[must_use]
    pub fn beside(&self) -> Self {
        let (slots, observers) = (Arc::clone(&self.slots), Arc::clone(&self.observers));
        Self { slots, is_beside: true, observers }
    }

    /// Keep a batch that is only observed; None if there is no room, which is counted.
    pub fn enter(&self, head: Head, records: &[u8]) -> Option<Arc<Observed>> {
        let entered = self.observers.enter(head, records).or_else(|head| {
            // Others may have an outcome that nobody has read.
            for ring in self.rings() {
                ring.look();
            }
            self.observers.enter(head, records)
        });
        entered.map_err(|head| self.observers.leave_out(head)).ok()
    }

    fn rings(&self) -> Vec<Arc<Ring>> {
        let slots = self.slots.read().unwrap_or_else(PoisonError::into_inner);
        slots.iter().flatten().map(Arc::clone).collect()
    }

    /// Set the rings of all slots.
    pub fn set(&self, slots: Vec<Option<Arc<Ring>>>) {
        *self.slots.write().unwrap_or_else(PoisonError::into_inner) = slots;
    }

    /// Return the ring of the worker that judges a partition, as
    /// `penstock.engine.workers.schedule` has it; None if Python has its batches judged.
    pub fn ring(&self, topic: &[u8], partition: i32) -> Option<Arc<Ring>> {
        if self.is_beside {
            return None;
        }
        let slots = self.slots.read().unwrap_or_else(PoisonError::into_inner);
        let count = u32::try_from(slots.len()).ok()?;
        let slot = of_partition(topic, partition).checked_rem(count)?;
        slots.get(usize::try_from(slot).ok()?)?.clone()
    }
}

/// Return the checksum of `topic/partition`.
fn of_partition(topic: &[u8], partition: i32) -> u32 {
    let mut digest = PARTITIONS.digest();
    digest.update(topic);
    digest.update(b"/");
    digest.update(partition.to_string().as_bytes());
    digest.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_have_the_checksum_that_python_computes() {
        assert_eq!(of_partition(b"orders", 12), 0x6b65_d11b);
    }
}
