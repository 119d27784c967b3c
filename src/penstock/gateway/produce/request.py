"""A Produce request that is being judged: what all steps of its way work on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

import structlog

from penstock.engine.verdict import reason_of_batch
from penstock.gateway.produce.partition import ProducePartition, ProduceTopic
from penstock.gateway.refusal_log import Refused
from penstock.kafka.records.header import record_count
from penstock.kafka.wire.errors import (
    INVALID_REQUIRED_ACKS,
    RETRIABLE,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from penstock.kafka.wire.names import is_topic_name
from penstock.kafka.wire.requests.produce import VALID_ACKS, PartitionResponse
from penstock.kafka.wire.slices import finish

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Coroutine, Sequence

    from penstock.engine.plans.topic_plan import TopicPlan
    from penstock.engine.verdict import PolicyVerdict
    from penstock.engine.workers.batch_to_judge import EarlyOutcome, EarlyOutcomes
    from penstock.gateway.context.turns import Work
    from penstock.gateway.produce.gateway import ProduceConnection
    from penstock.kafka.wire.requests.produce import ProduceRequest
    from penstock.kafka.wire.slices import Slices

T = TypeVar("T")

log = structlog.get_logger()

SLICE: Final = 250
"""So many batches of a request are worked on in one turn of the event loop."""
_RESPONSES_SLICE: Final = 5000
"""So many responses are collected in one turn, which takes a millisecond."""


def close_after_error(connection: ProduceConnection, error: Exception) -> None:
    """Close a connection after an error of the gateway; the client retries."""
    log.error("closing a connection after an error of the gateway", exc_info=error)
    connection.fail()


class ReceivedRequest:
    """A request, with its topics and partitions.

    Attributes:
        data: The request as the client sent it.
        connection: The client's connection.
        policies: The policies that judge it.
        topics: The topics that have valid names, in order.
        partitions: All partitions, in order.
        answered: The partitions that have a response of the gateway's own, in the order in which
            they got it.
        is_cancelled: Whether the connection is closed.
        early_outcomes: The outcomes of its batches that were judged before Python received it.
    """

    __slots__ = ("_task", "_work", "answered", "connection", "data", "early_outcomes", "gateway",
                 "is_cancelled", "partitions", "policies", "topics")  # fmt: skip

    def __init__(
        self,
        data: ProduceRequest,
        connection: ProduceConnection,
        early_outcomes: EarlyOutcomes | None = None,
    ) -> None:
        self.data = data
        self.early_outcomes = early_outcomes or {}
        self.connection = connection
        self.gateway = connection.gateway
        self.policies = connection.gateway.policies
        self.topics: list[ProduceTopic] = []
        self.partitions: list[ProducePartition] = []
        self.answered: list[ProducePartition] = []
        self.is_cancelled = False
        self._work: Work | None = None
        self._task: asyncio.Task[object] | None = None

    def early_outcome(self, topic: ProduceTopic, partition: int) -> EarlyOutcome | None:
        """Return the outcome of a batch that was judged before; None if it was not."""
        if not self.early_outcomes:
            return None
        topic_id, name = topic.data.topic_id, topic.data.name or ""
        key = name.encode() if topic_id is None else topic_id.bytes
        return self.early_outcomes.get((key, partition))

    # Its topics and partitions

    def read_partitions(self) -> Slices[None]:
        """Fill `topics` and `partitions`; respond to invalid acks and names as a broker does."""
        has_valid_acks = self.data.acks in VALID_ACKS
        steps = 0
        for index, data in enumerate(self.data.topics):
            topic = ProduceTopic(self.data, index, len(self.partitions))
            code = 0
            if not has_valid_acks:
                code = INVALID_REQUIRED_ACKS
            elif data.name is not None and not is_topic_name(data.name):
                code = UNKNOWN_TOPIC_OR_PARTITION
            else:
                self.topics.append(topic)
            for i, part in enumerate(data.partitions):
                partition = ProducePartition(topic, i, part)
                self.partitions.append(partition)
                if code:
                    self.answer(partition, PartitionResponse(code))
                steps += 1
                if steps % SLICE == 0:
                    yield
            steps += 1
            if steps % SLICE == 0:
                yield

    def partitions_of(self, topic: ProduceTopic) -> Sequence[ProducePartition]:
        """Return the partitions of a topic, in order."""
        return self.partitions[topic.first : topic.first + len(topic.data.partitions)]

    def name_of(self, topic: ProduceTopic) -> str | None:
        """Return the name of a topic; None if the broker has not sent it yet."""
        if topic.name is None and topic.topic_id is not None:
            topic.name = self.connection.topics.name(topic.topic_id)
        return topic.name

    def needs_topic_id(self, name: str) -> bool:
        """Return whether a topic's id has to be known before it is judged."""
        # A topic that is deleted and created again is recognized by its new id.
        if self.gateway.topic_configs.are_stored:
            return True
        plan = self.policies.plan.for_topic(name)
        return plan is not None and (plan.needs_topic_id or plan.quarantines)

    def is_intercepted(self, topic: ProduceTopic) -> bool:
        """Return whether batches of a topic may not be sent as they are, as far as is known."""
        name = self.name_of(topic)
        if name is None:
            return False
        if self.gateway.producers.has_topic(name):
            return True
        if topic.plan is not None and topic.plan.quarantines:
            return True
        return not topic.is_observed and self.policies.plan.intercepts(name)

    # Its responses

    def answer(self, partition: ProducePartition, response: PartitionResponse) -> None:
        """Set the gateway's own response of a partition, which is then not sent to the broker."""
        if not partition.is_answered:
            self.answered.append(partition)
        partition.answer(response)

    def answer_topic(self, topic: ProduceTopic, response: PartitionResponse) -> None:
        """Set the same response of all partitions of a topic."""
        for partition in self.partitions_of(topic):
            self.answer(partition, response)

    @property
    def error_code(self) -> int:
        """The first error that the gateway itself answers with; 0 without one."""
        for partition in self.answered:
            if partition.response is not None and partition.response.code:
                return partition.response.code
        return 0

    def is_retried(self, partition: ProducePartition) -> bool:
        """Return whether the gateway's own response has the client send a batch again."""
        return partition.response is not None and partition.response.code in RETRIABLE

    def responses(self) -> Slices[dict[tuple[int, int], PartitionResponse]]:
        """Return the gateway's own responses by position, in slices."""
        responses: dict[tuple[int, int], PartitionResponse] = {}
        for number, partition in enumerate(self.answered, 1):
            assert partition.response is not None
            responses[partition.position] = partition.response
            if number % _RESPONSES_SLICE == 0:
                yield
        return responses

    def refuse(self, partition: ProducePartition, plan: TopicPlan, verdict: PolicyVerdict) -> None:
        """Refuse a batch: respond, count and report it."""
        self.answer(partition, _response_to(plan, verdict))
        data = partition.data
        if self.gateway.counts is not None:
            self.gateway.counts.refused(plan.topic, data, verdict)
        records = min(record_count(data), self.gateway.decompressed_batch_max_records)
        self.report(partition, plan, verdict, records)

    def report(
        self,
        partition: ProducePartition,
        plan: TopicPlan,
        verdict: PolicyVerdict,
        records: int,
        dead_letter_topic: str | None = None,
    ) -> None:
        """Report that policies object to records; in quarantine, with their dead letter topic."""
        self.gateway.refused(
            Refused(
                plan.topic,
                partition.number,
                self.data.client_id,
                verdict,
                principal=self.connection.authentication.principal,
                address=self.connection.address,
                records=records,
                dead_letter_topic=dead_letter_topic,
                plan=plan.digest,
            )
        )

    # The work on it

    @property
    def is_long(self) -> bool:
        """Whether the work on it is done in slices."""
        return self.data.entries > SLICE

    @property
    def took_turns(self) -> bool:
        """Whether the last `do` of this request has returned before the work was done."""
        return self._work is not None

    def do(self, slices: Slices[T], on_done: Callable[[T], None]) -> None:
        """Do a part of the work; of a long request in slices, until the connection is closed."""
        if not self.is_long:
            on_done(finish(slices))
            return
        self._work = None

        def done(result: T) -> None:
            if not self.is_cancelled:
                on_done(result)

        work = self.gateway.turns.begin(slices, done, self.fail)
        if work is not None:
            self._work = work

    def run(self, coroutine: Coroutine[object, object, object]) -> None:
        """Run a coroutine, until the connection is closed."""
        self._task = self.gateway.run(coroutine)

    def fail(self, error: Exception) -> None:
        """Close the connection after an error of the gateway; the client retries."""
        close_after_error(self.connection, error)

    def cancel(self) -> None:
        """Stop: the connection is closed."""
        self.is_cancelled = True
        if self._work is not None:
            self._work.cancel()
        if self._task is not None:
            self._task.cancel()


def _response_to(plan: TopicPlan, verdict: PolicyVerdict) -> PartitionResponse:
    """Return the response about a refused batch (`produce.rejection.reasons`)."""
    errors = verdict.record_errors
    if plan.names_bad_records:
        reasons = [(error.index, error.message) for error in errors]
        return PartitionResponse(verdict.code, verdict.message, reasons)
    return PartitionResponse(
        verdict.code, reason_of_batch(errors[0]) if errors else verdict.message
    )
