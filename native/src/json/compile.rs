//! Compiles the documents of a schema.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::document::{Content, Json};
use super::node::{
    ArrayChecks, Constant, Contains, Count, Document, InPlace, Known, Limit, Node, NodeId,
    NumberCheck, ObjectChecks, OneOf, Place, Schema, StringChecks, types,
};
use super::pattern::Pattern;
use super::resources::{Located, Resources, Unresolved};
use super::scan::Name;

/// How many schemas there may be.
const MAX_NODES: usize = 1_000_000;

/// Why there is no compiled schema.
#[derive(Debug, PartialEq, Eq)]
pub enum Fault {
    /// These documents are referred to and have not been given.
    Missing(Vec<String>),
    /// It cannot be used; the text says why.
    Unusable(String),
}

/// Compile documents; the first is the schema, references lead to the others.
///
/// # Errors
///
/// Something is missing, or cannot be used.
pub fn compile(documents: Vec<Document>, formats: bool) -> Result<Schema, Fault> {
    let mut compiler = Compiler::new(&documents, formats);
    compiler.run()?;
    if !compiler.missing.is_empty() {
        return Err(Fault::Missing(compiler.missing.into_iter().collect()));
    }
    let Compiler { nodes, formats, anchors, names, has_slow_patterns, .. } = compiler;
    looping(&nodes)?;
    let format_checks = Vec::new();
    Ok(Schema { documents, nodes, formats, format_checks, anchors, names, has_slow_patterns })
}

struct Compiler<'a> {
    documents: &'a [Document],
    resources: Resources<'a>,
    judges_formats: bool,
    nodes: Vec<Node>,
    by_json: HashMap<*const Json, NodeId>,
    waiting: Vec<(NodeId, Located<'a>)>,
    missing: BTreeSet<String>,
    formats: Vec<(u16, String)>,
    anchor_names: HashMap<String, u32>,
    anchors: Vec<Vec<(u32, NodeId)>>,
    names: HashSet<String>,
    has_slow_patterns: bool,
}

impl<'a> Compiler<'a> {
    fn new(documents: &'a [Document], judges_formats: bool) -> Self {
        Self {
            documents,
            resources: Resources::of(documents),
            judges_formats,
            nodes: Vec::new(),
            by_json: HashMap::new(),
            waiting: Vec::new(),
            missing: BTreeSet::new(),
            formats: Vec::new(),
            anchor_names: HashMap::new(),
            anchors: Vec::new(),
            names: HashSet::new(),
            has_slow_patterns: false,
        }
    }

    fn run(&mut self) -> Result<(), Fault> {
        let root = self.resources.located(&self.documents[0].json, 0);
        self.node(root);
        loop {
            while let Some((id, located)) = self.waiting.pop() {
                if self.nodes.len() > MAX_NODES {
                    return Err(Fault::Unusable(format!("it has more than {MAX_NODES} schemas")));
                }
                let node = self.compiled(located)?;
                let is_target = self.nodes[id as usize].is_target;
                self.nodes[id as usize] = Node { is_target, ..node };
            }
            if self.anchor_names.is_empty() || !self.anchors.is_empty() {
                return Ok(());
            }
            self.anchor();
        }
    }

    /// Compile the schemas of all dynamic anchors.
    fn anchor(&mut self) {
        for resource in 0..self.resources.list.len() {
            let found = self.resources.list[resource].dynamic.clone();
            let mut own = Vec::new();
            for (name, json) in found {
                let next = u32::try_from(self.anchor_names.len()).unwrap_or(u32::MAX);
                let anchor = *self.anchor_names.entry(name).or_insert(next);
                let resource = u32::try_from(resource).unwrap_or(u32::MAX);
                own.push((anchor, self.node(Located { json, resource })));
            }
            self.anchors.push(own);
        }
    }

    /// Return the node of a schema, which is compiled later.
    fn node(&mut self, located: Located<'a>) -> NodeId {
        let key = std::ptr::from_ref(located.json);
        if let Some(&known) = self.by_json.get(&key) {
            return known;
        }
        let id = u32::try_from(self.nodes.len()).unwrap_or(u32::MAX);
        self.by_json.insert(key, id);
        self.nodes.push(Node::default());
        self.waiting.push((id, located));
        id
    }

