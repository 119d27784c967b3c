//! Regular expressions of ECMA 262, in linear time where that can be.

use regex::Regex;

/// How often an expression with look-around or references back may go back within one text;
/// beyond it nothing is known of the text.
pub const MAX_STEPS_BACK: usize = 100_000;

/// A regular expression.
#[derive(Debug)]
pub enum Pattern {
    /// In time in proportion to the text.
    Linear(Regex),
    /// With look-around or references back: tries, up to a bound.
    Backtracking(Box<fancy_regex::Regex>),
}

impl Pattern {
    /// Compile an expression; None where it is none.
    pub fn new(source: &str) -> Option<Self> {
        let translated = jsonschema_regex::to_rust_regex(source).ok()?;
        if let Ok(regex) = Regex::new(&translated) {
            return Some(Self::Linear(regex));
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
            Self::Linear(regex) => Some(regex.is_match(text)),
            Self::Backtracking(regex) => regex.is_match(text).ok(),
        }
    }

    /// Return how much work a text of a length is, at most, in the steps of `check`.
    pub fn steps(&self, length: usize) -> u64 {
        match self {
            Self::Linear(_) => 1 + length as u64 / 16,
            Self::Backtracking(_) => 16 + length as u64,
        }
    }
}
