"""What `split`, `redact` and `redrive` have in common from topics to topics: raw batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.cli.failures import CommandError, ExitCode
from penstock.cli.jobs.job import warn
from penstock.configuration import ConfigurationError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence

    from penstock.cli.jobs.job import CommandJob
    from penstock.jobs.locations import RecordLocation
    from penstock.jobs.plan import RecordPlan
    from penstock.jobs.report.counts import RecordCounts
    from penstock.jobs.writing_job import WritingJob
    from penstock.kafka.cluster.offsets import Topic
    from penstock.kafka.cluster.ranges import OffsetRange


def is_between_topics(topics: Sequence[Topic], targets: Sequence[RecordLocation]) -> bool:
    """Return whether topics are read, and only topics written to."""
    return bool(topics) and are_topics(*targets)


def are_topics(*targets: RecordLocation) -> bool:
    """Return whether all targets are topics."""
    return all(target.is_topic for target in targets)


def check_writing_arguments(options: argparse.Namespace, targets: Sequence[RecordLocation]) -> None:
    """Check that `--job` and `--again` have positions to apply to.

    Raises:
        ConfigurationError: One is given, and the source or a target is not a topic.
    """
    if options.topic and are_topics(*targets):
        return
    for name, is_given in (("--again", options.again), ("--job", options.job is not None)):
        if is_given:
            raise ConfigurationError(
                f"{name} needs topics as source and targets: other runs have no position in the "
                f"cluster. Leave {name} out; to write records again, use new folders, or tables "
                "without these records, and for a stream a new --checkpoint"
            )


def run_writing_job(
    options: argparse.Namespace,
    command_job: CommandJob,
    topics: Sequence[Topic],
    ranges: Sequence[OffsetRange],
    plan: RecordPlan,
    targets: Mapping[str, RecordLocation],
    what: str,
) -> RecordCounts:
    """Judge the records of topics and write them.

    Args:
        options: Of the command.
        topics: The topics to read.
        ranges: What of it.
        targets: By the names of `penstock.jobs.tasks.writing_task`.
        what: The work, such as `splitting orders`.

    Raises:
        CommandError: Records were removed before they were read, and `--strict` was given.
    """
    from penstock.jobs import writing_job as writing  # noqa: PLC0415

    counts, earlier_offsets, job = writing.write_topics(
        command_job.there,
        writing_job(options, targets),
        lambda: command_job.runner,
        topics,
        ranges,
        plan,
        what=what,
        shown=command_job.progress.phase,
        note=print,
        warn=warn,
    )
    if earlier_offsets:
        print(
            f"job {job}: an earlier run has done {earlier_offsets:,} offsets of the range; they "
            "are neither judged nor written again, even if policies have changed since (--again "
            "writes them)"
        )
    _check_removed(counts, strict=options.strict)
    return counts


def writing_job(options: argparse.Namespace, targets: Mapping[str, RecordLocation]) -> WritingJob:
    """Return the job that the options of `split` or `redact` name.

    Args:
        options: Of the command.
        targets: Topics, by the names of `penstock.jobs.tasks.writing_task`.

    Raises:
        ConfigurationError: `--job` cannot be an id.
    """
    from penstock.jobs.writing_job import WritingJob  # noqa: PLC0415
    from penstock.kafka.client.positions import check_job  # noqa: PLC0415

    return WritingJob(
        options.command,
        options.topic,
        {side: target.name for side, target in targets.items()},
        options.start,
        options.end,
        name=None if options.job is None else check_job(options.job, "--job"),
        again=options.again,
    )


def _check_removed(counts: RecordCounts, *, strict: bool) -> None:
    if not counts.removed:
        return
    text = f"{counts.removed:,} offsets were removed before they were read (retention)"
    if strict:
        raise CommandError(f"{text}; all others are written", ExitCode.CLUSTER_FAILED)
    warn(text)
