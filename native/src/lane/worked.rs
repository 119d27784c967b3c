//! Topics whose batches workers judge, and such batches.
#![forbid(unsafe_code)]

use std::ops::Range;
use std::sync::Arc;

use super::counts::Labels;
use super::judge::Judged;
use crate::ring::pool::Pool;
use crate::ring::sender::Ring;

/// A topic whose batches workers judge.
pub struct Worked {
    /// The labels of its batches.
    pub labels: Arc<Labels>,
    /// Its plan, encoded.
    pub plan: Arc<[u8]>,
    /// Its id, for requests that have its name; zeros if it is not needed.
    pub(super) topic_id: [u8; 16],
    /// Whether a policy takes the client.
    pub(super) takes_client: bool,
    /// Whether it is only of batches without a producer id: the sequence numbers of others may have
    /// to be changed, whatever is accepted.
    pub is_unnumbered: bool,
    /// Whether clients wait for these workers.
    pub is_waited_for: bool,
    /// The native judges of its other policies.
    pub judges: Arc<[Judged]>,
    /// The policies that only observe, if workers judge by them.
    pub observers: Option<Observers>,
    pool: Arc<Pool>,
}

/// The policies of a topic that only observe.
pub struct Observers {
    pub(super) labels: Arc<Labels>,
    pub(super) plan: Arc<[u8]>,
    pub(super) topic_id: [u8; 16],
    pub(super) takes_client: bool,
    pub(super) pool: Arc<Pool>,
}

impl Observers {
    /// By the topic's name, the names of the policies, their plan, encoded, the topic's id, whether
    /// they take the client, and the workers.
    pub fn new(
        topic: &str,
        policies: &str,
        plan: &[u8],
        topic_id: [u8; 16],
        takes_client: bool,
        pool: Arc<Pool>,
    ) -> Self {
        let labels = Labels { topic: topic.into(), policies: policies.into() };
        Self { labels: Arc::new(labels), plan: plan.into(), topic_id, takes_client, pool }
    }
}

impl Worked {
    /// A topic, by its name, the names of its policies, its plan, encoded, its id, and the workers;
    /// no policy takes the client, and it is of all batches.
    pub fn new(
        topic: &str,
        policies: &str,
        plan: &[u8],
        topic_id: [u8; 16],
        pool: Arc<Pool>,
    ) -> Self {
        let labels = Labels { topic: topic.into(), policies: policies.into() };
        let (labels, plan) = (Arc::new(labels), plan.into());
        Self {
            labels,
            plan,
            topic_id,
            takes_client: false,
            is_unnumbered: false,
            is_waited_for: true,
            judges: Arc::default(),
            observers: None,
            pool,
        }
    }

    /// The same, where policies may take the client.
    #[must_use]
    pub fn with_client(self, takes_client: bool) -> Self {
        Self { takes_client, ..self }
    }

    /// A topic for whose workers no client waits.
    pub fn unawaited(topic: &str) -> Self {
        Self { is_waited_for: false, ..Self::new(topic, "", b"", [0; 16], Arc::default()) }
    }

    /// The same, with native judges and observers.
    #[must_use]
    pub fn beside(self, judges: Arc<[Judged]>, observers: Option<Observers>) -> Self {
        Self { judges, observers, ..self }
    }

    /// The same, perhaps only of batches without a producer id.
    #[must_use]
    pub fn only_unnumbered(self, is_unnumbered: bool) -> Self {
        Self { is_unnumbered, ..self }
    }
}

/// A batch of a request.
#[derive(Clone)]
pub struct WorkedBatch {
    /// Its topic.
    pub topic: Arc<Worked>,
    /// Its partition.
    pub partition: i32,
    /// The topic's id, if the request has it.
    pub topic_id: Option<[u8; 16]>,
    /// Where it is in the frame.
    pub records: Range<usize>,
    /// How many records it has, as its header says.
    pub count: usize,
}

impl WorkedBatch {
    /// Return the ring of the worker that judges it; None if Python has it judged.
    pub(super) fn ring(&self) -> Option<Arc<Ring>> {
        self.topic.pool.ring(self.topic.labels.topic.as_bytes(), self.partition)
    }
}