    fn compiled(&mut self, at: Located<'a>) -> Result<Node, Fault> {
        let resource = &self.resources.list[at.resource as usize];
        let (draft, document) = (resource.draft, resource.document);
        let place = place_of(document, at.json);
        let mut node = Node {
            types: types::ALL,
            types_at: place,
            draft,
            resource: at.resource,
            ..Node::default()
        };
        node.finish();
        match at.json.content {
            Content::Bool(false) => Ok(Node { types: 0, ..node }),
            Content::Object(_) => {
                let keywords = Keywords { compiler: self, at, draft, document };
                keywords.node(node)
            }
            _ => Ok(node),
        }
    }
}

/// The keywords of a schema.
struct Keywords<'c, 'a> {
    compiler: &'c mut Compiler<'a>,
    at: Located<'a>,
    draft: u16,
    document: u32,
}

impl<'a> Keywords<'_, 'a> {
    /// Return a keyword that the draft has.
    fn get(&self, keyword: &str, since: u16, until: u16) -> Option<&'a Json> {
        if (since..=until).contains(&self.draft) { self.at.json.get(keyword) } else { None }
    }

    fn any(&self, keyword: &str) -> Option<&'a Json> {
        self.get(keyword, 0, u16::MAX)
    }

    fn place(&self, json: &Json) -> Place {
        place_of(self.document, json)
    }

    fn node_of(&mut self, json: &'a Json) -> NodeId {
        let located = self.compiler.resources.located(json, self.at.resource);
        self.compiler.node(located)
    }

    fn nodes_of(&mut self, json: &'a Json) -> Vec<NodeId> {
        json.items().iter().map(|inner| self.node_of(inner)).collect()
    }

    fn count(&self, keyword: &str) -> Count {
        let json = self.any(keyword)?;
        Some((json.count()?, self.place(json)))
    }

    fn node(mut self, mut node: Node) -> Result<Node, Fault> {
        if self.draft > 7 || self.at.json.text_of("$ref").is_none() {
            self.types(&mut node);
            self.values(&mut node);
            self.numbers(&mut node);
            node.string = self.strings()?;
            node.array = self.arrays();
            node.object = self.objects()?;
            self.in_place(&mut node);
            self.unevaluated(&mut node);
        }
        self.references(&mut node)?;
        node.finish();
        Ok(node)
    }

    fn types(&self, node: &mut Node) {
        let Some(json) = self.any("type") else { return };
        let names = json.items().iter().chain(std::iter::once(json)).filter_map(Json::text);
        node.types = names.map(bits_of).fold(0, |all, bits| all | bits);
        node.types_at = self.place(json);
    }

    fn values(&self, node: &mut Node) {
        let found = [("const", self.get("const", 6, u16::MAX)), ("enum", self.any("enum"))];
        for (keyword, json) in found {
            let Some(json) = json else { continue };
            let values = if keyword == "enum" { json.items() } else { std::slice::from_ref(json) };
            let strings = values
                .iter()
                .map(|value| value.text().map(|text| text.as_bytes().into()))
                .collect();
            let place = self.place(json);
            let values = values.iter().map(constant).collect();
            node.values.push(OneOf { keyword, strings, values, place });
        }
    }

    fn numbers(&self, node: &mut Node) {
        let mut limits = vec![
            (Limit::Minimum, self.any("minimum")),
            (Limit::Maximum, self.any("maximum")),
            (Limit::ExclusiveMinimum, self.get("exclusiveMinimum", 6, u16::MAX)),
            (Limit::ExclusiveMaximum, self.get("exclusiveMaximum", 6, u16::MAX)),
            (Limit::MultipleOf, self.any("multipleOf")),
        ];
        if self.draft == 4 {
            let is_true = |keyword| {
                matches!(self.any(keyword).map(|json| &json.content), Some(Content::Bool(true)))
            };
            if is_true("exclusiveMinimum") {
                limits[0].0 = Limit::ExclusiveMinimum;
            }
            if is_true("exclusiveMaximum") {
                limits[1].0 = Limit::ExclusiveMaximum;
            }
        }
        for (limit, json) in limits {
            if let Some(json) = json
                && let Some(number) = json.number()
            {
                node.number.push(NumberCheck { limit, number, place: self.place(json) });
            }
        }
    }

    fn strings(&mut self) -> Result<Option<Box<StringChecks>>, Fault> {
        let mut checks = StringChecks {
            min: self.count("minLength"),
            max: self.count("maxLength"),
            ..StringChecks::default()
        };
        if let Some(json) = self.any("pattern")
            && let Some(source) = json.text()
        {
            checks.pattern = Some((self.pattern(source)?, self.place(json)));
        }
        if self.compiler.judges_formats
            && let Some(json) = self.any("format")
            && let Some(name) = json.text()
        {
            checks.format = Some((self.format(name), self.place(json)));
        }
        let is = |keyword, expected| {
            self.get(keyword, 6, 7)
                .filter(|json| json.text() == Some(expected))
                .map(|json| self.place(json))
        };
        checks.base64 = is("contentEncoding", "base64");
        checks.json = is("contentMediaType", "application/json");
        let says = checks.min.is_some()
            || checks.max.is_some()
            || checks.pattern.is_some()
            || checks.format.is_some()
            || checks.base64.is_some()
            || checks.json.is_some();
        Ok(says.then(|| Box::new(checks)))
    }

    fn pattern(&mut self, source: &str) -> Result<Pattern, Fault> {
        let pattern = Pattern::new(source).ok_or_else(|| {
            let shown: String = source.chars().take(200).collect();
            Fault::Unusable(format!("{shown:?} is not a regular expression of ECMA 262"))
        })?;
        self.compiler.has_slow_patterns |= !pattern.is_bounded();
        Ok(pattern)
    }

    fn format(&mut self, name: &str) -> usize {
        let own = (self.draft, name.to_owned());
        let formats = &mut self.compiler.formats;
        formats.iter().position(|known| *known == own).unwrap_or_else(|| {
            formats.push(own);
            formats.len() - 1
        })
    }

    fn arrays(&mut self) -> Option<Box<ArrayChecks>> {
        let mut checks = ArrayChecks {
            min: self.count("minItems"),
            max: self.count("maxItems"),
            ..ArrayChecks::default()
        };
        checks.unique = self
            .any("uniqueItems")
            .filter(|json| matches!(json.content, Content::Bool(true)))
            .map(|json| self.place(json));
        if let Some(json) = self.get("prefixItems", 2020, u16::MAX) {
            checks.first = self.nodes_of(json);
        }
        match self.any("items") {
            Some(json) if self.draft < 2020 && matches!(json.content, Content::Array(_)) => {
                checks.first = self.nodes_of(json);
                match self.any("additionalItems") {
                    Some(rest) if matches!(rest.content, Content::Bool(false)) => {
                        checks.no_rest = Some(self.place(rest));
                    }
                    rest => checks.rest = rest.map(|json| self.node_of(json)),
                }
            }
            json => checks.rest = json.map(|json| self.node_of(json)),
        }
        if let Some(json) = self.get("contains", 6, u16::MAX) {
            let count = |keyword| self.get(keyword, 2019, u16::MAX).and_then(Json::count);
            let (min, max) = (count("minContains"), count("maxContains"));
            checks.contains = Some(Contains {
                node: self.node_of(json),
                min: min.unwrap_or(1),
                max: max.unwrap_or(u64::MAX),
                place: self.place(json),
            });
        }
        let says = checks.min.is_some()
            || checks.max.is_some()
            || checks.unique.is_some()
            || !checks.first.is_empty()
            || checks.rest.is_some()
            || checks.no_rest.is_some()
            || checks.contains.is_some();
        says.then(|| Box::new(checks))
    }

    fn objects(&mut self) -> Result<Option<Box<ObjectChecks>>, Fault> {
        let mut checks = ObjectChecks {
            min: self.count("minProperties"),
            max: self.count("maxProperties"),
            ..ObjectChecks::default()
        };
        self.properties(&mut checks);
        self.dependencies(&mut checks);
        if let Some(json) = self.any("patternProperties") {
            for (source, inner) in json.properties() {
                let pattern = self.pattern(source)?;
                checks.patterns.push((pattern, self.node_of(inner)));
            }
        }
        if let Some(json) = self.any("additionalProperties") {
            checks.additional = Some((self.node_of(json), self.place(json)));
        }
        if let Some(json) = self.get("propertyNames", 6, u16::MAX) {
            checks.names = Some((self.node_of(json), self.place(json)));
        }
        let says = checks.min.is_some()
            || checks.max.is_some()
            || !checks.known.is_empty()
            || !checks.dependent.is_empty()
            || !checks.patterns.is_empty()
            || checks.additional.is_some()
            || checks.names.is_some();
        Ok(says.then(|| Box::new(checks)))
    }

    fn properties(&mut self, checks: &mut ObjectChecks) {
        if let Some(json) = self.any("properties") {
            for (name, inner) in json.properties() {
                let node = Some(self.node_of(inner));
                let position = known(checks, name);
                checks.known[position].node = node;
                self.compiler.names.insert(name.clone());
            }
        }
        if let Some(json) = self.any("required") {
            for item in json.items() {
                let Some(name) = item.text() else { continue };
                let position = known(checks, name);
                self.compiler.names.insert(name.to_owned());
                if checks.known[position].required.is_none() {
                    checks.known[position].required = u32::try_from(checks.required.len()).ok();
                    let position = u32::try_from(position).unwrap_or(u32::MAX);
                    checks.required.push((position, self.place(item)));
                }
            }
        }
    }

    /// Compile `dependentRequired`, and the arrays in `dependencies`.
    fn dependencies(&mut self, checks: &mut ObjectChecks) {
        let found = [self.get("dependentRequired", 2019, u16::MAX), self.any("dependencies")];
        for (name, needed) in found.into_iter().flatten().flat_map(Json::properties) {
            self.compiler.names.insert(name.clone());
            if let Content::Array(items) = &needed.content {
                let texts = items
                    .iter()
                    .filter_map(|item| item.text().map(|text| (text.to_owned(), self.place(item))));
                let needed: Vec<_> = texts.collect();
                self.compiler.names.extend(needed.iter().map(|(text, _)| text.clone()));
                checks.dependent.push((name.clone(), needed));
            }
        }
    }

    fn in_place(&mut self, node: &mut Node) {
        let found = [self.any("dependencies"), self.get("dependentSchemas", 2019, u16::MAX)];
        for (name, inner) in found.into_iter().flatten().flat_map(Json::properties) {
            self.compiler.names.insert(name.clone());
            if !matches!(inner.content, Content::Array(_)) {
                let inner = self.node_of(inner);
                node.in_place.push(InPlace::Dependent(name.clone(), inner));
            }
        }
        if let Some(json) = self.any("allOf") {
            node.in_place.push(InPlace::All(self.nodes_of(json)));
        }
        if let Some(json) = self.any("anyOf") {
            node.in_place.push(InPlace::Any(self.nodes_of(json), self.place(json)));
        }
        if let Some(json) = self.any("oneOf") {
            node.in_place.push(InPlace::One(self.nodes_of(json), self.place(json)));
        }
        if let Some(json) = self.any("not") {
            node.in_place.push(InPlace::Not(self.node_of(json), self.place(json)));
        }
        if let Some(json) = self.get("if", 7, u16::MAX) {
            let [then, other] =
                ["then", "else"].map(|keyword| self.any(keyword).map(|json| self.node_of(json)));
            if then.is_some() || other.is_some() || self.draft >= 2019 {
                node.in_place.push(InPlace::If(self.node_of(json), then, other));
            }
        }
    }

    fn unevaluated(&mut self, node: &mut Node) {
        if let Some(json) = self.get("unevaluatedItems", 2019, u16::MAX) {
            node.unevaluated_items = Some((self.node_of(json), self.place(json)));
        }
        if let Some(json) = self.get("unevaluatedProperties", 2019, u16::MAX) {
            node.unevaluated_properties = Some((self.node_of(json), self.place(json)));
        }
    }

    fn references(&mut self, node: &mut Node) -> Result<(), Fault> {
        if let Some(reference) = self.any("$ref").and_then(Json::text)
            && let Some((target, _)) = self.resolved(reference)?
        {
            node.in_place.push(InPlace::Ref(target));
        }
        if let Some(reference) = self.get("$recursiveRef", 2019, 2019).and_then(Json::text)
            && let Some((target, located)) = self.resolved(reference)?
        {
            let name = self.dynamic(located, "");
            node.in_place.push(reference_to(target, name));
        }
        if let Some(reference) = self.get("$dynamicRef", 2020, u16::MAX).and_then(Json::text)
            && let Some((target, located)) = self.resolved(reference)?
        {
            let fragment = reference.split_once('#').map_or("", |(_, fragment)| fragment);
            let is_anchor = !fragment.is_empty() && !fragment.starts_with('/');
            let name = if is_anchor { self.dynamic(located, fragment) } else { None };
            node.in_place.push(reference_to(target, name));
        }
        Ok(())
    }

    /// Return the schema that a reference leads to; None where its document is missing.
    fn resolved(&mut self, reference: &str) -> Result<Option<(NodeId, Located<'a>)>, Fault> {
        match self.compiler.resources.resolve(self.at.resource, reference) {
            Ok(located) => {
                let id = self.compiler.node(located);
                self.compiler.nodes[id as usize].is_target = true;
                Ok(Some((id, located)))
            }
            Err(Unresolved::Document(uri)) => {
                self.compiler.missing.insert(uri);
                Ok(None)
            }
            Err(Unresolved::Fragment) => {
                Err(Fault::Unusable(format!("$ref to {reference} leads nowhere")))
            }
        }
    }

    /// Return the number of a dynamic anchor, if the schema has an anchor of this name.
    fn dynamic(&mut self, located: Located<'a>, name: &str) -> Option<u32> {
        let own = &self.compiler.resources.list[located.resource as usize].dynamic;
        let is_there =
            own.iter().any(|(own, json)| own == name && std::ptr::eq(*json, located.json));
        let names = &mut self.compiler.anchor_names;
        let next = u32::try_from(names.len()).unwrap_or(u32::MAX);
        is_there.then(|| *names.entry(name.to_owned()).or_insert(next))
    }
}

