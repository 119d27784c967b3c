"""Produce (API key 0), versions 3 to 13.

Behaviour: each partition with a policy is judged by itself. What is accepted goes on as the
bytes it came in; when nothing is refused, so does the whole request. Refused partitions are
taken out and answered here, merged into the broker's answer in the request's order. Topic ids
(version 13, and KIP-940's metadata) are asked for over the client's own connection, so the
cluster's ACLs decide what it may learn; a topic that the broker does not know is answered
with the broker's own error.

Not done here: authorisation (the broker's, after the verdict), quotas (the broker's).
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol

from penstock.engine.verdict import ACCEPTED, INVALID_RECORD
from penstock.wire import topics
from penstock.wire.errors import UNKNOWN_TOPIC_ID, UNKNOWN_TOPIC_OR_PARTITION
from penstock.wire.produce import Refusal
from penstock.wire.topics import NO_ID

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from uuid import UUID

    from penstock.engine.plan import Plan, TopicPlan
    from penstock.engine.verdict import Verdict
    from penstock.gateway.session import Exchange, Host, Session
    from penstock.wire.produce import ProduceRequest, Topic

_ID_TRUSTED_S = 10.0
"""How long a topic's id is believed: a topic made anew under the same name has another one."""
_KNOWN_TOPICS_MAX = 10_000
_INNOCENT = "Another partition of the request was refused, and produce.rejection.scope is request"


class Submit(Protocol):
    """Has one partition's records judged; see `penstock.engine.workers.pool.Pool.submit`."""

    def __call__(
        self,
        topic_plan: TopicPlan,
        partition: int,
        topic_id: UUID,
        version: int,
        data: bytes | memoryview,
        done: Callable[[Verdict], None],
    ) -> None: ...


class Policies(NamedTuple):
    """A plan, the workers that know its classes, and how far a refusal reaches."""

    plan: Plan
    submit: Submit
    whole_request: bool


@dataclass(frozen=True, slots=True)
class Refused:
    """One partition of one request that was not let through; for logs and watchers."""

    topic: str
    partition: int
    client_id: str | None
    verdict: Verdict


