"""The schema files of a folder: read once, and never anything outside it.

Inside this package a file has a URI whose root is the folder, `file:///order.schema.json`, so
that `$ref` works as for any URI: from there no path leads above the folder, and nothing is
fetched. A file is also found by its `$id`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, unquote, urljoin, urlsplit

from penstock.policies.json_schema.documents import (
    ROOT,
    SchemaDocuments,
    SchemaError,
    identified,
    parsed,
)

if TYPE_CHECKING:
    from pathlib import Path

MAX_BYTES: Final = 4 * 1024 * 1024
"""The size of the largest schema file that is read."""
_SEARCHED_FILES: Final = 1000


class SchemaFiles(SchemaDocuments):
    """The files that a schema consists of: its own, and those that it refers to."""

    _other = "a file"

    def __init__(self, folder: Path, name: str) -> None:
        """Read a schema's own file.

        Args:
            folder: The folder of schemas.
            name: A path below it.

        Raises:
            SchemaError: It is not a readable file below the folder, or is not a schema.
        """
        self._folder = folder.resolve()
        super().__init__(name, urljoin(ROOT, quote(name)), self._read(name))

    def _find(self, uri: str) -> Any:
        if uri.startswith(ROOT):
            return self._read(unquote(urlsplit(uri).path).lstrip("/"))
        for count, path in enumerate(sorted(self._folder.rglob("*.json"))):
            if count == _SEARCHED_FILES:
                break
            name = str(path.relative_to(self._folder))
            try:
                schema = self._read(name)
            except SchemaError:
                continue
            if identified(urljoin(ROOT, quote(name)), schema) == uri:
                return schema
        raise SchemaError(
            "no file in the folder of schemas has this $id, and schemas are never fetched"
        )

    def _read(self, name: str) -> Any:
        try:
            path = (self._folder / name).resolve()
            if not path.is_relative_to(self._folder):
                raise SchemaError(f"{name} is outside the folder of schemas")
            if path.exists() and not path.is_file():
                raise SchemaError(f"{name} is not a file")
            with path.open("rb") as file:
                data = file.read(MAX_BYTES + 1)
        except FileNotFoundError:
            raise SchemaError(f"{name}: the folder of schemas does not have this file") from None
        except (OSError, ValueError) as error:
            raise SchemaError(
                f"{name} cannot be read: {getattr(error, 'strerror', None) or error}"
            ) from None
        if len(data) > MAX_BYTES:
            raise SchemaError(f"{name} is larger than {MAX_BYTES} bytes")
        return parsed(name, data)
