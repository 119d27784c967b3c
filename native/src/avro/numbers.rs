//! Avro's numbers of variable length, at a place in bytes that are not trusted.
//!
//! As Java reads them, a number may have more bytes than it needs, up to 5 for an int and 10 for a
//! long. Bits beyond 32 or 64, which Java drops, are an error.

use super::faults::Wrong;

/// The bytes of a payload that are left.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rest<'a>(pub &'a [u8]);

impl<'a> Rest<'a> {
    /// Step over `size` bytes, and return them.
    #[inline]
    pub fn take(&mut self, size: usize) -> Result<&'a [u8], Wrong> {
        let (taken, rest) = self.0.split_at_checked(size).ok_or(Wrong::Ended)?;
        self.0 = rest;
        Ok(taken)
    }

    /// Read a byte.
    #[inline]
    pub fn byte(&mut self) -> Result<u8, Wrong> {
        let (byte, rest) = self.0.split_first().ok_or(Wrong::Ended)?;
        self.0 = rest;
        Ok(*byte)
    }

    /// Step over an int.
    #[inline]
    pub fn int(&mut self) -> Result<(), Wrong> {
        self.unsigned::<5>(0x0F, Wrong::LongerThanInt).map(|_| ())
    }

    /// Read a long.
    #[inline]
    pub fn long(&mut self) -> Result<i64, Wrong> {
        let raw = self.unsigned::<10>(0x01, Wrong::LongerThanLong)?;
        Ok((raw >> 1).cast_signed() ^ -(raw & 1).cast_signed())
    }

    /// Read a length. A length that does not fit memory is beyond the end, too.
    #[inline]
    pub fn length(&mut self) -> Result<usize, Wrong> {
        match self.long() {
            Ok(length) if length >= 0 => Ok(usize::try_from(length).unwrap_or(usize::MAX)),
            Err(Wrong::Ended) => Err(Wrong::Ended),
            _ => Err(Wrong::Length),
        }
    }

    /// Read an index below `count`.
    #[inline]
    pub fn index(&mut self, count: usize, wrong: Wrong) -> Result<usize, Wrong> {
        usize::try_from(self.long()?).ok().filter(|index| *index < count).ok_or(wrong)
    }

    /// Read how many items follow and, if the block has a size, how many bytes are left at its end.
    #[inline]
    pub fn block(&mut self) -> Result<(u64, Option<usize>), Wrong> {
        let of_block = |wrong| if wrong == Wrong::Ended { wrong } else { Wrong::Block };
        let count = self.long().map_err(of_block)?;
        if count >= 0 {
            return Ok((count.unsigned_abs(), None));
        }
        let size = self.length().map_err(of_block)?;
        // If the block's end is beyond the payload, no value ends there.
        let left = self.0.len().checked_sub(size);
        Ok((count.unsigned_abs(), Some(left.unwrap_or(usize::MAX))))
    }

    #[inline]
    fn unsigned<const MOST: usize>(&mut self, last_max: u8, wrong: Wrong) -> Result<u64, Wrong> {
        let first = self.byte()?;
        if first < 0x80 {
            return Ok(u64::from(first));
        }
        let mut value = u64::from(first & 0x7F);
        for place in 1..MOST - 1 {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7F) << (7 * place);
            if byte < 0x80 {
                return Ok(value);
            }
        }
        let last = self.byte()?;
        if last > last_max {
            return Err(wrong);
        }
        Ok(value | u64::from(last) << (7 * (MOST - 1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_end_where_java_ends_them() {
        let long = |bytes: &[u8]| Rest(bytes).long();
        assert_eq!(long(&[0x80, 0x00]), Ok(0));
        assert_eq!(long(&[0xFF; 9]), Err(Wrong::Ended));
        assert_eq!(long(&[&[0xFF; 9][..], &[1]].concat()), Ok(i64::MIN));
        assert_eq!(long(&[&[0xFF; 9][..], &[2]].concat()), Err(Wrong::LongerThanLong));
        assert_eq!(long(&[0x80; 10]), Err(Wrong::LongerThanLong));
        let int = |bytes: &[u8]| Rest(bytes).int();
        assert_eq!(int(&[0xFF, 0xFF, 0xFF, 0xFF, 0x0F]), Ok(()));
        assert_eq!(int(&[0xFF, 0xFF, 0xFF, 0xFF, 0x10]), Err(Wrong::LongerThanInt));
        assert_eq!(int(&[0x80; 4]), Err(Wrong::Ended));
    }

    #[test]
    fn a_block_says_how_many_items_and_perhaps_where_it_ends() {
        assert_eq!(Rest(&[4]).block(), Ok((2, None)));
        assert_eq!(Rest(&[3, 4, 0, 0, 0]).block(), Ok((2, Some(1))));
        assert_eq!(Rest(&[3, 4, 0]).block(), Ok((2, Some(usize::MAX))));
        assert_eq!(Rest(&[3, 1]).block(), Err(Wrong::Block));
        assert_eq!(Rest(&[0x80; 10]).block(), Err(Wrong::Block));
        assert_eq!(Rest(&[3]).block(), Err(Wrong::Ended));
    }
}
