//! Reads the tokens of a JSON text, in order.

use super::flaw::Flaw;
use super::number::Number;
use super::value::{ESCAPED, Kind, Value};

/// The most digits of a number that certainly fits a double.
const CERTAINLY_FINITE: usize = 300;

/// A text, and how far it has been read.
pub struct Scan<'a> {
    /// The text.
    pub bytes: &'a [u8],
    /// The position of the next byte.
    pub at: usize,
}

impl Scan<'_> {
    /// Return the next byte without passing over it.
    #[inline]
    pub fn peek(&self) -> u8 {
        // JSON has no zero byte outside of strings, so 0 can stand for the end.
        self.bytes.get(self.at).copied().unwrap_or(0)
    }

    /// Pass over white space.
    #[inline]
    pub fn space(&mut self) {
        while matches!(self.peek(), b' ' | b'\n' | b'\r' | b'\t') {
            self.at += 1;
        }
    }

    /// Read anything that is neither an array nor an object.
    ///
    /// # Errors
    ///
    /// There is no valid scalar, or a number is too large.
    #[inline(always)]
    #[allow(clippy::inline_always)] // a value that is returned through memory takes longer to read
    pub fn scalar(&mut self) -> Result<Value, Flaw> {
        let start = self.at;
        let kind = match self.peek() {
            b'"' => return self.string(),
            b't' => self.word(Kind::True, b"true")?,
            b'f' => self.word(Kind::False, b"false")?,
            b'n' => self.word(Kind::Null, b"null")?,
            _ => self.number()?,
        };
        Ok(Value::scalar(kind, 0, start, self.at))
    }

    #[inline]
    fn word(&mut self, kind: Kind, word: &[u8]) -> Result<Kind, Flaw> {
        let start = self.at;
        self.at += word.len();
        if self.bytes.get(start..self.at) == Some(word) { Ok(kind) } else { Err(Flaw::Syntax) }
    }

    /// Read the colon after a name.
    ///
    /// # Errors
    ///
    /// There is no colon.
    #[inline]
    pub fn colon(&mut self) -> Result<(), Flaw> {
        self.space();
        if self.peek() != b':' {
            return Err(Flaw::Syntax);
        }
        self.at += 1;
        self.space();
        Ok(())
    }

    /// Read the comma or bracket after an item or property: true for a comma.
    ///
    /// # Errors
    ///
    /// There is neither a comma nor `close`.
    #[inline]
    pub fn goes_on(&mut self, close: u8) -> Result<bool, Flaw> {
        self.space();
        let found = self.peek();
        self.at += 1;
        if found == b',' {
            self.space();
            return Ok(true);
        }
        if found == close { Ok(false) } else { Err(Flaw::Syntax) }
    }

    /// Return whether a name is next, and is written without escapes.
    #[inline]
    pub fn has_name(&self, name: &Name) -> bool {
        let Some([b'"', rest @ ..]) = self.bytes.get(self.at..) else { return false };
        match rest.split_first_chunk() {
            Some((first, rest)) => {
                u64::from_le_bytes(*first) & name.mask == name.first
                    && (name.rest.is_empty() || rest.starts_with(&name.rest))
            }
            None => rest.starts_with(&name.quoted),
        }
    }

    /// Read a string.
    ///
    /// # Errors
    ///
    /// There is no valid string.
    #[inline(always)]
    #[allow(clippy::inline_always)] // as `scalar`
    pub fn string(&mut self) -> Result<Value, Flaw> {
        let start = self.at + 1;
        let flags = self.pass_string()?;
        Ok(Value::scalar(Kind::String, flags, start, self.at - 1))
    }

    /// Pass over a string; return its flags.
    #[inline]
    fn pass_string(&mut self) -> Result<u8, Flaw> {
        if self.peek() != b'"' {
            return Err(Flaw::Syntax);
        }
        let mut at = self.at + 1;
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
        self.at = at + 1;
        Ok(flags)
    }

    fn number(&mut self) -> Result<Kind, Flaw> {
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
        if may_be_large && Number::is_too_large(&self.bytes[start..self.at]) {
            return Err(Flaw::Range);
        }
        Ok(kind)
    }

    #[inline]
    fn digits(&mut self) -> Result<usize, Flaw> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let count = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.at += count;
        if count == 0 { Err(Flaw::Syntax) } else { Ok(count) }
    }
}

/// A name as most texts write it after the first quote, for a fast comparison.
#[derive(Debug)]
pub struct Name {
    /// With the second quote.
    quoted: Box<[u8]>,
    /// Its first eight bytes, and a mask of those that it has.
    first: u64,
    mask: u64,
    /// The bytes after them.
    rest: Box<[u8]>,
}

impl Name {
    /// Prepare a name that has nothing to escape.
    pub fn new(name: &[u8]) -> Self {
        let quoted = [name, b"\""].concat();
        let (first, rest) = quoted.split_at(quoted.len().min(8));
        let word = |bytes: &[u8]| {
            let mut eight = [0; 8];
            eight[..bytes.len()].copy_from_slice(bytes);
            u64::from_le_bytes(eight)
        };
        let mask = word(&[0xff; 8][..first.len()]);
        Self { first: word(first), mask, rest: rest.into(), quoted: quoted.into() }
    }

    /// Return how many bytes it takes in a text, with both quotes.
    #[inline]
    pub fn length(&self) -> usize {
        self.quoted.len() + 1
    }
}

/// Return the character of an escape, and its length; None if it is not valid.
pub fn escape(bytes: &[u8]) -> Option<(char, usize)> {
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
        // The high bit of a byte is set where it is a quote, a backslash or below a space. A borrow
        // may set more bits above the first, which do not matter.
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
