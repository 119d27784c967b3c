"""Judge stored records, and report which of them the policies would refuse.

It changes nothing. With --rows, it judges the rows of a table or of files, which have any columns.
With --topics, it judges the existing topics with the policies for topics and
configs. With --trail, it summarizes the refusals in the gateways' audit trail (audit.topic,
audit.file). Neither option needs Spark.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import tempfile
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Final

from penstock.cli.failures import ExitCode
from penstock.cli.jobs.arguments import (
    add_job_arguments,
    add_reader_arguments,
    add_source_arguments,
    ratio,
)
from penstock.cli.jobs.job import show_counts, show_plans, warn
from penstock.cli.jobs.local_job import LocalJob
from penstock.cli.jobs.row_input import add_rows_arguments, check_rows_options, rows_of
from penstock.cli.jobs.spark_job import job, on_spark
from penstock.cli.jobs.stream_lines import one_line
from penstock.cli.output.policy_output import policies_run
from penstock.cli.output.printable import printable
from penstock.configuration import ConfigurationError, load_configuration
from penstock.configuration.globs import is_glob
from penstock.engine.verdict import OF_RECORDS, Outcome
from penstock.jobs.locations import TABLE, TOPIC_OF_ROWS

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

    from penstock.cli.jobs.job import CommandJob
    from penstock.cli.jobs.spark_job import SparkJob
    from penstock.jobs.audit import RawAudit
    from penstock.jobs.plan import RecordPlan
    from penstock.jobs.report.counts import AuditCounts
    from penstock.jobs.report.document import About, BaselineEntry, ContractEntry, Report
    from penstock.jobs.report.history import AuditRun
    from penstock.jobs.tasks.retention import Coverage
    from penstock.kafka.cluster.offsets import Topic
    from penstock.kafka.cluster.ranges import OffsetRange

    _Plans = tuple[RecordPlan, RecordPlan | None]

_LINES_MAX: Final = 10
_OF_TOPICS: Final = tuple(outcome for outcome in Outcome if outcome is not Outcome.DROPPED)
_OF_ROWS: Final = "audit_rows: "
"""What warnings of the function begin with."""
_FOR_RECORDS: Final = ("topic", "input", "rows", "report", "compare", "baseline", "history")
"""Options that cannot be used with --topics."""
_NOT_FOR_ROWS: Final = {
    "--local": "rows need Spark: leave out --local",
    "--column": "any columns are read; for others, name a view: --input table:VIEW",
    "--compare": "audit with one file after the other",
    "--show-payloads": "--label COLUMN names the rows of the report",
    "--strict": "it is for topics",
    "--bootstrap-server": "no cluster is needed",
    "--topics": "it judges topics",
    "--trail": "it summarizes refusals",
}
"""Options that cannot be used with --rows, and why."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_job_arguments(parser)
    add_source_arguments(parser)
    add_reader_arguments(parser)
    add_rows_arguments(parser)
    parser.add_argument(
        "--label",
        metavar="COLUMN",
        help="with --rows: the column that names rows in the report",
    )
    parser.add_argument(
        "--topics",
        action="store_true",
        help="judge the cluster's topics instead of records; exit 1 if a topic would be refused",
    )
    parser.add_argument(
        "--trail",
        action="store_true",
        help="summarize the refusals in the audit trail of FILE, or of --topic or --input (a "
        "file, a folder, a glob)",
    )
    parser.add_argument(
        "--report",
        metavar="DIR",
        help="write report.html, report.json and junit.xml to this folder; with --trail, "
        "trail.json",
    )
    parser.add_argument(
        "--fail-over",
        type=ratio,
        metavar="RATIO",
        help="exit 1 if a larger share of the records is refused or fails: 0.05 or 5%%",
    )
    parser.add_argument(
        "--baseline",
        metavar="REPORT",
        help="the report.json of an earlier audit: exit 1 if a larger share of a topic's "
        "records is refused or fails than in that audit, in total, by a policy or for a reason",
    )
    parser.add_argument(
        "--tolerance",
        type=ratio,
        metavar="RATIO",
        help="with --baseline: the accepted rise of a share, such as 0.1%% (default 0)",
    )
    parser.add_argument(
        "--history",
        metavar="DIR",
        help="keep a summary of each audit in this folder, and show the trend of the same "
        "topics and plan in the report",
    )
    parser.add_argument(
        "--compare",
        metavar="OTHER_FILE",
        help="also judge with this configuration file, and report the differences",
    )
    parser.add_argument(
        "--show-payloads", action="store_true", help="show keys and values of samples"
    )


