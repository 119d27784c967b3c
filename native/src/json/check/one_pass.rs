//! Judges a text while it is read.
//!
//! Most records fit, and most schemas only limit the properties of objects: these need no list of
//! values, and no byte is read twice. A value with any other schema is read into the list alone,
//! and judged by `Check`. A reason needs all values: a text that does not fit is read and judged
//! again.

use super::{Check, Required};
use crate::json::node::{ArrayChecks, InPlace, Node, NodeId, ObjectChecks, types};
use crate::json::scan::Scan;
use crate::json::text::MAX_LEVELS;

impl Check<'_, '_> {
    /// Return whether a text certainly fits.
    ///
    /// False decides nothing: it does not fit, is not JSON, or has to be read first.
    pub(super) fn fits_in_one_pass(&mut self) -> bool {
        // Anchors of the dynamic scope depend on the way to a value.
        if !self.schema.anchors.is_empty() {
            return false;
        }
        let scan = self.text.scan();
        let mut pass = Pass { check: self, scan, levels: MAX_LEVELS };
        pass.scan.space();
        if !pass.is_worth_it() {
            return false;
        }
        pass.check.silent = 1;
        let fits = pass.value(Some(0));
        pass.scan.space();
        let is_all = pass.scan.at == pass.scan.bytes.len();
        self.silent = 0;
        self.remembered = None;
        fits && is_all
    }
}

struct Pass<'p, 's, 't> {
    check: &'p mut Check<'s, 't>,
    scan: Scan<'t>,
    levels: usize,
}

impl<'s> Pass<'_, 's, '_> {
    /// Return whether the root is judged while it is read. Otherwise one pass saves nothing.
    fn is_worth_it(&mut self) -> bool {
        let node = self.node(0).1;
        match self.scan.peek() {
            b'{' => node.reads_properties,
            b'[' => node.reads_items,
            _ => false,
        }
    }

    /// Return a schema, or the schema that it refers to.
    #[inline]
    fn node(&mut self, mut id: NodeId) -> (NodeId, &'s Node) {
        let schema = self.check.schema;
        let mut node = &schema.nodes[id as usize];
        while node.is_reference
            && let [InPlace::Ref(target)] = node.in_place[..]
            && self.check.take(1)
        {
            id = target;
            node = &schema.nodes[id as usize];
        }
        (id, node)
    }

    /// Judge the next value; without a schema, only that it is JSON.
    fn value(&mut self, id: Option<NodeId>) -> bool {
        let first = self.scan.peek();
        let is_object = first == b'{';
        if !is_object && first != b'[' {
            return self.scalar(id);
        }
        let Some(id) = id else {
            return if is_object { self.object(None) } else { self.array(None) };
        };
        let (id, node) = self.node(id);
        let bit = if is_object { types::OBJECT } else { types::ARRAY };
        if !self.check.take(1) || node.types & bit == 0 {
            return false;
        }
        match is_object {
            true if node.reads_properties => self.object(node.object.as_deref()),
            false if node.reads_items => self.array(node.array.as_deref()),
            _ => self.apart(id, node),
        }
    }

    #[inline]
    fn scalar(&mut self, id: Option<NodeId>) -> bool {
        let Ok(value) = self.scan.scalar() else { return false };
        let Some(id) = id else { return true };
        let (id, node) = self.node(id);
        if !self.check.take(1) || node.types != types::ALL && !self.check.is_of_type(node, value) {
            return false;
        }
        if node.is_plain {
            return true;
        }
        self.check.text.know(value);
        self.check.remembered = None;
        self.check.of_its_type(id, node, 0, value, None)
    }

    /// Judge a value that has to be read into the list.
    #[cold]
    fn apart(&mut self, id: NodeId, node: &Node) -> bool {
        if self.check.text.read_next(&mut self.scan, self.levels).is_err() {
            return false;
        }
        self.check.remembered = None;
        let value = self.check.text.at(0);
        self.check.of_its_type(id, node, 0, value, None)
    }

    /// Pass over the opening bracket; false if there are too many levels.
    #[inline]
    fn enter(&mut self) -> bool {
        if self.levels == 0 {
            return false;
        }
        self.levels -= 1;
        self.scan.at += 1;
        self.scan.space();
        true
    }

    /// Return whether an array or object has nothing inside, and pass over its end then.
    #[inline]
    fn is_empty(&mut self, close: u8) -> bool {
        let is_empty = self.scan.peek() == close;
        self.scan.at += usize::from(is_empty);
        is_empty
    }

    fn array(&mut self, checks: Option<&ArrayChecks>) -> bool {
        if !self.enter() {
            return false;
        }
        let mut count = 0;
        let mut goes_on = !self.is_empty(b']');
        while goes_on {
            if checks.is_some_and(|checks| !may_have(checks, count + 1)) {
                return false;
            }
            let node = checks.and_then(|checks| checks.first.get(count).copied().or(checks.rest));
            if !self.value(node) {
                return false;
            }
            count += 1;
            let Ok(more) = self.scan.goes_on(b']') else { return false };
            goes_on = more;
        }
        self.levels += 1;
        checks.is_none_or(|checks| checks.min.is_none_or(|(min, _)| count as u64 >= min))
    }

    fn object(&mut self, checks: Option<&ObjectChecks>) -> bool {
        if !self.enter() {
            return false;
        }
        let mut required = Required::new(checks.map_or(0, |checks| checks.required.len()));
        let mut expected = 0;
        let mut goes_on = !self.is_empty(b'}');
        while goes_on {
            let mut node = None;
            if let Some(checks) = checks {
                let Ok(position) = self.name(checks, expected) else { return false };
                if let Some(position) = position {
                    expected = position + 1;
                    let known = &checks.known[position];
                    node = known.node;
                    if let Some(bit) = known.required {
                        required.found(bit);
                    }
                }
                node = node.or(checks.additional.map(|(node, _)| node));
            } else if self.scan.string().is_err() {
                return false;
            }
            if self.scan.colon().is_err() || !self.value(node) {
                return false;
            }
            let Ok(more) = self.scan.goes_on(b'}') else { return false };
            goes_on = more;
        }
        self.levels += 1;
        // A name that comes twice is required once, and each of its values fits.
        required.are_all()
    }

    /// Read a name; return its position in `checks.known`.
    #[inline]
    fn name(&mut self, checks: &ObjectChecks, expected: usize) -> Result<Option<usize>, ()> {
        // Most records have their properties in the order of the schema.
        if let Some(known) = checks.known.get(expected)
            && self.scan.has_name(&known.written)
        {
            self.scan.at += known.written.length();
            return Ok(Some(expected));
        }
        let name = self.scan.string().map_err(|_| ())?;
        Ok(self.check.known(checks, name, usize::MAX))
    }
}

/// Return whether an array may have so many items.
fn may_have(checks: &ArrayChecks, items: usize) -> bool {
    checks.max.is_none_or(|(max, _)| items as u64 <= max)
        && (checks.no_rest.is_none() || items <= checks.first.len())
}
