"""Records in files with Kafka's columns: JSON lines, and Parquet where pyarrow is installed."""

from __future__ import annotations

import contextlib
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Final

from penstock.configuration import ConfigurationError
from penstock.errors import MalformedError, UnavailableError
from penstock.jobs.files.json_lines import SEEN, JsonLine, are_base64
from penstock.jobs.files.listing import INPUT, ListedFiles, find_files, is_compressed, unreadable
from penstock.jobs.rows.records import COLUMNS, RecordRow

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import pyarrow as pa
    import pyarrow.parquet as pq

    from penstock.jobs.files.listing import StoredFile

_NEEDED: Final = ("key", "value", "topic", "partition", "offset", "timestamp")
_ROWS: Final = 256
"""How many rows of a file are decoded at a time: they may be large, and files do not say it."""
_PLACES: Final = ("topic", "partition", "offset")
_PLACES_HELD: Final = 10_000


def read_files(path_or_glob: str, *, key: str = INPUT) -> Iterator[RecordRow]:
    """Read the records of files of this machine, in sequence.

    Args:
        path_or_glob: A file, a folder, or a glob.
        key: What errors name before the path.

    Raises:
        ConfigurationError: There are no such files, one cannot be read, columns are missing or of
            other types, or pyarrow is needed. The message names the file, and no contents.
    """
    return read_listed(ListedFiles.of(path_or_glob, find_files(path_or_glob, key), key))


def read_listed(files: ListedFiles) -> Iterator[RecordRow]:
    """Read the records of files, in sequence.

    Raises:
        ConfigurationError: As for `read_files`.
    """
    if not files.are_json:
        return _read_parquet(files)
    _check_decompressed(files)
    return _read_json(files.files, files.key)


def check_listed(
    files: ListedFiles, check: Callable[[StoredFile, pq.ParquetFile, str], None] | None = None
) -> int:
    """Check the lines, or the footers, of all files; return the number of their records.

    Args:
        files: The files; those with JSON lines are not compressed.
        check: Called with each Parquet file, what was read of it, and the key of errors.

    Raises:
        ConfigurationError: As for `read_files`.
    """
    if files.are_json:
        _check_decompressed(files)
        return sum(1 for _ in _read_json(files.files, files.key))
    _check_pyarrow(files)
    records = 0
    for file in files.files:
        with _opened(file, files.key) as opened:
            _check_types(file, opened.schema_arrow, files.key)
            if check is not None:
                check(file, opened, files.key)
            records += opened.metadata.num_rows
    return records


def count_records(files: Iterable[StoredFile]) -> int:
    """Return how many records Parquet files have, by their footers.

    Raises:
        ConfigurationError: A file is not Parquet.
    """
    records = 0
    for file in files:
        with _opened(file, "") as opened:
            records += opened.metadata.num_rows
    return records


def are_in_order(files: ListedFiles) -> bool:
    """Return whether no record comes after one of its partition with a higher offset.

    Args:
        files: The files; they were checked.
    """
    highest: dict[tuple[str | None, int | None], int] = {}
    for topic, partition, offset in _places(files):
        if offset is not None:
            topic_partition = topic, partition
            if highest.get(topic_partition, offset) > offset:
                return False
            highest[topic_partition] = offset
    return True


def _places(files: ListedFiles) -> Iterator[tuple[str | None, int | None, int | None]]:
    """Yield topic, partition and offset of each record."""
    if files.are_json:
        yield from ((row.topic, row.partition, row.offset) for row in read_listed(files))
        return
    for file in files.files:
        with _opened(file, files.key) as opened:
            for batch in _batches(opened, file, files.key, _PLACES, _PLACES_HELD):
                columns = (batch.column(name).to_pylist() for name in _PLACES)
                yield from zip(*columns, strict=True)


def are_listed_base64(files: ListedFiles) -> bool:
    """Return whether the contents of files are read as base 64; not if there are none.

    Args:
        files: The files; those that are compressed are left out.

    Raises:
        ConfigurationError: One of the first lines is not a record. The message names it.
    """
    if not files.are_json:
        return False
    some = [file for file in files.files if not is_compressed(file)]
    first, _ = _first_lines(_json_lines(some, files.key))
    return are_base64(first) and any(line.contents for line in first)


def _check_decompressed(files: ListedFiles) -> None:
    for file in files.files:
        if is_compressed(file):
            raise ConfigurationError(
                f"{files.key}{file}: is compressed: decompress it, or use Spark"
            )


def _read_json(files: Iterable[StoredFile], key: str) -> Iterator[RecordRow]:
    first, rest = _first_lines(_json_lines(files, key))
    is_base64 = are_base64(first)
    for line in chain(first, rest):
        yield line.record(is_base64=is_base64)


