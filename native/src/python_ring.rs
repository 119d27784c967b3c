//! Rings as Python sees them: both ends.

use std::os::fd::{AsRawFd, RawFd};
use std::sync::{Arc, Mutex};

use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::lane::locked;
use crate::ring::layout::{Outcome, Slot};
use crate::ring::pool::Pool;
use crate::ring::reader::Reader;
use crate::ring::sender;

/// The current batch, batches written, answered, waiting; whether the worker wrote nonsense.
type Figures = (u64, u64, u64, usize, bool);
/// Number, version, partition, topic id, plan, records.
type Batch<'py> = (u64, i16, i32, [u8; 16], Bound<'py, PyBytes>, Bound<'py, PyBytes>);

/// The gateway's end of a ring: batches that a worker judges for native threads.
#[pyclass(frozen, module = "penstock._native")]
pub struct Ring {
    inner: Arc<sender::Ring>,
}

#[pymethods]
impl Ring {
    /// Make a ring with a number for so many threads.
    #[new]
    fn new(number: u64, threads: usize) -> PyResult<Self> {
        Ok(Self { inner: Arc::new(sender::Ring::new(number, threads)?) })
    }

    /// The descriptors that the worker gets: the memory, the descriptor that is readable when
    /// there is work, and that of each thread.
    fn descriptors(&self) -> Vec<RawFd> {
        let fixed = [self.inner.memory(), self.inner.work()];
        fixed.into_iter().chain(self.inner.done()).map(|each| each.as_raw_fd()).collect()
    }

    /// Have Python judge all batches that have no outcome; return the plan of the batch that the
    /// worker judges, encoded; empty if there is none.
    fn recall<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.inner.recall())
    }

    /// Take batches again after `recall`.
    fn resume(&self) {
        self.inner.resume();
    }

    /// As `recall`, for good.
    fn close<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.inner.close())
    }

    /// Return the numbers of batches that were recalled while they were in the worker's hand: those
    /// that are accepted, and those that it had not begun.
    fn take_late(&self) -> (Vec<u64>, Vec<u64>) {
        let late = self.inner.take_late();
        (late.accepted, late.left_out)
    }

    /// Return the number of the batch that is being judged (0 for none), how many batches were
    /// written, how many have an outcome, how many wait, and whether the worker wrote nonsense.
    fn figures(&self) -> Figures {
        let of = self.inner.figures();
        (of.current, of.written, of.answered, of.waiting, of.is_broken)
    }
}

/// The rings of the workers of a configuration.
#[pyclass(frozen, module = "penstock._native")]
pub struct RingPool {
    pub(crate) inner: Arc<Pool>,
}

#[pymethods]
impl RingPool {
    #[new]
    fn new() -> Self {
        Self { inner: Arc::default() }
    }

    /// Set the ring of each slot; None where Python has batches judged.
    fn set(&self, slots: Vec<Option<Py<Ring>>>) {
        let rings = slots.into_iter().map(|ring| ring.map(|ring| Arc::clone(&ring.get().inner)));
        self.inner.set(rings.collect());
    }
}

struct Judging {
    reader: Reader,
    current: Option<Slot>,
}

/// The worker's end of a ring.
#[pyclass(frozen, module = "penstock._native")]
pub struct RingReader {
    inner: Mutex<Judging>,
}

#[pymethods]
impl RingReader {
    /// Share the memory and the descriptors that `Ring.descriptors` returned.
    #[new]
    #[allow(clippy::needless_pass_by_value)] // pyo3 passes converted arguments by value
    fn new(memory: RawFd, work: RawFd, done: Vec<RawFd>) -> PyResult<Self> {
        let reader = Reader::open(memory, work, &done)?;
        Ok(Self { inner: Mutex::new(Judging { reader, current: None }) })
    }

    /// Whether there is another batch.
    #[getter]
    fn has_more(&self) -> bool {
        locked(&self.inner).reader.has_more()
    }

    /// Begin the next batch; None if there is none. Its outcome has to be given before the next.
    fn next<'py>(&self, py: Python<'py>) -> Option<Batch<'py>> {
        let mut judging = locked(&self.inner);
        let slot = judging.reader.begin_next()?;
        let (plan, records) = judging.reader.bytes(&slot)?;
        judging.current = Some(slot);
        Some((
            slot.number,
            slot.version,
            slot.partition,
            slot.topic_id,
            PyBytes::new(py, &plan),
            PyBytes::new(py, &records),
        ))
    }

    /// Give the outcome of the batch that was begun, and how many microseconds it took.
    fn answer(&self, accepted: bool, took_us: u32) {
        let mut judging = locked(&self.inner);
        let outcome = if accepted { Outcome::Accepted } else { Outcome::Verdict };
        if let Some(slot) = judging.current.take() {
            judging.reader.reply(slot, outcome, took_us);
        }
    }

    /// Have the threads know of the outcomes.
    fn say(&self) {
        locked(&self.inner).reader.say();
    }

    /// Wait until there is a batch, or another descriptor is readable; return whether that is so.
    fn wait(&self, py: Python<'_>, other: RawFd, timeout_ms: i32) -> PyResult<bool> {
        Ok(py.detach(|| locked(&self.inner).reader.wait(other, timeout_ms))?)
    }
}
