"""Whether the resources of a process grow: least squares after a warm-up."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

WARM_UP: Final = 1 / 3
"""The part of the time that does not count: caches and the allocator's arenas are filled."""
_SECONDS_PER_HOUR: Final = 3600.0


@dataclass(frozen=True)
class Tolerance:
    """The permitted growth: a line is flat if it stays below one of both limits.

    Attributes:
        rise: The growth in the measured time, in the unit of the series.
        per_hour: The growth per hour at the same rate.
    """

    rise: float
    per_hour: float


@dataclass(frozen=True)
class Line:
    """A straight line through samples.

    Attributes:
        mean: The mean of the samples.
        per_hour: The slope.
        rise: From the first sample to the last, along the line.
    """

    mean: float
    per_hour: float
    rise: float

    def is_flat(self, tolerance: Tolerance) -> bool:
        """Whether its growth is within the tolerance."""
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
