"""Judge dead letters again, and write those that are accepted now.

A group of the cluster remembers how far a dead letter topic has been worked through for each
target, so nothing returns twice. What fails again goes back to the dead letters, for a
better repair; what failed --max-replays times is parked (in D.parked).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.cli.failures import ExitCode
from penstock.cli.jobs import add_job_arguments, job, location, show_counts
from penstock.configuration import ConfigurationError

if TYPE_CHECKING:
    import argparse

    from penstock.cli.jobs import SparkJob
    from penstock.spark.locations import Location

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
    parser.add_argument("--dry-run", action="store_true", help="count only, change nothing")


def run(options: argparse.Namespace) -> int:
    """Run the command; return its exit code."""
    if options.dead_letters == options.target:
        raise ConfigurationError("--from and --to must differ")
    if options.max_replays < 1:
        raise ConfigurationError("--max-replays must be 1 or more")
    with job(options) as running:
        from penstock.spark.locations import Location  # noqa: PLC0415
        from penstock.spark.progress import JobProgress  # noqa: PLC0415
        from penstock.spark.redrive import AGAIN, PARKED, RETURNED, redrive  # noqa: PLC0415
        from penstock.spark.sources import read_files, read_range  # noqa: PLC0415

        dead_letters, target = options.dead_letters, options.target
        parked = Location(f"{dead_letters.name.rstrip('/')}.parked", dead_letters.is_folder)
        plan = running.plan(None if target.is_folder else running.cluster.topic(target.name))
        if options.repair:
            plan = plan.with_interceptor(options.repair)
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
            df = read_range(
                running.spark, running.kafka_options, dead_letters.name, work.start, work.end
            )
        with JobProgress(running.spark, f"judging {dead_letters}"):
            counts = redrive(
                df,
                plan,
                None if options.dry_run else sinks,
                target=None if target.is_folder else target.name,
                replays_max=options.max_replays,
            )
        if work is not None and not options.dry_run:
            work.done()
        print(f"{dead_letters}: {show_counts(counts)}" + (" (dry run)" if options.dry_run else ""))
        return ExitCode.DONE


class _Work:
    """What has not been worked through of a dead letter topic."""

    def __init__(self, running: SparkJob, dead_letters: Location, target: Location) -> None:
        self._cluster = running.cluster
        self._group = f"{_GROUP}-{target.name.replace('/', '_')}"
        self.topic = self._cluster.topic(dead_letters.name)
        self.start = self._cluster.committed(self.topic, self._group)
        self.end = self._cluster.offsets(self.topic, "latest", key="--to")

    def done(self) -> None:
        """Remember that all of it has been."""
        self._cluster.commit(self.topic, self._group, self.end)
