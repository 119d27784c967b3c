//! The pass over a payload.

use super::faults::Wrong;
use super::nodes::{Field, Node, Nodes};
use super::numbers::Rest;
use super::place::Step;

impl Nodes {
    /// Return the fault of a payload, as messages show it; None where it fits.
    pub fn objection(&self, payload: &[u8]) -> Option<String> {
        let mut walk = Walk { nodes: self, rest: Rest(payload), empty: 0, steps: Vec::new() };
        let wrong = match walk.value(0, 0) {
            Ok(()) if walk.rest.0.is_empty() => return None,
            Ok(()) => Wrong::Behind(walk.rest.0.len()),
            Err(wrong) => wrong,
        };
        Some(self.text(wrong, &walk.steps))
    }

    fn text(&self, wrong: Wrong, steps: &[Step]) -> String {
        let said = match wrong {
            Wrong::Ended => return format!("Avro: ends before {} does", self.place(steps)),
            Wrong::Behind(count) => return format!("Avro: has {count} bytes after its end"),
            Wrong::Boolean => "is a boolean of another byte than 0 and 1",
            Wrong::LongerThanInt => "has a number that is longer than one of type int",
            Wrong::LongerThanLong => "has a number that is longer than one of type long",
            Wrong::Length => "has a length that is negative or too large",
            Wrong::Block => "has a block with a wrong count or size",
            Wrong::BlockEnd => "has a block that does not end where it says",
            Wrong::Symbol => "has an index of no symbol of its enum",
            Wrong::Branch => "has an index of no branch of its union",
            Wrong::Text => "is not UTF-8",
            Wrong::Key => "has a key that is not UTF-8",
            Wrong::Levels => {
                let levels = self.limits.levels;
                let place = self.place(steps);
                return format!(
                    "Avro: {place} is inside more than {levels} records, arrays and maps"
                );
            }
            Wrong::EmptyItems => {
                let (place, most) = (self.place(steps), self.limits.empty_items);
                return format!("Avro: {place} has more than {most} items that take no bytes");
            }
        };
        format!("Avro: {} {said}", self.place(steps))
    }
}

struct Walk<'a> {
    nodes: &'a Nodes,
    rest: Rest<'a>,
    /// How many items that take no bytes there were.
    empty: u64,
    /// Where it is wrong, from the innermost step to the outermost.
    steps: Vec<Step>,
}

impl<'a> Walk<'a> {
    /// Step over a value with `level` records, arrays and maps around it.
    fn value(&mut self, at: u32, level: usize) -> Result<(), Wrong> {
        let nodes: &'a Nodes = self.nodes;
        match &nodes.nodes[at as usize] {
            Node::Step(size) => self.rest.take(*size).map(|_| ()),
            Node::Boolean => {
                if self.rest.byte()? > 1 {
                    return Err(Wrong::Boolean);
                }
                Ok(())
            }
            Node::Int => self.rest.int(),
            Node::Long => self.rest.long().map(|_| ()),
            Node::Bytes => {
                let length = self.rest.length()?;
                self.rest.take(length).map(|_| ())
            }
            Node::String => self.text(Wrong::Text),
            Node::Enum(count) => self.rest.index(*count, Wrong::Symbol).map(|_| ()),
            Node::Union(branches) => {
                let branch = self.rest.index(branches.len(), Wrong::Branch)?;
                self.value(branches[branch], level)
            }
            Node::Array { item, empty } => self.array(*item, *empty, self.below(level)?),
            Node::Map(value) => self.map(*value, self.below(level)?),
            Node::Record(fields) => self.record(at, fields, self.below(level)?),
            Node::Chain { records, end, .. } => self.chain(at, *records, *end, level),
        }
    }

    #[inline]
    fn below(&self, level: usize) -> Result<usize, Wrong> {
        if level < self.nodes.limits.levels { Ok(level + 1) } else { Err(Wrong::Levels) }
    }

    fn record(&mut self, at: u32, fields: &[Field], level: usize) -> Result<(), Wrong> {
        for (number, field) in fields.iter().enumerate() {
            if let Err(wrong) = self.value(field.node, level) {
                self.steps.push(Step::Field { node: at, field: number });
                return Err(wrong);
            }
        }
        Ok(())
    }

    fn chain(&mut self, at: u32, records: usize, end: u32, level: usize) -> Result<(), Wrong> {
        let most = self.nodes.limits.levels.saturating_sub(level);
        let read =
            if records > most { Err(Wrong::Levels) } else { self.value(end, level + records) };
        if read.is_err() {
            self.steps.push(Step::Chain { node: at, records: records.min(most) });
        }
        read
    }

    fn array(&mut self, item: u32, empty: u64, level: usize) -> Result<(), Wrong> {
        let nodes: &'a Nodes = self.nodes;
        let mut index = 0_u64;
        loop {
            let (count, end) = self.rest.block()?;
            if count == 0 {
                return Ok(());
            }
            if let Node::Step(size) = nodes.nodes[item as usize] {
                self.steps_of(count, size, empty)?;
            } else {
                for _ in 0..count {
                    if let Err(wrong) = self.value(item, level) {
                        self.steps.push(Step::Item(index));
                        return Err(wrong);
                    }
                    index += 1;
                }
            }
            self.ends(end)?;
        }
    }

    /// Step over `count` items that take `size` bytes each.
    fn steps_of(&mut self, count: u64, size: usize, empty: u64) -> Result<(), Wrong> {
        self.empty = self.empty.saturating_add(count.saturating_mul(empty));
        if self.empty > self.nodes.limits.empty_items {
            return Err(Wrong::EmptyItems);
        }
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        let size = if size == 0 { Some(0) } else { count.checked_mul(size) };
        self.rest.take(size.ok_or(Wrong::Ended)?).map(|_| ())
    }

    fn map(&mut self, value: u32, level: usize) -> Result<(), Wrong> {
        loop {
            let (count, end) = self.rest.block()?;
            if count == 0 {
                return Ok(());
            }
            for _ in 0..count {
                if let Err(wrong) = self.text(Wrong::Key).and_then(|()| self.value(value, level)) {
                    self.steps.push(Step::Key);
                    return Err(wrong);
                }
            }
            self.ends(end)?;
        }
    }

    #[inline]
    fn ends(&self, end: Option<usize>) -> Result<(), Wrong> {
        if end.is_none_or(|left| left == self.rest.0.len()) { Ok(()) } else { Err(Wrong::BlockEnd) }
    }

    #[inline]
    fn text(&mut self, wrong: Wrong) -> Result<(), Wrong> {
        let length = self.rest.length()?;
        let text = self.rest.take(length)?;
        if std::str::from_utf8(text).is_ok() { Ok(()) } else { Err(wrong) }
    }
}
