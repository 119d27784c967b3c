//! Where everything is in the memory of a ring: the same in both processes.
//!
//! Numbers of batches begin with 1, and no batch is left out: the slot of a batch follows from its
//! number. All integers are little-endian, which is the byte order of both platforms.
#![forbid(unsafe_code)]

/// The number of the last batch that was written. By the gateway.
pub const WRITTEN: usize = 0;
/// The worker leaves out batches up to this number. By the gateway.
pub const LEFT_OUT: usize = 64;
/// Not 0 while batches wait for a place: then threads are woken for each outcome. By the gateway.
pub const WANTED: usize = 72;
/// The number of the batch that is being judged; 0 for none. By the worker.
pub const CURRENT: usize = 128;
/// Whether the worker waits, so that it has to be woken. By the worker, and reset by the gateway.
pub const WAITS: usize = 192;
/// The number of the last mark among the gateway's messages: the worker begins no batch before it has
/// handled what was sent before that mark. By the gateway.
pub const MARK: usize = 2048;
/// How many outcomes were written for each thread. By the worker.
pub const OUTCOMES: usize = 256;

/// The most threads.
pub const THREADS_MAX: usize = 16;
/// The most batches that have no outcome.
pub const BATCHES_MAX: usize = 1024;

/// Where the slots of batches begin.
const SLOTS: usize = 4096;
/// The bytes of a slot.
pub const SLOT_BYTES: usize = 64;
/// Within a slot, behind its fields.
const LEFT_OUT_AT: usize = 56;
const REPLIES: usize = SLOTS + BATCHES_MAX * SLOT_BYTES;
/// The bytes of an outcome.
pub const REPLY_BYTES: usize = 16;
const REPLIES_OF_THREAD: usize = BATCHES_MAX * REPLY_BYTES;
/// Where the bytes of batches begin.
pub const DATA: usize = REPLIES + THREADS_MAX * REPLIES_OF_THREAD;
/// How many there are: the largest batch of usual producers fits several times.
pub const DATA_BYTES: usize = 4 * 1024 * 1024;
/// All bytes.
pub const BYTES: usize = DATA + DATA_BYTES;
/// A batch with more bytes goes through Python.
pub const LONGEST: usize = DATA_BYTES / 2;

/// Return where the slot of a batch is.
pub fn slot(number: u64) -> usize {
    SLOTS.saturating_add(index(number).saturating_mul(SLOT_BYTES))
}

/// Return where an outcome of a thread is, by how many there were before it.
pub fn reply(thread: usize, before: u64) -> usize {
    let of_thread = thread.saturating_mul(REPLIES_OF_THREAD);
    REPLIES.saturating_add(of_thread).saturating_add(index(before).saturating_mul(REPLY_BYTES))
}

/// Return where the number of outcomes of a thread is.
pub fn outcomes(thread: usize) -> usize {
    OUTCOMES.saturating_add(thread.saturating_mul(64))
}

/// Return where it is said that a single batch is to be left out: not 0. By the gateway.
pub fn left_out(number: u64) -> usize {
    slot(number).saturating_add(LEFT_OUT_AT)
}

fn index(number: u64) -> usize {
    usize::try_from(number.checked_rem(BATCHES_MAX as u64).unwrap_or(0)).unwrap_or(0)
}

/// A batch, as the worker finds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Slot {
    /// Its number, by which it is known that the slot is not an older batch's.
    pub number: u64,
    /// Where its bytes begin, within `DATA`: first those of the plan, then the context, the records.
    pub start: u32,
    /// How many bytes the plan has.
    pub plan_bytes: u32,
    /// How many bytes the records have.
    pub record_bytes: u32,
    /// The partition.
    pub partition: i32,
    /// The version of the Produce request.
    pub version: i16,
    /// The thread that waits for the outcome.
    pub thread: u16,
    /// The topic's id; zeros where it is not known.
    pub topic_id: [u8; 16],
    /// How many bytes the context has; 0 if no policy takes it.
    pub context_bytes: u32,
    /// Not 0 if nobody waits for the outcome.
    pub is_observed: u32,
}

