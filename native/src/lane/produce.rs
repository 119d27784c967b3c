//! Produce requests and responses as the lane reads them: a short form of
//! `penstock.kafka.wire.requests.produce`. Python reads those that are not plain.
//!
//! A request is accepted here if the judges of its topics accept all its batches.
#![forbid(unsafe_code)]

use std::collections::HashSet;
use std::hash::Hash;
use std::ops::Range;
use std::sync::Arc;

use super::batch;
use super::counts::AcceptedBatch;
use super::judge::{Judged, Work};
use super::table::{Table, Topic};
#[cfg(target_os = "linux")]
use super::worked::WorkedBatch;

/// Versions with tagged fields, and lengths as varints.
const FLEXIBLE_FROM: i16 = 9;
/// Versions whose responses may name the new leaders of partitions (KIP-951).
pub const LEADERS_FROM: i16 = 10;
const FIRST_VERSION: i16 = 3;
/// The first version whose batches may be compressed with zstd.
const ZSTD_FROM: i16 = 7;
const TOPIC_IDS_FROM: i16 = 13;
const CLIENT_ID_AT: usize = 12;
/// A request without its acks in so many bytes is Python's.
const START_MAX: usize = 1024;
const TAGS_MAX: u32 = 16;
const ENTRIES_MAX: u32 = 1_000;
/// Versions whose responses have the offset at which the log begins.
const LOG_START_FROM: i16 = 5;
/// The first version whose responses have the errors of records, and texts.
const ERRORS_FROM: i16 = 8;
/// Behind the length and the correlation id.
const RESPONSE_BODY_AT: usize = 8;
const PLAIN_PARTITION_BYTES: usize = 33;
/// No errors, no text, no tagged fields.
const PLAIN_PARTITION_END: [u8; 3] = [1, 0, 0];

/// The acks of a request, if they are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Acks {
    /// Their value.
    Are(i16),
    /// More bytes are needed.
    More,
    /// They cannot be read here.
    Unclear,
}

/// Reads numbers and fields one after the other; None for a field that is missing or not plain.
struct Reader<'a> {
    bytes: &'a [u8],
    position: usize,
}

impl<'a> Reader<'a> {
    const fn new(bytes: &'a [u8], position: usize) -> Self {
        Self { bytes, position }
    }

    fn take(&mut self, size: usize) -> Option<&'a [u8]> {
        let end = self.position.checked_add(size)?;
        let field = self.bytes.get(self.position..end)?;
        self.position = end;
        Some(field)
    }

    fn array<const SIZE: usize>(&mut self) -> Option<[u8; SIZE]> {
        self.take(SIZE)?.try_into().ok()
    }

    fn byte(&mut self) -> Option<u8> {
        self.array().map(u8::from_be_bytes)
    }

    fn int16(&mut self) -> Option<i16> {
        self.array().map(i16::from_be_bytes)
    }

    fn int32(&mut self) -> Option<i32> {
        self.array().map(i32::from_be_bytes)
    }

    /// An unsigned varint of up to 28 bits: a plain request has no longer varints.
    fn varint(&mut self) -> Option<u32> {
        let mut value = 0_u32;
        for shift in [0_u32, 7, 14, 21] {
            let byte = self.byte()?;
            value |= u32::from(byte & 0x7F).checked_shl(shift)?;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    fn skip_tags(&mut self) -> Option<()> {
        let count = self.varint()?;
        if count > TAGS_MAX {
            return None;
        }
        for _ in 0..count {
            self.varint()?;
            let size = self.varint()?;
            self.take(usize::try_from(size).ok()?)?;
        }
        Some(())
    }

    /// A string; empty for null, too.
    fn string(&mut self, flexible: bool) -> Option<&'a [u8]> {
        let length = if flexible {
            i64::from(self.varint()?).saturating_sub(1)
        } else {
            i64::from(self.int16()?)
        };
        self.take(usize::try_from(length.max(0)).ok()?)
    }

    /// A string that is UTF-8; any other is Python's.
    fn text(&mut self, flexible: bool) -> Option<&'a str> {
        str::from_utf8(self.string(flexible)?).ok()
    }

    /// The length of an array, or of bytes; 0 for null, too.
    fn length(&mut self, flexible: bool) -> Option<u32> {
        if flexible {
            Some(self.varint()?.saturating_sub(1))
        } else {
            Some(u32::try_from(self.int32()?).unwrap_or(0))
        }
    }
}

