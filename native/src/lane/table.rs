//! What happens to a request, by its API key and version: compiled by Python from the routing table.
#![forbid(unsafe_code)]

use std::collections::{HashMap, HashSet};
use std::sync::{PoisonError, RwLock};

/// With more topics than these it begins again: clients may send any names.
const TOPICS_MAX: usize = 20_000;

/// What happens to a request, and to its response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Python does it.
    Python,
    /// Both are forwarded as they are received.
    Forward,
    /// A Produce request, which may have no response. One that names new leaders is Python's.
    Produce,
    /// The same, if no topic in it has a policy: the request is read first.
    ProduceWhole,
}

impl Action {
    /// Return the action of a number; Python's for one that is not known.
    pub const fn of(number: u8) -> Self {
        match number {
            1 => Self::Forward,
            2 => Self::Produce,
            3 => Self::ProduceWhole,
            _ => Self::Python,
        }
    }
}

#[derive(Debug)]
struct Row {
    first: i16,
    actions: Vec<Action>,
}

#[derive(Debug, Default)]
struct Topics {
    names: HashSet<Box<[u8]>>,
    ids: HashSet<[u8; 16]>,
}

/// The actions that are in force, and the topics whose batches nobody judges. Replaced as a whole.
#[derive(Debug, Default)]
pub struct Table {
    rows: HashMap<i16, Row>,
    topics: RwLock<Topics>,
}

impl Table {
    /// Make a table; an API without a row is forwarded.
    ///
    /// `rows` has API keys, their first version, and an action for this version and those after it.
    pub fn new(rows: impl IntoIterator<Item = (i16, i16, Vec<Action>)>) -> Self {
        let rows = rows.into_iter().map(|(key, first, actions)| (key, Row { first, actions }));
        Self { rows: rows.collect(), ..Self::default() }
    }

    /// Remember a topic whose batches nobody judges while this table is in force.
    pub fn pass_name(&self, name: &[u8]) {
        let mut topics = self.topics.write().unwrap_or_else(PoisonError::into_inner);
        if topics.names.len() >= TOPICS_MAX {
            topics.names.clear();
        }
        topics.names.insert(name.into());
    }

    /// Remember the id of such a topic.
    pub fn pass_id(&self, id: [u8; 16]) {
        let mut topics = self.topics.write().unwrap_or_else(PoisonError::into_inner);
        if topics.ids.len() >= TOPICS_MAX {
            topics.ids.clear();
        }
        topics.ids.insert(id);
    }

    /// Forget the names of such topics: a name may be that of another topic by now.
    pub fn forget_names(&self) {
        self.topics.write().unwrap_or_else(PoisonError::into_inner).names.clear();
    }

    /// Forget all such topics: the configs of one have changed.
    pub fn forget_topics(&self) {
        let mut topics = self.topics.write().unwrap_or_else(PoisonError::into_inner);
        topics.names.clear();
        topics.ids.clear();
    }

    /// Return what happens to a request.
    pub fn action(&self, api_key: i16, version: i16) -> Action {
        let Some(row) = self.rows.get(&api_key) else {
            return if version >= 0 { Action::Forward } else { Action::Python };
        };
        let position = i32::from(version).saturating_sub(i32::from(row.first));
        usize::try_from(position)
            .ok()
            .and_then(|position| row.actions.get(position))
            .copied()
            .unwrap_or(Action::Python)
    }

    /// Return whether nobody judges the batches of a topic.
    pub fn passes_name(&self, name: &[u8]) -> bool {
        self.topics.read().unwrap_or_else(PoisonError::into_inner).names.contains(name)
    }

    /// Return whether nobody judges the batches of a topic with this id.
    pub fn passes_id(&self, id: &[u8]) -> bool {
        <&[u8; 16]>::try_from(id).is_ok_and(|id| {
            self.topics.read().unwrap_or_else(PoisonError::into_inner).ids.contains(id)
        })
    }
}
