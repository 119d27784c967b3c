//! Batches that workers judge: each is written into the ring of its partition's worker, while its
//! request waits.
#![forbid(unsafe_code)]

use std::sync::Arc;

use super::counts::AcceptedBatch;
use super::exchange::Exchange;
use super::produce::{Request, client_id};
use super::waiting::Rings;
use super::worked::{Worked, WorkedBatch};
use crate::ring::context;
use crate::ring::layout::Outcome;
use crate::ring::observed::Head;
use crate::ring::sender::{Batch, Judged, Ring};

/// A client, as its connection is known.
#[derive(Debug, Default, Clone)]
pub struct Sender {
    /// Its principal, if that is known.
    pub principal: Option<String>,
    /// Its address, if that is known.
    pub address: Option<String>,
    /// The number of its connection in Python, which is another than that of a lane.
    pub number: u64,
}

/// A connection of a thread.
pub struct Place {
    /// Its number.
    pub number: u64,
    /// The rings whose outcomes its thread waits for.
    pub rings: Arc<Rings>,
    /// Its client; None if it cannot be written into a ring.
    pub sender: Option<Sender>,
}

impl Sender {
    /// Return who sends a request, for policies; None if Python has to write it.
    pub fn context(&self, frame: &[u8]) -> Option<Arc<[u8]>> {
        let (principal, address) = (self.principal.as_deref(), self.address.as_deref());
        context::encoded([principal, client_id(frame)?, address])
    }
}

/// The outcome of a batch of a request that Python continues with.
#[derive(Clone)]
pub struct Early {
    /// Its topic.
    pub topic: Arc<Worked>,
    /// The topic's id, if the request has it.
    pub topic_id: Option<[u8; 16]>,
    /// Its partition.
    pub partition: i32,
    /// The number of the ring.
    pub ring: u64,
    /// The number of the batch in this ring.
    pub number: u64,
    /// Whether it is accepted; otherwise the worker has sent its verdict, or still judges it.
    pub is_accepted: bool,
    /// How many seconds it was judged.
    pub took_s: f64,
    /// How many seconds it waited before; with those that it was judged if these are not known.
    pub waited_s: f64,
}

/// Have workers judge the batches of a request that is forwarded, by the policies that only observe.
pub fn observe(
    request: &Request,
    frame: &[u8],
    exchange: &Exchange,
    place: &Place,
    context: &Arc<[u8]>,
) {
    for batch in &request.observed {
        let Some((observers, records)) =
            batch.topic.observers.as_ref().zip(frame.get(batch.records.clone()))
        else {
            continue;
        };
        let head = Head {
            labels: Arc::clone(&observers.labels),
            plan: Arc::clone(&observers.plan),
            context: Arc::clone(context),
            takes_client: observers.takes_client,
            connection: place.sender.as_ref().map_or(0, |sender| sender.number),
            version: exchange.version,
            partition: batch.partition,
            topic_id: batch.topic_id.unwrap_or(observers.topic_id),
            count: batch.count,
        };
        let Some(observed) = observers.pool.enter(head, records) else { continue };
        let ring = observers.pool.ring(observers.labels.topic.as_bytes(), batch.partition);
        let is_taken = ring.is_some_and(|ring| {
            // It only makes batches that wait follow sooner.
            place.rings.wait_for(&ring);
            ring.observe(&observed, place.rings.thread())
        });
        if !is_taken {
            observed.give_back();
        }
    }
}

/// A batch that a worker has.
struct Submitted {
    ring: Arc<Ring>,
    ticket: u64,
    /// How many bytes it takes there.
    bytes: usize,
    judged: Option<Judged>,
    waited_s: f64,
}

/// A request whose batches are being judged.
pub struct Judging {
    /// The request.
    pub request: Request,
    /// The request, as it is counted.
    pub exchange: Exchange,
    /// Its bytes, with those of its length.
    pub size: usize,
    /// The batches that are accepted already, by native judges.
    pub accepted: Vec<AcceptedBatch>,
    submitted: Vec<Submitted>,
    is_begun: bool,
    begun_at: f64,
}

/// What became of the batches of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Some are being judged.
    Open,
    /// All are accepted.
    Accepted,
    /// Python continues.
    Pythons,
}

impl Judging {
    /// A request of which no batch is submitted yet.
    pub const fn new(
        request: Request,
        exchange: Exchange,
        size: usize,
        accepted: Vec<AcceptedBatch>,
    ) -> Self {
        let submitted = Vec::new();
        Self { request, exchange, size, accepted, submitted, is_begun: false, begun_at: 0.0 }
    }

    /// Return whether its batches are submitted.
    pub const fn is_begun(&self) -> bool {
        self.is_begun
    }

