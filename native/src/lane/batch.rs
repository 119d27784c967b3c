//! The records of one partition of a Produce request: `penstock.records.batch.read_batch` in few lines.
#![forbid(unsafe_code)]

use crc::{CRC_32_ISCSI, Crc, Table};

use super::compression::{ZSTD, decompressed};
use crate::section::{Origin, Section};

/// Of magic 2: what the records follow (`DefaultRecordBatch`).
const HEADER_BYTES: usize = 61;
/// Base offset and length, which the length does not count.
const PREFIX_BYTES: usize = 12;
const CRC_FROM: usize = 21;
const MAGIC: u8 = 2;
const CODEC: u16 = 0x07;
const LOG_APPEND_TIME: u16 = 0x08;
const CONTROL: u16 = 0x20;

static CHECKSUM: Crc<u32, Table<16>> = Crc::<u32, Table<16>>::new(&CRC_32_ISCSI);

/// What a batch may have.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// The most bytes of records, decompressed, and of the batch.
    pub max_bytes: usize,
    /// The most records.
    pub max_records: usize,
}

/// Return whether the records of a batch are compressed; false without a header.
pub fn is_compressed(data: &[u8]) -> bool {
    data.len() >= HEADER_BYTES && codec_of(data).is_some_and(|codec| codec != 0)
}

/// Return whether the records of a batch are compressed with zstd.
pub fn is_zstd(data: &[u8]) -> bool {
    data.len() >= HEADER_BYTES && codec_of(data) == Some(ZSTD)
}

fn codec_of(data: &[u8]) -> Option<u16> {
    field(data, CRC_FROM).map(|bytes| u16::from_be_bytes(bytes) & CODEC)
}

/// Return the records of a batch, each of which has been checked.
///
/// None where that is not exactly one batch as a producer sends it, or where it is not read here.
/// What is read here, Python reads as the same records.
pub fn read(data: &[u8], limits: Limits) -> Option<Section> {
    if data.len() > limits.max_bytes {
        return None;
    }
    let header = data.first_chunk::<HEADER_BYTES>()?;
    let length = usize::try_from(int32(header, 8)?).ok()?;
    let attributes = u16::from_be_bytes(field(header, CRC_FROM)?);
    let codec = attributes & CODEC;
    let last_delta = int32(header, 23)?;
    let (producer_id, base_sequence) = (i64::from_be_bytes(field(header, 43)?), int32(header, 53)?);
    let count = int32(header, 57)?;
    if i64::from_be_bytes(field(header, 0)?) != 0
        || length.checked_add(PREFIX_BYTES)? != data.len()
        || *header.get(16)? != MAGIC
        || attributes & (LOG_APPEND_TIME | CONTROL) != 0
        || count <= 0
        || last_delta.checked_add(1) != Some(count)
        || (producer_id >= 0 && base_sequence < 0)
    {
        return None;
    }
    let count = usize::try_from(count).ok().filter(|count| *count <= limits.max_records)?;
    let checksum = u32::from_be_bytes(field(header, 17)?);
    if CHECKSUM.checksum(data.get(CRC_FROM..)?) != checksum {
        return None;
    }
    let records = data.get(HEADER_BYTES..)?;
    let records = match codec {
        0 => records.to_vec(),
        codec => decompressed(codec, records, limits.max_bytes)?,
    };
    Section::read(records, count, Origin::Producer).ok()
}

fn field<const SIZE: usize>(header: &[u8], at: usize) -> Option<[u8; SIZE]> {
    header.get(at..)?.first_chunk().copied()
}

fn int32(header: &[u8], at: usize) -> Option<i32> {
    field(header, at).map(i32::from_be_bytes)
}
