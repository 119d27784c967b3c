"""Records in files with Kafka's columns: JSON lines, and Parquet where pyarrow is installed.

JSON has no bytes: keys, values and header values are taken for base 64, which is what Spark
writes, if the first all are; otherwise for text, stored as UTF-8.
"""

from __future__ import annotations

import base64
import binascii
import glob
import json
import re
from itertools import chain, islice
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from penstock.configuration import ConfigurationError
from penstock.policy import Header
from penstock.stored.record_times import timestamp_ms

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
BASE64: Final = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")
_COMPRESSED: Final = frozenset({".bz2", ".deflate", ".gz", ".lz4", ".snappy", ".zst"})
"""The suffixes of files that Spark writes compressed."""
_ROWS: Final = 10_000
_NO_TIME: Final = -1
_JSON_TYPES: Final = (
    (dict, "an object"), (list, "an array"), (str, "a string"), (bool, "a boolean"),
    ((int, float), "a number"),
)  # fmt: skip
_HEADERS: Final = '[{"key": "a", "value": "b"}]'
_CONTENT: Final = r'"{\"id\": 1}"'


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
        ConfigurationError: There are no such files, one cannot be read, columns are missing or of
            other types, or pyarrow is needed. The message names the file, and no contents.
    """
    files = _files(given)
    if PurePath(given).suffix.lower() in JSON_SUFFIXES:
        return _read_json(files)
    return _read_parquet(given, files)


def check_lines(given: str) -> None:
    """Check the lines of JSON files of this machine, if there are any.

    Args:
        given: As for `read_files`; perhaps a URL.

    Raises:
        ConfigurationError: A line is not a record. The message names it.
    """
    for _ in _read_json(_json_files(given)):
        pass


def has_base64(given: str) -> bool:
    """Return whether the contents of JSON files of this machine are read as base 64.

    Args:
        given: As for `read_files`; perhaps a URL.

    Raises:
        ConfigurationError: One of the first lines is not a record. The message names it.
    """
    first, _ = _first_lines(_json_lines(_json_files(given)))
    return _is_base64(first) and any(line.contents for line in first)


def _files(given: str) -> list[Path]:
    files = _found(given)
    if not files:
        raise ConfigurationError(f"--input {given}: there are no files with this name")
    return files


def _found(given: str) -> list[Path]:
    found = [Path(given)]
    if glob.has_magic(given):
        found = sorted(map(Path, glob.glob(given)))  # noqa: PTH207 - a pattern from the root on
    files = [
        (file, file.relative_to(path if file != path else path.parent))
        for path in found
        for file in (sorted(path.rglob("*")) if path.is_dir() else [path])
    ]
    return [file for file, below in files if file.is_file() and not _is_hidden(below)]


def _is_hidden(below: Path) -> bool:
    """Return whether Spark leaves a file out, such as what an unfinished job has written."""
    return any(part[:1] == "." or (part[:1] == "_" and "=" not in part) for part in below.parts)


def _json_files(given: str) -> list[Path]:
    """Return the JSON files of this machine that can be read here."""
    if PurePath(given).suffix.lower() not in JSON_SUFFIXES:
        return []
    return [file for file in _found(given) if file.suffix.lower() not in _COMPRESSED]


def _read_json(files: Iterable[Path]) -> Iterator[FileRecord]:
    first, rest = _first_lines(_json_lines(files))
    is_base64 = _is_base64(first)
    for line in chain(first, rest):
        yield line.record(is_base64=is_base64)


def _json_lines(files: Iterable[Path]) -> Iterator[_Line]:
    return (_Line(file, number, text) for file in files for number, text in _lines(file))


def _first_lines(lines: Iterator[_Line]) -> tuple[list[_Line], Iterator[_Line]]:
    """Return the lines whose contents show whether all are base 64, and the others."""
    first: list[_Line] = []
    seen = 0
    for line in lines:
        first.append(line)
        seen += len(line.contents)
        if seen >= SEEN:
            break
    return first, lines


def _is_base64(first: Iterable[_Line]) -> bool:
    contents = islice((text for line in first for text in line.contents), SEEN)
    return all(map(BASE64.fullmatch, contents))


def _lines(file: Path) -> Iterator[tuple[int, bytes]]:
    if file.suffix.lower() in _COMPRESSED:
        raise ConfigurationError(f"--input {file}: is compressed: decompress it, or use Spark")
    try:
        with file.open("rb") as opened:
            for number, text in enumerate(opened, 1):
                if text.strip():
                    yield number, text
    except OSError as error:
        raise ConfigurationError(f"--input {file}: cannot be read: {error.strerror}") from None


class _Line:
    """A line of a JSON file."""

    def __init__(self, file: Path, number: int, text: bytes) -> None:
        self._where = f"--input {file}, line {number}"
        try:
            fields = json.loads(text)
        except (ValueError, RecursionError):
            raise self._wrong("is not JSON") from None
        if not isinstance(fields, dict):
            raise self._wrong(f"must be an object, not {_json_type(fields)}")
        self._fields: dict[str, Any] = fields
        headers = [] if fields.get("headers") is None else fields["headers"]
        if not isinstance(headers, list) or not all(map(_is_header, headers)):
            raise self._wrong(f"headers must be a list such as {_HEADERS}")
        self._headers: list[dict[str, Any]] = headers
        values = [self._content("key"), self._content("value")]
        values += [header.get("value") for header in headers]
        self.contents = [text for text in values if text is not None]

    def record(self, *, is_base64: bool) -> FileRecord:
        """Return the record.

        Raises:
            ConfigurationError: It is not valid.
        """

        def as_bytes(name: str, text: str | None) -> bytes | None:
            if text is None or not is_base64:
                return None if text is None else text.encode(errors="surrogatepass")
            try:
                return base64.b64decode(text, validate=True)
            except (binascii.Error, ValueError):
                raise self._wrong(f"{name} must be base64, as in the lines before") from None

        partition = self._integer("partition", bits=32)
        offset = self._integer("offset", bits=64)
        return FileRecord(
            self._string("topic"),
            -1 if partition is None else partition,
            -1 if offset is None else offset,
            self._timestamp(),
            as_bytes("key", self._content("key")),
            as_bytes("value", self._content("value")),
            tuple(
                Header(header["key"], as_bytes("a header", header.get("value")))
                for header in self._headers
            ),
        )

    def _content(self, name: str) -> str | None:
        return self._string(name, f": write its JSON text as a string, such as {_CONTENT}")

    def _string(self, name: str, hint: str = "") -> str | None:
        found = self._fields.get(name)
        if found is not None and not isinstance(found, str):
            raise self._wrong(f"{name} must be a string or null, not {_json_type(found)}{hint}")
        return found

    def _integer(self, name: str, *, bits: int) -> int | None:
        found = self._fields.get(name)
        if found is None:
            return None
        if not isinstance(found, int) or isinstance(found, bool):
            raise self._wrong(f"{name} must be an integer or null, not {_json_type(found)}")
        if abs(found) >= 2 ** (bits - 1):
            raise self._wrong(f"{name} must be at most {2 ** (bits - 1) - 1}")
        return found

    def _timestamp(self) -> int:
        found = self._fields.get("timestamp")
        if found is None:
            return _NO_TIME
        try:
            return timestamp_ms(found)
        except ValueError as wrong:
            raise self._wrong(str(wrong)) from None

    def _wrong(self, what: str) -> ConfigurationError:
        return ConfigurationError(f"{self._where}: {what}")


def _is_header(header: object) -> bool:
    return (
        isinstance(header, dict)
        and isinstance(header.get("key"), str)
        and isinstance(header.get("value"), str | None)
    )


def _json_type(found: object) -> str:
    for kind, name in _JSON_TYPES:
        if isinstance(found, kind):
            return name
    return "null"


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
