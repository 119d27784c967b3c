"""The lines of a trail in files: the current file, and the files that it was renamed to."""

from __future__ import annotations

import bz2
import gzip
import lzma
import zlib
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from penstock.jobs.audit_trail.counts import LINE_MAX_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_OPEN: Final[dict[str, Callable[[Path], Any]]] = {
    ".gz": gzip.open,
    ".bz2": bz2.open,
    ".xz": lzma.open,
}
_TRIES: Final = 5
DAMAGED: Final = (OSError, EOFError, lzma.LZMAError, zlib.error)
"""What reading a file may raise."""


def rotated(path: Path) -> list[Path]:
    """Return a file, and those next to a file whose names begin with its name.

    Args:
        path: The file that a gateway writes; it need not be there.
    """
    beside = (file for file in path.parent.glob("*") if file.name.startswith(path.name))
    return sorted(
        file for file in beside if file.is_file() and (file == path or not file.is_symlink())
    )


def files_of(path_or_glob: str) -> list[Path]:
    """Return the files that a path means: a file, all of a folder, or those that match a glob.

    Raises:
        FileNotFoundError: There is no file.
    """
    path = Path(path_or_glob)
    if path.is_file():
        return [path]
    if path.is_dir():
        files = [
            file for file in path.iterdir() if file.is_file() and not file.name.startswith(".")
        ]
    else:
        files = [file for file in path.parent.glob(path.name) if file.is_file()]
    if not files:
        raise FileNotFoundError(path_or_glob)
    return sorted(files)


def open_all(find: Callable[[], list[Path]], opened: ExitStack) -> list[tuple[Path, BinaryIO]]:
    """Open all files before any is read: a rotation meanwhile renames them, and adds another.

    Args:
        find: Returns the existing files.
        opened: Closes the files.

    Raises:
        OSError: A file cannot be opened, or is renamed each time.
    """
    for _ in range(_TRIES):
        with ExitStack() as some:
            try:
                files = [(file, some.enter_context(_open(file))) for file in find()]
            except FileNotFoundError:
                continue  # renamed just now
            opened.push(some.pop_all())
            return files
    raise FileNotFoundError(f"{find()} are renamed all the time")


def _open(path: Path) -> Any:
    opened = _OPEN.get(path.suffix)
    return path.open("rb") if opened is None else opened(path)


def lines_of(file: BinaryIO) -> Iterator[bytes]:
    """Return the lines of a file, without line ends.

    The last line is left out while it has no end: it is incomplete. Of a line that is longer than
    any of a trail, only the beginning comes.

    Raises:
        OSError: It cannot be read, or decompressed; so do the others of `DAMAGED`.
    """
    is_continued = False
    while line := file.readline(LINE_MAX_BYTES + 1):
        is_whole = line.endswith(b"\n")
        if not is_continued and (is_whole or len(line) > LINE_MAX_BYTES) and line.strip():
            yield line.removesuffix(b"\n")
        is_continued = not is_whole
