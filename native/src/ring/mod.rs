//! Rings: memory that the threads of the lane share with a policy worker, which is another process.
//!
//! A thread writes a batch into the ring of a worker (`sender`), the worker judges it and writes an
//! outcome (`reader`), and the thread forwards its own copy of the batch. So the worker gets bytes
//! and returns numbers; there is no call of Python on the way in this process.
//!
//! The worker runs classes of users, which may write anything into this memory. So a sender believes
//! nothing in it: it keeps its own account of each batch, reads outcomes only, and compares them
//! with its account. A worker that writes nonsense is killed by Python.
//!
//! No module but `memory` may contain `unsafe`.
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing,
        clippy::arithmetic_side_effects
    )
)]

pub mod context;
pub mod layout;
pub mod memory;
pub mod observed;
pub mod pool;
pub mod reader;
pub mod saying;
pub mod sender;
pub mod turns;
