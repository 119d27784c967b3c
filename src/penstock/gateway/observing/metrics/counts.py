"""Everything that a gateway counts, by the name under which Prometheus reads it."""

from __future__ import annotations

import time
from bisect import bisect_left
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from penstock.engine.verdict import ABANDONED, ACCEPTED, UNJUDGED, FailureCause, Outcome
from penstock.engine.workers.observer import WorkerEnd
from penstock.gateway.observing.metrics.cells import BOUNDS, Cell, Histogram, MetricCounter
from penstock.gateway.observing.metrics.exposition import Gauge
from penstock.kafka.records.header import record_count
from penstock.kafka.wire.schemas import API_NAMES
from penstock.queued_output import log_lines_lost

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from penstock.engine.plans.topic_plan import TopicPlan
    from penstock.engine.verdict import PolicyVerdict
    from penstock.gateway.observing.metrics.exposition import Family

Counted = tuple[int, list[int], float]
"""An API key, how many requests are in each bucket, and how many seconds they took together."""
AcceptedOf = tuple[str, str, int, list[int], float]
"""A topic, the policies that judged it, how many records were accepted, how many batches are in
each bucket, and how many seconds they took together."""
Waited = tuple[str, list[int], float]
"""The policies of batches, how many are in each bucket, and how many seconds they waited
together."""
_clock = time.monotonic
OTHER_API: Final = "other"
"""An API that is not known here: a number that a client may choose."""
_PRODUCE: Final = "Produce"
WOULD_CHANGE: Final = "would_change"
NOT_OBSERVED: Final = "not_observed"
_API_NAMES: Final = {
    key: "".join(part.capitalize() for part in name.split("_")) for key, name in API_NAMES.items()
}


_WOULD: Final = {
    Outcome.REFUSED: "would_refuse",
    Outcome.DROPPED: "would_drop",
    Outcome.FAILED: "would_fail",
    Outcome.POSTPONED: "would_postpone",
}


def would(outcome: Outcome) -> str:
    """Return the label for what would have become of observed records."""
    return _WOULD[outcome]


class Answered(Protocol):
    """A request that is done; see `penstock.gateway.context.exchange.Exchange`."""

    api_key: int
    was_held: bool
    received_at: float
    sent_at: float

    @property
    def error_code(self) -> int:
        """The first error that the gateway itself answers with; 0 without one."""


class CountedTotals(NamedTuple):
    """The counts since the start, as far as the console shows them.

    Attributes:
        requests: How many were answered.
        records: How many were judged, by outcome.
        produce: Produce requests by how long they took, in the buckets of a histogram.
        waiting: Batches by how long they waited for a worker.
        judging: Batches by how long they were judged.
        broker: Produce requests by how long the broker took.
    """

    requests: int
    records: Mapping[str, int]
    client_bytes: int
    broker_bytes: int
    produce: tuple[int, ...]
    waiting: tuple[int, ...]
    judging: tuple[int, ...]
    broker: tuple[int, ...]


class _CellsOfApis(dict[int, Cell]):
    """The times of requests by API key; those of unknown APIs are together."""

    def __init__(self, whole: Histogram) -> None:
        super().__init__()
        self._whole = whole

    def __missing__(self, api_key: int) -> Cell:
        name = _API_NAMES.get(api_key, OTHER_API)
        cell = self._whole.cell(name)
        if name != OTHER_API:  # of those there are 65,000
            self[api_key] = cell
        return cell


