//! Where the records of TLS end: each is a type, a version and a length, and so many bytes.
#![forbid(unsafe_code)]

const HEAD_BYTES: usize = 5;

/// The record that is being received.
#[derive(Debug, Default)]
pub struct Record {
    received: usize,
    length: [u8; 2],
}

impl Record {
    /// Return how many of the next bytes are its own; and how many it has if it is complete now.
    ///
    /// The next record follows then.
    pub fn take(&mut self, data: &[u8]) -> (usize, Option<usize>) {
        let mut taken = 0_usize;
        while let (Some(byte), true) = (data.get(taken), self.received < HEAD_BYTES) {
            match self.received {
                3 => self.length[0] = *byte,
                4 => self.length[1] = *byte,
                _ => {}
            }
            self.received = self.received.saturating_add(1);
            taken = taken.saturating_add(1);
        }
        if self.received < HEAD_BYTES {
            return (taken, None);
        }
        let size = HEAD_BYTES.saturating_add(usize::from(u16::from_be_bytes(self.length)));
        let left = data.len().saturating_sub(taken);
        let rest = size.saturating_sub(self.received).min(left);
        self.received = self.received.saturating_add(rest);
        taken = taken.saturating_add(rest);
        let is_complete = self.received == size;
        if is_complete {
            *self = Self::default();
        }
        (taken, is_complete.then_some(size))
    }

    /// Return how many bytes of it there are.
    pub const fn received(&self) -> usize {
        self.received
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_ends_after_its_length_however_it_is_divided() {
        let records =
            [&[23, 3, 3, 1, 4][..], &[7; 260], &[22, 3, 3, 0, 0], &[21, 3, 3, 0, 2, 1, 1]];
        let data = records.concat();
        for size in 1..=data.len() {
            let (mut record, mut ends, mut at) = (Record::default(), vec![], 0);
            for part in data.chunks(size) {
                let mut part = part;
                while !part.is_empty() {
                    let (taken, complete) = record.take(part);
                    assert!(taken > 0);
                    at += taken;
                    part = &part[taken..];
                    ends.extend(complete.map(|size| (at, size)));
                    assert_eq!(record.received(), at - ends.last().map_or(0, |end| end.0));
                }
            }
            assert_eq!(ends, [(265, 265), (270, 5), (277, 7)]);
        }
    }
}
