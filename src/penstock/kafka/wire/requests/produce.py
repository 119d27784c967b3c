"""Produce (API key 0), versions 3 to 13: parsed as positions in the frame, changed by splicing.

Records are not decoded here. Version notes: 3 transactional_id; 5 log_start_offset;
8 record_errors and error_message (KIP-467); 9 flexible; 10 current leader and endpoints
(KIP-951); 12 transactions 2 (KIP-890); 13 topic ids instead of names (KIP-516).
"""

from __future__ import annotations

from struct import Struct, error
from typing import TYPE_CHECKING, Final, NamedTuple
from uuid import UUID

from penstock.kafka.wire.errors import WireError
from penstock.kafka.wire.primitives import (
    INT32,
    array_length,
    read_length,
    read_long_length,
    read_varint,
    skip_tags,
)
from penstock.kafka.wire.slices import finish

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from penstock.kafka.wire.slices import Slices

API_KEY: Final = 0
FIRST_VERSION, LAST_VERSION = 3, 13
FLEXIBLE_FROM, TOPIC_IDS_FROM = 9, 13

_REQUEST_HEADER = Struct(">ihhih")  # length, API key, version, correlation id, client id's length
_VERSION_AT, _CORRELATION_ID_AT, _CLIENT_ID_AT = 6, 8, 12
VALID_ACKS: Final = frozenset({-1, 0, 1})
"""The values that a broker accepts. It checks them first, and stores nothing for others."""
_ACKS = Struct(">hi")  # acks, timeout in ms
_LONGEST_START: Final = 128 * 1024
"""Client id and transactional id have less than 32 KiB each; the rest is for tagged fields."""
_SHAPE_MAX_BYTES: Final = 1024


def read_acks(start: bytes) -> int | None:
    """Return the acks in the first bytes of a request; None if more bytes are needed.

    Raises:
        WireError: They are not the start of a Produce request.
    """
    try:
        _, _, version, _, client_id_size = _REQUEST_HEADER.unpack_from(start)
        flexible = version >= FLEXIBLE_FROM
        position = _REQUEST_HEADER.size + max(0, client_id_size)
        if flexible:
            position = skip_tags(start, position)
        length = 0
        if version >= FIRST_VERSION:  # before that there was no transactional id
            length, position = read_length(start, position, flexible=flexible)
        acks: int = _ACKS.unpack_from(start, position + max(0, length))[0]
        return acks
    except (IndexError, error):
        if len(start) > _LONGEST_START:
            raise WireError("a Produce request whose start cannot be read") from None
        return None


ENTRIES_MAX: Final = 50_000
"""The most topics, partitions and tagged fields in a request: each takes time, however short it
is."""
ENTRY_BYTES: Final = 400
"""The estimated memory of each of them."""
SLICE_ENTRIES: Final = 500
"""So many entries are read, or written, in one turn of the event loop."""


class PartitionData(NamedTuple):
    """A partition of a request: its number, and the positions of its bytes and records."""

    number: int
    start: int
    records_start: int
    end: int
    records_end: int


class TopicData(NamedTuple):
    """A topic of a request.

    Attributes:
        key: The bytes of the name (with its length) or the id, as in the request.
        name: The name, or None if the request has an id.
        topic_id: The id, or None if the request has a name.
        partitions: The partitions, in the order of the request.
        tail: The tagged fields.
    """

    key: bytes
    name: str | None
    topic_id: UUID | None
    partitions: Sequence[PartitionData]
    tail: bytes


class PartitionResponse(NamedTuple):
    """The response of a partition.

    Attributes:
        code: Kafka's error code; 0 for success.
        message: The error message, or None.
        record_errors: The index in the batch and the message of each bad record, ascending.
        base_offset: Or -1.
        log_append_time: Or -1.
        log_start_offset: Or -1.
    """

    code: int
    message: str | None = None
    record_errors: Sequence[tuple[int, str | None]] = ()
    base_offset: int = -1
    log_append_time: int = -1
    log_start_offset: int = -1


def read_request(frame: bytes) -> ProduceRequest:
    """Return the Produce request in a frame, length included.

    If a partition is repeated, the last batch counts, as in a broker
    (KafkaApis.handleProduceRequest); the others are removed.

    Raises:
        WireError: It is not a complete Produce request of a supported version.
    """
    return finish(read_in_slices(frame))


