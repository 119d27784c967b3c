"""Rewrite stored records by the file's interceptors (KIP-905).

They go into another topic or folder. Records on which an interceptor fails are left out and
counted, and the exit code is 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.cli.failures import ExitCode
from penstock.cli.jobs import add_job_arguments, add_source_arguments, job, location, show_counts
from penstock.configuration import ConfigurationError
from penstock.engine.verdict import Outcome

if TYPE_CHECKING:
    import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_job_arguments(parser)
    add_source_arguments(parser, end=False)
    parser.add_argument(
        "--to", dest="target", required=True, type=location, metavar="A",
        help="a topic, or path:DIR for a folder of Parquet files",
    )  # fmt: skip


def run(options: argparse.Namespace) -> int:
    """Run the command; return its exit code."""
    with job(options) as running:
        from penstock.spark.progress import JobProgress  # noqa: PLC0415
        from penstock.spark.redact import REWRITTEN, redact  # noqa: PLC0415

        target = options.target
        if options.topic == target.name and not target.is_folder:
            raise ConfigurationError(f"--to {target}: a topic cannot be rewritten into itself")
        topic = running.source()
        plan = running.plan(topic).interceptors_only()
        between = running.range(topic)
        sinks = running.sinks({REWRITTEN: target})
        sinks.check_new()
        df = running.read(topic, between)
        with JobProgress(running.spark, f"rewriting {options.topic or options.input}"):
            counts = redact(df, plan, sinks, to_topic=not target.is_folder, topic=options.topic)
        print(f"{options.topic or options.input}: {show_counts(counts)}; accepted in {target}")
        return ExitCode.FALLS_SHORT if counts[Outcome.FAILED] else ExitCode.DONE
