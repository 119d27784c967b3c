"""Rows of any columns for commands: `--input PATH --rows`, `--input table:NAME --rows`."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from penstock.cli.jobs.job import check_no_range
from penstock.cli.jobs.session import CommandSession, quiet_spark, reported
from penstock.configuration import ConfigurationError
from penstock.jobs.locations import TABLE, TOPIC_OF_ROWS
from penstock.kafka.wire.names import is_topic_name
from penstock.progress import Progress

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping

    from pyspark.sql import DataFrame


def add_rows_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the option."""
    parser.add_argument(
        "--rows",
        action="store_true",
        help="with --input: rows of any columns, each a record whose value is the row as JSON; "
        f"--topic names the topic that they are of (default {TOPIC_OF_ROWS}); on Spark",
    )


def check_rows_options(options: argparse.Namespace, unused: Mapping[str, str]) -> None:
    """Check the options of a command over rows.

    Args:
        unused: The options that do not apply, each with what does.

    Raises:
        ConfigurationError: The input is not named, or an option does not apply.
    """
    if not options.input:
        raise ConfigurationError(f"--rows: name the rows: --input PATH, or --input {TABLE}NAME")
    for option, why in unused.items():
        if getattr(options, option.removeprefix("--").replace("-", "_")):
            raise ConfigurationError(f"--rows and {option}: {why}")
    if not is_topic_name(topic := options.topic or TOPIC_OF_ROWS):
        raise ConfigurationError(
            f"--topic {topic}: with --rows, name the topic that they are of, with letters, digits, "
            "., _ and -"
        )
    check_no_range(options.start, options.end)


@contextlib.contextmanager
def rows_of(options: argparse.Namespace, verb: str) -> Iterator[DataFrame]:
    """Read the rows of `--input`, and show how many are read inside a `with` block.

    Args:
        verb: The work, such as `judging`.

    Raises:
        ConfigurationError: They cannot be read, or PySpark is not installed.
        CommandError: The work failed.
    """
    from penstock.jobs.evaluation import close_all  # noqa: PLC0415

    source: str = options.input
    with quiet_spark():
        session = CommandSession(options, Progress())
        try:
            with reported(session, source):
                frame = _frame(session, source)
                with session.counting(f"{verb} {source}"):
                    yield frame
        finally:
            close_all()
            session.close()


def _frame(session: CommandSession, source: str) -> DataFrame:
    from penstock.spark.frames.files import read_any_columns  # noqa: PLC0415
    from penstock.spark.frames.tables import find_table  # noqa: PLC0415

    if source.startswith(TABLE):
        return find_table(session.spark, source.removeprefix(TABLE))
    session.check_input(source, "name a table")
    return read_any_columns(session.spark, source)
