"""The variables of conditions: the parts of a record, or the facts about a batch.

| variable of a record | type                                                                   |
|----------------------|------------------------------------------------------------------------|
| `key`, `value`       | as their format says; null where there is none                         |
| `headers`            | a map: of each name the last value, text where it is UTF-8, else bytes |
| `timestamp`          | timestamp; of a record that has none, the condition has no result      |
| `topic`              | string                                                                 |
| `partition`          | int                                                                    |
| `client`             | a map with `principal`, `id` and `address`, each where it is known     |

| variable of a batch                 | type                                                    |
|-------------------------------------|---------------------------------------------------------|
| `count`                             | int: its records                                        |
| `distinct_keys`                     | int: how many keys differ, null counting as one of them |
| `null_keys`, `null_values`          | int: its records without a key, without a value         |
| `total_bytes`                       | int: bytes of all keys and values                       |
| `first_timestamp`, `last_timestamp` | timestamp: the least and the greatest                   |
| `topic`, `partition`, `client`      | as above                                                |

Each condition may also read `now`.
"""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any, Final

from penstock.policies.schema_policy.rules.program import TEXTS
from penstock.policies.schema_policy.rules.values import EvaluationError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from penstock.policy import BatchProxy, ClientContext, Header

_OF_BOTH: Final = {"topic": "STRING", "partition": "INT", "client": TEXTS}
OF_RECORDS: Final = {
    "key": "DYN",
    "value": "DYN",
    "headers": "MAP",
    "timestamp": "TIMESTAMP",
    **_OF_BOTH,
}
"""The variables of a record with their types, as `Language` takes them."""
_COUNTS: Final = ("count", "distinct_keys", "null_keys", "null_values", "total_bytes")
OF_BATCHES: Final = {
    **dict.fromkeys(_COUNTS, "INT"),
    "first_timestamp": "TIMESTAMP",
    "last_timestamp": "TIMESTAMP",
    **_OF_BOTH,
}
"""The same of a batch."""
OF_CLIENTS: Final = frozenset({"principal", "id", "address"})
"""What `client` may have."""
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def instant(milliseconds: int) -> dt.datetime:
    """Return a record's timestamp.

    Raises:
        EvaluationError: It has none, or none that CEL knows.
    """
    if milliseconds == -1:
        raise EvaluationError("the record has no timestamp")
    try:
        return _EPOCH + dt.timedelta(milliseconds=milliseconds)
    except OverflowError:
        raise EvaluationError("the timestamp is not between the years 1 and 9999") from None


def last_headers(headers: Iterable[Header], names: Collection[str] | None) -> dict[str, Any]:
    """Return the last value of each header.

    Args:
        headers: Of a record.
        names: The required names; None for all of them.
    """
    last_values = {
        header.key: header.value for header in headers if names is None or header.key in names
    }
    return {name: _text_or_bytes(value) for name, value in last_values.items()}


def known_of(client: ClientContext) -> dict[str, str]:
    """Return the variables of a client."""
    attributes = {"principal": client.principal, "id": client.client_id, "address": client.address}
    return {name: value for name, value in attributes.items() if value is not None}


def of_batch(batch: BatchProxy, names: Collection[str]) -> dict[str, Any]:
    """Return some variables of a batch.

    Raises:
        EvaluationError: A variable has no value.
    """
    variables: dict[str, Any] = {}
    for name in names:
        if name in _COUNTS:
            variables[name] = _count(batch, name)
        elif name == "first_timestamp":
            variables[name] = instant(min(batch.timestamps))
        elif name == "last_timestamp":
            variables[name] = instant(max(batch.timestamps))
    return variables


def _count(batch: BatchProxy, name: str) -> int:
    if name == "count":
        return len(batch)
    if name == "distinct_keys":
        return len(set(batch.keys))
    if name == "null_keys":
        return batch.keys.count(None)
    if name == "null_values":
        return batch.values.count(None)
    return _bytes(batch.keys) + _bytes(batch.values)


def _bytes(column: Sequence[bytes | None]) -> int:
    return sum(map(len, filter(None, column)))


def _text_or_bytes(value: bytes | None) -> str | bytes | None:
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value
