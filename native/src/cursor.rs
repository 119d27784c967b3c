//! A place in bytes that are not trusted: nothing is read past their end.

/// The most bytes of a varint of 32 bits. The last byte has four bits: readers treat more bits
/// differently, so they are refused.
const VARINT_MAX_BYTES: usize = 5;
const VARINT_LAST_BYTE_MAX: u8 = 0x0F;
const VARLONG_MAX_BYTES: usize = 10;
const VARLONG_LAST_BYTE_MAX: u8 = 0x7F;

/// Why a number cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unreadable {
    /// The bytes end within it.
    Ended,
    /// It takes more bits than a number has.
    Overlong,
}

/// Reads numbers and fields, one after the other.
#[derive(Debug, Clone, Copy)]
pub struct Cursor<'a> {
    bytes: &'a [u8],
    position: usize,
}

impl<'a> Cursor<'a> {
    /// Begin at a position, which may be the end.
    pub const fn new(bytes: &'a [u8], position: usize) -> Self {
        Self { bytes, position }
    }

    /// Return the position of the next byte.
    pub const fn position(&self) -> usize {
        self.position
    }

    /// Return how many bytes are left.
    pub const fn remaining(&self) -> usize {
        self.bytes.len().saturating_sub(self.position)
    }

    /// Read a byte, if any is left.
    #[inline]
    pub fn byte(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.position)?;
        self.position += 1;
        Some(byte)
    }

    /// Read a field of a known size, if so many bytes are left.
    #[inline]
    pub fn take(&mut self, size: usize) -> Option<&'a [u8]> {
        let end = self.position.checked_add(size)?;
        let field = self.bytes.get(self.position..end)?;
        self.position = end;
        Some(field)
    }

    /// Read a signed number of 32 bits.
    ///
    /// # Errors
    /// The bytes end within it, or it takes more than 32 bits.
    #[inline]
    pub fn varint(&mut self) -> Result<i32, Unreadable> {
        let raw = self.unsigned(VARINT_MAX_BYTES, VARINT_LAST_BYTE_MAX)?;
        #[allow(clippy::cast_possible_truncation)]
        let raw = raw as u32;
        Ok((raw >> 1).cast_signed() ^ -(raw & 1).cast_signed())
    }

    /// Read a signed number of 64 bits.
    ///
    /// # Errors
    /// The bytes end within it, or it takes more than ten of them.
    #[inline]
    pub fn varlong(&mut self) -> Result<i64, Unreadable> {
        let raw = self.unsigned(VARLONG_MAX_BYTES, VARLONG_LAST_BYTE_MAX)?;
        Ok((raw >> 1).cast_signed() ^ -(raw & 1).cast_signed())
    }

    #[inline]
    fn unsigned(&mut self, most: usize, last_max: u8) -> Result<u64, Unreadable> {
        let mut value = 0_u64;
        for place in 0..most - 1 {
            let byte = self.byte().ok_or(Unreadable::Ended)?;
            value |= u64::from(byte & 0x7F) << (7 * place);
            if byte < 0x80 {
                return Ok(value);
            }
        }
        let last = self.byte().ok_or(Unreadable::Ended)?;
        if last > last_max {
            return Err(Unreadable::Overlong);
        }
        Ok(value | u64::from(last) << (7 * (most - 1)))
    }
}

/// Append a signed number in as few bytes as it takes.
pub fn put_varint(out: &mut Vec<u8>, number: i32) {
    let mut raw = zigzag(number);
    while raw > 0x7F {
        out.push(raw.to_le_bytes()[0] | 0x80);
        raw >>= 7;
    }
    out.push(raw.to_le_bytes()[0]);
}

/// Append a signed number of 64 bits in as few bytes as it takes: at most ten.
pub fn put_varlong(out: &mut Vec<u8>, number: i64) {
    let mut raw = ((number << 1) ^ (number >> 63)).cast_unsigned();
    while raw > 0x7F {
        out.push(raw.to_le_bytes()[0] | 0x80);
        raw >>= 7;
    }
    out.push(raw.to_le_bytes()[0]);
}

/// Return how many bytes `put_varint` appends.
pub const fn varint_size(number: i32) -> usize {
    let bits = 32 - (zigzag(number) | 1).leading_zeros() as usize;
    bits.div_ceil(7)
}

const fn zigzag(number: i32) -> u32 {
    ((number << 1) ^ (number >> 31)).cast_unsigned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back() {
        for number in [0, -1, 1, 63, 64, -64, -65, 8191, 8192, i32::MAX, i32::MIN] {
            let mut bytes = Vec::new();
            put_varint(&mut bytes, number);
            assert_eq!(bytes.len(), varint_size(number));
            let mut cursor = Cursor::new(&bytes, 0);
            assert_eq!(cursor.varint(), Ok(number));
            assert_eq!(cursor.remaining(), 0);
            assert_eq!(Cursor::new(&bytes, 0).varlong(), Ok(i64::from(number)));
        }
    }

    #[test]
    fn long_numbers_come_back() {
        for number in [0, -1, 64, -65, 1 << 40, i64::MAX, i64::MIN] {
            let mut bytes = Vec::new();
            put_varlong(&mut bytes, number);
            let mut cursor = Cursor::new(&bytes, 0);
            assert_eq!(cursor.varlong(), Ok(number));
            assert_eq!(cursor.remaining(), 0);
        }
    }

    #[test]
    fn a_number_that_does_not_end_is_none() {
        assert_eq!(Cursor::new(&[0x80; 4], 0).varint(), Err(Unreadable::Ended));
        assert_eq!(Cursor::new(&[0x80; 5], 0).varint(), Err(Unreadable::Overlong));
        assert_eq!(Cursor::new(&[0x80; 9], 0).varlong(), Err(Unreadable::Ended));
        assert_eq!(Cursor::new(&[0x80; 10], 0).varlong(), Err(Unreadable::Overlong));
        assert_eq!(Cursor::new(&[0x80, 0x80, 0x80, 0x80, 0x00], 0).varint(), Ok(0));
        assert_eq!(Cursor::new(&[0xFF, 0xFF, 0xFF, 0xFF, 0x0F], 0).varint(), Ok(i32::MIN));
        for last in [0x10, 0x1F, 0x40, 0x7F, 0x80] {
            let bytes = [0x80, 0x80, 0x80, 0x80, last, 0];
            assert_eq!(Cursor::new(&bytes, 0).varint(), Err(Unreadable::Overlong));
        }
    }

    #[test]
    fn nothing_is_read_past_the_end() {
        let mut cursor = Cursor::new(&[1, 2], 0);
        assert_eq!(cursor.take(3), None);
        assert_eq!(cursor.take(usize::MAX), None);
        assert_eq!(cursor.take(2), Some(&[1, 2][..]));
        assert_eq!((cursor.byte(), cursor.take(0)), (None, Some(&[][..])));
        assert_eq!(Cursor::new(&[], 7).remaining(), 0);
    }
}
