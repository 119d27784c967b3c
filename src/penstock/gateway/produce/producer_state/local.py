"""Stores the state of producers in a SQLite file, for one gateway.

A record is written before the batch is sent to the broker. It is written to the page cache without
a sync: it survives a crash of the process, but not a power failure. Clients get an error for what
is lost then (see `Producer.on_response`).
"""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING, Final

from penstock.errors import UnavailableError
from penstock.gateway.produce.producer_state.last_interceptors import (
    Interceptors,
    KeptInterceptors,
    are_as_before,
)
from penstock.gateway.produce.producer_state.records.encoding import ProducerKey

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_VERSION: Final = 3
_CREATE: Final = """
CREATE TABLE IF NOT EXISTS producers (key BLOB PRIMARY KEY, used REAL, record BLOB) WITHOUT ROWID
"""
_CREATE_INTERCEPTORS: Final = """
CREATE TABLE IF NOT EXISTS interceptors (boot TEXT, at REAL, digest TEXT, in_doubt INTEGER)
"""
_KEEP_INTERCEPTORS: Final = "INSERT INTO interceptors VALUES (?, ?, ?, ?)"
_FORGET_INTERCEPTORS: Final = "DELETE FROM interceptors"
_PUT: Final = "INSERT OR REPLACE INTO producers VALUES (?, ?, ?)"
_GET: Final = "SELECT record, used FROM producers WHERE key = ?"
_PROBE_KEY: Final = b"probe"
_PROBE_BYTES: Final = 4096
_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
_WRITTEN_BESIDE_S: Final = 30.0
"""Longer than the kept interceptors may be older than the kept producers."""
_EXPIRE: Final = "DELETE FROM producers WHERE used < ?"


class LocalStoreError(UnavailableError):
    """The file cannot be used."""


