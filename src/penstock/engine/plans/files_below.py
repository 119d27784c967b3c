"""Finds files that decide which records are stored, below folders."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

CODE: Final = frozenset({".py", ".pyc", ".so"})
SCHEMAS: Final = frozenset({".json", ".jsonschema", ".schema", ".avsc", ".proto", ".yaml", ".yml"})
"""The files that topics name, and those that their schemas refer to."""
DATA: Final = SCHEMAS | {".txt", ".csv", ".tsv", ".toml", ".ini", ".xml"}
"""The files that classes read: next to them, or in the folder of the configuration file."""
FILES_MAX: Final = 20_000
_OF_ENVIRONMENTS: Final = "pyvenv.cfg"


class NotKnownError(Exception):
    """The outcome cannot be known in advance. The text completes "because"."""


def files_below(
    folder: Path, name: str, endings: frozenset[str] | None
) -> Iterator[tuple[str, Path]]:
    """Return the files below a folder, by names that do not depend on where it is.

    Folders behind links count. Hidden folders and virtual environments do not.

    Args:
        name: How the names begin.
        endings: How the files end; None for all files.

    Raises:
        NotKnownError: There are too many.
    """
    entry_count, visited = 0, {_identity(folder)}
    for where, folders, files in os.walk(folder, followlinks=True):
        if _OF_ENVIRONMENTS in files and where != str(folder):
            folders.clear()
            continue
        entry_count += len(files) + len(folders)
        if entry_count > FILES_MAX:
            raise NotKnownError(f"{folder} has more than {FILES_MAX} files")
        entered = []
        for each in sorted(folders):
            identity = _identity(Path(where) / each)
            if each[0] != "." and each != "__pycache__" and identity not in visited:
                visited.add(identity)
                entered.append(each)
        folders[:] = entered
        for file in files:
            path = Path(where) / file
            if (endings is None or path.suffix in endings) and path.is_file():
                yield f"{name}/{path.relative_to(folder).as_posix()}", path


def _identity(folder: Path) -> tuple[int, int] | None:
    try:
        stat_result = folder.stat()
    except OSError:
        return None
    return stat_result.st_dev, stat_result.st_ino
