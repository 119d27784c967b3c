"""What gateways counted at any moment of the last seconds, from counts that are read now and then.

Peers are read every few seconds, each at other times. For figures of all gateways, their counts are
needed at the same moment: they are estimated between two readings.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from penstock.gateway.observing.console.merging import add_counts, merge_totals
from penstock.gateway.observing.metrics.cells import BOUNDS
from penstock.gateway.observing.metrics.counts import CountedTotals

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

GAP_S: Final = 10.0
"""Counts of a longer time without a reading are in no rate: nobody knows when they were made."""
_KEPT: Final = 16
_NO_BUCKETS: Final = (0,) * (len(BOUNDS) + 1)
NOTHING: Final = CountedTotals(
    0, {}, 0, 0, _NO_BUCKETS, _NO_BUCKETS, _NO_BUCKETS, _NO_BUCKETS
)  # fmt: skip


class _Reading(NamedTuple):
    at: float
    run: str
    counted: CountedTotals
    """As the gateway says: since its start."""
    watched: CountedTotals
    """While it was read."""


class CountedOverTime:
    """The counts of one gateway; they only grow, also when it starts again."""

    def __init__(self) -> None:
        self._readings: deque[_Reading] = deque(maxlen=_KEPT)

    def put(self, moment: float, run: str, totals: CountedTotals) -> None:
        """Take the counts at a moment.

        Args:
            moment: The monotonic time in seconds.
            run: The id of the run of the gateway.
            totals: What it counted since its start.
        """
        if not self._readings:
            self._readings.append(_Reading(moment, run, totals, NOTHING))
            return
        last = self._readings[-1]
        watched = last.watched
        if moment - last.at <= GAP_S:
            is_same = run == last.run
            grown = _combine(totals, last.counted, lambda new, old: max(0, new - old))
            watched = merge_totals([watched, grown if is_same else totals])
        self._readings.append(_Reading(moment, run, totals, watched))

    def at(self, moment: float) -> CountedTotals:
        """Return what was counted until a moment, since the first reading."""
        later: _Reading | None = None
        for reading in reversed(self._readings):
            if reading.at <= moment:
                if later is None:
                    return reading.watched
                return _between(moment, reading, later)
            later = reading
        return later.watched if later is not None else NOTHING


def counted_at(moment: float, gateways: Iterable[CountedOverTime]) -> CountedTotals:
    """Return what all gateways counted until a moment."""
    return merge_totals([gateway.at(moment) for gateway in gateways])


def _between(moment: float, reading: _Reading, later: _Reading) -> CountedTotals:
    share = (moment - reading.at) / (later.at - reading.at)
    return _combine(later.watched, reading.watched, lambda new, old: old + (new - old) * share)


def _combine(
    new: CountedTotals, old: CountedTotals, combine: Callable[[Any, Any], Any]
) -> CountedTotals:
    names = add_counts((old.records, new.records))
    records = {name: combine(new.records.get(name, 0), old.records.get(name, 0)) for name in names}
    return CountedTotals(
        combine(new.requests, old.requests),
        records,
        combine(new.client_bytes, old.client_bytes),
        combine(new.broker_bytes, old.broker_bytes),
        tuple(map(combine, new.produce, old.produce)),
        tuple(map(combine, new.waiting, old.waiting)),
        tuple(map(combine, new.judging, old.judging)),
        tuple(map(combine, new.broker, old.broker)),
    )
