//! One lz4 frame with independent blocks: clients send, and brokers read, no other form.
//!
//! The frame reader of `lz4_flex` does not say whether a frame has its end, and takes memory for the
//! largest block that a frame may have, so only blocks are decompressed by it. The format is
//! described in `lz4_Frame_format.md` of lz4.
#![forbid(unsafe_code)]

use lz4_flex::block::decompress_into;
use twox_hash::XxHash32;

/// The most blocks, here and in xerial's framing of snappy: each takes time, however short it is.
pub(super) const BLOCKS_MAX: usize = 65_536;

const MAGIC: [u8; 4] = 0x184D_2204_u32.to_le_bytes();
/// Version 1, independent blocks, no dictionary, and the bit that has to be zero.
const FLAGS: (u8, u8) = (0xE3, 0x60);
const BLOCK_CHECKSUMS: u8 = 0x10;
const CONTENT_SIZE: u8 = 0x08;
const CONTENT_CHECKSUM: u8 = 0x04;
/// The flag of a block that is not compressed.
const STORED: u32 = 0x8000_0000;
/// The most bytes that a compressed byte stands for.
const RATIO_MAX: usize = 255;

/// Return the content of a frame; None if it is not a frame, damaged, or larger than the limit.
pub fn decompressed(frame: &[u8], limit: usize) -> Option<Vec<u8>> {
    let mut rest = frame.strip_prefix(&MAGIC)?;
    let descriptor = rest;
    let [flags, sizes] = take(&mut rest)?;
    if flags & FLAGS.0 != FLAGS.1 {
        return None;
    }
    let block_max = match sizes {
        0x40 => 64 * 1024,
        0x50 => 256 * 1024,
        0x60 => 1024 * 1024,
        0x70 => 4 * 1024 * 1024,
        _ => return None,
    };
    let announced = if flags & CONTENT_SIZE == 0 { None } else { Some(take(&mut rest)?) };
    let described = descriptor.get(..descriptor.len().checked_sub(rest.len())?)?;
    let [_, second, ..] = checksum(described);
    if take(&mut rest)? != [second] {
        return None;
    }
    let mut found = vec![0; limit.min(frame.len().saturating_mul(RATIO_MAX))];
    let (mut size, mut blocks) = (0_usize, 0_usize);
    loop {
        let length = u32::from_le_bytes(take(&mut rest)?);
        if length == 0 {
            break;
        }
        let (block, behind) = rest.split_at_checked(usize::try_from(length & !STORED).ok()?)?;
        rest = behind;
        if block.len() > block_max
            || (flags & BLOCK_CHECKSUMS != 0 && take(&mut rest)? != checksum(block))
        {
            return None;
        }
        let room = found.get_mut(size..)?;
        let room = match room.len() {
            less if less < block_max => room,
            _ => room.get_mut(..block_max)?,
        };
        let added = if length & STORED == 0 {
            decompress_into(block, room).ok()?
        } else {
            room.get_mut(..block.len())?.copy_from_slice(block);
            block.len()
        };
        if added == 0 || blocks == BLOCKS_MAX {
            return None; // Java takes an empty block for the end
        }
        blocks = blocks.checked_add(1)?;
        size = size.checked_add(added)?;
    }
    found.truncate(size);
    let is_whole = announced
        .is_none_or(|announced| u64::from_le_bytes(announced) == u64::try_from(size).unwrap_or(0));
    let is_intact = flags & CONTENT_CHECKSUM == 0 || take(&mut rest)? == checksum(&found);
    (is_whole && is_intact && rest.is_empty()).then_some(found)
}

fn checksum(bytes: &[u8]) -> [u8; 4] {
    XxHash32::oneshot(0, bytes).to_le_bytes()
}

fn take<const SIZE: usize>(rest: &mut &[u8]) -> Option<[u8; SIZE]> {
    let (first, behind) = rest.split_first_chunk()?;
    *rest = behind;
    Some(*first)
}