class GatewayCounts:
    """The counters of a gateway; a `penstock.engine.workers.observer.WorkerObserver`.

    Attributes:
        client_bytes: The bytes received from clients.
        broker_bytes: The bytes received from brokers.
        records_max: The most records of a batch that are counted, if its header has more.
        lane_errors: Errors of the native threads, which closed a connection or ended a thread.
        collect_more: Called before the counts are read: adds the counts that were made elsewhere.
    """

    def __init__(self, *, records_max: int) -> None:
        self.records_max = records_max
        self.client_bytes = 0
        self.broker_bytes = 0
        self.lane_errors = 0
        self.collect_more: Callable[[], None] = lambda: None
        self._refused_requests: dict[tuple[str, ...], float] = {}
        self._whole = Histogram(
            "penstock_request_seconds",
            "Time from the first byte of a request to its response, by API.",
            "api",
        )
        self._cells = _CellsOfApis(self._whole)
        self._broker = Histogram(
            "penstock_broker_seconds",
            "Time from sending a held request to the broker to its response, by API.",
            "api",
        )
        self._waiting = Histogram(
            "penstock_waiting_seconds",
            "Time that a batch, or a request about a topic, waited for a worker, by the classes "
            "that judge it.",
            "policy",
        )
        self._judging = Histogram(
            "penstock_judging_seconds",
            "Time to judge a batch, or a request about a topic, by the classes that judge it.",
            "policy",
        )
        self._records = MetricCounter(
            "penstock_records_total",
            "Records of judged batches, by outcome; all records of a refused batch count.",
            ("topic", "policy", "outcome"),
            bounded_labels=("outcome",),
        )
        self._topic_verdicts = MetricCounter(
            "penstock_topic_verdicts_total",
            "Verdicts about topics and configs (KIP-108, KIP-133).",
            ("policy", "outcome"),
            bounded_labels=("outcome",),
        )
        self._restarts = MetricCounter(
            "penstock_worker_restarts_total",
            "Policy workers that ended unexpectedly, by cause.",
            ("cause",),
        )
        self._policy_events = MetricCounter(
            "penstock_policy_events_total",
            "Events that policies count, such as look-ups in a schema registry.",
            ("event", "result"),
            bounded_labels=(),
        )
        self._reloads = MetricCounter(
            "penstock_reload_total", "Reloads of the file (SIGHUP), by result.", ("result",)
        )
        for cause in WorkerEnd:
            self._restarts.add((cause.value,), 0)
        for result in ("ok", "failed"):
            self._reloads.add((result,), 0)

    def families(self) -> Iterator[Family]:
        """Return everything that was counted."""
        self.collect_more()
        yield self._requests()
        times = self._whole, self._broker, self._waiting, self._judging
        verdicts = self._records, self._topic_verdicts, self._policy_events
        counters = (*times, *verdicts, self._restarts, self._reloads)
        yield from counters
        yield Gauge(
            "penstock_received_bytes_total",
            "Bytes of requests from clients and of responses from brokers, without TLS.",
            ("side",),
            {("client",): self.client_bytes, ("broker",): self.broker_bytes},
            "counter",
        )
        yield Gauge(
            "penstock_lane_errors_total",
            "Errors of the native threads themselves. Each closed a connection, or ended a thread.",
            (),
            {(): self.lane_errors},
            "counter",
        )
        yield Gauge(
            "penstock_log_lines_lost_total",
            "Lines of the log that could not be written to standard error.",
            (),
            {(): log_lines_lost()},
            "counter",
        )
        yield Gauge(
            "penstock_series_over_bound_total",
            "Events that were counted as (other), because the metric has its maximum of series.",
            ("metric",),
            {(counter.name,): counter.over_bound for counter in counters},
            "counter",
        )

    # Requests

    def answered(self, exchange: Answered) -> None:
        """Count a request that is done. Every request takes this time."""
        now = _clock()
        cell = self._cells[exchange.api_key]
        seconds = now - exchange.received_at
        cell.counts[bisect_left(BOUNDS, seconds)] += 1  # as `observe`, without a call
        cell.total_s += seconds
        if exchange.was_held:
            self._held_answered(exchange, now)

    def forwarded(
        self,
        whole: Iterable[Counted],
        broker: Iterable[Counted],
        accepted: Iterable[AcceptedOf],
        client_bytes: int,
        broker_bytes: int,
        waits: Iterable[Waited],
    ) -> None:
        """Count requests that were forwarded natively.

        Args:
            whole: The time of requests.
            broker: The time of the broker for held requests.
            accepted: The batches that were judged.
            client_bytes: Bytes received from clients.
            broker_bytes: Bytes received from brokers.
            waits: How long batches waited for a worker, which has accepted them.
        """
        for api_key, buckets, total_s in whole:
            self._cells[api_key].add(buckets, total_s)
        for api_key, buckets, total_s in broker:
            self._broker.cell(_API_NAMES.get(api_key, OTHER_API)).add(buckets, total_s)
        for topic, policies, records, buckets, total_s in accepted:
            self._records.add((topic, policies, "accepted"), records)
            self._judging.cell(policies).add(buckets, total_s)
        for policies, buckets, total_s in waits:
            self._waiting.cell(policies).add(buckets, total_s)
        self.client_bytes += client_bytes
        self.broker_bytes += broker_bytes

    def _held_answered(self, exchange: Answered, now: float) -> None:
        name = _API_NAMES[exchange.api_key]
        if exchange.sent_at:
            self._broker.observe(name, now - exchange.sent_at)
        code = exchange.error_code
        if code:
            labels = name, str(code)
            self._refused_requests[labels] = self._refused_requests.get(labels, 0) + 1

    def _requests(self) -> Gauge:
        refused = self._refused_requests
        values: dict[tuple[str, ...], float] = {
            (name, "0"): sum(cell.counts) for name, cell in self._whole.cells.items()
        }
        for (name, _), count in refused.items():
            values[name, "0"] -= count
        return Gauge(
            "penstock_requests_total",
            "Completed requests, by API and by the gateway's first error code in a Produce "
            "request; 0 without an error.",
            ("api", "code"),
            {**values, **refused},
            "counter",
        )

    # Verdicts

    def accepted(
        self, plan: TopicPlan, data: bytes | memoryview, verdict: PolicyVerdict = ACCEPTED
    ) -> None:
        """Count the records of an accepted batch.

        Args:
            plan: The policies that judged it.
            data: The batch, as its client sent it.
            verdict: The verdict on it, with dropped records and objections.
        """
        count = min(record_count(data), self.records_max)
        for part in verdict.diverted:
            part_verdict = part.verdict
            self._records.add(
                (plan.topic, part_verdict.policy, part_verdict.outcome.value), part.count
            )
            if part_verdict.outcome is Outcome.MARKED:
                count = max(0, count - part.count)
        replacement = verdict.replacement
        if replacement is not None and replacement.dropped:
            dropped = len(replacement.dropped) - len(replacement.quarantined)
            if dropped:
                labels = plan.topic, plan.interceptor_names, Outcome.DROPPED.value
                self._records.add(labels, dropped)
            count = max(0, count - len(replacement.dropped))
        self._records.add((plan.topic, plan.policy_names, "accepted"), count)

    def refused(self, topic: str, data: bytes | memoryview, verdict: PolicyVerdict) -> None:
        """Count the records of a batch that is not stored."""
        count = min(record_count(data), self.records_max)
        is_abandoned = verdict.cause is FailureCause.ABANDONED
        outcome = ABANDONED if is_abandoned else verdict.outcome.value
        self._records.add((topic, verdict.policy, outcome), count)

    def observed(self, plan: TopicPlan, data: bytes | memoryview, verdict: PolicyVerdict) -> None:
        """Count the records of a batch that is forwarded with any verdict (`penstock.mode`).

        Args:
            plan: The policies that judged it.
            data: The batch, as its client sent it, and as it is stored.
        """
        count = min(record_count(data), self.records_max)
        if verdict.outcome is not Outcome.ACCEPTED:
            self._records.add((plan.topic, verdict.policy, would(verdict.outcome)), count)
            return
        replacement = verdict.replacement
        if replacement is None:
            self._records.add((plan.topic, plan.policy_names, "accepted"), count)
            return
        dropped = min(len(replacement.dropped), count)
        interceptor_names = plan.interceptor_names
        if dropped:
            self._records.add((plan.topic, interceptor_names, would(Outcome.DROPPED)), dropped)
        if count > dropped:
            self._records.add((plan.topic, interceptor_names, WOULD_CHANGE), count - dropped)

    def not_observed(self, plan: TopicPlan, data: bytes | memoryview) -> None:
        """Count the records of a batch that was forwarded, and not judged for lack of room."""
        self.records_not_observed(plan, min(record_count(data), self.records_max))

    def records_not_observed(self, plan: TopicPlan, count: int) -> None:
        """Count records of batches that were forwarded, and not judged for lack of room."""
        self._records.add((plan.topic, plan.policy_names, NOT_OBSERVED), count)

    def topic_judged(self, policy: str, verdict: PolicyVerdict) -> None:
        """Count a verdict about a topic or about configs."""
        self._topic_verdicts.add((policy, verdict.outcome.value))

    def topic_observed(self, policy: str, verdict: PolicyVerdict) -> None:
        """Count a verdict about a topic or configs that changes nothing (`penstock.mode`)."""
        accepted = verdict.outcome is Outcome.ACCEPTED
        outcome = verdict.outcome.value if accepted else would(verdict.outcome)
        self._topic_verdicts.add((policy, outcome))

    def topic_not_observed(self, policy: str) -> None:
        """Count a request about a topic that was forwarded, and not judged for lack of room."""
        self._topic_verdicts.add((policy, NOT_OBSERVED))

    def accepted_inline(self, policies: str, seconds: float) -> None:
        """Count how long a batch was judged without a worker."""
        self._judging.observe(policies, seconds)

    # Workers

    def judged(self, policies: str, cause: FailureCause | None, waited_s: float, judged_s: float,
               ) -> None:  # fmt: skip
        """Count how long a batch waited, and how long it was judged."""
        self._waiting.observe(policies, waited_s)
        if cause not in UNJUDGED:
            self._judging.observe(policies, judged_s)

    def judged_beside(self, policies: str, cause: FailureCause | None, judged_s: float) -> None:
        """Count how long a batch was judged that is only observed (`penstock.mode`)."""
        if cause not in UNJUDGED:
            self._judging.observe(policies, judged_s)

    def policy_event(self, event: str, result: str, amount: int) -> None:
        """Count an event of a policy (`penstock.policy.count_event`)."""
        self._policy_events.add((event, result), amount)

    def ended(self, cause: WorkerEnd) -> None:
        """Count a worker that ended unexpectedly."""
        self._restarts.add((cause.value,))

    def reloaded(self, *, worked: bool) -> None:
        """Count a reload."""
        self._reloads.add(("ok" if worked else "failed",))

    # What the console shows

    def totals(self) -> CountedTotals:
        """Return the counts since the start."""
        self.collect_more()
        records: dict[str, int] = {}
        for (_, _, outcome), count in self._records.items():
            records[outcome] = records.get(outcome, 0) + count
        return CountedTotals(
            sum(sum(cell.counts) for cell in self._whole.cells.values()),
            records,
            self.client_bytes,
            self.broker_bytes,
            _sum_of(_of_produce(self._whole)),
            _sum_of(self._waiting.cells.values()),
            _sum_of(self._judging.cells.values()),
            _sum_of(_of_produce(self._broker)),
        )

    def records_by_topic(self) -> dict[str, dict[str, int]]:
        """Return how many records were judged since the start, by topic and outcome."""
        self.collect_more()
        counts_by_topic: dict[str, dict[str, int]] = {}
        for (topic, _, outcome), count in self._records.items():
            of_topic = counts_by_topic.setdefault(topic, {})
            of_topic[outcome] = of_topic.get(outcome, 0) + count
        return counts_by_topic

    def restarts(self) -> dict[str, int]:
        """Return how many workers ended unexpectedly, by cause."""
        return {cause: count for (cause,), count in self._restarts.items()}


def _of_produce(times: Histogram) -> list[Cell]:
    return [cell for name, cell in times.cells.items() if name == _PRODUCE]


def _sum_of(cells: Iterable[Cell]) -> tuple[int, ...]:
    none = [0] * (len(BOUNDS) + 1)
    return tuple(map(sum, zip(none, *(cell.counts for cell in cells), strict=True)))
