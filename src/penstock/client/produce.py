"""A Produce request with one batch, and its response.

Version 9 is the newest that Kafka 2.8 serves; 4.3 serves it, too. It is written here and not by
the protocol library, since a batch of 16 KB is a request of its own: a partition has one batch
in a request.
"""

from __future__ import annotations

from struct import Struct, error
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.client.requests import RawRequest, RawResponse, body_position
from penstock.wire.errors import WireError
from penstock.wire.primitives import (
    INT32,
    array_length,
    read_length,
    read_long_length,
    skip_tags,
    string,
    varint,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

API_KEY, VERSION = 0, 9
_ALL_REPLICAS: Final = -1
_ACKS: Final = Struct(">hi")
_RESULT: Final = Struct(">ihqqq")
_ONE: Final = array_length(1, flexible=True)
_NO_TAGS: Final = b"\x00"
_END: Final = _NO_TAGS * 3
"""After the batch: the tagged fields of the partition, of the topic, of the request."""


class Answer(NamedTuple):
    """What a broker says of a batch.

    Attributes:
        code: Kafka's error code; 0 where the batch is stored.
        offset: The offset of its first record; or -1.
        text: The broker's message; empty for none.
        records: The positions of the records that the broker names (KIP-467); empty for none.
    """

    code: int
    offset: int
    text: str
    records: tuple[int, ...] = ()


def write_head(transactional_id: str | None, timeout_s: float, topic: str, partition: int) -> bytes:
    """Return what precedes the length of the batch in each request for a partition.

    Args:
        transactional_id: Or None.
        timeout_s: How long the leader waits for its replicas.
        topic: The topic.
        partition: The partition.
    """
    return b"".join(
        (
            string(transactional_id, flexible=True),
            _ACKS.pack(_ALL_REPLICAS, int(timeout_s * 1000)),
            _ONE,
            string(topic, flexible=True),
            _ONE,
            INT32.pack(partition),
        )
    )


def write_request(head: bytes, batch: Sequence[bytes | memoryview]) -> RawRequest:
    """Return the request that sends a batch, acknowledged by all replicas in sync.

    Args:
        head: From `write_head`.
        batch: The parts of the batch; they are copied.
    """
    size = sum(map(len, batch))
    return RawRequest(API_KEY, VERSION, True, b"".join((head, varint(size + 1), *batch, _END)))


def read_response(response: RawResponse) -> Answer:
    """Return what a response says of the one batch of its request.

    Raises:
        WireError: It cannot be read.
    """
    frame = response.frame
    try:
        _, position = read_long_length(frame, body_position(frame, flexible=True), flexible=True)
        size, position = read_length(frame, position, flexible=True)
        partitions, position = read_long_length(frame, position + size, flexible=True)
        if partitions != 1:
            raise WireError("a ProduceResponse about other partitions than were sent")
        _, code, offset, _, _ = _RESULT.unpack_from(frame, position)
        if not code:
            return Answer(0, offset, "")
        return Answer(code, offset, *_errors(frame, position + _RESULT.size))
    except (IndexError, error, UnicodeDecodeError):
        raise WireError("a ProduceResponse that cannot be read") from None


def _errors(frame: bytes, position: int) -> tuple[str, tuple[int, ...]]:
    """Return the message of the partition, and the positions of its records with errors.

    Where the partition has no message, it is that of the first record that has.
    """
    first, records = "", []
    errors, position = read_long_length(frame, position, flexible=True)
    for _ in range(errors):
        records.append(INT32.unpack_from(frame, position)[0])
        text, position = _string(frame, position + INT32.size)
        first = first or text
        position = skip_tags(frame, position)
    return _string(frame, position)[0] or first, tuple(records)


def _string(frame: bytes, position: int) -> tuple[str, int]:
    size, position = read_length(frame, position, flexible=True)
    end = position + max(0, size)
    if end > len(frame):
        raise IndexError
    return frame[position:end].decode(), end
