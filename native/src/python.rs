//! The records of a batch for Python.

use std::collections::TryReserveError;

use pyo3::PyTypeInfo;
use pyo3::buffer::PyBuffer;
use pyo3::create_exception;
use pyo3::exceptions::{PyIndexError, PyMemoryError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyIterator, PyRange, PyString, PyTuple};

use crate::arrow::{BinaryArray, BinaryColumn};
use crate::section::{Headers, Origin, Section, Unread};
use crate::splice::{Appended, Change, ForAll, Splicer, Unwritten};

/// From here on other threads may run while the records are read; below, changing threads costs more.
const RELEASED_FROM_BYTES: usize = 64 * 1024;

create_exception!(penstock._native, InvalidRecords, PyValueError, "The bytes are not the records.");

/// The records of a batch. Columns are made when they are first read.
#[pyclass(frozen, module = "penstock._native")]
pub struct Records {
    section: Section,
    base_timestamp: i64,
    /// The timestamp of every record, where the broker set it.
    log_append_time: Option<i64>,
    new_header: Py<PyAny>,
    keys: PyOnceLock<Py<PyTuple>>,
    values: PyOnceLock<Py<PyTuple>>,
    headers: PyOnceLock<Py<PyTuple>>,
    timestamps: PyOnceLock<Py<PyTuple>>,
}

#[pymethods]
impl Records {
    fn __len__(&self) -> usize {
        self.section.len()
    }