def read_in_slices(frame: bytes) -> Slices[ProduceRequest]:
    """Return the Produce request in a frame, as `read_request` does.

    Yields:
        After each slice.

    Raises:
        WireError: It is not a complete Produce request of a supported version.
    """
    request = _new_request(ProduceRequest)
    yield from request.read(frame)
    if not request.may_repeat:
        return request
    repeated = yield from request.repeated()
    if not repeated:
        return request
    remaining_request = _new_request(ProduceRequest)
    yield from remaining_request.read(b"".join(request.rewrite(repeated, {})))
    return remaining_request


class _Shape(NamedTuple):
    """The parts of a request with one batch that are alike in the next request.

    Attributes:
        version: As in the header.
        beginning: From the client id up to the partition.
        tail: The bytes after the records.
        partition_tail: How many of them belong to the partition.
        topics_tail: How much of it follows the topics, in bytes.
        request: The request, without its frame.
    """

    version: bytes
    beginning: bytes
    tail: bytes
    partition_tail: int
    topics_tail: int
    request: ProduceRequest


class RequestReader:
    """Reads the Produce requests of one connection.

    Most producers send one batch after another to the same topic. A request with a batch that
    has the bytes of the request before it in front of the partition, and behind the records, is not
    parsed again.
    """

    __slots__ = ("_shape",)

    def __init__(self) -> None:
        self._shape: _Shape | None = None

    def read(self, frame: bytes) -> ProduceRequest:
        """Return the request in a frame, as `read_request` does.

        Raises:
            WireError: It is not a complete Produce request of a supported version.
        """
        request = self._like_the_last(frame)
        if request is None:
            request = read_request(frame)
            self._shape = _shape(request)
        return request

    def read_in_slices(self, frame: bytes) -> Slices[ProduceRequest]:
        """Return the request in a frame, as `read` does, in slices."""
        request = self._like_the_last(frame)
        if request is None:
            request = yield from read_in_slices(frame)
            self._shape = _shape(request)
        return request

    def _like_the_last(self, frame: bytes) -> ProduceRequest | None:
        shape = self._shape
        if (
            shape is not None
            and frame.startswith(shape.beginning, _CLIENT_ID_AT)
            and frame.startswith(shape.version, _VERSION_AT)
        ):
            return _similar(frame, shape)
        return None


def _shape(request: ProduceRequest) -> _Shape | None:
    if len(request.topics) != 1 or len(request.topics[0].partitions) != 1:
        return None
    frame = request.frame
    partition = request.topics[0].partitions[0]
    beginning, tail = frame[_CLIENT_ID_AT : partition.start], frame[partition.records_end :]
    if len(beginning) + len(tail) > _SHAPE_MAX_BYTES:
        return None
    return _Shape(
        frame[_VERSION_AT:_CORRELATION_ID_AT],
        beginning,
        tail,
        partition.end - partition.records_end,
        len(frame) - request.topics_end,
        request.with_one_batch(b"", partition),
    )


def _similar(frame: bytes, shape: _Shape) -> ProduceRequest | None:
    start = _CLIENT_ID_AT + len(shape.beginning)
    flexible = shape.request.version >= FLEXIBLE_FROM
    try:
        (number,) = INT32.unpack_from(frame, start)
        length, records = read_long_length(frame, start + 4, flexible=flexible)
    except (IndexError, error):
        return None
    records_end = records + length if length > 0 else records
    if records_end > len(frame) or frame[records_end:] != shape.tail:
        return None
    request = shape.request.with_one_batch(
        frame,
        PartitionData(number, start, records, records_end + shape.partition_tail, records_end),
    )
    (request.correlation_id,) = INT32.unpack_from(frame, _CORRELATION_ID_AT)
    request.topics_end = len(frame) - shape.topics_tail
    return request


