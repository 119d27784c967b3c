//! Reads a JSON text into a flat list of its values; nothing is copied but their places.
//!
//! JSON here is UTF-8 without a byte order mark: one document with nothing but white space after
//! it, at most `MAX_LEVELS` levels, no halves of surrogate pairs, no number that is too large for
//! a double.

use std::borrow::Cow;

use super::flaw::Flaw;
use super::number::Number;
use super::scan::{Scan, escape};
use super::value::{ESCAPED, Kind, REPLACED, UNIQUE, Value};

/// How many arrays and objects may be inside each other.
pub const MAX_LEVELS: usize = 127;

/// A text that has been read; kept for the next text, so that nothing is allocated again.
#[derive(Default)]
pub struct Values {
    list: Vec<Value>,
}

impl Values {
    /// Return how many bytes of memory are held.
    pub const fn held_bytes(&self) -> usize {
        self.list.capacity().saturating_mul(size_of::<Value>())
    }
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
    /// It is not valid JSON.
    pub fn read(bytes: &'a [u8], values: &'a mut Values) -> Result<Self, Flaw> {
        Self::read_levels(bytes, values, MAX_LEVELS)
    }

    /// Read a text with at most `levels` levels.
    ///
    /// # Errors
    ///
    /// It is not valid JSON.
    pub fn read_levels(
        bytes: &'a [u8],
        values: &'a mut Values,
        levels: usize,
    ) -> Result<Self, Flaw> {
        let mut text = Self::unread(bytes, values)?;
        text.read_all(levels)?;
        Ok(text)
    }

    /// Take a text of which no value is known yet.
    ///
    /// # Errors
    ///
    /// It is too long, or not UTF-8.
    pub fn unread(bytes: &'a [u8], values: &'a mut Values) -> Result<Self, Flaw> {
        if u32::try_from(bytes.len()).is_err() {
            return Err(Flaw::Length);
        }
        if std::str::from_utf8(bytes).is_err() {
            return Err(Flaw::Utf8);
        }
        Ok(Self { bytes, values })
    }

    /// Read the whole text; its values are known then.
    ///
    /// # Errors
    ///
    /// It is not valid JSON.
    pub fn read_all(&mut self, levels: usize) -> Result<(), Flaw> {
        let mut scan = self.scan();
        scan.space();
        self.read_next(&mut scan, levels)?;
        scan.space();
        if scan.at < self.bytes.len() { Err(Flaw::Syntax) } else { Ok(()) }
    }

    /// Read only the next value: it has the position 0.
    ///
    /// # Errors
    ///
    /// There is no valid value.
    pub fn read_next(&mut self, scan: &mut Scan<'a>, levels: usize) -> Result<(), Flaw> {
        self.values.list.clear();
        let mut reader = Reader { scan, list: &mut self.values.list, levels };
        reader.value()
    }

    /// Keep only a scalar: it has the position 0.
    #[inline]
    pub fn know(&mut self, scalar: Value) {
        self.values.list.clear();
        self.values.list.push(Value { next: 1, ..scalar });
    }

    /// Return the text, to read its tokens from the start.
    pub fn scan(&self) -> Scan<'a> {
        Scan { bytes: self.bytes, at: 0 }
    }

    /// Return a value by its position.
    #[inline]
    pub fn at(&self, position: u32) -> Value {
        self.values.list[position as usize]
    }

    /// Return the bytes of a scalar in the text; a string without its quotes.
    #[inline]
    pub fn raw(&self, value: Value) -> &'a [u8] {
        &self.bytes[value.start as usize..(value.start + value.len) as usize]
    }

    /// Return the bytes of a string where it has no escapes.
    #[inline]
    pub fn plain(&self, value: Value) -> Option<&'a [u8]> {
        (value.flags & ESCAPED == 0).then(|| self.raw(value))
    }

    /// Return the content of a string.
    pub fn string(&self, value: Value) -> Cow<'a, str> {
        let raw = std::str::from_utf8(self.raw(value)).unwrap_or_default();
        if value.flags & ESCAPED == 0 { Cow::Borrowed(raw) } else { Cow::Owned(unescaped(raw)) }
    }

    /// Return the value of a number.
    pub fn number(&self, value: Value) -> Number {
        Number::parse(self.raw(value), value.kind == Kind::Whole)
    }

    /// Compare two numbers.
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

    /// Return whether a property counts: no later property has its name.
    #[inline]
    pub fn counts(&self, name: Value) -> bool {
        name.flags & REPLACED == 0
    }

    /// Mark the properties of an object that later properties replace.
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
        // The default hasher has random keys: names that collide cannot be prepared.
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

struct Reader<'r, 'a> {
    scan: &'r mut Scan<'a>,
    list: &'r mut Vec<Value>,
    levels: usize,
}

impl Reader<'_, '_> {
    fn value(&mut self) -> Result<(), Flaw> {
        match self.scan.peek() {
            b'{' => self.inside(Kind::Object, b'}'),
            b'[' => self.inside(Kind::Array, b']'),
            _ => {
                let value = self.scan.scalar()?;
                self.push(value);
                Ok(())
            }
        }
    }

    #[inline]
    #[allow(clippy::cast_possible_truncation)] // no text is longer than 4 GB
    fn push(&mut self, value: Value) {
        let next = self.list.len() as u32 + 1;
        self.list.push(Value { next, ..value });
    }

    #[allow(clippy::cast_possible_truncation)]
    fn inside(&mut self, kind: Kind, close: u8) -> Result<(), Flaw> {
        if self.levels == 0 {
            return Err(Flaw::Levels);
        }
        self.levels -= 1;
        let own = self.list.len();
        self.push(Value::scalar(kind, 0, self.scan.at, self.scan.at));
        self.scan.at += 1;
        self.scan.space();
        let mut count = 0;
        let mut goes_on = self.scan.peek() != close;
        self.scan.at += usize::from(!goes_on);
        while goes_on {
            if kind == Kind::Object {
                let name = self.scan.string()?;
                self.push(name);
                self.scan.colon()?;
            }
            self.value()?;
            count += 1;
            goes_on = self.scan.goes_on(close)?;
        }
        self.levels += 1;
        let next = self.list.len() as u32;
        let own = &mut self.list[own];
        own.len = count;
        own.next = next;
        Ok(())
    }
}
