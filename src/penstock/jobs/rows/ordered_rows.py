"""Brings records of files into the order of topic, partition and offset.

Files have names in any order, and a record may return to its topic only after those that were
before it. What does not fit into memory is sorted in temporary files, which have no names.
"""

from __future__ import annotations

import heapq
import marshal
import tempfile
from contextlib import ExitStack
from itertools import islice
from typing import TYPE_CHECKING, Final

from penstock.jobs.rows.records import RecordRow
from penstock.policy import Header

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import BinaryIO

_BYTES_HELD: Final = 64 * 2**20
_ROW_BYTES: Final = 500
"""What a row takes besides its contents."""
_ROWS: Final = 100
"""So many rows of each temporary file are in memory while they are merged."""


def in_order(rows: Iterable[RecordRow], *, bytes_held: int = _BYTES_HELD) -> Iterator[RecordRow]:
    """Return records by topic, partition and offset; those with the same place as they come.

    Args:
        bytes_held: About how many bytes of them are in memory.

    Raises:
        OSError: The temporary files cannot be written.
    """
    with ExitStack() as files:
        sorted_files: list[BinaryIO] = []
        buffered_rows: list[RecordRow] = []
        size = 0
        for row in rows:
            buffered_rows.append(row)
            size += row.size + _ROW_BYTES
            if size >= bytes_held:
                file = files.enter_context(tempfile.TemporaryFile(prefix="penstock-"))
                _write(sorted(buffered_rows, key=_place), file)
                sorted_files.append(file)
                buffered_rows, size = [], 0
        buffered_rows.sort(key=_place)
        yield from heapq.merge(*map(_read, sorted_files), buffered_rows, key=_place)


def _place(row: RecordRow) -> tuple[str, int, int]:
    return row.topic or "", row.known_partition, row.known_offset


def _write(rows: Iterable[RecordRow], file: BinaryIO) -> None:
    row_iterator = iter(rows)
    while some := list(islice(row_iterator, _ROWS)):
        marshal.dump([(*row[:-1], tuple(map(tuple, row.headers))) for row in some], file)
    file.seek(0)


def _read(file: BinaryIO) -> Iterator[RecordRow]:
    while True:
        try:
            some = marshal.load(file)  # noqa: S302 - this process has written it
        except EOFError:
            return
        for *fields, headers in some:
            yield RecordRow._make([*fields, tuple(Header(*header) for header in headers)])
