//! The records of a Kafka record batch (magic 2): read, handed over as columns, and written
//! again without some of them or with other keys and values. Payloads judged by their schemas: `avro`.
//! And connections that are forwarded without Python: `lane`.
//!
//! All bytes come from strangers. `section` checks all of them once, and accepts exactly the same
//! bytes as `penstock.kafka.records.decoder` in Python. No module but `arrow` and `lane::epoll` may
//! contain `unsafe`.

pub mod avro;
pub mod cursor;
pub mod fault;
pub mod header;
pub mod json;
pub mod lane;
pub mod merge;
pub mod section;
pub mod splice;

#[cfg(feature = "python")]
mod arrow;
#[cfg(feature = "python")]
mod python;
#[cfg(feature = "python")]
mod python_avro;
#[cfg(feature = "python")]
mod python_json;
#[cfg(all(feature = "python", target_os = "linux"))]
mod python_lane;
#[cfg(feature = "python")]
mod python_merge;
#[cfg(all(feature = "python", target_os = "linux"))]
mod python_tls;
