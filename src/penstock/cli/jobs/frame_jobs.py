"""`split`, `redact` and `redrive` over rows on Spark."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, NamedTuple, Protocol

from penstock.cli.jobs.job import warn_of_base64
from penstock.cli.jobs.row_jobs import only
from penstock.jobs.batches.letter_outcomes import AGAIN, PARKED

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from pyspark.sql import DataFrame, SparkSession

    from penstock.cli.jobs.row_jobs import Letters, RowSource
    from penstock.jobs.batches.letter_topics import FoundLetters
    from penstock.jobs.files.listing import ListedFiles
    from penstock.jobs.locations import RecordLocation
    from penstock.jobs.plan import RecordPlan
    from penstock.jobs.report.bounded_counter import BoundedCounter
    from penstock.jobs.report.counts import Reason
    from penstock.jobs.rows.count_proof import CountProof
    from penstock.kafka.cluster.offsets import Topic
    from penstock.kafka.cluster.ranges import OffsetRange
    from penstock.spark.frames.record_order import RecordOrder
    from penstock.spark.sink.sinks import Sinks


class FrameSource(NamedTuple):
    """Records to judge.

    Attributes:
        frame: Kafka's columns.
        proof: Compares what is written with the files that the records are from; None for topics
            and tables.
    """

    frame: DataFrame
    proof: CountProof | None = None


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
        self,
        verb: str,
        topics: Sequence[Topic] = (),
        ranges: Sequence[OffsetRange] = (),
        *,
        order: RecordOrder | None = None,
    ) -> AbstractContextManager[FrameSource]:
        """Return a frame of topics, or of `--input`."""

    def read_files(
        self, files: ListedFiles, order: RecordOrder | None = None
    ) -> tuple[DataFrame, CountProof]:
        """Check files, and read them."""

    def counting(self, what: str) -> AbstractContextManager[None]:
        """Show how many records of files are read."""


class FrameJobs:
    """The commands on Spark; see `penstock.cli.jobs.row_jobs.RowJobs`."""

    def __init__(self, reader: FrameReader) -> None:
        """Take the session."""
        self._reader = reader

    def split(
        self, source: RowSource, plan: RecordPlan, locations: Mapping[str, RecordLocation]
    ) -> Mapping[str, int]:
        """Write accepted records and dead letters."""
        from penstock.jobs.tasks.writing_task import REJECTED  # noqa: PLC0415
        from penstock.spark.jobs.split import split_into  # noqa: PLC0415

        sinks = self._reader.sinks(locations, letters=(REJECTED,))
        sinks.check_new(source.ranges)
        with self._reading("splitting", source, sinks) as (frame, proof):
            return split_into(frame, plan, sinks, topic=only(source.topics), proof=proof)

    def redact(
        self, source: RowSource, plan: RecordPlan, target: RecordLocation
    ) -> tuple[Mapping[str, int], BoundedCounter[Reason]]:
        """Write records as interceptors leave them; return why the others are left out, too."""
        from penstock.jobs.tasks.writing_task import ACCEPTED  # noqa: PLC0415
        from penstock.spark.jobs.redact import redact  # noqa: PLC0415

        sinks = self._reader.sinks({ACCEPTED: target})
        sinks.check_new()
        with self._reading("rewriting", source, sinks) as (frame, proof):
            return redact(frame, plan, sinks, topic=only(source.topics), proof=proof)

    def find_letters(
        self,
        letters: Letters,
        plan: RecordPlan,  # noqa: ARG002 - for jobs in this process
    ) -> FoundLetters:
        """Return whose letters are there."""
        from penstock.jobs.rows.letter_folder import LetterFolder  # noqa: PLC0415
        from penstock.spark.jobs.redrive import find_letters  # noqa: PLC0415
        from penstock.spark.sink.letter_folders import letter_folders  # noqa: PLC0415

        source = letters.source
        if source.folder is None:
            with self._reader.reading("reading", source.topics, source.ranges) as (frame, _):
                return find_letters(frame, letters.topics)
        places = letter_folders(self._reader.spark, source.folder, letters.locations)
        frame, _ = self._reader.read_files(LetterFolder(places.source).files())
        with self._reader.counting(f"reading path:{source.folder}"):
            return find_letters(frame, letters.topics)

    def redrive(
        self, letters: Letters, found_letters: FoundLetters, plan: RecordPlan
    ) -> Mapping[str, int]:
        """Judge dead letters again, and write them."""
        sinks = self._reader.sinks(
            letters.locations, appended=letters.appended, letters=(AGAIN, PARKED)
        )
        if letters.source.folder is not None:
            return self._redrive_folder(letters, found_letters, letters.source.folder, plan, sinks)

        def write(frame: DataFrame, _: Callable[[], int]) -> None:
            sinks.write(frame)

        with self._reading("judging", letters.source, sinks) as (frame, _):
            return _judged(letters, plan, frame, write)

    def _redrive_folder(
        self,
        letters: Letters,
        found_letters: FoundLetters,
        name: str,
        plan: RecordPlan,
        sinks: Sinks,
    ) -> Mapping[str, int]:
        """Judge the dead letters of a folder, whose files are replaced by those that remain."""
        from penstock.jobs.rows.letter_folder import LetterFolder  # noqa: PLC0415
        from penstock.spark.sink.letter_folders import letter_folders  # noqa: PLC0415

        places = letter_folders(self._reader.spark, name, letters.locations)
        folder = LetterFolder(places.source)
        folders = places.targets(folder)
        with contextlib.nullcontext() if letters.dry_run else folders:
            warn_of_base64(files := folder.files())
            frame, proof = self._reader.read_files(files, sinks.order)

            def write(judged_frame: DataFrame, dropped: Callable[[], int]) -> None:
                sinks.replace(judged_frame, folders, proof._replace(left_out=dropped))

            with self._reader.counting(f"judging path:{name}"):
                counts = _judged(letters, plan, frame, write)
            if letters.dry_run:
                proof.check(sum((*counts.values(), *found_letters.others.values())))
            return counts

    def _reading(
        self, verb: str, source: RowSource, sinks: Sinks
    ) -> AbstractContextManager[FrameSource]:
        """Return the records, in the order that the targets need."""
        return self._reader.reading(verb, source.topics, source.ranges, order=sinks.order)


def _judged(
    letters: Letters,
    plan: RecordPlan,
    frame: DataFrame,
    write: Callable[[DataFrame, Callable[[], int]], None],
) -> Mapping[str, int]:
    from penstock.spark.jobs.redrive import redrive  # noqa: PLC0415

    return redrive(
        frame,
        plan,
        None if letters.dry_run else write,
        target=letters.target,
        topics=letters.topics,
        others_to=None if letters.source.folder is None else AGAIN,
        attempts=letters.attempts,
    )
