"""`split`, `redact` and `redrive` over rows on Spark."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Protocol

from penstock.batch_jobs.redrive import AGAIN, PARKED
from penstock.cli.jobs.row_jobs import only

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from pyspark.sql import DataFrame, SparkSession

    from penstock.cli.jobs.row_jobs import Letters, RowSource
    from penstock.cluster.offsets import Topic
    from penstock.cluster.ranges import OffsetRange
    from penstock.spark.sink.sinks import Sinks
    from penstock.stored.locations import RecordLocation
    from penstock.stored.plan import RecordPlan


class FrameReader(Protocol):
    """What a command on Spark offers to its jobs: `penstock.cli.jobs.spark_job.SparkJob`."""

    @property
    def spark(self) -> SparkSession:
        """The session."""

    def sinks(
        self,
        locations: Mapping[str, RecordLocation],
        *,
        appended: tuple[str, ...] = (),
        letters: tuple[str, ...] = (),
    ) -> Sinks:
        """Prepare the places to write to."""

    def reading(
        self, verb: str, topics: Sequence[Topic] = (), ranges: Sequence[OffsetRange] = ()
    ) -> AbstractContextManager[DataFrame]:
        """Return a frame of topics, or of `--input`."""

    def counting(self, what: str) -> AbstractContextManager[None]:
        """Show how many records of files are read."""


class FrameJobs:
    """The commands on Spark; see `penstock.cli.jobs.row_jobs.RowJobs`."""

    def __init__(self, running: FrameReader) -> None:
        """Take the session."""
        self._running = running

    def split(
        self, source: RowSource, plan: RecordPlan, locations: Mapping[str, RecordLocation]
    ) -> Mapping[str, int]:
        """Write accepted records and dead letters."""
        from penstock.spark.jobs.split import REJECTED, split_into  # noqa: PLC0415

        sinks = self._running.sinks(locations, letters=(REJECTED,))
        sinks.check_new(source.ranges)
        with self._running.reading("splitting", source.topics, source.ranges) as df:
            return split_into(df, plan, sinks, topic=only(source.topics))

    def redact(
        self, source: RowSource, plan: RecordPlan, target: RecordLocation
    ) -> Mapping[str, int]:
        """Write records as interceptors leave them."""
        from penstock.spark.jobs.redact import REWRITTEN, redact  # noqa: PLC0415

        sinks = self._running.sinks({REWRITTEN: target})
        sinks.check_new()
        with self._running.reading("rewriting", source.topics, source.ranges) as df:
            return redact(df, plan, sinks, topic=only(source.topics))

    def redrive(self, letters: Letters, plan: RecordPlan) -> Mapping[str, int]:
        """Judge dead letters again, and write them."""
        from penstock.spark.jobs.redrive import redrive  # noqa: PLC0415

        sinks = self._running.sinks(
            letters.locations, appended=letters.appended, letters=(AGAIN, PARKED)
        )
        if letters.source.folder is not None:
            sinks.recover()
        with self._letters(letters.source) as df:
            written = None if letters.dry_run else sinks
            return redrive(df, plan, written, target=letters.target, attempts=letters.attempts)

    @contextlib.contextmanager
    def _letters(self, source: RowSource) -> Iterator[DataFrame]:
        if source.folder is None:
            with self._running.reading("judging", source.topics, source.ranges) as df:
                yield df
            return
        from penstock.spark.frames.files import read_files  # noqa: PLC0415

        with self._running.counting(f"judging path:{source.folder}"):
            yield read_files(self._running.spark, source.folder)
