//! A value of a JSON text: its type, and its place in the text.

pub(super) const ESCAPED: u8 = 1;
pub(super) const REPLACED: u8 = 2;
pub(super) const UNIQUE: u8 = 4;

/// The type of a value.
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

/// A value. An array's items follow it; an object's names do, each followed by its value.
#[derive(Clone, Copy, Debug)]
pub struct Value {
    /// Its type.
    pub kind: Kind,
    /// `ESCAPED`: the string has escapes. `REPLACED`: a later property of the object has this name,
    /// so the property does not count. `UNIQUE`: the object's names have been compared.
    pub(super) flags: u8,
    /// Where it starts in the text; a string, after its quote.
    pub(super) start: u32,
    /// The number of its bytes, without quotes; or of its items or properties.
    pub len: u32,
    /// The position of the value that follows all that is inside.
    pub next: u32,
}

impl Value {
    /// Return a value with nothing inside, from `start` to before `end`.
    #[inline]
    #[allow(clippy::cast_possible_truncation)] // no text is longer than 4 GB
    pub(super) fn scalar(kind: Kind, flags: u8, start: usize, end: usize) -> Self {
        Self { kind, flags, start: start as u32, len: (end - start) as u32, next: 0 }
    }
}
