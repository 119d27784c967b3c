"""Reads the state of producers that a gateway of an earlier version kept in a SQLite file.

A gateway takes it over when it starts with the same configuration file: it writes what the topic
does not have.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import structlog

from penstock.configuration.producer_state_keys import FORMER_FOLDER
from penstock.gateway.produce.producer_state.records.encoding import ProducerKey

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.configuration import Configuration

log = structlog.get_logger()

_VERSION: Final = 3
"""Of the file. Producers of an older one are not distinguished by principal."""
_READ: Final = "SELECT key, record, used FROM producers WHERE key != ? ORDER BY used"
_PROBE_KEY: Final = b"probe"
"""Was written to see whether the disk has room."""


class FormerRecord(NamedTuple):
    """A record of a producer.

    Attributes:
        used: When it was written, in seconds since the epoch.
    """

    key: ProducerKey
    record: bytes
    used: float


def former_file(configuration: Configuration, cluster_id: str) -> Path:
    """Return where a gateway of an earlier version kept the state of a cluster's producers."""
    return configuration.folder / FORMER_FOLDER / f"producer-state-{cluster_id}.sqlite"


def former_records(file: Path) -> list[FormerRecord]:
    """Return the records of a file, the least recently used first; none if it cannot be read.

    Args:
        file: The file; it may be missing, or be in a folder that only others write.
    """
    try:
        if not file.exists():
            return []
        with _writable(file) as copy, contextlib.closing(_opened(copy)) as connection:
            return list(_records(connection))
    except (OSError, sqlite3.Error, ValueError) as error:
        log.warning("the state of producers in a file is ignored", file=file, reason=str(error))
        return []


def _opened(file: Path) -> sqlite3.Connection:
    """Open a file that no other process uses."""
    connection = sqlite3.connect(file, isolation_level=None, timeout=0.5)
    try:
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        connection.execute("BEGIN EXCLUSIVE")
    except BaseException:
        connection.close()
        raise
    return connection


def _records(connection: sqlite3.Connection) -> Iterator[FormerRecord]:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version != _VERSION:
        raise ValueError(f"it is of version {version}, not {_VERSION}")
    for key, record, write_time in connection.execute(_READ, (_PROBE_KEY,)):
        yield FormerRecord(ProducerKey.decode(key), record, write_time)


@contextlib.contextmanager
def _writable(file: Path) -> Iterator[Path]:
    """Yield the file, or a copy of it: SQLite opens no file in a folder where it cannot write."""
    if os.access(file, os.W_OK) and os.access(file.parent, os.W_OK):
        yield file
        return
    with tempfile.TemporaryDirectory() as folder:
        # What a process that was killed has written is in the second.
        for part in (file, file.with_name(f"{file.name}-wal")):
            with contextlib.suppress(FileNotFoundError):
                shutil.copyfile(part, Path(folder, part.name))
        yield Path(folder, file.name)
