"""Judge what is stored, and report what the policies would refuse.

Nothing is changed. With --topics: judge the topics that exist, by the policies of topics and
configs, without Spark.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.cli.failures import ExitCode
from penstock.cli.jobs import add_job_arguments, add_source_arguments, job, ratio, show_counts
from penstock.configuration import ConfigurationError, load_configuration
from penstock.engine.verdict import Outcome

if TYPE_CHECKING:
    import argparse

    from penstock.spark.audit import Audit


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_job_arguments(parser)
    add_source_arguments(parser)
    parser.add_argument(
        "--topics",
        action="store_true",
        help="judge the cluster's topics instead of records; exit 1 when one would be refused",
    )
    parser.add_argument(
        "--report", metavar="DIR", help="write report.html, report.json and junit.xml there"
    )
    parser.add_argument(
        "--fail-over",
        type=ratio,
        metavar="RATIO",
        help="exit 1 when a larger share of the records than this is refused",
    )
    parser.add_argument(
        "--compare",
        metavar="OTHER_FILE",
        help="judge by a second file too, and report the differences",
    )
    parser.add_argument(
        "--show-payloads", action="store_true", help="show keys and values of samples"
    )


def run(options: argparse.Namespace) -> int:
    """Run the command; return its exit code."""
    if options.topics:
        return _topics(options)
    with job(options) as running:
        from penstock.spark.audit import audit, with_payloads  # noqa: PLC0415
        from penstock.spark.progress import JobProgress  # noqa: PLC0415
        from penstock.spark.report import About, write_report  # noqa: PLC0415

        topic = running.source()
        plan = running.plan(topic)
        other = running.plan(topic, file=options.compare) if options.compare else None
        between = running.range(topic)
        df = running.read(topic, between)
        with JobProgress(running.spark, f"judging {options.topic or options.input}"):
            result = audit(df, plan, other=other, topic=options.topic)
            if options.show_payloads:
                with_payloads(df, result)
        about = About(
            source=options.topic or options.input,
            range=between,
            file=str(plan.path),
            fingerprint=plan.fingerprint,
            other=str(other.path) if other else None,
            fail_over=options.fail_over,
            seconds=time.monotonic() - running.began,
        )
        _print(result, about.source, compared=other is not None)
        if options.report:
            written = write_report(Path(options.report), result, about)
            print(f"report {written['report.html']}")
        over = options.fail_over is not None and result.share > options.fail_over
        return ExitCode.FALLS_SHORT if over else ExitCode.DONE


def _topics(options: argparse.Namespace) -> int:
    from penstock.cli.existing_topics import judge_topics  # noqa: PLC0415

    given = [name for name in ("topic", "input", "report", "compare") if getattr(options, name)]
    if given or options.fail_over is not None:
        raise ConfigurationError("--topics judges all topics, and takes --bootstrap-server only")
    configuration = load_configuration(options.file)
    properties = configuration.upstream_properties
    if options.bootstrap_server:
        properties["bootstrap.servers"] = options.bootstrap_server
    judged = asyncio.run(judge_topics(configuration, properties))
    short = [one for one in judged if one.verdict.outcome is not Outcome.ACCEPTED]
    counts = Counter(one.verdict.outcome for one in judged)
    shown = show_counts({one.value: counts[one] for one in Outcome if one is not Outcome.DROPPED})
    print(f"{properties['bootstrap.servers']}: {len(judged):,} topics judged: {shown}")
    for one in short:
        print(f"  {one.topic}  {one.verdict.policy}  {one.verdict.code}  {one.why}")
    return ExitCode.FALLS_SHORT if short else ExitCode.DONE


def _print(result: Audit, source: str, *, compared: bool) -> None:
    outcomes = {one.value: result.outcomes[one] for one in Outcome}
    print(f"{source}: {result.judged:,} records judged: {show_counts(outcomes)}")
    for reason, count in result.reasons.most_common(10):
        print(f"  {count:>9,}  {reason.policy}  {reason.code}  {reason.message or ''}")
    if len(result.reasons) > 10:
        print(f"  and {len(result.reasons) - 10} more reasons")
    if compared:
        refused, accepted = sum(result.newly_refused.values()), sum(result.newly_accepted.values())
        print(f"with the other file: {refused:,} newly refused, {accepted:,} newly accepted")
