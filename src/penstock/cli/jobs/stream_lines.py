"""What a stream shows while it runs: lines on standard error, and its metrics."""

from __future__ import annotations

import contextlib
import sys
import time
from typing import TYPE_CHECKING, Final

from penstock.cli.jobs.job import show_counts
from penstock.jobs.report.counts import RecordCounts, by_outcome
from penstock.progress import LINE_EVERY_S

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Self

    from penstock.jobs.tasks.writing_task import WritingResult
    from penstock.kafka.cluster.ranges import Partition
    from penstock.progress import Progress
    from penstock.spark.streams.figures import StreamFigures
    from penstock.spark.streams.offsets import MicroBatch

SAME_EVERY_S: Final = 60.0
"""How often the same warning is repeated."""
PUBLISHED_EVERY_S: Final = 5.0
_REASONS_MAX: Final = 3
_TEXT_MAX: Final = 200


class StreamOutput:
    """Publishes the figures of a stream, and prints its warnings."""

    def __init__(
        self, publish: Callable[[], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Start.

        Args:
            publish: Publishes the figures.
            clock: Returns seconds that never go back.
        """
        self._publish = publish
        self._clock = clock
        self._next_published = float("-inf")
        self._last_warning = ""
        self._last_warning_s = float("-inf")

    def publish_if_due(self) -> None:
        """Publish the figures, unless that was a moment ago."""
        if self._clock() >= self._next_published:
            self.publish()

    def publish(self) -> None:
        """Publish the figures; a file that cannot be written is a warning."""
        self._next_published = self._clock() + PUBLISHED_EVERY_S
        try:
            self._publish()
        except OSError as error:
            self.warn(f"metrics cannot be written: {error.strerror}")

    def warn(self, text: str) -> None:
        """Report a problem; the same text now and then."""
        now = self._clock()
        if text != self._last_warning or now - self._last_warning_s >= SAME_EVERY_S:
            self._last_warning, self._last_warning_s = text, now
            _write(f"warning: {text}")


class StreamLines:
    """Adds up figures, and prints them; an observer of a stream.

    A line covers all micro-batches since the line before, so that nothing is left out. As a
    context it prints the rest at its end.
    """

    def __init__(
        self,
        figures: StreamFigures,
        publish: Callable[[], None],
        *,
        is_terminal: bool,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Start.

        Args:
            publish: Publishes the figures.
            is_terminal: Whether a bar is drawn instead of lines of counts.
            clock: Returns seconds that never go back.
        """
        self._figures = figures
        self._output = StreamOutput(publish, clock)
        self._is_terminal = is_terminal
        self._clock = clock
        self._counts = RecordCounts()
        self._numbers: list[int] = []
        self._next_line = float("-inf")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._print_counts()
        self._output.publish()

    @contextlib.contextmanager
    def shown(self, progress: Progress, what: str) -> Iterator[None]:
        """Show how many records are done, and how fast, where there is a terminal.

        Args:
            progress: Of the command.
        """
        if not self._is_terminal:
            yield
            return
        with progress.phase(what, self._figures.outcomes.total):
            yield

    def looked(self, behind: Mapping[Partition, int], unavailable: int) -> None:
        """See `penstock.spark.streams.stream.Observer`."""
        self._figures.look(behind, unavailable, time.time())
        self._print_and_publish_if_due()

    def done(self, batch: MicroBatch, result: WritingResult, seconds: float) -> None:
        """See `penstock.spark.streams.stream.Observer`."""
        self._figures.add(result, seconds, time.time())
        if result.counts.outcomes.total():
            self._counts.merge(result.counts)
            self._numbers.append(batch.number)
        self._print_and_publish_if_due()

    def warn(self, text: str) -> None:
        """See `penstock.spark.streams.stream.Observer`."""
        self._output.warn(text)

    def note(self, text: str) -> None:
        """See `penstock.spark.streams.stream.Observer`."""
        _write(text)

    def _print_and_publish_if_due(self) -> None:
        if self._clock() >= self._next_line:
            self._print_counts()
        self._output.publish_if_due()

    def _print_counts(self) -> None:
        if not self._numbers or self._is_terminal:
            return
        first, last = self._numbers[0], self._numbers[-1]
        name = f"batch {first}" if first == last else f"batches {first} to {last}"
        counts = by_outcome(self._counts.outcomes)
        reasons = "".join(
            f"; {count:,} of {reason.topic} {reason.outcome} by {reason.policy}: "
            f"{one_line(reason.message or '')}"
            for reason, count in self._counts.reasons.most_common(_REASONS_MAX)[0]
        )
        _write(f"{name}: {show_counts(counts)}; {self._figures.lag:,} behind{reasons}")
        self._counts, self._numbers = RecordCounts(), []
        self._next_line = self._clock() + LINE_EVERY_S


def one_line(text: str) -> str:
    """Return a policy's message as a part of a line."""
    shown = "".join(
        character if character.isprintable() else " " for character in text[: _TEXT_MAX + 1]
    )
    return f"{shown[:_TEXT_MAX]}..." if len(text) > _TEXT_MAX else shown


def _write(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()
