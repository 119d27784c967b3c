"""Records in a file, one a line, as `explain` and `suggest` read them."""

from __future__ import annotations

import base64
import binascii
import json
from typing import TYPE_CHECKING, Any

from penstock.configuration import ConfigurationError
from penstock.engine.explain import LocatedRecord
from penstock.policy import Header, Record
from penstock.wire.names import NO_ID

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_FIELDS = {"key", "value", "key_base64", "value_base64", "headers", "timestamp", "partition",
           "topic", "offset"}  # fmt: skip


def records_in_file(path: Path) -> Iterator[tuple[str, LocatedRecord]]:
    """Yield the records of a file, each with its place.

    A line is an object with some of `key`, `value` (texts, or null; any other JSON value means
    its own text), `key_base64`, `value_base64`, `headers` (a list of objects `key`, `value` or
    `value_base64`), `timestamp` (ms), `partition`.

    Raises:
        ConfigurationError: It cannot be read, or a line is not a record.
    """
    try:
        with path.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    yield f"{path}:{number}", _from_line(line, f"{path}:{number}")
    except OSError as error:
        raise ConfigurationError(f"--input {path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigurationError(f"--input {path}: is not UTF-8 text") from None


def _from_line(line: str, where: str) -> LocatedRecord:
    try:
        fields = json.loads(line)
    except ValueError:
        raise ConfigurationError(f"{where}: is not JSON") from None
    if not isinstance(fields, dict) or set(fields) - _FIELDS:
        raise ConfigurationError(f"{where}: must be an object with any of {sorted(_FIELDS)}")
    try:
        headers = tuple(
            Header(str(header["key"]), _content(header, "value"))
            for header in fields.get("headers") or ()
        )
        record = Record(
            int(fields.get("timestamp", -1)),
            _content(fields, "key"),
            _content(fields, "value"),
            headers,
        )
        return LocatedRecord(int(fields.get("partition", 0)), NO_ID, record)
    except (KeyError, TypeError, ValueError, binascii.Error) as error:
        raise ConfigurationError(f"{where}: {type(error).__name__}: {error}") from None


def _content(fields: dict[str, Any], name: str) -> bytes | None:
    encoded = fields.get(f"{name}_base64")
    if encoded is not None:
        return base64.b64decode(encoded, validate=True)
    content = fields.get(name)
    if content is None:
        return None
    if isinstance(content, str):
        return content.encode()
    return json.dumps(content, separators=(",", ":"), ensure_ascii=False).encode()
