//! Who sends a batch, as policies are given it: written once for a request, and read in the worker.
//!
//! Each of principal, client id and address is its length and one more (4 bytes, little-endian; 0
//! where it is not known), and its text.
#![forbid(unsafe_code)]

use std::sync::Arc;

/// Batches of a client with more bytes than these go through Python: a client id alone has 32 KiB at
/// most.
const LONGEST: usize = 64 * 1024;
const FIELDS: usize = 3;

/// Return the context of principal, client id and address; None if it is too long.
pub fn encoded(fields: [Option<&str>; FIELDS]) -> Option<Arc<[u8]>> {
    let mut bytes = Vec::new();
    for field in fields {
        let size = match field {
            Some(text) => u32::try_from(text.len()).ok()?.checked_add(1)?,
            None => 0,
        };
        bytes.extend_from_slice(&size.to_le_bytes());
        bytes.extend_from_slice(field.unwrap_or_default().as_bytes());
    }
    (bytes.len() <= LONGEST).then(|| bytes.into())
}

/// Read principal, client id and address; None for what is not a context.
pub fn decoded(bytes: &[u8]) -> Option<[Option<&str>; FIELDS]> {
    let mut fields = [None; FIELDS];
    let mut rest = bytes;
    for field in &mut fields {
        let (size, behind) = rest.split_first_chunk()?;
        rest = behind;
        if let Some(count) = u32::from_le_bytes(*size).checked_sub(1) {
            let (text, behind) = rest.split_at_checked(usize::try_from(count).ok()?)?;
            *field = Some(str::from_utf8(text).ok()?);
            rest = behind;
        }
    }
    rest.is_empty().then_some(fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_encoded_is_decoded() {
        let long = "x".repeat(40_000);
        for fields in [
            [None, None, None],
            [Some("User:alice"), Some(""), Some("10.0.0.1")],
            [None, Some("a\0b \u{fffd} \u{1f600}"), Some("::1")],
            [Some("User:alice"), Some(long.as_str()), None],
        ] {
            assert_eq!(decoded(&encoded(fields).unwrap()), Some(fields));
        }
    }

    #[test]
    fn a_context_is_bounded() {
        let long = "x".repeat(40_000);
        assert!(encoded([Some(&long), Some(&long), None]).is_none());
    }

    #[test]
    fn nonsense_is_not_decoded() {
        let bytes = encoded([Some("User:alice"), Some("client"), None]).unwrap();
        for end in 0..bytes.len() {
            assert_eq!(decoded(&bytes[..end]), None);
        }
        assert_eq!(decoded(&[bytes.to_vec(), vec![0]].concat()), None);
        assert_eq!(decoded(&[u32::MAX.to_le_bytes(), [0; 4], [0; 4]].concat()), None);
        assert_eq!(decoded(&[2, 0, 0, 0, 0xFF, 0, 0, 0, 0, 0, 0, 0, 0]), None);
    }
}
