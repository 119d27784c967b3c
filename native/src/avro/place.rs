//! The place of a fault in a payload: the way there through the schema, as messages show it.

use super::nodes::{Node, Nodes};

/// A step of the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// A record's field.
    Field {
        /// The record's node.
        node: u32,
        /// Which of its fields.
        field: usize,
    },
    /// Records of a chain.
    Chain {
        /// The chain's node.
        node: u32,
        /// How many of its records.
        records: usize,
    },
    /// An item of an array.
    Item(u64),
    /// A key of a map, or its value.
    Key,
}

impl Nodes {
    /// Return a place as messages show it: only the last steps of a long way.
    ///
    /// `steps` come from the innermost to the outermost.
    pub(super) fn place(&self, steps: &[Step]) -> String {
        let most = self.limits.path;
        let mut parts: Vec<String> = Vec::new();
        let mut length = 0;
        for step in steps {
            let part = self.part(*step);
            length += part.chars().count();
            parts.push(part);
            if length > most + 1 {
                break;
            }
        }
        let path: String = parts.into_iter().rev().collect();
        let path = path.strip_prefix('.').unwrap_or(&path);
        if path.is_empty() {
            return "the value".to_owned();
        }
        let hidden = path.chars().count().saturating_sub(most);
        if hidden == 0 {
            return format!("the field {path}");
        }
        let shown: String = path.chars().skip(hidden).collect();
        format!("the field ...{shown}")
    }

    fn part(&self, step: Step) -> String {
        match step {
            Step::Key => "[*]".to_owned(),
            Step::Item(index) => format!("[{index}]"),
            Step::Field { node, field } => match &self.nodes[node as usize] {
                Node::Record(fields) => format!(".{}", fields[field].name),
                _ => String::new(),
            },
            Step::Chain { node, records } => self.names(node, records),
        }
    }

    fn names(&self, node: u32, records: usize) -> String {
        let mut names = String::new();
        let mut node = node;
        for _ in 0..records {
            // The last record of a chain may have more fields, and then is not a chain itself.
            let Node::Chain { first, .. } = &self.nodes[node as usize] else { break };
            names.push('.');
            names.push_str(&first.name);
            node = first.node;
        }
        names
    }
}
