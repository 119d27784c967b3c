//! Reads a JSON text into a flat list of its values; nothing is copied but their places.
//!
//! What JSON is here: UTF-8 without a byte order mark, one document with nothing behind it but
//! white space, at most `MAX_LEVELS` levels, no halves of surrogate pairs, no number that is too
//! large for a double.

use std::borrow::Cow;

use super::number::Number;

/// How many arrays and objects may be inside each other.
pub const MAX_LEVELS: usize = 127;
/// Up to how many digits a number cannot be too large for a double.
const CERTAINLY_FINITE: usize = 300;

/// Why a text is not one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// It is not JSON.
    Syntax,
    /// It is not UTF-8.
    Utf8,
    /// It has more levels than are allowed.
    Levels,
    /// It has a number that no double can hold.
    Range,
    /// It is longer than 4 GB.
    Length,
}

/// What a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `null`
    Null,
    /// `false`
    False,
    /// `true`
    True,
    /// A number without a fraction and without an exponent.
    Whole,
    /// Any other number.
    Decimal,
    /// A string, or the name of a property.
    String,
    /// An array.
    Array,
    /// An object.
    Object,
}

/// One value. An array's items follow it; an object's names do, each followed by its value.
#[derive(Clone, Copy, Debug)]
pub struct Value {
    /// What it is.
    pub kind: Kind,
    /// Of strings: whether there are escapes. Of names: whether a later one of the same object
    /// is equal, so that this does not count. Of objects: whether that has been looked at.
    flags: u8,
    /// Where it starts in the text; a string behind its quote.
    start: u32,
    /// How many bytes it has, without quotes; how many items or properties.
    pub len: u32,
    /// The position of the value that follows all that is inside.
    pub next: u32,
}

const ESCAPED: u8 = 1;
const REPLACED: u8 = 2;
const UNIQUE: u8 = 4;

/// A text that has been read; kept for the next one, so that nothing is allocated anew.
#[derive(Default)]
pub struct Values {
    list: Vec<Value>,
}

/// A text with its values.
pub struct Text<'a> {
    bytes: &'a [u8],
    values: &'a mut Values,
}

impl<'a> Text<'a> {
    /// Read a text.
    ///
    /// # Errors
    ///
    /// It is not JSON as it is meant here.
    pub fn read(bytes: &'a [u8], values: &'a mut Values) -> Result<Self, Flaw> {
        Self::read_levels(bytes, values, MAX_LEVELS)
    }

    /// Read a text with as many levels as are given.
    ///
    /// # Errors
    ///
    /// It is not JSON as it is meant here.
    pub fn read_levels(
        bytes: &'a [u8],
        values: &'a mut Values,
        levels: usize,
    ) -> Result<Self, Flaw> {
        if u32::try_from(bytes.len()).is_err() {
            return Err(Flaw::Length);
        }
        if std::str::from_utf8(bytes).is_err() {
            return Err(Flaw::Utf8);
        }
        values.list.clear();
        let mut reader = Reader { bytes, at: 0, list: &mut values.list, levels };
        reader.space();
        reader.value()?;
        reader.space();
        if reader.at < bytes.len() {
            return Err(Flaw::Syntax);
        }
        Ok(Self { bytes, values })
    }

    /// Return a value by its position.
    #[inline]
    pub fn at(&self, position: u32) -> Value {
        self.values.list[position as usize]
    }

