"""Ranges of offsets for a reader, and offsets that are gone.

Values only: what plans a job imports no library that reads records.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from penstock.kafka.wire.names import NO_ID

if TYPE_CHECKING:
    from uuid import UUID


class WantedRange(NamedTuple):
    """A range of offsets.

    Attributes:
        topic: The topic's name.
        first: The first offset.
        end: The offset after the last.
        topic_id: The topic's id; zero if it is not known.
    """

    topic: str
    partition: int
    first: int
    end: int
    topic_id: UUID = NO_ID


class LostOffsets(NamedTuple):
    """Offsets that retention, or a deletion of records, removed before they were read.

    Attributes:
        topic: The topic's name.
        first: The first offset.
        end: The offset after the last.
    """

    topic: str
    partition: int
    first: int
    end: int
