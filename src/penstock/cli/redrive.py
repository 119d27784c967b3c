"""Judge dead letters again, and write those that are accepted now.

A group of the cluster remembers how far a dead letter topic has been worked through for each
target, so nothing returns twice. What fails again goes back to the dead letters, for a
better repair; what failed --max-replays times is parked (in D.parked).
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from penstock.cli.failures import CommandError, ExitCode
from penstock.cli.jobs import add_job_arguments, job, location, on_spark, show_counts
from penstock.cli.raw_jobs import add_transactions_argument, write_ranges, writing_task
from penstock.cluster.ranges import OffsetRange
from penstock.configuration import ConfigurationError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from penstock.cli.job import Job
    from penstock.cli.jobs import SparkJob
    from penstock.client.places import Places
    from penstock.client.positions import Position
    from penstock.cluster.offsets import Topic
    from penstock.stored.locations import Location
    from penstock.stored.plan import RecordPlan

_GROUP = "penstock-redrive"


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
        "--with", dest="repair", metavar="INTERCEPTOR",
        help="the class of a KIP-905 interceptor that repairs records before they are judged",
    )  # fmt: skip
    parser.add_argument(
        "--max-replays", type=int, default=5, metavar="N",
        help="park a record after so many attempts (default 5)",
    )  # fmt: skip
    add_transactions_argument(parser)
    parser.add_argument("--dry-run", action="store_true", help="count only, change nothing")


def run(options: argparse.Namespace) -> int:
    """Run the command; return its exit code."""
    if options.dead_letters == options.target:
        raise ConfigurationError("--from and --to must differ")
    if options.max_replays < 1:
        raise ConfigurationError("--max-replays must be 1 or more")
    with job(options) as running:
        from penstock.engine.dead_letters import PARKED_SUFFIX  # noqa: PLC0415
        from penstock.stored.locations import Location  # noqa: PLC0415

        dead_letters, target = options.dead_letters, options.target
        parked = Location(f"{dead_letters.name.rstrip('/')}{PARKED_SUFFIX}", dead_letters.is_folder)
        if target == parked:
            raise ConfigurationError(f"--to {target}: what fails too often is parked there")
        plan = running.plan(() if target.is_folder else (running.cluster.topic(target.name),))
        if options.repair:
            plan = plan.with_interceptor(options.repair)
        if dead_letters.is_folder or target.is_folder:
            folder = dead_letters if dead_letters.is_folder else target
            counts = _through_frames(options, on_spark(running, str(folder)), plan, parked)
        else:
            counts = _between_topics(options, running, plan, parked)
        print(f"{dead_letters}: {show_counts(counts)}" + _dry(options))
        return ExitCode.DONE


def _dry(options: argparse.Namespace) -> str:
    return " (dry run)" if options.dry_run else ""


def _through_frames(
    options: argparse.Namespace, running: SparkJob, plan: RecordPlan, parked: Location
) -> Mapping[str, int]:
    """Return dead letters where one side is a folder; return the counts."""
    from penstock.engine.dead_letters import Attempts  # noqa: PLC0415
    from penstock.spark.redrive import AGAIN, PARKED, RETURNED, redrive  # noqa: PLC0415
    from penstock.spark.sources import read_files, read_range  # noqa: PLC0415

    dead_letters, target = options.dead_letters, options.target
    work = None
    if dead_letters.is_folder:
        locations = {RETURNED: target, PARKED: parked, AGAIN: dead_letters}
        sinks = running.sinks(locations, appended=(RETURNED, PARKED))
        sinks.recover()
        df = read_files(running.spark, dead_letters.name)
    else:
        work = _Work(running, dead_letters, target)
        if not options.dry_run:
            running.cluster.create_like(parked.name, work.topic)
        locations = {RETURNED: target, AGAIN: dead_letters} | (
            {} if options.dry_run else {PARKED: parked}
        )
        sinks = running.sinks(locations, appended=(RETURNED,))
        df = read_range(running.spark, running.kafka_options, work.ranges)
    with running.counting(f"judging {dead_letters}", work.ranges if work else ()):
        counts = redrive(
            df,
            plan,
            None if options.dry_run else sinks,
            target=None if target.is_folder else target.name,
            attempts=Attempts.of(dead_letters.name, options.max_replays),
        )
    if work is not None and not options.dry_run:
        work.done()
    return counts


def _between_topics(
    options: argparse.Namespace, running: Job, plan: RecordPlan, parked: Location
) -> Mapping[str, int]:
    """Return dead letters of a topic to a topic; return the counts."""
    from penstock.batch_jobs import redrive as outcomes  # noqa: PLC0415
    from penstock.batch_jobs.targets import Target  # noqa: PLC0415
    from penstock.client.positions import redrive_job  # noqa: PLC0415
    from penstock.stored.positions import known_positions  # noqa: PLC0415
    from penstock.stored.writing import count_raw  # noqa: PLC0415
    from penstock.stored.writing_task import ACCEPTED, PARKED, REJECTED  # noqa: PLC0415

    cluster = running.cluster
    letters, target = cluster.topic(options.dead_letters.name), cluster.topic(options.target.name)
    job = redrive_job(target.name, target.topic_id)
    places = running.places(create=not options.dry_run)
    ranges = _not_done(running, letters, job, places, f"{_GROUP}-{target.name}", parked)
    what = f"judging {letters.name}"
    if not options.dry_run:
        cluster.create_like(parked.name, letters)
    ids = {letters.name: letters.topic_id}
    partitions = [one.of for one in ranges]
    known = known_positions(running.access.connect(), job, ids, partitions, places)
    targets = {ACCEPTED: options.target, REJECTED: options.dead_letters}
    work = writing_task(options, running, (letters,), ranges, plan, targets, job, known)
    # Created like the dead letters, and for a dry run not at all.
    to = {**work.targets, PARKED: Target(parked.name, *work.targets[REJECTED][1:])}
    work = dataclasses.replace(work, targets=to, replays_max=options.max_replays)
    if options.dry_run:
        with running.counting_tasks(what, ranges) as counted:
            done = count_raw(running.runner, ranges, work, done=counted).outcomes
    else:
        done = write_ranges(running, (letters,), ranges, work, what).counts.outcomes
    names = (outcomes.RETURNED, outcomes.AGAIN, outcomes.PARKED, outcomes.DROPPED)
    counts = {name: done[name] for name in names}
    return counts | ({outcomes.DOUBLE: done[outcomes.DOUBLE]} if done[outcomes.DOUBLE] else {})


def _not_done(
    running: Job, letters: Topic, job: str, places: Places, former: str, parked: Location
) -> tuple[OffsetRange, ...]:
    """Return what of a dead letter topic has not been worked through."""
    from penstock.client.places import find_starts  # noqa: PLC0415
    from penstock.client.positions import Task  # noqa: PLC0415

    tasks = [Task(job, letters.name, letters.topic_id, one) for one in letters.partitions]
    remedy = (
        f"say where to go on: kafka-consumer-groups --group {tasks[0].group} --topic "
        f"{letters.name} --reset-offsets --to-earliest (or --to-latest, --to-offset N) --execute"
    )
    was_parked = running.cluster.exists(parked.name)
    starts = find_starts(
        running.access.connect(),
        tasks,
        places,
        former_group=former,
        sign=f"topic {parked.name} is there" if was_parked else "",
        remedy=remedy,
    )
    ends = running.cluster.bounds(letters)
    for one, position in starts.items():
        if position.offset > ends[one][1]:
            raise CommandError(
                f"{letters.name}-{one}: the log ends at offset {ends[one][1]}, before "
                f"{position.offset}, which redrive has come to (an unclean election?); {remedy}"
            )
    return tuple(
        OffsetRange(letters.name, one, _start(starts.get(one), *ends[one]), ends[one][1])
        for one in letters.partitions
    )


def _start(position: Position | None, first: int, end: int) -> int:
    return first if position is None else min(max(position.offset, first), end)


class _Work:
    """What has not been worked through of a dead letter topic."""

    def __init__(self, running: SparkJob, dead_letters: Location, target: Location) -> None:
        self._cluster = running.cluster
        self._group = f"{_GROUP}-{target.name.replace('/', '_')}"
        self.topic = self._cluster.topic(dead_letters.name)
        start = self._cluster.committed(self.topic, self._group)
        self._end = self._cluster.offsets(self.topic, "latest", key="--to")
        self.ranges = tuple(
            OffsetRange(self.topic.name, number, start[number], self._end[number])
            for number in self.topic.partitions
        )

    def done(self) -> None:
        """Remember that all of it has been."""
        self._cluster.commit(self.topic, self._group, self._end)
