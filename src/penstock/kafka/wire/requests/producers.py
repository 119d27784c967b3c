"""DescribeProducers (API key 61, KIP-664, Kafka 2.8): the last sequence numbers of producers.

Requires Read on the topic. A follower responds, too, and may lag (Partition.scala). So ListOffsets
is sent first (see `leaders`).
"""

from __future__ import annotations

from struct import Struct, error
from typing import TYPE_CHECKING, Final, NamedTuple

from kio.schema.api_versions.v0.request import ApiVersionsRequest
from kio.schema.api_versions.v0.response import ApiVersionsResponse
from kio.schema.describe_producers.v0.request import DescribeProducersRequest, TopicRequest
from kio.schema.types import TopicName
from kio.static.primitive import i32

from penstock.kafka.wire.errors import NONE, WireError
from penstock.kafka.wire.frames import THROTTLE_TIME_BYTES, body_of_response
from penstock.kafka.wire.own_requests import read_response, write_request
from penstock.kafka.wire.primitives import read_length, read_long_length, skip_string, skip_tags

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.kafka.wire.requests.leaders import Leader

API_KEY: Final = 61
_PARTITION: Final = Struct(">ih")  # index, error code
_PRODUCER: Final = Struct(">qiiqiq")
"""Producer id, epoch, last sequence, last timestamp, coordinator epoch, transaction's start."""
_PRODUCER_ID: Final = Struct(">q")


class LastSequence(NamedTuple):
    """The last sequence number of a producer at a partition.

    Attributes:
        code: Kafka's error code.
        epoch: The producer epoch; -1 if the broker does not know the producer.
        sequence: The last stored sequence number, or -1.
        leader: The leader that returned it; None if it was not requested.
    """

    code: int
    epoch: int = -1
    sequence: int = -1
    leader: Leader | None = None


def api_versions_request(correlation_id: int) -> bytes:
    """Return an ApiVersions request, length included."""
    return write_request(correlation_id, ApiVersionsRequest())


def is_supported(frame: bytes) -> bool:
    """Return whether the broker supports DescribeProducers, by its ApiVersions response.

    Raises:
        WireError: The response cannot be read.
    """
    supported = read_response(frame, ApiVersionsResponse)
    return any(api.api_key == API_KEY for api in supported.api_keys)


def request(correlation_id: int, *, partitions: Mapping[str, Mapping[int, int]]) -> bytes:
    """Return a DescribeProducers request, length included.

    Args:
        partitions: The producer ids, by topic and partition.
    """
    topics = tuple(
        TopicRequest(name=TopicName(name), partition_indexes=tuple(map(i32, numbers)))
        for name, numbers in partitions.items()
    )
    return write_request(correlation_id, DescribeProducersRequest(topics=topics))


def response(
    frame: bytes, *, partitions: Mapping[str, Mapping[int, int]]
) -> dict[tuple[str, int], LastSequence]:
    """Return the last sequence numbers in a DescribeProducers response, length included.

    A partition may have many thousands of producers, so they are searched, not parsed.

    Raises:
        WireError: It cannot be read.
    """
    try:
        return _read(frame, partitions)
    except (IndexError, error, UnicodeDecodeError):
        raise WireError("a DescribeProducers response that cannot be read") from None


def _read(
    frame: bytes, partitions: Mapping[str, Mapping[int, int]]
) -> dict[tuple[str, int], LastSequence]:
    sequences: dict[tuple[str, int], LastSequence] = {}
    position = body_of_response(frame, flexible=True) + THROTTLE_TIME_BYTES
    topics, position = read_long_length(frame, position, flexible=True)
    for _ in range(topics):
        length, position = read_length(frame, position, flexible=True)
        name = frame[position : position + length].decode()
        position += length
        count, position = read_long_length(frame, position, flexible=True)
        for _ in range(count):
            index, code = _PARTITION.unpack_from(frame, position)
            position = skip_string(frame, position + _PARTITION.size, flexible=True)
            producers, position = read_long_length(frame, position, flexible=True)
            end = position + producers * (_PRODUCER.size + 1)
            producer_id = partitions.get(name, {}).get(index)
            if producer_id is not None:
                sequences[name, index] = _search(frame, position, end, producer_id, code)
            position = skip_tags(frame, end)
        position = skip_tags(frame, position)
    return sequences


def _search(frame: bytes, start: int, end: int, producer_id: int, code: int) -> LastSequence:
    if code != NONE:
        return LastSequence(code)
    if end > len(frame):
        raise IndexError
    size = _PRODUCER.size + 1
    encoded_id = _PRODUCER_ID.pack(producer_id)
    position = frame.find(encoded_id, start, end)
    while position >= 0:
        if (position - start) % size == 0:
            _, epoch, sequence, *_ = _PRODUCER.unpack_from(frame, position)
            return LastSequence(code, epoch, sequence)
        position = frame.find(encoded_id, position + 1, end)
    return LastSequence(code)
