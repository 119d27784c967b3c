//! A record section derived from another section: without some records, with other keys, values and headers.
//!
//! Unchanged parts keep their bytes, also where another writer would choose others: only
//! lengths and offset deltas are written again, and only where they differ.

use crate::cursor::{Cursor, put_varint, put_varlong, varint_size};
use crate::section::{Headers, Section};

/// The change of a key or a value.
#[derive(Debug, Clone, Copy)]
pub enum Change<'a> {
    /// It stays.
    Same,
    /// It becomes these bytes, or null.
    New(Option<&'a [u8]>),
}

/// The changes of the headers, timestamps and offsets of all records.
#[derive(Debug, Clone, Copy, Default)]
pub struct ForAll<'a> {
    /// Headers whose keys begin with any of these prefixes are left out.
    pub without: &'a [&'a [u8]],
    /// Whether each record gets the same timestamp: the batch's base timestamp and `shift`.
    pub retimed: bool,
    /// Added to the timestamps, which are relative to the base timestamp of a batch.
    pub shift: i64,
    /// The offset delta of the first record that is written: how many are in the batch before it.
    pub first: i32,
}

/// Headers that follow a record's own.
#[derive(Debug, Default)]
pub struct Appended {
    count: i32,
    bytes: Vec<u8>,
}

impl Appended {
    /// Append a header.
    ///
    /// # Errors
    /// It would be too long, or there is no memory for it.
    pub fn push(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<(), Unwritten> {
        let (key_size, value_size) = (announced(Some(key))?, announced(value)?);
        let size = key.len() + value.map_or(0, <[u8]>::len);
        self.bytes.try_reserve(2 * LENGTH_MAX_BYTES + size).map_err(|_| Unwritten::OutOfMemory)?;
        put_varint(&mut self.bytes, key_size);
        self.bytes.extend_from_slice(key);
        put_varint(&mut self.bytes, value_size);
        self.bytes.extend_from_slice(value.unwrap_or_default());
        self.count += 1;
        Ok(())
    }

    /// Forget all of them, and keep the memory.
    pub fn clear(&mut self) {
        self.count = 0;
        self.bytes.clear();
    }
}

/// Why a section cannot be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unwritten {
    /// A record would be longer than a record may be.
    TooLarge,
    /// There is no memory for it.
    OutOfMemory,
}

/// The most bytes of a length.
const LENGTH_MAX_BYTES: usize = 5;
/// The most bytes of a timestamp.
const LONG_MAX_BYTES: usize = 10;
/// A timestamp delta of 0.
const ZERO: &[u8] = &[0];

/// Writes the new section, one record after the other.
#[derive(Debug)]
pub struct Splicer<'a> {
    section: &'a Section,
    for_all: ForAll<'a>,
    out: Vec<u8>,
    written: i32,
    /// The headers of a record, where they are not all its own.
    headers: Vec<u8>,
    /// Records that are copied together: the first and the last of them.
    run: Option<(usize, usize)>,
}

impl<'a> Splicer<'a> {
    /// Begin with nothing, and room for `size` bytes.
    ///
    /// # Errors
    /// There is no memory for them.
    pub fn new(section: &'a Section, for_all: ForAll<'a>, size: usize) -> Result<Self, Unwritten> {
        let mut out = Vec::new();
        out.try_reserve_exact(size).map_err(|_| Unwritten::OutOfMemory)?;
        Ok(Self::behind(out, section, for_all))
    }

    /// Begin after the written records of other sections.
    pub const fn behind(out: Vec<u8>, section: &'a Section, for_all: ForAll<'a>) -> Self {
        Self { section, for_all, out, written: for_all.first, headers: Vec::new(), run: None }
    }

    /// Append a record of the section.
    ///
    /// # Errors
    /// It would be too long, or there is no memory for it.
    pub fn put(
        &mut self,
        record: usize,
        key: Change<'_>,
        value: Change<'_>,
        appended: &Appended,
    ) -> Result<(), Unwritten> {
        let headers = self.count_headers(record, appended)?;
        let same = matches!((key, value, headers), (Change::Same, Change::Same, None))
            && !self.for_all.retimed
            && self.for_all.shift == 0;
        if same && self.section.offset_delta(record) == self.written {
            self.copy(record);
        } else {
            self.flush()?;
            self.write(record, key, value, headers)?;
        }
        self.written = self.written.checked_add(1).ok_or(Unwritten::TooLarge)?;
        Ok(())
    }

    /// Return the new section.
    ///
    /// # Errors
    /// There is no memory for it.
    pub fn finish(mut self) -> Result<Vec<u8>, Unwritten> {
        self.flush()?;
        Ok(self.out)
    }

    fn copy(&mut self, record: usize) {
        self.run = match self.run {
            Some((first, _)) => Some((first, record)),
            None => Some((record, record)),
        };
    }

    fn flush(&mut self) -> Result<(), Unwritten> {
        if let Some((first, last)) = self.run.take() {
            let run = self.section.run(first, last);
            self.reserve(run.len())?;
            self.out.extend_from_slice(run);
        }
        Ok(())
    }

    fn reserve(&mut self, size: usize) -> Result<(), Unwritten> {
        self.out.try_reserve(size).map_err(|_| Unwritten::OutOfMemory)
    }

