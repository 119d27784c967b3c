"""Produce (API key 0), versions 3 to 13: validates the batches of a request.

Behaviour: each partition with a policy is judged separately. If every partition is accepted, the
request is forwarded unchanged. Otherwise the refused partitions are removed from it, and their
responses are merged into the broker's response in the order of the request. A batch that an
interceptor changed is sent in place of the original (`intercepted_batches`). What only observes
(`penstock.mode`) is judged beside; in quarantine bad records are left out of their batch as if
interceptors had dropped them, and dead letters are stored before the rest is sent. Topic ids
(version 13, and KIP-940's metadata) are resolved by a Metadata request over the client's
connection, so the cluster's ACLs apply. A topic that the broker does not know gets the broker's
error code.

Authorization and quotas are left to the broker, but for dead letters, which the gateway writes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from dataclasses import replace
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

import structlog

from penstock.cluster.compacted_topic import CompactedTopicError
from penstock.configuration.topic_keys import MODE, POLICIES, QUARANTINE_MAX_RATIO
from penstock.engine.plan import TopicPlan
from penstock.engine.verdict import (
    Outcome,
    bounded,
    failed,
    refused,
)
from penstock.error_codes import INVALID_RECORD, MESSAGE_TOO_LARGE
from penstock.gateway.exchange import Held, State
from penstock.gateway.policy_set import without_response
from penstock.gateway.produce.dead_letter_writer import DeadLetterTopic
from penstock.gateway.produce.forwarded_at_once import (
    cached_topic_id,
    is_for_gateways,
    observe,
    sender_of,
)
from penstock.gateway.produce.intercepted_batches import InterceptedBatches
from penstock.gateway.produce.postponed_batches import TEXT, SentBy
from penstock.gateway.refusal_log import Refused
from penstock.records.header import is_intact, read_producer, record_count
from penstock.topic_configs.index import UnreadableTopicConfigsError
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
from penstock.wire.names import NO_ID, is_topic_name
from penstock.wire.own_requests import CLIENT_ID
from penstock.wire.produce import ENTRY_BYTES, VALID_ACKS, PartitionResponse, read_response
from penstock.wire.producers import LastSequence
from penstock.wire.slices import finish

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from uuid import UUID

    from penstock.engine.verdict import Diverted, Verdict
    from penstock.gateway.exchange import Buffers, ConnectionContext, Exchange
    from penstock.gateway.gateway_context import GatewayContext
    from penstock.gateway.metrics.counts import GatewayCounts
    from penstock.gateway.policy_set import PolicySet
    from penstock.gateway.produce.producer_state.cluster import ClusterStore
    from penstock.gateway.turns import Work
    from penstock.records.header import BatchProducer
    from penstock.wire.produce import ProduceRequest, ProduceResponse, TopicData
    from penstock.wire.slices import Slices

    Position = tuple[int, int]

T = TypeVar("T")

log = structlog.get_logger()

SLICE: Final = 250
"""So many batches of a request are submitted in one turn of the event loop."""
_OTHER_PARTITION_REFUSED: Final = (
    "Another partition of the request was refused, and produce.rejection.scope is request"
)
_OTHER_PARTITION_RETRIED: Final = (
    "Another partition of the request has to come again, and so has this one"
)
_NOT_OPEN: Final = (
    "penstock.mode is quarantine, and what keeps decisions about records is not open yet"
)
_PRODUCER_STATE_NOT_READ: Final = (
    "It is not known yet which of this producer's records were dropped by other gateways"
)


class Progress(Enum):
    """The stages of a request before it is sent to the broker, in order."""

    JUDGING = "judging"
    """Workers judge the batches."""
    JUDGED = "judged"
    """All verdicts are there."""
    FETCHING_STATE = "fetching state"
    """The broker is asked for producers' last sequence numbers that are not known here."""
    STATE_FETCHED = "state fetched"
    """The broker has responded."""
    DECIDED = "decided"
    """It is final what is sent to the broker."""


