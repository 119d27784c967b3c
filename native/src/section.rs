//! A record section, uncompressed: checked once, from its first byte to its last.

use std::ops::Range;
use std::sync::Arc;

use crate::cursor::{Cursor, Unreadable};
use crate::fault::{Fault, Part, Wrong};

/// The fewest bytes of a record.
const MIN_RECORD_BYTES: usize = 7;
/// After so many headers of a record, a fault does not name the part.
const HEADERS_MAX: i32 = 10_000;

/// A key or a value: where it begins in its record, and how long it is; negative for null.
#[derive(Debug, Clone, Copy)]
struct Field {
    at: u32,
    size: i32,
}

/// Where the parts of a record are. Relative to its first byte they fit 32 bits, as its length does.
#[derive(Debug, Clone, Copy)]
struct Place {
    start: usize,
    size: u32,
    timestamp_delta: i64,
    key: Field,
    value: Field,
    headers_at: u32,
}

/// A header: its key, which is UTF-8 where a producer sends it, and its value.
pub type Header<'a> = (&'a [u8], Option<&'a [u8]>);

/// Where a section comes from, which decides the valid offset deltas and header keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// From a producer: the offset deltas are 0, 1, 2, ..., and keys of headers are UTF-8.
    Producer,
    /// From a broker's log. Compaction leaves gaps; and brokers store headers with keys of any
    /// bytes, which consumers read.
    Log {
        /// The last offset delta in the batch's header.
        last_offset_delta: i32,
    },
}

/// The offset deltas of the records.
#[derive(Debug)]
enum Deltas {
    /// The delta of the first record; the others follow without gaps.
    From(i32),
    /// The delta of each record.
    Each(Vec<i32>),
}

/// Why a section cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unread {
    /// It has a fault.
    Wrong(Fault),
    /// There is no memory for its records.
    OutOfMemory,
}

/// The records of a batch, in its own memory.
#[derive(Debug)]
pub struct Section {
    bytes: Arc<Vec<u8>>,
    places: Vec<Place>,
    deltas: Deltas,
}

impl Section {
    /// Check a section, and find the records in it.
    ///
    /// # Errors
    /// The bytes are not exactly `count` records, or there is no memory for their places.
    pub fn read(bytes: Vec<u8>, count: usize, origin: Origin) -> Result<Self, Unread> {
        let mut reading = Reading::begin(bytes, count, origin)?;
        reading.read(usize::MAX)?;
        reading.finish()
    }

    /// Return some of the records; their bytes are shared.
    ///
    /// # Errors
    /// There is no memory for their places.
    pub fn part(&self, records: Range<usize>) -> Result<Self, Unread> {
        let first = records.start;
        let places = copied(&self.places[records.clone()])?;
        let deltas = match &self.deltas {
            Deltas::From(_) => Deltas::From(self.offset_delta(first)),
            Deltas::Each(each) => Deltas::of(&each[records])?,
        };
        Ok(Self { bytes: Arc::clone(&self.bytes), places, deltas })
    }

    /// Return the number of records.
    pub const fn len(&self) -> usize {
        self.places.len()
    }

    /// Return whether there is no record.
    pub const fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Return the keys, in order.
    pub fn keys(&self) -> impl ExactSizeIterator<Item = Option<&[u8]>> + Clone {
        self.places.iter().map(|place| self.field(place, place.key))
    }

    /// Return the values, in order.
    pub fn values(&self) -> impl ExactSizeIterator<Item = Option<&[u8]>> + Clone {
        self.places.iter().map(|place| self.field(place, place.value))
    }