def run(options: argparse.Namespace) -> int:
    """Run the command; return its exit code."""
    if options.rows:
        return _rows(options)
    if options.label is not None:
        raise ConfigurationError("--label COLUMN requires --rows")
    if options.trail:
        from penstock.cli.audit_trail import summarize_trail  # noqa: PLC0415

        return summarize_trail(options)
    if options.topics:
        return _topics(options)
    baseline = _baseline(options)
    _check_folders(options)
    with job(options) as command_job:
        from penstock.jobs.report.summary import summarize  # noqa: PLC0415

        topics = command_job.sources()
        plan = command_job.plan(topics)
        other = command_job.plan(topics, file=options.compare) if options.compare else None
        ranges = command_job.ranges(topics)
        coverage = None
        if topics:
            counts, coverage = _read_raw(options, command_job, topics, ranges, (plan, other))
        elif isinstance(command_job, LocalJob):
            counts = _read_files(options, command_job, (plan, other))
        else:
            counts = _read_frame(options, on_spark(command_job, "--input"), (plan, other))
        from penstock.cli.contracts import measure_contracts  # noqa: PLC0415

        with policies_run():
            contracts = measure_contracts(options, command_job, plan, topics, ranges)
        about = _about(options, command_job, topics, (plan, other), ranges, coverage)
        if not topics:
            of_files = plan.digests_of(sorted(filter(None, counts.by_topic())))
            about = about.model_copy(update={"plans": of_files})
        report = summarize(counts, about).model_copy(update={"contracts": contracts})
        return conclude(options, report, baseline)


def _rows(options: argparse.Namespace) -> int:
    check_rows_options(options, _NOT_FOR_ROWS)
    baseline = _baseline(options)
    options.topic = options.topic or TOPIC_OF_ROWS
    _check_folders(options)
    from penstock.jobs.plan import load_plan  # noqa: PLC0415

    with policies_run():
        batch = options.records_policy_batch
        plan = load_plan(options.file, topic=options.topic, records_policy_batch=batch)
    with rows_of(options, "judging") as rows, policies_run(), _warnings_shown():
        from penstock.spark import audit_rows  # noqa: PLC0415

        report = audit_rows(rows, plan, label=options.label)
    of_command = {"source": options.input, "fail_over": options.fail_over}
    about = report.about.model_copy(update=of_command)
    return conclude(options, report.model_copy(update={"about": about}), baseline)


@contextlib.contextmanager
def _warnings_shown() -> Iterator[None]:
    """Print warnings of the functions of `penstock.spark` as those of commands."""
    with warnings.catch_warnings(record=True) as caught_warnings:
        warnings.filterwarnings("always", _OF_ROWS)
        yield
    for each in caught_warnings:
        text = str(each.message)
        if text.startswith(_OF_ROWS):
            warn(text.removeprefix(_OF_ROWS))
        else:
            warnings.warn_explicit(each.message, each.category, each.filename, each.lineno)


