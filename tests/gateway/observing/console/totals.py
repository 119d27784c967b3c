"""Totals of a gateway that has done nothing."""

from penstock.gateway.observing.metrics.cells import BOUNDS
from penstock.gateway.observing.metrics.counts import CountedTotals


def buckets(**counts: int) -> tuple[int, ...]:
    return tuple(counts.get(f"b{number}", 0) for number in range(len(BOUNDS) + 1))


NOTHING = CountedTotals(0, {}, 0, 0, buckets(), buckets(), buckets(), buckets())
