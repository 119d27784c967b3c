"""Keeps the sequence numbers of producers over a restart: a SQLite file on this machine.

Written before a batch goes to the broker, and into the system's memory, not to the disk
itself: it survives the end of the process in any way, but not a power failure; what is lost
then is told to the clients (`sequences`).
"""

from __future__ import annotations

import json
import sqlite3
from array import array
from base64 import b64decode, b64encode
from collections import deque
from typing import TYPE_CHECKING, Any, Final

from penstock.gateway.sequences import Batch, Entry, Producer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_VERSION: Final = 1
_POSITION: Final = "I"
_CREATE: Final = """
CREATE TABLE IF NOT EXISTS producers (
    topic TEXT, partition INTEGER, producer_id INTEGER, used REAL, entry TEXT,
    PRIMARY KEY (topic, partition, producer_id)
) WITHOUT ROWID"""
_PUT: Final = "INSERT OR REPLACE INTO producers VALUES (?, ?, ?, ?, ?)"
_DELETE: Final = "DELETE FROM producers WHERE topic = ? AND partition = ? AND producer_id = ?"


class SequenceStoreError(Exception):
    """The folder cannot be used; the text says why."""


class SequenceStore:
    """A file of entries. One process at a time."""

    def __init__(self, file: Path) -> None:
        """Open or make the file, and its folder.

        Raises:
            SequenceStoreError: It cannot be written, is no such file, or is in use.
        """
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(
                file, isolation_level=None, timeout=0.5, check_same_thread=False
            )
            run = self._connection.execute
            run("PRAGMA locking_mode = EXCLUSIVE")
            run("PRAGMA journal_mode = WAL")
            run("PRAGMA synchronous = OFF")
            version = run("PRAGMA user_version").fetchone()[0]
            if version not in {0, _VERSION}:
                raise SequenceStoreError(f"{file} was written by another version")
            run("BEGIN EXCLUSIVE")
            run(_CREATE)
            run(f"PRAGMA user_version = {_VERSION}")
            run("COMMIT")
        except OSError as error:
            raise SequenceStoreError(f"{file.parent}: {error.strerror or error}") from None
        except sqlite3.Error as error:
            why = "another process uses it" if "locked" in str(error) else str(error)
            raise SequenceStoreError(f"{file}: {why}") from None

    def put(self, producer: Producer, entry: Entry | None) -> None:
        """Keep an entry, or forget it.

        Raises:
            sqlite3.Error: The file cannot be written.
        """
        if entry is None:
            self._connection.execute(_DELETE, producer)
        else:
            self._connection.execute(_PUT, (*producer, entry.used, json.dumps(_fields(entry))))

    def entries(self) -> Iterator[tuple[Producer, Entry]]:
        """Give all that is kept. What has been sent may have been stored or not."""
        rows = self._connection.execute("SELECT * FROM producers").fetchall()
        for topic, partition, producer_id, used, fields in rows:
            yield Producer(topic, partition, producer_id), _entry(json.loads(fields), used)

    def close(self) -> None:
        """Close the file."""
        self._connection.close()


def _fields(entry: Entry) -> dict[str, Any]:
    return {
        "epoch": entry.epoch,
        "removed": entry.removed,
        "next": entry.next,
        "acknowledged": entry.acknowledged,
        "refused": entry.refused,
        "final": entry.final,
        "batches": [_batch_fields(batch) for batch in entry.batches],
        "ahead": [_batch_fields(batch) for batch in entry.ahead],
    }


def _batch_fields(batch: Batch) -> list[Any]:
    # Which records were dropped is only asked again of a batch that may come again.
    positions = "" if batch.settled else b64encode(array(_POSITION, batch.dropped)).decode()
    return [
        batch.first,
        batch.count,
        batch.broker_first,
        len(batch.dropped),
        positions,
        batch.settled,
        batch.removed_before,
        batch.next_before,
    ]


def _entry(fields: dict[str, Any], used: float) -> Entry:
    batches = deque(_batch(one) for one in fields.pop("batches"))
    ahead = [_batch(one) for one in fields.pop("ahead")]
    return Entry(
        **fields, batches=batches, ahead=ahead, used=used, doubtful=True, worth_keeping=True
    )


def _batch(fields: list[Any]) -> Batch:
    first, count, broker_first, dropped, positions, settled, removed_before, next_before = fields
    return Batch(
        first,
        count,
        broker_first,
        range(dropped) if settled else array(_POSITION, b64decode(positions)),
        settled=settled,
        removed_before=removed_before,
        next_before=next_before,
    )
