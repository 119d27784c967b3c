//! One zstd frame, decompressed by the C library that consumers use, too.
//!
//! That library accepts frames whose copies reach further back than their window: their content then
//! depends on the buffers of a reader. So a frame is only read here if its window has all of its
//! content. Clients write such frames, but for batches that are larger than any here. A reader that has
//! room for the content accepts blocks and windows that a reader of pieces, as Java's, refuses: content
//! has to be the same for both. The format is RFC 8878.
#![forbid(unsafe_code)]

use std::cell::RefCell;

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
/// How often content is larger than a frame, as in `penstock.kafka.records.compression`.
const FIRST_GUESS: usize = 4;
const GROWTH: usize = 8;
const ROOM_MIN: usize = 16 * 1024;

thread_local! {
    static CONTEXT: RefCell<Option<DCtx<'static>>> = const { RefCell::new(None) };
}

/// Return the content of a frame; None if it is not a frame, damaged, or larger than the limit.
pub fn decompressed(frame: &[u8], limit: usize) -> Option<Vec<u8>> {
    let window = window_bytes(frame)?;
    if find_frame_compressed_size(frame).ok()? != frame.len() {
        return None;
    }
    let most = limit.min(window);
    let announced = match get_frame_content_size(frame).ok()? {
        None => None,
        Some(size) => Some(usize::try_from(size).ok().filter(|size| *size <= most)?),
    };
    let guess = frame.len().saturating_mul(FIRST_GUESS).max(ROOM_MIN).min(most);
    let mut room = announced.unwrap_or(guess);
    loop {
        if let Some(found) = decompressed_into(frame, room) {
            return (found.len() <= BLOCK_MAX || is_read_in_pieces(frame, &found)).then_some(found);
        }
        if announced.is_some() || room == most {
            return None;
        }
        room = room.saturating_mul(GROWTH).min(most);
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
    Some(found)
}

/// Return whether a reader of pieces finds this content, which is larger than a block, as well.
fn is_read_in_pieces(frame: &[u8], content: &[u8]) -> bool {
    // Not the thread's: it would keep the memory of a window.
    let Some(mut context) = DCtx::try_create() else { return false };
    let mut piece = vec![0; PIECE];
    let mut input = InBuffer::around(frame);
    let mut rest = content;
    loop {
        let mut output = OutBuffer::around(piece.as_mut_slice());
        let Ok(hint) = context.decompress_stream(&mut output, &mut input) else { return false };
        let size = output.pos();
        let Some(behind) = piece.get(..size).and_then(|part| rest.strip_prefix(part)) else {
            return false;
        };
        if hint == 0 || size == 0 {
            return hint == 0 && behind.is_empty() && input.pos() == frame.len();
        }
        rest = behind;
    }
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
