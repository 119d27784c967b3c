//! The rings of the workers of one configuration: which of them judges which partition.
#![forbid(unsafe_code)]

use std::sync::{Arc, PoisonError, RwLock};

use crc::{CRC_32_ISO_HDLC, Crc};

use super::observed::Observers;
use super::sender::Ring;

const PARTITIONS: Crc<u32> = Crc::<u32>::new(&CRC_32_ISO_HDLC);

/// The rings, by the slot of their worker; None where Python has batches judged.
#[derive(Debug, Default)]
pub struct Pool {
    slots: RwLock<Vec<Option<Arc<Ring>>>>,
    /// The batches that these workers only observe.
    pub observers: Arc<Observers>,
}

impl Pool {
    /// No rings yet, of workers that only observe.
    pub fn of(observers: Observers) -> Self {
        Self { observers: Arc::new(observers), ..Self::default() }
    }

    /// Set the rings of all slots.
    pub fn set(&self, slots: Vec<Option<Arc<Ring>>>) {
        *self.slots.write().unwrap_or_else(PoisonError::into_inner) = slots;
    }

    /// Return the ring of the worker that judges a partition, as
    /// `penstock.engine.workers.schedule` has it; None if Python has its batches judged.
    pub fn ring(&self, topic: &[u8], partition: i32) -> Option<Arc<Ring>> {
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
