"""Which files a path means: the same on Spark and without it, on this machine and elsewhere.

Every file of a folder counts, also in the folders below it, such as the `batch=2` of a stream.
Names that begin with `.` or `_` are hidden, as for Spark: unfinished jobs write to them. Spark's
own listing is not used: it leaves out what is below a folder, or beside the first `batch=2`.
"""

from __future__ import annotations

import glob
import os
import re
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, Protocol

from penstock.configuration import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from io import BufferedReader

INPUT: Final = "--input "
"""What errors name before the path, by default."""
_JSON: Final = frozenset({".json", ".jsonl", ".ndjson"})
_COMPRESSED: Final = frozenset({".bz2", ".deflate", ".gz", ".lz4", ".snappy", ".zst"})
"""The suffixes of files that Spark writes compressed."""
_OTHER_FILES: Final = "is neither a file nor a folder"


class StoredFile(Protocol):
    """A file that was listed: a `Path`, or a file of another file system."""

    @property
    def name(self) -> str:
        """Its name without its folder."""

    def open(self, mode: Literal["rb"]) -> BufferedReader:
        """Open it.

        Raises:
            OSError: It cannot be read.
        """


def list_folder(folder: Path) -> list[Path]:
    """Return the files in a folder and below it that are not hidden, by their paths.

    Links are followed. A file with several names is returned once for each of them.

    Raises:
        OSError: A folder cannot be read, or a name is neither that of a file nor of a folder.
    """
    files, folder_ids = [], set()
    for path, folders, names in os.walk(folder, onerror=_raise, followlinks=True):
        here = Path(path).stat()
        if (here.st_dev, here.st_ino) in folder_ids:  # a link to a folder above, or a second one
            folders.clear()
            continue
        folder_ids.add((here.st_dev, here.st_ino))
        folders[:] = sorted(name for name in folders if not is_hidden(name))
        files += [Path(path, name) for name in names if not is_hidden(name)]
    for file in files:
        if not file.is_file():
            raise OSError(None, _OTHER_FILES, str(file))
    return sorted(files)


def distinct(files: Iterable[Path]) -> list[Path]:
    """Return the first name of each file: a file with several names is read once.

    Raises:
        OSError: A file is not there any more.
    """
    first_names: dict[tuple[int, int], Path] = {}
    for file in files:
        status = file.stat()
        first_names.setdefault((status.st_dev, status.st_ino), file)
    return list(first_names.values())


def find_files(path_or_glob: str, key: str = INPUT) -> list[Path]:
    """Return the files of this machine that a path means; none if it means none.

    Args:
        path_or_glob: A file, a folder, or a glob. A name that exists is no glob.
        key: What errors name before the path.

    Raises:
        ConfigurationError: A folder cannot be read, or a name is that of no file.
    """
    paths = [Path(path_or_glob)]
    if glob.has_magic(path_or_glob) and not os.path.lexists(path_or_glob):
        paths = _matches(path_or_glob)
    files = []
    try:
        for path in paths:
            if path.is_dir():
                files += list_folder(path)
            elif path.is_file() and not is_hidden(path.name):
                files.append(path)
        return distinct(files)
    except OSError as error:
        raise unreadable(f"{key}{path_or_glob}: {error.filename}", error) from None


def _matches(pattern: str) -> list[Path]:
    """Return what a glob matches, by names that are not hidden."""
    fixed = re.split(r"[*?\[]", pattern, maxsplit=1)[0]
    fixed_count = len(PurePath(f"{fixed}x").parts) - 1
    matches = sorted(map(Path, glob.glob(pattern)))  # noqa: PTH207 - a pattern from the root on
    return [path for path in matches if not any(map(is_hidden, path.parts[fixed_count:]))]


def unreadable(where: str, error: OSError) -> ConfigurationError:
    """Return the error about a file or folder that cannot be read.

    Args:
        where: The option and the file.
        error: Why.
    """
    why = error.strerror or "it is damaged or encrypted"
    return ConfigurationError(
        f"{where} {why}" if why == _OTHER_FILES else f"{where}: cannot be read: {why}"
    )


def is_hidden(name: str) -> bool:
    """Return whether Spark leaves a file or a folder out, such as what is not finished.

    Args:
        name: Its name, without its folder.
    """
    return name[:1] == "." or (name[:1] == "_" and "=" not in name)


def is_json(file: PurePath | StoredFile) -> bool:
    """Return whether a file has JSON lines, by its name; otherwise it is Parquet."""
    suffixes = [suffix.lower() for suffix in PurePath(file.name).suffixes]
    if suffixes and suffixes[-1] in _COMPRESSED:
        suffixes.pop()
    return bool(suffixes) and suffixes[-1] in _JSON


def is_compressed(file: StoredFile) -> bool:
    """Return whether a file of JSON lines is compressed, by its name."""
    return PurePath(file.name).suffix.lower() in _COMPRESSED


class ListedFiles(NamedTuple):
    """Files of one kind.

    Attributes:
        argument: What the user has named.
        files: The files, at least one.
        are_json: Whether they have JSON lines; otherwise they are Parquet.
        key: What errors name before the path.
    """

    argument: str
    files: tuple[StoredFile, ...]
    are_json: bool
    key: str = INPUT

    @classmethod
    def of(cls, source: str, files: Sequence[StoredFile], key: str = INPUT) -> ListedFiles:
        """Return files, after a check that they are of one kind.

        Args:
            source: What the user has named.
            files: The files that it means.
            key: What errors name before the path.

        Raises:
            ConfigurationError: There are none, or some have JSON lines and others not.
        """
        if not files:
            raise ConfigurationError(f"{key}{source}: there are no files with this name")
        others = [file for file in files if not is_json(file)]
        if others and len(others) < len(files):
            raise ConfigurationError(
                f"{key}{source}: has JSON lines, and files that are not: {others[0]}; name one kind"
            )
        return cls(source, tuple(files), not others, key)


def _raise(error: OSError) -> None:
    raise error
