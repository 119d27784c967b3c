//! JSON texts judged by JSON Schemas, drafts 4 to 2020-12, with a bound on the work.
//!
//! A schema is read into a tree (`document`), its references are resolved (`resources`), and what
//! it requires is laid out by the types of values (`compile`, `node`). Most texts fit, and are judged
//! while their tokens are read (`scan`, `check::one_pass`). Of any other, all values are read into
//! a flat list (`text`); `check` goes over it: it gives the verdict, and with it the first reason
//! for a refusal.

mod base64;
pub mod check;
pub mod compile;
pub mod document;
pub mod node;
pub mod number;
mod pattern;
mod resources;
mod scan;
pub mod text;
mod uri;
