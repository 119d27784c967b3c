//! The records of a Kafka record batch (magic 2): read, handed over as columns, and written
//! again without some of them or with other keys and values. Payloads judged by their schemas: `avro`.
//! And connections that are forwarded without Python: `lane`.
//!
//! All bytes come from strangers. `section` checks all of them once, and accepts exactly the same
//! bytes as `penstock.kafka.records.decoder` in Python. No module but `arrow`, `lane::epoll`
//! and `ring::memory` may contain `unsafe`.

pub mod avro;
pub mod cursor;
pub mod fault;
pub mod header;
pub mod json;
pub mod lane;
pub mod merge;
#[cfg(target_os = "linux")]
pub mod ring;
pub mod section;
pub mod splice;

#[cfg(feature = "python")]
use pyo3::prelude::*;

#[cfg(feature = "python")]
mod arrow;
#[cfg(feature = "python")]
mod python;
#[cfg(feature = "python")]
mod python_avro;
#[cfg(all(feature = "python", target_os = "linux"))]
mod python_counts;
#[cfg(feature = "python")]
mod python_json;
#[cfg(all(feature = "python", target_os = "linux"))]
mod python_lane;
#[cfg(feature = "python")]
mod python_merge;
#[cfg(all(feature = "python", target_os = "linux"))]
mod python_ring;
#[cfg(all(feature = "python", target_os = "linux"))]
mod python_tls;

// The module `penstock._native` of Python. A doc comment would be its `__doc__`.
#[cfg(feature = "python")]
#[pymodule(name = "_native")]
fn native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    // Python writes versions of development in another way than Cargo.
    module.add("__version__", env!("CARGO_PKG_VERSION").replace("-dev.", ".dev"))?;
    module.add("InvalidRecords", module.py().get_type::<python::InvalidRecords>())?;
    module.add_class::<python::Records>()?;
    module.add_class::<arrow::BinaryColumn>()?;
    module.add_class::<python_avro::AvroNodes>()?;
    module.add_class::<python_merge::StoredBatches>()?;
    module.add_function(wrap_pyfunction!(python::read, module)?)?;
    module.add_function(wrap_pyfunction!(python::read_stored, module)?)?;
    module.add_class::<python_json::JsonSchema>()?;
    module.add_function(wrap_pyfunction!(python_json::json_schema, module)?)?;
    #[cfg(target_os = "linux")]
    module.add_class::<python_lane::Lane>()?;
    #[cfg(target_os = "linux")]
    module.add_class::<python_lane::Table>()?;
    #[cfg(target_os = "linux")]
    module.add_class::<python_lane::Judge>()?;
    #[cfg(target_os = "linux")]
    module.add_class::<python_lane::Relay>()?;
    #[cfg(target_os = "linux")]
    module.add_class::<python_ring::Ring>()?;
    #[cfg(target_os = "linux")]
    module.add_class::<python_ring::RingPool>()?;
    #[cfg(target_os = "linux")]
    module.add_class::<python_ring::RingReader>()?;
    #[cfg(target_os = "linux")]
    module.add_class::<python_tls::TlsServer>()?;
    #[cfg(target_os = "linux")]
    module.add_class::<python_tls::TlsClient>()?;
    #[cfg(target_os = "linux")]
    module.add_class::<python_tls::TlsBroker>()?;
    #[cfg(target_os = "linux")]
    module.add_class::<python_tls::TlsHello>()?;
    #[cfg(target_os = "linux")]
    module.add_class::<python_tls::Tls>()?;
    #[cfg(target_os = "linux")]
    module.add_function(wrap_pyfunction!(python_lane::decompressed, module)?)?;
    Ok(())
}
