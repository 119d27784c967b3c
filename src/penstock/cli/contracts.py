"""Measure what contracts say of all records of a topic, for `penstock audit`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.cli.jobs.local_job import LocalJob
from penstock.cli.jobs.spark_job import on_spark
from penstock.jobs.contracts import measured_contracts
from penstock.jobs.data_sets import DataSetSums, MeasuringTask, measure_files
from penstock.jobs.files.reading import read_listed
from penstock.jobs.tasks.planning import plan_tasks

if TYPE_CHECKING:
    import argparse
    from collections.abc import Collection, Mapping, Sequence

    from penstock.cli.jobs.job import CommandJob
    from penstock.jobs.data_sets import RuleKey
    from penstock.jobs.plan import RecordPlan
    from penstock.jobs.report.document import ContractEntry
    from penstock.kafka.cluster.offsets import Topic
    from penstock.kafka.cluster.ranges import OffsetRange
    from penstock.policies.data_contract.data_set import Totals


def measure_contracts(
    options: argparse.Namespace,
    command_job: CommandJob,
    plan: RecordPlan,
    topics: Sequence[Topic],
    ranges: Sequence[OffsetRange],
) -> tuple[ContractEntry, ...]:
    """Measure what contracts say of the topics that are audited; reads them once more.

    Args:
        options: Of the command.
        plan: The plan, whose policies have the rules.
        topics: The topics that are read; none for files.

    Returns:
        The measurements, by contract; without a contract nothing is read.
    """

    def measure(some: Collection[str]) -> Mapping[RuleKey, Totals]:
        with command_job.progress.phase(f"measuring {options.topic or options.input}"):
            of_some = [offset_range for offset_range in ranges if offset_range.topic in some]
            return _totals(command_job, plan, topics, of_some)

    names = [topic.name for topic in topics]
    return measured_contracts(plan, names, measure, are_known=bool(topics))


def _totals(
    command_job: CommandJob,
    plan: RecordPlan,
    topics: Sequence[Topic],
    ranges: Sequence[OffsetRange],
) -> dict[RuleKey, Totals]:
    if isinstance(command_job, LocalJob):
        with DataSetSums() as sums:
            if topics:
                work = MeasuringTask(command_job.there.access, plan)
                for task in plan_tasks(ranges, cores=1, limit=command_job.runner.limit):
                    for part in work(task):
                        sums.add(part)
            else:
                measure_files(read_listed(command_job.input_files), plan, sums)
            return sums.totals()
    from penstock.spark.jobs.data_sets import measure_frame, measure_topics  # noqa: PLC0415

    spark_job = on_spark(command_job, "--input")
    if topics:
        tasks = plan_tasks(ranges, cores=command_job.runner.cores)
        return measure_topics(spark_job.spark, command_job.there.access, tasks, plan)
    return measure_frame(spark_job.read_input().frame, plan, None)