class ProduceExchange(Held):
    """A Produce request and its response."""

    __slots__ = ("_accepted", "_again", "_before", "_checked", "_connection", "_gateway", "_ids",
                 "_intercepted", "_is_asked_again", "_is_deciding", "_is_prepared", "_observed",
                 "_policies", "_progress", "_quarantined", "_readdress", "_reading", "_rewritten",
                 "_submitted", "_topics", "_undecided", "_unread", "_unwritten", "_with_letters",
                 "_work", "request", "responses")  # fmt: skip

    is_judged = True

    def __init__(
        self, request: ProduceRequest, gateway: GatewayContext, received: Exchange
    ) -> None:
        super().__init__(received, len(request.frame) + ENTRY_BYTES * request.entries)
        self.request = request
        self.expects_response = request.acks != 0
        self.responses: dict[Position, PartitionResponse] = {}
        self._progress = Progress.JUDGING
        self._unwritten = 0
        self._checked = self._is_prepared = self._is_deciding = self._is_asked_again = False
        self._work: Work | None = None
        self._before: asyncio.Future[None] | None = None
        self._submitted: asyncio.Future[None] | None = None
        self._gateway = gateway
        self._policies = gateway.policies
        self._readdress = received.transform
        self._rewritten: Sequence[bytes | memoryview] = ()
        self._undecided = 0
        self._accepted: dict[Position, tuple[TopicPlan, Verdict]] = {}
        self._reading: asyncio.Task[object] | None = None
        self._unread: frozenset[UUID] = frozenset()
        self._ids: dict[str, UUID] = {}
        self._observed: set[str] = set()
        self._quarantined: set[str] = set()
        self._again: set[Position] = set()
        self._with_letters: dict[Position, tuple[str, Diverted | None]] = {}
        self._topics: list[tuple[int, TopicData]] = []
        self._intercepted = InterceptedBatches(gateway.producers, self._policies.idempotence)

    @property
    def policies(self) -> PolicySet:
        """The policies that judge the request."""
        return self._policies

    @property
    def error_code(self) -> int:
        """The first error of a partition that the gateway itself answers with; 0 without one."""
        return next((one.code for one in self.responses.values() if one.code), 0)

    @property
    def closes_connection(self) -> bool:
        """Whether an error has to be reported by closing the connection, because of acks=0."""
        return not self.expects_response and any(one.code for one in self.responses.values())

    def prepare(self, connection: ConnectionContext) -> Slices[None]:
        """Check the names, and register the batches, before anything else can take time.

        `start` does so where it has not been done.

        Yields:
            After each slice.
        """
        self._connection = connection
        self._intercepted.connection = connection.number
        self._intercepted.principal = connection.authentication.principal or ""
        try:
            yield from self._check_names()
            yield from self._register_batches()
            self._is_prepared = True
        finally:
            if not self._is_prepared:
                self._intercepted.depart()

    def start(self, connection: ConnectionContext) -> None:
        """Start judging the request. From then on `decide` is to be called."""
        if not self._is_prepared:
            finish(self.prepare(connection))
        self._before = connection.submitting
        if self._is_long:
            # What follows from the same client must not be submitted before it.
            self._submitted = connection.submitting = asyncio.get_running_loop().create_future()
        self._do(self._unknown_topics(), self._request_topics)

    @property
    def _is_long(self) -> bool:
        """Whether the work on the request is done in slices."""
        return self.request.entries > SLICE

    def _do(self, slices: Slices[T], on_done: Callable[[T], None]) -> None:
        """Do a part of the work; of a long request in slices."""
        if not self._is_long:
            on_done(finish(slices))
            return
        self._work = None

        def done(result: T) -> None:
            if self.state is not State.CANCELLED:
                on_done(result)

        begun = self._gateway.turns.begin(slices, done, self._fail_connection)
        if begun is not None:
            self._work = begun

    def _unknown_topics(self) -> Slices[tuple[set[str], set[UUID]]]:
        """Return the topics that the broker is to be asked for, by name and by id."""
        connection = self._connection
        names: set[str] = set()
        ids: set[UUID] = set()
        for number, (t, topic) in enumerate(self._topics, 1):
            if number % SLICE == 0:
                yield
            if topic.topic_id is not None:
                name = connection.topics.name(topic.topic_id)
                if name is None or self._comes_again(t, topic, name, topic.topic_id):
                    ids.add(topic.topic_id)
            elif topic.name is not None and self._needs_topic_id(topic.name):
                known = cached_topic_id(topic.name, connection)
                if known is None or self._comes_again(t, topic, topic.name, known):
                    names.add(topic.name)
                else:
                    self._ids[topic.name] = known
        return names, ids

    def _comes_again(self, t: int, topic: TopicData, name: str, topic_id: UUID) -> bool:
        """Whether a topic has a batch that is a retry, unless the topic was created again."""
        return any(
            self._intercepted.depends_on_topic_id((t, i), name, topic_id, self.request)
            for i in range(len(topic.partitions))
        )

    def _request_topics(self, unknown: tuple[set[str], set[UUID]]) -> None:
        names, ids = unknown
        if names or ids:
            self._do(topics.metadata_body(names, ids), self._send_metadata_request)
        elif not self._gateway.topic_configs.are_stored and self._gateway.shared_producers is None:
            self._judge({})
        else:
            self._on_topics_resolved({})

    def _send_metadata_request(self, body: bytes) -> None:
        make = partial(topics.framed_metadata, body=body, client_id=CLIENT_ID)
        self._connection.send_request(make, self._on_topics)

    def _check_names(self) -> Slices[None]:
        """Respond to invalid acks and topic names, as a broker does."""
        has_valid_acks = self.request.acks in VALID_ACKS
        for t, topic in enumerate(self.request.topics):
            if t % SLICE == SLICE - 1:
                yield
            if not has_valid_acks:
                self._fail_topic(t, topic, INVALID_REQUIRED_ACKS)
            elif topic.name is not None and not is_topic_name(topic.name):
                self._fail_topic(t, topic, UNKNOWN_TOPIC_OR_PARTITION)
            else:
                self._topics.append((t, topic))

    def _register_batches(self) -> Slices[None]:
        """Register the batches that may be intercepted, before anything else can take time."""
        plan = self._policies.plan
        if not (plan.has_interceptors or plan.may_quarantine or self._gateway.producers):
            return
        steps = 0
        for t, topic in self._topics:
            # Of a topic with only an id it is not known yet whether it has interceptors.
            # Interceptors may have been taken away, or may only observe now, while a batch that
            # came before is still being judged by them.
            producers = self._gateway.producers
            name = topic.name
            is_registered = (
                name is None or self._is_intercepted(name) or producers.has_undecided(name)
            )
            for i, partition in enumerate(topic.partitions):
                if is_registered and partition.number >= 0:
                    self._intercepted.arrive((t, i), self.request)
                steps += 1
                if steps % SLICE == 0:
                    yield

    def _is_intercepted(self, name: str) -> bool:
        if self._gateway.producers.has_topic(name) or name in self._quarantined:
            return True
        return name not in self._observed and self._policies.plan.intercepts(name)

    def _intercepted_name(self, identity: str | UUID) -> str | None:
        """Return the name of a topic, given by name or id, if it has interceptors."""
        name = identity if isinstance(identity, str) else self._connection.topics.name(identity)
        return name if name is not None and self._is_intercepted(name) else None

    def _needs_topic_id(self, name: str) -> bool:
        # A topic that is deleted and created again is recognized by its new id.
        if self._gateway.topic_configs.are_stored:
            return True
        plan = self._policies.plan.for_topic(name)
        return plan is not None and (plan.needs_topic_id or plan.quarantines)

    def _on_topics(self, frame: bytes) -> None:
        """Handle the Metadata response."""
        self._gateway.turns.begin(topics.names_in(frame), self._on_names, self._fail_connection)

    def _on_names(self, names: Sequence[topics.NamedTopic]) -> None:
        if self.state is not State.CANCELLED:
            self._do(self._take_names(names), self._on_topics_resolved)

    def _take_names(self, names: Sequence[topics.NamedTopic]) -> Slices[dict[str | UUID, int]]:
        errors: dict[str | UUID, int] = {}
        for number, found in enumerate(names, 1):
            if number % SLICE == 0:
                yield
            if found.code or found.name is None:
                if found.name is not None:
                    self._connection.topics.drop(found.name)
                errors[found.name or found.topic_id] = found.code or UNKNOWN_TOPIC_ID
            else:
                self._connection.topics.put(found.name, found.topic_id)
        return errors

    def _on_topics_resolved(self, errors: dict[str | UUID, int]) -> None:
        """Continue when the names and ids of the topics are known.

        Args:
            errors: Kafka's error codes of topics that the broker does not know, by name or id.
        """
        if self.state is not State.CANCELLED:
            self._do(self._unread_logs(), partial(self._read_and_judge, errors))

    def _unread_logs(self) -> Slices[tuple[list[UUID], bool]]:
        """Return the topics whose settings, and whether producers' state, are to be read first."""
        for number, (_, topic) in enumerate(self._topics, 1):
            if number % SLICE == 0:
                yield
            if topic.name is not None and self._needs_topic_id(topic.name):
                known = cached_topic_id(topic.name, self._connection)
                if known is not None:
                    self._ids[topic.name] = known
        by_id = (topic.topic_id for _, topic in self._topics)
        new = self._gateway.topic_configs.unknown(filter(None, (*self._ids.values(), *by_id)))
        if self._gateway.shared_producers is None:
            return new, False
        looked_at = self._unknown_producers(modes_are_known=not new)
        for number, found in enumerate(looked_at, 1):
            if found is not None:
                return new, True
            if number % SLICE == 0:
                yield
        return new, False

    def _read_and_judge(
        self, errors: dict[str | UUID, int], unread: tuple[list[UUID], bool]
    ) -> None:
        new, producers = unread
        if new or producers:
            self._reading = self._gateway.run(
                self._read_logs_and_judge(new, errors, producers=producers)
            )
        else:
            self._judge(errors)

    def _unknown_producers(self, *, modes_are_known: bool) -> Iterator[Position | None]:
        """Return the batches whose producers may have newer state in other gateways.

        Args:
            modes_are_known: Whether the topics' own settings have been read.

        Yields:
            For each topic and batch None, or its position if it is one of these.
        """
        for t, topic in self._topics:
            name = topic.name
            if name is None and topic.topic_id is not None:
                name = self._connection.topics.name(topic.topic_id)
            yield None
            if name is None or not (
                self._is_intercepted(name)
                or self._may_be_quarantined(topic, name, modes_are_known=modes_are_known)
            ):
                continue
            if modes_are_known and self._is_only_observed(t, topic, name):
                continue
            for i in range(len(topic.partitions)):
                yield (t, i) if self._intercepted.unknown_producers((t, i), name) else None

    def _may_be_quarantined(self, topic: TopicData, name: str, *, modes_are_known: bool) -> bool:
        """Return whether bad records of a topic may become dead letters by its own settings."""
        configs, plan = self._gateway.topic_configs, self._gateway.policies.plan
        if not configs.are_stored:
            return False
        if not modes_are_known:
            return plan.allows_key(MODE) or plan.allows_key(POLICIES)
        try:
            own = configs.of(name, topic.topic_id or self._ids.get(name, NO_ID))
        except UnreadableTopicConfigsError:
            return False
        found = plan.for_topic(name, own) if own else None
        return found is not None and found.quarantines

    def _is_only_observed(self, t: int, topic: TopicData, name: str) -> bool:
        """Return whether a topic's batches are forwarded as they are (`penstock.mode`)."""
        topic_id = topic.topic_id or self._ids.get(name, NO_ID)
        try:
            own = self._gateway.topic_configs.of(name, topic_id)
        except UnreadableTopicConfigsError:
            return False
        plan = self._gateway.policies.plan.for_topic(name, own)
        is_observed = plan is not None and plan.waited_for is None
        return is_observed and not self._had_interceptors(t, topic, name)

    async def _read_logs_and_judge(
        self, new: Sequence[UUID], errors: dict[str | UUID, int], *, producers: bool
    ) -> None:
        """Read the stored state of topics and producers that are new here, then judge."""
        try:
            await self._read_logs(new, producers=producers)
            self._judge(errors)
        except Exception as error:
            self._fail_connection(error)

    async def _read_logs(self, new: Sequence[UUID], *, producers: bool) -> None:
        configs, shared = self._gateway.topic_configs, self._gateway.shared_producers
        if new:
            try:
                await configs.read_to_end()
            except CompactedTopicError as error:
                self._unread = frozenset(new)
                log.error(
                    "topics cannot be judged: their settings are not known", reason=str(error)
                )
            else:
                configs.see(new)
        if producers and shared is not None:
            try:
                await shared.read_to_end()
            except CompactedTopicError:
                unknown = self._unknown_producers(modes_are_known=not self._unread)
                for position in filter(None, unknown):
                    self.responses[position] = PartitionResponse(
                        REQUEST_TIMED_OUT, _PRODUCER_STATE_NOT_READ
                    )

    def _judge(self, errors: dict[str | UUID, int]) -> None:
        self._policies = self._gateway.policies  # one set of policies for the whole request
        self._undecided = 1  # until all have been submitted: a verdict may be there at once
        steps = self._submit_all(errors)
        before, self._before = self._before, None
        if self._is_long or (before is not None and not before.done()):
            if not self._is_long:
                self._submitted = asyncio.get_running_loop().create_future()
                self._connection.submitting = self._submitted
            self._reading = self._gateway.run(self._submit_in_slices(steps, before))
            return
        for _ in steps:
            pass
        self._verdict_received()

    async def _submit_in_slices(
        self, steps: Iterator[None], before: asyncio.Future[None] | None
    ) -> None:
        """Submit the batches of a large request, and let others have their turn meanwhile.

        Args:
            steps: Submits them.
            before: Submits those of a request before this one: a partition's keep their order.
        """
        try:
            if before is not None:
                await asyncio.wait([before])
            counted = self._gateway.turns.steps(SLICE)
            for _ in steps:
                await counted.step()
            self._let_others_submit()
            self._verdict_received()
        except Exception as error:
            self._fail_connection(error)

    def _let_others_submit(self) -> None:
        """Let what waits for it be submitted."""
        if self._submitted is not None and not self._submitted.done():
            self._submitted.set_result(None)

    def _submit_all(self, errors: dict[str | UUID, int]) -> Iterator[None]:
        """Submit all batches that are to be judged; yield after each topic and each of them."""
        for t, topic in self._topics:
            identity = self._identify(t, topic, errors)
            plan = None if identity is None else self._plan(t, topic, *identity)
            if identity is not None and plan is not None:
                if plan.unusable:
                    self._cannot_be_judged(t, topic, plan)
                else:
                    yield from self._submit(t, topic, plan, identity[1])
            yield

    def _identify(
        self, t: int, topic: TopicData, errors: dict[str | UUID, int]
    ) -> tuple[str, UUID] | None:
        """Return the name and id of a topic; None if its response is an error."""
        name, topic_id = topic.name, topic.topic_id
        if topic_id is not None:
            name = self._connection.topics.name(topic_id) if name is None else name
            if name is None or topic_id in errors:
                self._fail_topic(t, topic, errors.get(topic_id, UNKNOWN_TOPIC_ID))
                return None
            return name, topic_id
        name = name or ""
        if not self._needs_topic_id(name):
            return name, NO_ID
        topic_id = self._ids.get(name)
        if topic_id is None:
            self._fail_topic(t, topic, errors.get(name, UNKNOWN_TOPIC_OR_PARTITION))
            return None
        return name, topic_id

    def _plan(self, t: int, topic: TopicData, name: str, topic_id: UUID) -> TopicPlan | None:
        """Return the plan of a topic; None if it has no policy, or its response is an error."""
        own = self._topic_configs(t, topic, name, topic_id)
        if own is None:
            return None
        plan = self._policies.plan.for_topic(name, own)
        if plan is not None:
            plan = self._waited_for(plan, topic_id, topic)
        if plan is not None and plan.quarantines:
            if not self._gateway.keeps_decisions:
                self._not_open(t, topic)
                return None
            self._quarantined.add(name)
        if plan is None and name and self._had_interceptors(t, topic, name):
            return TopicPlan(topic=name, settings=self._policies.plan.merged(name, own))
        if plan is None:
            for i in range(len(topic.partitions)):
                self._intercepted.leave((t, i))  # it loses nothing
        return plan

    def _waited_for(self, plan: TopicPlan, topic_id: UUID, topic: TopicData) -> TopicPlan | None:
        """Return the policies whose verdict is waited for; have the others observe."""
        if plan.observed is not None:
            observe(plan.observed, topic_id, topic, self.request, self._connection)
        if plan.waited_for is None:
            self._observed.add(plan.topic)
        return plan.waited_for

    def _not_open(self, t: int, topic: TopicData) -> None:
        """Have the batches come again when it is kept which records are not stored."""
        self._gateway.open_decisions()
        for i in range(len(topic.partitions)):
            self.responses[t, i] = PartitionResponse(REQUEST_TIMED_OUT, _NOT_OPEN)

    def _had_interceptors(self, t: int, topic: TopicData, name: str) -> bool:
        """Return whether sequence numbers may have to be changed for what was dropped before."""
        return self._gateway.producers.has_topic(name) or any(
            self._intercepted.follows_undecided((t, i)) for i in range(len(topic.partitions))
        )

    def _topic_configs(
        self, t: int, topic: TopicData, name: str, topic_id: UUID
    ) -> Mapping[str, str] | None:
        """Return the topic configs of a topic; None if its response is an error."""
        configs = self._gateway.topic_configs
        if is_for_gateways(name, self._gateway):
            self._fail_topic(t, topic, INVALID_TOPIC_EXCEPTION)
        elif topic_id in self._unread:
            self._fail_topic(t, topic, NOT_LEADER_OR_FOLLOWER)
        else:
            try:
                return configs.of(name, topic_id)
            except UnreadableTopicConfigsError as error:
                self._cannot_be_judged(t, topic, TopicPlan(topic=name, unusable=str(error)))
        return None

    def _cannot_be_judged(self, t: int, topic: TopicData, plan: TopicPlan) -> None:
        names = ", ".join(plan.policies) or "of this topic"
        verdict = failed(names, f"cannot be asked: {plan.unusable}")
        for i in range(len(topic.partitions)):
            self._refuse((t, i), plan.topic, verdict)

    def _submit(self, t: int, topic: TopicData, plan: TopicPlan, topic_id: UUID) -> Iterator[None]:
        intercepted = (
            bool(plan.interceptors)
            or plan.quarantines
            or self._had_interceptors(t, topic, plan.topic)
        )
        known_id = topic_id if topic_id != NO_ID else None
        number = self._connection.number
        client = number if self.expects_response else without_response(number)
        sender = sender_of(self.request, self._connection)
        for i, partition in enumerate(topic.partitions):
            if (t, i) in self.responses:
                continue
            if partition.number < 0:
                self.responses[t, i] = PartitionResponse(UNKNOWN_TOPIC_OR_PARTITION)
                continue
            dropped_before: Sequence[int] = ()
            quarantined_before: Sequence[int] = ()
            if plan.quarantines:
                self._store_letters_of((t, i), plan, partition.number)
            if intercepted:
                before = self._intercepted.expect(
                    (t, i), plan.topic, known_id, self.request, has_policies=bool(plan.policies)
                )
                if before is not None:
                    self._again.add((t, i))
                    if before.quarantined:
                        self._store_letters_of((t, i), plan, partition.number)
                    if before.is_decided:
                        continue  # a retry: it was decided when it was received first
                    dropped_before = before.dropped_again
                    quarantined_before = before.quarantined
            else:
                self._intercepted.leave((t, i))  # it loses nothing
            if not plan.policies and not dropped_before:
                continue
            self._undecided += 1
            self._policies.submit(
                plan,
                partition.number,
                topic_id,
                self.version,
                self.request.records(partition),
                partial(self._on_verdict, (t, i), plan),
                timeout_ms=self.request.timeout_ms,
                dropped_before=dropped_before,
                quarantined_before=quarantined_before,
                client=client,
                sender=sender,
            )
            yield

    def _store_letters_of(self, position: Position, plan: TopicPlan, partition: int) -> None:
        to = DeadLetterTopic(
            plan.dead_letter_topic, plan.topic, partition, plan.dead_letter_replicas
        )
        self._intercepted.letters[position] = partial(self._gateway.dead_letters.store, to)

    def _fail_topic(self, t: int, topic: TopicData, code: int) -> None:
        for i in range(len(topic.partitions)):
            self.responses[t, i] = PartitionResponse(code)

    def _on_verdict(self, position: Position, plan: TopicPlan, verdict: Verdict) -> None:
        if self.state is State.CANCELLED:
            return
        try:
            self._apply_verdict(position, plan, verdict)
        except Exception as error:
            self._fail_connection(error)

    def _fail_connection(self, error: Exception) -> None:
        """Close the connection after an error of the gateway; the client retries."""
        log.error("closing a connection after an error of the gateway", exc_info=error)
        self._connection.fail()

    def _apply_verdict(self, position: Position, plan: TopicPlan, verdict: Verdict) -> None:
        if plan.quarantines and position not in self._again:
            verdict = self._within_ratio(position, plan, verdict)
        verdict = self._intercepted.judged(position, plan.topic, self.request, verdict)
        if verdict.outcome is not Outcome.ACCEPTED:
            self._refuse(position, plan.topic, verdict)
        elif verdict.replacement is not None and verdict.replacement.letters:
            bad = [one for one in verdict.diverted if one.verdict.outcome is Outcome.QUARANTINED]
            self._with_letters[position] = plan.topic, bad[0] if bad else None
        if (
            verdict.outcome is Outcome.ACCEPTED
            and plan.policies
            and (self._gateway.counts is not None or verdict.diverted)
        ):
            self._accepted[position] = plan, verdict
        self._verdict_received()

    def _within_ratio(self, position: Position, plan: TopicPlan, verdict: Verdict) -> Verdict:
        """Refuse a batch with bad records where too many of the topic's are bad."""
        if verdict.outcome is not Outcome.ACCEPTED:
            return verdict
        t, i = position
        data = self.request.records(self.request.topics[t].partitions[i])
        bad = [one for one in verdict.diverted if one.verdict.outcome is Outcome.QUARANTINED]
        share = self._gateway.bad_shares.add(
            plan.topic, sum(one.count for one in bad), record_count(data)
        )
        if not bad or share <= plan.quarantine_max_ratio:
            return verdict
        refusal = bad[0].verdict
        text = (
            f"{share:.1%} of the records of topic {plan.topic} were bad in the last minute, more "
            f"than {QUARANTINE_MAX_RATIO} ({plan.quarantine_max_ratio:g}) lets into quarantine: "
            f"{refusal.message}"
        )
        return replace(refusal, outcome=Outcome.REFUSED, message=bounded(text))

    def _refuse(self, position: Position, topic: str, verdict: Verdict) -> None:
        self.responses[position] = PartitionResponse(
            verdict.code,
            verdict.message,
            [(error.index, error.message) for error in verdict.record_errors],
        )
        t, i = position
        partition = self.request.topics[t].partitions[i]
        data = self.request.records(partition)
        if self._gateway.counts is not None:
            self._gateway.counts.refused(topic, data, verdict)
        records = min(record_count(data), self._gateway.decompressed_batch_max_records)
        self._report(position, topic, verdict, records)

    def _report(
        self,
        position: Position,
        topic: str,
        verdict: Verdict,
        records: int,
        dead_letter_topic: str | None = None,
    ) -> None:
        t, i = position
        self._gateway.refused(
            Refused(
                topic,
                self.request.topics[t].partitions[i].number,
                self.request.client_id,
                verdict,
                principal=self._connection.authentication.principal,
                address=self._connection.address,
                records=records,
                dead_letter_topic=dead_letter_topic,
            )
        )

    def _verdict_received(self) -> None:
        self._undecided -= 1
        if not self._undecided:
            self._check_rights()

    def _check_rights(self) -> None:
        """Check that the client may write to the topics whose dead letters are to be stored."""
        if not self._with_letters:
            self._check_sizes()
            return
        rights, client = self._gateway.write_rights, self._client
        codes = {name: rights.code(client, name) for name, _ in self._with_letters.values()}
        unknown = {name for name, code in codes.items() if code is None}
        if unknown:
            self._connection.send_request(
                partial(topics.write_rights_request, names=unknown),
                partial(self._on_rights, codes),
            )
            return
        self._forbid(codes)

    def _on_rights(self, codes: dict[str, int | None], frame: bytes) -> None:
        """Handle the Metadata response, which is about the topics whose code is not known."""
        if self.state is State.CANCELLED:
            return
        found = topics.write_rights_response(frame)
        for name in [name for name, code in codes.items() if code is None]:
            codes[name] = code = found.get(name, UNKNOWN_TOPIC_OR_PARTITION)
            if code not in RETRIABLE:
                self._gateway.write_rights.put(self._client, name, code)
        self._forbid(codes)

    def _forbid(self, codes: Mapping[str, int | None]) -> None:
        for position, (name, _) in self._with_letters.items():
            code = codes[name]
            if code:
                self.responses[position] = PartitionResponse(code)
        self._check_sizes()

    @property
    def _client(self) -> tuple[int, str | None]:
        return self._connection.number, self._connection.authentication.principal

    def _check_sizes(self) -> None:
        """Check batches that interceptors enlarged against `max.message.bytes` of their topics."""
        if not self._intercepted:
            self._finish()
            return
        grown = {
            position: grown
            for position, grown in self._intercepted.grown().items()
            if position not in self.responses
        }
        unknown = {
            topic
            for topic, _ in grown.values()
            if self._gateway.max_message_bytes.is_unknown(topic)
        }
        if unknown:
            self._connection.send_request(
                partial(topics.max_message_bytes_request, names=unknown),
                partial(self._on_max_message_bytes, unknown),
            )
            return
        for position, (topic, size) in grown.items():
            max_bytes = self._gateway.max_message_bytes.get(topic)
            if max_bytes is not None and size > max_bytes:
                text = (
                    f"The batch has {size} bytes after its interceptors, or with marks, more than "
                    f"the {max_bytes} of max.message.bytes of topic {topic}"
                )
                self._refuse(position, topic, refused(MESSAGE_TOO_LARGE, text, ""))
        self._finish()

    def _on_max_message_bytes(self, requested: set[str], frame: bytes) -> None:
        """Handle the DescribeConfigs response."""
        if self.state is State.CANCELLED:
            return
        found = topics.max_message_bytes_response(frame)
        for topic in requested:
            self._gateway.max_message_bytes.put(topic, found.get(topic))
        self._check_sizes()

    def _finish(self) -> None:
        self._count_accepted(self._gateway.counts)
        if self.responses and self._policies.whole_request:
            self._refuse_all()
        self._progress = Progress.JUDGED
        self._connection.advance()

    def _count_accepted(self, counts: GatewayCounts | None) -> None:
        """Count what policies accepted, and was not refused since for its size.

        Report the records in it that policies object to.
        """
        for (t, i), (plan, verdict) in self._accepted.items():
            if (t, i) in self.responses:
                continue
            partition = self.request.topics[t].partitions[i]
            if counts is not None:
                counts.accepted(plan, self.request.records(partition), verdict)
            for one in verdict.diverted:
                is_dead = one.verdict.outcome is Outcome.QUARANTINED
                to = plan.dead_letter_topic if is_dead else None
                self._report((t, i), plan.topic, one.verdict, one.count, to)
        self._accepted.clear()

    def _refuse_all(self) -> None:
        """Refuse the other partitions of a request (`produce.rejection.scope=request`).

        If all errors are retriable, the other partitions get a retriable error, too.
        """
        is_final = any(one.code not in RETRIABLE for one in self.responses.values())
        response = (
            PartitionResponse(INVALID_RECORD, _OTHER_PARTITION_REFUSED)
            if is_final
            else PartitionResponse(REQUEST_TIMED_OUT, _OTHER_PARTITION_RETRIED)
        )
        self._respond_to_others(response)

    def _respond_to_others(self, response: PartitionResponse) -> None:
        """Set the response of all partitions that have none, and are not stored already."""
        for t, topic in enumerate(self.request.topics):
            for i in range(len(topic.partitions)):
                if not self._intercepted.is_stored((t, i)):
                    self.responses.setdefault((t, i), response)

    def decide(self, *, is_next: bool) -> bool:
        """Decide what is sent to the broker.

        The request is ready when the decision has also been written to the producer state.
        """
        if self._progress in {Progress.JUDGING, Progress.FETCHING_STATE}:
            return False
        if self._is_deciding:
            self._is_asked_again = True
            return False
        if self._progress is not Progress.DECIDED:
            self._is_deciding, self._is_asked_again = True, False
            self._do(self._decide(is_next=is_next), self._on_decided)
        if self._progress is not Progress.DECIDED:
            return False
        if not self._unwritten:
            self._be_ready()
        return True

    def _be_ready(self) -> None:
        """Report the batches whose dead letters their topic does not take; be ready to be sent."""
        self.transition_to(State.READY)
        if not self._with_letters:
            return
        for position in self._intercepted.with_refused_letters:
            topic, bad = self._with_letters.get(position, ("", None))
            if bad is not None:
                message = self.responses[position].message
                verdict = replace(bad.verdict, outcome=Outcome.REFUSED, message=message)
                self._report(position, topic, verdict, bad.count)

    def _on_decided(self, is_decided: bool) -> None:
        self._is_deciding = False
        if is_decided:
            self._progress = Progress.DECIDED
        if self._work is not None and (is_decided or self._is_asked_again):
            self._work = None
            self._connection.advance()  # `decide` has returned meanwhile

    def _decide(self, *, is_next: bool) -> Slices[bool]:
        """Decide; return whether it is decided."""
        if not (yield from self._postponed_are_checked(is_next=is_next)):
            return False
        yield from self._hold_back()
        if self.responses:
            yield from self._intercepted.on_early_responses(
                self.responses, self.request, self._intercepted_name
            )
        if self._intercepted:
            if not (yield from self._last_sequences_are_known(is_next=is_next)):
                return False
            to_be_written = yield from self._intercepted.decide(
                self.responses,
                whole_request=self._policies.whole_request,
                done=self._on_written,
            )
            self._unwritten += to_be_written  # some may be written already
        else:
            self._intercepted.depart()
        if self.responses and self._policies.whole_request:
            self._respond_to_others(PartitionResponse(REQUEST_TIMED_OUT, _OTHER_PARTITION_RETRIED))
        yield from self._note_answers()
        if self.responses and not self._intercepted:
            self._rewritten = yield from self.request.rewrite_in_slices(self.responses.keys(), {})
        return True

    def _last_sequences_are_known(self, *, is_next: bool) -> Slices[bool]:
        """Return whether nothing has to be known of the producers of intercepted batches.

        Otherwise, when the request is the next one, the broker is asked.
        """
        if self._progress is not Progress.JUDGED:
            return True
        unknown = yield from self._intercepted.unknown_last_sequences(self.responses)
        if unknown and not is_next:
            return False
        if unknown and (
            self._connection.may_support_describe_producers or self._gateway.shared_producers
        ):
            self._fetch_last_sequences(unknown, partial(self._on_last_sequences, unknown))
            return False
        if unknown:
            self._intercepted.on_last_sequences(unknown, {}, self.responses)
        return True

    def _postponed_are_checked(self, *, is_next: bool) -> Slices[bool]:
        """Return whether it is known what has to come again before the batches.

        Otherwise, when the request is the next one, the broker is asked what it has stored of them.
        """
        postponed, number = self._gateway.postponed, self._connection.number
        if self._checked or not postponed or not self._connection.may_support_describe_producers:
            return True
        early: dict[Position, SentBy] = {}
        for steps, sent in enumerate(self._sent(), 1):
            if steps % SLICE == 0:
                yield
            if sent is None:
                continue
            position, sent_by, by, _ = sent
            if position not in self.responses and postponed.may_be_past(sent_by, by, number):
                early[position] = sent_by
        if early and is_next:
            self._check_postponed(early)
        return not early

    def _check_postponed(self, early: Mapping[Position, SentBy]) -> None:
        self._checked = True
        wanted: dict[str, dict[int, int]] = {}
        for sent_by in early.values():
            wanted.setdefault(sent_by.topic, {})[sent_by.partition] = sent_by.producer_id

        def on_found(found: dict[tuple[str, int], LastSequence]) -> None:
            for position, sent_by in early.items():
                last = found.get((sent_by.topic, sent_by.partition))
                self._gateway.postponed.on_last_sequence(sent_by, last)
                if last is not None and last.code in RETRIABLE:
                    self.responses[position] = PartitionResponse(last.code)
            self._progress = Progress.JUDGED
            self._connection.advance()

        self._fetch_last_sequences(wanted, on_found)

    def _hold_back(self) -> Slices[None]:
        """Have what was sent after a batch that has to come again come again, too."""
        if not self._gateway.postponed:
            return
        before, number = len(self.responses), self._connection.number
        for steps, sent in enumerate(self._sent(), 1):
            if steps % SLICE == 0:
                yield
            if sent is None:
                continue
            position, sent_by, by, _ = sent
            if position not in self.responses and self._gateway.postponed.overtakes(
                sent_by, by, number
            ):
                self.responses[position] = PartitionResponse(REQUEST_TIMED_OUT, TEXT)
        if len(self.responses) > before and self._policies.whole_request:
            self._refuse_all()

    def _note_answers(self) -> Slices[None]:
        """Record which batches have to come again before what is sent after them."""
        postponed, number = self._gateway.postponed, self._connection.number
        comes_again = any(one.code in RETRIABLE for one in self.responses.values())
        if not (comes_again or postponed) or not self.expects_response:
            return
        for steps, sent in enumerate(self._sent(), 1):
            if steps % SLICE == 0:
                yield
            if sent is None:
                continue
            position, sent_by, by, data = sent
            response = self.responses.get(position)
            if response is None or response.code not in RETRIABLE:
                postponed.answered(sent_by, by, number, comes_again=False)
            elif is_intact(data):  # its sequence number may be wrong otherwise
                postponed.answered(sent_by, by, number, comes_again=True)

    def _sent(
        self,
    ) -> Iterator[tuple[Position, SentBy, BatchProducer, bytes | memoryview] | None]:
        """Return the batches of idempotent producers, but for topics with interceptors.

        Yields:
            None for each topic, and each other batch.
        """
        principal = self._connection.authentication.principal or ""
        for t, topic in enumerate(self.request.topics):
            name = topic.name
            if name is None and topic.topic_id is not None:
                name = self._connection.topics.name(topic.topic_id)
            yield None
            if name is None or not is_topic_name(name) or self._is_intercepted(name):
                continue
            for i, partition in enumerate(topic.partitions):
                data = self.request.records(partition)
                by = read_producer(data)
                if by is not None and by.producer_id >= 0:
                    sent_by = SentBy(name, partition.number, by.producer_id, principal)
                    yield (t, i), sent_by, by, data
                else:
                    yield None

    def _on_written(self) -> None:
        self._unwritten -= 1
        if self._unwritten or self._is_deciding or self.state is State.CANCELLED:
            return
        try:
            self._be_ready()
            self._connection.advance()
        except Exception as error:
            self._fail_connection(error)

    def _fetch_last_sequences(
        self,
        unknown: dict[str, dict[int, int]],
        on_found: Callable[[dict[tuple[str, int], LastSequence]], None],
    ) -> None:
        """Request the last sequence numbers of producers from the broker.

        Args:
            unknown: The producer ids, by topic and partition.
            on_found: Called with the last sequence numbers; empty if the broker is too old.
        """
        self._progress = Progress.FETCHING_STATE

        errors: dict[tuple[str, int], int] = {}

        def on_producers(frame: bytes | None) -> None:
            if self.state is State.CANCELLED:
                return
            found = {} if frame is None else producers.response(frame, partitions=unknown)
            found |= {partition: LastSequence(code) for partition, code in errors.items()}
            on_found(found)

        def on_leaders(frame: bytes) -> None:
            errors.update(producers.leader_errors(frame))

        def on_support(is_supported: bool) -> None:
            if is_supported:
                self._connection.send_request(
                    partial(producers.leader_request, partitions=unknown), on_leaders
                )
                self._connection.send_request(
                    partial(producers.request, partitions=unknown), on_producers
                )
            else:
                on_producers(None)

        self._connection.check_describe_producers_support(on_support)

    def _on_last_sequences(
        self, unknown: dict[str, dict[int, int]], found: dict[tuple[str, int], LastSequence]
    ) -> None:
        shared = self._gateway.shared_producers
        if shared is None:
            self._apply_last_sequences(unknown, found)
        else:
            self._reading = self._gateway.run(self._read_log_and_continue(shared, unknown, found))

    def _apply_last_sequences(
        self, unknown: dict[str, dict[int, int]], found: dict[tuple[str, int], LastSequence]
    ) -> None:
        self._intercepted.on_last_sequences(unknown, found, self.responses)
        self._progress = Progress.STATE_FETCHED
        self._connection.advance()

    async def _read_log_and_continue(
        self,
        shared: ClusterStore,
        unknown: dict[str, dict[int, int]],
        found: dict[tuple[str, int], LastSequence],
    ) -> None:
        """Read what other gateways have written about the batches that the broker has stored.

        They write before they send, so all of it is in the log by now.
        """
        try:
            try:
                await shared.read_to_end()
            except CompactedTopicError:
                found = {
                    (topic, number): LastSequence(REQUEST_TIMED_OUT)
                    for topic, numbers in unknown.items()
                    for number in numbers
                }
            self._apply_last_sequences(unknown, found)
        except Exception as error:
            self._fail_connection(error)

    def outgoing(self) -> Buffers | None:
        """Return what is sent to the broker: the request, the rest of it, or None."""
        request = self.request
        if not self._intercepted:
            if not self.responses:
                return [request.frame]
            return self._merge_response_of(self._rewritten) or None
        replaced = self._intercepted.send(
            self.responses, acks=request.acks, whole_request=self._policies.whole_request
        )
        if self.responses and self._policies.whole_request:
            self._respond_to_others(PartitionResponse(REQUEST_TIMED_OUT, _OTHER_PARTITION_RETRIED))
            finish(self._note_answers())
        left_out = self.responses.keys() | self._intercepted.due
        outgoing: Sequence[bytes | memoryview] = [request.frame]
        if left_out or replaced:
            outgoing = request.rewrite(left_out, replaced)
        if left_out or self._intercepted.needs_response:
            self._merge_response_of(outgoing)
        return outgoing or None

    def _merge_response_of(
        self, outgoing: Sequence[bytes | memoryview]
    ) -> Sequence[bytes | memoryview]:
        """Merge the broker's response, if there will be one, with the local ones."""
        if outgoing and self.request.acks:
            self.transform = self._merge
        return outgoing

    def cancel(self) -> None:
        """Cancel the request: it is not sent, and later verdicts are ignored."""
        super().cancel()
        if self._work is not None:
            self._work.cancel()
        if self._reading is not None:
            self._reading.cancel()
        self._let_others_submit()
        self._intercepted.cancel()

    def local_response(self) -> Buffers | Slices[Buffers]:
        """Return the response to a request of which nothing was sent to the broker."""
        self._intercepted.acknowledge(self.responses)
        return self._response(None)

    def _response(self, broker: ProduceResponse | None) -> Buffers | Slices[Buffers]:
        response = self.request.response(self.responses, broker)
        return response if self._is_long else finish(response)

    def _merge(self, frame: bytes) -> Buffers | Slices[Buffers]:
        merged = self._merge_in_slices(frame)
        return merged if self._is_long else finish(merged)

    def _merge_in_slices(self, frame: bytes) -> Slices[Buffers]:
        if self._readdress is not None:
            readdressed = self._readdress(frame)
            if isinstance(readdressed, Generator):
                readdressed = yield from readdressed
            frame = b"".join(readdressed)
        response = yield from read_response(frame, self.version)
        yield from self._intercepted.on_response(response)
        self._intercepted.acknowledge(self.responses)
        if not self.responses and not response.is_changed:
            return [frame]
        return (yield from self.request.response(self.responses, response))
