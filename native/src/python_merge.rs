//! Merges small batches of a fetch response for Python.

use pyo3::exceptions::PyMemoryError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::merge::{Limits, Merged, OutOfMemory, Wanted, merge};
use crate::python::{Records, bytes, copied, unread};
use crate::section::{Origin, Section};

/// Base offset, last offset, base timestamp and largest timestamp; leader epoch; codec; and how many
/// bytes all batches take, and the largest.
type Fields = ((i64, i64, i64, i64), i32, u16, (usize, usize));

/// The batches of a fetch response, which are copied.
#[pyclass(frozen, module = "penstock._native")]
pub struct StoredBatches {
    response: Vec<u8>,
}

#[pymethods]
impl StoredBatches {
    #[new]
    fn new(py: Python<'_>, response: &Bound<'_, PyAny>) -> PyResult<Self> {
        Ok(Self { response: copied(py, response)? })
    }

    /// Merge the small batches that follow each other from a position on.
    ///
    /// `limits` are those of `Limits`; `first`, `end` and `with_transactions` those of `Wanted`;
    /// `new_header` that of `read`. Returns the fields, the section of the records, and the records; or
    /// None where fewer than two batches can be merged.
    #[allow(clippy::too_many_arguments)] // a call for each batch
    fn merge<'py>(
        &self,
        py: Python<'py>,
        position: usize,
        first: i64,
        end: i64,
        limits: (usize, usize, usize, usize),
        with_transactions: bool,
        new_header: Py<PyAny>,
    ) -> PyResult<Option<(Fields, Bound<'py, PyBytes>, Records)>> {
        let (small_bytes, small_records, enough_bytes, enough_records) = limits;
        let limits = Limits { small_bytes, small_records, enough_bytes, enough_records };
        let wanted = Wanted { first, end, with_transactions };
        let batches = self.response.get(position..).unwrap_or_default();
        let found = merge(batches, wanted, limits).map_err(|OutOfMemory| no_memory())?;
        let Some((merged, section)) = found else { return Ok(None) };
        let Merged { base_offset, last_offset, base_timestamp, max_timestamp, .. } = merged;
        let written = bytes(py, &section)?;
        let last_offset_delta =
            i32::try_from(last_offset - base_offset).map_err(|_| no_memory())?;
        let read = Section::read(section, merged.records, Origin::Log { last_offset_delta });
        let records = Records::new(read.map_err(unread)?, base_timestamp, None, new_header);
        let offsets_and_times = (base_offset, last_offset, base_timestamp, max_timestamp);
        let fields =
            (offsets_and_times, merged.leader_epoch, merged.codec, (merged.size, merged.largest));
        Ok(Some((fields, written, records)))
    }
}

fn no_memory() -> PyErr {
    PyMemoryError::new_err(())
}
