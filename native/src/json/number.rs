//! Numbers: integers of 64 bits exactly, any other as the nearest double.

use std::cmp::Ordering;

/// A number of a text or of a schema.
#[derive(Clone, Copy, Debug)]
pub enum Number {
    /// A whole number between -2^63 and 2^64.
    Whole(i128),
    /// Any other number, or a number that is written with a fraction or an exponent.
    Double(f64),
}

impl Number {
    /// Return the number that is written; `whole` if it has neither a fraction nor an exponent.
    #[inline]
    pub fn parse(raw: &[u8], whole: bool) -> Self {
        if whole && let Some(number) = small(raw) {
            return Self::Whole(number);
        }
        Self::Double(double(raw))
    }

    /// Compare a number with a fraction by its digits before the point; None if they do not decide.
    #[inline]
    pub fn order_by_whole_part(raw: &[u8], other: i128) -> Option<Ordering> {
        let mut whole = 0_i64;
        for (at, &byte) in raw.iter().enumerate() {
            match byte {
                b'0'..=b'9' if at < 18 => whole = whole * 10 + i64::from(byte - b'0'),
                b'.' if raw.len() < at + 20 => {
                    // A number with an exponent is not decided here. A double may be rounded,
                    // but not beyond the next whole number.
                    let whole = i128::from(whole);
                    // Only letters are above the digits. Without a branch this is fast.
                    let plain = raw[at + 1..].iter().fold(0, |most, &byte| byte.max(most)) <= b'9';
                    return match () {
                        () if plain && other < whole => Some(Ordering::Greater),
                        () if plain && other > whole + 1 => Some(Ordering::Less),
                        () => None,
                    };
                }
                _ => return None,
            }
        }
        None
    }

    /// Return whether no double can hold a number.
    pub fn is_too_large(raw: &[u8]) -> bool {
        double(raw).is_infinite()
    }

    /// Return whether a number is whole. In draft 4, `1.0` is not.
    pub fn is_whole(self, draft: u16) -> bool {
        match self {
            Self::Whole(_) => true,
            Self::Double(double) => draft > 4 && double.fract() == 0.0,
        }
    }

    /// Return which of two numbers is larger, exactly.
    pub fn compare(self, other: Self) -> Ordering {
        match (self, other) {
            (Self::Whole(one), Self::Whole(other)) => one.cmp(&other),
            (Self::Double(one), Self::Double(other)) => {
                one.partial_cmp(&other).unwrap_or(Ordering::Equal)
            }
            (Self::Whole(whole), Self::Double(double)) => whole_to_double(whole, double),
            (Self::Double(double), Self::Whole(whole)) => whole_to_double(whole, double).reverse(),
        }
    }

    /// Return whether this is a multiple of another number, which is above zero.
    ///
    /// A double is the decimal that it is written as.
    pub fn is_multiple_of(self, divisor: Self) -> bool {
        let (Some(own), Some(other)) = (self.decimal(), divisor.decimal()) else { return false };
        let (digits, exponent) = own;
        let (divisor, other_exponent) = other;
        if digits == 0 || divisor == 0 {
            return digits == 0;
        }
        let shift = exponent - other_exponent;
        if shift >= 0 {
            return scaled_remainder(digits, shift.unsigned_abs(), divisor) == 0;
        }
        10_u128
            .checked_pow(shift.unsigned_abs())
            .and_then(|power| divisor.checked_mul(power))
            .is_some_and(|divisor| digits % divisor == 0)
    }

    /// Return the digits without a sign, and the power of ten that they are multiplied by.
    fn decimal(self) -> Option<(u128, i32)> {
        match self {
            Self::Whole(whole) => Some((whole.unsigned_abs(), 0)),
            Self::Double(double) => {
                let text = format!("{:e}", double.abs());
                let (digits, exponent) = text.split_once('e')?;
                let (before, behind) = digits.split_once('.').unwrap_or((digits, ""));
                let exponent = exponent.parse::<i32>().ok()? - i32::try_from(behind.len()).ok()?;
                Some((format!("{before}{behind}").parse().ok()?, exponent))
            }
        }
    }

    /// Return bits that are the same for equal numbers.
    #[allow(clippy::cast_precision_loss)]
    pub fn bits(self) -> u64 {
        let double = match self {
            Self::Whole(whole) => whole as f64,
            Self::Double(double) => double,
        };
        (double + 0.0).to_bits() // -0 becomes 0
    }
}

/// Return the remainder of digits times a power of ten; below 2^64 each, so that no product is
/// too large.
fn scaled_remainder(digits: u128, mut power: u32, divisor: u128) -> u128 {
    let (mut remainder, mut ten) = (digits % divisor, 10 % divisor);
    while power > 0 {
        if power & 1 == 1 {
            remainder = remainder * ten % divisor;
        }
        ten = ten * ten % divisor;
        power >>= 1;
    }
    remainder
}

#[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss)]
fn whole_to_double(whole: i128, double: f64) -> Ordering {
    if double.abs() >= 1e20 {
        return if double > 0.0 { Ordering::Less } else { Ordering::Greater };
    }
    let below = double.floor();
    match whole.cmp(&(below as i128)) {
        Ordering::Equal if double > below => Ordering::Less,
        other => other,
    }
}

#[inline]
fn small(raw: &[u8]) -> Option<i128> {
    let (negative, digits) = match raw {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    if digits.len() <= 18 {
        let number = digits.iter().fold(0_i64, |sum, digit| sum * 10 + i64::from(digit - b'0'));
        return Some(i128::from(if negative { -number } else { number }));
    }
    if digits.len() > 20 {
        return None;
    }
    let number = digits.iter().fold(0_i128, |sum, digit| sum * 10 + i128::from(digit - b'0'));
    let number = if negative { -number } else { number };
    (i128::from(i64::MIN)..=i128::from(u64::MAX)).contains(&number).then_some(number)
}

fn double(raw: &[u8]) -> f64 {
    std::str::from_utf8(raw).ok().and_then(|text| text.parse().ok()).unwrap_or(0.0)
}
