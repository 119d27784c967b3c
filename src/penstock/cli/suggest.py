"""Suggest a JSON Schema and rules from a sample of stored records or rows.

It suggests a JSON Schema (types, required properties, formats), conditions (ranges and texts in
the sample), and required keys and headers, each with the share of the sample that it would refuse.
The output ends with keys for the configuration file, in which the topic is observed
(penstock.mode). --output writes them to a folder, with the schema. Review them: they contain texts
and numbers from your records. The command enables nothing. With --rows, it needs Spark, and the
output is also for plan and load_plan of penstock.spark.
"""

from __future__ import annotations

import asyncio
import json
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

from penstock.cli.failures import CommandError, ExitCode
from penstock.cli.jobs.arguments import (
    add_cluster_argument,
    add_spark_arguments,
    positive_number,
    ratio,
)
from penstock.cli.jobs.job import check_no_range
from penstock.cli.jobs.row_input import add_rows_arguments, check_rows_options, rows_of
from penstock.cli.output.printable import printable
from penstock.cli.output.record_lines import records_in_file
from penstock.configuration import ConfigurationError, load_configuration
from penstock.jobs.locations import TOPIC_OF_ROWS
from penstock.jobs.plan import policies_of
from penstock.jobs.topics.excerpt import excerpt
from penstock.jobs.topics.excerpt_reading import Reading, reader_of
from penstock.kafka.records.batch import read_batch
from penstock.kafka.records.errors import UnreadableRecords
from penstock.kafka.wire.names import is_topic_name
from penstock.policy import Record
from penstock.progress import Progress

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Iterator, Sequence

    from penstock.configuration import Configuration
    from penstock.jobs.suggestions.proposals import Proposals
    from penstock.jobs.topics.excerpt_reading import ReadBatch

