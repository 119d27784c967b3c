"""A folder in which answers outlive the process: `schema.registry.cache.dir`.

Each answer is a separate file, named after a hash of its request: a line with a checksum, the
name, and the answer. It is written under another name and renamed, so that readers, in
this process or another, find all of it or nothing. Damaged files are ignored: the answer is
requested again. Nothing that concerns the folder is an error of a record.
"""

from __future__ import annotations

import contextlib
import logging
import os
import stat
import time
from hashlib import sha256
from pathlib import Path
from tempfile import mkstemp
from typing import TYPE_CHECKING, Final

from penstock.policy import count_event

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

EVENT: Final = "schema_registry_cache"
"""The counted events: `read`, `damaged` and `not_written`."""
FILES: Final = 20_000
BYTES: Final = 256 * 1024 * 1024
"""How much there is in a folder, about; the least recently used files are deleted."""
LARGEST: Final = 16 * 1024 * 1024
CHECKED_EVERY: Final = 200
"""After how many files that are written it is looked how much there is."""
_KEPT_SHARE: Final = 0.9
_BEGUN_S: Final = 3600.0
"""When incomplete files are deleted."""
_WARNED_EVERY_S: Final = 60.0
_SUFFIX: Final = ".answer"
_BEGUN: Final = ".begun"
_MAGIC: Final = b"penstock registry answer 1 "

log = logging.getLogger(__name__)


class CacheFolder:
    """Answers by name, in files. It is made when the first answer is written."""

    def __init__(self, folder: Path, clock: Callable[[], float] = time.monotonic) -> None:
        """Look at nothing yet.

        Args:
            folder: Where it is.
            clock: Seconds, for how often there are warnings.
        """
        self._folder = folder
        self._clock = clock
        self._write_count = 0
        self._warning_s = float("-inf")

    def read(self, name: str) -> bytes | None:
        """Return the answer with a name; None if there is no usable answer."""
        path = self._path(name)
        try:
            content = _read(path)
        except FileNotFoundError:
            return None
        except OSError as error:
            self._warn("damaged", f"{path} cannot be read: {error.strerror or error}")
            return None
        answer = _checked(content, name)
        if answer is None:
            self._warn("damaged", f"{path} is damaged; the registry is queried instead")
            return None
        count_event(EVENT, "read")
        with contextlib.suppress(OSError):  # recently used files are deleted last
            os.utime(path)
        return answer

    def write(self, name: str, answer: bytes) -> None:
        """Keep an answer, as far as that can be."""
        encoded = name.encode()
        body = len(encoded).to_bytes(4, "big") + encoded + answer
        if len(body) > LARGEST:
            return
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            _write(self._path(name), _MAGIC + sha256(body).hexdigest().encode() + b"\n" + body)
            if self._write_count % CHECKED_EVERY == 0:
                self._trim()
            self._write_count += 1
        except OSError as error:
            self._warn(
                "not_written", f"{self._folder} cannot be written: {error.strerror or error}"
            )

    def delete(self, name: str) -> None:
        """Delete an answer, if it exists."""
        with contextlib.suppress(OSError):
            self._path(name).unlink()

    def _path(self, name: str) -> Path:
        return self._folder / (sha256(name.encode()).hexdigest() + _SUFFIX)

    def _trim(self) -> None:
        """Delete the least recently used files if there are too many."""
        files = sorted(self._files())
        size = sum(one_size for _, one_size, _ in files)
        if len(files) <= FILES and size <= BYTES:
            return
        file_count = len(files)
        for _, one_size, path in files:
            if file_count <= FILES * _KEPT_SHARE and size <= BYTES * _KEPT_SHARE:
                return
            with contextlib.suppress(FileNotFoundError):  # others delete, too
                path.unlink()
            file_count -= 1
            size -= one_size

    def _files(self) -> Iterator[tuple[float, int, Path]]:
        """Yield when each file was used, its size and its place; delete incomplete files."""
        now = time.time()
        with os.scandir(self._folder) as entries:
            for entry in entries:
                with contextlib.suppress(FileNotFoundError):
                    file_status = entry.stat(follow_symlinks=False)
                    if entry.name.endswith(_SUFFIX):
                        yield file_status.st_mtime, file_status.st_size, Path(entry.path)
                    elif entry.name.endswith(_BEGUN) and now - file_status.st_mtime > _BEGUN_S:
                        Path(entry.path).unlink()

    def _warn(self, result: str, text: str) -> None:
        count_event(EVENT, result)
        now = self._clock()
        if now - self._warning_s >= _WARNED_EVERY_S:
            self._warning_s = now
            log.warning("schema.registry.cache.dir: %s", text)


def _read(path: Path) -> bytes:
    """Read a file, but not a pipe, for example, which may never end."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError("it is not a regular file")
        return file.read(2 * LARGEST)


def _write(path: Path, content: bytes) -> None:
    """Write a file, with 0600, so that there is all of it or nothing under its name."""
    descriptor, temporary_path = mkstemp(suffix=_BEGUN, dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        Path(temporary_path).replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(temporary_path).unlink()
        raise


def _checked(content: bytes, name: str) -> bytes | None:
    """Return the answer in a file, if it is complete and has this name."""
    head, _, body = content.partition(b"\n")
    if head != _MAGIC + sha256(body).hexdigest().encode():
        return None
    size = int.from_bytes(body[:4], "big")
    if body[4 : 4 + size] != name.encode():
        return None
    return body[4 + size :]
