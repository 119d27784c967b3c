//! `contentEncoding`: base64 (RFC 4648), with its padding.

/// Decode a text; None where it is not base64.
pub fn decoded(text: &str) -> Option<Vec<u8>> {
    let bytes = text.as_bytes();
    if !bytes.len().is_multiple_of(4) {
        return None;
    }
    let padding = bytes.iter().rev().take_while(|&&byte| byte == b'=').count();
    let digits = &bytes[..bytes.len() - padding];
    if padding > 2 {
        return None;
    }
    let mut out = Vec::with_capacity(digits.len() * 3 / 4);
    for four in digits.chunks(4) {
        let bits = four.iter().try_fold(0_u32, |sum, &byte| Some(sum << 6 | digit(byte)?))?;
        let missing = 4 - four.len();
        let bits = bits << (6 * missing);
        if missing > 0 && bits & ((1 << (8 * missing)) - 1) != 0 {
            return None; // unused bits that are not zero
        }
        out.extend_from_slice(&bits.to_be_bytes()[1..4 - missing]);
    }
    Some(out)
}

fn digit(byte: u8) -> Option<u32> {
    let value = match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    };
    Some(u32::from(value))
}
