//! What Python imports as `penstock_native`.

use std::collections::TryReserveError;

use pyo3::PyTypeInfo;
use pyo3::buffer::PyBuffer;
use pyo3::create_exception;
use pyo3::exceptions::{PyMemoryError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyIterator, PyString, PyTuple};

use crate::arrow::{BinaryArray, BinaryColumn};
use crate::section::{Headers, Section, Unread};
use crate::splice::{Change, Splicer, Unwritten};

/// Goes up with every change of what Python sees: `penstock.records.native` has the same.
const INTERFACE: u32 = 1;

/// From here on other threads may run while the records are read; below, changing threads costs more.
const RELEASED_FROM_BYTES: usize = 64 * 1024;

create_exception!(penstock_native, InvalidRecords, PyValueError, "The bytes are not the records.");

/// The records of one batch. Columns are made when they are first asked for.
#[pyclass(frozen, module = "penstock_native")]
struct Records {
    section: Section,
    base_timestamp: i64,
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

    /// Milliseconds since the epoch, in order; -1 for none.
    #[getter]
    fn timestamps<'py>(&self, py: Python<'py>) -> PyResult<&Bound<'py, PyTuple>> {
        column(py, &self.timestamps, || {
            PyTuple::new(py, self.section.timestamp_deltas().map(|delta| self.timestamp(delta)))
        })
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
        let mut splicer = Splicer::new(&self.section, self.section.size()).map_err(unwritten)?;
        let mut latest = i64::MIN;
        for record in kept.try_iter()? {
            let record: usize = record?.extract()?;
            // Fails, too, where there is no such record.
            let (old_key, old_value) = (old_keys.get_item(record)?, old_values.get_item(record)?);
            let (key, value) = (next(&mut keys)?, next(&mut values)?);
            let key = changed(&key, &old_key, self.section.key(record))?;
            let value = changed(&value, &old_value, self.section.value(record))?;
            splicer.put(record, key, value).map_err(unwritten)?;
            latest = latest.max(self.timestamp(self.section.timestamp_delta(record)));
        }
        Ok((bytes(py, &splicer.finish().map_err(unwritten)?)?, latest))
    }
}

impl Records {
    /// As readers add them, whatever the header says.
    const fn timestamp(&self, delta: i64) -> i64 {
        self.base_timestamp.wrapping_add(delta)
    }
}

/// Read the records of a batch, which is copied.
///
/// `section` is what follows the batch's header, uncompressed; `count` and `base_timestamp` are what
/// the header has; `new_header` is called with key and value of each header, as a tuple. Raises
/// `InvalidRecords` where the bytes are not `count` records and nothing else.
#[pyfunction]
fn read(
    py: Python<'_>,
    section: &Bound<'_, PyAny>,
    count: usize,
    base_timestamp: i64,
    new_header: Py<PyAny>,
) -> PyResult<Records> {
    let bytes = copied(py, section)?;
    let section = if bytes.len() < RELEASED_FROM_BYTES {
        Section::read(bytes, count)
    } else {
        py.detach(|| Section::read(bytes, count))
    };
    Ok(Records {
        section: section.map_err(|why| match why {
            Unread::Wrong(fault) => InvalidRecords::new_err(fault.to_string()),
            Unread::OutOfMemory => PyMemoryError::new_err(()),
        })?,
        base_timestamp,
        new_header,
        keys: PyOnceLock::new(),
        values: PyOnceLock::new(),
        headers: PyOnceLock::new(),
        timestamps: PyOnceLock::new(),
    })
}

fn copied(py: Python<'_>, section: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
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

/// Bytes or None. pyo3's own conversion panics where there is no memory.
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

#[inline]
fn bytes<'py>(py: Python<'py>, field: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
    PyBytes::new_with(py, field.len(), |room| {
        room.copy_from_slice(field);
        Ok(())
    })
}

/// Collect what is made one by one, each of which may fail.
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
            let pair = (PyString::from_bytes(py, key.as_bytes())?, Field(value));
            new_header.call1((pair,))
        }),
    )
}

fn next<'py>(fields: &mut Bound<'py, PyIterator>) -> PyResult<Bound<'py, PyAny>> {
    fields.next().unwrap_or_else(|| Err(PyValueError::new_err("a column is too short")))
}

/// Compare a field with what it was; most are the same object.
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

#[pymodule]
fn penstock_native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("INTERFACE", INTERFACE)?;
    module.add("InvalidRecords", module.py().get_type::<InvalidRecords>())?;
    module.add_class::<Records>()?;
    module.add_class::<BinaryColumn>()?;
    module.add_function(wrap_pyfunction!(read, module)?)
}
