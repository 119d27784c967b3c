//! The checks of a schema, laid out by the type of the value.

use std::collections::{HashMap, HashSet};

use super::document::Json;
use super::number::Number;
use super::pattern::Pattern;
use super::scan::Name;

/// The position of a node in `Schema::nodes`.
pub type NodeId = u32;

/// Bits of the types that a value may have.
pub mod types {
    /// `null`
    pub const NULL: u8 = 1;
    /// `boolean`
    pub const BOOLEAN: u8 = 2;
    /// A number that is not whole.
    pub const NUMBER: u8 = 4;
    /// A whole number.
    pub const INTEGER: u8 = 8;
    /// `string`
    pub const STRING: u8 = 16;
    /// `array`
    pub const ARRAY: u8 = 32;
    /// `object`
    pub const OBJECT: u8 = 64;
    /// Any type.
    pub const ALL: u8 = 127;
}

/// Where the value of a keyword is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The position of its document.
    pub document: u32,
    /// The first byte.
    pub start: u32,
    /// The byte after the last.
    pub end: u32,
}

/// A document of a schema.
pub struct Document {
    /// Its absolute URI.
    pub uri: String,
    /// Its draft: 4, 6, 7, 2019 or 2020.
    pub draft: u16,
    /// Its text.
    pub text: Vec<u8>,
    /// The text as a tree.
    pub json: Json,
}

/// A schema: `true`, `false` or an object of keywords.
#[derive(Debug, Default)]
#[allow(clippy::struct_excessive_bools)] // each is found out once, and looked at alone
pub struct Node {
    /// The types that it allows; 0 is the schema `false`.
    pub types: u8,
    /// Where `type` is written, or the schema `false`.
    pub types_at: Place,
    /// Whether it limits nothing but the types.
    pub is_plain: bool,
    /// Whether it is a reference and nothing else.
    pub is_reference: bool,
    /// Whether an object is judged while its properties are read, one after the other.
    pub reads_properties: bool,
    /// The same of an array and its items.
    pub reads_items: bool,
    /// Its draft.
    pub draft: u16,
    /// Whether a reference leads here.
    pub is_target: bool,
    /// Its resource, which anchors of the dynamic scope belong to.
    pub resource: u32,
    /// `const` and `enum`.
    pub values: Vec<OneOf>,
    /// Checks of numbers.
    pub number: Vec<NumberCheck>,
    /// Checks of strings.
    pub string: Option<Box<StringChecks>>,
    /// Checks of arrays.
    pub array: Option<Box<ArrayChecks>>,
    /// Checks of objects.
    pub object: Option<Box<ObjectChecks>>,
    /// Keywords whose schemas judge the same value.
    pub in_place: Vec<InPlace>,
    /// `unevaluatedItems`.
    pub unevaluated_items: Option<(NodeId, Place)>,
    /// `unevaluatedProperties`.
    pub unevaluated_properties: Option<(NodeId, Place)>,
}

impl Node {
    /// Note by which ways it can be judged, once all of its keywords are known.
    pub(super) fn finish(&mut self) {
        let is_evaluated =
            self.unevaluated_items.is_some() || self.unevaluated_properties.is_some();
        let says_nothing_else = self.values.is_empty() && !is_evaluated;
        let is_of_one_value = self.number.is_empty() && self.string.is_none();
        let has_nothing_inside = self.array.is_none() && self.object.is_none();
        self.is_plain =
            says_nothing_else && is_of_one_value && has_nothing_inside && self.in_place.is_empty();
        self.is_reference = says_nothing_else
            && is_of_one_value
            && has_nothing_inside
            && self.types == types::ALL
            && matches!(self.in_place[..], [InPlace::Ref(_)]);
        let may_be_read = says_nothing_else && self.in_place.is_empty();
        self.reads_properties = may_be_read
            && self.object.as_deref().is_none_or(ObjectChecks::are_of_one_property_each);
        self.reads_items =
            may_be_read && self.array.as_deref().is_none_or(ArrayChecks::are_of_one_item_each);
    }
}

impl ArrayChecks {
    fn are_of_one_item_each(&self) -> bool {
        self.unique.is_none() && self.contains.is_none()
    }
}

impl ObjectChecks {
    fn are_of_one_property_each(&self) -> bool {
        let is_written_as_it_is = |known: &Known| {
            known.name.iter().all(|&byte| byte >= b' ' && byte != b'"' && byte != b'\\')
        };
        self.min.is_none()
            && self.max.is_none()
            && self.dependent.is_empty()
            && self.patterns.is_empty()
            && self.names.is_none()
            && self.known.iter().all(is_written_as_it_is)
    }
}

/// `const` or `enum`.
#[derive(Debug)]
pub struct OneOf {
    /// The name of the keyword.
    pub keyword: &'static str,
    /// The values' strings, where all are strings.
    pub strings: Option<Vec<Box<[u8]>>>,
    /// The values.
    pub values: Vec<Constant>,
    /// Where they are written.
    pub place: Place,
}

/// A value to compare with.
#[derive(Debug)]
pub enum Constant {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A number.
    Number(Number),
    /// A string.
    String(String),
    /// An array.
    Array(Vec<Constant>),
    /// An object.
    Object(HashMap<String, Constant>),
}

