"""The headers of records that are stored although a policy objects (`penstock.mode=mark`).

They have the names of Kafka's dead letter headers (KIP-1191) with another prefix, so that
a marked record is not mistaken for a dead letter. All values are texts in UTF-8.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from penstock.engine.verdict import RecordError
    from penstock.kafka.records.stored import StoredRecords

PREFIX: Final = "__mark."
"""Headers of a client with this prefix are removed in mode `mark`: they would be false."""
POLICY: Final = "__mark.errors.policy"
CODE: Final = "__mark.errors.code"
MESSAGE: Final = "__mark.errors.message"
NAMES: Final = (POLICY, CODE, MESSAGE)
"""What only a gateway should write: a batch with one of these is changed in mode `mark`."""


def has_marks(records: StoredRecords) -> bool:
    """Return whether a record has a header that only a gateway should write."""
    return any(records.has_header(name) for name in NAMES)


def marks_of(
    errors: Iterable[RecordError], code: int
) -> dict[int, Sequence[tuple[str, bytes | None]]]:
    """Return the headers of records that policies object to, by position.

    Args:
        errors: The policies, and their texts.
        code: Kafka's error code that the client would have been answered.
    """
    mark_cache: dict[tuple[str, str | None], Sequence[tuple[str, bytes | None]]] = {}
    marks_by_position = {}
    for error in errors:
        text, policy = error.message, error.policy
        mark = mark_cache.get((policy, text))
        if mark is None:
            mark = mark_cache[policy, text] = (
                (POLICY, policy.encode()),
                (CODE, b"%d" % code),
                (MESSAGE, b"" if text is None else text.encode(errors="replace")),
            )
        marks_by_position[error.index] = mark
    return marks_by_position
