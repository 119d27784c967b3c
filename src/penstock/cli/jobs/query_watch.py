"""The figures of `split --streaming` to folders and tables, which a query of Spark has."""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from typing import TYPE_CHECKING, Final

from penstock.batch_jobs.counts import TaskCounts
from penstock.cli.jobs.job import warn
from penstock.cli.jobs.stream_lines import PUBLISHED_EVERY_S
from penstock.errors import UnavailableError
from penstock.progress import LINE_EVERY_S
from penstock.stored.tasks.writing_task import WritingResult

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql.streaming.query import StreamingQuery

    from penstock.cluster.ranges import Partition
    from penstock.spark.streams.stream_figures import StreamFigures

_NEVER: Final = float("-inf")


class QueryWatch:
    """Adds up what a query does, and publishes it, with how far the query is behind."""

    def __init__(
        self,
        figures: StreamFigures,
        publish: Callable[[], None],
        ends: Callable[[], Mapping[Partition, int]],
        topic: str,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Start.

        Args:
            figures: The total.
            publish: Publishes the figures.
            ends: Returns where the topics end now.
            topic: The topic of the records; empty if there are several.
            clock: Returns seconds that never go back.
        """
        self._figures = figures
        self._publish = publish
        self._ends = ends
        self._topic = topic
        self._clock = clock
        self._batch: int | None = None
        self._reached = -1
        self._next_look = _NEVER
        self._next_line = _NEVER
        self._warned = ""

    def done(self, number: int, counts: Mapping[str, int], seconds: float) -> None:
        """Take note of a micro-batch, in any thread.

        Args:
            number: Its number.
            counts: Its records by outcome.
            seconds: How long it took.
        """
        outcomes = Counter(counts)
        result = WritingResult(TaskCounts(outcomes), 0, {self._topic: outcomes})
        self._figures.add(result, seconds, time.time())
        self._batch = number

    def look(self, query: StreamingQuery) -> None:
        """Look how far a query is behind, unless it has just looked."""
        now = self._clock()
        if now < self._next_look:
            return
        self._next_look = now + PUBLISHED_EVERY_S
        self._look(query)
        if now >= self._next_line:
            self._print()

    def end(self, query: StreamingQuery) -> None:
        """Look at a query that has ended."""
        self._look(query)
        self._print()

    def _look(self, query: StreamingQuery) -> None:
        try:
            self._reached, positions = _progress(query)
            behind = {
                partition: max(end - positions[partition], 0)
                for partition, end in self._ends().items()
                if partition in positions
            }
        except UnavailableError:
            pass  # a query that cannot read ends by itself
        else:
            self._figures.look(behind, 0, time.time())
        try:
            self._publish()
        except OSError as error:
            self._warn(f"metrics cannot be written: {error.strerror}")

    def _print(self) -> None:
        """Print the lag after a micro-batch; Spark has its end a moment after `done`."""
        if self._batch is None or self._reached < self._batch:
            return
        behind = sum(self._figures.behind.values())
        print(f"batch {self._batch}: {behind:,} behind", file=sys.stderr, flush=True)
        self._batch = None
        self._next_line = self._clock() + LINE_EVERY_S

    def _warn(self, text: str) -> None:
        if text != self._warned:
            self._warned = text
            warn(text)


def _progress(query: StreamingQuery) -> tuple[int, Mapping[Partition, int]]:
    """Return the number of the last micro-batch of a query, and where it ended; empty before."""
    progress = query.lastProgress
    if progress is None:
        return -1, {}
    from penstock.spark.source.source_stream import from_json  # noqa: PLC0415 - PySpark 4.0

    # Not the fields: before PySpark 4.2, those of offsets are no JSON.
    found = json.loads(progress.json)
    end = found["sources"][0]["endOffset"]
    return found["batchId"], {} if end is None else from_json(end)