def _read_raw(
    options: argparse.Namespace,
    command_job: CommandJob,
    topics: Sequence[Topic],
    ranges: Sequence[OffsetRange],
    plans: _Plans,
) -> RawAudit:
    from penstock.jobs.audit import add_payloads, audit_raw  # noqa: PLC0415

    plan, other = plans
    there = command_job.there
    with command_job.counting_tasks(f"judging {options.topic}", ranges) as counter:
        sizes = there.sizes(topics)
        result = audit_raw(
            command_job.runner,
            there.access,
            ranges,
            plan,
            other=other,
            sizes=sizes,
            counter=counter,
        )
    if options.strict:
        result.coverage.check()
    elif text := result.coverage.text():
        warn(text)
    if options.show_payloads:
        with command_job.progress.phase("reading samples"):
            add_payloads(there.access.connect(), result.counts)
    return result


def _read_files(options: argparse.Namespace, local_job: LocalJob, plans: _Plans) -> AuditCounts:
    from penstock.jobs.evaluation import evaluator_of  # noqa: PLC0415
    from penstock.jobs.files.file_audit import add_file_payloads, audit_files  # noqa: PLC0415
    from penstock.jobs.files.reading import read_listed  # noqa: PLC0415

    counter = local_job.runner.counter()
    with (
        policies_run(),
        local_job.progress.phase(f"judging {options.input}", lambda: counter.value, None),
    ):
        evaluators = [evaluator_of(plan) for plan in filter(None, plans)]
        counts = audit_files(read_listed(local_job.input_files), evaluators, counter.add)
    if options.show_payloads:
        with local_job.progress.phase("reading samples"):
            add_file_payloads(read_listed(local_job.input_files), counts)
    return counts


def _read_frame(options: argparse.Namespace, spark_job: SparkJob, plans: _Plans) -> AuditCounts:
    from penstock.spark.jobs.audit import audit, with_payloads  # noqa: PLC0415

    plan, other = plans
    with spark_job.reading("judging") as (df, proof):
        counts = audit(df, plan, other=other)
    if proof is not None:
        proof.check(counts.judged)
    if options.show_payloads:
        with spark_job.counting("reading samples"):
            with_payloads(df, counts)
    return counts


def conclude(options: argparse.Namespace, report: Report, baseline: Report | None) -> int:
    """Compare, keep, write and print an audit's report; return the exit code.

    Args:
        options: Of the command.
        baseline: The report that `--baseline` names, or None.

    Raises:
        ConfigurationError: The baseline says nothing about any of the topics.
        OSError: The report cannot be written, or the run cannot be kept.
    """
    from penstock.jobs.report.baseline import compare  # noqa: PLC0415
    from penstock.jobs.report.files import write_report  # noqa: PLC0415

    if baseline is not None:
        compared = compare(report, baseline, Path(options.baseline), options.tolerance or 0.0)
        report = report.model_copy(update={"baseline": compared})
    _print(report)
    runs, failure = None, None
    try:
        runs = _kept(options, report)
    except OSError as error:  # the report is not lost for it
        failure = error
    if options.report:
        paths = write_report(Path(options.report), report, runs)
        print(f"report {paths['report.html']}")
    if failure is not None:
        raise failure
    if report.baseline is not None and report.judged and not report.baseline.topics:
        raise ConfigurationError(_other_topics(options))
    over = options.fail_over is not None and report.share > options.fail_over
    worse = report.baseline is not None and bool(report.baseline.worse)
    broken = any(contract.broken for contract in report.contracts)
    return ExitCode.CHECK_FAILED if over or worse or broken else ExitCode.DONE


def _baseline(options: argparse.Namespace) -> Report | None:
    """Read the baseline before Spark starts."""
    if options.baseline is None:
        if options.tolerance is not None:
            raise ConfigurationError("--tolerance requires --baseline REPORT")
        return None
    from penstock.jobs.report.baseline import topics_of  # noqa: PLC0415
    from penstock.jobs.report.document import read_report  # noqa: PLC0415

    report = read_report(Path(options.baseline), key="--baseline")
    if options.rows or report.about.is_rows:
        _check_baseline_of_rows(options, report)
        return report
    topic_names = set((options.topic or "").split(","))
    named = topic_names if options.topic and not is_glob(options.topic) else None
    if named is not None and not named & topics_of(report):
        raise ConfigurationError(_other_topics(options))
    return report


