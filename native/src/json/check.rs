//! Judges a text by a compiled schema, within a budget of steps.
//!
//! The verdict comes with its reason: no value is judged again for it. After many steps, the
//! verdicts of schemas that references lead to are remembered, so that each of these schemas
//! judges each value once.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hash, Hasher};

use super::base64;
use super::flaw::Flaw;
use super::node::{
    ArrayChecks, Constant, Contains, Count, InPlace, Limit, Node, NodeId, NumberCheck,
    ObjectChecks, OneOf, Place, Schema, StringChecks, types,
};
use super::pattern::Pattern;
use super::text::{MAX_LEVELS, Text, Values};
use super::value::{Kind, Value};

mod one_pass;

/// How many schemas may judge inside each other: this much of the stack is taken at most.
const MAX_DEPTH: u32 = 2000;
/// After how many steps verdicts are remembered; below, that takes longer than to judge again.
const REMEMBERED_AFTER: u64 = 10_000;
/// The steps for remembering a verdict: so the budget bounds the memory, too.
const STEPS_TO_REMEMBER: u64 = 8;
/// The most steps of `one_pass`: for a text, and for each of its bytes. A pass in vain is not taken
/// from the budget, so its steps have to be in proportion to the text.
const PASS_STEPS: (u64, u64) = (10_000, 16);

/// Why a value does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The keyword that it breaks, or `falseSchema`.
    pub keyword: &'static str,
    /// Where in the schema the check is.
    pub place: Place,
    /// The position of the value.
    pub at: u32,
}

/// The result of judging a text.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It fits.
    Fits,
    /// It does not: the first reason, and the value as a JSON pointer.
    Refused(Failure, String),
    /// It is not JSON.
    NotJson(Flaw),
    /// It takes more work than is allowed.
    TooMuch,
}

impl Schema {
    /// Return whether a text fits; false as well where that is more work than `budget` allows.
    ///
    /// To read it takes steps, too.
    pub fn fits(&self, bytes: &[u8], values: &mut Values, budget: &mut u64) -> bool {
        *budget = budget.saturating_sub(bytes.len() as u64 / 16);
        self.judge(bytes, values, budget) == Verdict::Fits
    }

    /// Judge a text.
    ///
    /// `values` is kept from text to text. Steps are taken from `budget`: one for each schema
    /// that judges a value, and more in proportion to the compared values.
    pub fn judge(&self, bytes: &[u8], values: &mut Values, budget: &mut u64) -> Verdict {
        let text = match Text::unread(bytes, values) {
            Ok(text) => text,
            Err(flaw) => return Verdict::NotJson(flaw),
        };
        let allowed = PASS_STEPS.0.saturating_add(PASS_STEPS.1.saturating_mul(bytes.len() as u64));
        let allowed = allowed.min(*budget);
        let mut check = Check {
            schema: self,
            text,
            left: 0,
            remembers_below: 0,
            depth: 0,
            silent: 0,
            failure: None,
            remembered: None,
            scope: 0,
            scopes: Vec::new(),
            is_over: false,
        };
        check.allow(allowed);
        if check.fits_in_one_pass() {
            *budget -= allowed - check.left;
            return Verdict::Fits;
        }
        check.allow(*budget);
        if let Err(flaw) = check.text.read_all(MAX_LEVELS) {
            return Verdict::NotJson(flaw);
        }
        if !self.anchors.is_empty() {
            check.scopes.push(HashMap::new());
        }
        let fits = check.value(0, 0, None);
        *budget = check.left;
        match check.failure {
            _ if check.is_over => Verdict::TooMuch,
            _ if fits => Verdict::Fits,
            Some(failure) => Verdict::Refused(failure, check.pointer(failure.at)),
            None => Verdict::TooMuch,
        }
    }
}

/// Which items or properties have been evaluated, for `unevaluatedItems` and `unevaluatedProperties`.
#[derive(Default)]
struct Seen {
    all: bool,
    bits: Vec<u64>,
}

impl Seen {
    fn mark(&mut self, ordinal: usize) {
        let word = ordinal / 64;
        if self.bits.len() <= word {
            self.bits.resize(word + 1, 0);
        }
        self.bits[word] |= 1 << (ordinal % 64);
    }

    fn has(&self, ordinal: usize) -> bool {
        self.all || self.bits.get(ordinal / 64).is_some_and(|word| word >> (ordinal % 64) & 1 == 1)
    }

