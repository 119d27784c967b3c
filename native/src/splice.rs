//! A record section made of another one: without some records, with other keys and values.
//!
//! What is not changed keeps its bytes, also where another writer would choose others: only
//! lengths and offset deltas are written anew, and only where they differ.

use crate::cursor::{Cursor, put_varint, varint_size};
use crate::section::Section;

/// What becomes of a key or a value.
#[derive(Debug, Clone, Copy)]
pub enum Change<'a> {
    /// It stays.
    Same,
    /// It is another one, or null.
    New(Option<&'a [u8]>),
}

/// Why a section cannot be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unwritten {
    /// A record would be longer than a record may be.
    TooLarge,
    /// There is no memory for it.
    OutOfMemory,
}

/// A length takes no more bytes.
const LENGTH_MAX_BYTES: usize = 5;

/// Writes the new section, one record after the other.
#[derive(Debug)]
pub struct Splicer<'a> {
    section: &'a Section,
    out: Vec<u8>,
    written: usize,
    /// Records that are copied together: the first and the last of them.
    run: Option<(usize, usize)>,
}

impl<'a> Splicer<'a> {
    /// Begin with nothing, and room for `size` bytes.
    ///
    /// # Errors
    /// There is no memory for as many.
    pub fn new(section: &'a Section, size: usize) -> Result<Self, Unwritten> {
        let mut out = Vec::new();
        out.try_reserve_exact(size).map_err(|_| Unwritten::OutOfMemory)?;
        Ok(Self { section, out, written: 0, run: None })
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
    ) -> Result<(), Unwritten> {
        let same = matches!((key, value), (Change::Same, Change::Same));
        if same && record == self.written {
            self.copy(record);
        } else {
            self.flush()?;
            self.write(record, key, value)?;
        }
        self.written += 1;
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

    fn write(
        &mut self,
        record: usize,
        key: Change<'_>,
        value: Change<'_>,
    ) -> Result<(), Unwritten> {
        let parts = Parts::of(self.section, record);
        let delta = i32::try_from(self.written).map_err(|_| Unwritten::TooLarge)?;
        let renumbered = record != self.written;
        let size = parts.before.len()
            + if renumbered { varint_size(delta) } else { parts.delta.len() }
            + size_of(key, parts.key)?
            + size_of(value, parts.value)?
            + parts.headers.len();
        let length = i32::try_from(size).map_err(|_| Unwritten::TooLarge)?;
        // All that is appended below.
        self.reserve(LENGTH_MAX_BYTES + size)?;
        put_varint(&mut self.out, length);
        self.out.extend_from_slice(parts.before);
        if renumbered {
            put_varint(&mut self.out, delta);
        } else {
            self.out.extend_from_slice(parts.delta);
        }
        put(&mut self.out, key, parts.key)?;
        put(&mut self.out, value, parts.value)?;
        self.out.extend_from_slice(parts.headers);
        Ok(())
    }
}

/// The bytes of a record: attributes and timestamp; its offset delta; key, value and headers, with
/// their lengths and their number.
struct Parts<'a> {
    before: &'a [u8],
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
        let _ = (cursor.byte(), cursor.varlong());
        let delta = cursor.position();
        let _ = cursor.varint();
        let key = cursor.position();
        skip(&mut cursor);
        let value = cursor.position();
        let headers = section.headers_at(record);
        Self {
            before: &bytes[body..delta],
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
