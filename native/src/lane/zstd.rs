//! One zstd frame, decompressed by the C library that consumers use, too.
//!
//! That library accepts frames whose copies reach further back than their window: their content then
//! depends on the buffers of a reader. So a frame is only read here if its window has all of its
//! content. Clients write such frames, but for batches that are larger than any here. A reader that has
//! room for the content accepts blocks and windows that a reader of pieces, as Java's, refuses: content
//! has to be the same for both. The format is RFC 8878.
#![forbid(unsafe_code)]

use std::cell::RefCell;

use super::steps::{BLOCK_MAX_BYTES, STEP_BYTES};
use zstd_safe::{DCtx, InBuffer, OutBuffer, find_frame_compressed_size, get_frame_content_size};

const MAGIC: [u8; 4] = 0xFD2F_B528_u32.to_le_bytes();
/// A dictionary, and the bit that has to be zero.
const NOT_READ: u8 = 0x0B;
const SINGLE_SEGMENT: u8 = 0x20;
const WINDOW_LOG_MIN: u32 = 10;
/// Readers of pieces refuse larger windows by default.
const WINDOW_MAX: usize = 1 << 27;
/// The most content of a block.
const BLOCK_MAX: usize = 128 * 1024;
/// With less than a block the library reads no frame at once.
const PIECE: usize = BLOCK_MAX / 2;
/// The most blocks: each takes time, even without content. Clients fill blocks, or divide full blocks
/// into a few.
const BLOCKS_MAX: usize = 1024;
const RUN: u32 = 1;
/// How often content is larger than a frame, as in `penstock.kafka.records.compression`.
const FIRST_GUESS: usize = 4;
/// So many bytes, at most, a reader of pieces needs beside a window.
const CONTEXT_BYTES: usize = 256 * 1024;
const GROWTH: usize = 8;
const ROOM_MIN: usize = 16 * 1024;

thread_local! {
    static CONTEXT: RefCell<Option<DCtx<'static>>> = const { RefCell::new(None) };
}

/// A frame that is decompressed in steps.
///
/// First all of it at once, with room for its content; larger content is decompressed again, in
/// pieces.
pub struct Frame {
    /// How much content there is room for, and how much there may be.
    room: usize,
    most: usize,
    /// Whether the frame says how large it is.
    is_announced: bool,
    pub(super) found: Vec<u8>,
    pieces: Option<Pieces>,
}

/// The content of a frame, as a reader of pieces finds it.
struct Pieces {
    /// Not the thread's: it would keep the memory of a window.
    context: DCtx<'static>,
    room: Vec<u8>,
    /// How many bytes of the frame were read.
    read: usize,
    /// How many bytes were found.
    found: usize,
}

impl Frame {
    /// Read its header; None if it is no frame, announces more than the limit, or is not read here.
    pub fn new(frame: &[u8], limit: usize) -> Option<Self> {
        let window = window_bytes(frame)?;
        if find_frame_compressed_size(frame).ok()? != frame.len() {
            return None;
        }
        if has_many_blocks(frame) {
            return None;
        }
        let most = limit.min(window).min(BLOCK_MAX_BYTES);
        let announced = match get_frame_content_size(frame).ok()? {
            None => None,
            Some(size) => Some(usize::try_from(size).ok().filter(|size| *size <= most)?),
        };
        let guess = frame.len().saturating_mul(FIRST_GUESS).max(ROOM_MIN).min(most);
        let (room, is_announced) = (announced.unwrap_or(guess), announced.is_some());
        Some(Self { room, most, is_announced, found: Vec::new(), pieces: None })
    }

    /// Take the next step; return whether that was the last, None where the frame is damaged, or
    /// larger than the limit.
    pub fn go_on(&mut self, frame: &[u8]) -> Option<bool> {
        if let Some(pieces) = &mut self.pieces {
            return pieces.compare(frame, &self.found);
        }
        match decompressed_into(frame, self.room) {
            Some(found) => self.found = found,
            None if self.is_announced || self.room == self.most => return None,
            None => {
                self.room = self.room.saturating_mul(GROWTH).min(self.most);
                return Some(false);
            }
        }
        if self.found.len() <= BLOCK_MAX {
            return Some(true);
        }
        let context = DCtx::try_create()?;
        self.pieces = Some(Pieces { context, room: vec![0; PIECE], read: 0, found: 0 });
        Some(false)
    }

