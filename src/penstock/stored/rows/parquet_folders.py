"""Folders of Parquet files on this machine, as Spark writes them: they appear when complete."""

from __future__ import annotations

import os
import re
import shutil
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from penstock.configuration import ConfigurationError
from penstock.errors import UnavailableError
from penstock.stored.rows.record_rows import MS_MAX

if TYPE_CHECKING:
    from types import TracebackType

    import pyarrow as pa
    import pyarrow.parquet as pq

    from penstock.stored.rows.record_rows import RecordRow

_URL: Final = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:")
_STAGED: Final = ".incomplete"
_BEFORE: Final = ".replaced"
"""The suffix of a folder while it is being replaced."""
_ROWS_MAX: Final = 50_000
_BYTES_MAX: Final = 32 * 2**20


class ParquetFolder:
    """A folder that rows are written to; a context manager, which removes what is not complete."""

    def __init__(self, name: str) -> None:
        """Take a folder; nothing is written.

        Args:
            name: Its path.

        Raises:
            ConfigurationError: It is a URL, a file, or a table, or pyarrow is not installed.
        """
        if _URL.match(name):
            raise ConfigurationError(
                f"path:{name} needs Spark: leave out --local; without Spark, name a folder of this "
                "machine"
            )
        try:
            import pyarrow  # noqa: F401, ICN001, PLC0415 - not installed with Penstock
        except ImportError:
            raise ConfigurationError(
                f"path:{name}: Parquet needs pyarrow: pip install pyarrow"
            ) from None
        self._folder = Path(os.path.abspath(name))  # noqa: PTH100 - without its last slash
        self._staged = self._folder.with_name(self._folder.name + _STAGED)
        self._before = self._folder.with_name(self._folder.name + _BEFORE)
        if self._folder.exists() and not self._folder.is_dir():
            raise ConfigurationError(f"path:{name} is a file; name a folder")
        self._check_no_table(name)
        self._name = name
        self._rows: list[RecordRow] = []
        self._bytes = 0
        self._file: Path | None = None
        self._writer: pq.ParquetWriter | None = None

    def _check_no_table(self, name: str) -> None:
        if (self._folder / "_delta_log").exists():
            raise ConfigurationError(f"path:{name} is a Delta table: leave out --local")
        if any(self._folder.glob("metadata/*.metadata.json")):
            raise ConfigurationError(f"path:{name} is an Iceberg table: leave out --local")

    def check_new(self) -> None:
        """Check that it is empty or missing.

        Raises:
            ConfigurationError: It is not so.
        """
        if self._folder.is_dir() and any(self._folder.iterdir()):
            raise ConfigurationError(
                f"{self._name} holds files already; name a new folder, or remove it"
            )

    def recover(self) -> None:
        """Restore its name if a crash left it renamed."""
        if not self._before.exists():
            return
        if self._folder.exists():
            shutil.rmtree(self._before)
        else:
            self._before.rename(self._folder)

    def __enter__(self) -> Self:
        """Begin to write.

        Raises:
            ConfigurationError: It cannot be written.
        """
        import pyarrow.parquet as pq  # noqa: PLC0415 - not installed with Penstock

        try:
            shutil.rmtree(self._staged, ignore_errors=True)
            self._staged.mkdir(parents=True)
            self._file = self._staged / f"part-00000-{uuid.uuid4()}.snappy.parquet"
            self._writer = pq.ParquetWriter(self._file, _schema())
        except OSError as error:
            raise ConfigurationError(
                f"path:{self._name}: cannot be written: {error.strerror}"
            ) from None
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        shutil.rmtree(self._staged, ignore_errors=True)

    def add(self, row: RecordRow) -> None:
        """Write a row.

        Raises:
            UnavailableError: Parquet cannot have its timestamp, or the file system fails.
        """
        if row.timestamp is not None and abs(row.timestamp) > MS_MAX:
            raise UnavailableError(
                f"{row.topic}-{row.partition}: the record at offset {row.offset} has a timestamp "
                "that Parquet files cannot represent"
            )
        self._rows.append(row)
        self._bytes += len(row.key or b"") + len(row.value or b"")
        if len(self._rows) >= _ROWS_MAX or self._bytes >= _BYTES_MAX:
            self._write()

    def complete(self, *, appended: bool) -> None:
        """Let the rows appear in the folder.

        Args:
            appended: Beside the files that are there; otherwise, they are replaced. After a crash,
                there is either the old or the new folder.

        Raises:
            OSError: The file system fails.
        """
        self._write()
        assert self._writer is not None
        assert self._file is not None
        self._writer.close()
        self._writer = None
        _sync(self._file)
        (self._staged / "_SUCCESS").touch()
        if appended:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._file.rename(self._folder / self._file.name)
            (self._folder / "_SUCCESS").touch()
            _sync(self._folder)
            return
        shutil.rmtree(self._before, ignore_errors=True)
        if self._folder.exists():
            self._folder.rename(self._before)
        self._staged.rename(self._folder)
        _sync(self._folder.parent)
        shutil.rmtree(self._before, ignore_errors=True)

    def _write(self) -> None:
        import pyarrow as pa  # noqa: PLC0415 - not installed with Penstock

        rows, self._rows, self._bytes = self._rows, [], 0
        if not rows:
            return
        assert self._writer is not None
        schema = _schema()
        columns: list[list[Any]] = [
            [row.key for row in rows],
            [row.value for row in rows],
            [row.topic for row in rows],
            [row.partition for row in rows],
            [row.offset for row in rows],
            [None if row.timestamp is None else row.timestamp * 1000 for row in rows],
            [row.timestamp_type for row in rows],
            # None for none, as in Spark's Kafka source.
            [[header._asdict() for header in row.headers] or None for row in rows],
        ]
        arrays = [
            pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)
        ]
        self._writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=schema))


def _schema() -> pa.Schema:
    import pyarrow as pa  # noqa: PLC0415 - not installed with Penstock

    header = pa.struct([("key", pa.string()), ("value", pa.binary())])
    return pa.schema(
        [
            ("key", pa.binary()),
            ("value", pa.binary()),
            ("topic", pa.string()),
            ("partition", pa.int32()),
            ("offset", pa.int64()),
            ("timestamp", pa.timestamp("us", "UTC")),
            ("timestampType", pa.int32()),
            ("headers", pa.list_(pa.field("element", header))),
        ]
    )


def _sync(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk."""
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