    fn take(&mut self, other: &Self) {
        self.all |= other.all;
        if self.bits.len() < other.bits.len() {
            self.bits.resize(other.bits.len(), 0);
        }
        for (own, other) in self.bits.iter_mut().zip(&other.bits) {
            *own |= other;
        }
    }
}

struct Check<'s, 't> {
    schema: &'s Schema,
    text: Text<'t>,
    left: u64,
    remembers_below: u64,
    depth: u32,
    /// How many of the open schemas may fail without a reason.
    silent: u32,
    failure: Option<Failure>,
    remembered: Option<HashMap<(NodeId, u32, u32), bool>>,
    /// The dynamic scope: for each anchor the first resource that has it.
    scope: u32,
    scopes: Vec<HashMap<u32, NodeId>>,
    is_over: bool,
}

impl Check<'_, '_> {
    /// Begin with so many steps, whatever was taken before.
    fn allow(&mut self, steps: u64) {
        self.left = steps;
        self.remembers_below = steps.saturating_sub(REMEMBERED_AFTER);
        self.is_over = false;
    }

    #[inline]
    fn value(&mut self, id: NodeId, at: u32, seen: Option<&mut Seen>) -> bool {
        if self.left == 0 || self.is_over {
            self.is_over = true;
            return false;
        }
        self.left -= 1;
        let schema = self.schema;
        let node = &schema.nodes[id as usize];
        let value = self.text.at(at);
        if node.types != types::ALL && !self.is_of_type(node, value) {
            let keyword = if node.types == 0 { "falseSchema" } else { "type" };
            return self.fail(keyword, node.types_at, at);
        }
        node.is_plain || self.of_its_type(id, node, at, value, seen)
    }

    /// Judge a value whose type is allowed.
    #[inline]
    fn of_its_type(
        &mut self,
        id: NodeId,
        node: &Node,
        at: u32,
        value: Value,
        seen: Option<&mut Seen>,
    ) -> bool {
        match value.kind {
            Kind::Object | Kind::Array => self.deeper(id, node, at, value, seen),
            _ if node.in_place.is_empty() => self.keywords(node, at, value, None),
            _ => self.deeper(id, node, at, value, seen),
        }
    }

    fn deeper(
        &mut self,
        id: NodeId,
        node: &Node,
        at: u32,
        value: Value,
        seen: Option<&mut Seen>,
    ) -> bool {
        if self.depth == MAX_DEPTH {
            self.is_over = true;
            return false;
        }
        self.depth += 1;
        let outer = self.scope;
        if !self.schema.anchors.is_empty() {
            self.enter(node.resource);
        }
        let fits = if node.is_target && self.left < self.remembers_below {
            self.once(id, node, at, value, seen)
        } else {
            self.all(node, at, value, seen)
        };
        self.scope = outer;
        self.depth -= 1;
        fits
    }

    /// Judge a value by a schema that references lead to; remember the verdict.
    fn once(
        &mut self,
        id: NodeId,
        node: &Node,
        at: u32,
        value: Value,
        seen: Option<&mut Seen>,
    ) -> bool {
        let key = (id, at, self.scope);
        match self.remembered.get_or_insert_default().get(&key) {
            Some(true) if seen.is_none() => return true,
            // If a reason is needed, the value is judged again: on one path only.
            Some(false) if self.silent > 0 => return false,
            _ => {}
        }
        let fits = self.all(node, at, value, seen);
        if self.take(STEPS_TO_REMEMBER) {
            self.remembered.get_or_insert_default().insert(key, fits);
        }
        fits
    }

    fn all(&mut self, node: &Node, at: u32, value: Value, seen: Option<&mut Seen>) -> bool {
        let rest = match value.kind {
            Kind::Object => node.unevaluated_properties,
            Kind::Array => node.unevaluated_items,
            _ => None,
        };
        match rest {
            None => self.keywords(node, at, value, seen),
            Some((rest, place)) => self.all_evaluated(node, (rest, place), at, value, seen),
        }
    }

    /// Judge by a schema with `unevaluatedItems` or `unevaluatedProperties`.
    fn all_evaluated(
        &mut self,
        node: &Node,
        (rest, place): (NodeId, Place),
        at: u32,
        value: Value,
        seen: Option<&mut Seen>,
    ) -> bool {
        let mut own = Seen::default();
        let is_object = value.kind == Kind::Object;
        if !self.keywords(node, at, value, Some(&mut own)) {
            return false;
        }
        if is_object {
            self.text.replace(at);
        }
        if !self.unevaluated(rest, place, at, value, &own) {
            return false;
        }
        if let Some(seen) = seen {
            seen.all = true;
        }
        true
    }