    /// Collect a record's headers, and return their number; None where they are its own.
    fn count_headers(
        &mut self,
        record: usize,
        appended: &Appended,
    ) -> Result<Option<i32>, Unwritten> {
        if appended.count == 0 && self.for_all.without.is_empty() {
            return Ok(None);
        }
        let bytes = self.section.record(record);
        let mut own = Headers::of(bytes, self.section.headers_at(record));
        if appended.count == 0 && own.len() == 0 {
            return Ok(None);
        }
        self.headers.clear();
        let all = bytes.len() + appended.bytes.len();
        self.headers.try_reserve(all).map_err(|_| Unwritten::OutOfMemory)?;
        let number = own.len();
        let (mut kept, mut start) = (0_usize, own.position());
        while let Some((key, _)) = own.next() {
            let end = own.position();
            if !self.for_all.without.iter().any(|prefix| key.starts_with(prefix)) {
                kept += 1;
                self.headers.extend_from_slice(&bytes[start..end]);
            }
            start = end;
        }
        if appended.count == 0 && kept == number {
            return Ok(None);
        }
        self.headers.extend_from_slice(&appended.bytes);
        let kept = i32::try_from(kept).map_err(|_| Unwritten::TooLarge)?;
        kept.checked_add(appended.count).ok_or(Unwritten::TooLarge).map(Some)
    }

    fn write(
        &mut self,
        record: usize,
        key: Change<'_>,
        value: Change<'_>,
        headers: Option<i32>,
    ) -> Result<(), Unwritten> {
        let parts = Parts::of(self.section, record);
        let renumbered = self.section.offset_delta(record) != self.written;
        let own = self.section.timestamp_delta(record);
        let mut shifted = Vec::new();
        let timestamp = match (self.for_all.retimed, self.for_all.shift) {
            (true, 0) => ZERO,
            (false, 0) => parts.timestamp,
            (retimed, shift) => {
                shifted.try_reserve(LONG_MAX_BYTES).map_err(|_| Unwritten::OutOfMemory)?;
                put_varlong(&mut shifted, if retimed { shift } else { own.wrapping_add(shift) });
                &shifted
            }
        };
        let headers_size =
            headers.map_or(parts.headers.len(), |count| varint_size(count) + self.headers.len());
        let size = parts.attributes.len()
            + timestamp.len()
            + if renumbered { varint_size(self.written) } else { parts.delta.len() }
            + size_of(key, parts.key)?
            + size_of(value, parts.value)?
            + headers_size;
        let length = i32::try_from(size).map_err(|_| Unwritten::TooLarge)?;
        // All that is appended below.
        self.reserve(LENGTH_MAX_BYTES + size)?;
        put_varint(&mut self.out, length);
        self.out.extend_from_slice(parts.attributes);
        self.out.extend_from_slice(timestamp);
        if renumbered {
            put_varint(&mut self.out, self.written);
        } else {
            self.out.extend_from_slice(parts.delta);
        }
        put(&mut self.out, key, parts.key)?;
        put(&mut self.out, value, parts.value)?;
        if let Some(count) = headers {
            put_varint(&mut self.out, count);
            self.out.extend_from_slice(&self.headers);
        } else {
            self.out.extend_from_slice(parts.headers);
        }
        Ok(())
    }
}

/// The bytes of a record: key, value and headers with their lengths and their number.
struct Parts<'a> {
    attributes: &'a [u8],
    timestamp: &'a [u8],
    delta: &'a [u8],
    key: &'a [u8],
    value: &'a [u8],
    headers: &'a [u8],
}

impl<'a> Parts<'a> {
    fn of(section: &'a Section, record: usize) -> Self {
        let bytes = section.record(record);
        let mut cursor = Cursor::new(bytes, 0);
        // It has been read before: each of these succeeds.
        let _ = cursor.varint();
        let body = cursor.position();
        let _ = cursor.byte();
        let timestamp = cursor.position();
        let _ = cursor.varlong();
        let delta = cursor.position();
        let _ = cursor.varint();
        let key = cursor.position();
        skip(&mut cursor);
        let value = cursor.position();
        let headers = section.headers_at(record);
        Self {
            attributes: &bytes[body..timestamp],
            timestamp: &bytes[timestamp..delta],
            delta: &bytes[delta..key],
            key: &bytes[key..value],
            value: &bytes[value..headers],
            headers: &bytes[headers..],
        }
    }
}

fn skip(cursor: &mut Cursor<'_>) {
    if let Ok(Ok(size)) = cursor.varint().map(usize::try_from) {
        let _ = cursor.take(size);
    }
}

fn size_of(change: Change<'_>, original: &[u8]) -> Result<usize, Unwritten> {
    match change {
        Change::Same => Ok(original.len()),
        Change::New(field) => {
            let size = announced(field)?;
            Ok(varint_size(size) + field.map_or(0, <[u8]>::len))
        }
    }
}

fn put(out: &mut Vec<u8>, change: Change<'_>, original: &[u8]) -> Result<(), Unwritten> {
    match change {
        Change::Same => out.extend_from_slice(original),
        Change::New(field) => {
            put_varint(out, announced(field)?);
            out.extend_from_slice(field.unwrap_or_default());
        }
    }
    Ok(())
}

fn announced(field: Option<&[u8]>) -> Result<i32, Unwritten> {
    field.map_or(Ok(-1), |bytes| i32::try_from(bytes.len()).map_err(|_| Unwritten::TooLarge))
}
