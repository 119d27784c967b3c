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
from penstock.cli.jobs.job import warn
from penstock.cli.jobs.row_jobs import LetterRanges, Letters, RowSource
from penstock.cli.jobs.spark_job import add_job_arguments, job, location, show_counts
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
    with job(options) as running:
        from penstock.engine.modes.dead_letters import PARKED_SUFFIX  # noqa: PLC0415

        dead_letters, target = options.dead_letters, options.target
        parked = dead_letters.beside(PARKED_SUFFIX)
        check_apart({"--to": target, "the place of records that fail too often": parked})
        _repairing(running.plan_without_topics(), options.repair)  # before the cluster is contacted
        plan = running.plan(() if target.is_folder else (running.cluster.topic(target.name),))
        if not target.is_folder and plan.judges(target.name) and not plan.has_policy(target.name):
            warn(f"no policy of {plan.path} judges topic {target.name}: its letters all return")
        plan = _repairing(plan, options.repair)
        if not (dead_letters.is_folder or target.is_folder):
            return _between_topics(options, running, plan, topics)
        found, counts = _through_rows(options, running, plan, parked, topics)
        print(f"{dead_letters}: {show_counts(counts)}" + _dry(options))
        _show_others(found)
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


def _show_others(found: FoundLetters) -> None:
    """Print how many letters stay, and of which topics."""
    if found.stay:
        print(found.stay)


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
    running: CommandJob,
    plan: RecordPlan,
    parked: RecordLocation,
    topics: LetterTopics,
) -> tuple[FoundLetters, Mapping[str, int]]:
    """Return dead letters where one side is a folder; return what was found, and the counts."""
    from penstock.engine.modes.dead_letters import Attempts  # noqa: PLC0415

    dead_letters, target = options.dead_letters, options.target
    locations = {RETURNED: target, AGAIN: dead_letters}
    source, waiting = RowSource(folder=dead_letters.name), None
    if not dead_letters.is_folder:
        waiting = LetterRanges(running.cluster, dead_letters, target, topics)
        source = RowSource((waiting.topic,), waiting.ranges)
    if dead_letters.is_folder or not options.dry_run:
        locations[PARKED] = parked
    target_topic = None if target.is_folder else target.name
    name = dead_letters.full_path if dead_letters.is_folder else dead_letters.name
    attempts = Attempts.of(name, options.max_replays)
    letters = Letters(source, locations, target_topic, topics, attempts, options.dry_run)
    found = running.rows.find_letters(letters, plan)
    found.check(f"--from {dead_letters}", may_read=False)
    if waiting is not None and not options.dry_run:
        running.cluster.create_like(parked.name, waiting.topic)
    counts = running.rows.redrive(letters, found, plan)
    if waiting is not None and not options.dry_run:
        waiting.done()
    return found, counts


def _between_topics(
    options: argparse.Namespace, running: CommandJob, plan: RecordPlan, topics: LetterTopics
) -> ExitCode:
    """Return dead letters of a topic to a topic."""
    from penstock.jobs.redrive import (  # noqa: PLC0415
        outcomes_of,
        prepare_redrive,
        refused_by_broker,
    )
    from penstock.jobs.tasks.writing import count_raw  # noqa: PLC0415

    there = running.there
    found = prepare_redrive(
        there,
        there.cluster.topic(options.dead_letters.name),
        there.cluster.topic(options.target.name),
        plan,
        topics=topics,
        max_replays=options.max_replays,
        dry_run=options.dry_run,
    )
    with running.counting_tasks(f"reading {options.dead_letters.name}", found.ranges) as read:
        letters = found.scan(running.runner, read)
    letters.check(f"--from {options.dead_letters.name}")
    if options.dry_run:
        with running.counting_tasks(found.what, found.ranges) as counted:
            counts = count_raw(running.runner, found.ranges, found.work, done=counted)
    else:
        counts = found.write(there, running.runner, shown=running.progress.phase).counts
    print(f"{options.dead_letters}: {show_counts(outcomes_of(counts))}" + _dry(options))
    _show_others(letters)
    refused = refused_by_broker(counts)
    for reason, count in refused:
        print(f"{count:,} refused by the broker: {reason.message}")
    return ExitCode.CHECK_FAILED if refused else ExitCode.DONE
