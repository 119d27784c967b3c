"""Locations of records on the command line: topics, `path:DIR` for folders, `table:NAME`."""

from __future__ import annotations

import os
import posixpath
import re
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Final, Self

from penstock.configuration import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

TABLE: Final = "table:"
"""What the location of a table begins with."""
TOPIC_OF_ROWS: Final = "rows"
"""The topic that rows of any columns are of, where none is named."""
_URL: Final = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*:)(.*)")


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

    @property
    def full_path(self) -> str:
        """The path of a folder: absolute, without links, or a URL; equal for all spellings."""
        url = _URL.fullmatch(self.name)
        if url is None:
            return os.path.realpath(self.name)
        return url[1] + (posixpath.normpath(url[2]) if url[2] else "")

    def beside(self, suffix: str) -> RecordLocation:
        """Return the location with a suffix, of the same kind.

        Args:
            suffix: Such as `.parked`.
        """
        if not self.is_folder:
            return RecordLocation(f"{self.name}{suffix}", is_folder=False)
        name = self.name.rstrip("/")
        if posixpath.basename(name) in {"", ".", ".."}:
            name = self.full_path
        return RecordLocation(f"{name}{suffix}", is_folder=True)

    def __str__(self) -> str:
        prefix = "path:" if self.is_folder else TABLE if self.is_table else ""
        return f"{prefix}{self.name}"


def check_apart(locations: Mapping[str, RecordLocation]) -> None:
    """Check that no two locations are equal, and no folder is in another.

    Args:
        locations: By the option that names each.

    Raises:
        ConfigurationError: They are not apart.
    """
    for (name, first), (other, second) in combinations(locations.items(), 2):
        if first == second:
            raise ConfigurationError(f"{name} and {other} must differ, and both are {first}")
        if not (first.is_folder and second.is_folder):
            continue
        paths = [f"{location.full_path.rstrip('/')}/" for location in (first, second)]
        if paths[0].startswith(paths[1]) or paths[1].startswith(paths[0]):
            raise ConfigurationError(
                f"{name} {first} and {other} {second} must differ, and neither may be in the other"
            )


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
