"""`penstock audit --trail`: what gateways refused, as their audit trails say. Without Spark."""

from __future__ import annotations

import json
import sys
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from penstock.cli.failures import CommandError, ExitCode
from penstock.cli.jobs.stream_lines import one_line
from penstock.cli.process.descriptors import raise_descriptor_limit
from penstock.configuration import ConfigurationError, load_configuration
from penstock.jobs.audit_trail.counts import BY, TrailCounts, as_document, hours
from penstock.jobs.audit_trail.files import DAMAGED, files_of, lines_of, open_all, rotated
from penstock.jobs.report.atomic_file import write_file
from penstock.kafka.client.connections.connection import connect
from penstock.kafka.client.errors import ClientError, UnreadableBatchError
from penstock.kafka.client.reading.batches import read_fetched_batch
from penstock.kafka.client.reading.offset_ranges import WantedRange
from penstock.kafka.client.reading.reader import RangeReader
from penstock.kafka.cluster.errors import ClusterError
from penstock.kafka.cluster.offsets import Cluster
from penstock.kafka.records.errors import UnreadableRecords
from penstock.kafka.wire.errors import WireError
from penstock.progress import Progress

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator

    from penstock.configuration import Configuration

_SHOWN_MAX: Final = 10
_HOURS_MAX: Final = 24
_BAR_MAX: Final = 40
_GATEWAYS_MAX: Final = 5
_REPORTED_MAX: Final = 1000
_BATCH_MAX_BYTES: Final = 128 * 2**20
_NOT_WITH_IT: Final = ("topics", "compare", "baseline", "history", "column", "show_payloads")
_BY_IN_WORDS: Final = {"client_id": "client id", "code": "error code"}


def summarize_trail(options: argparse.Namespace) -> int:
    """Read a trail, print what it says, and return the exit code.

    Args:
        options: Of `penstock audit`.

    Raises:
        ConfigurationError: No trail is named, or options do not fit together.
        CommandError: It cannot be read.
    """
    _check(options)
    raise_descriptor_limit()  # all files are open at once
    configuration = load_configuration(options.file)
    counts = TrailCounts(_moment(options.start, "--from"), _moment(options.end, "--to"))
    topic = options.topic or (None if options.input else configuration.audit_topic)
    line_count = 0
    with Progress().phase("reading the trail", lambda: line_count):
        if topic:
            name, lines = topic, _of_topic(options, configuration, topic)
        else:
            name, find = _files(options, configuration)
            lines = _of_files(name, find)
        for line in lines:
            counts.add(line)
            line_count += 1
    print("\n".join(_lines(name, counts)))
    if options.report:
        folder = Path(options.report)
        folder.mkdir(parents=True, exist_ok=True)
        write_file(folder / "trail.json", json.dumps(as_document(counts, _REPORTED_MAX), indent=1))
        print(f"report {folder / 'trail.json'}")
    return ExitCode.DONE


def _check(options: argparse.Namespace) -> None:
    if options.topic and options.input:
        raise ConfigurationError("name either --topic T or --input PATH")
    conflicts = [name for name in _NOT_WITH_IT if getattr(options, name)]
    if options.fail_over is not None:
        conflicts.append("fail_over")
    if conflicts:
        key = conflicts[0].replace("_", "-")
        raise ConfigurationError(f"--{key} cannot be used with --trail, which judges nothing")


def _moment(where: str, key: str) -> datetime | None:
    if where in {"earliest", "latest"}:
        return None
    try:
        moment = datetime.fromisoformat(where)
    except ValueError:
        raise ConfigurationError(
            f"{key} {where}: with --trail it must be an ISO time such as 2026-01-31T12:00:00"
        ) from None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def _files(
    options: argparse.Namespace, configuration: Configuration
) -> tuple[str, Callable[[], list[Path]]]:
    """Return the name of a trail in files, and what finds them."""
    if options.input:
        return options.input, partial(files_of, options.input)
    if not configuration.audit_file:
        raise ConfigurationError(
            f"{configuration.path}: neither audit.topic nor audit.file is set; name a trail by "
            "--topic T or --input PATH"
        )
    path = configuration.folder / configuration.audit_file
    return str(path), partial(rotated, path)


def _of_files(name: str, find: Callable[[], list[Path]]) -> Iterator[bytes]:
    with ExitStack() as opened:
        try:
            files = open_all(find, opened)
        except OSError as error:
            raise CommandError(f"{name}: {error.strerror or 'this file does not exist'}") from None
        if not files:
            raise CommandError(f"{name}: this file does not exist")
        for path, file in files:
            try:
                yield from lines_of(file)
            except DAMAGED as error:
                why = getattr(error, "strerror", None) or error
                raise CommandError(f"{path}: cannot be read: {why}") from None


