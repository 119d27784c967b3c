//! The lane: threads that forward bytes between a client and its broker without Python.
//!
//! Python accepts a client, connects to its broker, and begins the connection: handshake, login,
//! versions.
//! From then on a connection has one of two owners. While everything on it is forwarded unchanged,
//! it is the lane's: `relay` reads the heads of requests and responses, and `threads` moves the
//! bytes. As soon as anything else happens (a request that is held, the end of a side, an invalid
//! frame), the lane gives the connection back, with the exact state between the bytes, and Python
//! continues as if it had received them itself. So the lane only decides which bytes pass.
//!
//! Batches of which all policies are Penstock's own and bounded are accepted here (`batch`, `judge`).
//! Nothing is refused here: Python does that.
//!
//! All bytes come from strangers: nothing here may panic, and no module but `epoll` may contain
//! `unsafe`.
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

use std::sync::{Mutex, MutexGuard, PoisonError};

pub mod batch;
pub mod compression;
pub mod counts;
pub mod exchange;
pub mod judge;
mod lz4;
pub mod panics;
pub mod produce;
pub mod relay;
pub mod slices;
mod steps;
mod stopwatch;
pub mod table;

#[cfg(target_os = "linux")]
pub mod connection;
#[cfg(target_os = "linux")]
pub mod epoll;
#[cfg(target_os = "linux")]
pub mod judging;
#[cfg(target_os = "linux")]
mod sliced;
#[cfg(target_os = "linux")]
mod stream;
#[cfg(target_os = "linux")]
pub mod threads;
#[cfg(target_os = "linux")]
pub mod tls;
#[cfg(target_os = "linux")]
pub mod tls_client;
#[cfg(target_os = "linux")]
mod tls_record;
#[cfg(target_os = "linux")]
pub mod tls_settings;
#[cfg(target_os = "linux")]
pub mod waiting;
#[cfg(target_os = "linux")]
pub mod worked;
mod zstd;

/// Lock a mutex, also after a thread has panicked with it.
pub fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
