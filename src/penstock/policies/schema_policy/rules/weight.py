"""How much there is of a value."""

from __future__ import annotations

from typing import Any, Final

HEAVIEST: Final = 16_384
"""Characters, bytes and items of a value for which the work may grow with their square."""


def weighs_more_than(value: Any, limit: int) -> bool:
    """Return whether a value has more than so many characters, bytes and items altogether.

    The work is bounded by the limit, not by the value.
    """
    if hasattr(value, "ByteSize"):
        return bool(value.ByteSize() > limit)
    weight = 0
    waiting = [value]
    while waiting and weight <= limit:
        found = waiting.pop()
        weight += 1
        if isinstance(found, (str, bytes)):
            weight += len(found)
        elif isinstance(found, dict):
            weight += len(found)
            if weight <= limit:
                waiting.extend(found.keys())
                waiting.extend(found.values())
        elif isinstance(found, (list, tuple)):
            weight += len(found)
            if weight <= limit:
                waiting.extend(found)
        elif hasattr(found, "ByteSize"):
            weight += found.ByteSize()
    return weight > limit
