"""The response to Produce: a broker's, parsed as slices by topic and partition, and the client's.

The notes on versions are in `produce`.
"""

from __future__ import annotations

from struct import Struct, error
from typing import TYPE_CHECKING

from penstock.kafka.wire.errors import RETRIABLE, WireError
from penstock.kafka.wire.frames import body_of_response
from penstock.kafka.wire.primitives import (
    INT32,
    array_length,
    read_length,
    read_long_length,
    read_varint,
    skip_string,
    skip_tags,
    string,
)
from penstock.kafka.wire.requests.produce import (
    FLEXIBLE_FROM,
    SLICE_ENTRIES,
    TOPIC_IDS_FROM,
    PartitionResponse,
)
from penstock.kafka.wire.slices import finish

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.kafka.wire.requests.produce import ProduceRequest
    from penstock.kafka.wire.slices import Slices

_ERRORS_FROM, _LOG_START_FROM = 8, 5

_PARTITION_RESPONSE = Struct(">ihqq")  # index, error code, base offset, log append time
_RESULT = Struct(">hqq")  # the same without the index
_ERROR_CODE = Struct(">h")
_OFFSET = Struct(">q")
_CODE_AT, _BASE_AT, _START_AT = 4, 6, _PARTITION_RESPONSE.size
_PLAIN_PARTITION_BYTES, _PLAIN_PARTITION_END = 33, b"\x01\0\0"  # no errors, text nor tags


def read_response(frame: bytes, version: int) -> Slices[ProduceResponse]:
    """Return the Produce response in a frame, length included, in slices.

    Raises:
        WireError: It is not a complete response of this version.
    """
    response = object.__new__(ProduceResponse)
    yield from response.read(frame, version)
    return response


class ProduceResponse:
    """A broker's Produce response, as slices by topic and partition.

    Attributes:
        is_changed: Whether it was changed.
        tail: The bytes after the topics.
    """

    __slots__ = ("_partitions", "_version", "is_changed", "tail")

    def __init__(self, frame: bytes, version: int) -> None:
        """Parse a frame, length included.

        Raises:
            WireError: It is not a complete response of this version.
        """
        finish(self.read(frame, version))

    def read(self, frame: bytes, version: int) -> Slices[None]:
        """Parse a frame, length included, in slices.

        Raises:
            WireError: It is not a complete response of this version.
        """
        self._partitions: dict[tuple[bytes, int], bytes] = {}
        self._version = version
        self.is_changed = False
        try:
            yield from self._read(frame, version)
        except (IndexError, error):
            raise WireError("a Produce response that cannot be read") from None

    def take(self, topic: bytes, index: int) -> bytes | None:
        """Remove and return the bytes of a partition's response, or None."""
        return self._partitions.pop((topic, index), None)

    def partition_response(self, topic: bytes, index: int) -> PartitionResponse | None:
        """Return a partition's response, without messages, or None."""
        data = self._partitions.get((topic, index))
        if data is None:
            return None
        _, code, base_offset, log_append_time = _PARTITION_RESPONSE.unpack_from(data)
        start = _OFFSET.unpack_from(data, _START_AT)[0] if self._version >= _LOG_START_FROM else -1
        return PartitionResponse(code, None, (), base_offset, log_append_time, start)

    @property
    def retried(self) -> Sequence[tuple[bytes, int]]:
        """The partitions with an error after which clients send the same batch again."""
        return [
            partition
            for partition, data in self._partitions.items()
            if _ERROR_CODE.unpack_from(data, _CODE_AT)[0] in RETRIABLE
        ]

    def replace_error(self, topic: bytes, index: int, code: int, log_start_offset: int) -> None:
        """Replace the error code and the log start offset of a partition."""
        self.is_changed = True
        data = bytearray(self._partitions[topic, index])
        _ERROR_CODE.pack_into(data, _CODE_AT, code)
        if self._version >= _LOG_START_FROM:
            _OFFSET.pack_into(data, _START_AT, log_start_offset)
        self._partitions[topic, index] = bytes(data)

    def replace_base_offset(self, topic: bytes, index: int, base_offset: int) -> None:
        """Replace the base offset of a partition."""
        self.is_changed = True
        data = bytearray(self._partitions[topic, index])
        _OFFSET.pack_into(data, _BASE_AT, base_offset)
        self._partitions[topic, index] = bytes(data)

    def move_record_errors(self, topic: bytes, index: int, positions: Sequence[int]) -> None:
        """Replace the indexes of bad records by those in the client's batch.

        Args:
            topic: The topic, as in the request.
            positions: The index in the client's batch of each record that was sent to the broker.

        Raises:
            WireError: The response refers to a record that was not sent.
        """
        if self._version < _ERRORS_FROM:
            return
        data = bytearray(self._partitions[topic, index])
        flexible = self._version >= FLEXIBLE_FROM
        count, position = read_long_length(data, _START_AT + _OFFSET.size, flexible=flexible)
        for _ in range(count):
            (bad_index,) = INT32.unpack_from(data, position)
            if not 0 <= bad_index < len(positions):
                raise WireError("a Produce response about a record that was not sent")
            INT32.pack_into(data, position, positions[bad_index])
            self.is_changed = True
            position = skip_string(data, position + INT32.size, flexible=flexible)
            if flexible:
                position = skip_tags(data, position)
        self._partitions[topic, index] = bytes(data)

    def _read(self, frame: bytes, version: int) -> Slices[None]:
        flexible = version >= FLEXIBLE_FROM
        position = body_of_response(frame, flexible=flexible)
        topics, position = read_long_length(frame, position, flexible=flexible)
        steps = 0
        for _ in range(topics):
            start = position
            if version >= TOPIC_IDS_FROM:
                position += 16
            else:
                length, position = read_length(frame, position, flexible=flexible)
                position += length
            key = frame[start:position]
            partitions, position = read_long_length(frame, position, flexible=flexible)
            for _ in range(partitions):
                start = position
                (index,) = INT32.unpack_from(frame, position)
                position = _skip_partition(frame, position, version)
                self._partitions[key, index] = frame[start:position]
                steps += 1
                if steps % SLICE_ENTRIES == 0:
                    yield
            if flexible:
                position = skip_tags(frame, position)
        self.tail = frame[position:]
        end = skip_tags(frame, position + 4) if flexible else position + 4
        if end != len(frame):
            raise IndexError


