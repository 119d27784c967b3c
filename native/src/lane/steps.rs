//! How much of a batch is decompressed in a step.
#![forbid(unsafe_code)]

/// So many bytes, at least, are decompressed in a step.
pub(super) const STEP_BYTES: usize = 128 * 1024;
/// Of the codecs whose frames have blocks, a larger block is Python's: it cannot be left in its
/// middle.
pub(super) const BLOCK_MAX_BYTES: usize = 4 * 1024 * 1024;
/// The most blocks of lz4, and in xerial's framing of snappy: each takes time, however short it is.
pub(super) const BLOCKS_MAX: usize = 65_536;
