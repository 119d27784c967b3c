//! Rings as Python sees them: both ends.

use std::os::fd::{AsRawFd, RawFd};
use std::panic::catch_unwind;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::header::Header;
use crate::lane::batch::{Limits, is_compressed, read};
use crate::lane::locked;
use crate::python::Records;
use crate::python_counts::{Collected, collected};
use crate::ring::context;
use crate::ring::layout::{Outcome, Slot};
use crate::ring::observed::{Observed, Observers};
use crate::ring::pool::Pool;
use crate::ring::reader::Reader;
use crate::ring::saying::Saying;
use crate::ring::sender;
use crate::section::Section;

/// The current batch, batches written, answered, waiting; whether the worker wrote nonsense.
type Figures = (u64, u64, u64, usize, bool);

/// Plan, partition, topic id, version, connection, principal, client id, address, the batch, and how
/// many bytes it takes.
type ObservedBatch<'py> = (
    Bound<'py, PyBytes>,
    i32,
    Bound<'py, PyBytes>,
    i16,
    u64,
    Option<String>,
    Option<String>,
    Option<String>,
    Bound<'py, PyBytes>,
    usize,
);
type TakenObserved<'py> = (
    Vec<(u64, u64, f64, ObservedBatch<'py>)>,
    Vec<ObservedBatch<'py>>,
    Vec<(Bound<'py, PyBytes>, u64, u64)>,
);

fn observed_batch<'py>(py: Python<'py>, of: &Observed) -> ObservedBatch<'py> {
    let (head, bytes) = (&of.head, |bytes| PyBytes::new(py, bytes));
    let [principal, client_id, address] =
        context::decoded(&head.context).unwrap_or_default().map(|field| field.map(str::to_owned));
    (
        bytes(&head.plan),
        head.partition,
        bytes(&head.topic_id),
        head.version,
        head.connection,
        principal,
        client_id,
        address,
        bytes(&of.records),
        of.size(),
    )
}

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

    /// Have the worker handle all messages up to a mark before it begins a batch that is written
    /// from now on.
    fn expect_mark(&self, number: u64) {
        self.inner.expect_mark(number);
    }

    /// Return the numbers of batches that were recalled while they were in the worker's hand: those
    /// that are accepted, and those that it had not begun.
    fn take_late(&self) -> (Vec<u64>, Vec<u64>) {
        let late = self.inner.take_late();
        (late.accepted, late.left_out)
    }

    /// Read the outcomes of batches that are only observed.
    fn look(&self) {
        self.inner.look();
    }

    /// Wait for no outcome of a batch that is only observed: the worker has ended.
    fn abandon(&self) {
        self.inner.abandon();
    }

    /// Return the plans of the batches that have no outcome, encoded.
    fn open_plans<'py>(&self, py: Python<'py>) -> Vec<Bound<'py, PyBytes>> {
        self.inner.open_plans().iter().map(|plan| PyBytes::new(py, plan)).collect()
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
    /// Without arguments, of workers that do not only observe. `bounds` are those of histograms.
    #[new]
    #[pyo3(signature = (bounds=Vec::new(), max_batches=0, max_bytes=0, max_records=0))]
    #[allow(clippy::needless_pass_by_value)] // pyo3 passes converted arguments by value
    fn new(bounds: Vec<f64>, max_batches: usize, max_bytes: usize, max_records: usize) -> Self {
        let observers = Observers::new(&bounds, max_batches, max_bytes, max_records);
        Self { inner: Arc::new(Pool::of(observers)) }
    }

    /// Return the same, where Python has all batches judged.
    fn beside(&self) -> Self {
        Self { inner: Arc::new(self.inner.beside()) }
    }

    /// Take room for a batch that Python has judged; return false if there is none.
    fn reserve(&self, bytes: usize) -> bool {
        self.inner.observers.reserve(bytes)
    }

    /// Give the room of a batch back.
    fn release(&self, bytes: usize) {
        self.inner.observers.release(bytes);
    }

    /// How many batches that are only observed have no verdict, without those that were taken.
    #[getter]
    fn observed_count(&self) -> usize {
        self.inner.observers.open_count()
    }

    /// Return the batches that are only observed and that workers have not accepted: ring, number
    /// there, seconds of judging, batch; those that are to be judged again; and of how many batches
    /// and records by which plan there was no room. The room of these batches is to be given back.
    fn take_observed<'py>(&self, py: Python<'py>) -> TakenObserved<'py> {
        let taken = self.inner.observers.take();
        let refused = taken.refused.into_iter();
        let refused =
            refused.map(|of| (of.ring, of.number, of.took_s, observed_batch(py, &of.batch)));
        let returned = taken.returned.into_iter().map(|of| observed_batch(py, &of));
        let left_out = taken.left_out.into_iter();
        let left_out =
            left_out.map(|(plan, (batches, records))| (PyBytes::new(py, &plan), batches, records));
        (refused.collect(), returned.collect(), left_out.collect())
    }

    /// Return the counts of batches that are only observed, and accepted, since the last call.
    fn collect(&self) -> Collected {
        collected(self.inner.observers.collect())
    }

    /// Set the ring of each slot; None where Python has batches judged.
    fn set(&self, slots: Vec<Option<Py<Ring>>>) {
        let rings = slots.into_iter().map(|ring| ring.map(|ring| Arc::clone(&ring.get().inner)));
        self.inner.set(rings.collect());
    }
}