/// Read the acks in the first bytes of a request, which begin with its length.
pub fn read_acks(start: &[u8], version: i16, whole: bool) -> Acks {
    match acks_of(&mut Reader::new(start, CLIENT_ID_AT), version) {
        Some((acks, _)) => Acks::Are(acks),
        None if whole || start.len() >= START_MAX => Acks::Unclear,
        None => Acks::More,
    }
}

/// Return the acks and the timeout in milliseconds.
fn acks_of(reader: &mut Reader<'_>, version: i16) -> Option<(i16, i32)> {
    let flexible = version >= FLEXIBLE_FROM;
    reader.text(false)?; // the client id keeps its old form
    if flexible {
        reader.skip_tags()?;
    }
    if version >= FIRST_VERSION {
        reader.text(flexible)?;
    }
    Some((reader.int16()?, reader.int32()?))
}

/// Return the client id of a whole request, if it has one; None where that is not UTF-8: Python
/// replaces what is not.
#[cfg(target_os = "linux")]
pub fn client_id(frame: &[u8]) -> Option<Option<&str>> {
    let mut reader = Reader::new(frame, CLIENT_ID_AT);
    let Ok(size) = usize::try_from(reader.int16()?) else { return Some(None) };
    str::from_utf8(reader.take(size)?).ok().map(Some)
}

/// Return whether the first topic of a request is known, as its first bytes have it; or whether these
/// bytes are too few.
pub fn may_be_known(start: &[u8], version: i16, now: f64, table: &Table) -> bool {
    match first_key(start, version) {
        None => start.len() < START_MAX,
        Some(key) => {
            let known = table.topics();
            let has_id = version >= TOPIC_IDS_FROM;
            if has_id { known.with_id(key).is_some() } else { known.named(key, now).is_some() }
        }
    }
}

/// Return the name, or the id, of the first topic of a request.
fn first_key(start: &[u8], version: i16) -> Option<&[u8]> {
    let flexible = version >= FLEXIBLE_FROM;
    let mut reader = Reader::new(start, CLIENT_ID_AT);
    acks_of(&mut reader, version)?;
    reader.length(flexible)?;
    if version >= TOPIC_IDS_FROM { reader.take(16) } else { reader.string(flexible) }
}

/// Requests with a shorter timeout do not wait here: Python responds within three quarters of it, and
/// requests wait for five seconds here (`ring::sender::WAITING_MAX`).
const WAITING_TIMEOUT_MS: i32 = 7_000;

/// A whole request of which all topics are known.
pub struct Request {
    /// Its acks.
    pub acks: i16,
    /// How long its client waits at least, in milliseconds.
    timeout_ms: i32,
    /// The judges of each batch, and the place of the batch in the frame.
    pub judged: Vec<(Arc<[Judged]>, Range<usize>)>,
    /// The batches that workers judge.
    #[cfg(target_os = "linux")]
    pub worked: Vec<WorkedBatch>,
    /// The batches that workers judge by policies that only observe.
    #[cfg(target_os = "linux")]
    pub observed: Vec<WorkedBatch>,
    /// Its version.
    version: i16,
    /// Until when the names of its topics are known.
    until: f64,
    /// How often topics had been forgotten then.
    forgotten: u64,
}

impl Request {
    /// Return whether its topics are known at a time as they were when it was read.
    ///
    /// That is so if no topic was forgotten since, and all names are known for longer. Otherwise it is
    /// read again: perhaps no topic of its own was forgotten, or its name is known again.
    pub fn holds(&self, frame: &[u8], now: f64, table: &Table) -> bool {
        if now < self.until && table.topics().forgotten() == self.forgotten {
            return true;
        }
        let again = read_if_known(frame, self.version, now, table);
        again.is_some_and(|again| self.has_judges_of(&again))
    }

    /// Return how many bytes the largest compressed batch has that is judged here; 0 if there is none.
    pub fn compressed_bytes(&self, frame: &[u8]) -> usize {
        let batches = self.judged.iter().filter_map(|(_, records)| frame.get(records.clone()));
        batches.filter(|data| batch::is_compressed(data)).map(<[u8]>::len).max().unwrap_or(0)
    }

    /// Return whether it may wait here for as long as others: its client waits for longer.
    pub const fn may_wait(&self) -> bool {
        self.timeout_ms >= WAITING_TIMEOUT_MS
    }

    /// Return whether a judge of its batches does not judge here at a time.
    pub fn is_suspended(&self, now: f64) -> bool {
        let mut judges = self.judged.iter().flat_map(|(judges, _)| judges.iter());
        judges.any(|judged| judged.judge.is_suspended(now))
    }

