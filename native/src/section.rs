//! A record section, uncompressed: checked once, from its first byte to its last.

use crate::cursor::{Cursor, Unreadable};
use crate::fault::{Fault, Part, Wrong};

/// A record takes no fewer bytes.
const MIN_RECORD_BYTES: usize = 7;
/// Behind as many headers of one record, no part is named.
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

/// A header: its key, which is UTF-8, and its value.
pub type Header<'a> = (&'a str, Option<&'a [u8]>);

/// Why a section cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unread {
    /// It is not what it must be.
    Wrong(Fault),
    /// There is no memory for what it holds.
    OutOfMemory,
}

/// The records of one batch, in memory of its own.
#[derive(Debug)]
pub struct Section {
    bytes: Vec<u8>,
    places: Vec<Place>,
}

impl Section {
    /// Check a section, and find the records in it.
    ///
    /// # Errors
    /// The bytes are not `count` records and nothing else, or there is no memory to say where they are.
    pub fn read(bytes: Vec<u8>, count: usize) -> Result<Self, Unread> {
        // So many cannot be there: it is looked for what is wrong, but a count that lies takes no memory.
        let lies = count > bytes.len() / MIN_RECORD_BYTES;
        let mut places = Vec::new();
        if !lies {
            places.try_reserve_exact(count).map_err(|_| Unread::OutOfMemory)?;
        }
        let mut start = 0;
        for record in 0..count {
            let place = read_record(&bytes, start, record)
                .map_err(|wrong| Unread::Wrong(Fault { record, wrong }))?;
            start += place.size as usize;
            if !lies {
                places.push(place);
            }
        }
        if start != bytes.len() {
            return Err(Unread::Wrong(Fault { record: count, wrong: Wrong::Remaining }));
        }
        Ok(Self { bytes, places })
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
    pub fn keys(&self) -> impl ExactSizeIterator<Item = Option<&[u8]>> {
        self.places.iter().map(|place| self.field(place, place.key))
    }

    /// Return the values, in order.
    pub fn values(&self) -> impl ExactSizeIterator<Item = Option<&[u8]>> {
        self.places.iter().map(|place| self.field(place, place.value))
    }

    /// Return one record's key.
    pub fn key(&self, record: usize) -> Option<&[u8]> {
        let place = &self.places[record];
        self.field(place, place.key)
    }

    /// Return one record's value.
    pub fn value(&self, record: usize) -> Option<&[u8]> {
        let place = &self.places[record];
        self.field(place, place.value)
    }

    /// Return the differences to the batch's base timestamp, in order.
    pub fn timestamp_deltas(&self) -> impl ExactSizeIterator<Item = i64> {
        self.places.iter().map(|place| place.timestamp_delta)
    }

    /// Return one record's difference to the batch's base timestamp.
    pub fn timestamp_delta(&self, record: usize) -> i64 {
        self.places[record].timestamp_delta
    }

    /// Return the headers of each record, in order.
    pub fn headers(&self) -> impl ExactSizeIterator<Item = Headers<'_>> {
        self.places.iter().map(|place| Headers::of(self.of(place), place.headers_at as usize))
    }

    /// Return how many bytes the records take.
    pub const fn size(&self) -> usize {
        self.bytes.len()
    }

    /// Return all bytes of one record, its length included.
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

/// The headers of a record that has been checked.
#[derive(Debug, Clone)]
pub struct Headers<'a> {
    cursor: Cursor<'a>,
    left: usize,
}

impl<'a> Headers<'a> {
    fn of(record: &'a [u8], at: usize) -> Self {
        let mut cursor = Cursor::new(record, at);
        let left = cursor.varint().ok().and_then(|count| usize::try_from(count).ok()).unwrap_or(0);
        Self { cursor, left }
    }
}

impl<'a> Iterator for Headers<'a> {
    type Item = Header<'a>;

    fn next(&mut self) -> Option<Header<'a>> {
        self.left = self.left.checked_sub(1)?;
        let size = usize::try_from(self.cursor.varint().ok()?).ok()?;
        let key = str::from_utf8(self.cursor.take(size)?).ok()?;
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

fn read_record(bytes: &[u8], start: usize, record: usize) -> Result<Place, Wrong> {
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
    if usize::try_from(offset_delta) != Ok(record) {
        return Err(Wrong::Order);
    }
    let key = read_field(&mut cursor, start).ok_or(Wrong::Structure(Part::Key))?;
    let value = read_field(&mut cursor, start).ok_or(Wrong::Structure(Part::Value))?;
    let headers_at = relative(cursor.position(), start);
    let headers = check_headers(&mut cursor)?;
    if cursor.position() != end {
        if headers > HEADERS_MAX {
            return Err(Wrong::Structure(Part::Headers));
        }
        return Err(Wrong::Size { announced: length, read: cursor.position() - body });
    }
    Ok(Place { start, size: relative(end, start), timestamp_delta, key, value, headers_at })
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
fn check_headers(cursor: &mut Cursor<'_>) -> Result<i32, Wrong> {
    let count = cursor.varint().map_err(|_| Wrong::Structure(Part::HeaderCount))?;
    match usize::try_from(count) {
        Err(_) => return Err(Wrong::HeaderCount(count)),
        Ok(count_) if count_ > cursor.remaining() => return Err(Wrong::TooManyHeaders(count)),
        Ok(_) => {}
    }
    for number in 0..count {
        check_header(cursor).map_err(|wrong| {
            if number < HEADERS_MAX { wrong } else { Wrong::Structure(Part::Headers) }
        })?;
    }
    Ok(count)
}

fn check_header(cursor: &mut Cursor<'_>) -> Result<(), Wrong> {
    let size = cursor.varint().map_err(|_| Wrong::Structure(Part::HeaderKey))?;
    let size = usize::try_from(size).map_err(|_| Wrong::HeaderKeySize(size))?;
    let key = cursor.take(size).ok_or(Wrong::Structure(Part::HeaderKey))?;
    if str::from_utf8(key).is_err() {
        return Err(Wrong::HeaderKeyText);
    }
    read_field(cursor, 0).ok_or(Wrong::Structure(Part::HeaderValue))?;
    Ok(())
}

/// A record's length is 31 bits and up to five bytes before it, so this loses nothing.
#[allow(clippy::cast_possible_truncation)]
const fn relative(position: usize, start: usize) -> u32 {
    (position - start) as u32
}