RECORDS_MAX: Final = 10_000
BYTES_MAX: Final = 256 * 1024 * 1024
TOLERANCE: Final = 0.01
PROPERTIES: Final = "suggested.properties"
_NOT_FOR_ROWS: Final = {
    "--bootstrap-server": "no cluster is needed",
}
"""Options that cannot be used with --rows, and why."""
_VERSION: Final = 9
"""Of the Produce request that batches are read as."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "file",
        nargs="?",
        metavar="FILE",
        help="the gateway's configuration file; with --rows, it is only checked, and can be left "
        "out",
    )
    parser.add_argument("--topic", metavar="T", help="the topic")
    add_cluster_argument(parser)
    parser.add_argument(
        "--input",
        metavar="RECORDS.jsonl",
        help="a file with a record in each line, as for explain, instead of the topic; with "
        "--rows, Parquet or JSON lines files of any columns, or table:NAME",
    )
    add_rows_arguments(parser)
    add_spark_arguments(parser)
    where = "earliest, latest, an ISO time, or PARTITION:OFFSET,..."
    parser.add_argument("--from", dest="start", default="earliest", metavar="WHERE", help=where)
    parser.add_argument("--to", dest="end", default="latest", metavar="WHERE", help=where)
    parser.add_argument(
        "--limit",
        type=positive_number,
        default=RECORDS_MAX,
        metavar="N",
        help="the maximum number of records to read; if there are more, a sample of the whole "
        f"period (default {RECORDS_MAX:,})",
    )
    parser.add_argument(
        "--tolerance",
        type=ratio,
        default=TOLERANCE,
        metavar="RATIO",
        help="the share of records that can be mistakes: 0.01 or 1%% (the default)",
    )
    parser.add_argument(
        "--output",
        metavar="DIR",
        help=f"write {PROPERTIES} and the JSON Schema to this folder; existing files are kept",
    )


def run(options: argparse.Namespace) -> int:
    """Run the command; return its exit code."""
    _check(options)
    if not 0 <= options.tolerance < 0.5:
        raise ConfigurationError("--tolerance must be less than 0.5")
    try:
        from penstock.jobs.suggestions.proposals import propose  # noqa: PLC0415 - extras
        from penstock.jobs.suggestions.writing import call_of_plan, properties, table  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"there is no module {error.name}: pip install 'penstock-kafka[rules]'"
        ) from None
    records = _rows(options) if options.rows else _records(options)
    unit = "rows" if options.rows else "records"
    if not records:
        raise ConfigurationError(f"there are no {unit} of {options.topic} to read")
    try:
        proposals = propose(options.topic, records, options.tolerance)
    except ValueError as error:  # a package is missing
        raise ConfigurationError(str(error)) from None
    print("\n".join(map(printable, table(proposals, unit))))
    lines = list(properties(proposals, of_rows=options.rows))
    if lines:
        print("", *lines, sep="\n")
    if options.rows and proposals.proposals:
        call = call_of_plan(proposals, options.output or "")
        print("", "# The same in Python:", *call, sep="\n")
    if options.output:
        _write(Path(options.output), proposals, lines)
    return ExitCode.DONE


def _check(options: argparse.Namespace) -> None:
    """Check which options there are.

    Raises:
        ConfigurationError: One is missing, or does not apply.
    """
    if options.rows:
        check_rows_options(options, _NOT_FOR_ROWS)
        options.topic = options.topic or TOPIC_OF_ROWS
        if options.file is not None:
            policies_of(options.file, needs_cluster=False)
        return
    for option in ("master", "remote", "conf"):
        if getattr(options, option):
            raise ConfigurationError(f"--{option} requires --rows: records are read without Spark")
    for name, value in (("FILE", options.file), ("--topic T", options.topic)):
        if value is None:
            raise ConfigurationError(f"name {name}; only rows (--rows) are read without it")
    if not is_topic_name(options.topic):
        raise ConfigurationError(f"--topic {options.topic}: name a topic: it is part of the keys")


def _rows(options: argparse.Namespace) -> list[Record]:
    with rows_of(options, "reading") as rows:
        from penstock.spark.rows.sample import sample_of  # noqa: PLC0415

        return sample_of(rows, options.limit, BYTES_MAX)


def _records(options: argparse.Namespace) -> list[Record]:
    configuration = load_configuration(options.file)
    if options.input:
        check_no_range(options.start, options.end)
        located = records_in_file(Path(options.input))
        return [located_record.record for _, located_record in islice(located, options.limit)]
    return asyncio.run(_from_cluster(options, configuration))


async def _from_cluster(options: argparse.Namespace, configuration: Configuration) -> list[Record]:
    from penstock.kafka.client.connections.connection import connect  # noqa: PLC0415 - not for a file
    from penstock.kafka.client.errors import ClientError, UnreadableBatchError  # noqa: PLC0415
    from penstock.kafka.cluster.errors import ClusterError  # noqa: PLC0415
    from penstock.kafka.cluster.offsets import Cluster, check_place  # noqa: PLC0415
    from penstock.kafka.wire.errors import WireError  # noqa: PLC0415

    check_place(options.start, "--from")
    check_place(options.end, "--to")
    properties = configuration.upstream_properties
    if options.bootstrap_server:
        properties["bootstrap.servers"] = options.bootstrap_server
    try:
        cluster = Cluster(properties, configuration.path)
        topic = await asyncio.to_thread(cluster.topic, options.topic)
        ranges = await asyncio.to_thread(cluster.ranges, (topic,), options.start, options.end)
        part = excerpt(ranges, options.limit)
        connection = connect(properties, configuration.path)
        reader = reader_of(connection, {topic.name: topic.topic_id}, lambda _lost: None)
        most = configuration.decompressed_batch_max_bytes
        reading = Reading(part.pieces, reader, BYTES_MAX, max_decompressed_bytes=most)
        records: list[Record] = []
        with Progress().phase(f"reading {topic.name}", lambda: len(records), options.limit):
            offsets = {
                offset_range.partition: range(offset_range.start, offset_range.end)
                for offset_range in ranges
            }
            batches = (_records_of(batch, offsets[batch.partition], most) for batch in reading)
            await asyncio.to_thread(_fill, records, batches, options.limit)
    except (ClusterError, ClientError, UnreadableBatchError, WireError) as error:
        raise CommandError(f"{properties['bootstrap.servers']}: {error}") from None
    return records


def _fill(records: list[Record], batches: Iterable[Iterable[Record]], limit: int) -> None:
    size = 0
    for batch in batches:
        for record in batch:
            size += len(record.key or b"") + len(record.value or b"")
            if len(records) == limit or size > BYTES_MAX:
                return
            records.append(record)


def _records_of(batch: ReadBatch, offsets: range, most: int) -> Iterator[Record]:
    """Yield the records of a batch with some offsets; none of an unreadable batch."""
    if batch.data is None:
        return
    try:
        columns = read_batch(
            batch.data, api_version=_VERSION, max_decompressed_bytes=most, max_records=most
        ).records
    except UnreadableRecords:
        return
    rows = zip(columns.timestamps, columns.keys, columns.values, columns.headers, strict=True)
    for index, row in enumerate(rows):
        if batch.offset_of(index) in offsets:
            yield Record(*row)


def _write(folder: Path, proposals: Proposals, lines: Sequence[str]) -> None:
    """Write the proposals.

    Raises:
        ConfigurationError: It cannot be written, or a file exists already.
    """
    from penstock.jobs.suggestions.writing import schema_file  # noqa: PLC0415 - extras

    texts = {PROPERTIES: "\n".join(lines) + "\n"}
    if proposals.schema is not None:
        texts[schema_file(proposals.topic)] = json.dumps(proposals.schema, indent=2) + "\n"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            with (folder / name).open("x", encoding="utf-8") as file:
                file.write(text)
            print(f"written {folder / name}")
    except FileExistsError as error:
        raise ConfigurationError(
            f"--output {folder}: {error.filename} exists already; no file is overwritten"
        ) from None
    except OSError as error:
        raise ConfigurationError(f"--output {folder}: {error.strerror}") from None
