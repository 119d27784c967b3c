//! The schema resources of documents, their anchors, and the targets of references.

use std::collections::{BTreeSet, HashMap};

use super::document::Json;
use super::node::Document;
use super::uri::{decoded, join, split};

/// Keywords with a schema for each name.
const MAPS: [&str; 6] =
    ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"];
/// Keywords with a schema, or a list of them.
const SCHEMAS: [&str; 16] = [
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "if",
    "then",
    "else",
    "items",
    "prefixItems",
    "additionalItems",
    "additionalProperties",
    "propertyNames",
    "contains",
    "unevaluatedItems",
    "unevaluatedProperties",
    "contentSchema",
];

/// A schema with its own URI.
pub struct Resource<'a> {
    /// Its absolute URI.
    pub uri: String,
    /// The schema.
    pub json: &'a Json,
    /// Its draft.
    pub draft: u16,
    /// The position of its document.
    pub document: u32,
    /// Its anchors for `$dynamicRef`, by name; the empty name is `$recursiveAnchor`.
    pub dynamic: Vec<(String, &'a Json)>,
}

/// A schema, and the resource that it is part of.
#[derive(Clone, Copy)]
pub struct Located<'a> {
    /// The schema.
    pub json: &'a Json,
    /// The position of its resource.
    pub resource: u32,
}

/// Why a reference has no target.
pub enum Unresolved {
    /// There is no document with this URI.
    Document(String),
    /// There is nothing at its fragment.
    Fragment,
}

/// The targets of references.
pub struct Resources<'a> {
    /// The resources.
    pub list: Vec<Resource<'a>>,
    by_uri: HashMap<String, u32>,
    by_json: HashMap<*const Json, u32>,
    anchors: HashMap<(u32, String), Located<'a>>,
}

impl<'a> Resources<'a> {
    /// Find the resources of documents.
    pub fn of(documents: &'a [Document]) -> Self {
        let mut found = Self {
            list: Vec::new(),
            by_uri: HashMap::new(),
            by_json: HashMap::new(),
            anchors: HashMap::new(),
        };
        for (position, document) in (0..).zip(documents) {
            let root = found.add(&document.uri, &document.json, document.draft, position);
            found.walk(&document.json, root);
        }
        found
    }