class LocalStore:
    """A file of records, for one process at a time.

    Attributes:
        file: The file.
        interceptors: Returns the interceptors that `keep_interceptors` keeps; without it, nothing.
    """

    def __init__(self, file: Path, now: Callable[[], float]) -> None:
        """Open the file; create it and its directory if they do not exist.

        Args:
            file: The file.
            now: Returns the time in seconds since the epoch.

        Raises:
            LocalStoreError: It cannot be written, is another kind of file, or is in use.
        """
        self._now = now
        self.file = file
        self.interceptors: Callable[[], Interceptors] | None = None
        self._written_at = _written_at(file)
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(
                file, isolation_level=None, timeout=0.5, check_same_thread=False
            )
        except OSError as error:
            raise LocalStoreError(f"{file.parent}: {error.strerror or error}") from None
        except sqlite3.Error as error:
            raise LocalStoreError(f"{file}: {error}") from None
        try:
            self._prepare(file)
        except sqlite3.Error as error:
            self._connection.close()
            why = "another process uses it" if _is_locked(error) else str(error)
            raise LocalStoreError(f"{file}: {why}") from None
        except LocalStoreError:
            self._connection.close()
            raise

    def _prepare(self, file: Path) -> None:
        run = self._connection.execute
        run("PRAGMA locking_mode = EXCLUSIVE")
        run("PRAGMA journal_mode = WAL")
        run("PRAGMA synchronous = OFF")
        version = run("PRAGMA user_version").fetchone()[0]
        if version > _VERSION:
            raise LocalStoreError(f"{file} was written by another version")
        run("BEGIN EXCLUSIVE")
        if version < _VERSION:  # its producers were not distinguished by principal
            run("DROP TABLE IF EXISTS producers")
        run(_CREATE)
        run(_CREATE_INTERCEPTORS)
        run(f"PRAGMA user_version = {_VERSION}")
        run("COMMIT")

    def put(self, key: ProducerKey, record: bytes) -> None:
        """Store a record.

        Raises:
            sqlite3.Error: The file cannot be written.
        """
        self._connection.execute(_PUT, (key.encode(), self._now(), record))

    def probe(self) -> None:
        """Write something, and delete it.

        Raises:
            sqlite3.Error: The file cannot be written.
        """
        run = self._connection.execute
        try:
            run("BEGIN")
            run(_PUT, (_PROBE_KEY, self._now(), bytes(_PROBE_BYTES)))
            run("COMMIT")
            run("DELETE FROM producers WHERE key = ?", (_PROBE_KEY,))
        except sqlite3.Error:
            if self._connection.in_transaction:
                run("ROLLBACK")
            raise

    def get(self, key: ProducerKey) -> tuple[bytes, float] | None:
        """Return a producer's record, and when it was written, in seconds since the epoch.

        Raises:
            sqlite3.Error: The file cannot be read.
        """
        found = self._connection.execute(_GET, (key.encode(),)).fetchone()
        return (found[0], found[1]) if found is not None else None

    def are_interceptors_as_before(self, digest: str) -> bool:
        """Whether interceptors are those of the process that used the file last, moments ago.

        It is unknown after a restart of the machine: a power failure loses records that were not
        synced.

        Raises:
            sqlite3.Error: The file cannot be read.
        """
        found = self._connection.execute("SELECT * FROM interceptors").fetchone()
        boot = _boot_id()
        if found is None or not boot or found[0] != boot:
            return False
        _, at, kept_digest, in_doubt = found
        if self._written_at > at + _WRITTEN_BESIDE_S:
            return False  # by a version that keeps no digest
        kept = KeptInterceptors(Interceptors(kept_digest, bool(in_doubt)), self._now() - at)
        return are_as_before(digest, kept)

    def keep_interceptors(self) -> None:
        """Keep which interceptors there are now.

        Raises:
            sqlite3.Error: The file cannot be written; its previous content stays.
        """
        if self.interceptors is None:
            return
        kept = _boot_id(), self._now(), *self.interceptors()
        run = self._connection.execute
        try:
            run("BEGIN")
            run(_FORGET_INTERCEPTORS)
            run(_KEEP_INTERCEPTORS, kept)
            run("COMMIT")
        except sqlite3.Error:
            if self._connection.in_transaction:
                run("ROLLBACK")
            raise

    def forget_interceptors(self) -> None:
        """Forget which interceptors there were: the file is not used any more.

        Raises:
            sqlite3.Error: The file cannot be written.
        """
        self._connection.execute(_FORGET_INTERCEPTORS)

    def records(self) -> Iterator[tuple[ProducerKey, bytes, float]]:
        """Return all records, the least recently used first."""
        rows = self._connection.execute("SELECT * FROM producers ORDER BY used").fetchall()
        for key, used, record in rows:
            if key == _PROBE_KEY:
                continue
            yield ProducerKey.decode(key), record, used

    def expire(self, expiration_s: float) -> None:
        """Delete records that are older than the expiration time.

        Raises:
            sqlite3.Error: The file cannot be written.
        """
        self._connection.execute(_EXPIRE, (self._now() - expiration_s,))

    def close(self) -> None:
        """Close the file."""
        with contextlib.suppress(sqlite3.Error):  # then those kept before become too old
            self.keep_interceptors()
        self._connection.close()


def _written_at(file: Path) -> float:
    """Return when a file was written last, in seconds since the epoch; 0 if it does not exist."""
    written_at = 0.0
    for part in (file, file.with_name(f"{file.name}-wal")):
        with contextlib.suppress(OSError):
            written_at = max(written_at, part.stat().st_mtime)
    return written_at


def _boot_id() -> str:
    """Return an id that changes with each restart of the machine; empty if it is not known."""
    try:
        return _BOOT_ID.read_text("ascii").strip()
    except (OSError, ValueError):
        return ""


def _is_locked(error: sqlite3.Error) -> bool:
    # Extended codes have the primary one in their lowest byte; the module's own errors have none.
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_OK)
    return code & 0xFF in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
