//! One zstd frame, decompressed by the C library that consumers use, too.
//!
//! That library accepts frames whose copies reach further back than their window: what comes out then
//! depends on the buffers of a reader. So a frame is only read here if its window has all of its
//! content. Clients write such frames, but for batches that are larger than any here. The format is
//! RFC 8878.
#![forbid(unsafe_code)]

use std::cell::RefCell;

use zstd_safe::{DCtx, find_frame_compressed_size, get_frame_content_size};

const MAGIC: [u8; 4] = 0xFD2F_B528_u32.to_le_bytes();
/// A dictionary, and the bit that has to be zero.
const NOT_READ: u8 = 0x0B;
const SINGLE_SEGMENT: u8 = 0x20;
const WINDOW_LOG_MIN: u32 = 10;
/// Readers refuse larger windows by default.
const WINDOW_LOG_MAX: u32 = 27;
/// How often content is larger than a frame, as in `penstock.records.compression`.
const FIRST_GUESS: usize = 4;
const GROWTH: usize = 8;
const ROOM_MIN: usize = 16 * 1024;

thread_local! {
    static CONTEXT: RefCell<Option<DCtx<'static>>> = const { RefCell::new(None) };
}

/// Return the content of a frame; None if it is anything else, damaged, or larger.
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
            return Some(found);
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

/// Return the size of a frame's window; None for one that is not read here.
fn window_bytes(frame: &[u8]) -> Option<usize> {
    let (descriptor, rest) = frame.strip_prefix(&MAGIC)?.split_first()?;
    if descriptor & NOT_READ != 0 {
        return None;
    }
    if descriptor & SINGLE_SEGMENT != 0 {
        return Some(usize::MAX); // all of its content
    }
    let window = rest.first()?;
    let log = u32::from(window >> 3).checked_add(WINDOW_LOG_MIN)?;
    if log > WINDOW_LOG_MAX {
        return None;
    }
    let base = 1_usize.checked_shl(log)?;
    base.checked_add((base >> 3).checked_mul(usize::from(window & 7))?)
}
