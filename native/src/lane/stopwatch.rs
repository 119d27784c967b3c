//! How long a batch is judged, by the clocks that `penstock.engine.inline` has.
#![forbid(unsafe_code)]

use std::time::Instant;

#[cfg(target_os = "linux")]
use super::epoll::thread_time;

/// A batch of no more bytes cannot take `SLOW_S`. Reading the time of day for it is cheaper.
const SMALL_BYTES: usize = 1024;
const SLOW_S: f64 = 0.005;

/// A time that is being taken.
#[derive(Debug)]
pub enum Stopwatch {
    /// The time of day, for a small batch.
    OfDay(Instant),
    /// The CPU time of the thread, in seconds: it does not count the work of other threads.
    OfThread(f64),
}

impl Stopwatch {
    /// Begin, for a batch of so many bytes. They may stand for many more where it is compressed.
    pub fn start(size: usize, is_compressed: bool) -> Self {
        #[cfg(target_os = "linux")]
        if size > SMALL_BYTES || is_compressed {
            return thread_time().map_or_else(|| Self::OfDay(Instant::now()), Self::OfThread);
        }
        let _ = (size, is_compressed);
        Self::OfDay(Instant::now())
    }

    /// Begin, for a batch of any size.
    pub fn of_thread() -> Self {
        Self::start(usize::MAX, true)
    }

    /// Return the seconds since then.
    pub fn seconds(&self) -> f64 {
        match self {
            Self::OfDay(began) => began.elapsed().as_secs_f64(),
            #[cfg(target_os = "linux")]
            Self::OfThread(began) => thread_time().map_or(0.0, |now| now - began),
            #[cfg(not(target_os = "linux"))]
            Self::OfThread(_) => 0.0,
        }
    }

    /// Return whether that is too long for a thread that has other connections.
    pub fn is_slow(&self, seconds: f64) -> bool {
        matches!(self, Self::OfThread(_)) && seconds > SLOW_S
    }
}