fn reference_to(target: NodeId, anchor: Option<u32>) -> InPlace {
    anchor.map_or(InPlace::Ref(target), |anchor| InPlace::Dynamic(anchor, target))
}

/// Return the position of a property among those that a schema names.
fn known(checks: &mut ObjectChecks, name: &str) -> usize {
    let name: Box<[u8]> = name.as_bytes().into();
    if let Some(&position) = checks.by_name.get(&name) {
        return position as usize;
    }
    let position = checks.known.len();
    checks.by_name.insert(name.clone(), u32::try_from(position).unwrap_or(u32::MAX));
    checks.known.push(Known { written: Name::new(&name), name, node: None, required: None });
    position
}

fn bits_of(name: &str) -> u8 {
    match name {
        "null" => types::NULL,
        "boolean" => types::BOOLEAN,
        "number" => types::NUMBER | types::INTEGER,
        "integer" => types::INTEGER,
        "string" => types::STRING,
        "array" => types::ARRAY,
        "object" => types::OBJECT,
        _ => 0,
    }
}

fn constant(json: &Json) -> Constant {
    match &json.content {
        Content::Null => Constant::Null,
        Content::Bool(value) => Constant::Bool(*value),
        Content::Number(number) => Constant::Number(*number),
        Content::String(text) => Constant::String(text.clone()),
        Content::Array(items) => Constant::Array(items.iter().map(constant).collect()),
        Content::Object(properties) => Constant::Object(
            properties.iter().map(|(name, value)| (name.clone(), constant(value))).collect(),
        ),
    }
}