    /// Return how many bytes of memory are held.
    pub const fn held_bytes(&self) -> usize {
        let judged = size_of::<(Arc<[Judged]>, Range<usize>)>();
        let held = self.judged.capacity().saturating_mul(judged);
        #[cfg(target_os = "linux")]
        let held = {
            let batches = self.worked.capacity().saturating_add(self.observed.capacity());
            held.saturating_add(batches.saturating_mul(size_of::<WorkedBatch>()))
        };
        held
    }

    fn has_judges_of(&self, other: &Self) -> bool {
        let mut judges = self.judged.iter().zip(&other.judged);
        self.judged.len() == other.judged.len()
            && judges.all(|((own, _), (theirs, _))| Arc::ptr_eq(own, theirs))
            && self.has_workers_of(other)
    }

    #[cfg(target_os = "linux")]
    fn has_workers_of(&self, other: &Self) -> bool {
        let mut topics =
            self.worked.iter().zip(&other.worked).chain(self.observed.iter().zip(&other.observed));
        self.worked.len() == other.worked.len()
            && self.observed.len() == other.observed.len()
            && topics.all(|(own, theirs)| Arc::ptr_eq(&own.topic, &theirs.topic))
    }

    #[cfg(not(target_os = "linux"))]
    const fn has_workers_of(&self, _other: &Self) -> bool {
        true
    }
}

/// Topics, or partitions, that have to be different.
struct Different<T>(Option<HashSet<T>>);

impl<T: Eq + Hash> Different<T> {
    fn of(count: u32) -> Self {
        Self((count > 1).then(HashSet::new))
    }

    /// Note the next topic or partition; None if it is there already.
    fn add(&mut self, next: T) -> Option<()> {
        self.0.as_mut().is_none_or(|seen| seen.insert(next)).then_some(())
    }
}

/// Return a whole request of which all topics are known at a time; None for others.
///
/// It has to be plain, to the last byte, and to name each topic and each of its partitions once.
pub fn read_if_known(frame: &[u8], version: i16, now: f64, table: &Table) -> Option<Request> {
    if !(FIRST_VERSION..=TOPIC_IDS_FROM).contains(&version) {
        return None;
    }
    let flexible = version >= FLEXIBLE_FROM;
    let mut reader = Reader::new(frame, CLIENT_ID_AT);
    let (acks, timeout_ms) = acks_of(&mut reader, version)?;
    if !(-1..=1).contains(&acks) {
        return None;
    }
    let mut judged = Vec::new();
    #[cfg(target_os = "linux")]
    let (mut worked, mut observed) = (Vec::new(), Vec::new());
    let known = table.topics();
    let topics = reader.length(flexible)?;
    let mut entries = topics;
    if entries > ENTRIES_MAX {
        return None;
    }
    let mut different = Different::of(topics);
    let mut until = f64::INFINITY;
    for _ in 0..topics {
        let has_id = version >= TOPIC_IDS_FROM;
        let key = if has_id { reader.take(16)? } else { reader.string(flexible)? };
        let (topic, known_until) = if has_id {
            (known.with_id(key)?, f64::INFINITY) // an id is that of no other topic
        } else {
            known.named(key, now)?
        };
        until = until.min(known_until);
        different.add(key)?;
        let partitions = reader.length(flexible)?;
        entries = entries.checked_add(partitions).filter(|entries| *entries <= ENTRIES_MAX)?;
        let mut numbers = Different::of(partitions);
        for _ in 0..partitions {
            let number = reader.int32()?;
            numbers.add(number)?;
            let size = reader.length(flexible)?;
            let start = reader.position;
            let records = reader.take(usize::try_from(size).ok()?)?;
            if !matches!(topic, Topic::Unjudged)
                && (number < 0 || (version < ZSTD_FROM && batch::is_zstd(records)))
            {
                return None;
            }
            match topic {
                Topic::Unjudged => {}
                Topic::Unnumbered(_) if !batch::is_unnumbered(records) => return None,
                Topic::Judged(by) | Topic::Unnumbered(by) => {
                    judged.push((Arc::clone(by), start..reader.position));
                }
                #[cfg(target_os = "linux")]
                Topic::Worked(by) if by.is_unnumbered && !batch::is_unnumbered(records) => {
                    return None;
                }
                #[cfg(target_os = "linux")]
                Topic::Worked(by) => {
                    let batch = WorkedBatch {
                        topic: Arc::clone(by),
                        partition: number,
                        topic_id: if has_id { key.try_into().ok() } else { None },
                        records: start..reader.position,
                        count: batch::count_of(records),
                    };
                    if !by.judges.is_empty() {
                        judged.push((Arc::clone(&by.judges), start..reader.position));
                    }
                    if by.observers.is_some() {
                        observed.push(batch.clone());
                    }
                    if by.is_waited_for {
                        worked.push(batch);
                    }
                }
            }
            end_structure(&mut reader, flexible)?;
        }
        end_structure(&mut reader, flexible)?;
    }
    end_structure(&mut reader, flexible)?;
    let forgotten = known.forgotten();
    (reader.position == frame.len()).then_some(Request {
        acks,
        timeout_ms,
        judged,
        #[cfg(target_os = "linux")]
        worked,
        #[cfg(target_os = "linux")]
        observed,
        version,
        until,
        forgotten,
    })
}

