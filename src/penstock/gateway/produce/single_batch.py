"""A Produce request with a single batch, of a topic about which everything is known.

Producers of single records send such requests, and most of their batches are accepted as they are.
Then nothing is looked up, registered or merged. With any other verdict, and while a batch has to
be retried before others, the request takes all steps of `ProduceExchange`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.engine.verdict import ACCEPTED
from penstock.engine.workers.batch_to_judge import BatchToJudge
from penstock.gateway.context.exchange import ExchangeState, Held
from penstock.gateway.produce.forwarded_at_once import (
    cached_topic_id,
    pass_judged_topics,
    sender_of,
)
from penstock.gateway.produce.policy_set import without_response
from penstock.gateway.produce.produce_exchange import (
    ProduceExchange,
    ProducePhase,
    size_of,
)
from penstock.gateway.produce.request import ReceivedRequest, close_after_error
from penstock.gateway.produce.retried_batches import NONE_RETRIED, batches_for
from penstock.gateway.produce.verdicts import Verdicts
from penstock.kafka.wire.names import NO_ID
from penstock.kafka.wire.slices import finish

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from penstock.engine.plans.topic_plan import TopicPlan
    from penstock.engine.verdict import PolicyVerdict
    from penstock.gateway.context.exchange import Buffers, Exchange, RetriedBatches
    from penstock.gateway.produce.gateway import ProduceConnection
    from penstock.gateway.produce.partition import ProducePartition
    from penstock.gateway.produce.policy_set import PolicySet
    from penstock.kafka.wire.requests.produce import ProduceRequest, TopicData
    from penstock.kafka.wire.slices import Slices


def single_batch(
    topic_plans: Sequence[tuple[TopicPlan, TopicData]],
    request: ProduceRequest,
    connection: ProduceConnection,
    received: Exchange,
) -> SingleBatch | None:
    """Return the exchange of a request with a single batch that is only judged, or None.

    Args:
        topic_plans: The result of `forwarded_at_once.known_topics`.
        connection: The client's connection.
        received: The exchange that was made for the request's header.
    """
    if len(topic_plans) != 1 or len(request.topics) != 1 or len(request.topics[0].partitions) != 1:
        return None
    plan, topic = topic_plans[0]
    if (
        plan.waited_for is not plan
        or plan.unusable
        or plan.interceptors
        or plan.quarantines
        or topic.partitions[0].number < 0
        or connection.gateway.policies.whole_request
    ):
        return None
    if connection.submitting is not None and not connection.submitting.done():
        return None
    topic_id = topic.topic_id
    if topic_id is None and topic.name is not None:
        topic_id = cached_topic_id(topic.name, connection)
    if topic_id is None and plan.needs_topic_id:
        return None
    return SingleBatch(request, connection, received, plan, topic_id)


class SingleBatch(ProduceExchange):
    """A Produce request with a single batch, and its response."""

    __slots__ = ("_connection", "_data", "_is_accepted", "_plan", "_set", "_takes_all_steps",
                 "_topic_id")  # fmt: skip

    def __init__(
        self,
        request: ProduceRequest,
        connection: ProduceConnection,
        received: Exchange,
        plan: TopicPlan,
        topic_id: UUID | None,
    ) -> None:
        """Make the exchange.

        Args:
            connection: The client's connection.
            received: The exchange that was made for its header.
            plan: The policies of its topic.
            topic_id: The topic's id; None if it is not known, and not needed.
        """
        Held.__init__(self, received, size_of(request))
        self.expects_response = request.acks != 0
        self._data = request
        self._connection = connection
        self._set = connection.gateway.policies
        self._plan = plan
        self._topic_id = topic_id
        self._is_accepted = self._takes_all_steps = False
        self._retried = NONE_RETRIED

    @property
    def policies(self) -> PolicySet:
        """The policies that judge the request."""
        return self._set

    @property
    def error_code(self) -> int:
        """The first error of a partition that the gateway itself answers with; 0 without one."""
        return self._request.error_code if self._takes_all_steps else 0

    def prepare(self) -> Slices[None]:
        """Do nothing: the batch is not registered."""
        yield from ()

    def start(self) -> None:
        """Submit the batch. From then on `decide` is to be called."""
        data, connection = self._data, self._connection
        partition = data.topics[0].partitions[0]
        batch = BatchToJudge(
            self._plan,
            partition.number,
            self._topic_id or NO_ID,
            data.version,
            data.records(partition),
            timeout_ms=data.timeout_ms,
            client=connection.number if data.acks else without_response(connection.number),
            sender=sender_of(data, connection),
        )
        self._set.submit(batch, self._on_only_verdict)

    def _on_only_verdict(self, verdict: PolicyVerdict) -> None:
        if self.state is ExchangeState.CANCELLED:
            return
        try:
            if verdict is ACCEPTED:
                self._count()
                self._is_accepted = True
                pass_judged_topics(self._data, self._connection)
                self._connection.advance()
                return
            partition = self._continue_in_all_steps()
            verdicts = Verdicts(self._request, self._intercepted, self._on_judged)
            verdicts.take(partition, verdict)
            verdicts.check()
        except Exception as error:
            close_after_error(self._connection, error)

    def _count(self) -> None:
        counts = self._connection.gateway.counts
        if counts is not None:
            data = self._data
            counts.accepted(self._plan, data.records(data.topics[0].partitions[0]))

    def _continue_in_all_steps(self) -> ProducePartition:
        """Go on as any Produce request; return the partition of the batch."""
        request = ReceivedRequest(self._data, self._connection)
        request.policies = self._set
        finish(request.read_partitions())
        self._set_up(request)
        self._is_prepared = self._takes_all_steps = True
        topic = request.topics[0]
        topic.name, topic.topic_id, topic.plan = self._plan.topic, self._topic_id, self._plan
        return request.partitions[0]

    def decide(self, *, is_next: bool) -> bool:
        """Decide about the request for the broker, which is usually the client's request."""
        if not self._takes_all_steps:
            if not self._is_accepted:
                return False
            if not (self._connection.gateway.missing_batches or self._retried):
                self.transition_to(ExchangeState.READY)
                return True
            self._continue_in_all_steps()
            self._phase = ProducePhase.JUDGED
        return super().decide(is_next=is_next)

    def outgoing(self) -> Buffers | None:
        """Return the bytes for the broker: the request, the rest of the request, or None."""
        if self._retried and not self._takes_all_steps:
            self._continue_in_all_steps()
        return super().outgoing() if self._takes_all_steps else [self._data.frame]

    def retried(self, partitions: Sequence[tuple[bytes, int]]) -> Slices[RetriedBatches]:
        """Return the batches of the request for partitions for which the client retries them."""
        return (yield from batches_for(self._data, partitions))

    def cancel(self) -> None:
        """Cancel the request: it is not sent, and later verdicts are ignored."""
        if self._takes_all_steps:
            super().cancel()
        else:
            Held.cancel(self)
