"""Random folders of records: nested, in many files of different columns, with links and odd names."""

import base64
import json
import os
import random
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

HEADERS: Final = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
TYPES: Final = {
    "key": pa.binary(), "value": pa.binary(), "topic": pa.string(), "partition": pa.int32(),
    "offset": pa.int64(), "timestamp": pa.timestamp("us", "UTC"), "timestampType": pa.int32(),
    "headers": HEADERS,
}  # fmt: skip
NAMES: Final = [
    "records",
    "records [1]",
    "a,b",
    "50%41",
    "x=1",
    "{dead}",
    "star*",
    "back\\slash",
    "ä",
]
BELOW: Final = ["", "batch=2", "batch=10", "batch=10/a/b", "_day=1/[x]", "b c", "%20/c,d", "{e}"]
FILES: Final = [
    "part-{}.parquet",
    "z[{}].parquet",
    "{} a,b.parquet",
    "x=%41{}",
    "q*?{{{}}}.parquet",
]
HIDDEN: Final = ["_temporary/0/part-9.parquet", ".part-1.parquet.crc", "_SUCCESS", "batch=2/_SUCCESS",
                 "batch=2/.spark-1/x.parquet"]  # fmt: skip


class Record(NamedTuple):
    """A record as it is in a file."""

    key: bytes | None
    value: bytes
    topic: str
    partition: int
    offset: int
    timestamp: int
    headers: tuple[tuple[str, bytes | None], ...]

    @property
    def number(self) -> int:
        """What no other record has."""
        return int(self.value.rpartition(b"-")[2])

    @property
    def is_bad(self) -> bool:
        return self.value.startswith(b"bad")


class RecordFolder:
    """A folder that was filled from a source of chance."""

    def __init__(
        self,
        place: Path,
        chance: random.Random,
        count: int | None = None,
        *,
        are_letters: bool = False,
    ) -> None:
        self.path = place / chance.choice(NAMES)
        self.path.mkdir()
        self._chance = chance
        self._are_letters = are_letters
        self._are_json = chance.random() < 0.25
        self._written: list[Path] = []
        self.records = self._records(chance.choice([0, 5, 60, 400]) if count is None else count)
        for some in self._shares():
            self._write(self.path / chance.choice(BELOW), some)
        self._hide()
        self._link(place / "elsewhere")

    def files(self) -> set[str]:
        """Return all names in the folder, including those of hidden files."""
        return {
            str(Path(path, name).relative_to(self.path))
            for path, _, names in os.walk(self.path)
            for name in names
        }

    def _records(self, count: int) -> list[Record]:
        chance, offsets, found = self._chance, {}, []
        for number in range(count):
            of = chance.choice("tu"), chance.randrange(3)
            offsets[of] = offsets.get(of, 0) + chance.randrange(1, 5)
            found.append(Record(
                chance.choice([None, b"", b"a", b"b", b"c"]),
                b"%s-%d" % (chance.choice([b"good", b"bad"]), number),
                *of, offsets[of], 1_700_000_000_000 + number,
                tuple(
                    (chance.choice(["a", "b", ""]), chance.choice([None, b"", b"\xff1"]))
                    for _ in range(chance.choice([0, 0, 1, 3]))
                ),
            ))  # fmt: skip
        return found

    def _shares(self) -> list[list[Record]]:
        """Divide the records into files: consecutive records, or any, in their order or not."""
        chance, count = self._chance, self._chance.randrange(1, 9)
        kind = chance.choice(["consecutive", "ordered", "shuffled"])
        if kind == "consecutive":
            size = len(self.records) // count + 1
            shares = [self.records[n * size : (n + 1) * size] for n in range(count)]
        else:
            shares = [[] for _ in range(count)]
            for record in self.records:
                chance.choice(shares).append(record)
        if kind == "shuffled":
            for share in shares:
                chance.shuffle(share)
        chance.shuffle(shares)
        return shares

    def _write(self, folder: Path, records: list[Record]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        name = self._chance.choice(FILES).format(self._chance.randrange(10**9))
        file = folder / (f"{name}.jsonl" if self._are_json else name)
        self._written.append(file)
        if self._are_json:
            file.write_text("".join(map(_line, self._as_stored(records))))
            return
        names = [*TYPES]
        records = self._as_stored(records)
        if not any(record.headers for record in records) and self._chance.random() < 0.7:
            names.remove("headers")
        if self._chance.random() < 0.5:
            names.remove("timestampType")
        self._chance.shuffle(names)
        table = pa.Table.from_pylist([_row(record) for record in records], pa.schema(TYPES.items()))
        table = table.select(names)
        if self._chance.random() < 0.3:
            table = table.append_column("day", pa.array(["x"] * len(records), pa.string()))
        if self._chance.random() < 0.3:
            at = table.schema.get_field_index("timestamp")
            table = table.set_column(
                at, "timestamp", table["timestamp"].cast(pa.timestamp("ms", "UTC"))
            )
        pq.write_table(
            table, file, compression=self._chance.choice(["none", "snappy", "zstd"]),
            row_group_size=self._chance.choice([7, 1000]),
        )  # fmt: skip

    def _as_stored(self, records: list[Record]) -> list[Record]:
        """Return the records, or dead letters with their places."""
        if not self._are_letters:
            return records
        return [
            record._replace(headers=(
                *record.headers, ("__dlq.errors.topic", record.topic.encode()),
                ("__dlq.errors.partition", b"%d" % record.partition),
            ))
            for record in records
        ]  # fmt: skip

    def _hide(self) -> None:
        for name in HIDDEN:
            if self._chance.random() < 0.5:
                file = self.path / name
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(b"not Parquet")

    def _link(self, elsewhere: Path) -> None:
        """Add names of the same files, of files elsewhere, and of a folder above."""
        files = self._written
        if self._chance.random() < 0.3:
            moved = self._chance.choice(files)
            elsewhere.mkdir()
            moved.rename(elsewhere / moved.name)
            (self.path / "linked").symlink_to(elsewhere)
            files.remove(moved)
        if files and self._chance.random() < 0.3:
            same = self._chance.choice(files)
            (self.path / f"same{same.suffix}").symlink_to(same)
        if self._chance.random() < 0.2:
            (self.path / "loop").symlink_to(self.path)


def _row(record: Record) -> dict[str, Any]:
    headers = [{"key": key, "value": value} for key, value in record.headers] or None
    return {
        **record._asdict(), "timestamp": record.timestamp * 1000, "timestampType": 0,
        "headers": headers,
    }  # fmt: skip


def _line(record: Record) -> str:
    def text(content: bytes | None) -> str | None:
        return None if content is None else base64.b64encode(content).decode()

    headers = [{"key": key, "value": text(value)} for key, value in record.headers]
    fields = {**record._asdict(), "key": text(record.key), "value": text(record.value)}
    return json.dumps({**fields, "headers": headers}) + "\n"


def read_folder(folder: Path) -> list[list[dict[str, Any]]]:
    """Return the rows of each Parquet file of a folder, in the order of their names."""
    found = []
    for path, folders, names in os.walk(folder, followlinks=False):
        folders[:] = sorted(name for name in folders if name[0] != "." and name != "_temporary")
        for name in sorted(names):
            if name[0] not in "._":
                table = pq.ParquetFile(Path(path, name)).read()
                at = table.schema.get_field_index("timestamp")
                times = table["timestamp"].cast(pa.timestamp("us")).cast(pa.int64())
                found.append(table.set_column(at, "timestamp", times).to_pylist())
    return found
