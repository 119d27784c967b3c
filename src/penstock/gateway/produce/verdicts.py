"""The third step of a Produce request: its verdicts, and what else may refuse a batch.

A batch that is accepted is refused nevertheless if a framework's own topic would lose records of it
(`framework_losses`), if too many of its topic's records are bad (`penstock.quarantine.max.ratio`),
if its client may not write to the topic whose dead letters it has, or if policies made it larger
than the topic's `max.message.bytes`. Batches that have grown wait for a later request if this
request would exceed `socket.request.max.bytes`.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from penstock.configuration.topic_keys import QUARANTINE_MAX_RATIO
from penstock.engine.verdict import Outcome, bounded, refused
from penstock.error_codes import MESSAGE_TOO_LARGE
from penstock.gateway.produce.framework_losses import loses_records
from penstock.records.header import record_count
from penstock.wire.errors import REQUEST_TIMED_OUT, RETRIABLE, UNKNOWN_TOPIC_OR_PARTITION
from penstock.wire.requests import topics
from penstock.wire.requests.produce import PartitionResponse

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock.engine.plans.topic_plan import TopicPlan
    from penstock.engine.verdict import PolicyVerdict
    from penstock.gateway.produce.intercepted.intercepted_batches import InterceptedBatches
    from penstock.gateway.produce.partition import ProducePartition
    from penstock.gateway.produce.request import ReceivedRequest

_NOT_KNOWN: Final = (
    "It is not known yet whether topic {} is compacted, so that it may lose no records"
)
_LENGTH_BYTES: Final = 5
"""The longest length of records: an unsigned varint."""


class Verdicts:
    """Applies the verdicts about the batches of one request to their partitions."""

    __slots__ = ("_accepted", "_intercepted", "_of_frameworks", "_on_done", "_request",
                 "_with_letters")  # fmt: skip

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
        self._with_letters: list[tuple[str, ProducePartition]] = []
        self._of_frameworks: list[tuple[TopicPlan, ProducePartition, PolicyVerdict]] = []

    def take(self, partition: ProducePartition, verdict: PolicyVerdict) -> None:
        """Apply the verdict about a batch."""
        plan = partition.topic.plan
        assert plan is not None
        if loses_records(plan, verdict) and not partition.lost_before:
            verdict = self._without_losses(partition, plan, verdict)
        if plan.quarantines and not partition.is_retry:
            verdict = self._within_ratio(partition, plan, verdict)
        verdict = self._intercepted.judged(partition, verdict)
        if verdict.outcome is not Outcome.ACCEPTED:
            self._request.refuse(partition, plan.topic, verdict)
            return
        if verdict.replacement is not None and verdict.replacement.letters:
            self._with_letters.append((plan.topic, partition))
        if plan.policies and (self._request.gateway.counts is not None or verdict.diverted):
            partition.verdict = verdict
            self._accepted.append(partition)

    def _without_losses(
        self, partition: ProducePartition, plan: TopicPlan, verdict: PolicyVerdict
    ) -> PolicyVerdict:
        """Refuse a batch of which a framework's own topic would lose records."""
        losses = self._request.gateway.framework_losses
        are_refused = losses.are_refused(plan)
        if are_refused is None:
            self._of_frameworks.append((plan, partition, verdict))
        return losses.refusal(plan, verdict) if are_refused else verdict

    def _within_ratio(
        self, partition: ProducePartition, plan: TopicPlan, verdict: PolicyVerdict
    ) -> PolicyVerdict:
        """Refuse a batch with bad records where too many of the topic's are bad."""
        if verdict.outcome is not Outcome.ACCEPTED or plan.quarantine_max_ratio >= 1:
            return verdict
        bad = verdict.quarantined
        share = self._request.gateway.bad_shares.add(
            plan.topic, sum(diverted.count for diverted in bad), record_count(partition.data)
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

    # When all verdicts are known

    def check(self) -> None:
        """Check batches that policies accepted; call `on_done` once no more can be refused."""
        if self._of_frameworks:
            self._request.run(self._look_up_frameworks())
            return
        self._with_letters = [kept for kept in self._with_letters if kept[1].response is None]
        if self._with_letters:
            self._check_rights()
        else:
            self._check_sizes()

    async def _look_up_frameworks(self) -> None:
        """Find out which topics may be those of frameworks, and check their batches."""
        losses, request = self._request.gateway.framework_losses, self._request
        waiting, self._of_frameworks = self._of_frameworks, []
        try:
            await losses.look_up({plan.topic for plan, _, _ in waiting})
            for plan, partition, verdict in waiting:
                are_refused = losses.are_refused(plan)
                if partition.response is not None:
                    continue
                if are_refused is None:
                    text = _NOT_KNOWN.format(plan.topic)
                    request.answer(partition, PartitionResponse(REQUEST_TIMED_OUT, text))
                elif are_refused:
                    request.refuse(partition, plan.topic, losses.refusal(plan, verdict))
            self.check()
        except Exception as error:
            request.fail(error)

    def _check_rights(self) -> None:
        """Check that the client may write to the topics whose dead letters are to be stored."""
        rights, client = self._request.gateway.write_rights, self._client
        codes = {topic: rights.code(client, topic) for topic, _ in self._with_letters}
        unknown = {topic for topic, code in codes.items() if code is None}
        if unknown:
            self._request.connection.send_request(
                partial(topics.write_rights_request, names=unknown),
                partial(self._on_rights, codes),
            )
            return
        self._forbid(codes)

    @property
    def _client(self) -> tuple[int, str | None]:
        connection = self._request.connection
        return connection.number, connection.authentication.principal

    def _on_rights(self, codes: dict[str, int | None], frame: bytes) -> None:
        """Handle the Metadata response, which is about the topics whose code is not known."""
        if self._request.is_cancelled:
            return
        found = topics.write_rights_response(frame)
        for name in [name for name, code in codes.items() if code is None]:
            codes[name] = code = found.get(name, UNKNOWN_TOPIC_OR_PARTITION)
            if code not in RETRIABLE:
                self._request.gateway.write_rights.put(self._client, name, code)
        self._forbid(codes)

    def _forbid(self, codes: Mapping[str, int | None]) -> None:
        for topic, partition in self._with_letters:
            code = codes[topic]
            if code:
                self._request.answer(partition, PartitionResponse(code))
        self._check_sizes()

    def _check_sizes(self) -> None:
        """Check batches that policies enlarged against `max.message.bytes` of their topics."""
        limits = self._request.gateway.max_message_bytes
        grown = [partition for partition in self._intercepted.grown() if partition.response is None]
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
        self._count_accepted()
        self._on_done()

    def _on_max_message_bytes(self, requested: set[str], frame: bytes) -> None:
        """Handle the DescribeConfigs response."""
        if self._request.is_cancelled:
            return
        found = topics.max_message_bytes_response(frame)
        for topic in requested:
            self._request.gateway.max_message_bytes.put(topic, found.get(topic))
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
            self._request.refuse(partition, name, refused(MESSAGE_TOO_LARGE, text, ""))

    def _check_request_size(self) -> None:
        """Keep the request within `socket.request.max.bytes`: a broker closes the connection.

        Batches that do not fit are retried by the client. At least one batch is sent each time, so
        that the retry is smaller. Java divides the batches that get MESSAGE_TOO_LARGE.
        """
        request = self._request
        batches = [
            partition
            for partition in request.partitions
            if partition.response is None and not self._intercepted.is_stored(partition)
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
                name = partition.topic.known_name
                request.refuse(partition, name, refused(MESSAGE_TOO_LARGE, text, ""))

    def _count_accepted(self) -> None:
        """Count the batches that policies accepted, and that were not refused since.

        Report the records in it that policies object to.
        """
        counts = self._request.gateway.counts
        for partition in self._accepted:
            plan, verdict = partition.topic.plan, partition.verdict
            if partition.response is not None or plan is None or verdict is None:
                continue
            if counts is not None:
                counts.accepted(plan, partition.data, verdict)
            for diverted in verdict.diverted:
                is_dead = diverted.verdict.outcome is Outcome.QUARANTINED
                self._request.report(
                    partition,
                    plan.topic,
                    diverted.verdict,
                    diverted.count,
                    plan.dead_letter_topic if is_dead else None,
                )
        self._accepted.clear()


def _sent_bytes(partition: ProducePartition) -> int:
    """Return how many bytes of records the broker gets, the longest possible length included."""
    made = partition.replacement
    return _LENGTH_BYTES + len(partition.data if made is None else made.data)
