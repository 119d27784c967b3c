"""KIP-940: limits the sizes of records and their parts.

    policies=sizes
    policies.sizes.type=penstock.policies.MaxBytes
    policies.sizes.value.max.bytes=100000
    topics.orders.penstock.policies=sizes

| key                 |                                                          |
|---------------------|----------------------------------------------------------|
| `key.max.bytes`     | the maximum size of a key                                |
| `value.max.bytes`   | the maximum size of a value                              |
| `headers.max.bytes` | the maximum size of all headers, names and values        |
| `record.max.bytes`  | the maximum size of key, value and headers together      |

Set at least one. Kafka's `max.message.bytes` limits a complete, compressed batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.policies.by_columns import ByColumns
from penstock.policies.own_keys import limit
from penstock.policy import ALL, ConfigKey, RecordIntrospectionHints

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from penstock.policies.by_columns import NativeJudge, RecordColumns
    from penstock.policy import Header

KEY: Final = "key.max.bytes"
VALUE: Final = "value.max.bytes"
HEADERS: Final = "headers.max.bytes"
RECORD: Final = "record.max.bytes"
_LARGEST: Final = 2**31 - 1
"""No request has more bytes."""
_PARTS: Final = {
    KEY: "the key has",
    VALUE: "the value has",
    HEADERS: "the headers have",
    RECORD: "the record has",
}


class MaxBytes(ByColumns):
    """Refuses records with a part that is too large."""

    config_keys = (
        ConfigKey(KEY, "LONG", documentation="The maximum size of a key."),
        ConfigKey(VALUE, "LONG", documentation="The maximum size of a value."),
        ConfigKey(
            HEADERS, "LONG", documentation="The maximum size of all headers, names and values."
        ),
        ConfigKey(
            RECORD, "LONG", documentation="The maximum size of key, value and headers together."
        ),
    )

    def configure(self, configs: Mapping[str, str]) -> None:
        """Read the settings.

        Raises:
            ValueError: A limit is not a number of bytes, or no limit is set.
        """
        self._limits = {key: most for key in _PARTS if (most := limit(configs, key)) is not None}
        if not self._limits:
            raise ValueError(f"one of {', '.join(_PARTS)} must be set, like {VALUE}=100000")

    def get_hints(self) -> RecordIntrospectionHints:
        """Return that each part is needed up to one byte above its limit."""
        if RECORD in self._limits:
            return RecordIntrospectionHints(True, ALL, ALL)
        key, value = (
            self._limits[part] + 1 if part in self._limits else 0 for part in (KEY, VALUE)
        )
        return RecordIntrospectionHints(HEADERS in self._limits, key, value)

    def refused(self, batch: RecordColumns) -> Iterator[tuple[int, str]]:
        """Yield the positions of records to refuse, with the reasons."""
        too_large: dict[int, str] = {}
        for key, most in self._limits.items():
            for position, size in enumerate(_sizes(batch, key)):
                if size > most:
                    too_large.setdefault(position, f"{_PARTS[key]} more than {most} bytes")
        yield from sorted(too_large.items())

    def judge_natively(self, text: str, judge: NativeJudge) -> bool:
        """Configure native threads to judge as `refused` does; return True."""
        del text
        key, value, headers, record = (
            min(self._limits[part], _LARGEST) if part in self._limits else None
            for part in (KEY, VALUE, HEADERS, RECORD)
        )
        return judge.sizes(key, value, headers, record)


def _sizes(batch: RecordColumns, key: str) -> Iterable[int]:
    if key == KEY:
        return _lengths(batch.keys)
    if key == VALUE:
        return _lengths(batch.values)
    of_headers = map(_size_of, batch.headers)
    if key == HEADERS:
        return of_headers
    parts: Sequence[Iterable[int]] = (_lengths(batch.keys), _lengths(batch.values), of_headers)
    return map(sum, zip(*parts, strict=True))


def _lengths(column: Iterable[bytes | None]) -> Iterator[int]:
    return (0 if data is None else len(data) for data in column)


def _size_of(headers: Iterable[Header]) -> int:
    return sum(len(header.key.encode()) + len(header.value or b"") for header in headers)