    /// Return the bytes of a scalar as they are written, a string without its quotes.
    #[inline]
    pub fn raw(&self, value: Value) -> &'a [u8] {
        &self.bytes[value.start as usize..(value.start + value.len) as usize]
    }

    /// Return the bytes of a string where it has no escapes.
    #[inline]
    pub fn plain(&self, value: Value) -> Option<&'a [u8]> {
        (value.flags & ESCAPED == 0).then(|| self.raw(value))
    }

    /// Return what a string says.
    pub fn string(&self, value: Value) -> Cow<'a, str> {
        let raw = std::str::from_utf8(self.raw(value)).unwrap_or_default();
        if value.flags & ESCAPED == 0 { Cow::Borrowed(raw) } else { Cow::Owned(unescaped(raw)) }
    }

    /// Return what a number is.
    pub fn number(&self, value: Value) -> Number {
        Number::parse(self.raw(value), value.kind == Kind::Whole)
    }

    /// Compare a number with another one.
    #[inline]
    pub fn order(&self, value: Value, other: Number) -> std::cmp::Ordering {
        let raw = self.raw(value);
        if let (Kind::Decimal, Number::Whole(other)) = (value.kind, other)
            && let Some(order) = Number::order_by_whole_part(raw, other)
        {
            return order;
        }
        self.number(value).compare(other)
    }

    /// Return where a value stands in the text, a string with its quotes.
    pub fn span(&self, position: u32) -> (usize, usize) {
        let value = self.at(position);
        let start = value.start as usize;
        match value.kind {
            Kind::String => (start - 1, start + value.len as usize + 1),
            Kind::Array | Kind::Object => (start, self.end(position)),
            _ => (start, start + value.len as usize),
        }
    }

    fn end(&self, position: u32) -> usize {
        let mut at = match self.last_inside(position) {
            Some(last) => self.span(last).1,
            None => self.at(position).start as usize + 1,
        };
        // Nothing but white space is between the last value and the bracket.
        while !matches!(self.bytes[at], b']' | b'}') {
            at += 1;
        }
        at + 1
    }

    fn last_inside(&self, position: u32) -> Option<u32> {
        let value = self.at(position);
        let names = u32::from(value.kind == Kind::Object);
        let mut last = None;
        let mut child = position + 1;
        for _ in 0..value.len {
            last = Some(child + names);
            child = self.at(child + names).next;
        }
        last
    }

    /// Return whether a property counts: no later one has its name.
    #[inline]
    pub fn counts(&self, name: Value) -> bool {
        name.flags & REPLACED == 0
    }

    /// Mark the properties of an object that later ones replace.
    ///
    /// Returns whether there are any that had not been marked before.
    pub fn replace(&mut self, object: u32) -> bool {
        let value = self.at(object);
        if value.flags & UNIQUE != 0 {
            return false;
        }
        self.values.list[object as usize].flags |= UNIQUE;
        let mut names = Vec::with_capacity(value.len as usize);
        let mut child = object + 1;
        for _ in 0..value.len {
            names.push(child);
            child = self.at(child + 1).next;
        }
        let replaced = if names.len() <= 8 { self.few(&names) } else { self.many(&names) };
        for &position in &replaced {
            self.values.list[position as usize].flags |= REPLACED;
        }
        !replaced.is_empty()
    }

    fn few(&self, names: &[u32]) -> Vec<u32> {
        let texts: Vec<_> = names.iter().map(|&name| self.string(self.at(name))).collect();
        let later = |at: usize| texts[at + 1..].contains(&texts[at]);
        (0..names.len()).filter(|&at| later(at)).map(|at| names[at]).collect()
    }

    fn many(&self, names: &[u32]) -> Vec<u32> {
        // The default hasher has keys of its own: names that collide cannot be prepared.
        let mut seen = std::collections::HashSet::with_capacity(names.len());
        let mut replaced = Vec::new();
        for &name in names.iter().rev() {
            if !seen.insert(self.string(self.at(name))) {
                replaced.push(name);
            }
        }
        replaced
    }
}

/// Return the text of a string with its escapes replaced; they have been checked.
fn unescaped(raw: &str) -> String {
    let mut out = String::with_capacity(raw.len());
    let mut rest = raw;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        let (read, length) = escape(&rest.as_bytes()[at..]).unwrap_or(('\u{fffd}', 2));
        out.push(read);
        rest = &rest[at + length..];
    }
    out.push_str(rest);
    out
}

/// Return what an escape means, and its length; None where it is none.
fn escape(bytes: &[u8]) -> Option<(char, usize)> {
    let simple = match bytes.get(1)? {
        b'"' => '"',
        b'\\' => '\\',
        b'/' => '/',
        b'b' => '\u{8}',
        b'f' => '\u{c}',
        b'n' => '\n',
        b'r' => '\r',
        b't' => '\t',
        b'u' => return unicode(bytes),
        _ => return None,
    };
    Some((simple, 2))
}

fn unicode(bytes: &[u8]) -> Option<(char, usize)> {
    let first = four_digits(bytes.get(2..6)?)?;
    if let Some(read) = char::from_u32(first) {
        return Some((read, 6));
    }
    if first >= 0xdc00 || bytes.get(6..8)? != b"\\u" {
        return None;
    }
    let second = four_digits(bytes.get(8..12)?)?;
    if !(0xdc00..0xe000).contains(&second) {
        return None;
    }
    char::from_u32(0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00)).map(|read| (read, 12))
}

fn four_digits(bytes: &[u8]) -> Option<u32> {
    bytes.iter().try_fold(0, |sum, &byte| Some(sum * 16 + char::from(byte).to_digit(16)?))
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    list: &'a mut Vec<Value>,
    levels: usize,
}

