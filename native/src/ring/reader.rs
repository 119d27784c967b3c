//! The worker's end of a ring.
#![forbid(unsafe_code)]

use std::io;
use std::os::fd::RawFd;
use std::sync::atomic::Ordering;

use super::layout::{self, DATA, DATA_BYTES, Outcome, Reply, SLOT_BYTES, Slot};
use super::memory::Memory;
use crate::lane::epoll::{Called, Caller, wait_for_either};

/// The worker's end.
#[derive(Debug)]
pub struct Reader {
    memory: Memory,
    work: Called,
    done: Vec<Caller>,
    /// The number of the last batch that was read.
    read: u64,
    /// How many outcomes were written for each thread.
    replies: [u64; layout::THREADS_MAX],
    /// For which threads there are outcomes that they do not know of.
    unsaid: [bool; layout::THREADS_MAX],
    /// The number of the last mark up to which messages were handled.
    handled: u64,
}

impl Reader {
    /// Share the memory and the descriptors of a `Ring`.
    ///
    /// # Errors
    /// They are not those of a ring.
    pub fn open(memory: RawFd, work: RawFd, done: &[RawFd]) -> io::Result<Self> {
        Ok(Self {
            memory: Memory::open(memory, layout::BYTES)?,
            work: Called::duplicate(work)?,
            done: done.iter().map(|each| Caller::duplicate(*each)).collect::<io::Result<_>>()?,
            read: 0,
            replies: [0; layout::THREADS_MAX],
            unsaid: [false; layout::THREADS_MAX],
            handled: 0,
        })
    }

    /// Return whether there is another batch.
    pub fn has_more(&self) -> bool {
        self.number(layout::WRITTEN) > self.read
    }

    /// Note that all messages up to a mark are handled.
    pub fn note_handled(&mut self, mark: u64) {
        self.handled = self.handled.max(mark);
    }

    /// Return whether there is another batch, before which messages are to be handled.
    pub fn is_behind(&self) -> bool {
        // In this order: the mark of a batch is written before it.
        self.has_more() && self.number(layout::MARK) > self.handled
    }

    /// Return the next batch, and note that it is being judged; None if there is none, or if
    /// messages are to be handled before it.
    ///
    /// Batches that are to be left out are answered here.
    pub fn begin_next(&mut self) -> Option<Slot> {
        while self.has_more() {
            let number = self.read.saturating_add(1);
            let mut bytes = [0; SLOT_BYTES];
            if !self.memory.read(layout::slot(number), &mut bytes) {
                return None;
            }
            let slot = Slot::decode(&bytes).filter(|slot| slot.number == number && is_in(slot))?;
            let is_recalled = number <= self.number(layout::LEFT_OUT);
            if !is_recalled && self.is_behind() {
                return None;
            }
            self.read = number;
            if is_recalled {
                self.reply(slot, Outcome::LeftOut, 0);
                continue;
            }
            self.set(layout::CURRENT, number);
            // It may have been recalled before it was known that it is being judged.
            let is_left_out = number <= self.number(layout::LEFT_OUT)
                || self.number(layout::left_out(number)) != 0;
            if is_left_out {
                self.reply(slot, Outcome::LeftOut, 0);
                continue;
            }
            return Some(slot);
        }
        None
    }

    /// Return the plan of a batch.
    pub fn plan(&self, slot: &Slot) -> Option<Vec<u8>> {
        self.bytes(slot.start.into(), slot.plan_bytes)
    }

    /// Return the records of a batch.
    pub fn records(&self, slot: &Slot) -> Option<Vec<u8>> {
        self.bytes(context_at(slot).saturating_add(slot.context_bytes.into()), slot.record_bytes)
    }

    /// Return the context of a batch; empty if no policy takes it.
    pub fn context(&self, slot: &Slot) -> Option<Vec<u8>> {
        self.bytes(context_at(slot), slot.context_bytes)
    }

    fn bytes(&self, start: u64, count: u32) -> Option<Vec<u8>> {
        let mut bytes = vec![0; usize::try_from(count).ok()?];
        let at = DATA.saturating_add(usize::try_from(start).ok()?);
        self.memory.read(at, &mut bytes).then_some(bytes)
    }

    /// Write the outcome of a batch. The thread knows of it after `say`.
    ///
    /// Until then the batch is in hand: a recall in between finds that, or the outcome.
    pub fn reply(&mut self, slot: Slot, outcome: Outcome, took_us: u32) {
        let thread = usize::from(slot.thread);
        if let (Some(count), Some(unsaid)) =
            (self.replies.get_mut(thread), self.unsaid.get_mut(thread))
        {
            let reply = Reply { number: slot.number, took_us, outcome };
            if self.memory.write(layout::reply(thread, *count), &reply.encode()) {
                *count = count.saturating_add(1);
                if let Some(number) = self.memory.number(layout::outcomes(thread)) {
                    number.store(*count, Ordering::SeqCst);
                }
                let wanted = self.memory.number(layout::WANTED);
                *unsaid |= slot.is_observed == 0
                    || wanted.is_some_and(|wanted| wanted.load(Ordering::SeqCst) != 0);
            }
        }
        self.set(layout::CURRENT, 0);
    }

    /// Wake the threads for which there are outcomes.
    pub fn say(&mut self) {
        for (unsaid, done) in self.unsaid.iter_mut().zip(&self.done) {
            if std::mem::take(unsaid) {
                done.wake();
            }
        }
    }

    /// Wait until there is a batch, or another descriptor is readable; return whether that is so.
    ///
    /// # Errors
    /// The system does not do it.
    pub fn wait(&self, other: RawFd, timeout_ms: i32) -> io::Result<bool> {
        self.set(layout::WAITS, 1);
        if self.has_more() {
            self.set(layout::WAITS, 0);
            return Ok(false);
        }
        let readable = wait_for_either(&self.work, other, timeout_ms);
        self.set(layout::WAITS, 0);
        let (is_called, is_other) = readable?;
        if is_called {
            self.work.reset();
        }
        Ok(is_other)
    }

    /// Return whether another descriptor is readable.
    ///
    /// # Errors
    /// The system does not do it.
    pub fn is_readable(&self, other: RawFd) -> io::Result<bool> {
        wait_for_either(&self.work, other, 0).map(|(_, is_other)| is_other)
    }

    fn number(&self, at: usize) -> u64 {
        self.memory.number(at).map_or(0, |number| number.load(Ordering::SeqCst))
    }

    fn set(&self, at: usize, value: u64) {
        if let Some(number) = self.memory.number(at) {
            number.store(value, Ordering::SeqCst);
        }
    }
}

/// Whether the bytes of a batch are where those of batches are.
fn is_in(slot: &Slot) -> bool {
    let end = context_at(slot)
        .saturating_add(u64::from(slot.context_bytes))
        .saturating_add(u64::from(slot.record_bytes));
    end <= DATA_BYTES as u64
}

/// Where the context of a batch begins: behind its plan.
fn context_at(slot: &Slot) -> u64 {
    u64::from(slot.start).saturating_add(slot.plan_bytes.into())
}