def _check_baseline_of_rows(options: argparse.Namespace, report: Report) -> None:
    """Check that a baseline is about the same table or files; those of a named topic may differ.

    Raises:
        ConfigurationError: It is not.
    """
    about, topics = report.about, [topic.topic for topic in report.topics]
    sources = {source.rstrip("/") for source in (options.input or "", about.source)}
    has_table = any(source.startswith(TABLE) for source in sources)
    is_same = len(sources) == 1 or (options.topic is not None and not has_table)
    is_same &= about.is_rows == options.rows and (options.topic or TOPIC_OF_ROWS) in topics
    if not is_same:
        raise ConfigurationError(
            f"--baseline {options.baseline}: it is about {about.unit} of {about.source}, topic "
            f"{', '.join(topics)}; name the report.json of an earlier audit of the same (of other "
            "files: of the same --topic T)"
        )


def _other_topics(options: argparse.Namespace) -> str:
    return (
        f"--baseline {options.baseline}: it is not about {options.topic or options.input}; name "
        "the report.json of an earlier audit of the same"
    )


def _check_folders(options: argparse.Namespace) -> None:
    """Create the report folder, and check that it can be written, before hours of work."""
    if options.report and importlib.util.find_spec("jinja2") is None:
        raise ConfigurationError("--report needs Jinja2: pip install 'penstock-kafka[report]'")
    for key, folder, purpose in (
        ("--history", options.history, "to keep runs in"),
        ("--report", options.report, "for the report"),
    ):
        if folder is None:
            continue
        try:
            Path(folder).mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                pass
        except OSError as error:
            raise ConfigurationError(
                f"{key} {folder}: {error.strerror}; name a folder {purpose}"
            ) from None


def _kept(options: argparse.Namespace, report: Report) -> Sequence[AuditRun] | None:
    """Keep the run; return those of its series, or None where none are kept."""
    if options.history is None:
        return None
    from penstock.jobs.report.history import add_run  # noqa: PLC0415

    series = add_run(Path(options.history), report)
    for path in series.unreadable:
        warn(f"--history: {path} is not a summary of an audit; ignored")
    return series.runs


def _about(
    options: argparse.Namespace,
    command_job: CommandJob,
    topics: Sequence[Topic],
    plans: _Plans,
    ranges: Sequence[OffsetRange],
    coverage: Coverage | None,
) -> About:
    from penstock.jobs.subject import subject_of  # noqa: PLC0415

    plan, other = plans
    about = subject_of(
        options.topic or options.input,
        [topic.name for topic in topics],
        plan,
        other,
        ranges=ranges,
        coverage=coverage,
        seconds=time.monotonic() - command_job.begin_s,
    )
    of_command = {
        "is_topic": bool(topics),
        "bootstrap_server": options.bootstrap_server,
        "fail_over": options.fail_over,
    }
    return about.model_copy(update=of_command)


def _topics(options: argparse.Namespace) -> int:
    from penstock.cli.checks.existing_topics import judge_topics  # noqa: PLC0415

    record_options = [getattr(options, name) for name in _FOR_RECORDS]
    if any(record_options) or options.fail_over is not None:
        raise ConfigurationError("--topics judges all topics, and takes --bootstrap-server only")
    configuration = load_configuration(options.file)
    properties = configuration.upstream_properties
    if options.bootstrap_server:
        properties["bootstrap.servers"] = options.bootstrap_server
    judged_topics = asyncio.run(judge_topics(configuration, properties))
    refused = [result for result in judged_topics if result.verdict.outcome is not Outcome.ACCEPTED]
    counts = Counter(result.verdict.outcome for result in judged_topics)
    shown = show_counts(
        {
            outcome.value: counts[outcome]
            for outcome in _OF_TOPICS
            if counts[outcome] or outcome in OF_RECORDS
        }
    )
    print(f"{properties['bootstrap.servers']}: {len(judged_topics):,} topics judged: {shown}")
    for result in refused:
        print(f"  {result.topic}  {result.verdict.policy}  {result.verdict.code}  {result.why}")
    return ExitCode.CHECK_FAILED if refused else ExitCode.DONE