    /// Return the target of a reference within a resource.
    pub fn resolve(&self, resource: u32, reference: &str) -> Result<Located<'a>, Unresolved> {
        let (_, fragment) = split(reference);
        let uri = join(&self.list[resource as usize].uri, reference);
        let Some(&resource) = self.by_uri.get(&uri) else {
            return Err(Unresolved::Document(uri));
        };
        let fragment = decoded(fragment);
        let root = Located { json: self.list[resource as usize].json, resource };
        if fragment.is_empty() {
            return Ok(root);
        }
        if let Some(pointer) = fragment.strip_prefix('/') {
            return self.pointed(root, pointer).ok_or(Unresolved::Fragment);
        }
        self.anchors.get(&(resource, fragment)).copied().ok_or(Unresolved::Fragment)
    }

    /// Return a schema as part of its resource, which may be its own.
    pub fn located(&self, json: &'a Json, resource: u32) -> Located<'a> {
        let own = self.by_json.get(&std::ptr::from_ref(json));
        Located { json, resource: own.copied().unwrap_or(resource) }
    }

    fn pointed(&self, from: Located<'a>, pointer: &str) -> Option<Located<'a>> {
        let mut at = from;
        for step in pointer.split('/') {
            let step = step.replace("~1", "/").replace("~0", "~");
            let json = match at.json.get(&step) {
                Some(json) => json,
                None => at.json.items().get(index(&step)?)?,
            };
            at = self.located(json, at.resource);
        }
        Some(at)
    }

    fn add(&mut self, uri: &str, json: &'a Json, draft: u16, document: u32) -> u32 {
        let position = u32::try_from(self.list.len()).unwrap_or(u32::MAX);
        self.list.push(Resource {
            uri: uri.to_owned(),
            json,
            draft,
            document,
            dynamic: Vec::new(),
        });
        self.by_uri.entry(uri.to_owned()).or_insert(position);
        self.by_json.insert(json, position);
        position
    }

    fn walk(&mut self, json: &'a Json, resource: u32) {
        let resource = self.identified(json, resource);
        let draft = self.list[resource as usize].draft;
        if draft <= 7
            && json.text_of("$ref").is_some()
            && !self.by_json.contains_key(&std::ptr::from_ref(json))
        {
            // The keywords next to `$ref` have no effect, but references may lead into them.
            self.walk_inside(json, resource);
            return;
        }
        self.anchor(json, resource, draft);
        self.walk_inside(json, resource);
    }

    fn walk_inside(&mut self, json: &'a Json, resource: u32) {
        for (name, value) in json.properties() {
            if MAPS.contains(&name.as_str()) {
                for (_, inner) in value.properties() {
                    self.walk(inner, resource);
                }
            } else if SCHEMAS.contains(&name.as_str()) {
                for inner in value.items() {
                    self.walk(inner, resource);
                }
                if value.items().is_empty() {
                    self.walk(value, resource);
                }
            }
        }
    }

    /// Return the resource that a schema begins, or that it is part of.
    fn identified(&mut self, json: &'a Json, resource: u32) -> u32 {
        let own = &self.list[resource as usize];
        let (mut draft, document) = (own.draft, own.document);
        let is_root = std::ptr::eq(own.json, json);
        let id = json.text_of(if draft == 4 { "id" } else { "$id" });
        let Some(id) = id else { return resource };
        if draft <= 7 && json.text_of("$ref").is_some() && !is_root {
            return resource;
        }
        let (uri, fragment) = split(id);
        let uri = join(&own.uri, uri);
        if !is_root && let Some(other) = json.text_of("$schema").and_then(draft_of) {
            draft = other;
        }
        if is_root {
            self.by_uri.entry(uri.clone()).or_insert(resource);
            self.list[resource as usize].uri = uri;
            return resource;
        }
        let resource =
            if id.starts_with('#') { resource } else { self.add(&uri, json, draft, document) };
        if draft <= 7 && !fragment.is_empty() {
            self.anchors.insert((resource, fragment.to_owned()), Located { json, resource });
        }
        resource
    }

    fn anchor(&mut self, json: &'a Json, resource: u32, draft: u16) {
        let own = &mut self.list[resource as usize];
        let mut names = BTreeSet::new();
        if draft >= 2019 {
            names.extend(json.text_of("$anchor"));
        }
        if draft >= 2020
            && let Some(name) = json.text_of("$dynamicAnchor")
        {
            names.insert(name);
            own.dynamic.push((name.to_owned(), json));
        }
        if draft == 2019
            && std::ptr::eq(own.json, json)
            && matches!(
                json.get("$recursiveAnchor").map(|json| &json.content),
                Some(super::document::Content::Bool(true))
            )
        {
            own.dynamic.push((String::new(), json));
        }
        for name in names {
            self.anchors.insert((resource, name.to_owned()), Located { json, resource });
        }
    }
}

/// Return the draft that a `$schema` names.
pub fn draft_of(uri: &str) -> Option<u16> {
    let known =
        uri.trim_end_matches('#').strip_prefix("http").map(|rest| rest.trim_start_matches('s'));
    match known? {
        "://json-schema.org/draft-04/schema" => Some(4),
        "://json-schema.org/draft-06/schema" => Some(6),
        "://json-schema.org/draft-07/schema" => Some(7),
        "://json-schema.org/draft/2019-09/schema" => Some(2019),
        "://json-schema.org/draft/2020-12/schema" => Some(2020),
        _ => None,
    }
}

/// Return the index of an array that a step of a JSON Pointer names (RFC 6901, section 4): digits,
/// without a leading zero.
fn index(step: &str) -> Option<usize> {
    let has_digits_alone = step.bytes().all(|digit| digit.is_ascii_digit());
    let is_padded = step.len() > 1 && step.starts_with('0');
    if has_digits_alone && !is_padded { step.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::index;

    #[test]
    fn a_step_of_a_pointer_is_an_index() {
        assert_eq!(index("0"), Some(0));
        assert_eq!(index("10"), Some(10));
        for step in ["", "+1", "-1", "01", "1 ", "1e0", "\u{661}", "99999999999999999999999"] {
            assert_eq!(index(step), None, "{step:?}");
        }
    }
}
