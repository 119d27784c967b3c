"""A file as an earlier version wrote it: the state of producers of a single gateway."""

import contextlib
import sqlite3
import time
from pathlib import Path

from penstock.gateway.produce.producer_state.all_producers import Producers
from penstock.gateway.produce.producer_state.arrivals import Arrival
from penstock.gateway.produce.producer_state.producer.numbers import Range
from penstock.gateway.produce.producer_state.records.encoding import ProducerKey

KEY = ProducerKey("t", 0, 7)


def record_of(key: ProducerKey, numbers: Range, dropped: tuple[int, ...]) -> bytes:
    """Return the record of a producer after its first batch lost records."""
    kept: list[bytes] = []
    producers = Producers(now=time.time, keep=lambda _key, record, _done: kept.append(record))
    producers.decide(
        key, Arrival(key.topic, key.partition, key.producer_id), 0, numbers, dropped, b"x",
        connection=1, callback=lambda _: None,
    )  # fmt: skip
    return kept[-1]


def write_former_file(
    file: Path,
    key: ProducerKey = KEY,
    *,
    age_s: float = 0.0,
    record: bytes | None = None,
    version: int = 3,
) -> None:
    """Write a file of an earlier version, with a probe of the disk and the state of a producer."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.closing(sqlite3.connect(file, isolation_level=None)) as connection:
        run = connection.execute
        run("PRAGMA journal_mode = WAL")
        run(
            "CREATE TABLE IF NOT EXISTS producers"
            " (key BLOB PRIMARY KEY, used REAL, record BLOB) WITHOUT ROWID"
        )
        used = time.time() - age_s
        value = record_of(key, Range(0, 4), (1,)) if record is None else record
        run("INSERT OR REPLACE INTO producers VALUES (?, ?, ?)", (b"probe", used + 1, b"\0"))
        run("INSERT OR REPLACE INTO producers VALUES (?, ?, ?)", (key.encode(), used, value))
        run(f"PRAGMA user_version = {version}")
