"""Records in a file, one a line, as `explain` and `suggest` read them."""

from __future__ import annotations

import base64
import json
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final

from penstock.configuration import ConfigurationError
from penstock.engine.explain import LocatedRecord
from penstock.jobs.files.record_times import timestamp_ms
from penstock.kafka.wire.names import NO_ID
from penstock.policy import Header, Record

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path

_FIELDS: Final = ("headers", "key", "key_base64", "offset", "partition", "timestamp", "topic",
                  "value", "value_base64")  # fmt: skip
_NO_TIME: Final = -1
_HEADERS: Final = '[{"key": "a", "value": "b"}]'


def records_in_file(path: Path) -> Iterator[tuple[str, LocatedRecord]]:
    """Yield the records of a file, each with its place.

    A line is an object with some of `key`, `value` (texts, or null; any other JSON value means
    its own text), `key_base64`, `value_base64`, `headers` (a list of objects `key`, `value` or
    `value_base64`), `timestamp` (an ISO time, or ms), `partition`.

    Raises:
        ConfigurationError: It cannot be read, or a line is not a record.
    """
    try:
        with path.open(encoding="utf-8-sig") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    yield (where := f"{path}:{number}"), _from_line(line, where)
    except OSError as error:
        raise ConfigurationError(f"--input {path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigurationError(f"--input {path}: is not UTF-8 text") from None


def _from_line(line: str, where: str) -> LocatedRecord:
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError):
        raise ConfigurationError(f"{where}: is not JSON") from None
    if not isinstance(fields, dict):
        raise ConfigurationError(f"{where}: must be an object with any of {', '.join(_FIELDS)}")
    _check_names(fields, where)
    record = Record(
        _timestamp(fields, where),
        _content(fields, "key", where),
        _content(fields, "value", where),
        _headers(fields.get("headers"), where),
    )
    partition = _number(fields, "partition", 0, f"{where}: partition must be a whole number")
    return LocatedRecord(partition, NO_ID, record)


def _check_names(fields: Collection[str], where: str) -> None:
    for name in fields:
        if name not in _FIELDS:
            near = get_close_matches(name, _FIELDS, 1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(_FIELDS)}"
            raise ConfigurationError(f"{where}: a record has no field {name}; {hint}")


def _timestamp(fields: dict[str, Any], where: str) -> int:
    value = fields.get("timestamp")
    try:
        return _NO_TIME if value is None else timestamp_ms(value)
    except ValueError as wrong:
        raise ConfigurationError(f"{where}: {wrong}") from None


def _number(fields: dict[str, Any], name: str, default: int, otherwise: str) -> int:
    try:
        return int(fields.get(name, default))
    except (TypeError, ValueError, OverflowError):
        raise ConfigurationError(otherwise) from None


def _headers(value: Any, where: str) -> tuple[Header, ...]:
    headers = [] if value is None else value
    if not isinstance(headers, list) or not all(
        isinstance(header, dict) and header.get("key") is not None for header in headers
    ):
        raise ConfigurationError(f"{where}: headers must be a list such as {_HEADERS}")
    return tuple(Header(str(header["key"]), _content(header, "value", where)) for header in headers)


def _content(fields: dict[str, Any], name: str, where: str) -> bytes | None:
    encoded = fields.get(f"{name}_base64")
    if encoded is not None:
        try:
            return base64.b64decode(encoded, validate=True)
        except (TypeError, ValueError):
            raise ConfigurationError(f"{where}: {name}_base64 must be base64") from None
    content = fields.get(name)
    if content is None:
        return None
    if not isinstance(content, str):
        try:
            content = json.dumps(content, separators=(",", ":"), ensure_ascii=False)
        except RecursionError:
            raise ConfigurationError(f"{where}: {name} is nested too deeply") from None
    return content.encode(errors="surrogatepass")
