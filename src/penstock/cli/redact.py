"""Rewrite stored records with the file's interceptors (KIP-905).

It writes them to another topic or folder. If an interceptor fails on a record, the record is left
out and counted, and the exit code is 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.cli.failures import ExitCode
from penstock.cli.jobs.arguments import (
    add_job_arguments,
    add_reader_arguments,
    add_source_arguments,
    add_writing_arguments,
    location,
)
from penstock.cli.jobs.job import show_counts, show_plans
from penstock.cli.jobs.raw_jobs import check_writing_arguments, is_between_topics, run_writing_job
from penstock.cli.jobs.row_jobs import RowSource
from penstock.cli.jobs.spark_job import job
from penstock.cli.jobs.stream_lines import one_line
from penstock.cli.output.policy_output import policies_run
from penstock.engine.verdict import REJECTED, Outcome
from penstock.jobs.report.counts import by_outcome

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from penstock.jobs.plan import RecordPlan
    from penstock.jobs.report.bounded_counter import BoundedCounter
    from penstock.jobs.report.counts import Reason

_LINES_MAX: Final = 10


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_job_arguments(parser)
    add_source_arguments(parser, end=False)
    add_reader_arguments(parser)
    add_writing_arguments(parser)
    parser.add_argument(
        "--to", dest="target", required=True, type=location, metavar="A",
        help="a topic, or path:DIR for a folder of Parquet files",
    )  # fmt: skip


def run(options: argparse.Namespace) -> int:
    """Run the command; return its exit code."""
    check_writing_arguments(options, [options.target])
    with job(options) as command_job:
        from penstock.jobs.tasks.writing_task import ACCEPTED  # noqa: PLC0415

        target = options.target
        _interceptors_of(command_job.plan_without_topics())  # before the cluster is contacted
        topics = command_job.sources((target,))
        whole_plan = command_job.plan(topics)
        plan = _interceptors_of(whole_plan)
        ranges = command_job.ranges(topics)
        if is_between_topics(topics, [target]):
            targets = {ACCEPTED: target}
            what = f"rewriting {options.topic}"
            task_counts = run_writing_job(options, command_job, topics, ranges, plan, targets, what)
            counts: Mapping[str, int] = by_outcome(task_counts.outcomes)
            reasons = task_counts.reasons
        else:
            source = RowSource(topics, ranges, options.input or "")
            counts, reasons = command_job.rows.redact(source, plan, target)
        print(f"{options.topic or options.input}: {show_counts(counts)}; accepted in {target}")
        _print_failures(reasons)
        show_plans(whole_plan.digests_of(topic.name for topic in topics))
        return ExitCode.CHECK_FAILED if counts[Outcome.FAILED] else ExitCode.DONE


def _print_failures(reasons: BoundedCounter[Reason]) -> None:
    """Print why records are not in the target, though no interceptor dropped them."""
    counts, _ = reasons.most_common(len(reasons))
    failures = [(reason, count) for reason, count in counts if reason.outcome in REJECTED]
    for reason, count in failures[:_LINES_MAX]:
        message = one_line(reason.message or "")
        print(f"  {count:>9,}  {reason.topic}  {reason.policy}  {reason.code}  {message}")
    if len(failures) > _LINES_MAX:
        print(f"  and {len(failures) - _LINES_MAX} more reasons")


def _interceptors_of(plan: RecordPlan) -> RecordPlan:
    with policies_run():
        return plan.interceptors_only()