/// A batch has no more bytes where it is read here; a larger one is read in Python, which is quicker
/// with its records than with its header.
const READ_HERE_BYTES: usize = 16 * 1024;
/// How often to look for other things while there are batches.
const LOOK_EVERY: Duration = Duration::from_micros(200);
/// How often Python counts what was judged.
const COUNT_EVERY: Duration = Duration::from_millis(100);
const COUNT_EVERY_MS: i32 = 100;

/// What judges batches, and what reads them.
struct Calls {
    judge: Py<PyAny>,
    accepted: Py<PyAny>,
    new_header: Py<PyAny>,
    new_client: Py<PyAny>,
    limits: Limits,
}

struct Judging {
    reader: Reader,
    /// The batch that was begun, and its records.
    current: Option<(Slot, Vec<u8>)>,
    calls: Option<Arc<Calls>>,
    /// The last plan, and the last topic id: they are most often those of the next batch.
    plan: Option<Py<PyBytes>>,
    topic_id: Option<Py<PyBytes>>,
    /// The last context, and the client that it was read as.
    client: Option<(Vec<u8>, Py<PyAny>)>,
    /// When the threads hear of outcomes.
    saying: Saying,
    /// Whether to look for other things than batches, and when that was done.
    looks: bool,
    looked_at: Instant,
    /// When what was judged was counted.
    counted_at: Instant,
    /// Whether that was after the last batch.
    is_counted: bool,
}

/// The arguments of `judge`.
type Arguments<'py> = (
    Bound<'py, PyBytes>,
    i16,
    i32,
    Bound<'py, PyBytes>,
    Option<Bound<'py, PyAny>>,
    Bound<'py, PyAny>,
);

