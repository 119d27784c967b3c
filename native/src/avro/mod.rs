//! Payloads in Avro's binary encoding, judged by a schema: whether one fits, and if not, what is
//! wrong first, and where. One pass over the bytes, no value is made.
//!
//! Exactly what `penstock.policies.schema_policy.payloads.avro.walk` says, in Python. Of the schema
//! this knows the nodes that `table.py` makes of it, which bound the work by the payload's bytes.

pub mod nodes;
mod numbers;
pub mod place;
pub mod walk;
