"""KIP-905: drops records by a header, or by a field of a JSON value."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import TYPE_CHECKING, Any, ClassVar

from penstock.policies.json_paths import find, parse, split
from penstock.policies.json_places import read
from penstock.policies.own_keys import NOT_IN_NAMES
from penstock.policies.topic_interceptor import TopicInterceptor, items, json_or_text
from penstock.policy import (
    ConfigKey,
    ProduceRequestInterceptorResult,
    ProduceRequestInterceptorSkipRecordException,
)
from penstock.policy.path_counts import CountsPaths

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from penstock.policy import Header


def _headers(text: str) -> dict[str, str | None]:
    """Read headers and their values; each header once."""
    headers: dict[str, str | None] = {}
    for item in items(text):
        name, equals, value = _parted(item)
        if not name or name in headers:
            raise ValueError(f"name or name=value, each name once; there is {item}")
        if NOT_IN_NAMES.search(name):
            raise ValueError(f"names without quotes and brackets, separated by commas: {item}")
        if value[:1] == value[-1:] == '"':
            raise ValueError(f"name=value with a value without quotes; there is {item}")
        headers[name] = value if equals else None
    return headers


def _fields(text: str) -> dict[str, Any]:
    """Read paths and values; each path once."""
    fields: dict[str, Any] = {}
    for item in filter(None, split(text)):
        path, equals, value = _parted(item)
        if not (path and equals) or path in fields:
            raise ValueError(f"path=value, each path once; there is {item}")
        fields[path] = json_or_text(value)
        if isinstance(fields[path], float) and not math.isfinite(fields[path]):
            raise ValueError(f"path=value with a value that JSON has; there is {item}")
    return fields


def _parted(item: str) -> tuple[str, str, str]:
    """Split `name=value`, without the blanks around the name and the value.

    Raises:
        ValueError: It has another comparison, or a value in single quotes.
    """
    name, equals, value = (part.strip() for part in item.partition("="))
    if name.endswith(("!", "<", ">", "~")) or value.startswith("="):
        raise ValueError(f"conditions with = only; there is {item}")
    if len(value) > 1 and value[0] == value[-1] == "'":
        raise ValueError(f"values without single quotes; there is {item}")
    return name, equals, value


class DropRecords(CountsPaths, TopicInterceptor):
    """Drops records that fulfil a condition. The producer gets no error.

    A value that is not JSON has no fields, and fulfils no condition on a field. One with thousands
    of levels is refused.

    Attributes:
        topics: A pattern that is found in the names of the topics (`re.search`).
        headers: Values by header key, as text or bytes; None for any value.
        fields: Values by path, like `customer.test`: a JSON value, or a set of them.
    """

    headers: ClassVar[Mapping[str, str | bytes | None]] = {}
    fields: ClassVar[Mapping[str, Any]] = {}
    config_keys: ClassVar[Sequence[ConfigKey]] = (
        ConfigKey("headers", "LIST", None, "Headers: `name`, or `name=value`."),
        ConfigKey("fields", "LIST", None, "Fields: `path=value`. The value is JSON or a text."),
        *TopicInterceptor.config_keys,
    )
    readers: ClassVar[Mapping[str, Callable[[str], Any]]] = {
        **TopicInterceptor.readers,
        "headers": _headers,
        "fields": _fields,
    }

    def configure(self, configs: Mapping[str, str] | None = None) -> None:
        """Read the settings.

        Args:
            configs: The configuration, for a named policy.

        Raises:
            ValueError: A setting is missing or is invalid.
        """
        super().configure(configs)
        if not self.headers and not self.fields:
            raise ValueError(f"{type(self).__name__} needs a condition: headers or fields")
        self._headers = {
            key: value.encode() if isinstance(value, str) else value
            for key, value in self.headers.items()
        }
        self._fields = [
            (parse(path), value if isinstance(value, (set, frozenset)) else [value])
            for path, value in self.fields.items()
        ]
        self.count_paths(tuple(self.fields))

    def process_record(
        self,
        key: bytes | None,
        value: bytes | None,
        topic: str,  # noqa: ARG002
        partition: int,  # noqa: ARG002
        headers: Sequence[Header],
    ) -> ProduceRequestInterceptorResult:
        """Drop the record, or return it unchanged.

        Raises:
            ProduceRequestInterceptorSkipRecordException: To drop it.
            RecursionError: Its value has thousands of levels.
        """
        if self._by_header(headers) or (self._fields and self._by_field(value)):
            raise ProduceRequestInterceptorSkipRecordException
        return ProduceRequestInterceptorResult(key, value)

    def _by_header(self, headers: Sequence[Header]) -> bool:
        return any(
            header.key in self._headers and self._headers[header.key] in {None, header.value}
            for header in headers
        )

    def _by_field(self, value: bytes | None) -> bool:
        try:
            document = read((value or b"").decode())
        except ValueError:
            return False
        values = [list(find(document, path)) for path, _wanted in self._fields]
        self.add_found(number for number, path_values in enumerate(values) if path_values)
        return any(
            _same(actual_value, value)
            for (_path, expected_values), some in zip(self._fields, values, strict=True)
            for actual_value in some
            for value in expected_values
        )


def _same(value: Any, expected_value: Any) -> bool:
    """Compare as JSON does: true is not 1, and 1.0 is 1."""
    return _kind(value) is _kind(expected_value) and bool(value == expected_value)


def _kind(value: Any) -> type:
    is_number = isinstance(value, (float, Decimal))
    return int if is_number else type(value)
