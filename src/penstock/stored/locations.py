"""Locations of records on the command line: topics, or folders written as `path:DIR`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True)
class RecordLocation:
    """A topic or a folder of Parquet files with Kafka's columns.

    Attributes:
        name: The topic's name, or the folder's path.
        is_folder: Which of the two.
    """

    name: str
    is_folder: bool

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `TOPIC` or `path:DIR`.

        Raises:
            ValueError: It is neither.
        """
        if text.startswith("path:"):
            if not text.removeprefix("path:"):
                raise ValueError("path: needs a folder behind it: path:DIR")
            return cls(text.removeprefix("path:"), is_folder=True)
        if not text or "/" in text:
            raise ValueError(f"{text!r} is no topic; a folder is written path:{text}")
        return cls(text, is_folder=False)

    def __str__(self) -> str:
        return f"path:{self.name}" if self.is_folder else self.name
