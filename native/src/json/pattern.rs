//! Regular expressions of ECMA 262, in linear time where that can be.

use regex::Regex;
use regex_syntax::hir::{Hir, HirKind};

/// The most backtracking steps of an expression with look-around or backreferences in a text.
/// After them the result is unknown.
pub const MAX_STEPS_BACK: usize = 100_000;

/// The most places of an expression that may be tried for each byte of a text, if its automaton
/// is large. 32 KiB, after which a judge looks at the clock, then take a tenth of a second.
const WIDTH_MAX: u64 = 1_000;

/// A regular expression.
#[derive(Debug)]
pub enum Pattern {
    /// In time in proportion to the text.
    Linear(Regex),
    /// In time in proportion to the text, and to the expression, which is long.
    Wide(Regex),
    /// With look-around or backreferences: tries, up to a bound.
    Backtracking(Box<fancy_regex::Regex>),
}

impl Pattern {
    /// Compile an expression; None if it is not valid.
    pub fn new(source: &str) -> Option<Self> {
        let translated = jsonschema_regex::to_rust_regex(source).ok()?;
        if let Ok(regex) = Regex::new(&translated) {
            let width = regex_syntax::parse(&translated).map_or(u64::MAX, |parsed| width(&parsed));
            let is_wide = width > WIDTH_MAX;
            return Some(if is_wide { Self::Wide(regex) } else { Self::Linear(regex) });
        }
        fancy_regex::RegexBuilder::new(&translated)
            .backtrack_limit(MAX_STEPS_BACK)
            .build()
            .ok()
            .map(|regex| Self::Backtracking(Box::new(regex)))
    }

    /// Return whether a text matches somewhere; None where that takes too long to find out.
    pub fn matches(&self, text: &str) -> Option<bool> {
        match self {
            Self::Linear(regex) | Self::Wide(regex) => Some(regex.is_match(text)),
            Self::Backtracking(regex) => regex.is_match(text).ok(),
        }
    }

    /// Return how much work a text of a length is, at most, in the steps of `check`.
    pub fn steps(&self, length: usize) -> u64 {
        match self {
            Self::Linear(_) | Self::Wide(_) => 1 + length as u64 / 16,
            Self::Backtracking(_) => 16 + length as u64,
        }
    }

    /// Return whether it takes little time for each byte of a text, whatever the text is.
    pub const fn is_bounded(&self) -> bool {
        matches!(self, Self::Linear(_))
    }
}

/// Return how many places an expression has, with those that repetitions add.
fn width(of: &Hir) -> u64 {
    let all = |parts: &[Hir]| parts.iter().map(width).fold(1, u64::saturating_add);
    match of.kind() {
        HirKind::Empty | HirKind::Look(_) | HirKind::Class(_) => 1,
        HirKind::Literal(literal) => literal.0.len() as u64,
        HirKind::Capture(capture) => width(&capture.sub),
        HirKind::Concat(parts) | HirKind::Alternation(parts) => all(parts),
        HirKind::Repetition(repetition) => {
            let times = repetition.max.unwrap_or(repetition.min).max(1);
            width(&repetition.sub).saturating_mul(times.into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expression_that_may_take_long_for_each_byte_is_not_bounded() {
        for short in ["^k[0-9]*$", "^.{1,500}$", "^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"] {
            assert!(Pattern::new(short).unwrap().is_bounded(), "{short}");
        }
        for long in ["(a|b)*a(a|b){1000}", "([a-z]{1,50}){21}", "x{1001}", "(?=a)", r"(a)\1"] {
            assert!(!Pattern::new(long).unwrap().is_bounded(), "{long}");
        }
    }

    #[test]
    fn an_expression_matches_whatever_its_width_is() {
        let pattern = Pattern::new("^(ab){600}$").unwrap();
        assert!(matches!(pattern, Pattern::Wide(_)));
        assert_eq!(pattern.matches(&"ab".repeat(600)), Some(true));
        assert_eq!(pattern.matches(&"ab".repeat(599)), Some(false));
    }
}
