//! Small batches of a log that follow each other, merged into a single batch:
//! `penstock.kafka.records.merged`, without Python's work on each of them.
//!
//! Only batches are merged that Python, too, would read and merge. It gets all other batches: those
//! that are damaged, large, incomplete after compaction or not all in the range, that may belong to
//! an aborted transaction, or have a codec that is not read here.
#![forbid(unsafe_code)]

use std::mem;

use crate::header::{
    CODEC, CONTROL, HEADER_BYTES, Header, LOG_APPEND_TIME, MAGIC, TRANSACTIONAL, checksum,
};
use crate::lane::compression::decompressed;
use crate::section::{Origin, Section, Unread};
use crate::splice::{Appended, Change, ForAll, Splicer, Unwritten};

/// Which batches are small, and how large they become together.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// The most stored bytes of a small batch.
    pub small_bytes: usize,
    /// The most records of a small batch.
    pub small_records: usize,
    /// With so many bytes of records, merged or of a single batch, it is enough.
    pub enough_bytes: usize,
    /// With so many records it is enough.
    pub enough_records: usize,
}

/// There is no memory for the merged batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutOfMemory;

/// The requested batches.
#[derive(Debug, Clone, Copy)]
pub struct Wanted {
    /// The first batch begins with this offset, or after it.
    pub first: i64,
    /// The last record is before this offset.
    pub end: i64,
    /// Whether batches of transactions are merged, too: if no transaction was aborted.
    pub with_transactions: bool,
}

/// Some batches that have been merged.
#[derive(Debug, Clone, Copy)]
pub struct Merged {
    /// How many batches.
    pub batches: usize,
    /// How many records.
    pub records: usize,
    /// The offset of the first record.
    pub base_offset: i64,
    /// The offset of the last record.
    pub last_offset: i64,
    /// The base timestamp.
    pub base_timestamp: i64,
    /// The largest timestamp.
    pub max_timestamp: i64,
    /// The leader epoch of the last batch.
    pub leader_epoch: i32,
    /// The codec of the last batch.
    pub codec: u16,
    /// How many stored bytes they take.
    pub size: usize,
    /// How many stored bytes the largest batch takes.
    pub largest: usize,
}

/// Merge the small batches that a response begins with; None where fewer than two can be merged.
///
/// Returns their fields, and the section of their records.
///
/// # Errors
/// There is no memory for it.
pub fn merge(
    response: &[u8],
    wanted: Wanted,
    limits: Limits,
) -> Result<Option<(Merged, Vec<u8>)>, OutOfMemory> {
    let mut merging = Merging { limits, wanted, section: Vec::new(), merged: None };
    let mut rest = response;
    while !merging.is_enough() {
        let next = merging.merged.map(|merged| merged.last_offset);
        let Some(batch) = merging.split(rest, next) else { break };
        let is_alone = || merging.split(batch.behind, Some(batch.last_offset)).is_none();
        // Alone, it is left to Python, and not decompressed twice.
        if next.is_none() && is_alone() || !batch.is_intact() || !merging.add(&batch)? {
            break;
        }
        rest = batch.behind;
    }
    let Merging { merged, mut section, .. } = merging;
    section.shrink_to_fit();
    Ok(merged.filter(|merged| merged.batches > 1).map(|merged| (merged, section)))
}

/// A batch whose header is accepted.
struct Accepted<'a> {
    header: &'a [u8; HEADER_BYTES],
    fields: Header,
    /// Its stored records.
    stored: &'a [u8],
    last_offset: i64,
    /// The bytes after it.
    behind: &'a [u8],
}

impl Accepted<'_> {
    fn is_intact(&self) -> bool {
        checksum(self.header, self.stored) == self.fields.checksum
    }
}

/// Batches that are being merged.
struct Merging {
    limits: Limits,
    wanted: Wanted,
    section: Vec<u8>,
    /// Their fields, from the first batch on.
    merged: Option<Merged>,
}