class KnownTopics:
    """What one client's connection was told about topic names and ids."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._names: dict[UUID, str] = {}
        self._ids: dict[str, tuple[UUID, float]] = {}
        self._clock = clock

    def name(self, topic_id: UUID) -> str | None:
        """Give the name of an id. An id never gets another name."""
        return self._names.get(topic_id)

    def topic_id(self, name: str) -> UUID | None:
        """Give the id of a name, if it was heard of recently."""
        topic_id, until = self._ids.get(name, (None, 0.0))
        return topic_id if self._clock() < until else None

    def learn(self, name: str, topic_id: UUID) -> None:
        """Take note."""
        for known in (self._names, self._ids):
            if len(known) >= _KNOWN_TOPICS_MAX:
                known.clear()
        self._names[topic_id] = name
        self._ids[name] = (topic_id, self._clock() + _ID_TRUSTED_S)


class ProduceExchange:
    """One Produce request from its arrival to its answer."""

    __slots__ = ("_answers", "_host", "_policies", "_readdress", "_session", "_undecided",
                 "answer", "api_key", "complete", "correlation_id", "ready", "refusals",
                 "request", "transform", "version")  # fmt: skip

    def __init__(self, request: ProduceRequest, host: Host, arrived: Exchange) -> None:
        self.request = request
        self.api_key = arrived.api_key
        self.version = arrived.version
        self.correlation_id = arrived.correlation_id
        self.refusals: dict[tuple[int, int], Refusal] = {}
        self.transform = arrived.transform
        self.answer: Sequence[bytes | memoryview] | None = None
        self.complete = True
        self.ready = False
        self._host = host
        self._policies = host.policies
        self._readdress = arrived.transform
        self._undecided = 0

    def begin(self, session: Session) -> None:
        """Have the request judged; `ready` is set when all is decided."""
        self._session = session
        names: set[str] = set()
        ids: set[UUID] = set()
        for topic in self.request.topics:
            if topic.topic_id is not None:
                if session.topics.name(topic.topic_id) is None:
                    ids.add(topic.topic_id)
            elif topic.name is not None:
                plan = self._policies.plan.for_topic(topic.name)
                if plan and plan.needs_topic_id and session.topics.topic_id(topic.name) is None:
                    names.add(topic.name)
        if names or ids:
            session.ask(partial(topics.request, names=names, ids=ids), self._found)
        else:
            self._judge({})

    def _found(self, frame: bytes) -> None:
        """Take the broker's answer about topics."""
        errors: dict[str | UUID, int] = {}
        for found in topics.response(frame):
            if found.code or found.name is None:
                errors[found.name or found.topic_id] = found.code or UNKNOWN_TOPIC_ID
            else:
                self._session.topics.learn(found.name, found.topic_id)
        self._judge(errors)

    def _judge(self, errors: dict[str | UUID, int]) -> None:
        self._undecided = 1  # until all have been submitted: verdicts may come at once
        for t, topic in enumerate(self.request.topics):
            name = topic.name
            if name is None and topic.topic_id is not None:
                name = self._session.topics.name(topic.topic_id)
                if name is None:
                    self._unknown(t, topic, errors.get(topic.topic_id, UNKNOWN_TOPIC_ID))
                    continue
            plan = self._policies.plan.for_topic(name or "")
            if plan is None:
                continue
            topic_id = topic.topic_id or NO_ID
            if plan.needs_topic_id and topic.topic_id is None:
                known = self._session.topics.topic_id(plan.topic)
                if known is None:
                    self._unknown(t, topic, errors.get(plan.topic, UNKNOWN_TOPIC_OR_PARTITION))
                    continue
                topic_id = known
            self._submit(t, topic, plan, topic_id)
        self._settle()

    def _submit(self, t: int, topic: Topic, plan: TopicPlan, topic_id: UUID) -> None:
        for i, partition in enumerate(topic.partitions):
            self._undecided += 1
            self._policies.submit(
                plan,
                partition.number,
                topic_id,
                self.version,
                self.request.records(partition),
                partial(self._decided, (t, i), plan.topic),
            )

    def _unknown(self, t: int, topic: Topic, code: int) -> None:
        for i in range(len(topic.partitions)):
            self.refusals[t, i] = Refusal(code)

    def _decided(self, place: tuple[int, int], topic: str, verdict: Verdict) -> None:
        if verdict is not ACCEPTED:
            self.refusals[place] = Refusal(
                verdict.code,
                verdict.message,
                [(error.index, error.message) for error in verdict.record_errors],
            )
            t, i = place
            index = self.request.topics[t].partitions[i].number
            self._host.refused(Refused(topic, index, self.request.client_id, verdict))
        self._settle()

    def _settle(self) -> None:
        self._undecided -= 1
        if self._undecided:
            return
        if self.refusals and self._policies.whole_request:
            for t, topic in enumerate(self.request.topics):
                for i in range(len(topic.partitions)):
                    self.refusals.setdefault((t, i), Refusal(INVALID_RECORD, _INNOCENT))
        self.ready = True
        self._session.advance()

    def outgoing(self) -> Sequence[bytes | memoryview]:
        """Give what goes to the broker: the original, what is left of it, or nothing."""
        if not self.refusals:
            return [self.request.frame]
        self.transform = self._merge
        return self.request.without(self.refusals.keys())

    def local_answer(self) -> Sequence[bytes]:
        """Answer a request of which nothing went to the broker."""
        return self.request.answer(self.refusals, None)

    def _merge(self, frame: bytes) -> Sequence[bytes | memoryview]:
        if self._readdress is not None:
            frame = b"".join(self._readdress(frame))
        return self.request.answer(self.refusals, frame)
