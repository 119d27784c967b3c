//! Decompression with a limit that holds while decompressing: `penstock.kafka.records.compression`
//! for the forms that clients send.
//!
//! These are one gzip member, one lz4 or zstd frame, or snappy in either form, from the first byte
//! to the last. All other forms are Python's. Its decompressors are different, and return the same
//! content for all data that is accepted here.
#![forbid(unsafe_code)]

use std::io::Read;

use flate2::bufread::GzDecoder;
use snap::raw::{Decoder, decompress_len};

use super::lz4::{self, BLOCKS_MAX};
use super::zstd;

/// Kafka's numbers of codecs.
const GZIP: u16 = 1;
const SNAPPY: u16 = 2;
const LZ4: u16 = 3;
/// Kafka's number of zstd.
pub const ZSTD: u16 = 4;

const XERIAL_MAGIC: &[u8] = b"\x82SNAPPY\0";
const XERIAL_HEADER_BYTES: usize = 16;

/// Return the records of a batch, decompressed; None where they are damaged, too large, or Python's.
pub fn decompressed(codec: u16, data: &[u8], limit: usize) -> Option<Vec<u8>> {
    match codec {
        GZIP => gzip(data, limit),
        SNAPPY => snappy(data, limit),
        LZ4 => lz4::decompressed(data, limit),
        ZSTD => zstd::decompressed(data, limit),
        _ => None,
    }
}

fn gzip(data: &[u8], limit: usize) -> Option<Vec<u8>> {
    let mut member = GzDecoder::new(data);
    let mut found = Vec::new();
    let most = u64::try_from(limit).ok()?.checked_add(1)?;
    member.by_ref().take(most).read_to_end(&mut found).ok()?;
    // Below the limit the end was read, where the checksum is.
    (found.len() <= limit && member.into_inner().is_empty()).then_some(found)
}

fn snappy(data: &[u8], limit: usize) -> Option<Vec<u8>> {
    let blocks =
        if data.starts_with(XERIAL_MAGIC) { xerial_blocks(data)? } else { Vec::from([data]) };
    let mut sizes = Vec::new();
    let mut total = 0_usize;
    for block in &blocks {
        let size = decompress_len(block).ok()?;
        total = total.checked_add(size).filter(|total| *total <= limit)?;
        sizes.push(size);
    }
    let mut found = vec![0; total];
    let mut rest = found.as_mut_slice();
    for (block, size) in blocks.into_iter().zip(sizes) {
        let (part, behind) = rest.split_at_mut_checked(size)?;
        if Decoder::new().decompress(block, part).ok()? != size {
            return None;
        }
        rest = behind;
    }
    Some(found)
}

/// Return the blocks after the header of xerial's framing, each of which follows its length.
fn xerial_blocks(data: &[u8]) -> Option<Vec<&[u8]>> {
    let mut blocks = Vec::new();
    let mut rest = data.get(XERIAL_HEADER_BYTES..)?;
    while !rest.is_empty() {
        if blocks.len() == BLOCKS_MAX {
            return None;
        }
        let (length, behind) = rest.split_first_chunk()?;
        let length = usize::try_from(i32::from_be_bytes(*length)).ok().filter(|size| *size > 0)?;
        let (block, behind) = behind.split_at_checked(length)?;
        blocks.push(block);
        rest = behind;
    }
    Some(blocks)
}