def write_response(
    request: ProduceRequest,
    local: Mapping[tuple[int, int], PartitionResponse],
    broker: ProduceResponse | None,
) -> Slices[list[bytes]]:
    """Return the response, merged from the broker's response and local responses, in slices.

    Args:
        local: The local responses, by indexes of topic and partition, as in `rewrite`.
        broker: The broker's response, or None if nothing was sent to it.

    Returns:
        The buffers of a frame, with each partition once, in the order of the request.
    """
    flexible = request.version >= FLEXIBLE_FROM
    body: list[bytes] = []
    topics = 0
    shared_responses: dict[object, bytes] = {}  # most partitions share their response with others
    steps = 0
    for t, topic in enumerate(request.topics):
        partitions: dict[int, bytes] = {}
        for i, partition in enumerate(topic.partitions):
            answer = local.get((t, i))
            if answer is not None:
                alike = (*answer[:2], tuple(answer.record_errors), *answer[3:])
                data = shared_responses.get(alike)
                if data is None:
                    data = shared_responses[alike] = _partition_response(answer, request.version)
                partitions[partition.number] = INT32.pack(partition.number) + data
            elif broker is not None:
                data = broker.take(topic.key, partition.number)
                if data is not None:
                    partitions[partition.number] = data
            steps += 1
            if steps % SLICE_ENTRIES == 0:
                yield
        if partitions:
            topics += 1
            body += (topic.key, array_length(len(partitions), flexible=flexible))
            body += partitions.values()
            if flexible:
                body.append(b"\x00")
    throttle_and_tags = (
        broker.tail if broker is not None else b"\0\0\0\0" + (b"\x00" if flexible else b"")
    )
    header = INT32.pack(request.correlation_id) + (b"\x00" if flexible else b"")
    parts = [header, array_length(topics, flexible=flexible), *body, throttle_and_tags]
    return [INT32.pack(sum(map(len, parts))), *parts]


def _partition_response(answer: PartitionResponse, version: int) -> bytes:
    """Return the bytes of a partition's response behind its number, as a broker writes it."""
    flexible = version >= FLEXIBLE_FROM
    parts = [_RESULT.pack(answer.code, answer.base_offset, answer.log_append_time)]
    if version >= _LOG_START_FROM:
        parts.append(_OFFSET.pack(answer.log_start_offset))
    if version >= _ERRORS_FROM:
        tags = b"\x00" if flexible else b""
        parts.append(array_length(len(answer.record_errors), flexible=flexible))
        parts += (
            INT32.pack(position) + string(text, flexible=flexible) + tags
            for position, text in answer.record_errors
        )
        parts += (string(answer.message, flexible=flexible), tags)
    return b"".join(parts)


def names_no_leaders(frame: bytes, version: int) -> bool:
    """Return whether a response has the most frequent kind, which holds no broker's address.

    Addresses of new leaders are tagged fields (KIP-951). If there are texts or tagged fields,
    or anything unknown, the result is False: the response has to be read completely.

    Args:
        frame: The response, length included.
        version: A version with tagged fields (9 and later).
    """
    try:
        if frame[8]:
            return False
        topics, position = read_varint(frame, 9)
        for _ in range(topics - 1):
            if version >= TOPIC_IDS_FROM:
                position += 16
            else:
                length, position = read_varint(frame, position)
                position += length - 1
            partitions, position = read_varint(frame, position)
            for _ in range(partitions - 1):
                position += _PLAIN_PARTITION_BYTES
                if frame[position - 3 : position] != _PLAIN_PARTITION_END:
                    return False
            if frame[position]:
                return False
            position += 1
    except IndexError:
        return False
    return position + 5 == len(frame) and not frame[position + 4]


def _skip_partition(frame: bytes, position: int, version: int) -> int:
    flexible = version >= FLEXIBLE_FROM
    position += _PARTITION_RESPONSE.size + (8 if version >= _LOG_START_FROM else 0)
    if version < _ERRORS_FROM:
        return position
    errors, position = read_long_length(frame, position, flexible=flexible)
    for _ in range(errors):
        position = skip_string(frame, position + 4, flexible=flexible)
        if flexible:
            position = skip_tags(frame, position)
    position = skip_string(frame, position, flexible=flexible)
    return skip_tags(frame, position) if flexible else position
