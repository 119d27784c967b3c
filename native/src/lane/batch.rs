//! The records of a partition in a Produce request: a short form of
//! `penstock.kafka.records.batch.read_batch`.
#![forbid(unsafe_code)]

use super::compression::{ZSTD, decompressed};
use crate::header::{CODEC, CONTROL, HEADER_BYTES, Header, LOG_APPEND_TIME, MAGIC, checksum};
use crate::section::{Origin, Section};

/// The limits of a batch.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// The most bytes of records, decompressed, and of the batch.
    pub max_bytes: usize,
    /// The most records.
    pub max_records: usize,
}

/// Return whether the records of a batch are compressed; false without a header.
pub fn is_compressed(data: &[u8]) -> bool {
    codec_of(data).is_some_and(|codec| codec != 0)
}

/// Return whether the records of a batch are compressed with zstd.
pub fn is_zstd(data: &[u8]) -> bool {
    codec_of(data) == Some(ZSTD)
}

/// Return how many records a batch has by its header; 0 without a header.
pub fn count_of(data: &[u8]) -> usize {
    let count = data.first_chunk().map_or(0, |header| Header::read(header).record_count);
    usize::try_from(count).unwrap_or(0)
}

/// Return whether a batch has no sequence numbers; false without a header.
pub fn is_unnumbered(data: &[u8]) -> bool {
    data.first_chunk().is_some_and(|header| Header::read(header).producer_id < 0)
}

fn codec_of(data: &[u8]) -> Option<u16> {
    data.first_chunk().map(|header| Header::read(header).attributes & CODEC)
}

/// Return the records of a batch, each of which has been checked.
///
/// None where that is not exactly one batch as a producer sends it, or where Python reads it.
/// Python reads the same records from any batch that is read here.
pub fn read(data: &[u8], limits: Limits) -> Option<Section> {
    if data.len() > limits.max_bytes {
        return None;
    }
    let (header, records) = data.split_first_chunk::<HEADER_BYTES>()?;
    let fields = Header::read(header);
    let count = fields.record_count;
    if fields.base_offset != 0
        || fields.size? != data.len()
        || fields.magic != MAGIC
        || fields.attributes & (LOG_APPEND_TIME | CONTROL) != 0
        || count <= 0
        || fields.last_offset_delta.checked_add(1) != Some(count)
        || (fields.producer_id >= 0 && fields.base_sequence < 0)
    {
        return None;
    }
    let count = usize::try_from(count).ok().filter(|count| *count <= limits.max_records)?;
    if checksum(header, records) != fields.checksum {
        return None;
    }
    let records = match fields.attributes & CODEC {
        0 => records.to_vec(),
        codec => decompressed(codec, records, limits.max_bytes)?,
    };
    Section::read(records, count, Origin::Producer).ok()
}