def _of_topic(
    options: argparse.Namespace, configuration: Configuration, topic: str
) -> Iterator[bytes]:
    properties = configuration.upstream_properties
    if options.bootstrap_server:
        properties["bootstrap.servers"] = options.bootstrap_server
    try:
        cluster = Cluster(properties, configuration.path)
        topics = cluster.topics(topic)
        ids = {topic.name: topic.topic_id for topic in topics}
        # A refusal is written after it happened, so `--to` is looked up in the lines only.
        ranges = cluster.ranges(topics, options.start)
        connection = connect(properties, configuration.path)
        for offset_range in ranges:
            wanted_range = WantedRange(*offset_range, ids[offset_range.topic])
            for fetched in RangeReader(connection, wanted_range, on_lost=_lost):
                batch = read_fetched_batch(fetched, max_decompressed_bytes=_BATCH_MAX_BYTES)
                yield from (value or b"" for value in batch.records.values)
    except (ClusterError, ClientError, WireError, UnreadableBatchError, UnreadableRecords) as error:
        raise CommandError(f"topic {topic}: {error}") from None


def _lost(_: object) -> None:
    print("warning: a part of the trail was removed before it was read (retention)",
          file=sys.stderr)  # fmt: skip


def _lines(name: str, counts: TrailCounts) -> Iterator[str]:
    """Return what a trail says, for a person."""
    yield f"audit trail {name}: {counts.refusals:,} refusals of {counts.records:,} records"
    if counts.first is not None and counts.last is not None:
        yield f"  from {_short(counts.first)} to {_short(counts.last)}, by {_runs(counts.runs)}"
    for (outcome, subject), count in counts.outcomes.most_common(_SHOWN_MAX):
        yield f"  {count:>11,} {one_line(outcome)}: {one_line(subject)}"
    yield from _missing_lines(counts)
    yield from _plan_lines(counts)
    if not counts.refusals:
        return
    for field in BY:
        yield f"by {_BY_IN_WORDS.get(field, field)}, refusals and records"
        rows, rest = counts.by(field, _SHOWN_MAX)
        for value, refusals, records in rows:
            shown = "-" if value is None else one_line(value)
            yield f"  {refusals:>11,} {records:>13,}  {shown}"
        if rest:
            yield f"  {rest:>11,} {'':>13}  all others"
    yield from _over_time(counts)


def _missing_lines(counts: TrailCounts) -> Iterator[str]:
    if counts.missing:
        yield f"  {counts.missing:>11,} more are missing between others: left out, or removed"
    if counts.before_the_first and counts.start is None:
        yield (
            f"  {counts.before_the_first:>11,} more came before the first that is there: removed, "
            "or left out"
        )
    if counts.repeated_lines:
        yield f"  {counts.repeated_lines:>11,} lines were there again, and are not counted"
    if counts.plan_changes:
        yield f"  {counts.plan_changes:>11,} times a topic got another plan"
    if counts.unreadable:
        yield f"  {counts.unreadable:>11,} lines are no records of a trail"


def _plan_lines(counts: TrailCounts) -> Iterator[str]:
    """Return which plan was enforced since when."""
    periods = counts.plans.latest()
    if not periods:
        return
    yield "plans by topic, of gateways that wrote records; producers can bypass gateways"
    for topic, plan, begin, end, gateways in periods[:_SHOWN_MAX]:
        names = ", ".join(map(one_line, gateways[:_GATEWAYS_MAX]))
        more = f" and {len(gateways) - _GATEWAYS_MAX} more" if len(gateways) > _GATEWAYS_MAX else ""
        yield (
            f"  {one_line(topic)}: {one_line(plan or 'none')} since {_short(begin)}, last seen "
            f"{_short(end)}, by {names}{more}"
        )
    if len(periods) > _SHOWN_MAX:
        yield f"  {len(periods) - _SHOWN_MAX:,} more are in trail.json of --report"
    if counts.plans.not_kept:
        yield f"  {counts.plans.not_kept:,} records are left out: too many different plans"


def _over_time(counts: TrailCounts) -> Iterator[str]:
    periods = [(hour, sum(refusals.values())) for hour, refusals in hours(counts.times)]
    most = max((count for _, count in periods), default=1)
    width = "hour" if counts.times.width == 1 else f"{counts.times.width} hours"
    more = f", the last {_HOURS_MAX} of {len(periods):,}" if len(periods) > _HOURS_MAX else ""
    yield f"over time, by {width} (UTC){more}"
    for hour, count in periods[-_HOURS_MAX:]:
        bar = "#" * max(round(count * _BAR_MAX / most), 1)
        yield f"  {hour.removesuffix('+00:00')}  {count:>11,}  {bar}"


def _short(when: datetime) -> str:
    return when.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _runs(count: int) -> str:
    return "one run of a gateway" if count == 1 else f"{count:,} runs of gateways"
