//! The records of a partition in a Produce request: a short form of
//! `penstock.kafka.records.batch.read_batch`.
#![forbid(unsafe_code)]

use super::compression::{Decompression, ZSTD, decompressed};
use super::steps::STEP_BYTES;
use crate::header::{CODEC, CONTROL, HEADER_BYTES, Header, LOG_APPEND_TIME, MAGIC, checksum};
use crate::section::{self, Origin, Section};

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

/// The stored records of a batch whose header has been checked.
struct Stored<'a> {
    codec: u16,
    count: usize,
    records: &'a [u8],
}

/// Return the records of a batch, each of which has been checked.
///
/// None where that is not exactly one batch as a producer sends it, or where Python reads it.
/// Python reads the same records from any batch that is read here.
pub fn read(data: &[u8], limits: Limits) -> Option<Section> {
    let Stored { codec, count, records } = stored(data, limits)?;
    let records = match codec {
        0 => records.to_vec(),
        codec => decompressed(codec, records, limits.max_bytes)?,
    };
    Section::read(records, count, Origin::Producer).ok()
}

fn stored(data: &[u8], limits: Limits) -> Option<Stored<'_>> {
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
    let is_intact = checksum(header, records) == fields.checksum;
    is_intact.then_some(Stored { codec: fields.attributes & CODEC, count, records })
}

/// How many records are read in a step.
const STEP_RECORDS: usize = 1_000;
/// A batch with a longer record is Python's: a record cannot be left in its middle.
const RECORD_MAX_BYTES: usize = 1024 * 1024;

/// A batch that is read in steps, as `read` reads it.
pub enum Reading {
    /// Its records are decompressed, of which there are so many.
    Compressed(Decompression, usize),
    /// Its records are checked.
    Section(section::Reading),
}

impl Reading {
    /// Check the header and the checksum; None where `read` returns it.
    pub fn begin(data: &[u8], limits: Limits) -> Option<Self> {
        let Stored { codec, count, records } = stored(data, limits)?;
        match codec {
            0 => Self::of_section(records.to_vec(), count),
            codec => Decompression::begin(codec, records, limits.max_bytes)
                .map(|begun| Self::Compressed(begun, count)),
        }
    }

    fn of_section(records: Vec<u8>, count: usize) -> Option<Self> {
        section::Reading::begin(records, count, Origin::Producer).ok().map(Self::Section)
    }

    /// Take the next step. `data` is the same each time.
    pub fn go_on(mut self, data: &[u8]) -> Option<Step> {
        match &mut self {
            Self::Compressed(decompression, _) => {
                if !decompression.go_on(data.get(HEADER_BYTES..)?)? {
                    return Some(Step::GoesOn(self));
                }
            }
            Self::Section(reading) => {
                let (mut records, mut bytes) = (0_usize, 0_usize);
                while records < STEP_RECORDS && bytes < STEP_BYTES && !reading.is_over() {
                    let size = reading.announced().filter(|size| *size <= RECORD_MAX_BYTES)?;
                    reading.read(1).ok()?;
                    (records, bytes) = (records.checked_add(1)?, bytes.checked_add(size)?);
                }
                if !reading.is_over() {
                    return Some(Step::GoesOn(self));
                }
            }
        }
        match self {
            Self::Compressed(decompression, count) => {
                Self::of_section(decompression.found(), count).map(Step::GoesOn)
            }
            Self::Section(reading) => reading.finish().ok().map(Step::Read),
        }
    }

    /// Return how many bytes of memory are held.
    pub fn held_bytes(&self) -> usize {
        match self {
            Self::Compressed(decompression, _) => decompression.held_bytes(),
            Self::Section(reading) => reading.held_bytes(),
        }
    }
}

/// The result of a step.
pub enum Step {
    /// There is more to do.
    GoesOn(Reading),
    /// The records, each of which has been checked.
    Read(Section),
}