    /// Bytes or None, in order.
    #[getter]
    fn keys<'py>(&self, py: Python<'py>) -> PyResult<&Bound<'py, PyTuple>> {
        column(py, &self.keys, || fields(py, self.section.keys()))
    }

    /// Bytes or None, in order.
    #[getter]
    fn values<'py>(&self, py: Python<'py>) -> PyResult<&Bound<'py, PyTuple>> {
        column(py, &self.values, || fields(py, self.section.values()))
    }

    /// A tuple of headers for each record, in order.
    #[getter]
    fn headers<'py>(&self, py: Python<'py>) -> PyResult<&Bound<'py, PyTuple>> {
        column(py, &self.headers, || {
            let none = PyTuple::empty(py);
            let new_header = self.new_header.bind(py);
            tuple(
                py,
                self.section.headers().map(|headers| {
                    if headers.len() == 0 { Ok(none.clone()) } else { pairs(new_header, headers) }
                }),
            )
        })
    }

    /// The rest of every key after a prefix, in order; None where a key does not begin with it.
    fn keys_after<'py>(
        &self,
        py: Python<'py>,
        prefix: &[u8],
    ) -> PyResult<Option<Bound<'py, PyTuple>>> {
        self.section.keys_after(prefix).map(|keys| fields(py, keys.map(Some))).transpose()
    }

    /// The rest of every value after a prefix, in order; None where a value does not begin with it.
    fn values_after<'py>(
        &self,
        py: Python<'py>,
        prefix: &[u8],
    ) -> PyResult<Option<Bound<'py, PyTuple>>> {
        self.section.values_after(prefix).map(|values| fields(py, values.map(Some))).transpose()
    }

    /// Whether a record has a header of a name.
    fn has_header(&self, name: &Bound<'_, PyString>) -> bool {
        // No header has a name that is not Unicode: a lone surrogate.
        name.to_cow().is_ok_and(|name| self.section.has_header(&name))
    }

    /// Milliseconds since the epoch, in order; -1 for no timestamp.
    #[getter]
    fn timestamps<'py>(&self, py: Python<'py>) -> PyResult<&Bound<'py, PyTuple>> {
        column(py, &self.timestamps, || {
            if let Some(time) = self.log_append_time {
                return PyTuple::new(py, (0..self.section.len()).map(|_| time));
            }
            PyTuple::new(py, self.section.timestamp_deltas().map(|delta| self.timestamp(delta)))
        })
    }

    /// The offsets: a range if they have no gaps, otherwise a tuple.
    fn offsets<'py>(&self, py: Python<'py>, base_offset: i64) -> PyResult<Bound<'py, PyAny>> {
        if let Some(deltas) = self.section.offset_deltas() {
            let offsets = deltas.iter().map(|delta| base_offset.wrapping_add(i64::from(*delta)));
            return Ok(PyTuple::new(py, offsets)?.into_any());
        }
        let first = base_offset.wrapping_add(i64::from(self.section.offset_delta(0)));
        let end = i64::try_from(self.section.len()).map(|count| first.wrapping_add(count))?;
        let first = isize::try_from(first)?;
        Ok(PyRange::new(py, first, isize::try_from(end)?)?.into_any())
    }

    /// Return the records from `start` to before `end`.
    fn part(&self, py: Python<'_>, start: usize, end: usize) -> PyResult<Self> {
        if start > end || end > self.section.len() {
            return Err(PyIndexError::new_err("no such records"));
        }
        let section = self.section.part(start..end).map_err(unread)?;
        let new_header = self.new_header.clone_ref(py);
        Ok(Self::new(section, self.base_timestamp, self.log_append_time, new_header))
    }

    /// The keys as an Arrow array of binary; None where they are too long together.
    #[getter]
    fn keys_arrow(&self) -> PyResult<Option<BinaryColumn>> {
        let array = BinaryArray::gather(self.section.keys()).map_err(out_of_memory)?;
        Ok(array.map(BinaryColumn::from))
    }

    /// The values as an Arrow array of binary; None where they are too long together.
    #[getter]
    fn values_arrow(&self) -> PyResult<Option<BinaryColumn>> {
        let array = BinaryArray::gather(self.section.values()).map_err(out_of_memory)?;
        Ok(array.map(BinaryColumn::from))
    }

    /// Write some of the records, with other keys and values; return the section and its latest
    /// timestamp.
    fn rewritten<'py>(
        &self,
        py: Python<'py>,
        kept: &Bound<'py, PyAny>,
        keys: &Bound<'py, PyAny>,
        values: &Bound<'py, PyAny>,
    ) -> PyResult<(Bound<'py, PyBytes>, i64)> {
        let (old_keys, old_values) = (self.keys(py)?, self.values(py)?);
        let (mut keys, mut values) = (keys.try_iter()?, values.try_iter()?);
        let (size, appended) = (self.section.size(), Appended::default());
        let mut splicer =
            Splicer::new(&self.section, ForAll::default(), size).map_err(unwritten)?;
        let mut latest = i64::MIN;
        for record in kept.try_iter()? {
            let record: usize = record?.extract()?;
            // Fails, too, if the record does not exist.
            let (old_key, old_value) = (old_keys.get_item(record)?, old_values.get_item(record)?);
            let (key, value) = (next(&mut keys)?, next(&mut values)?);
            let key = changed(&key, &old_key, self.section.key(record))?;
            let value = changed(&value, &old_value, self.section.value(record))?;
            splicer.put(record, key, value, &appended).map_err(unwritten)?;
            latest = latest.max(self.timestamp(self.section.timestamp_delta(record)));
        }
        Ok((bytes(py, &splicer.finish().map_err(unwritten)?)?, latest))
    }

    /// Write some of the records as a producer's; return the section and its latest timestamp, which
    /// is that of the producer whatever the broker set.
    ///
    /// `replaced` are the keys and the values of all records, or None; `appended` are pairs of text
    /// and bytes or None for each record that is kept, or None. `first` and `shift` are those of
    /// `ForAll`.
    #[allow(clippy::needless_pass_by_value)] // pyo3 passes converted arguments by value
    #[allow(clippy::too_many_arguments)] // a call for each batch
    #[pyo3(signature = (kept, replaced, appended, without, retimed, first=0, shift=0))]
    fn cut<'py>(
        &self,
        py: Python<'py>,
        kept: &Bound<'py, PyAny>,
        replaced: Option<(Bound<'py, PyAny>, Bound<'py, PyAny>)>,
        appended: Option<&Bound<'py, PyAny>>,
        without: Vec<String>,
        retimed: bool,
        first: i32,
        shift: i64,
    ) -> PyResult<(Bound<'py, PyBytes>, i64)> {
        let without: Vec<&[u8]> = without.iter().map(String::as_bytes).collect();
        let for_all = ForAll { without: &without, retimed, shift, first };
        let columns = match &replaced {
            Some((keys, values)) => Some(((keys, self.keys(py)?), (values, self.values(py)?))),
            None => None,
        };
        let mut appended = appended.map(PyAnyMethods::try_iter).transpose()?;
        let mut headers = Appended::default();
        let mut splicer =
            Splicer::new(&self.section, for_all, self.section.size()).map_err(unwritten)?;
        let mut latest = i64::MIN;
        for record in kept.try_iter()? {
            let record: usize = record?.extract()?;
            if record >= self.section.len() {
                return Err(PyIndexError::new_err("no such record"));
            }
            if let Some(appended) = &mut appended {
                collect(&mut headers, &next(appended)?)?;
            }
            let mut put = |key, value| splicer.put(record, key, value, &headers).map_err(unwritten);
            if let Some(((keys, old_keys), (values, old_values))) = columns {
                let (key, value) = (keys.get_item(record)?, values.get_item(record)?);
                let (old_key, old_value) =
                    (old_keys.get_item(record)?, old_values.get_item(record)?);
                put(
                    changed(&key, &old_key, self.section.key(record))?,
                    changed(&value, &old_value, self.section.value(record))?,
                )?;
            } else {
                put(Change::Same, Change::Same)?;
            }
            latest = latest.max(self.timestamp(self.section.timestamp_delta(record)));
        }
        Ok((bytes(py, &splicer.finish().map_err(unwritten)?)?, latest))
    }
}

