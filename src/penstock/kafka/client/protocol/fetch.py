"""Fetch (API key 1), versions 12 and 13, for one partition, without a session.

Version 12 (Kafka 2.7) has the rack (KIP-392) and leader epochs (KIP-320); version 13 (Kafka 3.1)
names the topic by its id, so that a topic that was created again is not mistaken for the old topic
(KIP-516). The records are not copied out of the response.
"""

from __future__ import annotations

from struct import Struct, error
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.kafka.client.protocol.raw_requests import RawRequest, RawResponse, body_position
from penstock.kafka.wire.errors import WireError
from penstock.kafka.wire.primitives import (
    array_length,
    read_long_length,
    skip_string,
    skip_tags,
    string,
)

if TYPE_CHECKING:
    from uuid import UUID

API_KEY: Final = 1
BY_NAME, BY_ID = 12, 13
"""The versions."""
_ID_BYTES: Final = 16
_HEAD = Struct(">iiiibii")
"""Replica, max wait, min bytes, max bytes, isolation level, session, session epoch."""
_PARTITION = Struct(">iiqiqi")
"""Partition, leader epoch, offset, last fetched epoch, log start, max bytes."""
_RESPONSE = Struct(">ihi")
"""Throttle time, error code, session."""
_FETCHED = Struct(">ihqqq")
"""Partition, error code, high watermark, last stable offset, log start."""
_ABORTED = Struct(">qq")
_NODE = Struct(">i")
_NO_TAGS: Final = b"\x00"


class AbortedTransaction(NamedTuple):
    """A transaction that was aborted: its producer, and the first of its offsets."""

    producer_id: int
    first_offset: int


class FetchResult(NamedTuple):
    """The part of a response that is about the partition.

    Attributes:
        throttle_s: The broker wants no request for so long (KIP-219).
        code: An error code, or 0.
        is_empty: Whether the partition is missing: the broker only throttles.
        high_watermark: Or -1.
        last_stable_offset: Or -1.
        aborted_transactions: The transactions that were aborted, of those that touch the records.
        preferred_replica: The node to fetch from instead (KIP-392), or -1.
        records: Batches in sequence; the last may be incomplete.
    """

    throttle_s: float
    code: int
    is_empty: bool = True
    high_watermark: int = -1
    last_stable_offset: int = -1
    aborted_transactions: tuple[AbortedTransaction, ...] = ()
    preferred_replica: int = -1
    records: memoryview = memoryview(b"")


class FetchPosition(NamedTuple):
    """The position to fetch from, and the limits.

    Attributes:
        topic: The topic's name, or its id for version 13.
        offset: The first offset.
        leader_epoch: Of the leader that is known; -1 if unknown.
        max_bytes: How many bytes; more come if the first batch has more.
        max_wait_ms: How long the broker may wait for records.
        reads_committed: Only up to the last stable offset, with the aborted transactions.
        rack: Where the client is; empty for nowhere.
    """

    topic: str | UUID
    partition: int
    offset: int
    leader_epoch: int
    max_bytes: int
    max_wait_ms: int
    reads_committed: bool
    rack: str


def fetch_request(fetch: FetchPosition) -> RawRequest:
    """Write a request: version 13 for a topic's id, version 12 for its name."""
    if isinstance(fetch.topic, str):
        version, topic = BY_NAME, string(fetch.topic, flexible=True)
    else:
        version, topic = BY_ID, fetch.topic.bytes
    length_of_one = array_length(1, flexible=True)
    body = b"".join(
        (
            _HEAD.pack(-1, fetch.max_wait_ms, 1, fetch.max_bytes, fetch.reads_committed, 0, -1),
            length_of_one,
            topic,
            length_of_one,
            _PARTITION.pack(
                fetch.partition, fetch.leader_epoch, fetch.offset, -1, -1, fetch.max_bytes
            ),
            _NO_TAGS,
            _NO_TAGS,
            array_length(0, flexible=True),
            string(fetch.rack, flexible=True),
            _NO_TAGS,
        )
    )
    return RawRequest(API_KEY, version, flexible=True, body=body)


def read_fetch(response: RawResponse, version: int) -> FetchResult:
    """Read a response to `fetch_request`.

    Raises:
        WireError: It cannot be read.
    """
    frame = response.frame
    try:
        position = body_position(frame, flexible=True)
        throttle_ms, code, _ = _RESPONSE.unpack_from(frame, position)
        position += _RESPONSE.size
        topics, position = read_long_length(frame, position, flexible=True)
        if code or topics < 1:
            return FetchResult(throttle_ms / 1000, code)
        position = _after_topic(frame, position, version)
        partitions, position = read_long_length(frame, position, flexible=True)
        if topics > 1 or partitions != 1:
            raise IndexError
        return _read_partition(frame, position, throttle_ms / 1000)
    except (IndexError, error):
        raise WireError("a FetchResponse that cannot be read") from None


def _after_topic(frame: bytes, position: int, version: int) -> int:
    if version >= BY_ID:
        return position + _ID_BYTES
    return skip_string(frame, position, flexible=True)


def _read_partition(frame: bytes, position: int, throttle_s: float) -> FetchResult:
    _, code, high_watermark, last_stable_offset, _ = _FETCHED.unpack_from(frame, position)
    count, position = read_long_length(frame, position + _FETCHED.size, flexible=True)
    aborted = []
    for _ in range(count):
        aborted.append(AbortedTransaction._make(_ABORTED.unpack_from(frame, position)))
        position = skip_tags(frame, position + _ABORTED.size)
    (replica,) = _NODE.unpack_from(frame, position)
    length, position = read_long_length(frame, position + _NODE.size, flexible=True)
    end = position + max(0, length)
    if end > len(frame):
        raise IndexError
    return FetchResult(
        throttle_s,
        code,
        False,
        high_watermark,
        last_stable_offset,
        tuple(aborted),
        replica,
        memoryview(frame)[position:end],
    )
