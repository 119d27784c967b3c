"""Counters and histograms that cost little to count in, with a bounded number of series.

The client library of Prometheus takes locks for every increment, and looks labels up under a lock:
that takes many times as long. All of this runs in one thread, that of the event loop, so a cell is
a plain number in a dictionary.

Labels may depend on the clients, as the name of a topic does. So a metric has at
most `series_max` series, first come, first served; further series are counted with `OTHER`
for these labels, and `penstock_series_over_bound_total` counts how often.
"""

from __future__ import annotations

import operator
from bisect import bisect_left
from typing import TYPE_CHECKING, Final

import structlog

from penstock.gateway.observing.metrics.exposition import number, sample_name

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    Labels = tuple[str, ...]

log = structlog.get_logger()

OTHER: Final = "(other)"
"""The value of labels beyond the maximum; no topic and no class has such a name."""
SERIES_MAX: Final = 1000
BOUNDS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0,
                 10.0, 30.0)  # fmt: skip
"""The upper bounds of buckets, in seconds: from a check of a few records to a client's timeout."""


class MetricCounter:
    """A metric that only grows, by labels.

    Attributes:
        name: The metric's name.
        meaning: The counted events, in a sentence.
        labels: The names of the labels.
        over_bound: How many times a series more would have been needed.
    """

    kind = "counter"

    def __init__(
        self,
        name: str,
        meaning: str,
        labels: tuple[str, ...] = (),
        *,
        bounded_labels: Collection[str] = (),
        series_max: int = SERIES_MAX,
    ) -> None:
        """Make a counter without series; without labels, its series is 0.

        Args:
            name: The metric's name.
            meaning: The counted events.
            labels: The names of the labels.
            bounded_labels: Those of them that keep their value in a series too many, as they have
                few.
            series_max: The most series.
        """
        self.name = name
        self.meaning = meaning
        self.labels = labels
        self.over_bound = 0
        self._kept = bounded_labels
        self._series_max = series_max
        self._counts: dict[Labels, int] = {}
        self._samples: dict[Labels, str] = {}
        if not labels:
            self.add((), 0)

    def add(self, values: Labels, count: int = 1) -> None:
        """Count.

        Args:
            values: The values of the labels, in their order.
            count: How many.
        """
        try:
            self._counts[values] += count
        except KeyError:
            self._add_first(values, count)

    def _add_first(self, values: Labels, count: int) -> None:
        if len(self._counts) >= self._series_max:
            values = self._over(values)
        if values not in self._samples:
            self._counts[values] = 0
            self._samples[values] = sample_name(self.name, self.labels, values)
        self._counts[values] += count

    def _over(self, values: Labels) -> Labels:
        if not self.over_bound:
            warn_of_bound(self.name, self._series_max)
        self.over_bound += 1
        named = zip(self.labels, values, strict=True)
        return tuple(value if label in self._kept else OTHER for label, value in named)

    def value(self, *values: str) -> int:
        """Return the count with these labels."""
        return self._counts.get(values, 0)

    def items(self) -> list[tuple[Labels, int]]:
        """Return the counts, by the values of the labels."""
        return list(self._counts.items())

    def blocks(self) -> Iterator[str]:
        """Return the lines of each series."""
        for values, sample in list(self._samples.items()):
            yield f"{sample} {self._counts[values]}\n"


class Cell:
    """A series of a histogram.

    Attributes:
        total_s: The sum of the observed times.
        counts: How many are in each bucket, and not in the bucket before.
    """

    __slots__ = ("counts", "total_s")

    def __init__(self) -> None:
        self.total_s = 0.0
        self.counts = [0] * (len(BOUNDS) + 1)

    def observe(self, seconds: float) -> None:
        """Count a time."""
        self.counts[bisect_left(BOUNDS, seconds)] += 1
        self.total_s += seconds

    def add(self, counts: Iterable[int], total_s: float) -> None:
        """Add counts that were made elsewhere in the same buckets."""
        self.counts = [*map(operator.add, self.counts, counts)]
        self.total_s += total_s


class Histogram:
    """Times in buckets, by a label.

    Attributes:
        name: The metric's name.
        meaning: The measured time, in a sentence.
        labels: The name of the label.
        cells: The series, by the value of the label.
        over_bound: How many times a series more would have been needed.
    """

    kind = "histogram"

    def __init__(self, name: str, meaning: str, label: str, *, series_max: int = 100) -> None:
        """Make a histogram without series.

        Args:
            name: The metric's name.
            meaning: The measured time.
            label: The name of the label.
            series_max: The most values of the label.
        """
        self.name = name
        self.meaning = meaning
        self.labels = (label,)
        self.over_bound = 0
        self._series_max = series_max
        self.cells: dict[str, Cell] = {}
        self._samples: dict[str, tuple[str, ...]] = {}

    def cell(self, value: str) -> Cell:
        """Return the series of a value of the label."""
        cell = self.cells.get(value)
        return cell if cell is not None else self._add_first(value)

    def observe(self, value: str, seconds: float) -> None:
        """Count a time."""
        self.cell(value).observe(seconds)

    def _add_first(self, value: str) -> Cell:
        if len(self.cells) >= self._series_max:
            if not self.over_bound:
                warn_of_bound(self.name, self._series_max)
            self.over_bound += 1
            value = OTHER
        if value not in self.cells:
            self.cells[value] = Cell()
            self._samples[value] = self._names(value)
        return self.cells[value]

    def _names(self, value: str) -> tuple[str, ...]:
        labels = (*self.labels, "le")
        buckets = [
            sample_name(f"{self.name}_bucket", labels, (value, number(bound)))
            for bound in (*BOUNDS, float("inf"))
        ]
        ends = [
            sample_name(f"{self.name}_{end}", self.labels, (value,)) for end in ("sum", "count")
        ]
        return (*buckets, *ends)

    def blocks(self) -> Iterator[str]:
        """Return the lines of each series; those of a series belong to the same moment."""
        for value, (*buckets, total, count) in list(self._samples.items()):
            cell, below = self.cells[value], 0
            lines = []
            for sample, bucket_count in zip(buckets, cell.counts, strict=True):
                below += bucket_count
                lines.append(f"{sample} {below}\n")
            yield f"{''.join(lines)}{total} {number(cell.total_s)}\n{count} {below}\n"


def warn_of_bound(name: str, series_max: int) -> None:
    """Log, once for each metric, that further series are counted together."""
    log.warning("a metric has too many series: others are counted together", metric=name,
                series_max=series_max)  # fmt: skip
