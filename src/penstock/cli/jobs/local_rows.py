"""`split`, `redact` and `redrive` over rows in this process."""

from __future__ import annotations

import contextlib
import gc
from collections import Counter, deque
from typing import TYPE_CHECKING, Final

from penstock.cli.jobs.job import warn_of_base64
from penstock.cli.output.policy_output import policies_run
from penstock.configuration import ConfigurationError
from penstock.engine.verdict import Outcome
from penstock.jobs.batches.letter_outcomes import AGAIN, DROPPED, PARKED, RETURNED
from penstock.jobs.report.bounded_counter import BoundedCounter
from penstock.jobs.report.counts import REASONS_KEPT, Reason, by_outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from penstock.cli.jobs.job import CommandJob
    from penstock.cli.jobs.row_jobs import Letters, RowSource
    from penstock.jobs.batches.letter_topics import FoundLetters
    from penstock.jobs.files.listing import ListedFiles
    from penstock.jobs.locations import RecordLocation
    from penstock.jobs.plan import RecordPlan
    from penstock.jobs.rows.count_proof import CountProof
    from penstock.jobs.rows.letter_folder import LetterFolder
    from penstock.jobs.rows.records import RecordRow
    from penstock.jobs.rows.sinks import RowSinks


_ALLOCATED: Final = 200_000
"""How many objects are allocated between two collections."""


