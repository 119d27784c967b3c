"""Runs `split`, `redact` and `redrive` from topics to topics on raw batches, each record once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.jobs.report.counts import RecordCounts
from penstock.jobs.tasks.planning import Task, plan_tasks
from penstock.jobs.tasks.writing_task import CountingTask, WritingResult, WritingTask, merged

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.jobs.runner import OffsetCounter, Runner
    from penstock.jobs.tasks.planning import Sizes
    from penstock.kafka.cluster.ranges import OffsetRange


def write_raw(
    runner: Runner,
    ranges: Sequence[OffsetRange],
    work: WritingTask,
    *,
    sizes: Sizes | None = None,
    empty_ranges: Sequence[OffsetRange] = (),
    at_once: bool = False,
) -> WritingResult:
    """Judge the records of topics and write each to its target, in the order of partitions.

    Args:
        runner: Runs tasks.
        ranges: The ranges to read, one of each partition; parts that an earlier run of the same job
            has done are left out.
        sizes: How large the records are, as far as that is known.
        empty_ranges: Empty ranges at positions that are committed again; of a stream.
        at_once: See `plan_tasks`.
    """
    cores = runner.cores
    tasks = plan_tasks(ranges, cores=cores, sizes=sizes, ordered=True, at_once=at_once)
    shares = (tuple(empty_ranges[number::cores]) for number in range(cores))
    tasks += tuple(Task(share) for share in shares if share)
    payload = runner.run(tasks, work, merged)
    return WritingResult() if payload is None else WritingResult.decode(payload)


def count_raw(
    runner: Runner,
    ranges: Sequence[OffsetRange],
    work: WritingTask,
    *,
    counter: OffsetCounter | None = None,
) -> RecordCounts:
    """Return what `write_raw` would count, and write nothing.

    Args:
        runner: Runs tasks.
        ranges: The ranges to read.
        work: The work that would be done.
        counter: Counts the offsets of the tasks that have ended.
    """
    tasks = plan_tasks(ranges, cores=runner.cores)
    payload = runner.run(tasks, CountingTask(work), merged, counter=counter)
    return RecordCounts() if payload is None else WritingResult.decode(payload).counts