/// A limit of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// `minimum`
    Minimum,
    /// `maximum`
    Maximum,
    /// `exclusiveMinimum`
    ExclusiveMinimum,
    /// `exclusiveMaximum`
    ExclusiveMaximum,
    /// `multipleOf`
    MultipleOf,
}

/// A check of numbers.
#[derive(Debug)]
pub struct NumberCheck {
    /// The keyword.
    pub limit: Limit,
    /// The keyword's number.
    pub number: Number,
    /// Where it is written.
    pub place: Place,
}

/// A number of characters, items or properties, and where it is written.
pub type Count = Option<(u64, Place)>;

/// Checks of strings.
#[derive(Debug, Default)]
pub struct StringChecks {
    /// `minLength`
    pub min: Count,
    /// `maxLength`
    pub max: Count,
    /// `pattern`
    pub pattern: Option<(Pattern, Place)>,
    /// `format`, as a position in `Schema::formats`.
    pub format: Option<(usize, Place)>,
    /// `contentEncoding`: base64.
    pub base64: Option<Place>,
    /// `contentMediaType`: JSON.
    pub json: Option<Place>,
}

/// Checks of arrays.
#[derive(Debug, Default)]
pub struct ArrayChecks {
    /// `minItems`
    pub min: Count,
    /// `maxItems`
    pub max: Count,
    /// `uniqueItems`
    pub unique: Option<Place>,
    /// The schemas of the first items, in order.
    pub first: Vec<NodeId>,
    /// The schema of the items after them.
    pub rest: Option<NodeId>,
    /// `additionalItems: false`.
    pub no_rest: Option<Place>,
    /// `contains`
    pub contains: Option<Contains>,
}

/// `contains`, `minContains` and `maxContains`.
#[derive(Debug)]
pub struct Contains {
    /// The schema.
    pub node: NodeId,
    /// How many items it fits at least.
    pub min: u64,
    /// How many at most.
    pub max: u64,
    /// Where it is written.
    pub place: Place,
}

/// A property that a schema names.
#[derive(Debug)]
pub struct Known {
    /// Its name.
    pub name: Box<[u8]>,
    /// The name as most texts write it.
    pub written: Name,
    /// Its schema.
    pub node: Option<NodeId>,
    /// Its position in `ObjectChecks::required`.
    pub required: Option<u32>,
}

/// Checks of objects.
#[derive(Debug, Default)]
pub struct ObjectChecks {
    /// `minProperties`
    pub min: Count,
    /// `maxProperties`
    pub max: Count,
    /// The properties that have a schema or are required.
    pub known: Vec<Known>,
    /// Their positions, by name.
    pub by_name: HashMap<Box<[u8]>, u32>,
    /// `required`: positions in `known`, each with its place.
    pub required: Vec<(u32, Place)>,
    /// `dependentRequired`: a name, and the names that are required with it.
    pub dependent: Vec<(String, Vec<(String, Place)>)>,
    /// `patternProperties`
    pub patterns: Vec<(Pattern, NodeId)>,
    /// `additionalProperties`
    pub additional: Option<(NodeId, Place)>,
    /// `propertyNames`
    pub names: Option<(NodeId, Place)>,
}

/// Keywords whose schemas judge the same value.
#[derive(Debug)]
pub enum InPlace {
    /// `dependentSchemas`
    Dependent(String, NodeId),
    /// `allOf`
    All(Vec<NodeId>),
    /// `anyOf`
    Any(Vec<NodeId>, Place),
    /// `oneOf`
    One(Vec<NodeId>, Place),
    /// `not`
    Not(NodeId, Place),
    /// `if`, `then` and `else`
    If(NodeId, Option<NodeId>, Option<NodeId>),
    /// `$ref`, or another reference that means the same everywhere
    Ref(NodeId),
    /// `$dynamicRef` or `$recursiveRef`: the anchor, and the schema if no scope has it
    Dynamic(u32, NodeId),
}

/// Says whether a string is of a format.
pub type Format = Box<dyn Fn(&str) -> bool + Send + Sync>;

/// A compiled schema.
pub struct Schema {
    /// Its documents.
    pub documents: Vec<Document>,
    /// All of its schemas; the first is the root.
    pub nodes: Vec<Node>,
    /// The formats that are judged, with the draft that they are of.
    pub formats: Vec<(u16, String)>,
    /// The same, as functions.
    pub format_checks: Vec<Format>,
    /// For each resource its dynamic anchors; nothing where no reference is dynamic.
    pub anchors: Vec<Vec<(u32, NodeId)>>,
    /// The property names that it mentions.
    pub names: HashSet<String>,
    /// Whether there is a pattern that may take long: by steps back, or for each byte.
    pub has_slow_patterns: bool,
}

impl Schema {
    /// Return the text at a place.
    pub fn written(&self, place: Place) -> &str {
        let bytes = self
            .documents
            .get(place.document as usize)
            .and_then(|document| document.text.get(place.start as usize..place.end as usize));
        std::str::from_utf8(bytes.unwrap_or_default()).unwrap_or_default()
    }
}
