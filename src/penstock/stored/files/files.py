"""Records in files with Kafka's columns: JSON lines, and Parquet where pyarrow is installed."""

from __future__ import annotations

import glob
import os
from itertools import chain
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Final

from penstock.configuration import ConfigurationError
from penstock.errors import UnavailableError
from penstock.policy import Header
from penstock.stored.files.json_lines import SEEN, JsonLine, are_base64
from penstock.stored.rows.record_rows import COLUMNS, RecordRow

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pyarrow as pa
    import pyarrow.parquet as pq

_NEEDED: Final = ("key", "value", "topic", "partition", "offset", "timestamp")
_JSON: Final = frozenset({".json", ".jsonl", ".ndjson"})
_COMPRESSED: Final = frozenset({".bz2", ".deflate", ".gz", ".lz4", ".snappy", ".zst"})
"""The suffixes of files that Spark writes compressed."""
_ROWS: Final = 256
"""How many rows of a file are decoded at a time: they may be large, and files do not say it."""
_NO_HEADER: Final = "a record has a header that is null"
INPUT: Final = "--input "
"""What errors name before the path, by default."""


def read_files(given: str, *, key: str = INPUT) -> Iterator[RecordRow]:
    """Read the records of files, in sequence.

    Args:
        given: A file, a folder, or a glob.
        key: What errors name before the path.

    Raises:
        ConfigurationError: There are no such files, one cannot be read, columns are missing or of
            other types, or pyarrow is needed. The message names the file, and no contents.
    """
    return read_listed(_files(given, key), given, key=key)


def read_listed(files: Sequence[Path], given: str, *, key: str = INPUT) -> Iterator[RecordRow]:
    """Read the records of some files, in sequence.

    Args:
        files: From `list_folder`.
        given: What the user has named.
        key: As for `read_files`.

    Raises:
        ConfigurationError: As for `read_files`.
    """
    if _are_json(given, files):
        for file in files:
            if file.suffix.lower() in _COMPRESSED:
                raise ConfigurationError(f"{key}{file}: is compressed: decompress it, or use Spark")
        return _read_json(files, key)
    others = [file for file in files if not _is_json(file)]
    if files and len(others) < len(files):
        raise ConfigurationError(
            f"{key}{given}: has JSON lines, and files that are not: {others[0]}; name one kind"
        )
    return _read_parquet(given, files, key)


def list_folder(folder: Path) -> list[Path]:
    """Return the files in a folder and below it that Spark reads too, by their paths.

    Raises:
        OSError: A folder cannot be read.
    """
    found = []
    for path, _, names in os.walk(folder, onerror=_raise):
        below = Path(path).relative_to(folder)
        found += [Path(path, name) for name in names if not _is_hidden(below / name)]
    return sorted(file for file in found if file.is_file())


def _raise(error: OSError) -> None:
    raise error


def is_json(given: str) -> bool:
    """Return whether files are JSON lines, by their names; otherwise they are Parquet.

    Args:
        given: As for `read_files`; perhaps a URL, whose own name counts.
    """
    return _are_json(given, _found(given))


def _are_json(given: str, files: Sequence[Path]) -> bool:
    is_named = _is_json(PurePath(given)) and not Path(given).is_dir()
    return is_named or (bool(files) and all(map(_is_json, files)))


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
    for _ in _read_json(_json_files(given), INPUT):
        pass


def has_base64(given: str) -> bool:
    """Return whether the contents of JSON files of this machine are read as base 64.

    Args:
        given: As for `read_files`; perhaps a URL.

    Raises:
        ConfigurationError: One of the first lines is not a record. The message names it.
    """
    return are_listed_base64(_json_files(given))


def are_listed_base64(files: Sequence[Path], *, key: str = INPUT) -> bool:
    """Return whether the contents of JSON files are read as base 64.

    Args:
        files: The files.
        key: As for `read_files`.

    Raises:
        ConfigurationError: One of the first lines is not a record. The message names it.
    """
    first, _ = _first_lines(_json_lines(files, key))
    return are_base64(first) and any(line.contents for line in first)


def _files(given: str, key: str) -> list[Path]:
    files = _found(given)
    if not files:
        raise ConfigurationError(f"{key}{given}: there are no files with this name")
    return files


def _found(given: str) -> list[Path]:
    found = [Path(given)]
    if glob.has_magic(given):
        found = sorted(map(Path, glob.glob(given)))  # noqa: PTH207 - a pattern from the root on
    files = []
    for path in found:
        try:
            if path.is_dir():
                files += list_folder(path)
            elif path.is_file() and not _is_hidden(Path(path.name)):
                files.append(path)
        except OSError as error:
            raise ConfigurationError(
                f"--input {given}: {error.filename} cannot be read: {error.strerror}"
            ) from None
    return files


def _is_hidden(below: Path) -> bool:
    """Return whether Spark leaves a file out, such as what an unfinished job has written."""
    return any(part[:1] == "." or (part[:1] == "_" and "=" not in part) for part in below.parts)


