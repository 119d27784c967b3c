"""Prometheus' text format (0.0.4) and OpenMetrics (1.0.0), without long turns of the event loop.

Rendering by the client library takes a few milliseconds for a thousand series. In a thread it would
hold up the event loop as well, which waits for the interpreter's lock for up to its switch interval
of 5 ms. So the text is written on the event loop, in slices with everything else in between.
"""

from __future__ import annotations

import asyncio
import math
import time
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

TEXT_TYPE: Final = "text/plain"
OPENMETRICS_TYPE: Final = "application/openmetrics-text"
CONTENT_TYPE: Final = f"{TEXT_TYPE}; version=0.0.4; charset=utf-8"
OPENMETRICS: Final = f"{OPENMETRICS_TYPE}; version=1.0.0; charset=utf-8"
_OF_COUNTERS: Final = "_total"
SLICE_S: Final = 0.0005
"""So long the event loop is kept at a time."""
_ESCAPES: Final = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


class Family(Protocol):
    """A metric with all its series."""

    @property
    def name(self) -> str:
        """The name of the metric."""

    @property
    def meaning(self) -> str:
        """Its meaning, in a sentence."""

    @property
    def kind(self) -> str:
        """Prometheus' type."""

    def blocks(self) -> Iterable[str]:
        """Return lines, those together that belong to one moment."""


class Gauge(NamedTuple):
    """A metric that was read at one moment, and has a number for each value of its labels.

    Attributes:
        meaning: What it means, in a sentence.
        labels: The names of the labels.
        values: The numbers, by the values of the labels.
        kind: Prometheus' type; a counter that is kept elsewhere is read, too.
    """

    name: str
    meaning: str
    labels: tuple[str, ...]
    values: Mapping[tuple[str, ...], float]
    kind: str = "gauge"

    def blocks(self) -> Iterator[str]:
        """Return the line of each series."""
        for values, value in self.values.items():
            yield f"{sample_name(self.name, self.labels, values)} {number(value)}\n"


def sample_name(name: str, labels: tuple[str, ...], values: tuple[str, ...]) -> str:
    """Return how the line of a series begins."""
    if not labels:
        return name
    # A name that a client sends may hold anything but a lone surrogate, once it has been decoded.
    pairs = (
        f'{label}="{value.translate(_ESCAPES)}"'
        for label, value in zip(labels, values, strict=True)
    )
    return f"{name}{{{','.join(pairs)}}}"


def number(value: float) -> str:
    """Write a number."""
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return str(value) if isinstance(value, int) else repr(value)


async def render(families: Iterable[Family], *, is_openmetrics: bool = False) -> bytes:
    """Write metrics, in slices of `SLICE_S`.

    Args:
        is_openmetrics: Whether to write OpenMetrics, where the name of a counter is without
            `_total` in its metadata, and the text has an end.
    """
    parts: list[str] = []
    slice_end = time.perf_counter() + SLICE_S
    for family in families:
        name = family.name.removesuffix(_OF_COUNTERS) if is_openmetrics else family.name
        parts.append(f"# HELP {name} {family.meaning}\n# TYPE {name} {family.kind}\n")
        for block in family.blocks():
            parts.append(block)
            if time.perf_counter() > slice_end:
                await asyncio.sleep(0)
                slice_end = time.perf_counter() + SLICE_S
    if is_openmetrics:
        parts.append("# EOF\n")
    return "".join(parts).encode("utf-8", "replace")
