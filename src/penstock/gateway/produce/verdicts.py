"""The third step of a Produce request: its verdicts, and what else may refuse a batch.

A batch that is accepted is refused nevertheless if a framework's own topic would lose records of it
(`framework_losses`), if too many of its topic's records are bad (`penstock.quarantine.max.ratio`),
or if policies made it larger than the topic's `max.message.bytes`. Batches that have grown wait for
a later request if this request would exceed `socket.request.max.bytes`.

Before a refusal, before dead letters, and before the gateway reads a topic's `cleanup.policy`, it
is looked up whether the client may write to the topic (`rights_lookup`). If it may not, it gets the
broker's error instead: a policy's message, and the share of bad records, are for those who may
write. Nothing is counted, reported or logged then.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from penstock.configuration.topic_keys import QUARANTINE_MAX_RATIO
from penstock.engine.verdict import FailureCause, Outcome, refused, refused_because
from penstock.gateway.produce.dead_letters.dead_letter_topic import DeadLetterTopic
from penstock.gateway.produce.framework_losses import loses_records
from penstock.gateway.produce.lookups import rights_lookup
from penstock.gateway.produce.request import SLICE
from penstock.gateway.produce.stored_records import good_records
from penstock.kafka.error_codes import INVALID_RECORD, MESSAGE_TOO_LARGE
from penstock.kafka.wire.errors import REQUEST_TIMED_OUT
from penstock.kafka.wire.requests import topics
from penstock.kafka.wire.requests.produce import PartitionResponse

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from penstock.engine.plans.topic_plan import TopicPlan
    from penstock.engine.verdict import Diverted, PolicyVerdict
    from penstock.gateway.produce.intercepted.batches import InterceptedBatches
    from penstock.gateway.produce.lookups.rights_lookup import Codes
    from penstock.gateway.produce.partition import ProducePartition
    from penstock.gateway.produce.request import ReceivedRequest
    from penstock.kafka.wire.slices import Slices

    JudgedBatch = tuple[ProducePartition, PolicyVerdict]
    """A batch, and the verdict about it, which is not applied yet."""

_NOT_KNOWN: Final = (
    "It is not known yet whether topic {} is compacted, so that it may lose no records"
)
_RIGHT_NOT_KNOWN: Final = "It is not known whether the client may write to this topic"
_LENGTH_BYTES: Final = 5
"""The longest length of records: an unsigned varint."""


class Verdicts:
    """Applies the verdicts about the batches of one request to their partitions."""

    __slots__ = ("_accepted", "_held", "_intercepted", "_of_frameworks", "_on_done",
                 "_request")  # fmt: skip

    def __init__(
        self,
        request: ReceivedRequest,
        intercepted: InterceptedBatches,
        on_done: Callable[[], None],
    ) -> None:
        self._request = request
        self._intercepted = intercepted
        self._on_done = on_done
        self._accepted: list[ProducePartition] = []
        self._of_frameworks: list[JudgedBatch] = []
        self._held: list[JudgedBatch] = []

    def take(self, partition: ProducePartition, verdict: PolicyVerdict) -> None:
        """Apply the verdict about a batch, or hold it until more is known."""
        plan = partition.topic.plan
        assert plan is not None
        loses = loses_records(plan, verdict) and not partition.dropped_before
        if loses and self._request.gateway.framework_losses.are_refused(plan) is not False:
            self._of_frameworks.append((partition, verdict))
        else:
            self._judged(partition, verdict)

    def _judged(self, partition: ProducePartition, verdict: PolicyVerdict) -> None:
        """Apply the verdict about a batch, or hold it until the client's right is known."""
        plan = partition.topic.plan
        assert plan is not None
        if plan.quarantines and not partition.dropped_before:
            verdict = self._unless_forbidden(partition, plan, verdict)
        verdict = self._intercepted.judged(partition, verdict)
        if self._needs_right(partition, verdict):
            self._held.append((partition, verdict))
        else:
            self._apply(partition, verdict)

    def _needs_right(self, partition: ProducePartition, verdict: PolicyVerdict) -> bool:
        """Return whether the broker does not check the client's right to write to the topic.

        That is so if a batch is refused, and if nothing of it is sent. Dead letters are written by
        the gateway. With acks=0 the broker does not say whether it has stored a batch that counts.
        """
        if verdict.outcome is not Outcome.ACCEPTED:
            return verdict.cause is not FailureCause.ABANDONED
        replacement, plan = verdict.replacement, partition.topic.plan
        if replacement is not None and (
            replacement.quarantined or replacement.letters or not replacement.data
        ):
            return True
        return not self._request.data.acks and plan is not None and plan.limits_bad_share

    def _apply(self, partition: ProducePartition, verdict: PolicyVerdict) -> None:
        plan = partition.topic.plan
        assert plan is not None
        if plan.limits_bad_share and verdict.outcome is Outcome.ACCEPTED:
            verdict = self._within_ratio(partition, plan, verdict)
        if verdict.outcome is not Outcome.ACCEPTED:
            self._request.refuse(partition, plan, verdict)
        elif plan.policies and (self._request.gateway.counts is not None or verdict.diverted):
            partition.verdict = verdict
            self._accepted.append(partition)

    def _unless_forbidden(
        self, partition: ProducePartition, plan: TopicPlan, verdict: PolicyVerdict
    ) -> PolicyVerdict:
        """Refuse a batch with bad records whose dead letters may not go to their topic."""
        bad = verdict.quarantined
        if verdict.outcome is not Outcome.ACCEPTED or not bad:
            return verdict
        target = DeadLetterTopic.of(plan, partition.number)
        why_not = self._request.gateway.dead_letters.refusal(target)
        if not why_not:
            return verdict
        return replace(refused_because(why_not, bad[0]), code=INVALID_RECORD)

    def _within_ratio(
        self, partition: ProducePartition, plan: TopicPlan, verdict: PolicyVerdict
    ) -> PolicyVerdict:
        """Refuse a batch with bad records where too many of the topic's are bad."""
        shares, good = self._request.gateway.bad_shares, good_records(partition)
        bad = verdict.quarantined
        if bad and partition.dropped_before is None:
            share = shares.add(plan.topic, sum(diverted.count for diverted in bad), good)
            if share > plan.quarantine_max_ratio:
                return _above_ratio(plan, share, bad[0])
        if not self._request.data.acks:
            shares.add_stored(plan.topic, good)
        return verdict

    # When all verdicts are known

    def check(self) -> None:
        """Check batches that policies accepted; call `on_done` once no more can be refused."""
        framework_batches, self._of_frameworks = self._of_frameworks, []
        if framework_batches:
            self._with_right(framework_batches, self._decide_losses)
        else:
            self._apply_held(self._check_sizes)

    def _with_right(
        self, batches: Sequence[JudgedBatch], on_done: Callable[[Sequence[JudgedBatch]], None]
    ) -> None:
        """Call `on_done` with the batches that the client may write; answer the others."""

        def on_known(codes: Codes) -> None:
            self._request.do(self._permitted(batches, codes), on_done)

        names = {partition.topic.known_name for partition, _ in batches}
        rights_lookup.look_up(self._request, names, on_known)

    def _permitted(
        self, batches: Sequence[JudgedBatch], codes: Codes
    ) -> Slices[Sequence[JudgedBatch]]:
        """Return the batches that the client may write; respond to the others as a broker does."""
        permitted_batches = []
        for number, (partition, verdict) in enumerate(batches, 1):
            code = codes[partition.topic.known_name]
            if code:
                text = _RIGHT_NOT_KNOWN if code == REQUEST_TIMED_OUT else None
                self._request.answer(partition, PartitionResponse(code, text))
            else:
                permitted_batches.append((partition, verdict))
            if number % SLICE == 0:
                yield
        return permitted_batches

    def _decide_losses(self, batches: Sequence[JudgedBatch]) -> None:
        """Refuse batches of which a framework's own topic would lose records."""
        are_refused = self._request.gateway.framework_losses.are_refused
        unknown = {
            partition.topic.known_name
            for partition, _ in batches
            if partition.topic.plan is not None and are_refused(partition.topic.plan) is None
        }
        if unknown:
            self._request.run(self._look_up_frameworks(batches, unknown))
        else:
            self._request.do(self._take_losses(batches, {}), lambda _: self.check())

    async def _look_up_frameworks(
        self, batches: Sequence[JudgedBatch], unknown: Collection[str]
    ) -> None:
        """Find out which topics may be those of frameworks, and decide about their batches."""
        try:
            compaction = await self._request.gateway.framework_losses.look_up(unknown)
            self._request.do(self._take_losses(batches, compaction), lambda _: self.check())
        except Exception as error:
            self._request.fail(error)

    def _take_losses(
        self, batches: Sequence[JudgedBatch], compaction: Mapping[str, bool]
    ) -> Slices[None]:
        """Refuse batches, or apply their verdicts.

        Args:
            batches: The batches, which lose records.
            compaction: Whether topics are compacted, as far as it was looked up.
        """
        losses, request = self._request.gateway.framework_losses, self._request
        for number, (partition, verdict) in enumerate(batches, 1):
            plan = partition.topic.plan
            assert plan is not None
            are_refused = compaction.get(plan.topic, losses.are_refused(plan))
            if are_refused is None:
                text = _NOT_KNOWN.format(plan.topic)
                request.answer(partition, PartitionResponse(REQUEST_TIMED_OUT, text))
            else:
                self._judged(partition, losses.refusal(plan, verdict) if are_refused else verdict)
            if number % SLICE == 0:
                yield

    def _apply_held(self, on_applied: Callable[[], None]) -> None:
        """Apply the verdicts that depend on the client's right to write to their topic."""
        held_batches, self._held = self._held, []
        if not held_batches:
            on_applied()
            return

        def on_permitted(permitted: Sequence[JudgedBatch]) -> None:
            self._request.do(self._apply_all(permitted), lambda _: on_applied())

        self._with_right(held_batches, on_permitted)

    def _apply_all(self, batches: Sequence[JudgedBatch]) -> Slices[None]:
        for number, (partition, verdict) in enumerate(batches, 1):
            self._apply(partition, verdict)
            if number % SLICE == 0:
                yield

    def _check_sizes(self) -> None:
        """Check batches that policies enlarged against `max.message.bytes` of their topics."""
        limits = self._request.gateway.max_message_bytes
        grown = [partition for partition in self._intercepted.grown() if not partition.is_answered]
        names = {partition.topic.known_name for partition in grown}
        unknown = set(filter(limits.is_unknown, names))
        if unknown:
            self._request.connection.send_request(
                partial(topics.max_message_bytes_request, names=unknown),
                partial(self._on_max_message_bytes, unknown),
            )
            return
        for partition in grown:
            self._check_size(partition)
        if grown:
            self._check_request_size()
        self._apply_held(self._finish)

    def _finish(self) -> None:
        self._count_accepted()
        self._on_done()

    def _on_max_message_bytes(self, requested: set[str], frame: bytes) -> None:
        """Handle the DescribeConfigs response."""
        if self._request.is_cancelled:
            return
        limits = topics.max_message_bytes_response(frame)
        for topic in requested:
            self._request.gateway.max_message_bytes.put(topic, limits.get(topic))
        self._check_sizes()

    def _check_size(self, partition: ProducePartition) -> None:
        name = partition.topic.known_name
        max_bytes = self._request.gateway.max_message_bytes.get(name)
        size = len(partition.replacement.data) if partition.replacement is not None else 0
        if max_bytes is not None and size > max_bytes:
            text = (
                f"The batch has {size} bytes after its interceptors, or with marks, more than "
                f"the {max_bytes} of max.message.bytes of topic {name}"
            )
            self._held.append((partition, refused(MESSAGE_TOO_LARGE, text, "")))

    def _check_request_size(self) -> None:
        """Keep the request within `socket.request.max.bytes`: a broker closes the connection.

        Batches that do not fit are retried by the client. At least one batch is sent each time, so
        that the retry is smaller. Java divides the batches that get MESSAGE_TOO_LARGE.
        """
        request = self._request
        refused_now = {partition.position for partition, _ in self._held}
        batches = [
            partition
            for partition in request.partitions
            if not partition.is_answered
            and partition.position not in refused_now
            and not self._intercepted.is_stored(partition)
        ]
        max_bytes = request.gateway.request_max_bytes
        room = max_bytes - request.data.bytes_without_records
        if sum(map(_sent_bytes, batches)) <= room:
            return
        text = (
            "The request is larger after its interceptors, or with marks, than the "
            f"{max_bytes} bytes of socket.request.max.bytes"
        )
        is_whole, is_any = request.policies.whole_request, False
        for partition in batches:
            size = _sent_bytes(partition)
            if size <= room and not is_whole:
                is_any = True
                room -= size
            elif is_any:
                request.answer(partition, PartitionResponse(REQUEST_TIMED_OUT, text))
            else:
                self._held.append((partition, refused(MESSAGE_TOO_LARGE, text, "")))

    def _count_accepted(self) -> None:
        """Count the batches that policies accepted, and that were not refused since.

        Report the records in it that policies object to.
        """
        counts = self._request.gateway.counts
        for partition in self._accepted:
            plan, verdict = partition.topic.plan, partition.verdict
            if partition.is_answered or plan is None or verdict is None:
                continue
            if counts is not None:
                counts.accepted(plan, partition.data, verdict)
            for diverted in verdict.diverted:
                is_dead = diverted.verdict.outcome is Outcome.QUARANTINED
                self._request.report(
                    partition,
                    plan,
                    diverted.verdict,
                    diverted.count,
                    plan.dead_letter_topic if is_dead else None,
                )
        self._accepted.clear()


def _above_ratio(plan: TopicPlan, share: float, bad: Diverted) -> PolicyVerdict:
    """Return the refusal of a batch because too many records of its topic are bad."""
    cause = (
        f"{share:.1%} of the records of topic {plan.topic} were bad in the last minute, more than "
        f"{QUARANTINE_MAX_RATIO} ({plan.quarantine_max_ratio:g}) lets into quarantine"
    )
    return refused_because(cause, bad)


def _sent_bytes(partition: ProducePartition) -> int:
    """Return how many bytes of records the broker gets, the longest possible length included."""
    replacement = partition.replacement
    return _LENGTH_BYTES + len(partition.data if replacement is None else replacement.data)