    /// Submit the batches of a connection, whose thread waits for their outcomes with `waits`;
    /// return false if Python has to have them judged. Batches with more than `copied_max_bytes`
    /// do not wait until a worker has room.
    pub fn begin(
        &mut self,
        frame: &[u8],
        connection: u64,
        waits: &Rings,
        sender: Option<&Sender>,
        copied_max_bytes: usize,
        now: f64,
    ) -> bool {
        (self.is_begun, self.begun_at) = (true, now);
        let rings = self.request.worked.iter().map(WorkedBatch::ring);
        let Some(rings) = rings.collect::<Option<Vec<_>>>() else { return false };
        // No outcome may come that nobody waits for.
        if !rings.iter().all(|ring| waits.wait_for(ring)) {
            return false;
        }
        let takes_client = self.request.worked.iter().any(|batch| batch.topic.takes_client);
        let sender = sender.filter(|_| takes_client);
        let context = sender.and_then(|sender| sender.context(frame));
        if takes_client && context.is_none() {
            return false;
        }
        for (batch, ring) in self.request.worked.iter().zip(rings) {
            let topic = &batch.topic;
            let Some(records) = frame.get(batch.records.clone()) else { break };
            let context = context.as_ref().filter(|_| topic.takes_client);
            let submitted = ring.submit(&Batch {
                connection,
                thread: waits.thread(),
                version: self.exchange.version,
                partition: batch.partition,
                topic_id: batch.topic_id.unwrap_or(topic.topic_id),
                plan: &topic.plan,
                context,
                records,
                may_wait: records.len() <= copied_max_bytes,
            });
            // The outcomes of those before are waited for: their places become free by that.
            let Some(ticket) = submitted else { break };
            let context_bytes = context.map_or(0, |context| context.len());
            let bytes =
                topic.plan.len().saturating_add(context_bytes).saturating_add(records.len());
            self.submitted.push(Submitted { ring, ticket, bytes, judged: None, waited_s: 0.0 });
        }
        !self.submitted.is_empty()
    }

    /// Return how many bytes of it are in rings, or wait for that.
    pub fn ring_bytes(&self) -> usize {
        let open = self.submitted.iter().filter(|batch| batch.judged.is_none());
        open.fold(0, |bytes, batch| bytes.saturating_add(batch.bytes))
    }

    /// Return how many bytes of memory are held, but for those that were received.
    pub fn held_bytes(&self) -> usize {
        let accepted = self.accepted.capacity().saturating_mul(size_of::<AcceptedBatch>());
        let submitted = self.submitted.capacity().saturating_mul(size_of::<Submitted>());
        let judged = self.ring_bytes().saturating_add(accepted).saturating_add(submitted);
        judged.saturating_add(self.request.held_bytes())
    }

    /// Note the outcome of a batch.
    pub fn note(&mut self, ring: &Arc<Ring>, judged: Judged, now: f64) {
        let batch = self
            .submitted
            .iter_mut()
            .find(|batch| batch.ticket == judged.ticket && Arc::ptr_eq(&batch.ring, ring));
        if let Some(batch) = batch {
            batch.judged = Some(judged);
            batch.waited_s = (now - self.begun_at - judged.took_s).max(0.0);
        }
    }

    /// Return what became of the batches.
    pub fn decision(&self) -> Decision {
        let is_whole = self.submitted.len() == self.request.worked.len();
        let mut decision = if is_whole { Decision::Accepted } else { Decision::Pythons };
        for batch in &self.submitted {
            match batch.judged.map(|judged| judged.outcome) {
                None => return Decision::Open,
                Some(Outcome::Accepted) => {}
                Some(Outcome::Verdict | Outcome::LeftOut) => decision = Decision::Pythons,
            }
        }
        decision
    }

    /// Return its batches, how many seconds each was judged, and how many it waited before.
    pub fn judged(&self) -> impl Iterator<Item = (&WorkedBatch, f64, f64)> {
        let took_s = |batch: &Submitted| batch.judged.map_or(0.0, |of| of.took_s);
        let batches = self.request.worked.iter().zip(&self.submitted);
        batches.map(move |(batch, submitted)| (batch, took_s(submitted), submitted.waited_s))
    }

    /// Return the outcomes that there are, for Python.
    pub fn outcomes(&self) -> Vec<Early> {
        let batches = self.request.worked.iter().zip(&self.submitted);
        batches
            .filter_map(|(batch, submitted)| {
                let judged = submitted.judged.filter(|of| of.number > 0)?;
                Some(Early {
                    topic: Arc::clone(&batch.topic),
                    topic_id: batch.topic_id,
                    partition: batch.partition,
                    ring: submitted.ring.number(),
                    number: judged.number,
                    is_accepted: judged.outcome == Outcome::Accepted,
                    took_s: judged.took_s,
                    waited_s: submitted.waited_s,
                })
            })
            .collect()
    }

    /// Wait for no outcome any more. Python waits for those of the batches that a worker has begun.
    pub fn withdraw(&mut self, now: f64) {
        for batch in self.submitted.iter_mut().filter(|batch| batch.judged.is_none()) {
            batch.judged = batch.ring.withdraw(batch.ticket);
            let took_s = batch.judged.map_or(0.0, |judged| judged.took_s);
            batch.waited_s = (now - self.begun_at - took_s).max(0.0);
        }
    }
}
