"""Makes rates and latencies of a few seconds from counts since the start."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.gateway.observing.metrics.cells import BOUNDS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.gateway.observing.metrics.counts import CountedTotals


class Latency(NamedTuple):
    """How long something took, in seconds; None if it did not happen."""

    p50: float | None
    p99: float | None

    def as_json(self) -> dict[str, float | None]:
        """Return it as the console's pages get it."""
        return {"p50": _rounded(self.p50), "p99": _rounded(self.p99)}


class ConsoleFigures(NamedTuple):
    """The figures of an interval.

    Attributes:
        at: When they ended, in seconds since the epoch.
        seconds: How many.
        requests: Requests a second.
        records: Judged records a second, by outcome.
        client_bytes: Bytes a second from clients.
        broker_bytes: Bytes a second from brokers.
        produce: Latency of Produce requests, as clients see it.
        waiting: For a worker.
        judging: By policies.
        broker: Of the broker, as far as requests were held until it answered.
    """

    at: float
    seconds: float
    requests: float
    records: Mapping[str, float]
    client_bytes: float
    broker_bytes: float
    produce: Latency
    waiting: Latency
    judging: Latency
    broker: Latency

    def as_json(self) -> dict[str, Any]:
        """Return it as the console's pages get it."""
        return {
            "at": round(self.at, 3),
            "seconds": round(self.seconds, 3),
            "requests": _rounded(self.requests),
            "records": {outcome: _rounded(rate) for outcome, rate in self.records.items()},
            "client_bytes": _rounded(self.client_bytes),
            "broker_bytes": _rounded(self.broker_bytes),
            "produce": self.produce.as_json(),
            "waiting": self.waiting.as_json(),
            "judging": self.judging.as_json(),
            "broker": self.broker.as_json(),
        }


def figures_between(
    previous_totals: CountedTotals, current_totals: CountedTotals, *, seconds: float, end_s: float
) -> ConsoleFigures:
    """Return what happened between two moments.

    Args:
        previous_totals: What had been counted at the first.
        current_totals: What had been counted at the second.
        seconds: The time between them.
        end_s: The second, in seconds since the epoch.
    """

    def rate(then: float, now: float) -> float:
        return (now - then) / seconds if seconds > 0 else 0.0

    return ConsoleFigures(
        end_s,
        seconds,
        rate(previous_totals.requests, current_totals.requests),
        {
            outcome: rate(previous_totals.records.get(outcome, 0), count)
            for outcome, count in current_totals.records.items()
        },
        rate(previous_totals.client_bytes, current_totals.client_bytes),
        rate(previous_totals.broker_bytes, current_totals.broker_bytes),
        _latency(previous_totals.produce, current_totals.produce),
        _latency(previous_totals.waiting, current_totals.waiting),
        _latency(previous_totals.judging, current_totals.judging),
        _latency(previous_totals.broker, current_totals.broker),
    )


def quantile(counts: Sequence[float], share: float) -> float | None:
    """Estimate a quantile from buckets, as Prometheus' `histogram_quantile` does.

    Args:
        counts: How many are in each bucket of `BOUNDS`, and in none of them.
        share: Between 0 and 1.

    Returns:
        Seconds; at most the last bound; None if nothing was counted.
    """
    rank = share * sum(counts)
    if not rank:
        return None
    below = 0.0
    for (lower, upper), count in zip(pairwise((0.0, *BOUNDS)), counts, strict=False):
        if count and below + count >= rank:
            return lower + (upper - lower) * (rank - below) / count
        below += count
    return BOUNDS[-1]


def _latency(previous_counts: Sequence[int], current_counts: Sequence[int]) -> Latency:
    counts = [now - then for then, now in zip(previous_counts, current_counts, strict=True)]
    return Latency(quantile(counts, 0.5), quantile(counts, 0.99))


def _rounded(value: float | None) -> float | None:
    """Four digits say enough; the texts are shorter."""
    return None if value is None else float(f"{value:.4g}")