/// A batch whose verdict is not an acceptance: its number, the verdict or what was raised instead,
/// whether it was raised, and how many seconds it took.
type Other = (u64, Py<PyAny>, bool, f64);

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
        let (reader, now) = (Reader::open(memory, work, &done)?, Instant::now());
        let judging = Judging {
            reader,
            current: None,
            calls: None,
            plan: None,
            topic_id: None,
            client: None,
            saying: Saying::new(now),
            looks: false,
            looked_at: now,
            counted_at: now,
            is_counted: true,
        };
        Ok(Self { inner: Mutex::new(judging) })
    }

    /// Whether there is another batch.
    #[getter]
    fn has_more(&self) -> bool {
        locked(&self.inner).reader.has_more()
    }

    /// Have batches judged from now on.
    ///
    /// `judge` is called with plan, version, partition, topic id, the client or None, and the
    /// records: as `Records`, or the batch as bytes where it is large, compressed, not as a producer
    /// sends it or beyond the limits. `accepted` is its only result that says that all is accepted.
    /// `new_header` is as for `read`. `new_client` makes a client of principal, client id and address.
    fn begin(
        &self,
        judge: Py<PyAny>,
        accepted: Py<PyAny>,
        new_header: Py<PyAny>,
        new_client: Py<PyAny>,
        max_bytes: usize,
        max_records: usize,
    ) {
        let limits = Limits { max_bytes, max_records };
        let calls = Calls { judge, accepted, new_header, new_client, limits };
        locked(&self.inner).calls = Some(Arc::new(calls));
    }

    /// Judge the batches that are there, for so many seconds; without a limit also those that come.
    ///
    /// Return whether that is over, for the time or because the other descriptor is readable or has
    /// to be read before the next batch, and a batch that is not accepted: its number, its verdict, whether this is an error instead, and
    /// how many seconds it took. Its outcome has to be given before the next call. It also returns
    /// when batches are to be counted (`take_due`), and for signals.
    #[pyo3(signature = (other, limit_s=None))]
    fn judge(
        &self,
        py: Python<'_>,
        other: RawFd,
        limit_s: Option<f64>,
    ) -> PyResult<(bool, Option<Other>)> {
        let Some(calls) = locked(&self.inner).calls.clone() else { return Ok((true, None)) };
        let start = Instant::now();
        let mut began = start;
        loop {
            loop {
                let mut judging = locked(&self.inner);
                if std::mem::take(&mut judging.looks) {
                    judging.looked_at = began;
                    let limit_is_over = limit_s.is_some_and(|most| seconds(start, began) > most);
                    if limit_is_over || judging.reader.is_readable(other)? {
                        return Ok((true, None));
                    }
                    if judging.is_due(began) {
                        return Ok((false, None));
                    }
                }
                let Some(slot) = judging.begin_next() else {
                    if judging.reader.is_behind() {
                        judging.reader.say();
                        judging.saying.note_said(began);
                        return Ok((true, None));
                    }
                    break;
                };
                let batch = judging.arguments(py, &calls, &slot);
                drop(judging); // a class may do anything
                let returned = batch.and_then(|batch| calls.judge.call1(py, batch));
                let now = Instant::now();
                let took = now.saturating_duration_since(began);
                let verdict = match returned {
                    Ok(verdict) if verdict.is(&calls.accepted) => None,
                    Ok(verdict) => Some((verdict, false)),
                    Err(error) => Some((error.into_value(py).into_any(), true)),
                };
                if let Some((verdict, is_error)) = verdict {
                    let other = (slot.number, verdict, is_error, took.as_secs_f64());
                    return Ok((false, Some(other)));
                }
                locked(&self.inner).answer(Outcome::Accepted, now, took);
                began = now;
            }
            let is_other = py.detach(|| {
                let mut judging = locked(&self.inner);
                judging.reader.say();
                if limit_s.is_some() {
                    return Ok(true);
                }
                let timeout_ms = if judging.is_counted { -1 } else { COUNT_EVERY_MS };
                judging.reader.wait(other, timeout_ms)
            })?;
            began = Instant::now();
            let mut judging = locked(&self.inner);
            judging.saying.note_said(began);
            judging.looked_at = began;
            if is_other || judging.is_due(began) || !judging.reader.has_more() {
                return Ok((is_other, None));
            }
        }
    }

    /// Note that all messages up to a mark are handled.
    fn note_handled(&self, mark: u64) {
        locked(&self.inner).reader.note_handled(mark);
    }

    /// Give the outcome of the batch that was begun, and how many microseconds it took.
    fn answer(&self, accepted: bool, took_us: u32) {
        let outcome = if accepted { Outcome::Accepted } else { Outcome::Verdict };
        let took = Duration::from_micros(took_us.into());
        locked(&self.inner).answer(outcome, Instant::now(), took);
    }

    /// Return the batch that was begun, as bytes that no class has written to; empty if there is none.
    fn batch<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        let judging = locked(&self.inner);
        let current = judging.current.as_ref();
        PyBytes::new(py, current.map_or(&[], |(_, records)| records))
    }

    /// Return whether what was judged is to be counted now. It is, then.
    fn take_due(&self) -> bool {
        let (mut judging, now) = (locked(&self.inner), Instant::now());
        let is_due = judging.is_due(now);
        if is_due {
            (judging.is_counted, judging.counted_at) = (true, now);
        }
        is_due
    }
}

