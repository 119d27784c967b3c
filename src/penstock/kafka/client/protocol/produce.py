"""A Produce request with a batch for each of some partitions, and its response.

Version 9 is the newest that Kafka 2.8 serves; 4.4 serves it, too. It is written here and not by
the protocol library, which would copy each batch once more.
"""

from __future__ import annotations

from struct import Struct, error
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.kafka.client.protocol.raw_requests import RawRequest, RawResponse, body_position
from penstock.kafka.wire.errors import WireError
from penstock.kafka.wire.primitives import (
    INT32,
    array_length,
    read_length,
    read_long_length,
    skip_tags,
    string,
    varint,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

API_KEY, VERSION = 0, 9
_ALL_REPLICAS: Final = -1
_ACKS: Final = Struct(">hi")
_RESULT: Final = Struct(">ihqqq")
_NO_TAGS: Final = b"\x00"


class ProduceResult(NamedTuple):
    """A broker's result for a batch.

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


def write_request(
    transactional_id: str | None,
    timeout_s: float,
    batches: Mapping[tuple[str, int], Sequence[bytes | memoryview]],
) -> RawRequest:
    """Return the request that sends batches, acknowledged by all replicas in sync.

    Args:
        transactional_id: Or None.
        timeout_s: How long the leader waits for its replicas.
        batches: The parts of each batch, by topic and partition; they are copied.
    """
    topics: dict[str, list[int]] = {}
    for topic, partition in batches:
        topics.setdefault(topic, []).append(partition)
    parts: list[bytes | memoryview] = [
        string(transactional_id, flexible=True),
        _ACKS.pack(_ALL_REPLICAS, int(timeout_s * 1000)),
        array_length(len(topics), flexible=True),
    ]
    for topic, partitions in topics.items():
        parts += (string(topic, flexible=True), array_length(len(partitions), flexible=True))
        for partition in partitions:
            batch = batches[topic, partition]
            parts += (INT32.pack(partition), varint(sum(map(len, batch)) + 1), *batch, _NO_TAGS)
        parts.append(_NO_TAGS)
    parts.append(_NO_TAGS)
    return RawRequest(API_KEY, VERSION, True, b"".join(parts))


def read_response(response: RawResponse) -> dict[tuple[str, int], ProduceResult]:
    """Return the results of a response for the batches of its request, by topic and partition.

    Raises:
        WireError: It cannot be read.
    """
    frame, results = response.frame, {}
    try:
        topics, position = read_long_length(
            frame, body_position(frame, flexible=True), flexible=True
        )
        for _ in range(topics):
            topic, position = _string(frame, position)
            partitions, position = read_long_length(frame, position, flexible=True)
            for _ in range(partitions):
                number, code, offset, _, _ = _RESULT.unpack_from(frame, position)
                text, records, position = _errors(frame, position + _RESULT.size)
                results[topic, number] = ProduceResult(code, offset, text, records)
                position = skip_tags(frame, position)
            position = skip_tags(frame, position)
    except (IndexError, error, UnicodeDecodeError):
        raise WireError("a ProduceResponse that cannot be read") from None
    return results


def answer_of(
    answers: Mapping[tuple[str, int], ProduceResult], place: tuple[str, int]
) -> ProduceResult:
    """Return the answer about a topic and partition.

    Raises:
        WireError: There is no result.
    """
    result = answers.get(place)
    if result is None:
        raise WireError("a ProduceResponse about other partitions than were sent")
    return result


def _errors(frame: bytes, position: int) -> tuple[str, tuple[int, ...], int]:
    """Read the message of a partition, the positions of its records with errors, and the rest.

    If the partition has no message, it is that of the first record with a message.
    """
    first, records = "", []
    errors, position = read_long_length(frame, position, flexible=True)
    for _ in range(errors):
        records.append(INT32.unpack_from(frame, position)[0])
        text, position = _string(frame, position + INT32.size)
        first = first or text
        position = skip_tags(frame, position)
    own, position = _string(frame, position)
    return own or first, tuple(records), position


def _string(frame: bytes, position: int) -> tuple[str, int]:
    size, position = read_length(frame, position, flexible=True)
    end = position + max(0, size)
    if end > len(frame):
        raise IndexError
    return frame[position:end].decode(), end
