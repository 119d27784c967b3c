"""The headers by which others say where a dead letter comes from.

Kafka Connect and Kafka Streams (KIP-1034) write texts. Spring writes numbers as Java's
`ByteBuffer` does, with other names for letters of its retry topics. Share groups (KIP-1191) have
the names of `penstock.engine.modes.dead_letters`.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

INT32, INT64 = 2**31, 2**63
"""Numbers in headers are less than one of these."""
_SIZES: Final = {INT32: 4, INT64: 8}
_NUMBER: Final = re.compile(rb"\s*([+-]?[0-9]{1,20})\s*")


def number_of(text: bytes | None, limit: int) -> int | None:
    """Return the number that is written in a header as text; None if there is none.

    Args:
        text: The header's value.
        limit: `INT32` or `INT64`.
    """
    match = _NUMBER.fullmatch(text) if text is not None else None
    if match is None:
        return None
    number = int(match[1])
    return number if -limit <= number < limit else None


class LetterFormat(NamedTuple):
    """The headers of those who write dead letters in one way.

    Attributes:
        topic: The name of the header with the topic, which every letter has.
        partition: Of the header with the partition.
        offset: Of the header with the offset.
        timestamp: Of the header with the timestamp in ms; None where letters keep the record's.
        prefixes: How the names of all headers of a letter begin.
        is_binary: Whether numbers are written as big-endian integers.
    """

    topic: str
    partition: str
    offset: str
    timestamp: str | None
    prefixes: tuple[str, ...]
    is_binary: bool = False

    def number(self, value: bytes | None, limit: int) -> int | None:
        """Return the number in a header; None if there is none.

        Args:
            value: The header's value.
            limit: `INT32` or `INT64`.
        """
        if self.is_binary and value is not None and len(value) == _SIZES[limit]:
            return int.from_bytes(value, signed=True)
        return number_of(value, limit)


CONNECT: Final = LetterFormat(
    "__connect.errors.topic",
    "__connect.errors.partition",
    "__connect.errors.offset",
    None,
    ("__connect.errors.",),
)
STREAMS: Final = LetterFormat(
    "__streams.errors.topic",
    "__streams.errors.partition",
    "__streams.errors.offset",
    None,
    ("__streams.errors.",),
)
SPRING: Final = LetterFormat(
    "kafka_dlt-original-topic",
    "kafka_dlt-original-partition",
    "kafka_dlt-original-offset",
    "kafka_dlt-original-timestamp",
    ("kafka_dlt-",),
    is_binary=True,
)
SPRING_RETRIES: Final = LetterFormat(
    "kafka_original-topic",
    "kafka_original-partition",
    "kafka_original-offset",
    "kafka_original-timestamp",
    # The attempts, too: with them the next failure would be the last at once.
    ("kafka_original-", "kafka_exception-", "kafka_dlt-", "retry_topic-"),
    is_binary=True,
)
OTHERS: Final = (CONNECT, STREAMS, SPRING, SPRING_RETRIES)
