"""Locations of records on the command line: topics, `path:DIR` for folders, `table:NAME`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Self

TABLE: Final = "table:"
"""What the location of a table begins with."""


@dataclass(frozen=True)
class RecordLocation:
    """A topic, a folder of Parquet files or a table; the latter two with Kafka's columns.

    Attributes:
        name: The topic's name, the folder's path, or the table as Spark's SQL names it.
        is_folder: Whether it is a folder.
        is_table: Whether it is a table.
    """

    name: str
    is_folder: bool
    is_table: bool = False

    @property
    def is_topic(self) -> bool:
        """Whether it is neither a folder nor a table."""
        return not (self.is_folder or self.is_table)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `TOPIC`, `path:DIR` or `table:NAME`.

        Raises:
            ValueError: It is not valid.
        """
        if text.startswith(TABLE):
            return cls(_table(text), is_folder=False, is_table=True)
        if text.startswith("path:"):
            if not text.removeprefix("path:"):
                raise ValueError("path: must be followed by a folder: path:DIR")
            return cls(text.removeprefix("path:"), is_folder=True)
        if not text or "/" in text:
            raise ValueError(f"{text!r} is not a topic; for a folder, write path:{text}")
        return cls(text, is_folder=False)

    def __str__(self) -> str:
        prefix = "path:" if self.is_folder else TABLE if self.is_table else ""
        return f"{prefix}{self.name}"


def _table(text: str) -> str:
    """Return the name of a table.

    A path without its format would only be an error of syntax in Spark.
    """
    name = text.removeprefix(TABLE).strip()
    if not name:
        raise ValueError("table: must be followed by a table: table:CATALOG.SCHEMA.NAME")
    if "/" in name and "`" not in name:
        raise ValueError(
            f"{text!r} is a path, not a table's name; for a Delta table, write "
            f"table:delta.`{name}`, for a folder of Parquet files path:{name}"
        )
    return name
