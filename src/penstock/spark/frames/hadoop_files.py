"""Files in the file systems that Spark's JVM knows, such as those of object stores."""

from __future__ import annotations

import contextlib
import io
import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from penstock.configuration import ConfigurationError
from penstock.jobs.files.listing import INPUT, is_hidden, list_folder
from penstock.spark.execution.failures import first_line
from penstock.spark.execution.java_errors import Py4JJavaError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import SparkSession

    from penstock.jobs.files.listing import StoredFile

_LOCAL: Final = "file"
_BUFFER: Final = 2**18
_WILDCARDS: Final = re.compile(r"[*?\[]")
_WILDCARDS_OF_HADOOP: Final = re.compile(r"[*?\[{\\]")


def hadoop_path(spark: SparkSession, path: str) -> tuple[Any, Any]:
    """Return Hadoop's path and file system of a path.

    Args:
        spark: A classic session.
        path: A path or a URL.
    """
    jvm: Any = spark.sparkContext._jvm  # noqa: SLF001 - Spark's own way to Hadoop
    java: Any = spark.sparkContext._jsc  # noqa: SLF001
    there = jvm.org.apache.hadoop.fs.Path(path)
    return there, there.getFileSystem(java.hadoopConfiguration())


def local_path(spark: SparkSession, path: str) -> Path | None:
    """Return where a path is on this machine; None if it is in another file system.

    Args:
        spark: A classic session.
        path: A path, a glob or a URL.
    """
    scheme, separator, rest = path.partition(":")
    if separator and scheme == _LOCAL:
        return Path("/" + rest.lstrip("/"))
    if separator and scheme.isidentifier() and rest.startswith("/"):
        return None
    _, files = hadoop_path(spark, "/")
    return Path(path) if files.getUri().getScheme() == _LOCAL else None


def root_folder(spark: SparkSession, path: str) -> str:
    """Return the folder below which names of folders are columns, as Spark's readers take it.

    Args:
        spark: A classic session.
        path: A folder; a file or a glob that means files.
    """
    here = local_path(spark, path)
    if here is None:
        there, files = hadoop_path(spark, path)
        if not files.exists(there):
            return _above(path, _WILDCARDS_OF_HADOOP)
        is_file = files.getFileStatus(there).isFile()
        return str(there.getParent().toString()) if is_file else path
    if here.exists():
        folder = here if here.is_dir() else here.parent
    else:
        folder = Path(_above(str(here), _WILDCARDS))
    return f"file:{folder.absolute()}"


def _above(pattern: str, wildcards: re.Pattern[str]) -> str:
    """Return the folder above the first part of a glob that has a wildcard."""
    folder, separator, _ = wildcards.split(pattern, maxsplit=1)[0].rpartition("/")
    return folder or separator or "."


@dataclass(frozen=True)
class HadoopFile:
    """A file of another file system; its text is its URL.

    Attributes:
        spark: A classic session.
        url: Where it is.
        size: How many bytes it has.
    """

    spark: SparkSession
    url: str
    size: int

    @property
    def name(self) -> str:
        """Its name without its folder."""
        return PurePosixPath(self.url).name

    def open(self, mode: Literal["rb"]) -> io.BufferedReader:  # noqa: ARG002
        """Open it.

        Raises:
            OSError: It cannot be read.
        """
        path, files = hadoop_path(self.spark, self.url)
        with _as_os_errors():
            stream = files.open(path)
        return io.BufferedReader(_Stream(self.spark, stream, self.size), _BUFFER)

    def __str__(self) -> str:
        return self.url


class _Stream(io.RawIOBase):
    """The bytes of an input stream of Hadoop, at any position."""

    def __init__(self, spark: SparkSession, stream: Any, size: int) -> None:
        self._read = cast("Any", spark.sparkContext._jvm).org.apache.commons.io.IOUtils  # noqa: SLF001
        self._stream = stream
        self._size = size
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = start + offset
        return self._at

    def readinto(self, buffer: Any) -> int:
        count = min(len(buffer), max(self._size - self._at, 0))
        if not count:
            return 0
        with _as_os_errors():
            self._stream.seek(self._at)
            chunk = self._read.toByteArray(self._stream, count)
        buffer[:count] = chunk
        self._at += count
        return count

    def close(self) -> None:
        if not self.closed:
            self._stream.close()
        super().close()


def find_hadoop_files(spark: SparkSession, location: str, key: str = INPUT) -> list[HadoopFile]:
    """Return the files that a path means in another file system; see `listing.find_files`.

    Args:
        spark: A classic session.
        location: A file, a folder, or a glob as Hadoop has them. A name that exists is no glob.
        key: What errors name before the path.

    Raises:
        ConfigurationError: A folder cannot be read.
    """
    try:
        path, files = hadoop_path(spark, location)
        statuses = [files.getFileStatus(path)] if files.exists(path) else files.globStatus(path)
        listed: dict[str, HadoopFile] = {}
        for status in statuses or ():
            for file in _files_below(spark, files, status, is_glob=len(statuses) > 1):
                listed.setdefault(file.url, file)
        return [listed[url] for url in sorted(listed)]
    except Py4JJavaError as error:
        why = first_line(str(error.java_exception))
        raise ConfigurationError(f"{key}{location}: cannot be read: {why}") from None


def files_below(spark: SparkSession, folder: str) -> Sequence[StoredFile]:
    """Return the files in a folder, and below it, that are not hidden.

    Args:
        spark: A classic session.
        folder: A folder of any file system.
    """
    here = local_path(spark, folder)
    return find_hadoop_files(spark, folder) if here is None else list_folder(here)


def _files_below(
    spark: SparkSession, files: Any, status: Any, *, is_glob: bool
) -> Iterator[HadoopFile]:
    """Yield a file, or those in a folder that are not hidden."""
    url, name = status.getPath().toString(), status.getPath().getName()
    if status.isFile():
        if not is_hidden(name):
            yield HadoopFile(spark, url, status.getLen())
        return
    if is_glob and is_hidden(name):
        return
    for below in files.listStatus(status.getPath()):
        if below.isFile() or not is_hidden(below.getPath().getName()):
            yield from _files_below(spark, files, below, is_glob=False)


@contextlib.contextmanager
def _as_os_errors() -> Iterator[None]:
    try:
        yield
    except Py4JJavaError as error:
        raise OSError(None, first_line(str(error.java_exception))) from None
