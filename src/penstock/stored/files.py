"""Records in files with Kafka's columns: JSON lines, and Parquet where pyarrow is installed.

JSON has no bytes: keys, values and header values are taken for base 64, which is what Spark
writes, if the first all are; otherwise for text, stored as UTF-8.
"""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import glob
import json
import re
from itertools import chain, islice
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from penstock.configuration import ConfigurationError
from penstock.errors import MalformedError
from penstock.policy import Header

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa

COLUMNS: Final = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int32",
    "offset": "int64",
    "timestamp": "timestamp",
    "timestampType": "int32",
    "headers": "list<struct<key: string, value: binary>>",
}
"""Kafka's columns, and their types in Arrow."""
_NEEDED: Final = ("key", "value", "topic", "partition", "offset", "timestamp")
JSON_SUFFIXES: Final = frozenset({".json", ".jsonl", ".ndjson"})
SEEN: Final = 1000
"""The number of contents of JSON files that are examined to distinguish base 64 from text."""
_BASE64: Final = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")
_ROWS: Final = 10_000
_NO_TIME: Final = -1
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MS: Final = dt.timedelta(milliseconds=1)


class UnreadableFileError(MalformedError):
    """A file does not have the columns of the others. The message names it, without contents."""


class FileRecord(NamedTuple):
    """A record of a file.

    Attributes:
        topic: Its topic; None where the file does not say.
        partition: Its partition, or -1.
        offset: Its offset, or -1.
        timestamp: In ms; -1 for none.
        key: Its key.
        value: Its value.
        headers: Its headers.
    """

    topic: str | None
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]


def read_files(given: str) -> Iterator[FileRecord]:
    """Read the records of files, in sequence.

    Args:
        given: A file, a folder of Parquet files, or a glob.

    Raises:
        ConfigurationError: There are no such files, columns are missing or of other types, or
            pyarrow is needed.
        UnreadableFileError: A file cannot be read.
    """
    files = _files(given)
    if PurePath(given).suffix.lower() in JSON_SUFFIXES:
        return _read_json(files)
    return _read_parquet(given, files)


def _files(given: str) -> list[Path]:
    found = [Path(given)]
    if glob.has_magic(given):
        found = sorted(map(Path, glob.glob(given)))  # noqa: PTH207 - a pattern from the root on
    files = [
        file for path in found for file in (sorted(path.rglob("*")) if path.is_dir() else [path])
    ]
    files = [file for file in files if file.is_file() and file.name[:1] not in {".", "_"}]
    if not files:
        raise ConfigurationError(f"--input {given}: there are no files with this name")
    return files


def _read_json(files: Iterable[Path]) -> Iterator[FileRecord]:
    lines = (_Line(file, number, text) for file in files for number, text in _lines(file))
    first: list[_Line] = []
    seen = 0
    for line in lines:
        first.append(line)
        seen += len(line.contents)
        if seen >= SEEN:
            break
    contents = islice((text for line in first for text in line.contents), SEEN)
    is_base64 = all(map(_BASE64.fullmatch, contents))
    for line in chain(first, lines):
        yield line.record(is_base64=is_base64)


def _lines(file: Path) -> Iterator[tuple[int, bytes]]:
    with file.open("rb") as opened:
        for number, text in enumerate(opened, 1):
            if text.strip():
                yield number, text