def _json_files(given: str) -> list[Path]:
    """Return the JSON files of this machine that can be read here."""
    files = _found(given)
    if not _are_json(given, files):
        return []
    return [file for file in files if file.suffix.lower() not in _COMPRESSED]


def _read_json(files: Iterable[Path], key: str) -> Iterator[RecordRow]:
    first, rest = _first_lines(_json_lines(files, key))
    is_base64 = are_base64(first)
    for line in chain(first, rest):
        yield line.record(is_base64=is_base64)


def _json_lines(files: Iterable[Path], key: str) -> Iterator[JsonLine]:
    return (
        JsonLine(f"{key}{file}, line {number}", text)
        for file in files
        for number, text in _lines(file, key)
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


def _lines(file: Path, key: str) -> Iterator[tuple[int, bytes]]:
    try:
        with file.open("rb") as opened:
            for number, text in enumerate(opened, 1):
                if text.strip():
                    yield number, text
    except OSError as error:
        raise ConfigurationError(f"{key}{file}: cannot be read: {error.strerror}") from None


def _read_parquet(given: str, files: Sequence[Path], key: str) -> Iterator[RecordRow]:
    try:
        import pyarrow as pa  # noqa: PLC0415 - not installed with Penstock
    except ImportError:
        raise ConfigurationError(
            f"{key}{given}: Parquet needs pyarrow: pip install pyarrow; JSON lines (FILE.jsonl) "
            "need no package"
        ) from None
    for file in files:  # before the first record is read
        with _opened(file, key) as opened:
            _check_types(file, opened.schema_arrow, key)
    for file in files:
        with _opened(file, key) as opened:
            names = [name for name in COLUMNS if name in opened.schema_arrow.names]
            try:
                for batch in opened.iter_batches(_ROWS, columns=names):
                    yield from _rows(batch)
            except (pa.ArrowException, OSError, UnicodeDecodeError):
                raise UnavailableError(
                    f"{key}{file}: cannot be read: it is damaged or encrypted"
                ) from None
            except ValueError:  # of `_header`
                raise UnavailableError(f"{key}{file}: {_NO_HEADER}") from None


def _opened(file: Path, key: str) -> pq.ParquetFile:
    import pyarrow as pa  # noqa: PLC0415 - where files are Parquet
    import pyarrow.parquet as pq  # noqa: PLC0415

    try:
        return pq.ParquetFile(file)
    except pa.ArrowException:
        raise ConfigurationError(f"{key}{file}: the files are not Parquet") from None
    except OSError as error:
        why = error.strerror or "it is damaged or encrypted"
        raise ConfigurationError(f"{key}{file}: cannot be read: {why}") from None


def _check_types(file: Path, schema: pa.Schema, key: str) -> None:
    missing = [name for name in _NEEDED if name not in schema.names]
    if missing:
        raise ConfigurationError(
            f"{key}{file}: the files have no column {', '.join(missing)}; it needs Kafka's "
            f"columns {', '.join(COLUMNS)}"
        )
    for name, kind in COLUMNS.items():
        if schema.names.count(name) > 1:
            raise ConfigurationError(f"{key}{file}: the files have column {name} twice")
        if name in schema.names and _kind(schema.field(name).type) != kind:
            raise ConfigurationError(
                f"{key}{file}: column {name} is {schema.field(name).type}, not {kind}"
            )


def _kind(found: pa.DataType) -> str:
    import pyarrow as pa  # noqa: PLC0415 - where files are Parquet

    if pa.types.is_timestamp(found):
        return "timestamp"
    if pa.types.is_list(found) and pa.types.is_struct(found.value_type):
        fields = ", ".join(f"{field.name}: {field.type}" for field in found.value_type)
        return f"list<struct<{fields}>>"
    return str(found).removeprefix("large_")


def _rows(batch: pa.RecordBatch) -> Iterator[RecordRow]:
    import pyarrow as pa  # noqa: PLC0415 - where files are Parquet

    columns = {name: batch.column(name) for name in batch.schema.names}
    # Not Python's times, which end with the year 9999.
    micros = columns["timestamp"].cast(pa.timestamp("us"), safe=False).cast(pa.int64()).to_pylist()
    missing = [None] * len(batch)
    kinds, headers = (
        columns[name].to_pylist() if name in columns else missing
        for name in ("timestampType", "headers")
    )
    names = ("topic", "partition", "offset", "key", "value")
    fields = (columns[name].to_pylist() for name in names)
    for topic, partition, offset, key, value, time, kind, own in zip(
        *fields, micros, kinds, headers, strict=True
    ):
        yield RecordRow(
            topic,
            partition,
            offset,
            None if time is None else time // 1000,
            kind,
            key,
            value,
            tuple(map(_header, own or ())),
        )


def _header(entry: dict[str, Any] | None) -> Header:
    if entry is None:
        raise ValueError(_NO_HEADER)
    return Header(entry["key"], entry["value"])
