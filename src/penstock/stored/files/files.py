"""Records in files with Kafka's columns: JSON lines, and Parquet where pyarrow is installed."""

from __future__ import annotations

import glob
from itertools import chain
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Final

from penstock.configuration import ConfigurationError
from penstock.policy import Header
from penstock.stored.files.file_records import COLUMNS, NO_TIME, FileRecord
from penstock.stored.files.json_lines import SEEN, JsonLine, are_base64

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pyarrow as pa

_NEEDED: Final = ("key", "value", "topic", "partition", "offset", "timestamp")
_JSON: Final = frozenset({".json", ".jsonl", ".ndjson"})
_COMPRESSED: Final = frozenset({".bz2", ".deflate", ".gz", ".lz4", ".snappy", ".zst"})
"""The suffixes of files that Spark writes compressed."""
_ROWS: Final = 10_000


def read_files(given: str) -> Iterator[FileRecord]:
    """Read the records of files, in sequence.

    Args:
        given: A file, a folder, or a glob.

    Raises:
        ConfigurationError: There are no such files, one cannot be read, columns are missing or of
            other types, or pyarrow is needed. The message names the file, and no contents.
    """
    files = _files(given)
    if _are_json(given, files):
        return _read_json(files)
    return _read_parquet(given, files)


def is_json(given: str) -> bool:
    """Return whether files are JSON lines, by their names; otherwise they are Parquet.

    Args:
        given: As for `read_files`; perhaps a URL, whose own name counts.
    """
    return _is_json(PurePath(given)) or _are_json(given, _found(given))


def _are_json(given: str, files: Sequence[Path]) -> bool:
    return _is_json(PurePath(given)) or (bool(files) and all(map(_is_json, files)))


def _is_json(file: PurePath) -> bool:
    suffixes = [suffix.lower() for suffix in file.suffixes]
    if suffixes and suffixes[-1] in _COMPRESSED:
        suffixes.pop()
    return bool(suffixes) and suffixes[-1] in _JSON


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
    return are_base64(first) and any(line.contents for line in first)


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
    files = _found(given)
    if not _are_json(given, files):
        return []
    return [file for file in files if file.suffix.lower() not in _COMPRESSED]


def _read_json(files: Iterable[Path]) -> Iterator[FileRecord]:
    first, rest = _first_lines(_json_lines(files))
    is_base64 = are_base64(first)
    for line in chain(first, rest):
        yield line.record(is_base64=is_base64)


def _json_lines(files: Iterable[Path]) -> Iterator[JsonLine]:
    return (
        JsonLine(f"--input {file}, line {number}", text)
        for file in files
        for number, text in _lines(file)
    )


def _first_lines(lines: Iterator[JsonLine]) -> tuple[list[JsonLine], Iterator[JsonLine]]:
    """Return the lines whose contents show whether all are base 64, and the others."""
    first: list[JsonLine] = []
    seen = 0
    for line in lines:
        first.append(line)
        seen += len(line.contents)
        if seen >= SEEN:
            break
    return first, lines


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
            NO_TIME if time is None else time // 1000,
            key,
            value,
            tuple(Header(header["key"], header["value"]) for header in own or ()),
        )
