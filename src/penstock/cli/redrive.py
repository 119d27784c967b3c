"""Judge dead letters again, and write the accepted records.

A consumer group of the cluster stores the position in the dead letter topic for each target, so no
record returns twice. Records that are refused again go back to the dead letters, and after
--max-replays attempts to D.parked. The same applies to records that the policies accept but the
target's broker refuses: the reason is printed, and the exit code is 1.

Only letters of A return; with --topic, those of other topics. All others stay. Letters of Kafka
Connect, Spring, Kafka Streams and share groups are read by their own headers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.cli.failures import ExitCode
from penstock.cli.jobs.arguments import add_job_arguments, location
from penstock.cli.jobs.job import show_counts, show_plans, warn
from penstock.cli.jobs.row_jobs import LetterRanges, Letters, RowSource
from penstock.cli.jobs.spark_job import job
from penstock.cli.output.policy_output import policies_run
from penstock.configuration import ConfigurationError
from penstock.jobs.batches.letter_outcomes import AGAIN, PARKED, RETURNED
from penstock.jobs.locations import check_apart

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from penstock.cli.jobs.job import CommandJob
    from penstock.jobs.batches.letter_topics import FoundLetters, LetterTopics
    from penstock.jobs.locations import RecordLocation
    from penstock.jobs.plan import RecordPlan


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_job_arguments(parser)
    what = "a topic, or path:DIR for a folder of Parquet files"
    parser.add_argument(
        "--from", dest="dead_letters", required=True, type=location, metavar="D",
        help=f"the dead letters: {what}",
    )  # fmt: skip
    parser.add_argument("--to", dest="target", required=True, type=location, metavar="A", help=what)
    parser.add_argument(
        "--topic", metavar="T,...",
        help="return the letters of these topics: names and globs, separated by commas (default: "
        "those of A; to a folder, all)",
    )  # fmt: skip
    parser.add_argument(
        "--with", dest="repair", metavar="INTERCEPTOR",
        help="the class of a KIP-905 interceptor that repairs records before they are judged",
    )  # fmt: skip
    parser.add_argument(
        "--max-replays", type=int, default=5, metavar="N",
        help="park a record after this number of attempts (default 5)",
    )  # fmt: skip
    parser.add_argument("--dry-run", action="store_true", help="only count, and change nothing")


def run(options: argparse.Namespace) -> int:
    """Run the command; return its exit code."""
    check_apart({"--from": options.dead_letters, "--to": options.target})
    if options.max_replays < 1:
        raise ConfigurationError("--max-replays must be 1 or more")
    topics = _topics(options)
    with job(options) as command_job:
        from penstock.engine.modes.dead_letters import PARKED_SUFFIX  # noqa: PLC0415

        dead_letters, target = options.dead_letters, options.target
        parked = dead_letters.beside(PARKED_SUFFIX)
        check_apart({"--to": target, "the place of records that fail too often": parked})
        # Before the cluster is contacted.
        _repairing(command_job.plan_without_topics(), options.repair)
        plan = command_job.plan(
            () if target.is_folder else (command_job.cluster.topic(target.name),)
        )
        if not target.is_folder and plan.judges(target.name) and not plan.has_policy(target.name):
            warn(f"no policy of {plan.path} judges topic {target.name}: its letters all return")
        plan = _repairing(plan, options.repair)
        if not (dead_letters.is_folder or target.is_folder):
            return _between_topics(options, command_job, plan, topics)
        found_letters, counts = _through_rows(options, command_job, plan, parked, topics)
        print(f"{dead_letters}: {show_counts(counts)}" + _dry(options))
        if not target.is_folder:
            show_plans(plan.digests_of([target.name]))
        _show_others(found_letters)
        return ExitCode.DONE


def _topics(options: argparse.Namespace) -> LetterTopics:
    """Return the topics whose letters return.

    Raises:
        ConfigurationError: `--topic` names none.
    """
    from penstock.jobs.batches.letter_topics import LetterTopics  # noqa: PLC0415
    from penstock.kafka.cluster import topic_names  # noqa: PLC0415

    if options.topic is not None:
        return LetterTopics(topic_names.parse(options.topic))
    return LetterTopics() if options.target.is_folder else LetterTopics((options.target.name,))


def _show_others(found_letters: FoundLetters) -> None:
    """Print how many letters stay, and of which topics."""
    if found_letters.stay:
        print(found_letters.stay)


def _repairing(plan: RecordPlan, repair: str | None) -> RecordPlan:
    """Return a plan with the interceptor of `--with`, if it is given."""
    if not repair:
        return plan
    try:
        with policies_run():
            return plan.with_interceptor(repair)
    except ConfigurationError as error:
        raise ConfigurationError(f"--with {repair}: {error}") from None


def _dry(options: argparse.Namespace) -> str:
    return " (dry run)" if options.dry_run else ""


def _through_rows(
    options: argparse.Namespace,
    command_job: CommandJob,
    plan: RecordPlan,
    parked: RecordLocation,
    topics: LetterTopics,
) -> tuple[FoundLetters, Mapping[str, int]]:
    """Return dead letters where one side is a folder; return what was found, and the counts."""
    from penstock.engine.modes.dead_letters import Attempts  # noqa: PLC0415

    dead_letters, target = options.dead_letters, options.target
    locations = {RETURNED: target, AGAIN: dead_letters}
    source, letter_ranges = RowSource(folder=dead_letters.name), None
    if not dead_letters.is_folder:
        letter_ranges = LetterRanges(command_job.cluster, dead_letters, target, topics)
        source = RowSource((letter_ranges.topic,), letter_ranges.ranges)
    if dead_letters.is_folder or not options.dry_run:
        locations[PARKED] = parked
    target_topic = None if target.is_folder else target.name
    name = dead_letters.full_path if dead_letters.is_folder else dead_letters.name
    attempts = Attempts.of(name, options.max_replays)
    letters = Letters(source, locations, target_topic, topics, attempts, options.dry_run)
    found_letters = command_job.rows.find_letters(letters, plan)
    found_letters.check(f"--from {dead_letters}", may_read=False)
    if letter_ranges is not None and not options.dry_run:
        command_job.cluster.create_like(parked.name, letter_ranges.topic)
    counts = command_job.rows.redrive(letters, found_letters, plan)
    if letter_ranges is not None and not options.dry_run:
        letter_ranges.done()
    return found_letters, counts


def _between_topics(
    options: argparse.Namespace, command_job: CommandJob, plan: RecordPlan, topics: LetterTopics
) -> ExitCode:
    """Return dead letters of a topic to a topic."""
    from penstock.jobs.redrive_job import (  # noqa: PLC0415
        outcomes_of,
        prepare_redrive,
        refused_by_broker,
    )
    from penstock.jobs.tasks.writing import count_raw  # noqa: PLC0415

    there = command_job.there
    redrive_job = prepare_redrive(
        there,
        there.cluster.topic(options.dead_letters.name),
        there.cluster.topic(options.target.name),
        plan,
        topics=topics,
        max_replays=options.max_replays,
        dry_run=options.dry_run,
    )
    with command_job.counting_tasks(
        f"reading {options.dead_letters.name}", redrive_job.ranges
    ) as counter:
        letters = redrive_job.scan(command_job.runner, counter)
    letters.check(f"--from {options.dead_letters.name}")
    if options.dry_run:
        with command_job.counting_tasks(redrive_job.what, redrive_job.ranges) as counter:
            counts = count_raw(
                command_job.runner, redrive_job.ranges, redrive_job.work, counter=counter
            )
    else:
        counts = redrive_job.write(
            there, command_job.runner, shown=command_job.progress.phase
        ).counts
    print(f"{options.dead_letters}: {show_counts(outcomes_of(counts))}" + _dry(options))
    show_plans(plan.digests_of([options.target.name]))
    _show_others(letters)
    refused = refused_by_broker(counts)
    for reason, count in refused:
        print(f"{count:,} refused by the broker: {reason.message}")
    return ExitCode.CHECK_FAILED if refused else ExitCode.DONE