    /// Return how many bytes of memory are held.
    pub fn held_bytes(&self) -> usize {
        let pieces = self.pieces.as_ref().map_or(0, Pieces::held_bytes);
        self.found.capacity().saturating_add(pieces)
    }
}

impl Pieces {
    /// Return how many bytes of memory are held. The library reserves all of a window, and uses it as
    /// far as there is content.
    fn held_bytes(&self) -> usize {
        let used = self.found.saturating_add(CONTEXT_BYTES).min(self.context.sizeof());
        used.saturating_add(self.room.capacity())
    }

    /// Decompress the next pieces, about `STEP_BYTES`; return whether they were the last, None where
    /// they are not the next of this content.
    fn compare(&mut self, frame: &[u8], content: &[u8]) -> Option<bool> {
        let enough = self.found.saturating_add(STEP_BYTES);
        while self.found < enough {
            let mut input = InBuffer { src: frame, pos: self.read };
            let mut output = OutBuffer::around(self.room.as_mut_slice());
            let hint = self.context.decompress_stream(&mut output, &mut input).ok()?;
            let size = output.pos();
            self.read = input.pos();
            let end = self.found.checked_add(size)?;
            if content.get(self.found..end)? != self.room.get(..size)? {
                return None;
            }
            self.found = end;
            if hint == 0 || size == 0 {
                let is_same = end == content.len() && self.read == frame.len();
                return (hint == 0 && is_same).then_some(true);
            }
        }
        Some(false)
    }
}

fn decompressed_into(frame: &[u8], room: usize) -> Option<Vec<u8>> {
    let mut found = vec![0; room];
    let size = CONTEXT.with_borrow_mut(|kept| {
        if kept.is_none() {
            *kept = DCtx::try_create();
        }
        kept.as_mut()?.decompress(found.as_mut_slice(), frame).ok()
    })?;
    found.truncate(size);
    found.shrink_to_fit();
    Some(found)
}

/// Return the size of a frame's window; None for a frame that is not read here.
fn window_bytes(frame: &[u8]) -> Option<usize> {
    let (descriptor, rest) = frame.strip_prefix(&MAGIC)?.split_first()?;
    if descriptor & NOT_READ != 0 {
        return None;
    }
    if descriptor & SINGLE_SEGMENT != 0 {
        return Some(WINDOW_MAX); // all of its content
    }
    let window = rest.first()?;
    let log = u32::from(window >> 3).checked_add(WINDOW_LOG_MIN)?;
    let base = 1_usize.checked_shl(log)?;
    let size = base.checked_add((base >> 3).checked_mul(usize::from(window & 7))?)?;
    (size <= WINDOW_MAX).then_some(size)
}

/// Return whether a frame, which is whole, has too many blocks.
fn has_many_blocks(frame: &[u8]) -> bool {
    let Some((descriptor, mut rest)) = frame.get(MAGIC.len()..).and_then(<[u8]>::split_first)
    else {
        return false;
    };
    let window = usize::from(descriptor & SINGLE_SEGMENT == 0);
    let content_size = [1_usize.saturating_sub(window), 2, 4, 8];
    let size = content_size.get(usize::from(descriptor >> 6)).copied().unwrap_or(0);
    rest = rest.get(window.saturating_add(size)..).unwrap_or_default();
    for _ in 0..BLOCKS_MAX {
        let Some(([b0, b1, b2], behind)) = rest.split_first_chunk() else { return false };
        let header = u32::from_le_bytes([*b0, *b1, *b2, 0]);
        let size = if header >> 1 & 3 == RUN { 1 } else { header >> 3 };
        rest = behind.get(usize::try_from(size).unwrap_or(usize::MAX)..).unwrap_or_default();
        if header & 1 == 1 {
            return false;
        }
    }
    true
}