class _Line:
    """A line of a JSON file."""

    def __init__(self, file: Path, number: int, text: bytes) -> None:
        self._where = f"--input {file}, line {number}"
        try:
            fields = json.loads(text)
        except ValueError:
            raise self._wrong("") from None
        if not isinstance(fields, dict):
            raise self._wrong("")
        self._fields: dict[str, Any] = fields
        headers = self._field("headers", list) or []
        if not all(
            isinstance(header, dict) and isinstance(header.get("key"), str) for header in headers
        ):
            raise self._wrong(": headers")
        self._headers: list[dict[str, Any]] = headers
        values = [self._field("key", str), self._field("value", str)]
        values += [header.get("value") for header in headers]
        if not all(text is None or isinstance(text, str) for text in values):
            raise self._wrong(": headers")
        self.contents = [text for text in values if text is not None]

    def record(self, *, is_base64: bool) -> FileRecord:
        """Return the record.

        Raises:
            UnreadableFileError: It is not valid.
        """

        def as_bytes(text: str | None) -> bytes | None:
            if text is None or not is_base64:
                return None if text is None else text.encode(errors="surrogatepass")
            try:
                return base64.b64decode(text, validate=True)
            except (binascii.Error, ValueError):
                raise UnreadableFileError(
                    f"{self._where} is not base64, unlike the first lines"
                ) from None

        partition, offset = self._field("partition", int), self._field("offset", int)
        return FileRecord(
            self._field("topic", str),
            -1 if partition is None else partition,
            -1 if offset is None else offset,
            self._timestamp(),
            as_bytes(self._field("key", str)),
            as_bytes(self._field("value", str)),
            tuple(Header(header["key"], as_bytes(header.get("value"))) for header in self._headers),
        )

    def _field(self, name: str, kind: type) -> Any:
        found = self._fields.get(name)
        if found is not None and (not isinstance(found, kind) or isinstance(found, bool)):
            raise self._wrong(f": {name}")
        return found

    def _timestamp(self) -> int:
        found = self._fields.get("timestamp")
        if found is None:
            return _NO_TIME
        if isinstance(found, int):  # as Spark reads numbers
            return found * 1000
        try:
            moment = dt.datetime.fromisoformat(found)
        except (ValueError, TypeError):
            raise self._wrong(": timestamp") from None
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=dt.UTC)
        return (moment - _EPOCH) // _MS

    def _wrong(self, what: str) -> UnreadableFileError:
        return UnreadableFileError(f"{self._where} is not JSON with Kafka's columns{what}")


def _read_parquet(given: str, files: Iterable[Path]) -> Iterator[FileRecord]:
    try:
        import pyarrow as pa  # noqa: PLC0415 - not installed with Penstock
        import pyarrow.parquet as pq  # noqa: PLC0415
    except ImportError:
        raise ConfigurationError(
            f"--input {given}: Parquet needs pyarrow: pip install pyarrow; JSON lines (FILE.jsonl) "
            "need no package"
        ) from None
    for file in files:
        try:
            opened = pq.ParquetFile(file)
        except pa.ArrowException:
            raise ConfigurationError(f"--input {file}: the files are not Parquet") from None
        with opened:
            _check_types(file, opened.schema_arrow)
            names = [name for name in COLUMNS if name in opened.schema_arrow.names]
            for batch in opened.iter_batches(_ROWS, columns=names):
                yield from _rows(batch)


def _check_types(file: Path, schema: pa.Schema) -> None:
    missing = [name for name in _NEEDED if name not in schema.names]
    if missing:
        raise ConfigurationError(
            f"--input {file}: the files have no column {', '.join(missing)}; it needs Kafka's "
            f"columns {', '.join(COLUMNS)}"
        )
    for name, kind in COLUMNS.items():
        if name in schema.names and _kind(schema.field(name).type) != kind:
            raise ConfigurationError(
                f"--input {file}: column {name} is {schema.field(name).type}, not {kind}"
            )


def _kind(found: pa.DataType) -> str:
    import pyarrow as pa  # noqa: PLC0415 - where files are Parquet

    if pa.types.is_timestamp(found):
        return "timestamp"
    if pa.types.is_list(found) and pa.types.is_struct(found.value_type):
        fields = ", ".join(f"{field.name}: {field.type}" for field in found.value_type)
        return f"list<struct<{fields}>>"
    return str(found).removeprefix("large_")


def _rows(batch: pa.RecordBatch) -> Iterator[FileRecord]:
    import pyarrow as pa  # noqa: PLC0415 - where files are Parquet

    columns = {name: batch.column(name) for name in batch.schema.names}
    # Not Python's times, which end with the year 9999.
    micros = columns["timestamp"].cast(pa.timestamp("us"), safe=False).cast(pa.int64()).to_pylist()
    headers = columns["headers"].to_pylist() if "headers" in columns else [None] * len(batch)
    names = ("topic", "partition", "offset", "key", "value")
    fields = (columns[name].to_pylist() for name in names)
    for topic, partition, offset, key, value, time, own in zip(
        *fields, micros, headers, strict=True
    ):
        yield FileRecord(
            topic,
            -1 if partition is None else partition,
            -1 if offset is None else offset,
            _NO_TIME if time is None else time // 1000,
            key,
            value,
            tuple(Header(header["key"], header["value"]) for header in own or ()),
        )
