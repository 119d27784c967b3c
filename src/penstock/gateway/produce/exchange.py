"""Produce (API key 0), versions 3 to 13.

Behaviour: each partition with a policy is judged by itself. What is accepted goes on as the
bytes it came in; when nothing is refused, so does the whole request. Refused partitions are
taken out and answered here, merged into the broker's answer in the request's order. What
interceptors made of a batch goes on in its place (`intercepted_batches`). Topic ids
(version 13, and KIP-940's metadata) are asked for over the client's own connection, so the
cluster's ACLs decide what it may learn; a topic that the broker does not know is answered
with the broker's own error.

Not done here: authorisation (the broker's, after the verdict), quotas (the broker's).
"""

from __future__ import annotations

from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Final

import structlog

from penstock.cluster.compacted_topic import CompactedTopicError
from penstock.engine.plan import TopicPlan
from penstock.engine.verdict import (
    Outcome,
    failed,
    refused,
)
from penstock.error_codes import INVALID_RECORD, MESSAGE_TOO_LARGE
from penstock.gateway.exchange import Held, State
from penstock.gateway.policy_set import without_response
from penstock.gateway.produce.intercepted_batches import InterceptedBatches
from penstock.gateway.refusal_log import Refused
from penstock.topic_configs.index import UnreadableSettingsError
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
from penstock.wire.produce import ENTRY_BYTES, Answer, ProduceResponse
from penstock.wire.producers import LastSequence
from penstock.wire.transactions import Transaction

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterator, Mapping, Sequence
    from uuid import UUID

    from penstock.engine.verdict import Verdict
    from penstock.gateway.exchange import Buffers, Connection, Exchange
    from penstock.gateway.host import Host
    from penstock.gateway.policy_set import PolicySet
    from penstock.gateway.produce.producer_state.cluster import ClusterStore
    from penstock.wire.produce import ProduceRequest, Topic

    Place = tuple[int, int]

log = structlog.get_logger()

_TRANSACTIONS_2_FROM: Final = 12
_ACKS: Final = frozenset({-1, 0, 1})
"""What a broker takes; it looks at this first, and stores nothing otherwise."""
_INNOCENT: Final = (
    "Another partition of the request was refused, and produce.rejection.scope is request"
)
_TOLD_TO_RETRY: Final = "Another partition of the request has to come again, and so has this one"
_NOT_READ: Final = (
    "It is not known yet which of this producer's records were dropped by other gateways"
)


class Progress(Enum):
    """How far a request has come before it goes to the broker, in this order."""

    JUDGING = "judging"
    JUDGED = "judged"
    ASKING = "asking"
    """The broker is asked how far a producer has come, where that is not known here."""
    ASKED = "asked"
    DECIDED = "decided"


