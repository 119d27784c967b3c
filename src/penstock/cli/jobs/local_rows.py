"""`split`, `redact` and `redrive` over rows in this process."""

from __future__ import annotations

import contextlib
from collections import Counter
from typing import TYPE_CHECKING, Final

from penstock.cli.output.policy_output import policies_run
from penstock.report.counts import OUTCOMES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from penstock.cli.jobs.local_job import LocalJob
    from penstock.cli.jobs.row_jobs import Letters, RowSource
    from penstock.stored.locations import RecordLocation
    from penstock.stored.plan import RecordPlan
    from penstock.stored.rows.record_rows import RecordRow


_FROM: Final = "--from path:"
"""What errors about a folder of dead letters name before the path."""


class LocalRows:
    """The commands in this process; see `penstock.cli.jobs.row_jobs.RowJobs`."""

    def __init__(self, running: LocalJob) -> None:
        """Take the job."""
        self._running = running

    def split(
        self, source: RowSource, plan: RecordPlan, locations: Mapping[str, RecordLocation]
    ) -> Mapping[str, int]:
        """Write accepted records and dead letters."""
        from penstock.stored.evaluation import evaluator_of  # noqa: PLC0415
        from penstock.stored.rows.row_jobs import split_rows  # noqa: PLC0415
        from penstock.stored.tasks.writing_task import REJECTED  # noqa: PLC0415

        sinks, counts = self._running.sinks(locations, letters=(REJECTED,)), Counter[str]()
        sinks.check_new()
        with self._reading("splitting", source, plan) as rows:
            sinks.write(split_rows(rows, evaluator_of(plan), counts))
        return {outcome: counts[outcome] for outcome in OUTCOMES}

    def redact(
        self, source: RowSource, plan: RecordPlan, target: RecordLocation
    ) -> Mapping[str, int]:
        """Write records as interceptors leave them."""
        from penstock.stored.evaluation import evaluator_of  # noqa: PLC0415
        from penstock.stored.rows.row_jobs import redact_rows  # noqa: PLC0415
        from penstock.stored.tasks.writing_task import ACCEPTED  # noqa: PLC0415

        sinks, counts = self._running.sinks({ACCEPTED: target}), Counter[str]()
        sinks.check_new()
        with self._reading("rewriting", source, plan) as rows:
            sinks.write(redact_rows(rows, evaluator_of(plan), counts))
        return {outcome: counts[outcome] for outcome in OUTCOMES}

    def redrive(self, letters: Letters, plan: RecordPlan) -> Mapping[str, int]:
        """Judge dead letters again, and write them."""
        from penstock.batch_jobs.redrive import AGAIN, DROPPED, PARKED, RETURNED  # noqa: PLC0415
        from penstock.stored.evaluation import evaluator_of  # noqa: PLC0415
        from penstock.stored.rows.row_jobs import redrive_rows  # noqa: PLC0415

        sinks = self._running.sinks(
            letters.locations, appended=letters.appended, letters=(AGAIN, PARKED)
        )
        if letters.source.folder is not None:
            sinks.recover()
        counts = Counter[str]()
        with self._reading("judging", letters.source, plan) as found:
            rows = redrive_rows(
                found,
                evaluator_of(plan),
                counts,
                target=letters.target,
                attempts=letters.attempts,
            )
            if letters.dry_run:
                for _ in rows:
                    continue
            else:
                sinks.write(rows)
        return {sink: counts[sink] for sink in (RETURNED, AGAIN, PARKED, DROPPED)}

    @contextlib.contextmanager
    def _reading(
        self, verb: str, source: RowSource, plan: RecordPlan
    ) -> Iterator[Iterator[RecordRow]]:
        """Return the records, and show how many were read; policies run in the `with` block."""
        read = self._running.runner.counter()

        def counted(rows: Iterator[RecordRow]) -> Iterator[RecordRow]:
            for row in rows:
                read.add(1)
                yield row

        what, rows = self._source(source, plan)
        total = sum(offset_range.offsets for offset_range in source.ranges) or None
        with (
            self._running.progress.phase(f"{verb} {what}", lambda: read.value, total),
            policies_run(),
        ):
            yield counted(rows)

    def _source(self, source: RowSource, plan: RecordPlan) -> tuple[str, Iterator[RecordRow]]:
        if source.topics:
            from penstock.stored.rows.topic_rows import read_topics  # noqa: PLC0415

            rows = read_topics(
                self._running.there.access.connect(),
                source.ranges,
                {topic.name: topic.topic_id for topic in source.topics},
                max_decompressed_bytes=plan.max_decompressed_bytes,
            )
            return source.topics[0].name if len(source.topics) == 1 else "topics", rows
        from penstock.stored.files.files import INPUT, check_lines, read_files  # noqa: PLC0415

        key, path = (INPUT, source.files) if source.folder is None else (_FROM, source.folder)
        with self._running.progress.phase(f"checking {path}"):
            check_lines(path, key=key)
        return path, read_files(path, key=key)