class LocalRows:
    """The commands in this process; see `penstock.cli.jobs.row_jobs.RowJobs`."""

    def __init__(self, command_job: CommandJob, files: Callable[[], ListedFiles]) -> None:
        """Take the job.

        Args:
            files: Returns the files of `--input`.
        """
        self._job = command_job
        self._files = files

    def split(
        self, source: RowSource, plan: RecordPlan, locations: Mapping[str, RecordLocation]
    ) -> Mapping[str, int]:
        """Write accepted records and dead letters."""
        from penstock.jobs.evaluation import evaluator_of  # noqa: PLC0415
        from penstock.jobs.rows.row_jobs import counted, split_rows  # noqa: PLC0415
        from penstock.jobs.tasks.writing_task import REJECTED  # noqa: PLC0415

        sinks, counts = self._sinks(locations, letters=(REJECTED,)), Counter[str]()

        def left_out() -> int:
            return counts[Outcome.DROPPED.value]

        with sinks, self._reading("splitting", source, plan, left_out) as (rows, proof):
            sinks.write(counted(split_rows(rows, evaluator_of(plan)), counts), proof)
        return by_outcome(counts)

    def redact(
        self, source: RowSource, plan: RecordPlan, target: RecordLocation
    ) -> tuple[Mapping[str, int], BoundedCounter[Reason]]:
        """Write records as interceptors leave them; return why the others are left out, too."""
        from penstock.jobs.evaluation import evaluator_of  # noqa: PLC0415
        from penstock.jobs.rows.row_jobs import counted, redact_rows  # noqa: PLC0415
        from penstock.jobs.tasks.writing_task import ACCEPTED  # noqa: PLC0415

        sinks, counts = self._sinks({ACCEPTED: target}), Counter[str]()
        reasons = BoundedCounter[Reason](REASONS_KEPT)

        def left_out() -> int:
            return counts.total() - counts[Outcome.ACCEPTED.value]

        with sinks, self._reading("rewriting", source, plan, left_out) as (rows, proof):
            rewritten_rows = redact_rows(rows, evaluator_of(plan), reasons)
            sinks.write(counted(rewritten_rows, counts), proof)
        return by_outcome(counts), reasons

    def find_letters(self, letters: Letters, plan: RecordPlan) -> FoundLetters:
        """Return whose letters are there."""
        from penstock.jobs.rows.letter_folder import LetterFolder  # noqa: PLC0415
        from penstock.jobs.rows.row_jobs import find_letters  # noqa: PLC0415

        source, files = letters.source, None
        if source.folder is not None:
            files = LetterFolder(source.folder).files()
        with self._reading("reading", source, plan, lambda: 0, files) as (rows, _):
            return find_letters(rows, letters.topics)

    def redrive(
        self,
        letters: Letters,
        found_letters: FoundLetters,  # noqa: ARG002 - for Spark, which counts no others again
        plan: RecordPlan,
    ) -> Mapping[str, int]:
        """Judge dead letters again, and write them."""
        from penstock.jobs.evaluation import evaluator_of  # noqa: PLC0415
        from penstock.jobs.rows.letter_folder import LetterFolder  # noqa: PLC0415
        from penstock.jobs.rows.row_jobs import counted, redrive_rows  # noqa: PLC0415

        source, folder = letters.source, None
        if source.folder is not None:
            folder = LetterFolder(source.folder)
        sinks = self._sinks(
            letters.locations,
            job=str(folder.path) if folder is not None else source.topics[0].name,
            are_new=False,
            letters=(AGAIN, PARKED),
            replaced=folder,
        )
        counts = Counter[str]()

        def left_out() -> int:
            return counts[DROPPED]

        with contextlib.nullcontext() if letters.dry_run else sinks:
            files = None
            if folder is not None:
                warn_of_base64(files := folder.files())
            with self._reading("judging", source, plan, left_out, files) as (records, proof):
                rows = redrive_rows(
                    records,
                    evaluator_of(plan),
                    target=letters.target,
                    topics=letters.topics,
                    others_to=None if folder is None else AGAIN,
                    attempts=letters.attempts,
                )
                outgoing_rows = counted(rows, counts)
                if letters.dry_run:
                    deque(outgoing_rows, maxlen=0)
                else:
                    sinks.write(outgoing_rows, proof)
        return {sink: counts[sink] for sink in (RETURNED, AGAIN, PARKED, DROPPED)}

    def _sinks(
        self,
        locations: Mapping[str, RecordLocation],
        *,
        job: str = "",
        are_new: bool = True,
        letters: Collection[str] = (),
        replaced: LetterFolder | None = None,
    ) -> RowSinks:
        """Prepare the topics and folders to write to; see `RowSinks`.

        Raises:
            ConfigurationError: A location needs Spark, or a topic does not exist.
        """
        from penstock.jobs.rows.sinks import RowSinks  # noqa: PLC0415

        for location in locations.values():
            if location.is_table:
                raise ConfigurationError(f"{location} needs Spark: leave out --local")
        targets = {
            sink: self._job.there.target(location.name)
            for sink, location in locations.items()
            if location.is_topic
        }
        folders = {
            sink: location.name for sink, location in locations.items() if location.is_folder
        }
        return RowSinks(
            self._job.there.access.connect,
            targets,
            folders,
            job=job,
            are_new=are_new,
            letters=letters,
            replaced=replaced,
        )

    @contextlib.contextmanager
    def _reading(
        self,
        verb: str,
        source: RowSource,
        plan: RecordPlan,
        left_out: Callable[[], int],
        files: ListedFiles | None = None,
    ) -> Iterator[tuple[Iterator[RecordRow], CountProof | None]]:
        """Return the records, and show how many were read; policies run in the `with` block.

        Records of files are in the order of topic, partition and offset, and have a proof of how
        many there are.
        """
        counter = self._job.runner.counter()

        def counted(rows: Iterator[RecordRow]) -> Iterator[RecordRow]:
            for row in rows:
                counter.add(1)
                yield row

        from penstock.jobs.rows.count_proof import CountProof  # noqa: PLC0415

        proof = None
        if source.topics:
            what = source.topics[0].name if len(source.topics) == 1 else "topics"
            rows = self._of_topics(source, plan)
        else:
            files = files or self._files()
            what = files.argument
            rows, records = self._of_files(files)
            proof = CountProof(f"{files.key}{what}", records, left_out)
        total = sum(offset_range.offsets for offset_range in source.ranges) or None
        with (
            self._job.progress.phase(f"{verb} {what}", lambda: counter.value, total),
            policies_run(),
            _few_collections(),
        ):
            yield counted(rows), proof

    def _of_topics(self, source: RowSource, plan: RecordPlan) -> Iterator[RecordRow]:
        from penstock.jobs.rows.topic_rows import read_topics  # noqa: PLC0415

        return read_topics(
            self._job.there.access.connect(),
            source.ranges,
            {topic.name: topic.topic_id for topic in source.topics},
            max_decompressed_bytes=plan.max_decompressed_bytes,
        )

    def _of_files(self, files: ListedFiles) -> tuple[Iterator[RecordRow], int]:
        """Return the records of files, and how many there are."""
        from penstock.jobs.files.reading import (  # noqa: PLC0415
            are_in_order,
            check_listed,
            read_listed,
        )
        from penstock.jobs.rows.ordered_rows import in_order  # noqa: PLC0415

        with self._job.progress.phase(f"checking {files.argument}"):
            records = check_listed(files)
            is_ordered = are_in_order(files)
        rows = read_listed(files)
        return rows if is_ordered else in_order(rows), records


@contextlib.contextmanager
def _few_collections() -> Iterator[None]:
    """Have Python look for cycles of objects rarely: in many small tuples, that takes long."""
    thresholds = gc.get_threshold()
    was_frozen = gc.get_freeze_count() > 0  # by others, for as long as the process runs
    gc.freeze()
    gc.set_threshold(_ALLOCATED, thresholds[1], _ALLOCATED)
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        if not was_frozen:
            gc.unfreeze()
