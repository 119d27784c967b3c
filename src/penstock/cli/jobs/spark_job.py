"""What the Spark commands have in common: their options, their session, their errors."""

from __future__ import annotations

import argparse
import contextlib
import re
from decimal import Decimal, InvalidOperation
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from penstock.cli.jobs.frame_jobs import FrameJobs, FrameSource
from penstock.cli.jobs.job import CommandJob, warn, warn_of_base64
from penstock.cli.jobs.session import CommandSession, quiet_spark, reported
from penstock.configuration import ConfigurationError
from penstock.configuration.arguments import bootstrap_servers
from penstock.jobs.locations import TABLE

if TYPE_CHECKING:
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


_MASTER: Final = re.compile(
    r"local(\[(\d+|\*)(, *\d+)?\])?|local-cluster\[.+\]|yarn|[a-z][a-z0-9+.-]*://\S+"
)
"""With `://`, as other cluster managers have it, too."""


def add_job_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of every Spark command."""
    parser.add_argument("file", metavar="FILE", help="the gateway's configuration file")
    parser.add_argument(
        "--bootstrap-server",
        type=bootstrap_servers,
        metavar="HOST:PORT",
        help="the cluster (default: the file's upstream.bootstrap.servers)",
    )
    add_spark_arguments(parser)
    parser.add_argument(
        "--local",
        action="store_true",
        help="run in this process, without Spark: for topics of a few million records",
    )
    parser.add_argument(
        "--records-policy-batch",
        type=positive_number,
        default=1,
        metavar="N",
        help="the number of consecutive records of a stored batch that a RecordsPolicy (KIP-686) "
        "gets at a time (default 1)",
    )


def add_spark_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of a command's session."""
    parser.add_argument(
        "--master",
        type=master,
        help="Spark's master (default local[*]; with spark-submit, its master)",
    )
    parser.add_argument(
        "--remote",
        metavar="sc://HOST:PORT",
        help="a Spark Connect server, instead of a master; for topics, and tables that are read",
    )
    parser.add_argument(
        "--conf",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a Spark setting; repeatable",
    )


def add_reader_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare how topics are read."""
    parser.add_argument(
        "--strict",
        action="store_true",
        help="exit 3 if records were removed before they were read (retention)",
    )


def add_source_arguments(parser: argparse.ArgumentParser, *, end: bool = True) -> None:
    """Declare where records are read from."""
    parser.add_argument(
        "--topic",
        metavar="T,...",
        help="the topics to read: names and globs, separated by commas",
    )
    parser.add_argument(
        "--input",
        metavar="PATH",
        help="Parquet or JSON lines files with Kafka's columns, instead of a topic; or "
        "table:NAME, a table of Spark's catalog",
    )
    parser.add_argument(
        "--column",
        action="append",
        default=[],
        metavar="NAME=EXPRESSION",
        help="with a table: an expression in Spark's SQL for a column of Kafka, such as "
        "value=payload; repeatable",
    )
    where = "earliest, latest, an ISO time, or PARTITION:OFFSET,..."
    parser.add_argument("--from", dest="start", default="earliest", metavar="WHERE", help=where)
    if end:
        parser.add_argument("--to", dest="end", default="latest", metavar="WHERE", help=where)
    else:
        parser.set_defaults(end="latest")


def positive_number(text: str) -> int:
    """Return the value of an option that is a number from 1 on.

    Raises:
        ArgumentTypeError: It is not.
    """
    number = int(text) if text.isdecimal() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of at least 1")
    return number


def master(text: str) -> str:
    """Return the value of an option that can be Spark's master.

    Raises:
        ArgumentTypeError: It is not: Spark would only say so with a stack trace.
    """
    if not _MASTER.fullmatch(text):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a master, such as local[*], local[4], spark://HOST:PORT, yarn or "
            "k8s://https://HOST:PORT"
        )
    return text


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


def location(text: str) -> RecordLocation:
    """Read a topic or a folder for argparse.

    Raises:
        ArgumentTypeError: It is neither.
    """
    record_location = location_or_table(text)
    if record_location.is_table:
        raise argparse.ArgumentTypeError(f"{text!r}: only split writes tables")
    return record_location


def location_or_table(text: str) -> RecordLocation:
    """Read a place for argparse.

    Raises:
        ArgumentTypeError: It is none.
    """
    from penstock.jobs.locations import RecordLocation  # noqa: PLC0415

    try:
        return RecordLocation.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def ratio(text: str) -> float:
    """Read a share for argparse: a number from 0 to 1, or a percentage such as 5%."""
    digits = text.strip()
    percentage = digits.endswith("%")
    try:
        number = Decimal(digits.removesuffix("%").rstrip())
    except InvalidOperation:
        number = Decimal("NaN")
    if number.is_nan() or not 0 <= number <= (100 if percentage else 1):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a share: a number from 0 to 1 such as 0.05, or a percentage such "
            "as 5%"
        )
    return float(number / 100 if percentage else number)


def show_counts(counts: Mapping[str, Any]) -> str:
    """Write counts as a sentence."""
    return ", ".join(f"{count:,} {name}" for name, count in counts.items())
