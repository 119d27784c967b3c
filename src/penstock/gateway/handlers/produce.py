"""Produce (API key 0), versions 3 to 13.

Behaviour: each partition with a policy is judged by itself. What is accepted goes on as the
bytes it came in; when nothing is refused, so does the whole request. Refused partitions are
taken out and answered here, merged into the broker's answer in the request's order. What
interceptors made of a batch goes on in its place (`interceptions`). Topic ids
(version 13, and KIP-940's metadata) are asked for over the client's own connection, so the
cluster's ACLs decide what it may learn; a topic that the broker does not know is answered
with the broker's own error.

Not done here: authorisation (the broker's, after the verdict), quotas (the broker's).
"""

from __future__ import annotations

import time
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol

import structlog
from cachetools import LRUCache, TTLCache

from penstock.compacted_topic import CompactedTopicError
from penstock.engine.plan import NO_SETTINGS, TopicPlan
from penstock.engine.verdict import (
    INVALID_RECORD,
    MESSAGE_TOO_LARGE,
    Outcome,
    failed,
    refused,
)
from penstock.gateway.handlers.interceptions import Idempotence, Interceptions
from penstock.gateway.refusals import Refused
from penstock.topics.index import UnreadableSettingsError
from penstock.wire import producers, topics
from penstock.wire.errors import (
    INVALID_REQUIRED_ACKS,
    INVALID_TOPIC_EXCEPTION,
    NOT_LEADER_OR_FOLLOWER,
    REQUEST_TIMED_OUT,
    RETRIABLE,
    UNKNOWN_TOPIC_ID,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from penstock.wire.names import is_topic_name
from penstock.wire.produce import ENTRY_BYTES, Answer, ProduceResponse
from penstock.wire.producers import LastSequence
from penstock.wire.topics import NO_ID
from penstock.wire.transactions import Transaction

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Container, Hashable, Iterator, Mapping, Sequence
    from uuid import UUID

    from penstock.engine.plan import Plan
    from penstock.engine.verdict import Verdict
    from penstock.gateway.producer_state.cluster import ClusterStore
    from penstock.gateway.session import Exchange, Host, Session
    from penstock.gateway.topic_policies import TopicPolicies
    from penstock.wire.produce import ProduceRequest, Topic

    Place = tuple[int, int]

log = structlog.get_logger()

_ID_TRUSTED_S = 10.0
"""How long a topic's id is believed: a topic made anew under the same name has another one."""
_KNOWN_TOPICS_MAX = 10_000
_TRANSACTIONS_2_FROM = 12
_ACKS = frozenset({-1, 0, 1})
"""What a broker takes; it looks at this first, and stores nothing otherwise."""
_INNOCENT = "Another partition of the request was refused, and produce.rejection.scope is request"
_TOLD_TO_RETRY = "Another partition of the request has to come again, and so has this one"
_NOT_READ = "It is not known yet which of this producer's records were dropped by other gateways"


class Submit(Protocol):
    """Has one partition's records judged; see `engine.workers.supervisor.Supervisor.submit`."""

    def __call__(
        self,
        topic_plan: TopicPlan,
        partition: int,
        topic_id: UUID,
        version: int,
        data: bytes | memoryview,
        done: Callable[[Verdict], None],
        *,
        timeout_ms: int = ...,
        dropped_before: Sequence[int] = ...,
        turn: Hashable = ...,
    ) -> None: ...


def without_answer(turn: Hashable) -> Hashable:
    """Give the turn of what one connection asks no answer for (acks=0)."""
    return turn, 0


class Policies(NamedTuple):
    """What is in force together, until a configuration is read again.

    Attributes:
        plan: Which policies each topic has.
        submit: Has a batch judged by the workers that know their classes.
        whole_request: Whether a refusal reaches the whole request.
        topics: The policies of topics and configs.
        retain: Has a topic's instances of other classes of KIP-686 closed; see `Supervisor.retain`.
        withdraw: Has what waits for one connection not judged; see `Supervisor.withdraw`.
        idempotence: What becomes of idempotent producers whose records are dropped.
        judges_partitions: Whether the policy of topics is asked about more partitions.
        refused_automatic_creation_code: Answers Metadata for a topic that may not be created.
    """

    plan: Plan
    submit: Submit
    whole_request: bool
    topics: TopicPolicies
    retain: Callable[[str, Container[str]], None]
    withdraw: Callable[[Hashable], None]
    idempotence: Idempotence = Idempotence.TRANSLATE
    judges_partitions: bool = True
    refused_automatic_creation_code: int = UNKNOWN_TOPIC_OR_PARTITION


class Progress(Enum):
    """How far a request has come before it goes to the broker, in this order."""

    JUDGING = "judging"
    JUDGED = "judged"
    ASKING = "asking"
    """The broker is asked how far a producer has come, where that is not known here."""
    ASKED = "asked"
    DECIDED = "decided"
    ABANDONED = "abandoned"
    """The connection is gone; verdicts that still come count for nothing."""


class KnownTopics:
    """What one client's connection was told about topic names and ids."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._names: LRUCache[UUID, str] = LRUCache(_KNOWN_TOPICS_MAX)
        self._ids: TTLCache[str, tuple[UUID, float]] = TTLCache(
            _KNOWN_TOPICS_MAX, _ID_TRUSTED_S, timer=clock
        )
        self._clock = clock

    def name(self, topic_id: UUID) -> str | None:
        """Give the name of an id. An id never gets another name."""
        return self._names.get(topic_id)

    def topic_id(self, name: str, *, since: float = 0.0) -> UUID | None:
        """Give the id of a name, if it was heard of recently, and after `since`."""
        topic_id, at = self._ids.get(name, (None, since))
        return topic_id if at > since else None

    def learn(self, name: str, topic_id: UUID) -> None:
        """Take note."""
        self._names[topic_id] = name
        self._ids[name] = (topic_id, self._clock())


class ProduceExchange:
    """One Produce request from its arrival to its answer."""

    __slots__ = ("_host", "_ids", "_interceptions", "_policies", "_progress", "_readdress",
                 "_reading", "_session", "_topics", "_undecided", "_unread", "_unwritten", "answer",
                 "answers", "api_key", "complete", "correlation_id", "is_local", "ready",
                 "request", "size", "transform", "version")  # fmt: skip

    def __init__(self, request: ProduceRequest, host: Host, arrived: Exchange) -> None:
        self.request = request
        self.size = len(request.frame) + ENTRY_BYTES * request.entries
        self.api_key = arrived.api_key
        self.version = arrived.version
        self.correlation_id = arrived.correlation_id
        self.answers: dict[Place, Answer] = {}
        self.transform = arrived.transform
        self.answer: Sequence[bytes | memoryview] | None = None
        self.complete = True
        self.ready = False
        self.is_local = False
        self._progress = Progress.JUDGING
        self._unwritten = 0
        self._host = host
        self._policies = host.policies
        self._readdress = arrived.transform
        self._undecided = 0
        self._reading: asyncio.Task[object] | None = None
        self._unread: frozenset[UUID] = frozenset()
        self._ids: dict[str, UUID] = {}
        self._topics: list[tuple[int, Topic]] = []
        self._interceptions = Interceptions(host.producers, self._policies.idempotence)

    @property
    def policies(self) -> Policies:
        """Those that judge it."""
        return self._policies

    @property
    def frame(self) -> bytes:
        """The request as it came."""
        return self.request.frame

    @property
    def unanswered(self) -> bool:
        """Whether the client waits for no answer."""
        return bool(self.request.acks == 0)

    @property
    def breaks_off(self) -> bool:
        """Whether an error has to be told by closing the connection."""
        return self.unanswered and any(answer.code for answer in self.answers.values())

    def begin(self, session: Session) -> None:
        """Have the request judged; then the session is to go on with `decide`."""
        self._session = session
        self._interceptions.principal = session.principal or ""
        self._look_at_names()
        self._arrive()
        names: set[str] = set()
        ids: set[UUID] = set()
        for _, topic in self._topics:
            if topic.topic_id is not None:
                if session.topics.name(topic.topic_id) is None:
                    ids.add(topic.topic_id)
            elif topic.name is not None and self._needs_id(topic.name):
                known = self._known_id(topic.name)
                if known is None:
                    names.add(topic.name)
                else:
                    self._ids[topic.name] = known
        if names or ids:
            session.ask(partial(topics.request, names=names, ids=ids), self._found)
        elif self._host.settings is None and self._host.shared_producers is None:
            self._judge({})
        else:
            self._resolved({})

    def _look_at_names(self) -> None:
        """Answer for topics that cannot be, as a broker does; nothing is kept of their names."""
        for t, topic in enumerate(self.request.topics):
            if self.request.acks not in _ACKS:
                self._unknown(t, topic, INVALID_REQUIRED_ACKS)
            elif topic.name is not None and not is_topic_name(topic.name):
                self._unknown(t, topic, UNKNOWN_TOPIC_OR_PARTITION)
            else:
                self._topics.append((t, topic))

    def _arrive(self) -> None:
        """Take note of what may be intercepted, before anything else may take its time."""
        if not self._policies.plan.has_interceptors and not self._host.producers:
            return
        for t, topic in self._topics:
            # Where a topic has an id only, it is not known yet whether it has interceptors.
            if topic.name is None or self._is_intercepted(topic.name):
                for i, partition in enumerate(topic.partitions):
                    if partition.number >= 0:
                        self._interceptions.arrive((t, i), self.request)

    def _is_intercepted(self, name: str) -> bool:
        return self._policies.plan.intercepts(name) or self._host.producers.has_topic(name)

    def _intercepted_name(self, identity: str | UUID) -> str | None:
        """Give a topic's name, by name or id, where it has interceptors."""
        name = identity if isinstance(identity, str) else self._session.topics.name(identity)
        return name if name is not None and self._is_intercepted(name) else None

    def _needs_id(self, name: str) -> bool:
        return self._needs_id_for(self._policies.plan.for_topic(name))

    def _needs_id_for(self, plan: TopicPlan | None) -> bool:
        # Where topics have settings, a new id is how one that was made anew is told.
        return self._host.settings is not None or (plan is not None and plan.needs_topic_id)

    def _known_id(self, name: str) -> UUID | None:
        settings = self._host.settings
        since = settings.changed_at(name) if settings else 0.0
        return self._session.topics.topic_id(name, since=since)

    def _found(self, frame: bytes) -> None:
        """Take the broker's answer about topics."""
        if self._progress is Progress.ABANDONED:
            return
        errors: dict[str | UUID, int] = {}
        for found in topics.response(frame):
            if found.code or found.name is None:
                errors[found.name or found.topic_id] = found.code or UNKNOWN_TOPIC_ID
            else:
                self._session.topics.learn(found.name, found.topic_id)
        self._resolved(errors)

    def _resolved(self, errors: dict[str | UUID, int]) -> None:
        """Go on when it is known which topics the request is about."""
        if self._progress is Progress.ABANDONED:
            return
        for _, topic in self._topics:
            if topic.name is not None and self._needs_id(topic.name):
                known = self._known_id(topic.name)
                if known is not None:
                    self._ids[topic.name] = known
        settings = self._host.settings
        new: Sequence[UUID] = ()
        if settings is not None:
            by_id = (topic.topic_id for _, topic in self._topics)
            new = settings.knows_not(filter(None, (*self._ids.values(), *by_id)))
        unknown = self._host.shared_producers is not None and any(self._unknown_producers())
        if new or unknown:
            self._reading = self._host.run(self._read_on(new, errors, producers=unknown))
        else:
            self._judge(errors)

    def _unknown_producers(self) -> Iterator[Place]:
        """Give the batches of whose producers other gateways may know more."""
        for t, topic in self._topics:
            name = topic.name
            if name is None and topic.topic_id is not None:
                name = self._session.topics.name(topic.topic_id)
            if name is None or not self._is_intercepted(name):
                continue
            for i in range(len(topic.partitions)):
                if self._interceptions.unknown_producers((t, i), name):
                    yield t, i

    async def _read_on(
        self, new: Sequence[UUID], errors: dict[str | UUID, int], *, producers: bool
    ) -> None:
        """Read what is kept of topics and producers that are new here, before they are judged."""
        try:
            await self._read_logs(new, producers=producers)
            self._judge(errors)
        except Exception as error:
            self._give_up(error)

    async def _read_logs(self, new: Sequence[UUID], *, producers: bool) -> None:
        settings, shared = self._host.settings, self._host.shared_producers
        if new and settings is not None:
            try:
                await settings.read_on()
            except CompactedTopicError as error:
                self._unread = frozenset(new)
                log.error(
                    "topics cannot be judged: their settings are not known", reason=str(error)
                )
            else:
                settings.see(new)
        if producers and shared is not None:
            try:
                await shared.read_on()
            except CompactedTopicError as error:
                log.error("batches are held back: the state of their producers is not known",
                          reason=str(error))  # fmt: skip
                for place in self._unknown_producers():
                    self.answers[place] = Answer(REQUEST_TIMED_OUT, _NOT_READ)

    def _judge(self, errors: dict[str | UUID, int]) -> None:
        self._policies = self._host.policies  # those in force now, for all of the request
        self._undecided = 1  # until all have been submitted: verdicts may come at once
        for t, topic in self._topics:
            name = topic.name
            if name is None and topic.topic_id is not None:
                name = self._session.topics.name(topic.topic_id)
                if name is None:
                    self._unknown(t, topic, errors.get(topic.topic_id, UNKNOWN_TOPIC_ID))
                    continue
            name = name or ""
            topic_id = topic.topic_id or NO_ID
            plan = self._policies.plan.for_topic(name)
            if topic.topic_id is None and self._needs_id_for(plan):
                known = self._ids.get(name)
                if known is None:
                    self._unknown(t, topic, errors.get(name, UNKNOWN_TOPIC_OR_PARTITION))
                    continue
                topic_id = known
            own = self._own_settings(t, topic, name, topic_id)
            if own is None:
                continue
            if own:
                plan = self._policies.plan.for_topic(name, own)
            if plan is None:
                if not name or not self._host.producers.has_topic(name):
                    continue
                plan = TopicPlan(topic=name)  # it had interceptors before
            if plan.unusable:
                self._cannot_be_judged(t, topic, plan)
                continue
            self._submit(t, topic, plan, topic_id)
        self._settle()

    def _own_settings(
        self, t: int, topic: Topic, name: str, topic_id: UUID
    ) -> Mapping[str, str] | None:
        """Give the keys set on a topic; None where the topic has been answered with an error."""
        settings, shared = self._host.settings, self._host.shared_producers
        if shared is not None and name == shared.topic:
            self._unknown(t, topic, INVALID_TOPIC_EXCEPTION)
            return None
        if settings is None:
            return NO_SETTINGS
        if name == settings.topic:
            self._unknown(t, topic, INVALID_TOPIC_EXCEPTION)
        elif topic_id in self._unread:
            self._unknown(t, topic, NOT_LEADER_OR_FOLLOWER)
        else:
            try:
                return settings.of(name, topic_id)
            except UnreadableSettingsError as error:
                self._cannot_be_judged(t, topic, TopicPlan(topic=name, unusable=str(error)))
        return None

    def _cannot_be_judged(self, t: int, topic: Topic, plan: TopicPlan) -> None:
        names = ", ".join(plan.policies) or "of this topic"
        verdict = failed(names, f"cannot be asked: {plan.unusable}")
        for i in range(len(topic.partitions)):
            self._refuse((t, i), plan.topic, verdict)

    def _submit(self, t: int, topic: Topic, plan: TopicPlan, topic_id: UUID) -> None:
        intercepted = bool(plan.interceptors) or self._host.producers.has_topic(plan.topic)
        known_id = topic_id if topic_id != NO_ID else None
        for i, partition in enumerate(topic.partitions):
            if (t, i) in self.answers:
                continue
            if partition.number < 0:
                self.answers[t, i] = Answer(UNKNOWN_TOPIC_OR_PARTITION)
                continue
            dropped_before: Sequence[int] = ()
            if intercepted:
                before = self._interceptions.expect(
                    (t, i), plan.topic, known_id, self.request, has_policies=bool(plan.policies)
                )
                if before is not None:
                    if before.is_done or before.data is not None:
                        continue  # decided when it came before
                    dropped_before = before.dropped
            if not plan.policies:
                continue
            self._undecided += 1
            self._policies.submit(
                plan,
                partition.number,
                topic_id,
                self.version,
                self.request.records(partition),
                partial(self._decided, (t, i), plan.topic),
                timeout_ms=self.request.timeout_ms,
                dropped_before=dropped_before,
                turn=self._session if self.request.acks else without_answer(self._session),
            )

    def _unknown(self, t: int, topic: Topic, code: int) -> None:
        for i in range(len(topic.partitions)):
            self.answers[t, i] = Answer(code)

    def _decided(self, place: Place, topic: str, verdict: Verdict) -> None:
        if self._progress is Progress.ABANDONED:
            return
        try:
            self._take_verdict(place, topic, verdict)
        except Exception as error:
            self._give_up(error)

    def _give_up(self, error: Exception) -> None:
        """Close the connection after an error of ours: its client tries again."""
        log.error("closing a connection after an error of the gateway", exc_info=error)
        self._session.fail()

    def _take_verdict(self, place: Place, topic: str, verdict: Verdict) -> None:
        verdict = self._interceptions.judged(place, topic, self.request, verdict)
        if verdict.outcome is not Outcome.ACCEPTED:
            self._refuse(place, topic, verdict)
        self._settle()

    def _refuse(self, place: Place, topic: str, verdict: Verdict) -> None:
        self.answers[place] = Answer(
            verdict.code,
            verdict.message,
            [(error.index, error.message) for error in verdict.record_errors],
        )
        t, i = place
        index = self.request.topics[t].partitions[i].number
        self._host.refused(Refused(topic, index, self.request.client_id, verdict))

    def _settle(self) -> None:
        self._undecided -= 1
        if not self._undecided:
            self._check_sizes()

    def _check_sizes(self) -> None:
        """See whether batches that interceptors let grow still fit their topics."""
        if not self._interceptions:
            self._finish()
            return
        grown = {
            place: grown
            for place, grown in self._interceptions.grown().items()
            if place not in self.answers
        }
        unknown = {topic for topic, _ in grown.values() if self._host.sizes.knows_not(topic)}
        if unknown:
            self._session.ask(
                partial(topics.size_request, names=unknown), partial(self._sizes_found, unknown)
            )
            return
        for place, (topic, size) in grown.items():
            most = self._host.sizes.most_bytes(topic)
            if most is not None and size > most:
                text = (
                    f"The batch has {size} bytes after its interceptors, more than the {most} of "
                    f"max.message.bytes of topic {topic}"
                )
                self._refuse(place, topic, refused(MESSAGE_TOO_LARGE, text, ""))
        self._finish()

    def _sizes_found(self, asked: set[str], frame: bytes) -> None:
        if self._progress is Progress.ABANDONED:
            return
        told = topics.size_response(frame)
        for topic in asked:
            self._host.sizes.learn(topic, told.get(topic))
        self._check_sizes()

    def _finish(self) -> None:
        if self.answers and self._policies.whole_request:
            self._refuse_all()
        self._progress = Progress.JUDGED
        self._session.advance()

    def _refuse_all(self) -> None:
        """Answer the innocent partitions of a request as `produce.rejection.scope` wants it.

        Where nothing was refused for good, they are to come again with those that have to.
        """
        final = any(answer.code not in RETRIABLE for answer in self.answers.values())
        innocent = (
            Answer(INVALID_RECORD, _INNOCENT)
            if final
            else Answer(REQUEST_TIMED_OUT, _TOLD_TO_RETRY)
        )
        self._answer_others(innocent)

    def _answer_others(self, answer: Answer) -> None:
        """Give all partitions that have no answer the same one, but for what is stored already."""
        for t, topic in enumerate(self.request.topics):
            for i in range(len(topic.partitions)):
                if not self._interceptions.is_stored((t, i)):
                    self.answers.setdefault((t, i), answer)

    def decide(self, *, is_next: bool) -> bool:
        """Decide what becomes of the batches; to be called in the order of the requests.

        Args:
            is_next: Whether all requests before it have gone to the broker.

        Returns:
            Whether it is decided; if not, it is to be called again. `ready` is set when what
            is decided is kept, too.
        """
        if self._progress in {Progress.JUDGING, Progress.ASKING}:
            return False
        if self.answers:
            self._interceptions.answered_early(self.answers, self.request, self._intercepted_name)
        if self._interceptions:
            if self._progress is Progress.JUDGED:
                asked = self._interceptions.to_ask(self.answers)
                if asked and not is_next:
                    return False
                if asked and (self._session.can_ask_of_producers or self._host.shared_producers):
                    self._ask_broker(asked)
                    return False
                if asked:
                    self._interceptions.told(asked, {}, self.answers)
            self._unwritten = self._interceptions.decide(
                self.answers,
                connection=self._session.number,
                whole_request=self._policies.whole_request,
                done=self._kept,
            )
        else:
            self._interceptions.depart()
        if self.answers and self._policies.whole_request:
            self._answer_others(Answer(REQUEST_TIMED_OUT, _TOLD_TO_RETRY))
        self._progress = Progress.DECIDED
        self.ready = not self._unwritten
        return True

    def _kept(self) -> None:
        self._unwritten -= 1
        if self._unwritten or self._progress is Progress.ABANDONED:
            return
        try:
            self.ready = True
            self._session.advance()
        except Exception as error:
            self._give_up(error)

    def _ask_broker(self, asked: dict[str, dict[int, int]]) -> None:
        """Ask how far producers have come of whom it is not known here."""
        self._progress = Progress.ASKING

        errors: dict[tuple[str, int], int] = {}

        def told(frame: bytes | None) -> None:
            if self._progress is Progress.ABANDONED:
                return
            found = {} if frame is None else producers.response(frame, partitions=asked)
            found |= {place: LastSequence(code) for place, code in errors.items()}
            shared = self._host.shared_producers
            if shared is None:
                self._told(asked, found)
            else:
                self._reading = self._host.run(self._read_and_told(shared, asked, found))

        def led(frame: bytes) -> None:
            errors.update(producers.leader_errors(frame))

        def served(is_served: bool) -> None:
            if is_served:
                self._session.ask(partial(producers.leader_request, partitions=asked), led)
                self._session.ask(partial(producers.request, partitions=asked), told)
            else:
                told(None)

        self._session.ask_whether_served(served)

    def _told(
        self, asked: dict[str, dict[int, int]], found: dict[tuple[str, int], LastSequence]
    ) -> None:
        self._interceptions.told(asked, found, self.answers)
        self._progress = Progress.ASKED
        self._session.advance()

    async def _read_and_told(
        self,
        shared: ClusterStore,
        asked: dict[str, dict[int, int]],
        found: dict[tuple[str, int], LastSequence],
    ) -> None:
        """Read what other gateways have decided about what the broker has; it is there by now."""
        try:
            found = await self._found_with_log(shared, asked, found)
            self._told(asked, found)
        except Exception as error:
            self._give_up(error)

    async def _found_with_log(
        self,
        shared: ClusterStore,
        asked: dict[str, dict[int, int]],
        found: dict[tuple[str, int], LastSequence],
    ) -> dict[tuple[str, int], LastSequence]:
        try:
            await shared.read_on()
        except CompactedTopicError as error:
            log.error("batches are held back: the state of their producers is not known",
                      reason=str(error))  # fmt: skip
            return {
                (topic, number): LastSequence(REQUEST_TIMED_OUT)
                for topic, numbers in asked.items()
                for number in numbers
            }
        return found

    def outgoing(self) -> Sequence[bytes | memoryview]:
        """Give what goes to the broker: the original, what is left of it, or nothing."""
        request = self.request
        if not self._interceptions:
            if not self.answers:
                return [request.frame]
            return self._merging(request.changed(self.answers.keys(), {}))
        replaced = self._interceptions.send(
            self.answers, acks=request.acks, whole_request=self._policies.whole_request
        )
        if self.answers and self._policies.whole_request:
            self._answer_others(Answer(REQUEST_TIMED_OUT, _TOLD_TO_RETRY))
        left_out = self.answers.keys() | self._interceptions.due
        outgoing: Sequence[bytes | memoryview] = [request.frame]
        if left_out or replaced:
            outgoing = request.changed(left_out, replaced)
        if left_out or self._interceptions.heed_response:
            self._merging(outgoing)
        if request.transactional_id is not None and self.version >= _TRANSACTIONS_2_FROM:
            self._note_transaction(request.transactional_id, sent=bool(outgoing))
        return outgoing

    def _merging(self, outgoing: Sequence[bytes | memoryview]) -> Sequence[bytes | memoryview]:
        """Have the broker's answer to what goes out, if one comes, merged with those here."""
        if outgoing and self.request.acks:
            self.transform = self._merge
        return outgoing

    def _note_transaction(self, transactional_id: str, *, sent: bool) -> None:
        by = self._interceptions.producer
        if by is None:
            return
        transaction = Transaction(transactional_id, by.producer_id, by.epoch)
        if sent:
            self._host.transactions.sent(transaction)
            return
        for topic, partition in self._interceptions.dropped_whole(self.answers):
            self._host.transactions.dropped(transaction, topic, partition)

    def abandon(self) -> None:
        """Take note that the request goes nowhere."""
        self._progress = Progress.ABANDONED
        if self._reading is not None:
            self._reading.cancel()
        self._interceptions.abandon()

    def local_answer(self) -> Sequence[bytes]:
        """Answer a request of which nothing went to the broker, when its answer is due."""
        self._interceptions.acknowledge(self.answers)
        return self.request.answer(self.answers, None)

    def _merge(self, frame: bytes) -> Sequence[bytes | memoryview]:
        if self._readdress is not None:
            frame = b"".join(self._readdress(frame))
        response = ProduceResponse(frame, self.version)
        self._interceptions.answered(response)
        self._interceptions.acknowledge(self.answers)
        if not self.answers and not response.is_changed:
            return [frame]
        return self.request.answer(self.answers, response)