impl Slot {
    /// Return its bytes.
    pub fn encode(&self) -> [u8; SLOT_BYTES] {
        let mut bytes = [0; SLOT_BYTES];
        let fields: [&[u8]; 10] = [
            &self.number.to_le_bytes(),
            &self.start.to_le_bytes(),
            &self.plan_bytes.to_le_bytes(),
            &self.record_bytes.to_le_bytes(),
            &self.partition.to_le_bytes(),
            &self.version.to_le_bytes(),
            &self.thread.to_le_bytes(),
            &self.topic_id,
            &self.context_bytes.to_le_bytes(),
            &self.is_observed.to_le_bytes(),
        ];
        for (place, byte) in bytes.iter_mut().zip(fields.into_iter().flatten()) {
            *place = *byte;
        }
        bytes
    }

    /// Read its bytes.
    pub fn decode(bytes: &[u8; SLOT_BYTES]) -> Option<Self> {
        let mut rest = bytes.as_slice();
        Some(Self {
            number: u64::from_le_bytes(take(&mut rest)?),
            start: u32::from_le_bytes(take(&mut rest)?),
            plan_bytes: u32::from_le_bytes(take(&mut rest)?),
            record_bytes: u32::from_le_bytes(take(&mut rest)?),
            partition: i32::from_le_bytes(take(&mut rest)?),
            version: i16::from_le_bytes(take(&mut rest)?),
            thread: u16::from_le_bytes(take(&mut rest)?),
            topic_id: take(&mut rest)?,
            context_bytes: u32::from_le_bytes(take(&mut rest)?),
            is_observed: u32::from_le_bytes(take(&mut rest)?),
        })
    }
}

/// What a worker says about a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// All its records are accepted.
    Accepted,
    /// They are not: Python has the verdict.
    Verdict,
    /// The batch was left out.
    LeftOut,
}

/// An outcome, as the gateway finds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reply {
    /// The batch's number.
    pub number: u64,
    /// How many microseconds it was judged.
    pub took_us: u32,
    /// The outcome.
    pub outcome: Outcome,
}

impl Reply {
    /// Return its bytes.
    pub fn encode(&self) -> [u8; REPLY_BYTES] {
        let outcome: u32 = match self.outcome {
            Outcome::Accepted => 1,
            Outcome::Verdict => 2,
            Outcome::LeftOut => 3,
        };
        let mut bytes = [0; REPLY_BYTES];
        let fields: [&[u8]; 3] =
            [&self.number.to_le_bytes(), &self.took_us.to_le_bytes(), &outcome.to_le_bytes()];
        for (place, byte) in bytes.iter_mut().zip(fields.into_iter().flatten()) {
            *place = *byte;
        }
        bytes
    }

    /// Read its bytes; None for nonsense.
    pub fn decode(bytes: &[u8; REPLY_BYTES]) -> Option<Self> {
        let mut rest = bytes.as_slice();
        let number = u64::from_le_bytes(take(&mut rest)?);
        let took_us = u32::from_le_bytes(take(&mut rest)?);
        let outcome = match u32::from_le_bytes(take(&mut rest)?) {
            1 => Outcome::Accepted,
            2 => Outcome::Verdict,
            3 => Outcome::LeftOut,
            _ => return None,
        };
        Some(Self { number, took_us, outcome })
    }
}

fn take<const SIZE: usize>(rest: &mut &[u8]) -> Option<[u8; SIZE]> {
    let (field, behind) = rest.split_first_chunk::<SIZE>()?;
    *rest = behind;
    Some(*field)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let slot = Slot {
            number: u64::MAX,
            start: 1,
            plan_bytes: 2,
            record_bytes: 3,
            partition: -4,
            version: 13,
            thread: 7,
            topic_id: [9; 16],
            context_bytes: 10,
            is_observed: 1,
        };
        assert_eq!(Slot::decode(&slot.encode()), Some(slot));
        for outcome in [Outcome::Accepted, Outcome::Verdict, Outcome::LeftOut] {
            let reply = Reply { number: 5, took_us: 6, outcome };
            assert_eq!(Reply::decode(&reply.encode()), Some(reply));
        }
        assert_eq!(Reply::decode(&[7; REPLY_BYTES]), None);
    }

    #[test]
    fn nothing_overlaps() {
        assert!(outcomes(THREADS_MAX - 1) + 8 <= MARK && MARK + 8 <= slot(0));
        assert_eq!(slot(BATCHES_MAX as u64), slot(0));
        assert_eq!(slot(BATCHES_MAX as u64 - 1) + SLOT_BYTES, reply(0, 0));
        assert_eq!(reply(1, 0), reply(0, BATCHES_MAX as u64 - 1) + REPLY_BYTES);
        assert_eq!(reply(THREADS_MAX - 1, BATCHES_MAX as u64 - 1) + REPLY_BYTES, DATA);
    }
}
