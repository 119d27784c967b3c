//! One lz4 frame with independent blocks: clients send, and brokers read, no other form.
//!
//! The frame reader of `lz4_flex` does not say whether a frame has its end, and takes memory for the
//! largest block that a frame may have, so only blocks are decompressed by it. The format is
//! described in `lz4_Frame_format.md` of lz4.
#![forbid(unsafe_code)]

use std::hash::Hasher;

use lz4_flex::block::decompress_into;
use twox_hash::XxHash32;

use super::steps::{BLOCKS_MAX, Content, STEP_BLOCKS, STEP_BYTES};

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

/// A frame that is decompressed in steps.
pub struct Frame {
    /// Where the next block begins.
    at: usize,
    flags: u8,
    block_max: usize,
    announced: Option<[u8; 8]>,
    pub(super) content: Content,
    /// The checksum of the content, if the frame has one.
    hash: Option<XxHash32>,
    blocks: usize,
}

impl Frame {
    /// Read its descriptor; None if it is not that of a frame, or a consumer reads no such frame.
    ///
    /// It may have so much content.
    pub fn new(frame: &[u8], limit: usize) -> Option<Self> {
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
        let at = frame.len().checked_sub(rest.len())?;
        let hash = (flags & CONTENT_CHECKSUM != 0).then(|| XxHash32::with_seed(0));
        let content = Content::new(limit);
        Some(Self { at, flags, block_max, announced, content, hash, blocks: 0 })
    }

    /// Decompress blocks until there are `STEP_BYTES` more, or `STEP_BLOCKS`; return whether that was
    /// the whole frame, None where it is damaged, or larger than the limit.
    pub fn go_on(&mut self, frame: &[u8]) -> Option<bool> {
        let mut rest = frame.get(self.at..)?;
        let enough = self.content.size().saturating_add(STEP_BYTES);
        let last = self.blocks.saturating_add(STEP_BLOCKS);
        while self.content.size() < enough && self.blocks < last {
            let length = u32::from_le_bytes(take(&mut rest)?);
            if length == 0 {
                return self.end(rest).then_some(true);
            }
            let (block, behind) = rest.split_at_checked(usize::try_from(length & !STORED).ok()?)?;
            rest = behind;
            if block.len() > self.block_max
                || (self.flags & BLOCK_CHECKSUMS != 0 && take(&mut rest)? != checksum(block))
            {
                return None;
            }
            let added = self.add(block, length & STORED != 0)?;
            if added == 0 || self.blocks == BLOCKS_MAX {
                return None; // Java takes an empty block for the end
            }
            self.blocks = self.blocks.checked_add(1)?;
        }
        self.at = frame.len().checked_sub(rest.len())?;
        Some(false)
    }

    /// Add the content of a block; return how many bytes it has.
    fn add(&mut self, block: &[u8], is_stored: bool) -> Option<usize> {
        let added = if is_stored {
            self.content.room(block.len())?.copy_from_slice(block);
            block.len()
        } else {
            let most = block.len().saturating_mul(RATIO_MAX);
            let room = self.content.room(most.min(self.block_max).min(self.content.left()))?;
            decompress_into(block, room).ok()?
        };
        let content = self.content.add(added)?;
        if let Some(hash) = &mut self.hash {
            hash.write(content);
        }
        Some(added)
    }

    /// Return whether the bytes after the last block are the end of this content.
    fn end(&self, mut rest: &[u8]) -> bool {
        let size = u64::try_from(self.content.size()).unwrap_or(0);
        let is_whole = self.announced.is_none_or(|announced| u64::from_le_bytes(announced) == size);
        let is_intact = self
            .hash
            .as_ref()
            .is_none_or(|hash| take(&mut rest) == Some(hash.finish_32().to_le_bytes()));
        is_whole && is_intact && rest.is_empty()
    }
}

fn checksum(bytes: &[u8]) -> [u8; 4] {
    XxHash32::oneshot(0, bytes).to_le_bytes()
}

fn take<const SIZE: usize>(rest: &mut &[u8]) -> Option<[u8; SIZE]> {
    let (first, behind) = rest.split_first_chunk()?;
    *rest = behind;
    Some(*first)
}
