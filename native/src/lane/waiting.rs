//! The rings whose outcomes a thread waits for.
#![forbid(unsafe_code)]

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use super::epoll::{Epoll, Interest, Waker};
use super::locked;
use crate::ring::sender::{Judged, Ring};

/// The tokens of rings begin here.
pub const RINGS: u64 = 1 << 63;

/// The rings of a thread, by their tokens.
#[derive(Debug)]
pub struct Rings {
    /// The place of the thread among the threads.
    thread: u16,
    epoll: Arc<Epoll>,
    waker: Arc<Waker>,
    by_token: Mutex<HashMap<u64, Arc<Ring>>>,
    /// The last token.
    last: AtomicU64,
}

impl Rings {
    /// No rings yet: those of a thread, which waits with `epoll`, and is woken with `waker`.
    pub fn new(thread: u16, epoll: Arc<Epoll>, waker: Arc<Waker>) -> Self {
        Self { thread, epoll, waker, by_token: Mutex::default(), last: AtomicU64::new(RINGS) }
    }

    /// Return the place of the thread.
    pub const fn thread(&self) -> u16 {
        self.thread
    }

    /// Wait for the outcomes of a ring from now on, and no longer for those of workers that have
    /// ended; return false if that is not possible. Only the thread itself calls this.
    pub fn wait_for(&self, ring: &Arc<Ring>) -> bool {
        if ring.is_waited_for(self.thread) {
            return true;
        }
        let Some(done) = ring.done_of(self.thread) else { return false };
        let mut rings = locked(&self.by_token);
        rings.retain(|_, ring| {
            let is_over = ring.is_over(self.thread);
            if let Some(done) = ring.done_of(self.thread).filter(|_| is_over) {
                self.epoll.remove(done);
            }
            !is_over
        });
        let token = self.last.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        // It fails without memory, or with as many descriptors as a user may wait for.
        if self.epoll.add(done, token, Interest::READ).is_err() {
            return false;
        }
        ring.begin_waiting(self.thread, &self.waker);
        rings.insert(token, Arc::clone(ring));
        true
    }

    /// Return the tokens of all rings.
    pub fn tokens(&self) -> Vec<u64> {
        locked(&self.by_token).keys().copied().collect()
    }

    /// Return the ring with a token, and the outcomes that it has for the thread.
    pub fn take(&self, token: u64) -> Option<(Arc<Ring>, Vec<Judged>)> {
        let ring = locked(&self.by_token).get(&token).map(Arc::clone)?;
        if let Some(done) = ring.done_of(self.thread) {
            done.reset();
        }
        let judged = ring.take(self.thread);
        Some((ring, judged))
    }
}
