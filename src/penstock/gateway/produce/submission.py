"""The second step of a Produce request: each partition's batch is submitted for judging.

A topic whose policies only observe is judged beside (`observed_batches`). A topic that cannot be
judged gets its response here.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Final

from penstock.engine.plans.topic_plan import TopicPlan
from penstock.engine.topic_configs.index import UnreadableTopicConfigsError
from penstock.engine.verdict import failed
from penstock.engine.workers.batch_to_judge import BatchToJudge
from penstock.gateway.produce.dead_letters.dead_letter_topic import DeadLetterTopic
from penstock.gateway.produce.forwarded_at_once import is_for_gateways, observe, sender_of
from penstock.gateway.produce.policy_set import without_response
from penstock.gateway.produce.request import SLICE
from penstock.kafka.wire.errors import (
    INVALID_TOPIC_EXCEPTION,
    NOT_LEADER_OR_FOLLOWER,
    REQUEST_TIMED_OUT,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from penstock.kafka.wire.requests.produce import PartitionResponse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from penstock.engine.verdict import PolicyVerdict
    from penstock.gateway.produce.intercepted.batches import InterceptedBatches
    from penstock.gateway.produce.lookups.topic_lookup import TopicLookup
    from penstock.gateway.produce.partition import ProducePartition, ProduceTopic
    from penstock.gateway.produce.producer_state.producer.batch import Batch
    from penstock.gateway.produce.request import ReceivedRequest

_NOT_OPEN: Final = (
    "penstock.mode is quarantine, and what keeps decisions about records is not open yet"
)


class Submission:
    """Submits the batches of one request, behind those of the requests before it."""

    __slots__ = ("_before", "_intercepted", "_lookup", "_missing", "_on_verdict", "_request",
                 "_submitted")  # fmt: skip

    def __init__(
        self,
        request: ReceivedRequest,
        lookup: TopicLookup,
        intercepted: InterceptedBatches,
        on_verdict: Callable[[ProducePartition, PolicyVerdict], None],
    ) -> None:
        """Take the request's turn among those of its connection.

        Args:
            lookup: The known facts about its topics.
            intercepted: Those of its batches that may not be sent unchanged.
            on_verdict: Called with each verdict.
        """
        self._request = request
        self._lookup = lookup
        self._intercepted = intercepted
        self._on_verdict = on_verdict
        self._missing = 0  # verdicts
        self._before = request.connection.submitting
        self._submitted: asyncio.Future[None] | None = None
        if request.is_long:
            self._delay_others()

    def _delay_others(self) -> None:
        """Keep later requests of the same client from being submitted before this request."""
        self._submitted = asyncio.get_running_loop().create_future()
        self._request.connection.submitting = self._submitted

    def let_others_submit(self) -> None:
        """Let waiting requests be submitted."""
        if self._submitted is not None and not self._submitted.done():
            self._submitted.set_result(None)

    def begin(self, on_submitted: Callable[[], None]) -> None:
        """Submit the batches of all topics; those of a long request in slices.

        Args:
            on_submitted: Called when all are submitted, as if there were one more verdict.
        """
        self._missing = 1  # a verdict may be there before all are submitted
        steps = self._submit_all()
        earlier_submission, self._before = self._before, None
        if self._request.is_long or (
            earlier_submission is not None and not earlier_submission.done()
        ):
            if not self._request.is_long:
                self._delay_others()
            self._request.run(self._submit_in_slices(steps, earlier_submission, on_submitted))
            return
        for _ in steps:
            pass
        on_submitted()

    async def _submit_in_slices(
        self,
        steps: Iterator[None],
        earlier_submission: asyncio.Future[None] | None,
        on_submitted: Callable[[], None],
    ) -> None:
        """Submit the batches of a large request, and let others have their turn meanwhile.

        Args:
            steps: Submits them.
            earlier_submission: Submits those of an earlier request: a partition's keep their order.
            on_submitted: See `begin`.
        """
        try:
            if earlier_submission is not None:
                await asyncio.wait([earlier_submission])
            step_counter = self._request.gateway.turns.steps(SLICE)
            for _ in steps:
                await step_counter.step()
            self.let_others_submit()
            on_submitted()
        except Exception as error:
            self._request.fail(error)

    def is_last_verdict(self) -> bool:
        """Count a verdict; return whether it is the last verdict, and all are submitted."""
        self._missing -= 1
        return not self._missing

    def _submit_all(self) -> Iterator[None]:
        """Submit all batches that are to be judged; yield after each topic and each of them."""
        for topic in self._request.topics:
            if self._identify(topic):
                topic.plan = plan = self._plan(topic, topic.known_name)
                if plan is not None and plan.unusable:
                    yield from self._cannot_be_judged(topic, plan)
                elif plan is not None:
                    yield from self._submit(topic, plan)
            yield

    # One topic

    def _identify(self, topic: ProduceTopic) -> bool:
        """Return whether the name of a topic is known, and its id, if that is needed."""
        if topic.data.topic_id is not None:
            is_known = self._request.name_of(topic) is not None and not self._lookup.has_failed(
                topic.data.topic_id
            )
        elif self._request.needs_topic_id(topic.known_name):
            is_known = topic.topic_id is not None
        else:
            is_known, topic.topic_id = True, None
        if not is_known:
            code = self._lookup.error_of(topic)
            self._request.answer_topic(topic, PartitionResponse(code))
        return is_known

    def _plan(self, topic: ProduceTopic, name: str) -> TopicPlan | None:
        """Return the plan of a topic; None if it has no policy, or its response is an error."""
        try:
            own = self._topic_configs(topic, name)
        except UnreadableTopicConfigsError as error:
            return TopicPlan(topic=name, unusable=str(error))
        if own is None:
            return None
        plans = self._request.policies.plan
        plan = plans.for_topic(name, own)
        if plan is not None:
            plan = self._waited_for(topic, plan)
        if plan is not None and plan.quarantines and not self._request.gateway.keeps_decisions:
            self._request.gateway.open_decisions()
            self._request.answer_topic(topic, PartitionResponse(REQUEST_TIMED_OUT, _NOT_OPEN))
            return None
        if plan is None and name and self._follows_drops(topic, name):
            return TopicPlan(topic=name, settings=plans.merged(name, own))
        if plan is None:
            for partition in self._request.partitions_of(topic):
                self._intercepted.received.leave(partition)  # it loses nothing
        return plan

    def _topic_configs(self, topic: ProduceTopic, name: str) -> Mapping[str, str] | None:
        """Return the topic configs of a topic; None if its response is an error."""
        if is_for_gateways(name, self._request.gateway):
            self._request.answer_topic(topic, PartitionResponse(INVALID_TOPIC_EXCEPTION))
        elif topic.topic_id in self._lookup.unread:
            self._request.answer_topic(topic, PartitionResponse(NOT_LEADER_OR_FOLLOWER))
        else:
            return self._request.gateway.topic_configs.of(name, topic.known_id)
        return None

    def _waited_for(self, topic: ProduceTopic, plan: TopicPlan) -> TopicPlan | None:
        """Return the policies whose verdict is waited for; have the others observe."""
        if plan.observed is not None:
            request = self._request
            observe(plan.observed, topic.known_id, topic.data, request.data, request.connection)
        topic.is_observed = plan.waited_for is None
        return plan.waited_for

    def _follows_drops(self, topic: ProduceTopic, name: str) -> bool:
        """Return whether sequence numbers may have to change because of dropped records."""
        return self._intercepted.received.follows_drops(name, self._request.partitions_of(topic))

    def _cannot_be_judged(self, topic: ProduceTopic, plan: TopicPlan) -> Iterator[None]:
        names = ", ".join(plan.policies) or "of this topic"
        verdict = failed(names, f"cannot run: {plan.unusable}")
        for partition in self._request.partitions_of(topic):
            if not partition.is_answered:
                self._missing += 1
                self._on_verdict(partition, verdict)
                yield

    # Its partitions

    def _submit(self, topic: ProduceTopic, plan: TopicPlan) -> Iterator[None]:
        """Submit the batches of a topic; yield after each."""
        is_intercepted = (
            bool(plan.interceptors) or plan.quarantines or self._follows_drops(topic, plan.topic)
        )
        has_policies = bool(plan.policies)
        data, number = self._request.data, self._request.connection.number
        submit = self._request.policies.submit
        client = number if data.acks != 0 else without_response(number)
        sender = sender_of(data, self._request.connection)
        for partition in self._request.partitions_of(topic):
            if partition.is_answered:
                continue
            if partition.number < 0:
                self._request.answer(partition, PartitionResponse(UNKNOWN_TOPIC_OR_PARTITION))
                continue
            first_attempt, is_judged = None, has_policies
            if is_intercepted:
                first_attempt = self._expect(partition, plan)
                is_judged = _has_to_be_judged(plan, first_attempt)
            else:
                self._intercepted.received.leave(partition)  # it loses nothing
            if not is_judged:
                continue
            self._missing += 1
            batch = BatchToJudge(
                plan,
                partition.number,
                topic.known_id,
                data.version,
                partition.data,
                timeout_ms=data.timeout_ms,
                dropped_before=partition.dropped_before or (),
                quarantined_before=() if first_attempt is None else first_attempt.quarantined,
                client=client,
                sender=sender,
                early=self._request.early_outcome(topic, partition.number),
            )
            submit(batch, partial(self._on_verdict, partition))
            yield

    def _expect(self, partition: ProducePartition, plan: TopicPlan) -> Batch | None:
        """Return the batch of an earlier attempt, if there is one that is known."""
        first_attempt = self._intercepted.expect(partition, has_policies=bool(plan.policies))
        if first_attempt is not None:
            partition.dropped_before = first_attempt.dropped_again
        if plan.quarantines or (first_attempt is not None and first_attempt.quarantined):
            target = DeadLetterTopic.of(plan, partition.number)
            partition.store_letters = partial(self._request.gateway.dead_letters.store, target)
        return first_attempt


def _has_to_be_judged(plan: TopicPlan, first_attempt: Batch | None) -> bool:
    """Return whether a batch needs a verdict, at least to drop records of a retry again."""
    if first_attempt is None:
        return bool(plan.policies)
    if first_attempt.is_decided:
        return False  # it was when it was received first
    return bool(plan.policies or first_attempt.dropped_again)
