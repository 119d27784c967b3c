"""The update of a pipeline that Spark's command runs, and the tables of earlier updates.

A streaming table continues where its last update ended. If it is written from another table from
now on, it would get all rows of that table again: such an update is refused.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from penstock.spark.pipelines.expectations import COLUMNS

if TYPE_CHECKING:
    from collections.abc import Sequence

_COMMAND: Final = ("pyspark", "pipelines", "cli.py")
_PARTS: Final = re.compile(r"`(?:[^`]|``)+`|[^.`]+")


class Update(NamedTuple):
    """The tables that an update begins again, and where they are by default.

    Attributes:
        full_refresh: The tables that it begins again, or None for all.
        catalog: That of tables without a catalog, if the project names it.
        database: That of tables without a database, if the project names it.
    """

    full_refresh: tuple[str, ...] | None
    catalog: str | None
    database: str | None

    def refreshes(self, name: str) -> bool:
        """Whether it begins a table again."""
        return self.full_refresh is None or any(
            may_be_same(name, other) for other in self.full_refresh
        )

    def columns(self, name: str) -> list[str] | None:
        """Return the columns of a table of earlier updates, or None if there is none."""
        catalog = SparkSession.active().catalog
        defaults = [part for part in (self.catalog, self.database) if part]
        missing_count = len(defaults) + 1 - len(_PARTS.findall(name))
        full_name = ".".join([*defaults[: max(missing_count, 0)], name])
        try:
            if not catalog.tableExists(full_name):
                return None
            return [column.name for column in catalog.listColumns(full_name)]
        except PySparkException:  # Spark says it when it creates the table
            return None


def current_update() -> Update | None:
    """Return the update that Spark's command runs, or None for another program."""
    if Path(sys.argv[0]).parts[-len(_COMMAND) :] != _COMMAND:
        return None
    from pyspark.pipelines.cli import (  # noqa: PLC0415 - a program
        find_pipeline_spec,
        load_pipeline_spec,
        parse_table_list,
    )

    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--spec")
    parser.add_argument("--full-refresh", type=parse_table_list, action="extend", default=[])
    parser.add_argument("--full-refresh-all", action="store_true")
    options, _ = parser.parse_known_args(sys.argv[2:])
    # The definitions are read in the folder of the project.
    file = Path.cwd() / Path(options.spec).name if options.spec else find_pipeline_spec(Path.cwd())
    spec = load_pipeline_spec(file)
    tables = None if options.full_refresh_all else tuple(options.full_refresh)
    return Update(tables, spec.catalog, spec.database)


def check_written_directly(name: str, all_rows: str) -> None:
    """Check that a streaming table was not written from a table of all rows before.

    Args:
        all_rows: The name that this table would have.

    Raises:
        ValueError: It was, and would get the rows of its query again.
    """
    update = current_update()
    if update is None or update.refreshes(name):
        return
    if update.columns(all_rows) == list(COLUMNS) and update.columns(name) is not None:
        raise ValueError(
            f"{name}: earlier updates wrote it from {all_rows}, and it would get all rows of its "
            f"query again: run once with --full-refresh {name}, then drop {all_rows}"
        )


def check_written_from(all_rows: str, name: str, others: Sequence[str]) -> None:
    """Check that a streaming table was always written from the table of all rows.

    Args:
        all_rows: The table of all rows.
        name: The table that is written from it.
        others: Tables that also are, of quarantined rows.

    Raises:
        ValueError: It was not, and would get all rows again; or it begins only some of the
            tables again.
    """
    update = current_update()
    if update is None:
        return
    tables = [name, all_rows, *others]
    again = [table for table in tables if update.refreshes(table)]
    together = f"--full-refresh {','.join(tables)}"
    if again and len(again) < len(tables):
        raise ValueError(
            f"--full-refresh {','.join(again)}: {', '.join(tables)} have the rows of one "
            f"query: run with {together}"
        )
    if not again and update.columns(name) is not None and update.columns(all_rows) is None:
        raise ValueError(
            f"{name}: earlier updates wrote it without {all_rows}, and it would get all rows of "
            f"its query again: run once with {together}"
        )


def may_be_same(name: str, other: str) -> bool:
    """Whether two names may be those of a table, with and without a catalog or a schema."""
    plain, plain_other = (f".{each.replace('`', '').lower()}" for each in (name, other))
    return plain.endswith(plain_other) or plain_other.endswith(plain)
