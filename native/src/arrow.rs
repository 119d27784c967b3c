//! Columns through Arrow's C data interface (<https://arrow.apache.org/docs/format/CDataInterface.html>)
//! and its capsules: the only place with `unsafe`, because the interface is pointers.
#![allow(unsafe_code)]

use std::collections::TryReserveError;
use std::ffi::{CStr, c_char, c_void};
use std::ptr;
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyCapsule;

const BINARY: &CStr = c"z";
const NO_NAME: &CStr = c"";
const NULLABLE: i64 = 2;

/// An array of the Arrow type `binary`.
#[derive(Debug)]
pub struct BinaryArray {
    /// A bit for each value, set where it is not null; None if no value is null.
    validity: Option<Vec<u8>>,
    offsets: Vec<i32>,
    data: Vec<u8>,
    nulls: usize,
}

impl BinaryArray {
    /// Copy fields into an array; None where they have more bytes than its offsets can count.
    ///
    /// # Errors
    /// There is no memory for them.
    pub fn gather<'a>(
        fields: impl ExactSizeIterator<Item = Option<&'a [u8]>>,
    ) -> Result<Option<Self>, TryReserveError> {
        let count = fields.len();
        let mut validity = Vec::new();
        validity.try_reserve_exact(count.div_ceil(8))?;
        validity.resize(count.div_ceil(8), 0_u8);
        let mut offsets = Vec::new();
        offsets.try_reserve_exact(count + 1)?;
        let mut data = Vec::new();
        let mut nulls = 0;
        offsets.push(0);
        for (index, field) in fields.enumerate() {
            if let Some(bytes) = field {
                data.try_reserve(bytes.len())?;
                data.extend_from_slice(bytes);
                validity[index / 8] |= 1 << (index % 8);
            } else {
                nulls += 1;
            }
            let Ok(end) = i32::try_from(data.len()) else { return Ok(None) };
            offsets.push(end);
        }
        Ok(Some(Self { validity: (nulls > 0).then_some(validity), offsets, data, nulls }))
    }

    const fn len(&self) -> usize {
        self.offsets.len() - 1
    }
}

/// A column for whoever reads Arrow's capsules: pyarrow, polars, numpy through either.
#[pyclass(frozen, module = "penstock._native")]
pub struct BinaryColumn(Arc<BinaryArray>);

impl From<BinaryArray> for BinaryColumn {
    fn from(array: BinaryArray) -> Self {
        Self(Arc::new(array))
    }
}

#[pymethods]
impl BinaryColumn {
    fn __len__(&self) -> usize {
        self.0.len()
    }

    #[allow(clippy::unused_self)] // Python calls it on an instance
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        PyCapsule::new_with_value(py, ArrowSchema::binary(), c"arrow_schema")
    }

    /// The type is fixed: a consumer that requested another type converts.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<(Bound<'py, PyCapsule>, Bound<'py, PyCapsule>)> {
        let _ = requested_schema;
        let array = ArrowArray::of(Arc::clone(&self.0));
        let array = PyCapsule::new_with_value(py, array, c"arrow_array")?;
        Ok((self.__arrow_c_schema__(py)?, array))
    }
}

#[repr(C)]
struct ArrowSchema {
    format: *const c_char,
    name: *const c_char,
    metadata: *const c_char,
    flags: i64,
    n_children: i64,
    children: *mut *mut ArrowSchema,
    dictionary: *mut ArrowSchema,
    release: Option<unsafe extern "C" fn(*mut ArrowSchema)>,
    private_data: *mut c_void,
}

// SAFETY: its pointers are to statics, or null.
unsafe impl Send for ArrowSchema {}

impl ArrowSchema {
    const fn binary() -> Self {
        Self {
            format: BINARY.as_ptr(),
            name: NO_NAME.as_ptr(),
            metadata: ptr::null(),
            flags: NULLABLE,
            n_children: 0,
            children: ptr::null_mut(),
            dictionary: ptr::null_mut(),
            release: Some(release_schema),
            private_data: ptr::null_mut(),
        }
    }
}

/// It owns nothing: it is only marked as released.
unsafe extern "C" fn release_schema(schema: *mut ArrowSchema) {
    // SAFETY: the interface calls it with the structure that it is in.
    unsafe { (*schema).release = None };
}

#[repr(C)]
struct ArrowArray {
    length: i64,
    null_count: i64,
    offset: i64,
    n_buffers: i64,
    n_children: i64,
    buffers: *mut *const c_void,
    children: *mut *mut ArrowArray,
    dictionary: *mut ArrowArray,
    release: Option<unsafe extern "C" fn(*mut ArrowArray)>,
    private_data: *mut c_void,
}

// SAFETY: the memory that it points to is owned through `private_data`, and is not changed.
unsafe impl Send for ArrowArray {}

/// The memory that an array points to: freed when the array is released, wherever it is by then.
struct Owned {
    buffers: [*const c_void; 3],
    _array: Arc<BinaryArray>,
}

impl ArrowArray {
    #[allow(clippy::cast_possible_wrap)] // memory is never as large
    fn of(array: Arc<BinaryArray>) -> Self {
        let (length, nulls) = (array.len() as i64, array.nulls as i64);
        let validity = array.validity.as_ref().map_or(ptr::null(), |bits| bits.as_ptr().cast());
        let buffers = [validity, array.offsets.as_ptr().cast(), array.data.as_ptr().cast()];
        let owned = Box::into_raw(Box::new(Owned { buffers, _array: array }));
        Self {
            length,
            null_count: nulls,
            offset: 0,
            n_buffers: 3,
            n_children: 0,
            // SAFETY: `owned` was made above; no reference to its field is made.
            buffers: unsafe { (&raw mut (*owned).buffers).cast() },
            children: ptr::null_mut(),
            dictionary: ptr::null_mut(),
            release: Some(release_array),
            private_data: owned.cast(),
        }
    }
}

unsafe extern "C" fn release_array(array: *mut ArrowArray) {
    // SAFETY: the interface calls it once, with the structure that it is in, wherever that has been
    // moved; `private_data` is from `of`.
    unsafe {
        drop(Box::from_raw((*array).private_data.cast::<Owned>()));
        (*array).release = None;
    }
}

/// A consumer takes a structure out of its capsule and marks it as released; a structure that
/// nobody took is released with the capsule.
impl Drop for ArrowArray {
    fn drop(&mut self) {
        if let Some(release) = self.release {
            // SAFETY: it has not been released.
            unsafe { release(self) };
        }
    }
}