impl Reader<'_> {
    #[inline]
    fn peek(&self) -> u8 {
        // No JSON has a zero byte outside of a string, so the end can be one.
        self.bytes.get(self.at).copied().unwrap_or(0)
    }

    #[inline]
    fn space(&mut self) {
        while matches!(self.peek(), b' ' | b'\n' | b'\r' | b'\t') {
            self.at += 1;
        }
    }

    #[inline]
    #[allow(clippy::cast_possible_truncation)] // no text is longer than 4 GB
    fn push(&mut self, kind: Kind, flags: u8, start: usize, end: usize) {
        let next = self.list.len() as u32 + 1;
        self.list.push(Value { kind, flags, start: start as u32, len: (end - start) as u32, next });
    }

    fn value(&mut self) -> Result<(), Flaw> {
        match self.peek() {
            b'"' => self.string(),
            b'{' => self.inside(Kind::Object, b'}'),
            b'[' => self.inside(Kind::Array, b']'),
            b't' => self.word(Kind::True, b"true"),
            b'f' => self.word(Kind::False, b"false"),
            b'n' => self.word(Kind::Null, b"null"),
            _ => self.number(),
        }
    }

    fn word(&mut self, kind: Kind, word: &[u8]) -> Result<(), Flaw> {
        let end = self.at + word.len();
        if self.bytes.get(self.at..end) != Some(word) {
            return Err(Flaw::Syntax);
        }
        self.push(kind, 0, self.at, end);
        self.at = end;
        Ok(())
    }

    #[allow(clippy::cast_possible_truncation)]
    fn inside(&mut self, kind: Kind, close: u8) -> Result<(), Flaw> {
        if self.levels == 0 {
            return Err(Flaw::Levels);
        }
        self.levels -= 1;
        let own = self.list.len();
        self.push(kind, 0, self.at, self.at);
        self.at += 1;
        self.space();
        let mut count = 0;
        if self.peek() == close {
            self.at += 1;
        } else {
            loop {
                if kind == Kind::Object {
                    self.name()?;
                }
                self.value()?;
                count += 1;
                self.space();
                let found = self.peek();
                self.at += 1;
                if found == close {
                    break;
                }
                if found != b',' {
                    return Err(Flaw::Syntax);
                }
                self.space();
            }
        }
        self.levels += 1;
        let next = self.list.len() as u32;
        let own = &mut self.list[own];
        own.len = count;
        own.next = next;
        Ok(())
    }

    #[inline]
    fn name(&mut self) -> Result<(), Flaw> {
        if self.peek() != b'"' {
            return Err(Flaw::Syntax);
        }
        self.string()?;
        self.space();
        if self.peek() != b':' {
            return Err(Flaw::Syntax);
        }
        self.at += 1;
        self.space();
        Ok(())
    }

    #[inline]
    fn string(&mut self) -> Result<(), Flaw> {
        let start = self.at + 1;
        let mut at = start;
        let mut flags = 0;
        loop {
            at += ordinary(&self.bytes[at..]);
            match self.bytes.get(at) {
                Some(b'"') => break,
                Some(b'\\') => {
                    flags = ESCAPED;
                    at += escape(&self.bytes[at..]).ok_or(Flaw::Syntax)?.1;
                }
                _ => return Err(Flaw::Syntax),
            }
        }
        self.push(Kind::String, flags, start, at);
        self.at = at + 1;
        Ok(())
    }

    fn number(&mut self) -> Result<(), Flaw> {
        let start = self.at;
        if self.peek() == b'-' {
            self.at += 1;
        }
        let first = self.peek();
        let digits = self.digits()?;
        if first == b'0' && digits > 1 {
            return Err(Flaw::Syntax);
        }
        let mut kind = Kind::Whole;
        let mut may_be_large = digits > CERTAINLY_FINITE;
        if self.peek() == b'.' {
            kind = Kind::Decimal;
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.peek(), b'e' | b'E') {
            kind = Kind::Decimal;
            may_be_large = true;
            self.at += 1;
            if matches!(self.peek(), b'+' | b'-') {
                self.at += 1;
            }
            self.digits()?;
        }
        self.push(kind, 0, start, self.at);
        if may_be_large && Number::is_too_large(&self.bytes[start..self.at]) {
            return Err(Flaw::Range);
        }
        Ok(())
    }

    #[inline]
    fn digits(&mut self) -> Result<usize, Flaw> {
        let start = self.at;
        while self.peek().is_ascii_digit() {
            self.at += 1;
        }
        if self.at == start { Err(Flaw::Syntax) } else { Ok(self.at - start) }
    }
}

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGH: u64 = 0x8080_8080_8080_8080;

/// Return how many bytes come before the first quote, backslash or control character.
#[inline]
fn ordinary(bytes: &[u8]) -> usize {
    let mut at = 0;
    for eight in bytes.chunks_exact(8) {
        let word = u64::from_le_bytes(eight.try_into().unwrap_or_default());
        let quote = word ^ (ONES * u64::from(b'"'));
        let slash = word ^ (ONES * u64::from(b'\\'));
        // Of each the high bit is set where the byte is zero, or below a space; what a borrow
        // sets above the first one does not matter.
        let found = (quote.wrapping_sub(ONES) & !quote)
            | (slash.wrapping_sub(ONES) & !slash)
            | (word.wrapping_sub(ONES * 0x20) & !word);
        if found & HIGH != 0 {
            return at + ((found & HIGH).trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    let rest = &bytes[at..];
    at + rest
        .iter()
        .position(|&byte| byte < 0x20 || byte == b'"' || byte == b'\\')
        .unwrap_or(rest.len())
}
