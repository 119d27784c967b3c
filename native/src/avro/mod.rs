//! Payloads in Avro's binary encoding, judged by a schema: whether a payload fits, and if not, the
//! first fault and its place. One pass over the bytes, no value is made.
//!
//! The verdicts are those of `penstock.policies.schema_policy.payloads.avro.walk` in Python. The
//! nodes of a schema are from `table.py`, and bound the work by the payload's bytes.

mod faults;
pub mod nodes;
mod numbers;
pub mod place;
pub mod walk;