impl Records {
    /// Take the records of a batch; see `read_stored`.
    pub const fn new(
        section: Section,
        base_timestamp: i64,
        log_append_time: Option<i64>,
        new_header: Py<PyAny>,
    ) -> Self {
        Self {
            section,
            base_timestamp,
            log_append_time,
            new_header,
            keys: PyOnceLock::new(),
            values: PyOnceLock::new(),
            headers: PyOnceLock::new(),
            timestamps: PyOnceLock::new(),
        }
    }

    /// As readers add them, whatever the header says.
    const fn timestamp(&self, delta: i64) -> i64 {
        self.base_timestamp.wrapping_add(delta)
    }
}

/// Read the records of a producer's batch, which is copied.
///
/// `section` has the bytes after the batch's header, uncompressed; `count` and `base_timestamp` are
/// fields of that header; `new_header` is called with key and value of each record header, as a
/// tuple. Raises `InvalidRecords` where the bytes are not exactly `count` records.
#[pyfunction]
pub(crate) fn read(
    py: Python<'_>,
    section: &Bound<'_, PyAny>,
    count: usize,
    base_timestamp: i64,
    new_header: Py<PyAny>,
) -> PyResult<Records> {
    let section = checked(py, section, count, Origin::Producer)?;
    Ok(Records::new(section, base_timestamp, None, new_header))
}

/// Read the records of a batch as a broker stores it; see `read`.
///
/// `last_offset_delta` is a field of the header; `log_append_time` is the timestamp of all records,
/// where the broker set it.
#[pyfunction]
pub(crate) fn read_stored(
    py: Python<'_>,
    section: &Bound<'_, PyAny>,
    count: usize,
    base_timestamp: i64,
    new_header: Py<PyAny>,
    last_offset_delta: i32,
    log_append_time: Option<i64>,
) -> PyResult<Records> {
    let section = checked(py, section, count, Origin::Log { last_offset_delta })?;
    Ok(Records::new(section, base_timestamp, log_append_time, new_header))
}

fn checked(
    py: Python<'_>,
    section: &Bound<'_, PyAny>,
    count: usize,
    origin: Origin,
) -> PyResult<Section> {
    let bytes = copied(py, section)?;
    let section = if bytes.len() < RELEASED_FROM_BYTES {
        Section::read(bytes, count, origin)
    } else {
        py.detach(|| Section::read(bytes, count, origin))
    };
    section.map_err(unread)
}

/// Copy the bytes of a buffer.
pub fn copied(py: Python<'_>, section: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    let buffer = PyBuffer::<u8>::get(section)?;
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(buffer.len_bytes()).map_err(out_of_memory)?;
    bytes.resize(buffer.len_bytes(), 0);
    buffer.copy_to_slice(py, &mut bytes)?;
    Ok(bytes)
}

fn column<'a, 'py>(
    py: Python<'py>,
    once: &'a PyOnceLock<Py<PyTuple>>,
    make: impl FnOnce() -> PyResult<Bound<'py, PyTuple>>,
) -> PyResult<&'a Bound<'py, PyTuple>> {
    if let Some(made) = once.get(py) {
        return Ok(made.bind(py));
    }
    // Made outside the lock: a finalizer that runs meanwhile may ask for the same column.
    let made = make()?.unbind();
    Ok(once.get_or_init(py, || made).bind(py))
}

