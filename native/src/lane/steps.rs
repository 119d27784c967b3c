//! How much of a batch is decompressed in a step, and the room for it.
#![forbid(unsafe_code)]

/// So many bytes, at least, are decompressed in a step, unless there are `STEP_BLOCKS` before.
pub(super) const STEP_BYTES: usize = 128 * 1024;
/// So many blocks, at most, are decompressed in a step: each takes time, however short it is.
pub(super) const STEP_BLOCKS: usize = 1024;
/// Of the codecs whose frames have blocks, a larger block is Python's: it cannot be left in its
/// middle.
pub(super) const BLOCK_MAX_BYTES: usize = 4 * 1024 * 1024;
/// The most blocks of lz4, and in xerial's framing of snappy.
pub(super) const BLOCKS_MAX: usize = 65_536;

/// The content of blocks, and room for the next.
///
/// Memory is taken for content that there is, and somewhat more.
pub(super) struct Content {
    /// The content, and behind it what an earlier block has left.
    bytes: Vec<u8>,
    size: usize,
    limit: usize,
}

impl Content {
    /// No content, and so much at most.
    pub const fn new(limit: usize) -> Self {
        Self { bytes: Vec::new(), size: 0, limit }
    }

    /// Return how many bytes there are.
    pub const fn size(&self) -> usize {
        self.size
    }

    /// Return how many more there may be.
    pub const fn left(&self) -> usize {
        self.limit.saturating_sub(self.size)
    }

    /// Return room for so many bytes; None for more than there may be.
    pub fn room(&mut self, bytes: usize) -> Option<&mut [u8]> {
        let end = self.size.checked_add(bytes).filter(|end| *end <= self.limit)?;
        if end > self.bytes.capacity() {
            let capacity = end.saturating_add(end >> 1).min(self.limit);
            self.bytes.truncate(self.size);
            self.bytes.reserve_exact(capacity.saturating_sub(self.size));
        }
        if end > self.bytes.len() {
            self.bytes.resize(end, 0);
        }
        self.bytes.get_mut(self.size..end)
    }

    /// Add bytes that are in the room; return all that were added by this.
    pub fn add(&mut self, bytes: usize) -> Option<&[u8]> {
        let (before, end) = (self.size, self.size.checked_add(bytes)?);
        self.size = end;
        self.bytes.get(before..end)
    }

    /// Return how many bytes of memory are held.
    pub const fn held_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    /// Return the bytes, in no more memory than they need.
    pub fn into_bytes(mut self) -> Vec<u8> {
        self.bytes.truncate(self.size);
        self.bytes.shrink_to_fit();
        self.bytes
    }
}