/// Pass over the end of a structure, which is plain without tagged fields only.
fn end_structure(reader: &mut Reader<'_>, flexible: bool) -> Option<()> {
    if flexible && reader.byte()? != 0 { None } else { Some(()) }
}

/// Return the batches of a request if all of them are accepted by all their judges.
///
/// They are not if a topic of theirs was forgotten meanwhile: Python has to judge it from then on.
pub fn accepts(
    request: &Request,
    frame: &[u8],
    now: f64,
    table: &Table,
    work: &mut Work,
) -> Option<Vec<AcceptedBatch>> {
    let mut accepted = Vec::new();
    for (judges, records) in &request.judged {
        let data = frame.get(records.clone()).unwrap_or_default();
        for judged in judges.iter() {
            let (records, seconds) = judged.judge.timed(data, now, work)?;
            accepted.push(AcceptedBatch { labels: Arc::clone(&judged.labels), records, seconds });
        }
    }
    request.holds(frame, now, table).then_some(accepted)
}

/// Return whether a whole response has the most frequent form, which names no broker (KIP-951).
pub fn names_no_leaders(frame: &[u8], version: i16) -> bool {
    is_plain(&mut Reader::new(frame, RESPONSE_BODY_AT), version).is_some()
}

fn is_plain(reader: &mut Reader<'_>, version: i16) -> Option<()> {
    end_structure(reader, true)?; // the header's tagged fields
    let topics = reader.varint()?;
    for _ in 1..topics {
        if version >= TOPIC_IDS_FROM {
            reader.take(16)?;
        } else {
            reader.string(true)?;
        }
        let partitions = reader.varint()?;
        for _ in 1..partitions {
            let partition = reader.take(PLAIN_PARTITION_BYTES)?;
            if !partition.ends_with(&PLAIN_PARTITION_END) {
                return None;
            }
        }
        end_structure(reader, true)?;
    }
    reader.int32()?; // throttle time
    end_structure(reader, true)?;
    (reader.position == reader.bytes.len()).then_some(())
}

/// Return whether a whole response has an error; false, too, if it cannot be read.
pub fn has_errors(frame: &[u8], version: i16) -> bool {
    errors_of(&mut Reader::new(frame, RESPONSE_BODY_AT), version).is_some_and(|errors| errors > 0)
}

/// Return how many partitions of a response have an error.
fn errors_of(reader: &mut Reader<'_>, version: i16) -> Option<u32> {
    let flexible = version >= FLEXIBLE_FROM;
    let mut errors = 0_u32;
    skip_end(reader, flexible)?; // the header's tagged fields
    for _ in 0..reader.length(flexible)? {
        if version >= TOPIC_IDS_FROM {
            reader.take(16)?;
        } else {
            reader.string(flexible)?;
        }
        for _ in 0..reader.length(flexible)? {
            reader.int32()?; // the partition
            errors = errors.saturating_add(u32::from(reader.int16()? != 0));
            reader.take(if version >= LOG_START_FROM { 24 } else { 16 })?; // offsets and a time
            if version >= ERRORS_FROM {
                for _ in 0..reader.length(flexible)? {
                    reader.int32()?; // the record
                    reader.string(flexible)?;
                    skip_end(reader, flexible)?;
                }
                reader.string(flexible)?;
                skip_end(reader, flexible)?;
            }
        }
        skip_end(reader, flexible)?;
    }
    reader.int32()?; // throttle time
    skip_end(reader, flexible)?;
    (reader.position == reader.bytes.len()).then_some(errors)
}

/// Pass over the end of a structure, with its tagged fields.
fn skip_end(reader: &mut Reader<'_>, flexible: bool) -> Option<()> {
    if flexible { reader.skip_tags() } else { Some(()) }
}