def _json_lines(files: Iterable[StoredFile], key: str) -> Iterator[JsonLine]:
    return (
        JsonLine(f"{key}{file}, line {number}", text)
        for file in files
        for number, text in _lines(file, key)
    )


def _first_lines(lines: Iterator[JsonLine]) -> tuple[list[JsonLine], Iterator[JsonLine]]:
    """Return the lines whose contents show whether all are base 64, and the others."""
    first: list[JsonLine] = []
    contents_size = 0
    for line in lines:
        first.append(line)
        contents_size += len(line.contents)
        if contents_size >= SEEN:
            break
    return first, lines


def _lines(file: StoredFile, key: str) -> Iterator[tuple[int, bytes]]:
    try:
        with file.open("rb") as opened:
            for number, text in enumerate(opened, 1):
                if text.strip():
                    yield number, text
    except OSError as error:
        raise unreadable(f"{key}{file}", error) from None


def _read_parquet(files: ListedFiles) -> Iterator[RecordRow]:
    check_listed(files)  # before the first record is read
    import pyarrow as pa  # noqa: PLC0415 - where files are Parquet

    from penstock.jobs.rows.arrow import rows_of  # noqa: PLC0415

    for file in files.files:
        with _opened(file, files.key) as opened:
            names = [name for name in COLUMNS if name in opened.schema_arrow.names]
            for batch in _batches(opened, file, files.key, names, _ROWS):
                try:
                    yield from rows_of(dict(zip(batch.schema.names, batch.columns, strict=True)))
                except (pa.ArrowException, UnicodeDecodeError):
                    raise _damaged(file, files.key) from None
                except MalformedError as error:
                    raise UnavailableError(f"{files.key}{file}: {error}") from None


def _batches(
    opened: pq.ParquetFile, file: StoredFile, key: str, names: Sequence[str], rows: int
) -> Iterator[pa.RecordBatch]:
    """Yield batches of some columns of a file.

    Raises:
        UnavailableError: It is damaged.
    """
    import pyarrow as pa  # noqa: PLC0415 - where files are Parquet

    try:
        yield from opened.iter_batches(rows, columns=list(names))
    except (pa.ArrowException, OSError):
        raise _damaged(file, key) from None


def _damaged(file: StoredFile, key: str) -> UnavailableError:
    return UnavailableError(f"{key}{file}: cannot be read: it is damaged or encrypted")


def _check_pyarrow(files: ListedFiles) -> None:
    try:
        import pyarrow as pa  # noqa: F401, PLC0415 - not installed with Penstock
    except ImportError:
        raise ConfigurationError(
            f"{files.key}{files.argument}: Parquet needs pyarrow: pip install pyarrow; JSON lines "
            "(FILE.jsonl) need no package"
        ) from None


@contextlib.contextmanager
def _opened(file: StoredFile, key: str) -> Iterator[pq.ParquetFile]:
    import pyarrow as pa  # noqa: PLC0415 - where files are Parquet
    import pyarrow.parquet as pq  # noqa: PLC0415

    with contextlib.ExitStack() as stack:
        try:
            # Arrow itself opens files of this machine, which is faster.
            source = file if isinstance(file, Path) else stack.enter_context(file.open("rb"))
            parquet_file = stack.enter_context(pq.ParquetFile(source))
        except pa.ArrowException:
            raise ConfigurationError(f"{key}{file}: the files are not Parquet") from None
        except OSError as error:
            raise unreadable(f"{key}{file}", error) from None
        yield parquet_file


def _check_types(file: StoredFile, schema: pa.Schema, key: str) -> None:
    missing_columns = [name for name in _NEEDED if name not in schema.names]
    if missing_columns:
        raise ConfigurationError(
            f"{key}{file}: the files have no column {', '.join(missing_columns)}; it needs Kafka's "
            f"columns {', '.join(COLUMNS)}"
        )
    for name, kind in COLUMNS.items():
        if schema.names.count(name) > 1:
            raise ConfigurationError(f"{key}{file}: the files have column {name} twice")
        if name in schema.names and _kind(schema.field(name).type) != kind:
            raise ConfigurationError(
                f"{key}{file}: column {name} is {schema.field(name).type}, not {kind}"
            )


def _kind(data_type: pa.DataType) -> str:
    import pyarrow as pa  # noqa: PLC0415 - where files are Parquet

    if pa.types.is_timestamp(data_type):
        return "timestamp"
    if pa.types.is_list(data_type) and pa.types.is_struct(data_type.value_type):
        fields = ", ".join(f"{field.name}: {field.type}" for field in data_type.value_type)
        return f"list<struct<{fields}>>"
    return str(data_type).removeprefix("large_")