    /// Return the rest of every key after a prefix, in order; None where a key does not begin with
    /// it.
    pub fn keys_after<'a>(
        &'a self,
        prefix: &[u8],
    ) -> Option<impl ExactSizeIterator<Item = &'a [u8]>> {
        after(self.keys(), prefix)
    }

    /// Return the rest of every value after a prefix, in order; None where a value does not begin
    /// with it.
    pub fn values_after<'a>(
        &'a self,
        prefix: &[u8],
    ) -> Option<impl ExactSizeIterator<Item = &'a [u8]>> {
        after(self.values(), prefix)
    }

    /// Return a record's key.
    pub fn key(&self, record: usize) -> Option<&[u8]> {
        let place = &self.places[record];
        self.field(place, place.key)
    }

    /// Return a record's value.
    pub fn value(&self, record: usize) -> Option<&[u8]> {
        let place = &self.places[record];
        self.field(place, place.value)
    }

    /// Return the differences to the batch's base timestamp, in order.
    pub fn timestamp_deltas(&self) -> impl ExactSizeIterator<Item = i64> {
        self.places.iter().map(|place| place.timestamp_delta)
    }

    /// Return a record's difference to the batch's base timestamp.
    pub fn timestamp_delta(&self, record: usize) -> i64 {
        self.places[record].timestamp_delta
    }

    /// Return a record's difference to the batch's base offset.
    #[allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap)] // no more than deltas
    pub fn offset_delta(&self, record: usize) -> i32 {
        match &self.deltas {
            Deltas::From(first) => first.wrapping_add(record as i32),
            Deltas::Each(each) => each[record],
        }
    }

    /// Return the differences to the batch's base offset; None if they have no gaps.
    pub fn offset_deltas(&self) -> Option<&[i32]> {
        match &self.deltas {
            Deltas::From(_) => None,
            Deltas::Each(each) => Some(each),
        }
    }

    /// Return the headers of each record, in order.
    pub fn headers(&self) -> impl ExactSizeIterator<Item = Headers<'_>> {
        self.places.iter().map(|place| Headers::of(self.of(place), place.headers_at as usize))
    }

    /// Return whether a record has a header of a name.
    ///
    /// In a key that is not UTF-8, each invalid part is read as U+FFFD.
    pub fn has_header(&self, name: &str) -> bool {
        let may_be_read_as = name.contains(char::REPLACEMENT_CHARACTER);
        self.headers().any(|mut headers| {
            headers.any(|(key, _)| {
                key == name.as_bytes() || may_be_read_as && String::from_utf8_lossy(key) == name
            })
        })
    }

    /// Return how many bytes the records take.
    pub fn size(&self) -> usize {
        match (self.places.first(), self.places.last()) {
            (Some(first), Some(last)) => last.start + last.size as usize - first.start,
            _ => 0,
        }
    }

    /// Return how many bytes of memory are held, by parts of it, too.
    pub fn held_bytes(&self) -> usize {
        let places = self.places.capacity().saturating_mul(size_of::<Place>());
        self.bytes.capacity().saturating_add(places)
    }

    /// Return all bytes of a record, its length included.
    pub fn record(&self, record: usize) -> &[u8] {
        self.of(&self.places[record])
    }

    /// Return all bytes of consecutive records.
    pub fn run(&self, first: usize, last: usize) -> &[u8] {
        let (first, last) = (&self.places[first], &self.places[last]);
        &self.bytes[first.start..last.start + last.size as usize]
    }

    /// Return where a record's headers begin among its bytes, their number first.
    pub fn headers_at(&self, record: usize) -> usize {
        self.places[record].headers_at as usize
    }

    fn of(&self, place: &Place) -> &[u8] {
        &self.bytes[place.start..place.start + place.size as usize]
    }

    #[inline]
    fn field(&self, place: &Place, field: Field) -> Option<&[u8]> {
        let size = usize::try_from(field.size).ok()?;
        let at = place.start + field.at as usize;
        Some(&self.bytes[at..at + size])
    }
}

/// A section of which some records have been read: a large one is read in steps.
#[derive(Debug)]
pub struct Reading {
    bytes: Vec<u8>,
    places: Vec<Place>,
    deltas: Deltas,
    origin: Origin,
    /// How many records there have to be.
    count: usize,
    /// Whether so many do not fit: the fault is found without memory for them.
    lies: bool,
    /// How many have been read.
    record: usize,
    /// Where the next one begins.
    start: usize,
    /// The offset delta of the last one.
    delta: i32,
}

impl Reading {
    /// Begin to read a section.
    ///
    /// # Errors
    /// There is no memory for the places of its records.
    pub fn begin(bytes: Vec<u8>, count: usize, origin: Origin) -> Result<Self, Unread> {
        let lies = count > bytes.len() / MIN_RECORD_BYTES;
        let mut places = Vec::new();
        if !lies {
            places.try_reserve_exact(count).map_err(|_| Unread::OutOfMemory)?;
        }
        let deltas = Deltas::From(0);
        Ok(Self { bytes, places, deltas, origin, count, lies, record: 0, start: 0, delta: -1 })
    }