    fn keywords(
        &mut self,
        node: &Node,
        at: u32,
        value: Value,
        mut seen: Option<&mut Seen>,
    ) -> bool {
        if !node.values.iter().all(|values| self.one_of(values, at)) {
            return false;
        }
        let own = match value.kind {
            Kind::Whole | Kind::Decimal => self.number(&node.number, at, value),
            Kind::String => {
                node.string.as_deref().is_none_or(|checks| self.string(checks, at, value))
            }
            Kind::Array => node
                .array
                .as_deref()
                .is_none_or(|checks| self.array(checks, at, value, seen.as_deref_mut())),
            Kind::Object => node
                .object
                .as_deref()
                .is_none_or(|checks| self.object(checks, at, seen.as_deref_mut())),
            _ => true,
        };
        own && node.in_place.iter().all(|keyword| self.in_place(keyword, at, seen.as_deref_mut()))
    }

    #[inline]
    fn is_of_type(&self, node: &Node, value: Value) -> bool {
        // Only constants are chosen here: that takes no jump.
        let bit = match value.kind {
            Kind::Null => types::NULL,
            Kind::False | Kind::True => types::BOOLEAN,
            Kind::String => types::STRING,
            Kind::Array => types::ARRAY,
            Kind::Object => types::OBJECT,
            Kind::Whole => types::INTEGER,
            Kind::Decimal => types::NUMBER,
        };
        let is_certain = value.kind != Kind::Whole || value.len <= 18;
        is_certain && node.types & bit != 0 || self.is_number_of_type(node, value)
    }

    /// Return whether a number has an allowed type; false where its kind alone has decided.
    fn is_number_of_type(&self, node: &Node, value: Value) -> bool {
        match value.kind {
            Kind::Whole if value.len <= 18 => false,
            Kind::Whole | Kind::Decimal => {
                node.types & types::NUMBER != 0
                    || node.types & types::INTEGER != 0
                        && self.text.number(value).is_whole(node.draft)
            }
            _ => false,
        }
    }

    #[cold]
    fn fail(&mut self, keyword: &'static str, place: Place, at: u32) -> bool {
        if self.silent == 0 {
            self.failure = Some(Failure { keyword, place, at });
        }
        false
    }

    /// Take steps for work that is not a schema; false if too few are left.
    fn take(&mut self, steps: u64) -> bool {
        if self.left <= steps || self.is_over {
            self.left = 0;
            self.is_over = true;
            return false;
        }
        self.left -= steps;
        true
    }

    /// Return whether a text matches; None if that takes too much work, and judging ends.
    fn matches(&mut self, pattern: &Pattern, text: &str) -> Option<bool> {
        if !self.take(pattern.steps(text.len())) {
            return None;
        }
        let found = pattern.matches(text);
        self.is_over |= found.is_none();
        found
    }

    fn one_of(&mut self, allowed: &OneOf, at: u32) -> bool {
        let value = self.text.at(at);
        if let Some(strings) = &allowed.strings
            && (value.kind != Kind::String || strings.len() <= 32)
            && let Some(raw) =
                if value.kind == Kind::String { self.text.plain(value) } else { Some(&[][..]) }
        {
            let found = value.kind == Kind::String && strings.iter().any(|one| **one == *raw);
            return found || self.fail(allowed.keyword, allowed.place, at);
        }
        for constant in &allowed.values {
            if !self.take(1) {
                return false;
            }
            if self.equals(at, constant) {
                return true;
            }
        }
        self.fail(allowed.keyword, allowed.place, at)
    }

