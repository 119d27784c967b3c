//! JSON Schemas for Python: compiled once, for whole columns or for single texts.

use std::sync::Arc;

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString, PyTuple};

use crate::json::check::Verdict;
use crate::json::compile::{Fault, compile};
use crate::json::document::Json;
use crate::json::flaw::Flaw;
use crate::json::node::{Document, Schema};
use crate::json::text::Values;

/// A reason: the keyword, its JSON in the schema, and the value's JSON pointer.
type Reason = (&'static str, Option<String>, String);
/// A document: its URI, its draft, and its text.
type Given = (String, u16, Vec<u8>);

/// How many steps each text has for itself, and for each of its bytes.
const OWN_STEPS: (u64, u64) = (10_000, 16);

/// A compiled JSON Schema.
#[pyclass(frozen, module = "penstock._native")]
pub struct JsonSchema {
    schema: Arc<Schema>,
}

#[pymethods]
impl JsonSchema {
    /// Return the positions of the texts that do not fit, each with its reason.
    ///
    /// `texts` are bytes, or anything with a buffer; None is passed over. The first `start` bytes
    /// of each are not read. All share `steps`, in addition to the steps of each text.
    fn refused(
        &self,
        texts: &Bound<'_, PyAny>,
        start: usize,
        steps: u64,
    ) -> PyResult<Vec<(usize, Reason)>> {
        let mut refused = Vec::new();
        let mut shared = steps;
        let mut values = Values::default();
        each(texts, |position, bytes| {
            let text = bytes.get(start..).unwrap_or_default();
            let own = OWN_STEPS.0 + OWN_STEPS.1 * text.len() as u64;
            let mut left = own + shared;
            let verdict = self.schema.judge(text, &mut values, &mut left);
            shared = shared.min(left);
            if let Some(reason) = self.reason(verdict) {
                refused.push((position, reason));
            }
            true
        })?;
        Ok(refused)
    }

    /// Return whether all texts fit, within `steps` for all of them together.
    fn all_fit(&self, texts: &Bound<'_, PyAny>, start: usize, steps: u64) -> PyResult<bool> {
        let mut left = steps;
        let mut fit = true;
        let mut values = Values::default();
        each(texts, |_, bytes| {
            let text = bytes.get(start..).unwrap_or_default();
            fit = self.schema.fits(text, &mut values, &mut left);
            fit
        })?;
        Ok(fit)
    }

    /// Whether there is a pattern that may take long: by steps back, or for each byte.
    #[getter]
    fn has_slow_patterns(&self) -> bool {
        self.schema.has_slow_patterns
    }
}

impl JsonSchema {
    /// Return the schema, if to judge by it takes bounded time and never needs Python.
    pub fn bounded(&self) -> Option<Arc<Schema>> {
        let is_bounded = self.schema.format_checks.is_empty() && !self.schema.has_slow_patterns;
        is_bounded.then(|| Arc::clone(&self.schema))
    }

    fn reason(&self, verdict: Verdict) -> Option<Reason> {
        match verdict {
            Verdict::Fits => None,
            Verdict::Refused(failure, pointer) => {
                let written = self.schema.written(failure.place).to_owned();
                Some((failure.keyword, Some(written), pointer))
            }
            Verdict::NotJson(flaw) => Some((name_of(flaw), None, String::new())),
            Verdict::TooMuch => Some(("tooMuch", None, String::new())),
        }
    }
}

fn name_of(flaw: Flaw) -> &'static str {
    match flaw {
        Flaw::Syntax => "notJson",
        Flaw::Utf8 => "notUtf8",
        Flaw::Levels => "tooDeep",
        Flaw::Range => "tooLarge",
        Flaw::Length => "tooLong",
    }
}

/// Call a function with each text and its position, as long as it says true.
fn each(texts: &Bound<'_, PyAny>, mut judge: impl FnMut(usize, &[u8]) -> bool) -> PyResult<()> {
    if let Ok(texts) = texts.cast::<PyTuple>() {
        return each_of(texts.iter_borrowed().map(|text| Ok(text.to_owned())), judge);
    }
    if let Ok(texts) = texts.cast::<PyList>() {
        return each_of(texts.iter().map(Ok), judge);
    }
    each_of(texts.try_iter()?, &mut judge)
}

fn each_of<'py>(
    texts: impl Iterator<Item = PyResult<Bound<'py, PyAny>>>,
    mut judge: impl FnMut(usize, &[u8]) -> bool,
) -> PyResult<()> {
    for (position, text) in texts.enumerate() {
        let text = text?;
        let goes_on = if let Ok(bytes) = text.cast::<PyBytes>() {
            judge(position, bytes.as_bytes())
        } else if text.is_none() {
            true
        } else {
            let buffer = PyBuffer::<u8>::get(&text)
                .map_err(|_| PyTypeError::new_err("a text is bytes, a buffer or None"))?;
            judge(position, &buffer.to_vec(text.py())?)
        };
        if !goes_on {
            break;
        }
    }
    Ok(())
}

/// Compile the documents of a schema, of which the first is the schema itself.
///
/// `formats` is called with a draft and the name of each format, and returns a function that
/// judges a string; None judges no formats.
///
/// Returns the schema, or a list of the URIs of documents that are missing. Raises `ValueError`
/// where it cannot be used.
#[pyfunction]
pub fn json_schema<'py>(
    py: Python<'py>,
    documents: Vec<Given>,
    formats: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let read = documents.into_iter().map(document).collect::<PyResult<Vec<_>>>()?;
    if read.is_empty() {
        return Err(PyValueError::new_err("there is no document"));
    }
    match compile(read, formats.is_some()) {
        Err(Fault::Missing(uris)) => Ok(PyList::new(py, uris)?.into_any()),
        Err(Fault::Unusable(why)) => Err(PyValueError::new_err(why)),
        Ok(mut schema) => {
            for (draft, name) in &schema.formats {
                let Some(formats) = formats else { break };
                let is_valid = formats.call1((*draft, name))?.unbind();
                schema.format_checks.push(Box::new(move |text| is_of(&is_valid, text)));
            }
            Ok(Bound::new(py, JsonSchema { schema: Arc::new(schema) })?.into_any())
        }
    }
}

fn is_of(is_valid: &Py<PyAny>, text: &str) -> bool {
    Python::attach(|py| {
        let text = PyString::new(py, text);
        is_valid.call1(py, (text,)).and_then(|answer| answer.is_truthy(py)).unwrap_or(false)
    })
}

fn document((uri, draft, text): Given) -> PyResult<Document> {
    let json = Json::read(&text).map_err(|flaw| {
        let why = match flaw {
            Flaw::Levels => "has more than 255 levels",
            Flaw::Range => "has a number that is too large for a double",
            _ => "is not JSON",
        };
        PyValueError::new_err(why)
    })?;
    Ok(Document { uri, draft, text, json })
}
