//! Faults of a record section, in a broker's words where it has some
//! (`DefaultRecord`, `DefaultRecordBatch`). The Python reader uses the same.

use std::fmt;

/// A part of a record that is not valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The length, which is negative or not a number.
    Length,
    /// The attributes. Kafka does not define any.
    Attributes,
    /// The difference to the batch's first timestamp.
    Timestamp,
    /// The difference to the batch's first offset.
    OffsetDelta,
    /// The key, or its length.
    Key,
    /// The value, or its length.
    Value,
    /// The number of headers, which is not a number.
    HeaderCount,
    /// A header's key, or its length.
    HeaderKey,
    /// A header's value, or its length.
    HeaderValue,
    /// Anything after very many headers, which Python would take long to find.
    Headers,
}

/// The kind of a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wrong {
    /// The section ends within the record, or before it.
    Ended,
    /// The section continues after the last record.
    Remaining,
    /// A part cannot be read, or has an invalid value.
    Structure(Part),
    /// The offset delta is not the record's position.
    Order,
    /// The offset delta does not ascend, or is past the last offset delta of the batch.
    Descending,
    /// A negative number of headers.
    HeaderCount(i32),
    /// More headers than there are bytes.
    TooManyHeaders(i32),
    /// A header without a key.
    HeaderKeySize(i32),
    /// A header's key is not UTF-8.
    HeaderKeyText,
    /// The record is longer than its parts.
    Size {
        /// Its length.
        announced: usize,
        /// The bytes of its parts.
        read: usize,
    },
}

/// The first fault of a section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    /// The position of the record.
    pub record: usize,
    /// The kind of the fault.
    pub wrong: Wrong,
}

impl fmt::Display for Fault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.wrong {
            Wrong::Ended => {
                out.write_str("Incorrect declared batch size, premature EOF reached")?;
            }
            Wrong::Remaining => {
                return out
                    .write_str("Incorrect declared batch size, records still remaining in file");
            }
            Wrong::Structure(part) => {
                write!(out, "Found invalid record structure: {}", name(part))?;
            }
            Wrong::Order => out.write_str("The records' offset deltas are not 0, 1, 2, ...")?,
            Wrong::Descending => out.write_str(
                "The records' offset deltas do not ascend to the last one of the batch",
            )?,
            Wrong::HeaderCount(count) => {
                write!(out, "Found invalid number of record headers {count}")?;
            }
            Wrong::TooManyHeaders(count) => write!(
                out,
                "Found invalid number of record headers. {count} is larger than the remaining \
                 size of the buffer"
            )?,
            Wrong::HeaderKeySize(size) => {
                write!(out, "Invalid negative header key size {size}")?;
            }
            Wrong::HeaderKeyText => {
                out.write_str("A record has a header key that is not UTF-8")?;
            }
            Wrong::Size { announced, read } => write!(
                out,
                "Invalid record size: expected to read {announced} bytes in record payload, but \
                 instead read {read}"
            )?,
        }
        write!(out, " (record {} of the batch)", self.record)
    }
}

const fn name(part: Part) -> &'static str {
    match part {
        Part::Length => "length",
        Part::Attributes => "attributes",
        Part::Timestamp => "timestamp",
        Part::OffsetDelta => "offset delta",
        Part::Key => "key",
        Part::Value => "value",
        Part::HeaderCount => "number of headers",
        Part::HeaderKey => "header key",
        Part::HeaderValue => "header value",
        Part::Headers => "headers",
    }
}