class ProduceRequest:
    """A Produce request, as positions in its frame."""

    __slots__ = (
        "acks",
        "client_id",
        "correlation_id",
        "entries",
        "frame",
        "may_repeat",
        "timeout_ms",
        "topics",
        "topics_end",
        "topics_start",
        "transactional_id",
        "version",
    )

    def __init__(self, frame: bytes) -> None:
        """Parse a frame, length included.

        Raises:
            WireError: It is not a complete Produce request of a supported version.
        """
        finish(self.read(frame))

    def read(self, frame: bytes) -> Slices[None]:
        """Parse a frame, length included, in slices.

        Raises:
            WireError: It is not a complete Produce request of a supported version.
        """
        self.frame = frame
        try:
            yield from self._read(frame)
        except (IndexError, error, UnicodeDecodeError):
            raise WireError("a Produce request that cannot be read") from None

    def _read(self, frame: bytes) -> Slices[None]:
        _, _, version, self.correlation_id, client_id_size = _REQUEST_HEADER.unpack_from(frame)
        if not FIRST_VERSION <= version <= LAST_VERSION:
            raise WireError(f"Produce version {version}")
        self.version = version
        flexible = version >= FLEXIBLE_FROM
        position = _REQUEST_HEADER.size
        self.client_id: str | None = None
        if client_id_size >= 0:
            client_id = frame[position : position + client_id_size]
            self.client_id = client_id.decode(errors="replace")  # as a broker does
            position += client_id_size
        if flexible:
            position = skip_tags(frame, position)
        length, position = read_length(frame, position, flexible=flexible)
        self.transactional_id: str | None = None
        if length >= 0:
            self.transactional_id = frame[position : position + length].decode()
            position += length
        self.acks, self.timeout_ms = _ACKS.unpack_from(frame, position)
        position += _ACKS.size
        self.topics_start = position
        count, position = read_long_length(frame, position, flexible=flexible)
        self.entries = max(0, count)
        self.topics: list[TopicData] = []
        self.may_repeat = False
        keys = set()
        for number in range(1, count + 1):
            topic, position = yield from self._topic(position, flexible)
            self.topics.append(topic)
            keys.add(topic.key)
            if number % SLICE_ENTRIES == 0:
                yield
        self.may_repeat |= len(keys) < len(self.topics)
        self.topics_end = position
        if flexible:
            position = skip_tags(frame, position)
        if position != len(frame):
            raise WireError("a Produce request with bytes before or after its end")

    def with_one_batch(self, frame: bytes, partition: PartitionData) -> ProduceRequest:
        """Return a copy with another frame and, in its one topic, with one partition."""
        key, name, topic_id, _, tail = self.topics[0]
        other = _new_request(ProduceRequest)
        other.frame = frame
        other.version = self.version
        other.correlation_id = self.correlation_id
        other.client_id = self.client_id
        other.transactional_id = self.transactional_id
        other.acks = self.acks
        other.timeout_ms = self.timeout_ms
        other.entries = self.entries
        other.may_repeat = False
        other.topics = [TopicData(key, name, topic_id, (partition,), tail)]
        other.topics_start = self.topics_start
        other.topics_end = self.topics_end
        return other

    def _topic(self, position: int, flexible: bool) -> Slices[tuple[TopicData, int]]:
        start = position
        name, topic_id, position = self._identity(position, flexible)
        key = self.frame[start:position]
        partitions, position = yield from self._partitions(position, flexible)
        tail_start = position
        if flexible:
            position = self._skip_tags(position)
        tail = self.frame[tail_start:position]
        return TopicData(key, name, topic_id, partitions, tail), position

    def _identity(self, position: int, flexible: bool) -> tuple[str | None, UUID | None, int]:
        """Return the name or the id of a topic, and the position after it."""
        frame = self.frame
        if self.version >= TOPIC_IDS_FROM:
            end = position + 16
            if end > len(frame):
                raise IndexError
            return None, UUID(bytes=frame[position:end]), end
        length, position = read_length(frame, position, flexible=flexible)
        if length < 0:
            raise IndexError
        end = position + length
        return frame[position:end].decode(), None, end

    def _partitions(self, position: int, flexible: bool) -> Slices[tuple[list[PartitionData], int]]:
        frame = self.frame
        count, position = read_long_length(frame, position, flexible=flexible)
        self._count(count)
        partitions: list[PartitionData] = []
        whole = len(frame)
        for _ in range(count):
            first = position
            (number,) = INT32.unpack_from(frame, position)
            length, position = read_long_length(frame, position + 4, flexible=flexible)
            records = position
            if length > 0:
                position += length
            records_end = position
            if flexible:
                position = position + 1 if not frame[position] else self._skip_tags(position)
            if position > whole:
                raise IndexError
            partitions.append(PartitionData(number, first, records, position, records_end))
            if len(partitions) % SLICE_ENTRIES == 0:
                yield
        if count > 1 and len({partition.number for partition in partitions}) < count:
            self.may_repeat = True
        return partitions, position

    def _count(self, entries: int) -> None:
        self.entries += max(0, entries)
        if self.entries > ENTRIES_MAX:
            raise WireError(
                f"a Produce request of more than {ENTRIES_MAX} topics, partitions and tagged fields"
            )

    def _skip_tags(self, position: int) -> int:
        self._count(read_varint(self.frame, position)[0])
        return skip_tags(self.frame, position)

    def repeated(self) -> Slices[set[tuple[int, int]]]:
        """Return the positions of partitions that are repeated later in the request, in slices."""
        last: dict[tuple[bytes, int], tuple[int, int]] = {}
        repeated = set()
        steps = 0
        for t, topic in enumerate(self.topics):
            for i, partition in enumerate(topic.partitions):
                named = (topic.key, partition.number)
                if named in last:
                    repeated.add(last[named])
                last[named] = (t, i)
                steps += 1
                if steps % SLICE_ENTRIES == 0:
                    yield
        return repeated

    def records(self, partition: PartitionData) -> memoryview:
        """Return the bytes of a partition's records; empty for null."""
        return memoryview(self.frame)[partition.records_start : partition.records_end]

    @property
    def bytes_without_records(self) -> int:
        """How many bytes of the frame are neither its length nor records."""
        partitions = (partition for topic in self.topics for partition in topic.partitions)
        return (
            len(self.frame) - INT32.size - sum(p.records_end - p.records_start for p in partitions)
        )

    def rewrite(
        self,
        omitted: Collection[tuple[int, int]],
        replaced: Mapping[tuple[int, int], Sequence[bytes | memoryview]],
    ) -> list[bytes | memoryview]:
        """Return the request without some partitions, and with other records for some.

        Args:
            omitted: The partitions to omit, as pairs of indexes: of the topic in `topics`, and of
                the partition in its `partitions`.
            replaced: The records to send instead of the client's, by the same indexes.

        Returns:
            The buffers of a frame; an empty list if no partition is left.
        """
        return finish(self.rewrite_in_slices(omitted, replaced))

    def rewrite_in_slices(
        self,
        omitted: Collection[tuple[int, int]],
        replaced: Mapping[tuple[int, int], Sequence[bytes | memoryview]],
    ) -> Slices[list[bytes | memoryview]]:
        """Return the request without some partitions, as `rewrite` does.

        Yields:
            After each slice.
        """
        frame = memoryview(self.frame)
        flexible = self.version >= FLEXIBLE_FROM
        body: list[bytes | memoryview] = []
        topics = steps = 0
        for t, topic in enumerate(self.topics):
            steps += 1 + len(topic.partitions)
            if steps >= SLICE_ENTRIES:
                steps = 0
                yield
            partition_indexes = [i for i in range(len(topic.partitions)) if (t, i) not in omitted]
            if partition_indexes:
                topics += 1
                body += (topic.key, array_length(len(partition_indexes), flexible=flexible))
                for i in partition_indexes:
                    p = topic.partitions[i]
                    records = replaced.get((t, i))
                    if records is None:
                        body.append(frame[p.start : p.end])
                    else:
                        length = array_length(sum(map(len, records)), flexible=flexible)
                        body += (INT32.pack(p.number), length, *records)
                        body.append(frame[p.records_end : p.end])
                body.append(topic.tail)
        if not topics:
            return []
        parts = [
            frame[4 : self.topics_start],
            array_length(topics, flexible=flexible),
            *body,
            frame[self.topics_end :],
        ]
        return [INT32.pack(sum(map(len, parts))), *parts]


_new_request: Final = object.__new__
