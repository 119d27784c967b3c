"""The options that commands over stored records have in common, and how their values are read."""

from __future__ import annotations

import argparse
import re
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Final

from penstock.configuration.arguments import bootstrap_servers

if TYPE_CHECKING:
    from penstock.jobs.locations import RecordLocation

_MASTER: Final = re.compile(
    r"local(\[(\d+|\*)(, *\d+)?\])?|local-cluster\[.+\]|yarn|[a-z][a-z0-9+.-]*://\S+"
)
"""With `://`, as other cluster managers have it, too."""


def add_job_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of every Spark command."""
    parser.add_argument("file", metavar="FILE", help="the gateway's configuration file")
    add_cluster_argument(parser)
    add_spark_arguments(parser)
    parser.add_argument(
        "--local",
        action="store_true",
        help="run in this process, without Spark: for topics of a few million records",
    )
    parser.add_argument(
        "--records-policy-batch",
        type=positive_number,
        default=1,
        metavar="N",
        help="the number of consecutive records of a stored batch that a RecordsPolicy (KIP-686) "
        "gets at a time (default 1)",
    )


def add_cluster_argument(parser: argparse.ArgumentParser) -> None:
    """Declare the option that names another cluster than the file's."""
    parser.add_argument(
        "--bootstrap-server",
        type=bootstrap_servers,
        metavar="HOST:PORT",
        help="the cluster (default: the file's upstream.bootstrap.servers)",
    )


def add_spark_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of a command's session."""
    parser.add_argument(
        "--master",
        type=master,
        help="Spark's master (default local[*]; with spark-submit, its master)",
    )
    parser.add_argument(
        "--remote",
        metavar="sc://HOST:PORT",
        help="a Spark Connect server, instead of a master; for topics, and tables that are read",
    )
    parser.add_argument(
        "--conf",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a Spark setting; repeatable",
    )


def add_source_arguments(parser: argparse.ArgumentParser, *, end: bool = True) -> None:
    """Declare where records are read from."""
    parser.add_argument(
        "--topic",
        metavar="T,...",
        help="the topics to read: names and globs, separated by commas",
    )
    parser.add_argument(
        "--input",
        metavar="PATH",
        help="Parquet or JSON lines files with Kafka's columns, instead of a topic; or "
        "table:NAME, a table of Spark's catalog",
    )
    parser.add_argument(
        "--column",
        action="append",
        default=[],
        metavar="NAME=EXPRESSION",
        help="with a table: an expression in Spark's SQL for a column of Kafka, such as "
        "value=payload; repeatable",
    )
    where = "earliest, latest, an ISO time, or PARTITION:OFFSET,..."
    parser.add_argument("--from", dest="start", default="earliest", metavar="WHERE", help=where)
    if end:
        parser.add_argument("--to", dest="end", default="latest", metavar="WHERE", help=where)
    else:
        parser.set_defaults(end="latest")


def add_reader_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare how topics are read."""
    parser.add_argument(
        "--strict",
        action="store_true",
        help="exit 3 if records were removed before they were read (retention)",
    )


def add_writing_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare how topics are written to."""
    parser.add_argument(
        "--job",
        metavar="ID",
        help="with topics: the name under which the job's positions are stored; by default, it "
        "is derived from the command, the topics, the targets and --from, so that the same "
        "command continues where it was interrupted",
    )
    parser.add_argument(
        "--again",
        action="store_true",
        help="with topics: start at --from again, for example after a policy change; "
        "records of earlier runs of the job are written again",
    )


def positive_number(text: str) -> int:
    """Return the value of an option that is a number from 1 on.

    Raises:
        ArgumentTypeError: It is not.
    """
    number = int(text) if text.isdecimal() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of at least 1")
    return number


def master(text: str) -> str:
    """Return the value of an option that can be Spark's master.

    Raises:
        ArgumentTypeError: It is not: Spark would only say so with a stack trace.
    """
    if not _MASTER.fullmatch(text):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a master, such as local[*], local[4], spark://HOST:PORT, yarn or "
            "k8s://https://HOST:PORT"
        )
    return text


def ratio(text: str) -> float:
    """Read a share for argparse: a number from 0 to 1, or a percentage such as 5%."""
    digits = text.strip()
    percentage = digits.endswith("%")
    try:
        number = Decimal(digits.removesuffix("%").rstrip())
    except InvalidOperation:
        number = Decimal("NaN")
    if number.is_nan() or not 0 <= number <= (100 if percentage else 1):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a share: a number from 0 to 1 such as 0.05, or a percentage such "
            "as 5%"
        )
    return float(number / 100 if percentage else number)


def location(text: str) -> RecordLocation:
    """Read a topic or a folder for argparse.

    Raises:
        ArgumentTypeError: It is neither.
    """
    record_location = location_or_table(text)
    if record_location.is_table:
        raise argparse.ArgumentTypeError(f"{text!r}: only split writes tables")
    return record_location


def location_or_table(text: str) -> RecordLocation:
    """Read a place for argparse.

    Raises:
        ArgumentTypeError: It is none.
    """
    from penstock.jobs.locations import RecordLocation  # noqa: PLC0415

    try:
        return RecordLocation.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
