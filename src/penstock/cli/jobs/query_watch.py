"""The figures of `split --streaming` to folders and tables, which a query of Spark has."""

from __future__ import annotations

import contextlib
import json
import sys
import time
from functools import partial
from typing import TYPE_CHECKING, Final

from penstock.cli.jobs.stream_lines import PUBLISHED_EVERY_S, StreamOutput
from penstock.cli.process.background import in_background, is_done
from penstock.errors import UnavailableError
from penstock.jobs.tasks.writing_task import WritingResult
from penstock.kafka.cluster.ranges import Partition
from penstock.progress import LINE_EVERY_S

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from concurrent.futures import Future

    from pyspark.sql.streaming.query import StreamingQuery

    from penstock.kafka.cluster.offset_requests import Answers
    from penstock.spark.streams.figures import StreamFigures

_NEVER: Final = float("-inf")
_NO_TOPIC: Final = 3
"""Kafka's error code of a topic that was deleted."""
_ANY: Final = -1
"""The number of a partition that is not known."""


class QueryWatch:
    """Adds up what queries do, and publishes it, with how far the stream is behind.

    The cluster is contacted in another thread: it may not answer for many seconds.
    """

    def __init__(
        self,
        figures: StreamFigures,
        publish: Callable[[], None],
        ends: Callable[[Sequence[Partition]], Answers],
        topic: str,
        positions: Mapping[Partition, int],
        *,
        clock: Callable[[], float] = time.monotonic,
        start: Callable[[Callable[[], Answers]], Future[Answers]] = in_background,
    ) -> None:
        """Start.

        Args:
            publish: Publishes the figures.
            ends: Returns where the logs of partitions end now; it may raise an UnavailableError.
            topic: The topic of the records; empty if there are several.
            positions: Where the stream begins.
            clock: Returns seconds that never go back.
            start: Starts a function, usually in a thread.
        """
        self._figures = figures
        self._output = StreamOutput(publish, clock)
        self._ends = ends
        self._topic = topic
        self._positions = positions
        self._clock = clock
        self._start = start
        self._log_ends: dict[Partition, int] = {}
        self._pending_answers: Future[Answers] | None = None
        self._batch: int | None = None
        self._last_progress = -1
        self._next_look = _NEVER
        self._next_line = _NEVER

    def done(self, number: int, counts: Mapping[str, int], seconds: float) -> None:
        """Take note of a micro-batch, in any thread.

        Args:
            counts: Its records by outcome.
            seconds: How long it took.
        """
        result = WritingResult()
        result.counts.add_outcomes(Partition(self._topic, _ANY), counts)
        self._figures.add(result, seconds, time.time())
        self._batch = number

    def look(self, query: StreamingQuery) -> None:
        """Look how far a query is behind, unless it has just looked; this does not wait."""
        is_due = self._clock() >= self._next_look
        if is_due:
            self._next_look = self._clock() + PUBLISHED_EVERY_S
            self._request(query)
        is_answered = self._take_answers()
        if is_due or is_answered:
            self._output.publish()
        if is_answered and self._clock() >= self._next_line:
            self._print()

    def looked(self, answers: Answers) -> None:
        """Publish where logs end, between two queries."""
        self._use(answers)
        self._output.publish()

    def finish(self, query: StreamingQuery, is_ending: Callable[[], bool]) -> None:
        """Look once more at a query that has ended by itself, unless the process has to end."""
        self._take_answers()
        self._request(query)
        deadline = self._clock() + PUBLISHED_EVERY_S
        if self._pending_answers is not None:
            is_done(self._pending_answers, lambda: is_ending() or self._clock() >= deadline)

    def end(self, query: StreamingQuery) -> None:
        """Publish the figures of a query that has ended, perhaps by an error."""
        with contextlib.suppress(Exception):  # the JVM may have ended, too
            self._take_positions(query)
            self._take_answers()
        figures = self._figures
        figures.look(self._behind(), figures.unavailable, figures.looked_at)
        self._output.publish()
        self._print()

    def _request(self, query: StreamingQuery) -> None:
        """Take the positions of a query, and request where the logs end, unless it waits."""
        self._take_positions(query)
        if self._pending_answers is None and self._positions:
            self._pending_answers = self._start(partial(self._ends, tuple(self._positions)))

    def _take_positions(self, query: StreamingQuery) -> None:
        """Keep the last positions before a query has any."""
        reached, positions = _progress(query)
        self._last_progress = max(reached, self._last_progress)
        self._positions = positions or self._positions

    def _take_answers(self) -> bool:
        """Use what the cluster answered; return whether the request is done."""
        if self._pending_answers is None or not self._pending_answers.done():
            return False
        looking, self._pending_answers = self._pending_answers, None
        with contextlib.suppress(UnavailableError):  # a query that cannot read ends by itself
            self._use(looking.result())
        return True

    def _use(self, answers: Answers) -> None:
        refused = 0
        is_answered = False
        for partition, answer in answers.items():
            if isinstance(answer, int):
                self._log_ends[partition] = answer
            elif answer.code == _NO_TOPIC:
                self._log_ends.pop(partition, None)
            else:  # its last end stays
                refused += 1
            # Codes below 0 are for partitions of which no broker has answered.
            is_answered = is_answered or isinstance(answer, int) or answer.code >= 0
        look_time = time.time() if is_answered else self._figures.looked_at
        self._figures.look(self._behind(), refused, look_time)

    def _behind(self) -> Mapping[Partition, int]:
        return {
            partition: max(end - self._positions[partition], 0)
            for partition, end in self._log_ends.items()
            if partition in self._positions
        }

    def _print(self) -> None:
        """Print the lag after a micro-batch; Spark has its end a moment after `done`."""
        if self._batch is None or self._last_progress < self._batch:
            return
        print(f"batch {self._batch}: {self._figures.lag:,} behind", file=sys.stderr, flush=True)
        self._batch = None
        self._next_line = self._clock() + LINE_EVERY_S


def _progress(query: StreamingQuery) -> tuple[int, Mapping[Partition, int]]:
    """Return the number of the last micro-batch of a query, and where it ended; empty before."""
    progress = query.lastProgress
    if progress is None:
        return -1, {}
    from penstock.spark.source.stream import from_json  # noqa: PLC0415 - PySpark 4.0

    # Not the fields: before PySpark 4.2, those of offsets are no JSON.
    document = json.loads(progress.json)
    end = document["sources"][0]["endOffset"]
    return document["batchId"], {} if end is None else from_json(end)