class ProduceExchange(Held):
    """One Produce request from its arrival to its answer."""

    __slots__ = ("_connection", "_host", "_ids", "_intercepted", "_policies", "_progress",
                 "_readdress", "_reading", "_topics", "_undecided", "_unread", "_unwritten",
                 "answers", "request")  # fmt: skip

    is_judged = True

    def __init__(self, request: ProduceRequest, host: Host, arrived: Exchange) -> None:
        super().__init__(arrived, len(request.frame) + ENTRY_BYTES * request.entries)
        self.request = request
        self.expects_response = request.acks != 0
        self.answers: dict[Place, Answer] = {}
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
        self._intercepted = InterceptedBatches(host.producers, self._policies.idempotence)

    @property
    def policies(self) -> PolicySet:
        """The policies that judge it."""
        return self._policies

    @property
    def closes_connection(self) -> bool:
        """Whether an error has to be told by closing the connection."""
        return not self.expects_response and any(answer.code for answer in self.answers.values())

    def begin(self, connection: Connection) -> None:
        """Have the request judged; `decide` is to be called from then on."""
        self._connection = connection
        self._intercepted.principal = connection.authentication.principal or ""
        self._look_at_names()
        self._arrive()
        names: set[str] = set()
        ids: set[UUID] = set()
        for _, topic in self._topics:
            if topic.topic_id is not None:
                if connection.topics.name(topic.topic_id) is None:
                    ids.add(topic.topic_id)
            elif topic.name is not None and self._needs_id(topic.name):
                known = self._known_id(topic.name)
                if known is None:
                    names.add(topic.name)
                else:
                    self._ids[topic.name] = known
        if names or ids:
            connection.ask(partial(topics.request, names=names, ids=ids), self._found)
        elif not self._host.topic_configs.are_kept and self._host.shared_producers is None:
            self._judge({})
        else:
            self._resolved({})

    def _look_at_names(self) -> None:
        """Answer for topics that cannot be, as a broker does; nothing is kept of their names."""
        takes_acks = self.request.acks in _ACKS
        for t, topic in enumerate(self.request.topics):
            if not takes_acks:
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
                        self._intercepted.arrive((t, i), self.request)

    def _is_intercepted(self, name: str) -> bool:
        return self._policies.plan.intercepts(name) or self._host.producers.has_topic(name)

    def _intercepted_name(self, identity: str | UUID) -> str | None:
        """Return a topic's name, by name or id, where it has interceptors."""
        name = identity if isinstance(identity, str) else self._connection.topics.name(identity)
        return name if name is not None and self._is_intercepted(name) else None

    def _needs_id(self, name: str) -> bool:
        # Where topics have settings, a new id is how one that was made anew is told.
        if self._host.topic_configs.are_kept:
            return True
        plan = self._policies.plan.for_topic(name)
        return plan is not None and plan.needs_topic_id

    def _known_id(self, name: str) -> UUID | None:
        since = self._host.topic_configs.changed_at(name)
        return self._connection.topics.topic_id(name, since=since)

    def _found(self, frame: bytes) -> None:
        """Take the broker's answer about topics."""
        if self.state is State.ABANDONED:
            return
        errors: dict[str | UUID, int] = {}
        for found in topics.response(frame):
            if found.code or found.name is None:
                errors[found.name or found.topic_id] = found.code or UNKNOWN_TOPIC_ID
            else:
                self._connection.topics.put(found.name, found.topic_id)
        self._resolved(errors)

    def _resolved(self, errors: dict[str | UUID, int]) -> None:
        """Go on when it is known which topics the request is about."""
        if self.state is State.ABANDONED:
            return
        for _, topic in self._topics:
            if topic.name is not None and self._needs_id(topic.name):
                known = self._known_id(topic.name)
                if known is not None:
                    self._ids[topic.name] = known
        by_id = (topic.topic_id for _, topic in self._topics)
        new = self._host.topic_configs.unknown(filter(None, (*self._ids.values(), *by_id)))
        unknown = self._host.shared_producers is not None and any(self._unknown_producers())
        if new or unknown:
            self._reading = self._host.run(self._read_on(new, errors, producers=unknown))
        else:
            self._judge(errors)

    def _unknown_producers(self) -> Iterator[Place]:
        """Return the batches of whose producers other gateways may know more."""
        for t, topic in self._topics:
            name = topic.name
            if name is None and topic.topic_id is not None:
                name = self._connection.topics.name(topic.topic_id)
            if name is None or not self._is_intercepted(name):
                continue
            for i in range(len(topic.partitions)):
                if self._intercepted.unknown_producers((t, i), name):
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
        configs, shared = self._host.topic_configs, self._host.shared_producers
        if new:
            try:
                await configs.read_on()
            except CompactedTopicError as error:
                self._unread = frozenset(new)
                log.error(
                    "topics cannot be judged: their settings are not known", reason=str(error)
                )
            else:
                configs.see(new)
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
            identity = self._identify(t, topic, errors)
            if identity is None:
                continue
            plan = self._plan(t, topic, *identity)
            if plan is None:
                continue
            if plan.unusable:
                self._cannot_be_judged(t, topic, plan)
                continue
            self._submit(t, topic, plan, identity[1])
        self._settle()

    def _identify(
        self, t: int, topic: Topic, errors: dict[str | UUID, int]
    ) -> tuple[str, UUID] | None:
        """Return a topic's name and id; None where it has been answered with an error."""
        name, topic_id = topic.name, topic.topic_id
        if topic_id is not None:
            name = self._connection.topics.name(topic_id) if name is None else name
            if name is None:
                self._unknown(t, topic, errors.get(topic_id, UNKNOWN_TOPIC_ID))
                return None
            return name, topic_id
        name = name or ""
        if not self._needs_id(name):
            return name, NO_ID
        topic_id = self._ids.get(name)
        if topic_id is None:
            self._unknown(t, topic, errors.get(name, UNKNOWN_TOPIC_OR_PARTITION))
            return None
        return name, topic_id

    def _plan(self, t: int, topic: Topic, name: str, topic_id: UUID) -> TopicPlan | None:
        """Return how a topic is judged; None where it is not, or has been answered."""
        own = self._own_settings(t, topic, name, topic_id)
        if own is None:
            return None
        plan = self._policies.plan.for_topic(name, own)
        if plan is None and name and self._host.producers.has_topic(name):
            return TopicPlan(topic=name)  # it had interceptors before
        return plan

    def _own_settings(
        self, t: int, topic: Topic, name: str, topic_id: UUID
    ) -> Mapping[str, str] | None:
        """Return the keys set on a topic; None where the topic has been answered with an error."""
        configs, shared = self._host.topic_configs, self._host.shared_producers
        if name == configs.topic or (shared is not None and name == shared.topic):
            self._unknown(t, topic, INVALID_TOPIC_EXCEPTION)
        elif topic_id in self._unread:
            self._unknown(t, topic, NOT_LEADER_OR_FOLLOWER)
        else:
            try:
                return configs.of(name, topic_id)
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
        number = self._connection.number
        client = number if self.expects_response else without_response(number)
        for i, partition in enumerate(topic.partitions):
            if (t, i) in self.answers:
                continue
            if partition.number < 0:
                self.answers[t, i] = Answer(UNKNOWN_TOPIC_OR_PARTITION)
                continue
            dropped_before: Sequence[int] = ()
            if intercepted:
                before = self._intercepted.expect(
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
                client=client,
            )

    def _unknown(self, t: int, topic: Topic, code: int) -> None:
        for i in range(len(topic.partitions)):
            self.answers[t, i] = Answer(code)

    def _decided(self, place: Place, topic: str, verdict: Verdict) -> None:
        if self.state is State.ABANDONED:
            return
        try:
            self._take_verdict(place, topic, verdict)
        except Exception as error:
            self._give_up(error)

    def _give_up(self, error: Exception) -> None:
        """Close the connection after an error of ours: its client tries again."""
        log.error("closing a connection after an error of the gateway", exc_info=error)
        self._connection.fail()

    def _take_verdict(self, place: Place, topic: str, verdict: Verdict) -> None:
        verdict = self._intercepted.judged(place, topic, self.request, verdict)
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
        if not self._intercepted:
            self._finish()
            return
        grown = {
            place: grown
            for place, grown in self._intercepted.grown().items()
            if place not in self.answers
        }
        unknown = {
            topic for topic, _ in grown.values() if self._host.max_message_bytes.is_unknown(topic)
        }
        if unknown:
            self._connection.ask(
                partial(topics.size_request, names=unknown), partial(self._sizes_found, unknown)
            )
            return
        for place, (topic, size) in grown.items():
            most = self._host.max_message_bytes.get(topic)
            if most is not None and size > most:
                text = (
                    f"The batch has {size} bytes after its interceptors, more than the {most} of "
                    f"max.message.bytes of topic {topic}"
                )
                self._refuse(place, topic, refused(MESSAGE_TOO_LARGE, text, ""))
        self._finish()

    def _sizes_found(self, asked: set[str], frame: bytes) -> None:
        if self.state is State.ABANDONED:
            return
        told = topics.size_response(frame)
        for topic in asked:
            self._host.max_message_bytes.put(topic, told.get(topic))
        self._check_sizes()

    def _finish(self) -> None:
        if self.answers and self._policies.whole_request:
            self._refuse_all()
        self._progress = Progress.JUDGED
        self._connection.advance()

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
        """Answer all partitions that have no answer alike, but for what is stored already."""
        for t, topic in enumerate(self.request.topics):
            for i in range(len(topic.partitions)):
                if not self._intercepted.is_stored((t, i)):
                    self.answers.setdefault((t, i), answer)

    def decide(self, *, is_next: bool) -> bool:
        """Decide what becomes of the batches; it is ready when that is kept, too."""
        if self._progress in {Progress.JUDGING, Progress.ASKING}:
            return False
        if self.answers:
            self._intercepted.answered_early(self.answers, self.request, self._intercepted_name)
        if self._intercepted:
            if self._progress is Progress.JUDGED:
                asked = self._intercepted.to_ask(self.answers)
                if asked and not is_next:
                    return False
                if asked and (
                    self._connection.may_describe_producers or self._host.shared_producers
                ):
                    self._ask_broker(asked)
                    return False
                if asked:
                    self._intercepted.told(asked, {}, self.answers)
            self._unwritten = self._intercepted.decide(
                self.answers,
                connection=self._connection.number,
                whole_request=self._policies.whole_request,
                done=self._kept,
            )
        else:
            self._intercepted.depart()
        if self.answers and self._policies.whole_request:
            self._answer_others(Answer(REQUEST_TIMED_OUT, _TOLD_TO_RETRY))
        self._progress = Progress.DECIDED
        if not self._unwritten:
            self.become(State.READY)
        return True

    def _kept(self) -> None:
        self._unwritten -= 1
        if self._unwritten or self.state is State.ABANDONED:
            return
        try:
            self.become(State.READY)
            self._connection.advance()
        except Exception as error:
            self._give_up(error)

    def _ask_broker(self, asked: dict[str, dict[int, int]]) -> None:
        """Ask how far producers have come of whom it is not known here."""
        self._progress = Progress.ASKING

        errors: dict[tuple[str, int], int] = {}

        def told(frame: bytes | None) -> None:
            if self.state is State.ABANDONED:
                return
            found = {} if frame is None else producers.response(frame, partitions=asked)
            found |= {place: LastSequence(code) for place, code in errors.items()}
            shared = self._host.shared_producers
            if shared is None:
                self._take_last_sequences(asked, found)
            else:
                self._reading = self._host.run(self._read_on_and_take(shared, asked, found))

        def led(frame: bytes) -> None:
            errors.update(producers.leader_errors(frame))

        def served(is_served: bool) -> None:
            if is_served:
                self._connection.ask(partial(producers.leader_request, partitions=asked), led)
                self._connection.ask(partial(producers.request, partitions=asked), told)
            else:
                told(None)

        self._connection.find_whether_producers_are_described(served)

    def _take_last_sequences(
        self, asked: dict[str, dict[int, int]], found: dict[tuple[str, int], LastSequence]
    ) -> None:
        self._intercepted.told(asked, found, self.answers)
        self._progress = Progress.ASKED
        self._connection.advance()

    async def _read_on_and_take(
        self,
        shared: ClusterStore,
        asked: dict[str, dict[int, int]],
        found: dict[tuple[str, int], LastSequence],
    ) -> None:
        """Read what other gateways have decided about what the broker has; it is there by now."""
        try:
            found = await self._found_with_log(shared, asked, found)
            self._take_last_sequences(asked, found)
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

    def outgoing(self) -> Buffers | None:
        """Return what goes to the broker: the original, what is left of it, or None."""
        request = self.request
        if not self._intercepted:
            if not self.answers:
                return [request.frame]
            return self._merging(request.changed(self.answers.keys(), {})) or None
        replaced = self._intercepted.send(
            self.answers, acks=request.acks, whole_request=self._policies.whole_request
        )
        if self.answers and self._policies.whole_request:
            self._answer_others(Answer(REQUEST_TIMED_OUT, _TOLD_TO_RETRY))
        left_out = self.answers.keys() | self._intercepted.due
        outgoing: Sequence[bytes | memoryview] = [request.frame]
        if left_out or replaced:
            outgoing = request.changed(left_out, replaced)
        if left_out or self._intercepted.heed_response:
            self._merging(outgoing)
        if request.transactional_id is not None and self.version >= _TRANSACTIONS_2_FROM:
            self._note_transaction(request.transactional_id, sent=bool(outgoing))
        return outgoing or None

    def _merging(self, outgoing: Sequence[bytes | memoryview]) -> Sequence[bytes | memoryview]:
        """Have the broker's answer to what goes out, if one comes, merged with those here."""
        if outgoing and self.request.acks:
            self.transform = self._merge
        return outgoing

    def _note_transaction(self, transactional_id: str, *, sent: bool) -> None:
        by = self._intercepted.producer
        if by is None:
            return
        transaction = Transaction(transactional_id, by.producer_id, by.epoch)
        if sent:
            self._host.transactions.sent(transaction)
            return
        for topic, partition in self._intercepted.dropped_whole(self.answers):
            self._host.transactions.dropped(transaction, topic, partition)

    def abandon(self) -> None:
        """Note that the request goes nowhere: verdicts that still come count for nothing."""
        super().abandon()
        if self._reading is not None:
            self._reading.cancel()
        self._intercepted.abandon()

    def local_response(self) -> Buffers:
        """Answer a request of which nothing went to the broker, when its answer is due."""
        self._intercepted.acknowledge(self.answers)
        return self.request.answer(self.answers, None)

    def _merge(self, frame: bytes) -> Sequence[bytes | memoryview]:
        if self._readdress is not None:
            frame = b"".join(self._readdress(frame))
        response = ProduceResponse(frame, self.version)
        self._intercepted.answered(response)
        self._intercepted.acknowledge(self.answers)
        if not self.answers and not response.is_changed:
            return [frame]
        return self.request.answer(self.answers, response)
