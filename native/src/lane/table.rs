//! The actions for requests, by API key and version: compiled by Python from the routing table.
#![forbid(unsafe_code)]

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::judge::Judged;
#[cfg(target_os = "linux")]
use super::worked::Worked;

/// With more topics than these it begins again: clients may send any names.
const TOPICS_MAX: usize = 20_000;

/// The action for a request and its response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Python does it.
    Python,
    /// Both are forwarded while they are received.
    Forward,
    /// A Produce request, which may have no response. A response with new leaders is Python's.
    Produce,
    /// The same, if each topic in it is known, and accepts its batches: the request is read first.
    ProduceWhole,
}

impl Action {
    /// Return the action of a number; `Python` for an unknown number.
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

/// The known facts about a topic.
#[derive(Clone)]
pub enum Topic {
    /// Nobody judges its batches.
    Unjudged,
    /// They are judged here, by each of these: by the policies that clients wait for, and by those
    /// that only observe.
    Judged(Arc<[Judged]>),
    /// The same, but only those without a producer id: the sequence numbers of others may have to be
    /// changed, whatever is accepted here.
    Unnumbered(Arc<[Judged]>),
    /// They are judged by a worker, through its ring.
    #[cfg(target_os = "linux")]
    Worked(Arc<Worked>),
}

impl Topic {
    /// Return whether batches with sequence numbers may be accepted.
    fn may_be_numbered(&self) -> bool {
        match self {
            Self::Unnumbered(_) => false,
            #[cfg(target_os = "linux")]
            Self::Worked(worked) => !worked.is_unnumbered,
            _ => true,
        }
    }
}

/// The topics that are known.
#[derive(Default)]
pub struct Topics {
    /// The known facts about each name, and until when they hold.
    names: HashMap<Box<[u8]>, (Topic, f64)>,
    ids: HashMap<[u8; 16], Topic>,
    /// The ids of topics, by their names.
    ids_of: HashMap<Box<[u8]>, HashSet<[u8; 16]>>,
    /// How often topics were forgotten.
    forgotten: u64,
}

impl Topics {
    /// Return the topic with a name, if it is known at a time, and until when it is.
    pub fn named(&self, name: &[u8], now: f64) -> Option<(&Topic, f64)> {
        let (topic, until) = self.names.get(name).filter(|(_, until)| now < *until)?;
        Some((topic, *until))
    }

    /// Return the topic with an id, if it is known.
    pub fn with_id(&self, id: &[u8]) -> Option<&Topic> {
        self.ids.get(id)
    }

    /// Return how often topics were forgotten: facts that were found before may not hold any more if this
    /// differs.
    pub const fn forgotten(&self) -> u64 {
        self.forgotten
    }

    const fn count_forgotten(&mut self) {
        self.forgotten = self.forgotten.wrapping_add(1);
    }

    fn know(&self, name: &[u8]) -> bool {
        self.names.contains_key(name) || self.ids_of.contains_key(name)
    }

    /// Return whether batches with sequence numbers may be accepted for a name, or one of its ids.
    fn know_numbered(&self, name: &[u8]) -> bool {
        self.names.get(name).is_some_and(|(topic, _)| topic.may_be_numbered())
            || self.ids_of.get(name).is_some_and(|ids| {
                ids.iter().any(|id| self.ids.get(id).is_some_and(Topic::may_be_numbered))
            })
    }

    /// Forget a name and its ids, but for those whose batches have no sequence numbers.
    fn forget_numbered(&mut self, name: &[u8]) {
        if self.names.get(name).is_some_and(|(topic, _)| topic.may_be_numbered()) {
            self.names.remove(name);
        }
        let Some(own) = self.ids_of.get_mut(name) else { return };
        let ids = &mut self.ids;
        own.retain(|id| {
            let stays = ids.get(id).is_some_and(|topic| !topic.may_be_numbered());
            if !stays {
                ids.remove(id);
            }
            stays
        });
        if own.is_empty() {
            self.ids_of.remove(name);
        }
    }
}

/// The actions that are in force, and the topics that are known while they are. Replaced as a whole.
#[derive(Default)]
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

    /// Remember a topic by its name while this table is in force, and until a time: from then on the
    /// name may be that of another topic.
    pub fn know_name(&self, name: &[u8], topic: Topic, until: f64) {
        let mut topics = self.changed();
        if topics.names.len() >= TOPICS_MAX {
            topics.names.clear();
            topics.count_forgotten();
        }
        topics.names.insert(name.into(), (topic, until));
    }

    /// Remember a topic by its id, and the name by which it is forgotten.
    pub fn know_id(&self, id: [u8; 16], name: &[u8], topic: Topic) {
        let mut topics = self.changed();
        if topics.ids.len() >= TOPICS_MAX {
            topics.ids.clear();
            topics.ids_of.clear();
            topics.count_forgotten();
        }
        topics.ids_of.entry(name.into()).or_default().insert(id);
        topics.ids.insert(id, topic);
    }

    /// Forget all topics: the configs of a topic have changed.
    pub fn forget_topics(&self) {
        let mut topics = self.changed();
        topics.count_forgotten();
        *topics = Topics { forgotten: topics.forgotten, ..Topics::default() };
    }

    /// Forget a topic, its name and the ids of all topics that had it: sequence numbers of its
    /// producers may have to change. Batches that have none are accepted as before.
    pub fn forget_numbered(&self, name: &[u8]) {
        if !self.topics().know_numbered(name) {
            return; // nobody has to wait
        }
        let mut topics = self.changed();
        topics.count_forgotten();
        topics.forget_numbered(name);
    }

    /// Return the names by which topics can be forgotten.
    pub fn names(&self) -> HashSet<Box<[u8]>> {
        let topics = self.topics();
        topics.names.keys().chain(topics.ids_of.keys()).cloned().collect()
    }

    /// Forget a topic, its name and the ids of all topics that had it: its policies may have changed.
    pub fn forget(&self, name: &[u8]) {
        if !self.topics().know(name) {
            return; // nobody has to wait
        }
        let mut topics = self.changed();
        topics.count_forgotten();
        topics.names.remove(name);
        for id in topics.ids_of.remove(name).unwrap_or_default() {
            topics.ids.remove(&id);
        }
    }

    fn changed(&self) -> RwLockWriteGuard<'_, Topics> {
        self.topics.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Return the topics that are known: the same for all of a request.
    pub fn topics(&self) -> RwLockReadGuard<'_, Topics> {
        self.topics.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Return the action for a request.
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
}