    /// Check the next records, of which there are no more than `most`.
    ///
    /// # Errors
    /// One of them has a fault, or there is no memory for their places.
    pub fn read(&mut self, most: usize) -> Result<(), Unread> {
        let (mut start, mut delta) = (self.start, self.delta);
        let end = self.record.saturating_add(most).min(self.count);
        for record in self.record..end {
            let (place, next_delta) = read_record(&self.bytes, start, self.origin, delta)
                .map_err(|wrong| Unread::Wrong(Fault { record, wrong }))?;
            delta = next_delta;
            start += place.size as usize;
            if !self.lies {
                self.deltas.push(record, delta, self.count)?;
                self.places.push(place);
            }
        }
        (self.record, self.start, self.delta) = (end, start, delta);
        Ok(())
    }

    /// Return whether all records have been read.
    pub const fn is_over(&self) -> bool {
        self.record == self.count
    }

    /// Return the length that the next record announces; None if it cannot be read.
    pub fn announced(&self) -> Option<usize> {
        usize::try_from(Cursor::new(&self.bytes, self.start).varint().ok()?).ok()
    }

    /// Return how many bytes of memory are held.
    pub const fn held_bytes(&self) -> usize {
        let places = self.places.capacity() * size_of::<Place>();
        self.bytes.capacity().saturating_add(places)
    }

    /// Return the section, of which all records have been read.
    ///
    /// # Errors
    /// Bytes follow after the last record.
    pub fn finish(self) -> Result<Section, Unread> {
        if self.start != self.bytes.len() {
            return Err(Unread::Wrong(Fault { record: self.count, wrong: Wrong::Remaining }));
        }
        Ok(Section { bytes: Arc::new(self.bytes), places: self.places, deltas: self.deltas })
    }
}

/// The headers of a record that has been checked.
#[derive(Debug, Clone)]
pub struct Headers<'a> {
    cursor: Cursor<'a>,
    left: usize,
}

impl<'a> Headers<'a> {
    /// Begin with the number of headers, among the bytes of a record.
    pub fn of(record: &'a [u8], at: usize) -> Self {
        let mut cursor = Cursor::new(record, at);
        let left = cursor.varint().ok().and_then(|count| usize::try_from(count).ok()).unwrap_or(0);
        Self { cursor, left }
    }

    /// Return the position of the next header.
    pub const fn position(&self) -> usize {
        self.cursor.position()
    }
}

impl<'a> Iterator for Headers<'a> {
    type Item = Header<'a>;

    fn next(&mut self) -> Option<Header<'a>> {
        self.left = self.left.checked_sub(1)?;
        let size = usize::try_from(self.cursor.varint().ok()?).ok()?;
        let key = self.cursor.take(size)?;
        let value = match usize::try_from(self.cursor.varint().ok()?) {
            Ok(size) => Some(self.cursor.take(size)?),
            Err(_) => None,
        };
        Some((key, value))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Headers<'_> {}

impl Deltas {
    fn of(each: &[i32]) -> Result<Self, Unread> {
        match each {
            [] => Ok(Self::From(0)),
            // They ascend.
            [first, .., last] if usize::try_from(last - first) != Ok(each.len() - 1) => {
                Ok(Self::Each(copied(each)?))
            }
            [first, ..] => Ok(Self::From(*first)),
        }
    }

    fn push(&mut self, record: usize, delta: i32, count: usize) -> Result<(), Unread> {
        match self {
            Self::From(first) if record == 0 => *first = delta,
            Self::From(first) if usize::try_from(delta - *first) == Ok(record) => {}
            Self::From(first) => {
                let mut each = Vec::new();
                each.try_reserve_exact(count).map_err(|_| Unread::OutOfMemory)?;
                each.extend((*first..).take(record));
                each.push(delta);
                *self = Self::Each(each);
            }
            Self::Each(each) => each.push(delta),
        }
        Ok(())
    }
}

impl Origin {
    const fn check(self, delta: i32, before: i32) -> Result<(), Wrong> {
        match self {
            // The first delta follows -1.
            Self::Producer if delta.wrapping_sub(1) == before && delta >= 0 => Ok(()),
            Self::Log { last_offset_delta } if before < delta && delta <= last_offset_delta => {
                Ok(())
            }
            Self::Producer => Err(Wrong::Order),
            Self::Log { .. } => Err(Wrong::Descending),
        }
    }