fn fields<'a, 'py>(
    py: Python<'py>,
    fields: impl ExactSizeIterator<Item = Option<&'a [u8]>>,
) -> PyResult<Bound<'py, PyTuple>> {
    PyTuple::new(py, fields.map(Field))
}

/// Bytes or None. pyo3's own conversion panics if it gets no memory.
struct Field<'a>(Option<&'a [u8]>);

impl<'py> IntoPyObject<'py> for Field<'_> {
    type Target = PyAny;
    type Output = Bound<'py, PyAny>;
    type Error = PyErr;

    #[inline]
    fn into_pyobject(self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        match self.0 {
            Some(field) => Ok(bytes(py, field)?.into_any()),
            None => Ok(py.None().into_bound(py)),
        }
    }
}

/// Copy bytes for Python. pyo3's own conversion panics if it gets no memory.
#[inline]
pub fn bytes<'py>(py: Python<'py>, field: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
    PyBytes::new_with(py, field.len(), |room| {
        room.copy_from_slice(field);
        Ok(())
    })
}

/// Collect objects in a tuple. Each may fail to be made.
fn tuple<'py, T: PyTypeInfo>(
    py: Python<'py>,
    each: impl ExactSizeIterator<Item = PyResult<Bound<'py, T>>>,
) -> PyResult<Bound<'py, PyTuple>> {
    let mut all = Vec::new();
    all.try_reserve_exact(each.len()).map_err(out_of_memory)?;
    for one in each {
        all.push(one?);
    }
    PyTuple::new(py, all)
}

fn out_of_memory(_: TryReserveError) -> PyErr {
    PyMemoryError::new_err(())
}

/// Return the exception for a section that cannot be read.
pub fn unread(why: Unread) -> PyErr {
    match why {
        Unread::Wrong(fault) => InvalidRecords::new_err(fault.to_string()),
        Unread::OutOfMemory => PyMemoryError::new_err(()),
    }
}

fn unwritten(why: Unwritten) -> PyErr {
    match why {
        Unwritten::TooLarge => PyValueError::new_err("a record that does not fit a batch"),
        Unwritten::OutOfMemory => PyMemoryError::new_err(()),
    }
}

fn pairs<'py>(
    new_header: &Bound<'py, PyAny>,
    headers: Headers<'_>,
) -> PyResult<Bound<'py, PyTuple>> {
    let py = new_header.py();
    tuple(
        py,
        headers.map(|(key, value)| {
            // Only a broker stores keys that are not UTF-8, which Java's consumer, too, reads so.
            let text = PyString::from_bytes(py, String::from_utf8_lossy(key).as_bytes())?;
            let pair = (text, Field(value));
            new_header.call1((pair,))
        }),
    )
}

fn next<'py>(fields: &mut Bound<'py, PyIterator>) -> PyResult<Bound<'py, PyAny>> {
    fields.next().unwrap_or_else(|| Err(PyValueError::new_err("a column is too short")))
}

/// Encode a record's headers, instead of those of the previous record.
fn collect(headers: &mut Appended, pairs: &Bound<'_, PyAny>) -> PyResult<()> {
    headers.clear();
    for pair in pairs.try_iter()? {
        let pair = pair?;
        let pair = pair.cast::<PyTuple>()?;
        let (key, value) = (pair.get_item(0)?, pair.get_item(1)?);
        let key = key.cast::<PyString>()?.to_cow()?;
        let value = if value.is_none() { None } else { Some(value.cast::<PyBytes>()?.as_bytes()) };
        headers.push(key.as_bytes(), value).map_err(unwritten)?;
    }
    Ok(())
}

/// Compare a field with its old value; most are the same object.
fn changed<'a>(
    now: &'a Bound<'_, PyAny>,
    before: &Bound<'_, PyAny>,
    bytes_before: Option<&[u8]>,
) -> PyResult<Change<'a>> {
    if now.is(before) {
        return Ok(Change::Same);
    }
    let bytes = if now.is_none() { None } else { Some(now.cast::<PyBytes>()?.as_bytes()) };
    Ok(if bytes == bytes_before { Change::Same } else { Change::New(bytes) })
}
