"""The part after a prefix that all keys or all values of some records have."""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from collections.abc import Sequence


def after(fields: Sequence[bytes | None], prefix: bytes) -> Sequence[bytes] | None:
    """Return the rest of each field after a prefix.

    Args:
        fields: Keys or values.
        prefix: What all of them have to begin with.

    Returns:
        As many as there are fields; None where a field does not begin so, or is null.
    """
    if not fields:
        return ()
    some = cast("Sequence[bytes]", fields)
    try:
        # Of bytes that are ordered, all begin as the first and the last of them do.
        if not (min(some).startswith(prefix) and max(some).startswith(prefix)):
            return None
    except (TypeError, AttributeError):  # a null
        return None
    return tuple(map(itemgetter(slice(len(prefix), None)), some))
