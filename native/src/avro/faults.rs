//! The faults that a payload may have.

/// A fault of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wrong {
    /// The payload ends before the value.
    Ended,
    /// Bytes follow the value.
    Behind(usize),
    /// A boolean that is neither 0 nor 1.
    Boolean,
    /// Too many bits.
    LongerThanInt,
    /// Too many bits.
    LongerThanLong,
    /// A length that is negative or too large.
    Length,
    /// A block's count or size that is not valid.
    Block,
    /// A block that has another size than it says.
    BlockEnd,
    /// There is no such symbol.
    Symbol,
    /// There is no such branch.
    Branch,
    /// Not UTF-8.
    Text,
    /// A map's key that is not UTF-8.
    Key,
    /// Too many records, arrays and maps around it.
    Levels,
    /// Too many items that take no bytes.
    EmptyItems,
}
