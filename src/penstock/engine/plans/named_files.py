"""The content of files that keys name: schemas and contracts, and the files that these refer to.

What a file is called, and where it is, does not count.
"""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urldefrag, urljoin

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_BYTES_MAX: Final = 8 * 2**20
"""Of a file; policies read no larger schemas and contracts."""
_FILES_MAX: Final = 1000
_VALUES_MAX: Final = 10_000
_SEPARATORS: Final = re.compile("([,=])")
_IMPORT: Final = re.compile(rb'^[^\S\n]*+import\s++(?:public\s+|weak\s+)?"([^"\n]+)"', re.MULTILINE)
_STANDARD: Final = ("http://json-schema.org/", "https://json-schema.org/")
_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef", "$schema")


class FileContent(NamedTuple):
    """What counts of a value.

    Attributes:
        text: With the digests of files instead of their names.
        unreadable: Files whose content cannot be read, with the reasons.
    """

    text: str
    unreadable: Sequence[str] = ()


class NamedFiles:
    """Replaces the names of files in the values of keys; each file is read once."""

    def __init__(self, folders: Sequence[Path]) -> None:
        """Prepare; nothing is read.

        Args:
            folders: Where relative names begin: the first that has the file counts.
        """
        self._folders = tuple(folder.resolve() for folder in folders)
        self._cache: dict[tuple[str, bool], FileContent] = {}
        self._ids: dict[str, Path] | None = None

    def content(self, value: str, *, anywhere: bool = True) -> FileContent:
        """Return what counts of a value: the content of the files that it names, or its text.

        Args:
            anywhere: Whether files outside the folders count. A client may choose the value of a
                topic's key.
        """
        key = value, anywhere
        content = self._cache.get(key)
        if content is None:
            if len(self._cache) >= _VALUES_MAX:
                self._cache.clear()
            content = self._cache[key] = self._read(value, anywhere=anywhere)
        return content

    def _read(self, value: str, *, anywhere: bool) -> FileContent:
        whole = self._of_text(value, anywhere=anywhere)
        if whole is not None:
            return whole
        parts = [
            self._of_text(part, anywhere=anywhere) or FileContent(part)
            for part in _SEPARATORS.split(value)
        ]
        return FileContent(
            "".join(part.text for part in parts),
            tuple(reason for part in parts for reason in part.unreadable),
        )

    def _of_text(self, text: str, *, anywhere: bool) -> FileContent | None:
        """Return the content of a file that a text names, maybe with `#` and a name within it."""
        name, mark, fragment = text.strip().partition("#")
        path = self._path(name, anywhere=anywhere)
        if path is None:
            return None
        if path.is_dir():
            return FileContent(path.name) if Path(name).is_absolute() else None
        digests, unreadable = self._with_references(path)
        return FileContent(f"sha256:{digests}{mark}{fragment}", unreadable)

    def _path(self, name: str, *, anywhere: bool) -> Path | None:
        """Return the file or folder that a name may be that of; None for any other text."""
        if "://" in name or not ("." in name or "/" in name):
            return None
        for folder in self._folders:
            try:
                path = (folder / name).resolve()
                if not (anywhere or path.is_relative_to(folder)):
                    continue
                if path.is_file() or path.is_dir():
                    return path
            except (OSError, ValueError, RuntimeError):
                continue  # no name that a file can have
        return None

    def _with_references(self, path: Path) -> tuple[str, Sequence[str]]:
        """Return the digest of a file and of those that it refers to, directly or not."""
        digests: list[str] = []
        unreadable: list[str] = []
        visited = {path}
        pending = [path]
        while pending:
            file = pending.pop(0)
            try:
                with file.open("rb") as opened:
                    data = opened.read(_BYTES_MAX + 1)
            except OSError as error:
                unreadable.append(f"{file.name}: {error.strerror}")
                continue
            if len(data) > _BYTES_MAX or len(visited) > _FILES_MAX:
                unreadable.append(f"{file.name}: too large, or too many files")
                continue
            digests.append(hashlib.sha256(data).hexdigest())
            for other in self._references(file, data):
                if other not in visited:
                    visited.add(other)
                    pending.append(other)
        return hashlib.sha256("".join(digests).encode()).hexdigest(), tuple(unreadable)

    def _references(self, file: Path, data: bytes) -> Iterator[Path]:
        """Yield the files that a schema refers to, in an order that only depends on its content."""
        if file.suffix.lower() == ".proto":
            names = [(name.decode(errors="replace"), "") for name in _IMPORT.findall(data)]
        else:
            names = list(_refs(data))
        for name, base in names:
            path = self._referred(file, name)
            if path is None and (base or ":" in name):
                path = self._by_id(urldefrag(urljoin(base, name)).url)
            if path is not None:
                yield path

    def _referred(self, file: Path, name: str) -> Path | None:
        if not name or ":" in name:
            return None
        for folder in (file.parent, *self._folders):
            try:
                path = (folder / name.lstrip("/")).resolve()
                is_inside = any(path.is_relative_to(each) for each in (*self._folders, file.parent))
                if is_inside and path.is_file():
                    return path
            except (OSError, ValueError, RuntimeError):
                continue
        return None

    def _by_id(self, uri: str) -> Path | None:
        """Return the file in a folder whose schema has an `$id`."""
        if self._ids is None:
            self._ids = {}
            files = [path for folder in self._folders for path in sorted(folder.rglob("*.json"))]
            for path in files[:_FILES_MAX]:
                try:
                    if path.stat().st_size <= _BYTES_MAX:
                        self._ids.setdefault(_id_of(_parsed(path.read_bytes())), path.resolve())
                except OSError:
                    continue
        return self._ids.get(uri)


def _parsed(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def _id_of(schema: Any) -> str:
    value = schema.get("$id", schema.get("id", "")) if isinstance(schema, dict) else ""
    return urldefrag(value).url if isinstance(value, str) else ""


def _refs(data: bytes) -> Iterator[tuple[str, str]]:
    """Yield what a JSON document refers to, each with the document's `$id`."""
    if b"$ref" not in data and b"$schema" not in data and b"Ref" not in data:
        return
    schema = _parsed(data)
    base, nodes = _id_of(schema), [schema]
    while nodes:
        node = nodes.pop()
        if isinstance(node, dict):
            for keyword in _REFERENCES:
                value = node.get(keyword)
                name = value.partition("#")[0] if isinstance(value, str) else ""
                if name and not name.startswith(_STANDARD):
                    yield name, base
            nodes += node.values()
        elif isinstance(node, list):
            nodes += node