def _print(report: Report) -> None:
    outcomes = {outcome.value: getattr(report, outcome) for outcome in OF_RECORDS}
    source, unit = report.about.source, report.about.unit
    print(f"{source}: {report.judged:,} {unit} judged: {show_counts(outcomes)}")
    show_plans(report.about.plans)
    if not report.judged:
        where = "; see --from and --to" if report.about.is_topic else ""
        warn(f"{source}: there are no {unit} to judge{where}")
    for reason in report.reasons[:_LINES_MAX]:
        message = one_line(reason.message or "")
        print(f"  {reason.count:>9,}  {reason.policy}  {reason.code}  {message}")
    if len(report.reasons) > _LINES_MAX:
        print(f"  and {len(report.reasons) - _LINES_MAX} more reasons")
    _print_rules(report)
    if report.out_of_range.total:
        print(f"{report.out_of_range.total:,} records have a time out of range (1970 to 9999)")
    if report.compared is not None:
        refused, accepted = report.compared.newly_refused, report.compared.newly_accepted
        print(f"with the other file: {refused:,} newly refused, {accepted:,} newly accepted")
    for path in report.unfound_paths[:_LINES_MAX]:
        print(f"note: {path.shown}")
    if len(report.unfound_paths) > _LINES_MAX:
        print(f"note: and {len(report.unfound_paths) - _LINES_MAX} more paths")
    for contract in report.contracts:
        _print_contract(contract)
    if report.baseline is not None:
        _print_comparison(report.baseline)


def _print_rules(report: Report) -> None:
    """Print the rules that object to rows, and the columns that they are about."""
    rules = [rule for rule in report.rules if rule.count]
    for rule in rules[:_LINES_MAX]:
        names = ", ".join(printable(str(label)) for label in rule.samples)
        such_as = f"  such as {names}" if names else ""
        print(f"rule {rule.title}: {rule.count:,} rows ({rule.share:.2%}){such_as}")
    if len(rules) > _LINES_MAX:
        print(f"and {len(rules) - _LINES_MAX} more rules")
    for column in report.columns[:_LINES_MAX]:
        print(f"column {printable(column.column)}: {column.count:,} rows ({column.share:.2%})")
    if len(report.columns) > _LINES_MAX:
        print(f"and {len(report.columns) - _LINES_MAX} more columns")


def _print_contract(contract: ContractEntry) -> None:
    judged_rules = [rule for rule in contract.rules if rule.held is not None]
    held_count = sum(bool(rule.held) for rule in judged_rules)
    print(f"{contract.topic}: {contract.contract}: {held_count} of {len(judged_rules)} rules hold")
    broken = [rule for rule in judged_rules if not rule.held]
    for rule in broken[:_LINES_MAX]:
        note = "" if rule.is_error else f" ({rule.severity})"
        print(f"  broken{note}  {one_line(rule.title)}: {one_line(rule.shown)}")
    if len(broken) > _LINES_MAX:
        print(f"  and {len(broken) - _LINES_MAX} more that are broken")


def _print_comparison(baseline: BaselineEntry) -> None:
    from penstock.jobs.report.baseline import in_words  # noqa: PLC0415

    if baseline.topics:
        what = "worse than" if baseline.worse else "no worse than"
        print(f"{what} {baseline.file} of {baseline.written}")
    for change in baseline.worse[:_LINES_MAX]:
        print(f"  {in_words(change)}")
    if len(baseline.worse) > _LINES_MAX:
        print(f"  and {len(baseline.worse) - _LINES_MAX} more that got worse")
    for note in baseline.notes[:_LINES_MAX]:
        print(f"  note: {note}")
    if len(baseline.notes) > _LINES_MAX:
        print(f"  and {len(baseline.notes) - _LINES_MAX} more notes, in report.json")