    /// Return whether a value equals a constant.
    fn equals(&mut self, at: u32, constant: &Constant) -> bool {
        let value = self.text.at(at);
        match (value.kind, constant) {
            (Kind::Null, Constant::Null)
            | (Kind::False, Constant::Bool(false))
            | (Kind::True, Constant::Bool(true)) => true,
            (Kind::Whole | Kind::Decimal, Constant::Number(number)) => {
                self.text.number(value).compare(*number).is_eq()
            }
            (Kind::String, Constant::String(text)) => {
                let is_plain = self.text.plain(value).is_some();
                (is_plain || self.take(u64::from(value.len) / 16))
                    && self.text.string(value) == text.as_str()
            }
            (Kind::Array, Constant::Array(items)) => {
                value.len as usize == items.len() && {
                    let mut child = at + 1;
                    items.iter().all(|item| {
                        let own = child;
                        child = self.text.at(child).next;
                        self.take(1) && self.equals(own, item)
                    })
                }
            }
            (Kind::Object, Constant::Object(properties)) => {
                let own = self.properties(at);
                own.len() == properties.len()
                    && own.iter().all(|&(_, name)| {
                        let text = self.text.string(self.text.at(name));
                        let other = properties.get(text.as_ref());
                        self.take(1) && other.is_some_and(|other| self.equals(name + 1, other))
                    })
            }
            _ => false,
        }
    }

    /// Return the properties that count: the position of each among all, and that of its name.
    fn properties(&mut self, at: u32) -> Vec<(usize, u32)> {
        self.text.replace(at);
        let count = self.text.at(at).len as usize;
        let mut child = at + 1;
        let mut found = Vec::with_capacity(count);
        for ordinal in 0..count {
            if self.text.counts(self.text.at(child)) {
                found.push((ordinal, child));
            }
            child = self.text.at(child + 1).next;
        }
        found
    }

    fn number(&mut self, checks: &[NumberCheck], at: u32, value: Value) -> bool {
        if checks.is_empty() {
            return true;
        }
        for check in checks {
            let order = self.text.order(value, check.number);
            let (fits, keyword) = match check.limit {
                Limit::Minimum => (order.is_ge(), "minimum"),
                Limit::Maximum => (order.is_le(), "maximum"),
                Limit::ExclusiveMinimum => (order.is_gt(), "exclusiveMinimum"),
                Limit::ExclusiveMaximum => (order.is_lt(), "exclusiveMaximum"),
                Limit::MultipleOf => {
                    (self.text.number(value).is_multiple_of(check.number), "multipleOf")
                }
            };
            if !fits {
                return self.fail(keyword, check.place, at);
            }
        }
        true
    }

    fn string(&mut self, checks: &StringChecks, at: u32, value: Value) -> bool {
        if !self.length(checks, at, value) {
            return false;
        }
        if checks.pattern.is_none()
            && checks.format.is_none()
            && checks.base64.is_none()
            && checks.json.is_none()
        {
            return true;
        }
        let text = self.text.string(value);
        if let Some((pattern, place)) = &checks.pattern {
            match self.matches(pattern, &text) {
                None => return false,
                Some(false) => return self.fail("pattern", *place, at),
                Some(true) => {}
            }
        }
        if let Some((format, place)) = checks.format {
            let schema = self.schema;
            if !self.take(8 + text.len() as u64 / 16) {
                return false;
            }
            if !schema.format_checks.get(format).is_some_and(|is_valid| is_valid(&text)) {
                return self.fail("format", place, at);
            }
        }
        self.content(checks, &text, at)
    }

    fn length(&mut self, checks: &StringChecks, at: u32, value: Value) -> bool {
        if checks.min.is_none() && checks.max.is_none() {
            return true;
        }
        let bytes = u64::from(value.len);
        if self.text.plain(value).is_some()
            && checks.min.is_none_or(|(min, _)| bytes / 4 >= min)
            && checks.max.is_none_or(|(max, _)| bytes <= max)
        {
            return true; // whatever the characters are
        }
        if !self.take(bytes / 64) {
            return false;
        }
        let characters = match self.text.plain(value) {
            // Each character has one byte that is not a continuation byte.
            Some(raw) => raw.iter().map(|&byte| u64::from(byte & 0xc0 != 0x80)).sum(),
            None => self.text.string(value).chars().count() as u64,
        };
        self.within(characters, checks.min, checks.max, ["minLength", "maxLength"], at)
    }

