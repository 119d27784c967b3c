//! JSON texts judged by JSON Schemas, drafts 4 to 2020-12, with a bound on the work.
//!
//! A schema is read into a tree (`document`), its references are resolved (`resources`), and its
//! checks are laid out by the types of values (`compile`, `node`). Most texts fit, and are judged
//! while their tokens are read (`scan`, `check::one_pass`). The values of any other text are read
//! into a flat list (`text`, `value`); `check` judges it, and gives the verdict with the first
//! reason for a refusal.

mod base64;
pub mod check;
pub mod compile;
pub mod document;
pub(crate) mod flaw;
pub mod node;
pub mod number;
mod pattern;
mod resources;
mod scan;
pub mod text;
mod uri;
mod value;
