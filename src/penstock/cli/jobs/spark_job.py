"""A command's work on Spark: its session, its frames and its sinks."""

from __future__ import annotations

import contextlib
from functools import cached_property
from typing import TYPE_CHECKING

from penstock.cli.jobs.frame_jobs import FrameJobs, FrameSource
from penstock.cli.jobs.job import CommandJob, warn, warn_of_base64
from penstock.cli.jobs.session import CommandSession, quiet_spark, reported
from penstock.configuration import ConfigurationError
from penstock.jobs.locations import TABLE

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from pyspark.sql import DataFrame, SparkSession

    from penstock.jobs.files.listing import ListedFiles
    from penstock.jobs.locations import RecordLocation
    from penstock.jobs.rows.count_proof import CountProof
    from penstock.jobs.runner import OffsetCounter, Runner
    from penstock.kafka.cluster.offsets import Topic
    from penstock.kafka.cluster.ranges import OffsetRange
    from penstock.spark.frames.record_order import RecordOrder
    from penstock.spark.sink.sinks import Sinks


class SparkJob(CommandJob):
    """A command's job with its Spark session, which starts when it is needed."""

    def __init__(self, options: argparse.Namespace) -> None:
        super().__init__(options)
        self.session = CommandSession(options, self.progress)
        self._record_counts: dict[ListedFiles, int] = {}

    @property
    def runner(self) -> Runner:
        """The session's Python workers."""
        from penstock.spark.execution.task_runner import SparkRunner  # noqa: PLC0415

        return SparkRunner(self.spark)

    @property
    def rows(self) -> FrameJobs:
        """The commands over rows, on Spark."""
        return FrameJobs(self)

    def check_input(self) -> None:
        """Check `--input`, `--column`, and the lines of JSON files on this machine.

        Other files are checked when the session has started, which knows other file systems.

        Raises:
            ConfigurationError: An option is wrong, or a line is not a record.
        """
        source: str = self._options.input or ""
        table, _ = self._table()
        if not source or table is not None:
            return
        self.session.check_input(source)
        from penstock.jobs.files.listing import (  # noqa: PLC0415
            ListedFiles,
            find_files,
            is_compressed,
        )
        from penstock.jobs.files.reading import check_listed  # noqa: PLC0415

        if not (paths := find_files(source)):
            return
        files = ListedFiles.of(source, paths)
        if files.are_json and not any(map(is_compressed, paths)):
            with self.progress.phase(f"checking {source}"):
                self._record_counts[files] = check_listed(files)

    @property
    def spark(self) -> SparkSession:
        return self.session.spark

    @property
    def slots(self) -> int:
        """How many tasks run at a time."""
        return self.session.slots

    @contextlib.contextmanager
    def counting_tasks(self, what: str, ranges: Sequence[OffsetRange]) -> Iterator[OffsetCounter]:
        """Show how many records are read; with Spark Connect, which counts nothing, that it runs.

        Args:
            what: The current work, such as `judging orders`.
            ranges: The ranges to read.

        Returns:
            The counter of the tasks, for `Runner.run`.
        """
        if self.session.remote is None:
            with super().counting_tasks(what, ranges) as counter:
                yield counter
            return
        with self.progress.phase(what):
            yield self.runner.counter()

    @contextlib.contextmanager
    def reading(
        self,
        verb: str,
        topics: Sequence[Topic] = (),
        ranges: Sequence[OffsetRange] = (),
        *,
        order: RecordOrder | None = None,
    ) -> Iterator[FrameSource]:
        """Return a frame of topics, or of `--input`, and show how many records are read of it.

        Args:
            verb: The work, such as `splitting`.
            topics: The topics, each of whose partitions is in order; none for `--input`.
            ranges: What of them is read.
            order: The order of records of `--input`; None for any.
        """
        if topics:
            names = getattr(self._options, "topic", None) or topics[0].name
            with self.counting_tasks(f"{verb} {names}", ranges) as counter:
                yield FrameSource(self._topics(topics, ranges, counter))
            return
        source = self.read_input(order)
        with self.counting(f"{verb} {self._options.input}"):
            yield source

    def counting(self, what: str) -> AbstractContextManager[None]:
        """Show how many records of files are read inside a `with` block.

        Args:
            what: The work, such as `judging orders.parquet`.
        """
        return self.session.counting(what)

    def _topics(
        self, topics: Sequence[Topic], ranges: Sequence[OffsetRange], counter: OffsetCounter
    ) -> DataFrame:
        from penstock.jobs.plan import readable_bytes  # noqa: PLC0415
        from penstock.spark.source.range_frames import read_range  # noqa: PLC0415

        ids = {topic.name: topic.topic_id for topic in topics}
        there, sizes = self.there, self.there.sizes(topics)
        return read_range(
            self.spark,
            there.access,
            ranges,
            ids,
            sizes=sizes,
            counter=counter,
            max_decompressed_bytes=readable_bytes(self.decompressed_batch_max_bytes),
        )

    def read_input(self, order: RecordOrder | None = None) -> FrameSource:
        """Read the files or the table of `--input`.

        Args:
            order: The order of records; None for any.

        Raises:
            ConfigurationError: There are no such files, or one cannot be read.
        """
        table, columns = self._table()
        if table is None:
            return FrameSource(*self.read_files(self._input_files, order))
        from penstock.spark.frames.record_order import in_order  # noqa: PLC0415
        from penstock.spark.frames.tables import has_places, read_table  # noqa: PLC0415

        frame = read_table(self.spark, table, columns)
        if order is not None and has_places(self.spark, table, columns):
            frame = in_order(frame, order)
        return FrameSource(frame)

    def read_files(
        self, files: ListedFiles, order: RecordOrder | None = None
    ) -> tuple[DataFrame, CountProof]:
        """Check files, and read them; return the records, and the proof of how many there are.

        Args:
            order: The order of records; None for any.

        Raises:
            ConfigurationError: One cannot be read.
        """
        from penstock.jobs.rows.count_proof import CountProof  # noqa: PLC0415
        from penstock.spark.frames.files import check_files, read_files  # noqa: PLC0415
        from penstock.spark.frames.record_order import in_order, without_place  # noqa: PLC0415

        if files not in self._record_counts:
            with self.progress.phase(f"checking {files.argument}"):
                self._record_counts[files] = check_files(self.spark, files)
        proof = CountProof(f"{files.key}{files.argument}", self._record_counts[files])
        frame = read_files(self.spark, files)
        frame = without_place(frame) if order is None else in_order(frame, order)
        return frame, proof

    @cached_property
    def _input_files(self) -> ListedFiles:
        from penstock.spark.frames.files import list_files  # noqa: PLC0415

        files = list_files(self.spark, self._options.input)
        warn_of_base64(files)
        return files

    def _table(self) -> tuple[str | None, Mapping[str, str]]:
        """Return the table that is read, or None, and the meaning of its columns."""
        from penstock.spark.frames.tables import parse_columns  # noqa: PLC0415

        columns = parse_columns(self._options.column)
        if (self._options.input or "").startswith(TABLE):
            return self._options.input.removeprefix(TABLE), columns
        if columns:
            raise ConfigurationError(f"--column requires --input {TABLE}NAME")
        return None, {}

    def sinks(
        self,
        locations: Mapping[str, RecordLocation],
        *,
        appended: tuple[str, ...] = (),
        letters: tuple[str, ...] = (),
    ) -> Sinks:
        """Prepare places to write to; topics and tables have to exist. See `Sinks`."""
        from penstock.spark.sink.sinks import Sinks  # noqa: PLC0415

        if self.session.remote is not None:
            raise ConfigurationError(
                "--remote: with topics only; folders and tables need a session that this command "
                "starts (--master)"
            )
        targets = {
            sink: self.there.target(location.name)
            for sink, location in locations.items()
            if location.is_topic
        }
        access = self.there.access
        sinks = Sinks(self.spark, locations, access, targets, appended=appended, letters=letters)
        for text in sinks.warnings:
            warn(text)
        return sinks

    def close(self) -> None:
        """Close the policies and the session."""
        super().close()
        self.session.close()


def on_spark(command_job: CommandJob, what: str) -> SparkJob:
    """Return a command's job on Spark.

    Args:
        what: What needs it, for the error.

    Raises:
        ConfigurationError: It runs in this process.
    """
    if not isinstance(command_job, SparkJob):
        raise ConfigurationError(f"{what} needs Spark: leave out --local")
    return command_job


@contextlib.contextmanager
def job(options: argparse.Namespace) -> Iterator[CommandJob]:
    """Run a command's work; whatever goes wrong ends it with a text and an exit code."""
    if options.local:
        from penstock.cli.jobs.local_job import local_job  # noqa: PLC0415

        with local_job(options) as command_job:
            yield command_job
    else:
        with _spark_job(options) as command_job:
            yield command_job


@contextlib.contextmanager
def _spark_job(options: argparse.Namespace) -> Iterator[SparkJob]:
    with quiet_spark("; or do without it: --local"):
        spark_job = SparkJob(options)
        try:
            with reported(spark_job.session, getattr(options, "input", None)):
                yield spark_job
        finally:
            spark_job.close()
