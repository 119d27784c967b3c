"""Lines of JSON files that are records.

JSON has no bytes: keys, values and header values are taken for base 64, which is what Spark
writes, if the first all are; otherwise for text, stored as UTF-8.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from difflib import get_close_matches
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from penstock.configuration import ConfigurationError
from penstock.jobs.files.record_times import timestamp_ms
from penstock.jobs.rows.records import COLUMNS, RecordRow
from penstock.policy import Header

if TYPE_CHECKING:
    from collections.abc import Iterable

_KNOWN: Final = frozenset({*COLUMNS, "verdict"})
"""The columns of Kafka, and the column that Penstock adds."""
SEEN: Final = 1000
"""The number of contents of JSON files that are examined to distinguish base 64 from text."""
_BASE64: Final = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")
_NEAR: Final = 0.8
_JSON_TYPES: Final = (
    (dict, "an object"), (list, "an array"), (str, "a string"), (bool, "a boolean"),
    ((int, float), "a number"),
)  # fmt: skip
_HEADERS: Final = '[{"key": "a", "value": "b"}]'
_CONTENT: Final = r'"{\"id\": 1}"'


class WrongLineError(ConfigurationError):
    """A line of a file is not a record. The text names the line, and has none of its contents."""


def are_base64(lines: Iterable[JsonLine]) -> bool:
    """Return whether the first contents of lines look like base 64."""
    contents = (text for line in lines for text in line.contents)
    return all(map(looks_like_base64, islice(contents, SEEN)))


def looks_like_base64(text: str) -> bool:
    """Return whether a text can be base 64."""
    return _BASE64.fullmatch(text) is not None


class JsonLine:
    """A line of a JSON file.

    Attributes:
        contents: The key, the value and the values of headers that are not null.
    """

    def __init__(self, where: str, text: bytes) -> None:
        """Read a line.

        Args:
            where: Its file and number, for errors.

        Raises:
            WrongLineError: It is not JSON, or not an object with columns of Kafka.
        """
        self._where = where
        try:
            fields = json.loads(text)
        except (ValueError, RecursionError):
            raise self._wrong("is not JSON") from None
        if not isinstance(fields, dict):
            raise self._wrong(f"must be an object, not {_json_type(fields)}")
        self._fields: dict[str, Any] = fields
        self._check_names()
        headers = [] if fields.get("headers") is None else fields["headers"]
        if not isinstance(headers, list) or not all(map(_is_header, headers)):
            raise self._wrong(f"headers must be a list such as {_HEADERS}")
        self._headers: list[dict[str, Any]] = headers
        values = [self._content("key"), self._content("value")]
        values += [header.get("value") for header in headers]
        self.contents = [text for text in values if text is not None]

    def record(self, *, is_base64: bool) -> RecordRow:
        """Return the record.

        Raises:
            WrongLineError: A column has another type.
        """

        def as_bytes(name: str, text: str | None) -> bytes | None:
            if text is None or not is_base64:
                return None if text is None else text.encode(errors="surrogatepass")
            try:
                return base64.b64decode(text, validate=True)
            except (binascii.Error, ValueError):
                raise self._wrong(f"{name} must be base64, as in the lines before") from None

        topic = self._string("topic")
        return RecordRow(
            None if topic is None else _encodable(topic),
            self._integer("partition", bits=32),
            self._integer("offset", bits=64),
            self._timestamp(),
            self._integer("timestampType", bits=32),
            as_bytes("key", self._content("key")),
            as_bytes("value", self._content("value")),
            tuple(
                Header(_encodable(header["key"]), as_bytes("a header", header.get("value")))
                for header in self._headers
            ),
        )

    def _check_names(self) -> None:
        """Check that no field is the misspelt name of a column; others are left out.

        Spark leaves nulls out, so a column that is missing is no error by itself.
        """
        others = self._fields.keys() - _KNOWN
        if not others:
            return
        missing_columns = {name.lower(): name for name in COLUMNS if name not in self._fields}
        for name in sorted(others):
            if near := get_close_matches(name.lower(), missing_columns, 1, _NEAR):
                raise self._wrong(
                    f"a record has no field {name}; did you mean {missing_columns[near[0]]}?"
                )
        if "value" in missing_columns:
            raise self._wrong(
                f"has no value, but fields that are none of {', '.join(COLUMNS)}; if the value is "
                'null, add "value": null'
            )

    def _content(self, name: str) -> str | None:
        return self._string(name, f": write its JSON text as a string, such as {_CONTENT}")

    def _string(self, name: str, hint: str = "") -> str | None:
        value = self._fields.get(name)
        if value is not None and not isinstance(value, str):
            raise self._wrong(f"{name} must be a string or null, not {_json_type(value)}{hint}")
        return value

    def _integer(self, name: str, *, bits: int) -> int | None:
        value = self._fields.get(name)
        if value is None:
            return None
        if not isinstance(value, int) or isinstance(value, bool):
            raise self._wrong(f"{name} must be an integer or null, not {_json_type(value)}")
        if abs(value) >= 2 ** (bits - 1):
            raise self._wrong(f"{name} must be at most {2 ** (bits - 1) - 1}")
        return value

    def _timestamp(self) -> int | None:
        timestamp = self._fields.get("timestamp")
        if timestamp is None:
            return None
        try:
            return timestamp_ms(timestamp)
        except ValueError as wrong:
            raise self._wrong(str(wrong)) from None

    def _wrong(self, what: str) -> WrongLineError:
        return WrongLineError(f"{self._where}: {what}")


def _encodable(text: str) -> str:
    """Return a text without single surrogates, which JSON can have, and UTF-8 cannot."""
    return text.encode(errors="replace").decode()


def _is_header(header: object) -> bool:
    return (
        isinstance(header, dict)
        and isinstance(header.get("key"), str)
        and isinstance(header.get("value"), str | None)
    )


def _json_type(value: object) -> str:
    for kind, name in _JSON_TYPES:
        if isinstance(value, kind):
            return name
    return "null"
