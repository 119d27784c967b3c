"""Values as CEL takes them."""

from __future__ import annotations

from typing import Any


def without_branches(value: Any) -> Any:
    """Return a value of Avro without the names of the branches of its unions.

    Args:
        value: What fastavro returned: where a union has several named types, a pair of the
            type's full name and the value.
    """
    if isinstance(value, tuple):
        return without_branches(value[1])
    if isinstance(value, dict):
        return {key: without_branches(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [without_branches(inner) for inner in value]
    return value
