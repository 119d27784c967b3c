"""Whether the resources of a process grow: least squares after a warm-up."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

WARM_UP: Final = 1 / 3
"""The part of the time that does not count: caches fill, and the allocator's arenas."""
_SECONDS_PER_HOUR: Final = 3600.0


@dataclass(frozen=True)
class Tolerance:
    """How much may grow: flat is what stays below one of both.

    Attributes:
        rise: In the time that is looked at, in the unit of the series.
        per_hour: If it went on like that for an hour.
    """

    rise: float
    per_hour: float


@dataclass(frozen=True)
class Line:
    """A straight line through samples.

    Attributes:
        mean: Of the samples.
        per_hour: The slope.
        rise: From the first sample to the last, along the line.
    """

    mean: float
    per_hour: float
    rise: float

    def is_flat(self, tolerance: Tolerance) -> bool:
        """Whether it grows by no more than is tolerated."""
        return self.rise <= tolerance.rise or self.per_hour <= tolerance.per_hour


def after_warm_up(samples: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the samples that count, of (seconds, value) in order."""
    if not samples:
        return []
    begin, end = samples[0][0], samples[-1][0]
    return [sample for sample in samples if sample[0] >= begin + (end - begin) * WARM_UP]


def line(samples: Sequence[tuple[float, float]]) -> Line | None:
    """Return the line of least squares; None for fewer than three samples."""
    if len(samples) < 3:
        return None
    count = len(samples)
    mean_x = sum(x for x, _ in samples) / count
    mean_y = sum(y for _, y in samples) / count
    spread = sum((x - mean_x) ** 2 for x, _ in samples)
    if not spread:
        return None
    slope = sum((x - mean_x) * (y - mean_y) for x, y in samples) / spread
    rise = slope * (samples[-1][0] - samples[0][0])
    return Line(mean_y, slope * _SECONDS_PER_HOUR, rise)