    /// Judge a number of characters, items or properties by the least and the most there may be.
    fn within(
        &mut self,
        count: u64,
        min: Count,
        max: Count,
        [least, most]: [&'static str; 2],
        at: u32,
    ) -> bool {
        match (min, max) {
            (Some((min, place)), _) if count < min => self.fail(least, place, at),
            (_, Some((max, place))) if count > max => self.fail(most, place, at),
            _ => true,
        }
    }

    fn content(&mut self, checks: &StringChecks, text: &str, at: u32) -> bool {
        let is_read = checks.base64.is_some() || checks.json.is_some();
        if is_read && !self.take(text.len() as u64 / 4) {
            return false;
        }
        let decoded;
        let mut bytes = text.as_bytes();
        if let Some(place) = checks.base64 {
            match base64::decoded(text) {
                Some(found) => {
                    decoded = found;
                    bytes = &decoded;
                }
                None => return self.fail("contentEncoding", place, at),
            }
        }
        if let Some(place) = checks.json
            && Text::read(bytes, &mut Values::default()).is_err()
        {
            return self.fail("contentMediaType", place, at);
        }
        true
    }

    fn array(
        &mut self,
        checks: &ArrayChecks,
        at: u32,
        value: Value,
        mut seen: Option<&mut Seen>,
    ) -> bool {
        let count = u64::from(value.len);
        if !self.within(count, checks.min, checks.max, ["minItems", "maxItems"], at) {
            return false;
        }
        if let Some(place) = checks.unique
            && !self.is_unique(at, value)
        {
            return self.fail("uniqueItems", place, at);
        }
        if let Some(place) = checks.no_rest
            && value.len as usize > checks.first.len()
        {
            return self.fail("additionalItems", place, at);
        }
        let mut child = at + 1;
        for ordinal in 0..value.len as usize {
            let node = checks.first.get(ordinal).copied().or(checks.rest);
            let Some(node) = node else { break };
            if !self.value(node, child, None) {
                return false;
            }
            if let Some(seen) = seen.as_deref_mut() {
                seen.mark(ordinal);
            }
            child = self.text.at(child).next;
        }
        checks.contains.as_ref().is_none_or(|contains| self.contains(contains, at, value, seen))
    }

    fn contains(
        &mut self,
        contains: &Contains,
        at: u32,
        value: Value,
        mut seen: Option<&mut Seen>,
    ) -> bool {
        let mut found = 0;
        let mut child = at + 1;
        self.silent += 1;
        for ordinal in 0..value.len as usize {
            if self.value(contains.node, child, None) {
                found += 1;
                if let Some(seen) = seen.as_deref_mut() {
                    seen.mark(ordinal);
                } else if found > contains.max || found >= contains.min && contains.max == u64::MAX
                {
                    break;
                }
            }
            child = self.text.at(child).next;
        }
        self.silent -= 1;
        (contains.min..=contains.max).contains(&found) || self.fail("contains", contains.place, at)
    }

    fn is_unique(&mut self, at: u32, value: Value) -> bool {
        // Its keys are chosen by chance: values that collide cannot be prepared.
        let state = RandomState::new();
        let mut buckets: HashMap<u64, Vec<u32>> = HashMap::with_capacity(value.len as usize);
        let mut child = at + 1;
        for _ in 0..value.len {
            let mut hasher = state.build_hasher();
            if !self.hash(child, &mut hasher) {
                return false;
            }
            let bucket = buckets.entry(hasher.finish()).or_default();
            if bucket.iter().any(|&other| self.are_equal(other, child)) {
                return false;
            }
            bucket.push(child);
            child = self.text.at(child).next;
        }
        true
    }

    fn hash(&mut self, at: u32, hasher: &mut impl Hasher) -> bool {
        let value = self.text.at(at);
        if !self.take(2 + if value.kind == Kind::String { u64::from(value.len) / 32 } else { 0 }) {
            return false;
        }
        match value.kind {
            Kind::Null | Kind::False | Kind::True => (value.kind as u8).hash(hasher),
            Kind::Whole | Kind::Decimal => self.text.number(value).bits().hash(hasher),
            Kind::String => self.text.string(value).hash(hasher),
            Kind::Array => {
                value.len.hash(hasher);
                let mut child = at + 1;
                for _ in 0..value.len {
                    if !self.hash(child, hasher) {
                        return false;
                    }
                    child = self.text.at(child).next;
                }
            }
            Kind::Object => {
                // The order of properties does not count: their number and names do.
                let mut names = 0_u64;
                for (_, name) in self.properties(at) {
                    let mut own = std::hash::DefaultHasher::new();
                    self.text.string(self.text.at(name)).hash(&mut own);
                    if !self.hash(name + 1, &mut own) {
                        return false;
                    }
                    names = names.wrapping_add(own.finish());
                }
                names.hash(hasher);
            }
        }
        true
    }

    fn are_equal(&mut self, one: u32, other: u32) -> bool {
        if !self.take(1) {
            return false;
        }
        let (a, b) = (self.text.at(one), self.text.at(other));
        match (a.kind, b.kind) {
            (Kind::Whole | Kind::Decimal, Kind::Whole | Kind::Decimal) => {
                self.text.number(a).compare(self.text.number(b)).is_eq()
            }
            (Kind::String, Kind::String) => self.text.string(a) == self.text.string(b),
            (Kind::Array, Kind::Array) => {
                let (mut left, mut right) = (one + 1, other + 1);
                a.len == b.len
                    && (0..a.len).all(|_| {
                        let equal = self.are_equal(left, right);
                        left = self.text.at(left).next;
                        right = self.text.at(right).next;
                        equal
                    })
            }
            (Kind::Object, Kind::Object) => {
                let left = self.properties(one);
                let right: HashMap<_, _> = self
                    .properties(other)
                    .into_iter()
                    .map(|(_, name)| (self.text.string(self.text.at(name)), name))
                    .collect();
                left.len() == right.len()
                    && left.iter().all(|&(_, name)| {
                        let text = self.text.string(self.text.at(name));
                        right.get(&text).is_some_and(|&other| self.are_equal(name + 1, other + 1))
                    })
            }
            (one, other) => one == other,
        }
    }

    /// Judge an object; again, if it fails and has duplicates, by the properties that count.
    fn object(&mut self, checks: &ObjectChecks, at: u32, mut seen: Option<&mut Seen>) -> bool {
        if checks.min.is_some() {
            self.text.replace(at); // only this may hold because of duplicates
        }
        self.object_once(checks, at, seen.as_deref_mut())
            || !self.is_over && self.text.replace(at) && self.object_once(checks, at, seen)
    }

    fn object_once(&mut self, checks: &ObjectChecks, at: u32, seen: Option<&mut Seen>) -> bool {
        if (checks.min.is_some() || checks.max.is_some()) && !self.size(checks, at) {
            return false;
        }
        if !self.each_property(checks, at, seen) {
            if self.silent == 0 && !self.is_over {
                self.lacks(checks, at); // a missing property comes first as the reason
            }
            return false;
        }
        checks.dependent.iter().all(|(name, needed)| {
            self.property(at, name).is_none()
                || needed.iter().all(|(needed, place)| {
                    self.property(at, needed).is_some() || self.fail("required", *place, at)
                })
        })
    }

    fn size(&mut self, checks: &ObjectChecks, at: u32) -> bool {
        let value = self.text.at(at);
        let mut count = 0;
        let mut child = at + 1;
        for _ in 0..value.len {
            count += u64::from(self.text.counts(self.text.at(child)));
            child = self.text.at(child + 1).next;
        }
        self.within(count, checks.min, checks.max, ["minProperties", "maxProperties"], at)
    }

    fn each_property(
        &mut self,
        checks: &ObjectChecks,
        at: u32,
        mut seen: Option<&mut Seen>,
    ) -> bool {
        let count = self.text.at(at).len as usize;
        if !self.take(count as u64 / 8) {
            return false;
        }
        let is_simple = checks.patterns.is_empty()
            && checks.additional.is_none()
            && checks.names.is_none()
            && seen.is_none();
        let mut required = Required::new(checks.required.len());
        let mut expected = 0;
        let mut child = at + 1;
        for ordinal in 0..count {
            let name = self.text.at(child);
            let own = child;
            child = self.text.at(child + 1).next;
            if !self.text.counts(name) {
                continue;
            }
            let known = self.known(checks, name, expected);
            if let Some(position) = known {
                expected = position + 1;
                let known = &checks.known[position];
                if let Some(bit) = known.required {
                    required.found(bit);
                }
                if let Some(node) = known.node
                    && !self.value(node, own + 1, None)
                {
                    return false;
                }
            }
            if !is_simple {
                let node = known.and_then(|position| checks.known[position].node);
                if !self.others(checks, at, (ordinal, own), node.is_some(), seen.as_deref_mut()) {
                    return false;
                }
            }
        }
        required.are_all() || self.lacks(checks, at)
    }

    /// Return the position of a name in `checks.known`.
    #[inline]
    fn known(&self, checks: &ObjectChecks, name: Value, expected: usize) -> Option<usize> {
        let Some(raw) = self.text.plain(name) else {
            let text = self.text.string(name);
            return checks.by_name.get(text.as_bytes()).map(|&position| position as usize);
        };
        // Most records have their properties in the order of the schema.
        if let Some(known) = checks.known.get(expected)
            && *known.name == *raw
        {
            return Some(expected);
        }
        if checks.known.len() <= 8 {
            return checks.known.iter().position(|known| *known.name == *raw);
        }
        checks.by_name.get(raw).map(|&position| position as usize)
    }

    /// Judge a property by `propertyNames`, `patternProperties` and `additionalProperties`.
    fn others(
        &mut self,
        checks: &ObjectChecks,
        at: u32,
        (ordinal, name): (usize, u32),
        mut is_matched: bool,
        seen: Option<&mut Seen>,
    ) -> bool {
        if let Some((node, place)) = checks.names {
            self.silent += 1;
            let fits = self.value(node, name, None);
            self.silent -= 1;
            if !fits {
                return self.fail("propertyNames", place, at);
            }
        }
        if !checks.patterns.is_empty() {
            let text = self.text.string(self.text.at(name));
            for (pattern, node) in &checks.patterns {
                let Some(is_match) = self.matches(pattern, &text) else { return false };
                if is_match {
                    is_matched = true;
                    if !self.value(*node, name + 1, None) {
                        return false;
                    }
                }
            }
        }
        if let Some((node, place)) = checks.additional
            && !is_matched
        {
            if self.schema.nodes[node as usize].types == 0 {
                return self.fail("additionalProperties", place, at);
            }
            if !self.value(node, name + 1, None) {
                return false;
            }
            is_matched = true;
        }
        if let Some(seen) = seen.filter(|_| is_matched) {
            seen.mark(ordinal);
        }
        true
    }

    /// Refuse an object that lacks a required property; true if it has all.
    fn lacks(&mut self, checks: &ObjectChecks, at: u32) -> bool {
        if checks.required.is_empty() {
            return true;
        }
        let mut found = vec![false; checks.known.len()];
        let mut child = at + 1;
        for _ in 0..self.text.at(at).len {
            if let Some(position) = self.known(checks, self.text.at(child), 0) {
                found[position] = true;
            }
            child = self.text.at(child + 1).next;
        }
        match checks.required.iter().find(|(position, _)| !found[*position as usize]) {
            Some((_, place)) => self.fail("required", *place, at),
            None => true,
        }
    }

    /// Return the position of a property's name.
    fn property(&mut self, at: u32, name: &str) -> Option<u32> {
        let count = self.text.at(at).len;
        if !self.take(1 + u64::from(count) / 4) {
            return None;
        }
        let mut child = at + 1;
        for _ in 0..count {
            let own = self.text.at(child);
            if self.text.string(own) == name {
                return Some(child);
            }
            child = self.text.at(child + 1).next;
        }
        None
    }

    fn in_place(&mut self, keyword: &InPlace, at: u32, mut seen: Option<&mut Seen>) -> bool {
        match keyword {
            InPlace::Ref(node) => self.value(*node, at, seen),
            InPlace::Dynamic(anchor, node) => {
                let scope = self.scopes.get(self.scope as usize);
                let node = scope.and_then(|scope| scope.get(anchor)).copied().unwrap_or(*node);
                self.value(node, at, seen)
            }
            InPlace::All(nodes) => {
                nodes.iter().all(|&node| self.value(node, at, seen.as_deref_mut()))
            }
            InPlace::Any(nodes, place) => {
                self.any(nodes, at, seen) || self.fail("anyOf", *place, at)
            }
            InPlace::One(nodes, place) => {
                self.one(nodes, at, seen) || self.fail("oneOf", *place, at)
            }
            InPlace::Not(node, place) => {
                !self.quietly(*node, at, None) || self.fail("not", *place, at)
            }
            InPlace::If(condition, then, other) => {
                let branch =
                    if self.quietly(*condition, at, seen.as_deref_mut()) { then } else { other };
                branch.is_none_or(|node| self.value(node, at, seen))
            }
            InPlace::Dependent(name, node) => {
                self.text.at(at).kind != Kind::Object
                    || self.property(at, name).is_none()
                    || self.value(*node, at, seen)
            }
        }
    }

    /// Judge by a schema that may fail without a reason; if it fits, take its evaluated parts.
    fn quietly(&mut self, node: NodeId, at: u32, seen: Option<&mut Seen>) -> bool {
        self.silent += 1;
        let fits = match seen {
            None => self.value(node, at, None),
            Some(seen) => {
                let mut own = Seen::default();
                let fits = self.value(node, at, Some(&mut own));
                if fits {
                    seen.take(&own);
                }
                fits
            }
        };
        self.silent -= 1;
        fits
    }

    fn any(&mut self, nodes: &[NodeId], at: u32, mut seen: Option<&mut Seen>) -> bool {
        if seen.is_none() {
            return nodes.iter().any(|&node| self.quietly(node, at, None));
        }
        // Each schema that fits may evaluate other parts.
        let mut fits = false;
        for &node in nodes {
            fits |= self.quietly(node, at, seen.as_deref_mut());
        }
        fits
    }

    fn one(&mut self, nodes: &[NodeId], at: u32, mut seen: Option<&mut Seen>) -> bool {
        let mut fitting = 0;
        for &node in nodes {
            fitting += u32::from(self.quietly(node, at, seen.as_deref_mut()));
            if fitting > 1 {
                return false;
            }
        }
        fitting == 1
    }

    fn unevaluated(
        &mut self,
        node: NodeId,
        place: Place,
        at: u32,
        value: Value,
        seen: &Seen,
    ) -> bool {
        let is_object = value.kind == Kind::Object;
        let keyword = if is_object { "unevaluatedProperties" } else { "unevaluatedItems" };
        let step = u32::from(is_object);
        let mut child = at + 1;
        self.silent += 1;
        let mut fits = true;
        for ordinal in 0..value.len as usize {
            let counts = !is_object || self.text.counts(self.text.at(child));
            if counts && !seen.has(ordinal) && !self.value(node, child + step, None) {
                fits = false;
                break;
            }
            child = self.text.at(child + step).next;
        }
        self.silent -= 1;
        fits || self.fail(keyword, place, at)
    }

    /// Take the anchors of a resource into the dynamic scope, where no other resource has them.
    fn enter(&mut self, resource: u32) {
        let own = &self.schema.anchors[resource as usize];
        if !self.take(self.scopes.len() as u64) {
            return;
        }
        let scope = &self.scopes[self.scope as usize];
        if own.iter().all(|(anchor, _)| scope.contains_key(anchor)) {
            return;
        }
        let mut wider = scope.clone();
        for (anchor, node) in own {
            wider.entry(*anchor).or_insert(*node);
        }
        let known = self.scopes.iter().position(|scope| *scope == wider);
        let position = known.unwrap_or_else(|| {
            self.scopes.push(wider);
            self.scopes.len() - 1
        });
        self.scope = u32::try_from(position).unwrap_or(0);
    }

    /// Return where a value is, as a JSON pointer; `*` for names that the schema does not have.
    fn pointer(&self, target: u32) -> String {
        let mut pointer = String::new();
        let mut at = 0;
        while at != target {
            let value = self.text.at(at);
            let names = u32::from(value.kind == Kind::Object);
            let mut child = at + 1;
            let mut ordinal = 0;
            while self.text.at(child + names).next <= target {
                child = self.text.at(child + names).next;
                ordinal += 1;
            }
            pointer.push('/');
            if names == 0 {
                pointer.push_str(&ordinal.to_string());
            } else {
                let name = self.text.string(self.text.at(child));
                let is_known = self.schema.names.contains(name.as_ref());
                let shown = if is_known {
                    name.replace('~', "~0").replace('/', "~1")
                } else {
                    "*".to_owned()
                };
                pointer.push_str(&shown);
                if child == target {
                    break; // the name itself
                }
            }
            at = child + names;
        }
        pointer
    }
}

/// Which of the required properties have been found.
struct Required {
    few: u64,
    many: Vec<bool>,
    all: u64,
}

impl Required {
    #[inline]
    fn new(count: usize) -> Self {
        let many = if count > 64 { vec![false; count] } else { Vec::new() };
        let all = match count {
            1..=64 => u64::MAX >> (64 - count),
            _ => 0,
        };
        Self { few: 0, many, all }
    }

    #[inline]
    fn found(&mut self, bit: u32) {
        match self.many.get_mut(bit as usize) {
            Some(found) => *found = true,
            None => self.few |= 1 << (bit % 64),
        }
    }

    #[inline]
    fn are_all(&self) -> bool {
        self.few & self.all == self.all && self.many.iter().all(|&found| found)
    }
}
