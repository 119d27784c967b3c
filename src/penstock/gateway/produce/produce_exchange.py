"""Produce (API key 0), versions 3 to 13: validates the batches of a request.

Behaviour: each partition with a policy is judged separately. If every partition is accepted, the
request is forwarded unchanged. Otherwise the refused partitions are removed from it, and their
responses are merged into the broker's response in the order of the request. A batch that an
interceptor changed is sent instead of the original (`intercepted.batches`). Policies that only
observe (`penstock.mode`) judge separately; in quarantine bad records are left out of their batch as
if interceptors had dropped them, and dead letters are stored before the rest is sent. Topic ids
(version 13, and KIP-940's metadata) are resolved by a Metadata request over the client's
connection, so the cluster's ACLs apply. A topic that the broker does not know gets the broker's
error code.

Authorization and quotas are left to the broker, but for batches that it does not get
(`rights_lookup`).
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.engine.verdict import Outcome
from penstock.gateway.context.exchange import ExchangeState, Held
from penstock.gateway.produce.forwarded_at_once import pass_judged_topics
from penstock.gateway.produce.intercepted.batches import InterceptedBatches
from penstock.gateway.produce.lookups.last_sequences import fetch_last_sequences
from penstock.gateway.produce.lookups.topic_lookup import TopicLookup
from penstock.gateway.produce.request import SLICE, ReceivedRequest
from penstock.gateway.produce.retried_batches import NONE_RETRIED, batches_for, merged
from penstock.gateway.produce.send_order import SendOrder, producer_ids
from penstock.gateway.produce.stored_records import count_stored
from penstock.gateway.produce.submission import Submission
from penstock.gateway.produce.verdicts import Verdicts
from penstock.kafka.cluster.compacted_topic import CompactedTopicError
from penstock.kafka.error_codes import INVALID_RECORD
from penstock.kafka.wire.errors import REQUEST_TIMED_OUT
from penstock.kafka.wire.requests.produce import ENTRY_BYTES, PartitionResponse
from penstock.kafka.wire.requests.produce_response import read_response, write_response
from penstock.kafka.wire.requests.producers import LastSequence
from penstock.kafka.wire.slices import finish

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.engine.verdict import PolicyVerdict
    from penstock.engine.workers.batch_to_judge import EarlyOutcomes
    from penstock.gateway.context.exchange import Buffers, Exchange, RetriedBatches
    from penstock.gateway.produce.gateway import ProduceConnection
    from penstock.gateway.produce.lookups.last_sequences import LastSequences, ProducerIds
    from penstock.gateway.produce.partition import ProducePartition
    from penstock.gateway.produce.policy_set import PolicySet
    from penstock.gateway.produce.producer_state.cluster import ClusterStore
    from penstock.kafka.wire.requests.produce import ProduceRequest
    from penstock.kafka.wire.requests.produce_response import ProduceResponse
    from penstock.kafka.wire.slices import Slices

_OTHER_PARTITION_REFUSED: Final = PartitionResponse(
    INVALID_RECORD,
    "Another partition of the request was refused, and produce.rejection.scope is request",
)
_OTHER_PARTITION_RETRIED: Final = PartitionResponse(
    REQUEST_TIMED_OUT,
    "Another partition of the request must be retried, and so must this partition",
)


class ProducePhase(Enum):
    """The phases of a request before it is sent to the broker, in order."""

    JUDGING = "judging"
    """Workers judge the batches."""
    JUDGED = "judged"
    """All verdicts are known."""
    FETCHING_STATE = "fetching state"
    """The broker sends producers' last sequence numbers that are not known here."""
    STATE_FETCHED = "state fetched"
    """The broker has responded."""
    DECIDED = "decided"
    """The request for the broker is final."""


class _Steps(NamedTuple):
    """The steps of a request until it is judged."""

    lookup: TopicLookup
    submission: Submission
    verdicts: Verdicts


def size_of(request: ProduceRequest) -> int:
    """Return the memory that a request uses until it is answered."""
    return len(request.frame) + ENTRY_BYTES * request.entries


