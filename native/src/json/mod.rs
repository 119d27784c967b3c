//! JSON texts judged by JSON Schemas, drafts 4 to 2020-12, with a bound on the work.
//!
//! A text is read once, into a flat list of its values (`text`). A schema is read into a tree
//! (`document`), its references are resolved (`resources`), and what it asks is laid out by the
//! types of values (`compile`, `node`). `check` goes over both: it gives the verdict, and with it
//! the first reason for a refusal.

mod base64;
pub mod check;
pub mod compile;
pub mod document;
pub mod node;
pub mod number;
mod pattern;
mod resources;
pub mod text;
mod uri;
