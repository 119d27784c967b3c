"""Metadata (API key 3) and DescribeConfigs (32): the gateway's own requests about topics.

Metadata version 12 is the first with topic ids (Kafka 3.1); DescribeConfigs version 1 is
supported by every broker since 1.1. No topic is created automatically.
"""

from __future__ import annotations

from struct import error
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, TypeVar
from uuid import UUID

from kio.schema.describe_configs.v1.request import DescribeConfigsRequest, DescribeConfigsResource
from kio.schema.describe_configs.v1.response import DescribeConfigsResponse
from kio.schema.metadata.v12.request import MetadataRequest
from kio.static.primitive import i8

from penstock.kafka.wire.errors import (
    REQUEST_TIMED_OUT,
    TOPIC_AUTHORIZATION_FAILED,
    UNKNOWN_TOPIC_OR_PARTITION,
    WireError,
)
from penstock.kafka.wire.frames import THROTTLE_TIME_BYTES, body_of_response
from penstock.kafka.wire.names import NO_ID
from penstock.kafka.wire.own_requests import framed_request, read_response, write_request
from penstock.kafka.wire.primitives import (
    INT16,
    INT32,
    array_length,
    read_length,
    read_long_length,
    skip_string,
    skip_tags,
    string,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock.kafka.wire.slices import Slices

T = TypeVar("T")
_TOPIC: Final = 2
_WRITE: Final = 4
"""In a set of operations (AclOperation.java)."""
_UNKNOWN_OPERATIONS: Final = -(2**31)
_UUID_BYTES: Final = 16
_VERSION: Final = 12
_OFFLINE_FROM, _EPOCHS_FROM, _OPERATIONS_FROM, _FLEXIBLE_FROM, _IDS_FROM = 5, 7, 8, 9, 10
_PARTITION_BYTES: Final = 2 + 4 + 4  # error, index, leader
_NODE_ARRAYS: Final = 2  # replicas, in sync
_SLICE_STEPS: Final = 500
_MAX_MESSAGE_BYTES: Final = "max.message.bytes"


class FoundTopic(NamedTuple):
    """A topic in a Metadata response: an error code, or the other fields."""

    code: int
    name: str | None
    topic_id: UUID
    partitions: int = 0
    replication_factor: int = 0


def framed_metadata(correlation_id: int, *, body: bytes, client_id: str | None) -> bytes:
    """Return a Metadata request whose body has been written, length included."""
    return framed_request(correlation_id, kind=MetadataRequest, body=body, client_id=client_id)


def metadata_body(
    names: Iterable[str],
    ids: Iterable[UUID] = (),
    *,
    creating: bool = False,
    operations: bool = False,
) -> Slices[bytes]:
    """Return the body of a Metadata request.

    Args:
        names: The names of topics.
        ids: The ids of others.
        creating: Whether topics that do not exist may be created.
        operations: Whether to include the operations that the client may perform.

    Yields:
        After each slice.
    """
    entries = [topic_id.bytes + b"\x00\x00" for topic_id in ids]
    for name in names:
        entries.append(b"".join((NO_ID.bytes, string(name, flexible=True), b"\x00")))
        if len(entries) % _SLICE_STEPS == 0:
            yield
    count = array_length(len(entries), flexible=True)
    return b"".join((count, *entries, bytes([creating, operations]), b"\x00"))


class NamedTopic(NamedTuple):
    """A topic in a Metadata response: an error code, its name and its id."""

    code: int
    name: str | None
    topic_id: UUID


class UnknownTopic(NamedTuple):
    """A topic that a Metadata response does not know: its name, and where its error code is."""

    name: str
    code_at: int


def names_in(frame: bytes) -> Slices[list[NamedTopic]]:
    """Return the topics of a Metadata response, length included, without their partitions.

    A topic may have thousands of partitions, and a connection reads such a response every ten
    seconds: those of the last topic are not read, those of others are skipped.

    Yields:
        After each slice.

    Raises:
        WireError: It cannot be read as far as that.
    """
    return (yield from _read(_MetadataResponse(frame, _VERSION, _named)))


def found_in(frame: bytes, version: int = _VERSION) -> Slices[list[FoundTopic]]:
    """Return the topics of a Metadata response, in slices.

    Args:
        frame: The response, length included.
        version: Its version, 4 or later.

    Raises:
        WireError: It cannot be read.
    """
    return (yield from _read(_MetadataResponse(frame, version, _found, reads_all=True)))


def write_codes_in(frame: bytes) -> Slices[dict[str, int]]:
    """Return the error code for writing to each topic of a Metadata response with operations.

    It is 0 for the right to write (KIP-430), and retriable if the cluster does not say.

    Yields:
        After each slice.

    Raises:
        WireError: It cannot be read.
    """
    response = _MetadataResponse(frame, _VERSION, _write_code, reads_all=True)
    return dict((yield from _read(response)))


def unknown_in(frame: bytes, version: int) -> Slices[list[UnknownTopic]]:
    """Return the topics that a Metadata response does not know, in slices.

    Args:
        frame: The response, length included.
        version: Its version, 4 or later.

    Raises:
        WireError: It cannot be read.
    """
    return (yield from _read(_MetadataResponse(frame, version, _unknown)))


class _MetadataTopic(NamedTuple):
    code: int
    code_at: int
    name: str | None
    topic_id: UUID
    partitions: int
    replicas: int
    operations: int


def _named(topic: _MetadataTopic) -> NamedTopic:
    return NamedTopic(topic.code, topic.name, topic.topic_id)


def _found(topic: _MetadataTopic) -> FoundTopic:
    code, _, name, topic_id, partitions, replicas, _ = topic
    return FoundTopic(code, name, topic_id, partitions, replicas)


def _write_code(topic: _MetadataTopic) -> tuple[str, int] | None:
    if topic.name is None:
        return None
    if topic.code:
        return topic.name, topic.code
    if topic.operations == _UNKNOWN_OPERATIONS:
        return topic.name, REQUEST_TIMED_OUT
    return topic.name, 0 if topic.operations & 1 << _WRITE else TOPIC_AUTHORIZATION_FAILED


def _unknown(topic: _MetadataTopic) -> UnknownTopic | None:
    if topic.code != UNKNOWN_TOPIC_OR_PARTITION or topic.name is None:
        return None
    return UnknownTopic(topic.name, topic.code_at)


def _read(response: _MetadataResponse[T]) -> Slices[list[T]]:
    try:
        return (yield from response.topics())
    except (IndexError, error, UnicodeDecodeError):
        raise WireError("a MetadataResponse that cannot be read") from None


class _MetadataResponse(Generic[T]):
    """Looks through a Metadata response of version 4 or later."""

    def __init__(
        self,
        frame: bytes,
        version: int,
        converter: Callable[[_MetadataTopic], T | None],
        *,
        reads_all: bool = False,
    ) -> None:
        self._frame = frame
        self._converter = converter
        self._flexible = version >= _FLEXIBLE_FROM
        self._has_ids = version >= _IDS_FROM
        self._has_operations = version >= _OPERATIONS_FROM
        self._partition_bytes = _PARTITION_BYTES + INT32.size * (version >= _EPOCHS_FROM)
        self._node_arrays = _NODE_ARRAYS + (version >= _OFFLINE_FROM)
        self._reads_all = reads_all
        self._steps = 0

    def topics(self) -> Slices[list[T]]:
        """Return the values of each topic, but for None."""
        frame = self._frame
        position = body_of_response(frame, flexible=self._flexible) + THROTTLE_TIME_BYTES
        position = self._after_brokers(position)
        position = self._after_text(position) + INT32.size  # cluster id, controller id
        count, position = read_long_length(frame, position, flexible=self._flexible)
        values = []
        for remaining_topics in range(count, 0, -1):
            code_at = position
            (code,) = INT16.unpack_from(frame, position)
            length, position = read_length(frame, position + INT16.size, flexible=self._flexible)
            name = frame[position : position + length].decode() if length >= 0 else None
            position += max(0, length)
            if position + _UUID_BYTES * self._has_ids > len(frame):
                raise IndexError
            topic_id = NO_ID
            if self._has_ids:
                topic_id = UUID(bytes=frame[position : position + _UUID_BYTES])
                position += _UUID_BYTES
            partitions = replicas = 0
            operations = _UNKNOWN_OPERATIONS
            if remaining_topics > 1 or self._reads_all:
                partitions, replicas, position = yield from self._partitions(position + 1)
                if self._has_operations:
                    (operations,) = INT32.unpack_from(frame, position)
                    position += INT32.size
                position = self._after_tags(position)
            value = self._converter(
                _MetadataTopic(code, code_at, name, topic_id, partitions, replicas, operations)
            )
            if value is not None:
                values.append(value)
        return values

    def _partitions(self, position: int) -> Slices[tuple[int, int, int]]:
        """Return the number of partitions, the smallest one of replicas, and the position after."""
        count, position = read_long_length(self._frame, position, flexible=self._flexible)
        fewest = 0
        for number in range(count):
            position += self._partition_bytes
            for array in range(self._node_arrays):
                nodes, position = read_long_length(self._frame, position, flexible=self._flexible)
                position += INT32.size * max(0, nodes)
                if not array and (nodes < fewest or not number):
                    fewest = nodes
            position = self._after_tags(position)
            self._steps += 1
            if self._steps % _SLICE_STEPS == 0:
                yield
        self._steps += 1
        if self._steps % _SLICE_STEPS == 0:
            yield
        return max(0, count), max(0, fewest), position

    def _after_brokers(self, position: int) -> int:
        count, position = read_long_length(self._frame, position, flexible=self._flexible)
        for _ in range(count):
            position = self._after_text(position + INT32.size) + INT32.size  # id, host, port
            position = self._after_tags(self._after_text(position))  # rack
        return position

    def _after_text(self, position: int) -> int:
        return skip_string(self._frame, position, flexible=self._flexible)

    def _after_tags(self, position: int) -> int:
        return skip_tags(self._frame, position) if self._flexible else position


def max_message_bytes_request(correlation_id: int, *, names: Iterable[str]) -> bytes:
    """Return a DescribeConfigs request for `max.message.bytes` of topics, length included."""
    return write_request(
        correlation_id,
        DescribeConfigsRequest(
            resources=tuple(
                DescribeConfigsResource(
                    resource_type=i8(_TOPIC),
                    resource_name=name,
                    configuration_keys=(_MAX_MESSAGE_BYTES,),
                )
                for name in names
            )
        ),
    )


def max_message_bytes_response(frame: bytes) -> dict[str, int]:
    """Return the `max.message.bytes` by topic in a DescribeConfigs response, length included.

    Raises:
        WireError: It cannot be read.
    """
    limits: dict[str, int] = {}
    for result in read_response(frame, DescribeConfigsResponse).results:
        for config in result.configs if not result.error_code else ():
            if config.name == _MAX_MESSAGE_BYTES and config.value is not None:
                limits[result.resource_name] = int(config.value)
    return limits