class ProduceExchange(Held):
    """A Produce request and its response."""

    __slots__ = ("_intercepted", "_is_deciding", "_is_due_again", "_is_order_checked",
                 "_is_prepared", "_order", "_phase", "_readdress", "_request", "_retried",
                 "_rewritten", "_steps")  # fmt: skip

    is_judged = True

    def __init__(
        self,
        request: ProduceRequest,
        connection: ProduceConnection,
        received: Exchange,
        early_outcomes: EarlyOutcomes | None = None,
    ) -> None:
        super().__init__(received, size_of(request))
        self.expects_response = request.acks != 0
        self._retried: RetriedBatches = NONE_RETRIED
        self._set_up(ReceivedRequest(request, connection, early_outcomes))

    def _set_up(self, request: ReceivedRequest) -> None:
        self._request = request
        self._intercepted = InterceptedBatches(request)
        self._order = SendOrder(request)
        self._steps: _Steps | None = None
        self._phase = ProducePhase.JUDGING
        self._is_prepared = self._is_deciding = self._is_due_again = False
        self._is_order_checked = False
        self._rewritten: Sequence[bytes | memoryview] = ()
        self._readdress = self.transform

    @property
    def policies(self) -> PolicySet:
        """The policies that judge the request."""
        return self._request.policies

    @property
    def error_code(self) -> int:
        """The first error of a partition that the gateway itself answers with; 0 without one."""
        return self._request.error_code

    @property
    def closes_connection(self) -> bool:
        """Whether an error has to be reported by closing the connection, because of acks=0."""
        return not self.expects_response and self.error_code != 0

    # It is received

    def prepare(self) -> Slices[None]:
        """Check the names, and register the batches, before anything else can take time.

        `start` does so where it has not been done.

        Yields:
            After each slice.
        """
        try:
            yield from self._request.read_partitions()
            yield from self._register_batches()
            self._is_prepared = True
        finally:
            if not self._is_prepared:
                self._intercepted.received.depart()

    def _register_batches(self) -> Slices[None]:
        """Register the batches that may be intercepted, before anything else can take time."""
        request, producers = self._request, self._request.gateway.producers
        plan = request.policies.plan
        if not (plan.has_interceptors or plan.may_quarantine or producers):
            return
        steps = 0
        for topic in request.topics:
            # Of a topic with only an id it is not known yet whether it has interceptors.
            # Interceptors may have been taken away, or may only observe now, while a batch that
            # came before is still being judged by them.
            name = topic.data.name
            is_registered = (
                name is None or request.is_intercepted(topic) or producers.arrivals.have_topic(name)
            )
            for partition in request.partitions_of(topic):
                if is_registered and partition.number >= 0:
                    self._intercepted.received.arrive(partition)
                steps += 1
                if steps % SLICE == 0:
                    yield

    # It is judged

    def start(self) -> None:
        """Start judging the request. From then on `decide` is to be called."""
        if not self._is_prepared:
            finish(self.prepare())
        request, intercepted = self._request, self._intercepted
        lookup = TopicLookup(request, intercepted.received, self._on_topics_known)
        submission = Submission(request, lookup, intercepted, self._on_verdict)
        self._steps = _Steps(lookup, submission, Verdicts(request, intercepted, self._on_judged))
        lookup.begin()

    def _on_topics_known(self) -> None:
        assert self._steps is not None
        self._request.policies = self._request.gateway.policies  # one set for the complete request
        self._steps.submission.begin(self._verdict_received)

    def _on_verdict(self, partition: ProducePartition, verdict: PolicyVerdict) -> None:
        if self._steps is None:  # cancelled
            return
        try:
            self._steps.verdicts.take(partition, verdict)
            self._verdict_received()
        except Exception as error:
            self._request.fail(error)

    def _verdict_received(self) -> None:
        if self._steps is not None and self._steps.submission.is_last_verdict():
            self._steps.verdicts.check()

    def _on_judged(self) -> None:
        self._steps = None  # which hold this exchange, and with it the request's bytes
        if self._request.answered and self.policies.whole_request:
            self._refuse_all()
        if not (self._request.answered or self._intercepted or self._order):
            pass_judged_topics(self._request.data, self._request.connection)
        self._continue_as(ProducePhase.JUDGED)

    def _continue_as(self, phase: ProducePhase) -> None:
        self._phase = phase
        self._request.connection.advance()

    def _refuse_all(self) -> None:
        """Refuse the other partitions of a request (`produce.rejection.scope=request`).

        If all errors are retriable, the other partitions get a retriable error, too.
        """
        is_final = not all(map(self._request.is_retried, self._request.answered))
        self._answer_others(_OTHER_PARTITION_REFUSED if is_final else _OTHER_PARTITION_RETRIED)

    def _answer_others(self, response: PartitionResponse) -> None:
        """Set the response of all partitions that have none, and are not stored already."""
        for partition in self._request.partitions:
            if not partition.is_answered and not self._intercepted.is_stored(partition):
                self._request.answer(partition, response)

    # It is decided what is sent

    def decide(self, *, is_next: bool) -> bool:
        """Decide about the request for the broker.

        The request is ready when the decision has also been written to the producer state.
        """
        if self._phase in {ProducePhase.JUDGING, ProducePhase.FETCHING_STATE}:
            return False
        if self._is_deciding:
            self._is_due_again = True
            return False
        if self._phase is not ProducePhase.DECIDED:
            self._is_deciding, self._is_due_again = True, False
            self._request.do(self._decide(is_next=is_next), self._on_decided)
        if self._phase is not ProducePhase.DECIDED:
            return False
        if self._intercepted.is_written:
            self._be_ready()
        return True

    def _be_ready(self) -> None:
        self.transition_to(ExchangeState.READY)
        for partition in self._intercepted.with_refused_letters:
            self._report_refused_letters(partition)

    def _report_refused_letters(self, partition: ProducePartition) -> None:
        """Report a batch whose dead letters their topic does not take."""
        plan, verdict, response = partition.topic.plan, partition.verdict, partition.response
        bad = [] if verdict is None else verdict.quarantined
        if plan is None or response is None or not bad:
            return
        refusal = replace(
            bad[0].verdict, outcome=Outcome.REFUSED, message=response.message, record_errors=()
        )
        self._request.report(partition, plan, refusal, bad[0].count)

    def _on_decided(self, is_decided: bool) -> None:
        self._is_deciding = False
        if is_decided:
            self._phase = ProducePhase.DECIDED
        if self._request.took_turns and (is_decided or self._is_due_again):
            self._request.connection.advance()  # `decide` has returned meanwhile

    def _decide(self, *, is_next: bool) -> Slices[bool]:
        """Decide; return whether it is decided."""
        if self._order and not (yield from self._is_order_known(is_next=is_next)):
            return False
        is_kept = bool(self._order) and (yield from self._order.keep_back())
        if self._retried:
            is_kept = (yield from self._keep_behind()) or is_kept
        if is_kept and self.policies.whole_request:
            self._refuse_all()
        if self._request.answered:
            yield from self._intercepted.on_early_responses()
        if self._intercepted:
            if not (yield from self._last_sequences_are_known(is_next=is_next)):
                return False
            yield from self._intercepted.decide(self._on_written)
        else:
            self._intercepted.received.depart()
        if self._request.answered and self.policies.whole_request:
            self._answer_others(_OTHER_PARTITION_RETRIED)
        if self._order or self._request.answered:
            yield from self._order.note_answers()
        if self._request.answered and not self._intercepted:
            omitted = yield from self._request.responses()
            self._rewritten = yield from self._request.data.rewrite_in_slices(omitted.keys(), {})
        return True

    def follow(self, retried: RetriedBatches) -> None:
        """Note that the client has to retry batches of an earlier request, which the broker has."""
        self._retried = merged(self._retried, retried)

    def _keep_behind(self) -> Slices[bool]:
        """Have the client retry the batches behind those that it has to retry."""
        retried, self._retried = self._retried, NONE_RETRIED
        return (yield from self._order.keep_behind(retried))

    def _keep_behind_late(self) -> Slices[None]:
        """Do that of a request that was decided, but waited for those before it."""
        if not (yield from self._keep_behind()):
            return
        if self.policies.whole_request and not self._intercepted:
            self._answer_others(_OTHER_PARTITION_RETRIED)
        yield from self._order.note_answers()
        if not self._intercepted:
            omitted = yield from self._request.responses()
            self._rewritten = yield from self._request.data.rewrite_in_slices(omitted.keys(), {})

    def _is_order_known(self, *, is_next: bool) -> Slices[bool]:
        """Return whether it is known which batches have to be retried before those of the request.

        Otherwise, when the request is next, the broker is queried for the batches that it has
        stored.
        """
        request = self._request
        if self._is_order_checked or not request.connection.may_support_describe_producers:
            return True
        batches = yield from self._order.possibly_past()
        if batches and is_next:
            self._is_order_checked = True

            def on_found(last_sequences: LastSequences) -> None:
                self._order.on_last_sequences(batches, last_sequences)
                self._continue_as(ProducePhase.JUDGED)

            self._phase = ProducePhase.FETCHING_STATE
            fetch_last_sequences(request, producer_ids(batches), on_found)
        return not batches

    def _last_sequences_are_known(self, *, is_next: bool) -> Slices[bool]:
        """Return whether no state of the producers of intercepted batches is missing.

        Otherwise, when the request is next, the broker is queried.
        """
        if self._phase is not ProducePhase.JUDGED:
            return True
        request = self._request
        unknown = yield from self._intercepted.unknown_last_sequences()
        if unknown and not is_next:
            return False
        if unknown and (
            request.connection.may_support_describe_producers or request.gateway.shared_producers
        ):
            self._phase = ProducePhase.FETCHING_STATE
            on_found = partial(self._on_last_sequences, unknown)
            fetch_last_sequences(request, unknown, on_found, doubted=self._intercepted.doubted)
            return False
        if unknown:
            self._intercepted.on_last_sequences(unknown, {})
        return True

    def _on_last_sequences(self, unknown: ProducerIds, last_sequences: LastSequences) -> None:
        shared = self._request.gateway.shared_producers
        if shared is None:
            self._apply_last_sequences(unknown, last_sequences)
        else:
            self._request.run(self._read_log_and_continue(shared, unknown, last_sequences))

    def _apply_last_sequences(self, unknown: ProducerIds, last_sequences: LastSequences) -> None:
        self._intercepted.on_last_sequences(unknown, last_sequences)
        self._continue_as(ProducePhase.STATE_FETCHED)

    async def _read_log_and_continue(
        self, shared: ClusterStore, unknown: ProducerIds, last_sequences: LastSequences
    ) -> None:
        """Read what other gateways have written about the batches that the broker has stored.

        They write before they send, so all of it is in the log by now.
        """
        try:
            try:
                await shared.read_to_end()
            except CompactedTopicError:
                last_sequences = {
                    (topic, number): LastSequence(REQUEST_TIMED_OUT)
                    for topic, numbers in unknown.items()
                    for number in numbers
                }
            self._apply_last_sequences(unknown, last_sequences)
        except Exception as error:
            self._request.fail(error)

    def _on_written(self) -> None:
        if (
            not self._intercepted.is_written
            or self._is_deciding
            or self.state is ExchangeState.CANCELLED
        ):
            return
        try:
            self._be_ready()
            self._request.connection.advance()
        except Exception as error:
            self._request.fail(error)

    # It is sent

    def outgoing(self) -> Buffers | None:
        """Return the bytes for the broker: the request, the rest of the request, or None."""
        request = self._request
        if self._retried:
            finish(self._keep_behind_late())
        if not self._intercepted:
            if not request.answered:
                frame = [request.data.frame]
                return self._merge_response_of(frame) if self._counts_stored else frame
            return self._merge_response_of(self._rewritten) or None
        replaced = self._intercepted.send()
        if request.answered and self.policies.whole_request:
            self._answer_others(_OTHER_PARTITION_RETRIED)
            finish(self._order.note_answers())
        left_out = {partition.position for partition in (*request.answered, *self._intercepted.due)}
        outgoing: Sequence[bytes | memoryview] = [request.data.frame]
        if left_out or replaced:
            outgoing = request.data.rewrite(left_out, replaced)
        if left_out or self._intercepted.needs_response or self._counts_stored:
            self._merge_response_of(outgoing)
        return outgoing or None

    @property
    def _counts_stored(self) -> bool:
        """Whether records count if the broker has stored them (`bad_shares`)."""
        topics = self._request.topics
        return any(topic.plan is not None and topic.plan.limits_bad_share for topic in topics)

    def _merge_response_of(
        self, outgoing: Sequence[bytes | memoryview]
    ) -> Sequence[bytes | memoryview]:
        """Merge the broker's response, if there will be one, with the local responses."""
        if outgoing and self.expects_response:
            self.transform = self._merge
        return outgoing

    def cancel(self) -> None:
        """Cancel the request: it is not sent, and later verdicts are ignored."""
        super().cancel()
        self._request.cancel()
        if self._steps is not None:
            self._steps.submission.let_others_submit()
            self._steps = None
        self._intercepted.cancel()

    # It is answered

    def retried(self, partitions: Sequence[tuple[bytes, int]]) -> Slices[RetriedBatches]:
        """Return the batches of the request for partitions for which the client retries them."""
        return (yield from batches_for(self._request.data, partitions))

    def local_response(self) -> Buffers | Slices[Buffers]:
        """Return the response to a request of which nothing was sent to the broker."""
        self._intercepted.acknowledge()
        return self._at_once_if_short(self._response(None))

    def _merge(self, frame: bytes) -> Buffers | Slices[Buffers]:
        return self._at_once_if_short(self._merge_in_slices(frame))

    def _at_once_if_short(self, slices: Slices[Buffers]) -> Buffers | Slices[Buffers]:
        return slices if self._request.is_long else finish(slices)

    def _response(self, broker: ProduceResponse | None) -> Slices[Buffers]:
        """Merge the local responses and the broker's."""
        local = yield from self._request.responses()
        return (yield from write_response(self._request.data, local, broker))

    def _merge_in_slices(self, frame: bytes) -> Slices[Buffers]:
        if self._readdress is not None:
            readdressed = self._readdress(frame)
            if isinstance(readdressed, Generator):
                readdressed = yield from readdressed
            frame = b"".join(readdressed)
        response = yield from read_response(frame, self.version)
        if self._counts_stored:
            yield from count_stored(self._request, response)
        yield from self._intercepted.on_response(response)
        self._intercepted.acknowledge()
        if not self._request.answered and not response.is_changed:
            return [frame]
        return (yield from self._response(response))