impl Merging {
    /// Split off the next batch; None if by its header it is not merged, or it is not complete.
    ///
    /// `before` is the last offset of the batch before it that is merged, too.
    fn split<'a>(&self, batches: &'a [u8], before: Option<i64>) -> Option<Accepted<'a>> {
        let (header, behind) = batches.split_first_chunk()?;
        let fields = Header::read(header);
        let is_next = match before {
            Some(last) => fields.base_offset == last.wrapping_add(1),
            None => fields.base_offset >= self.wanted.first.max(0),
        };
        let size = fields
            .size
            .filter(|size| *size > HEADER_BYTES && *size <= self.limits.small_bytes && is_next)?;
        let left_out = CONTROL | if self.wanted.with_transactions { 0 } else { TRANSACTIONAL };
        let last_offset = fields.base_offset.checked_add(i64::from(fields.last_offset_delta))?;
        let count = usize::try_from(fields.record_count).ok()?;
        let is_merged = fields.magic == MAGIC
            && fields.attributes & left_out == 0
            && fields.last_offset_delta.checked_add(1) == Some(fields.record_count)
            && last_offset < self.wanted.end
            && (1..=self.limits.small_records).contains(&count);
        let (stored, behind) = behind.split_at_checked(size - HEADER_BYTES)?;
        is_merged.then_some(Accepted { header, fields, stored, last_offset, behind })
    }

    /// Merge a batch; return whether its records can be read.
    fn add(&mut self, batch: &Accepted<'_>) -> Result<bool, OutOfMemory> {
        let Accepted { fields: header, stored, .. } = batch;
        let Some(records) = self.read(header, stored)? else { return Ok(false) };
        let is_log_append_time = header.attributes & LOG_APPEND_TIME != 0;
        let base = if is_log_append_time { header.max_timestamp } else { header.base_timestamp };
        let codec = header.attributes & CODEC;
        let merged = self.merged.get_or_insert(Merged {
            batches: 0,
            records: 0,
            base_offset: header.base_offset,
            last_offset: header.base_offset,
            base_timestamp: base,
            max_timestamp: i64::MIN,
            leader_epoch: header.leader_epoch,
            codec,
            size: 0,
            largest: 0,
        });
        let for_all = ForAll {
            without: &[],
            retimed: is_log_append_time,
            shift: base.wrapping_sub(merged.base_timestamp),
            first: i32::try_from(merged.records).map_err(|_| OutOfMemory)?,
        };
        let mut splicer = Splicer::behind(mem::take(&mut self.section), &records, for_all);
        let appended = Appended::default();
        for record in 0..records.len() {
            // Larger numbers do not make a small batch too large.
            splicer
                .put(record, Change::Same, Change::Same, &appended)
                .map_err(|(Unwritten::TooLarge | Unwritten::OutOfMemory)| OutOfMemory)?;
            let delta = if is_log_append_time { 0 } else { records.timestamp_delta(record) };
            merged.max_timestamp = merged.max_timestamp.max(base.wrapping_add(delta));
        }
        self.section = splicer
            .finish()
            .map_err(|(Unwritten::TooLarge | Unwritten::OutOfMemory)| OutOfMemory)?;
        merged.batches += 1;
        merged.records += records.len();
        merged.last_offset = batch.last_offset;
        merged.leader_epoch = header.leader_epoch;
        merged.codec = codec;
        merged.size += HEADER_BYTES + stored.len();
        merged.largest = merged.largest.max(HEADER_BYTES + stored.len());
        Ok(true)
    }

    /// Return the records of a batch; None where Python has to report its fault.
    fn read(&self, header: &Header, stored: &[u8]) -> Result<Option<Section>, OutOfMemory> {
        let records = match header.attributes & CODEC {
            0 => {
                let mut records = Vec::new();
                records.try_reserve_exact(stored.len()).map_err(|_| OutOfMemory)?;
                records.extend_from_slice(stored);
                Some(records)
            }
            codec => decompressed(codec, stored, self.limits.enough_bytes),
        };
        let Some(records) = records else { return Ok(None) };
        let origin = Origin::Log { last_offset_delta: header.last_offset_delta };
        let count = usize::try_from(header.record_count).unwrap_or_default();
        match Section::read(records, count, origin) {
            Ok(section) => Ok(Some(section)),
            Err(Unread::Wrong(_)) => Ok(None),
            Err(Unread::OutOfMemory) => Err(OutOfMemory),
        }
    }

    /// Return whether no more batches are to be added.
    fn is_enough(&self) -> bool {
        self.section.len() >= self.limits.enough_bytes
            || self.merged.is_some_and(|merged| merged.records >= self.limits.enough_records)
    }
}
