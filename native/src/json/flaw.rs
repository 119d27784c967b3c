//! The reasons for which a text is not valid JSON.

/// Why a text is not valid JSON.
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