impl Judging {
    /// Begin the next batch; return it.
    fn begin_next(&mut self) -> Option<Slot> {
        let slot = self.reader.begin_next()?;
        let records = self.reader.records(&slot)?;
        self.current = Some((slot, records));
        Some(slot)
    }

    /// Return the arguments for a batch.
    fn arguments<'py>(
        &mut self,
        py: Python<'py>,
        calls: &Calls,
        slot: &Slot,
    ) -> PyResult<Arguments<'py>> {
        let plan = self.reader.plan(slot).unwrap_or_default();
        let plan = same(py, &mut self.plan, &plan);
        let topic_id = same(py, &mut self.topic_id, &slot.topic_id);
        let client = self.client(py, calls, slot)?;
        let records = self.current.as_ref().map_or(&[][..], |(_, records)| records);
        let records = match read_here(records, calls.limits) {
            Some((section, base_timestamp)) => {
                let new_header = calls.new_header.clone_ref(py);
                let read = Records::new(section, base_timestamp, None, new_header);
                Bound::new(py, read)?.into_any()
            }
            None => PyBytes::new(py, records).into_any(),
        };
        Ok((plan, slot.version, slot.partition, topic_id, client, records))
    }

    /// Return who sends a batch; None if no policy takes that.
    fn client<'py>(
        &mut self,
        py: Python<'py>,
        calls: &Calls,
        slot: &Slot,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        if slot.context_bytes == 0 {
            return Ok(None);
        }
        let bytes = self.reader.context(slot).unwrap_or_default();
        if let Some((_, client)) = self.client.as_ref().filter(|(last, _)| *last == bytes) {
            return Ok(Some(client.bind(py).clone()));
        }
        // A class may have written there.
        let fields = context::decoded(&bytes).ok_or_else(|| PyValueError::new_err("no context"))?;
        let client = calls.new_client.bind(py).call1(<(_, _, _)>::from(fields))?;
        self.client = Some((bytes, client.clone().unbind()));
        Ok(Some(client))
    }

    /// Give the outcome of the current batch, and have the threads know of it in time.
    fn answer(&mut self, outcome: Outcome, now: Instant, took: Duration) {
        let Some((slot, _)) = self.current.take() else { return };
        self.reader.reply(slot, outcome, u32::try_from(took.as_micros()).unwrap_or(u32::MAX));
        self.is_counted = false;
        if self.saying.note_outcome(now, took) {
            self.reader.say();
            self.looks = now.saturating_duration_since(self.looked_at) > LOOK_EVERY;
        }
    }

    /// Return whether Python is to count what was judged.
    fn is_due(&self, now: Instant) -> bool {
        !self.is_counted && now.saturating_duration_since(self.counted_at) > COUNT_EVERY
    }
}

/// Return the records of a small batch, and the timestamp that theirs refer to; None where Python
/// has to read it.
fn read_here(batch: &[u8], limits: Limits) -> Option<(Section, i64)> {
    let header = batch.first_chunk()?;
    if batch.len() > READ_HERE_BYTES || is_compressed(batch) {
        return None;
    }
    // After a panic here, there is one in Python, which knows what to do about it.
    let section = catch_unwind(|| read(batch, limits)).ok().flatten()?;
    Some((section, Header::read(header).base_timestamp))
}

/// Return bytes for Python: the last if they are the same.
fn same<'py>(py: Python<'py>, last: &mut Option<Py<PyBytes>>, bytes: &[u8]) -> Bound<'py, PyBytes> {
    if let Some(last) =
        last.as_ref().map(|last| last.bind(py)).filter(|last| last.as_bytes() == bytes)
    {
        return last.clone();
    }
    let fresh = PyBytes::new(py, bytes);
    *last = Some(fresh.clone().unbind());
    fresh
}

fn seconds(from: Instant, to: Instant) -> f64 {
    to.saturating_duration_since(from).as_secs_f64()
}
