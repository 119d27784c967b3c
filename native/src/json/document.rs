//! A schema's text as a tree, which knows where each of its values is written.

use super::flaw::Flaw;
use super::number::Number;
use super::text::{Text, Values};
use super::value::Kind;

/// How many levels a schema may have.
const MAX_LEVELS: usize = 255;

/// The content of a value.
#[derive(Debug)]
pub enum Content {
    /// `null`
    Null,
    /// `false` or `true`
    Bool(bool),
    /// Any number.
    Number(Number),
    /// A string.
    String(String),
    /// An array.
    Array(Vec<Json>),
    /// An object; each name once.
    Object(Vec<(String, Json)>),
}

/// A value of a schema.
#[derive(Debug)]
pub struct Json {
    /// Its content.
    pub content: Content,
    /// Where it starts and ends in the text.
    pub span: (usize, usize),
}

impl Json {
    /// Read a text.
    ///
    /// # Errors
    ///
    /// It is not JSON, or has more than 255 levels.
    pub fn read(bytes: &[u8]) -> Result<Self, Flaw> {
        let mut values = Values::default();
        let mut text = Text::read_levels(bytes, &mut values, MAX_LEVELS)?;
        Ok(tree(&mut text, 0))
    }

    /// Return a property.
    pub fn get(&self, name: &str) -> Option<&Self> {
        self.properties().iter().find(|(own, _)| own == name).map(|(_, value)| value)
    }

    /// Return the properties of an object; empty for any other value.
    pub fn properties(&self) -> &[(String, Self)] {
        if let Content::Object(properties) = &self.content { properties } else { &[] }
    }

    /// Return the items of an array; empty for any other value.
    pub fn items(&self) -> &[Self] {
        if let Content::Array(items) = &self.content { items } else { &[] }
    }

    /// Return a string; None for any other value.
    pub fn text(&self) -> Option<&str> {
        if let Content::String(text) = &self.content { Some(text) } else { None }
    }

    /// Return a number; None for any other value.
    pub fn number(&self) -> Option<Number> {
        if let Content::Number(number) = self.content { Some(number) } else { None }
    }

    /// Return a number of characters, items or properties; None for any other value.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    pub fn count(&self) -> Option<u64> {
        match self.number()? {
            Number::Whole(whole) => Some(u64::try_from(whole).unwrap_or(0)),
            Number::Double(double) => Some(double.max(0.0) as u64),
        }
    }

    /// Return the string of a property; None where it is missing or not a string.
    pub fn text_of(&self, name: &str) -> Option<&str> {
        self.get(name)?.text()
    }
}

fn tree(text: &mut Text<'_>, position: u32) -> Json {
    let value = text.at(position);
    let content = match value.kind {
        Kind::Null => Content::Null,
        Kind::False => Content::Bool(false),
        Kind::True => Content::Bool(true),
        Kind::Whole | Kind::Decimal => Content::Number(text.number(value)),
        Kind::String => Content::String(text.string(value).into_owned()),
        Kind::Array => {
            let mut items = Vec::with_capacity(value.len as usize);
            let mut child = position + 1;
            for _ in 0..value.len {
                items.push(tree(text, child));
                child = text.at(child).next;
            }
            Content::Array(items)
        }
        Kind::Object => {
            text.replace(position);
            let mut properties = Vec::with_capacity(value.len as usize);
            let mut child = position + 1;
            for _ in 0..value.len {
                let name = text.at(child);
                if text.counts(name) {
                    properties.push((text.string(name).into_owned(), tree(text, child + 1)));
                }
                child = text.at(child + 1).next;
            }
            Content::Object(properties)
        }
    };
    Json { content, span: text.span(position) }
}