fn place_of(document: u32, json: &Json) -> Place {
    let part = |position: usize| u32::try_from(position).unwrap_or(u32::MAX);
    Place { document, start: part(json.span.0), end: part(json.span.1) }
}

/// Refuse a schema that refers to itself without a step into the value: it says nothing.
fn looping(nodes: &[Node]) -> Result<(), Fault> {
    let mut before = vec![0_u32; nodes.len()];
    for target in nodes.iter().flat_map(same_value) {
        before[target as usize] += 1;
    }
    // Remove the nodes that no remaining node leads to, until there are no more of them.
    let mut free: Vec<_> = (0..nodes.len()).filter(|&node| before[node] == 0).collect();
    let mut left = nodes.len();
    while let Some(node) = free.pop() {
        left -= 1;
        for target in same_value(&nodes[node]) {
            before[target as usize] -= 1;
            if before[target as usize] == 0 {
                free.push(target as usize);
            }
        }
    }
    if left == 0 {
        return Ok(());
    }
    Err(Fault::Unusable("a $ref leads back to itself without a step into the document".to_owned()))
}

fn same_value(node: &Node) -> Vec<NodeId> {
    let mut found = Vec::new();
    for keyword in &node.in_place {
        match keyword {
            InPlace::All(inner) | InPlace::Any(inner, _) | InPlace::One(inner, _) => {
                found.extend(inner);
            }
            InPlace::Dependent(_, inner) | InPlace::Not(inner, _) | InPlace::Ref(inner) => {
                found.push(*inner);
            }
            InPlace::If(inner, then, other) => {
                found.push(*inner);
                found.extend(then.iter().chain(other));
            }
            // Its target depends on the dynamic scope. A loop ends at `check::MAX_DEPTH`.
            InPlace::Dynamic(..) => {}
        }
    }
    found
}
