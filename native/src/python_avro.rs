//! `avro` for Python.

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};

use crate::avro::nodes::{Field, Limits, Node, Nodes};

/// A node as `table.py` has it: kind, number, inner nodes, names.
type Described = (u8, u64, Vec<u32>, Vec<String>);

/// A schema that payloads are judged by.
#[pyclass(frozen, module = "penstock._native")]
pub struct AvroNodes(Nodes);

#[pymethods]
impl AvroNodes {
    /// Take the nodes of a schema, its own first; how many levels a payload may have, how many items
    /// without bytes, and how many characters of a place are shown.
    #[new]
    #[allow(clippy::needless_pass_by_value)] // pyo3 passes converted arguments by value
    fn new(nodes: Vec<Described>, levels: usize, empty_items: u64, path: usize) -> PyResult<Self> {
        let nodes: Option<Vec<Node>> = nodes.into_iter().map(node).collect();
        let limits = Limits { levels, empty_items, path };
        nodes
            .and_then(|nodes| Nodes::new(nodes, limits).ok())
            .map(Self)
            .ok_or_else(|| PyValueError::new_err("these are no nodes of a schema"))
    }

    /// Return the position of each payload that does not fit, with its fault and the fault's place.
    ///
    /// `payloads` are bytes or have a buffer; in each of them the payload begins at `start`.
    fn objections(
        &self,
        payloads: &Bound<'_, PyAny>,
        start: usize,
    ) -> PyResult<Vec<(usize, String)>> {
        let mut refused = Vec::new();
        let mut judge = |position: usize, payload: &Bound<'_, PyAny>| {
            if let Some(objection) = self.objection(payload, start)? {
                refused.push((position, objection));
            }
            PyResult::Ok(())
        };
        if let Ok(payloads) = payloads.cast::<PyTuple>() {
            for (position, payload) in payloads.iter_borrowed().enumerate() {
                judge(position, &payload)?;
            }
        } else {
            for (position, payload) in payloads.try_iter()?.enumerate() {
                judge(position, &payload?)?;
            }
        }
        Ok(refused)
    }
}

impl AvroNodes {
    fn objection(&self, payload: &Bound<'_, PyAny>, start: usize) -> PyResult<Option<String>> {
        if let Ok(payload) = payload.cast::<PyBytes>() {
            return Ok(self.0.objection(behind(payload.as_bytes(), start)));
        }
        let bytes = PyBuffer::<u8>::get(payload)?.to_vec(payload.py())?;
        Ok(self.0.objection(behind(&bytes, start)))
    }
}

fn behind(payload: &[u8], start: usize) -> &[u8] {
    payload.get(start..).unwrap_or_default()
}

/// Return a node; None if its description is not valid.
fn node((kind, number, inner, names): Described) -> Option<Node> {
    let number_of = usize::try_from(number).ok()?;
    let only = || if let [only] = inner[..] { Some(only) } else { None };
    let node = match kind {
        0 => Node::Step(number_of),
        1 => Node::Boolean,
        2 => Node::Int,
        3 => Node::Long,
        4 => Node::Bytes,
        5 => Node::String,
        6 => Node::Enum(number_of),
        7 => Node::Union(inner.into()),
        8 => Node::Array { item: only()?, empty: number },
        9 => Node::Map(only()?),
        10 if inner.len() == names.len() => {
            let fields = names.into_iter().zip(inner);
            Node::Record(fields.map(|(name, node)| Field { name: name.into(), node }).collect())
        }
        11 => {
            let [end, next] = inner[..] else { return None };
            let name = names.into_iter().next()?.into();
            Node::Chain { records: number_of, end, first: Field { name, node: next } }
        }
        _ => return None,
    };
    Some(node)
}