    fn check_header_key(self, key: &[u8]) -> Result<(), Wrong> {
        if self == Self::Producer && str::from_utf8(key).is_err() {
            return Err(Wrong::HeaderKeyText);
        }
        Ok(())
    }
}

fn after<'a, F>(
    fields: F,
    prefix: &[u8],
) -> Option<impl ExactSizeIterator<Item = &'a [u8]> + use<'a, F>>
where
    F: ExactSizeIterator<Item = Option<&'a [u8]>> + Clone,
{
    let size = prefix.len();
    let begins = |field: Option<&[u8]>| field.is_some_and(|field| field.starts_with(prefix));
    if !fields.clone().all(begins) {
        return None;
    }
    Some(fields.map(move |field| field.and_then(|field| field.get(size..)).unwrap_or_default()))
}

fn copied<T: Copy>(some: &[T]) -> Result<Vec<T>, Unread> {
    let mut all = Vec::new();
    all.try_reserve_exact(some.len()).map_err(|_| Unread::OutOfMemory)?;
    all.extend_from_slice(some);
    Ok(all)
}

fn read_record(
    bytes: &[u8],
    start: usize,
    origin: Origin,
    delta_before: i32,
) -> Result<(Place, i32), Wrong> {
    let mut outer = Cursor::new(bytes, start);
    let length = outer.varint().map_err(|why| match why {
        Unreadable::Ended => Wrong::Ended,
        Unreadable::Overlong => Wrong::Structure(Part::Length),
    })?;
    let length = usize::try_from(length).map_err(|_| Wrong::Structure(Part::Length))?;
    let body = outer.position();
    let end = body + length;
    // The parts of a record are looked for within it only.
    let mut cursor = Cursor::new(bytes.get(..end).ok_or(Wrong::Ended)?, body);
    if cursor.byte().is_none_or(|attributes| attributes > 0x7F) {
        return Err(Wrong::Structure(Part::Attributes));
    }
    let timestamp_delta = cursor.varlong().map_err(|_| Wrong::Structure(Part::Timestamp))?;
    let offset_delta = cursor.varint().map_err(|_| Wrong::Structure(Part::OffsetDelta))?;
    origin.check(offset_delta, delta_before)?;
    let key = read_field(&mut cursor, start).ok_or(Wrong::Structure(Part::Key))?;
    let value = read_field(&mut cursor, start).ok_or(Wrong::Structure(Part::Value))?;
    let headers_at = relative(cursor.position(), start);
    let headers = check_headers(&mut cursor, origin)?;
    if cursor.position() != end {
        if headers > HEADERS_MAX {
            return Err(Wrong::Structure(Part::Headers));
        }
        return Err(Wrong::Size { announced: length, read: cursor.position() - body });
    }
    let size = relative(end, start);
    Ok((Place { start, size, timestamp_delta, key, value, headers_at }, offset_delta))
}

#[inline]
fn read_field(cursor: &mut Cursor<'_>, start: usize) -> Option<Field> {
    let size = cursor.varint().ok()?;
    let at = relative(cursor.position(), start);
    if let Ok(size) = usize::try_from(size) {
        cursor.take(size)?;
    }
    Some(Field { at, size })
}

#[inline]
fn check_headers(cursor: &mut Cursor<'_>, origin: Origin) -> Result<i32, Wrong> {
    let count = cursor.varint().map_err(|_| Wrong::Structure(Part::HeaderCount))?;
    match usize::try_from(count) {
        Err(_) => return Err(Wrong::HeaderCount(count)),
        Ok(count_) if count_ > cursor.remaining() => return Err(Wrong::TooManyHeaders(count)),
        Ok(_) => {}
    }
    for number in 0..count {
        check_header(cursor, origin).map_err(|wrong| {
            if number < HEADERS_MAX { wrong } else { Wrong::Structure(Part::Headers) }
        })?;
    }
    Ok(count)
}

fn check_header(cursor: &mut Cursor<'_>, origin: Origin) -> Result<(), Wrong> {
    let size = cursor.varint().map_err(|_| Wrong::Structure(Part::HeaderKey))?;
    let size = usize::try_from(size).map_err(|_| Wrong::HeaderKeySize(size))?;
    let key = cursor.take(size).ok_or(Wrong::Structure(Part::HeaderKey))?;
    origin.check_header_key(key)?;
    read_field(cursor, 0).ok_or(Wrong::Structure(Part::HeaderValue))?;
    Ok(())
}

/// A record's length is 31 bits and up to five bytes before it, so this loses nothing.
#[allow(clippy::cast_possible_truncation)]
const fn relative(position: usize, start: usize) -> u32 {
    (position - start) as u32
}
