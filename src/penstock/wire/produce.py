"""Produce (API key 0), versions 3 to 13, read as positions and changed by splicing.

The records are never touched here. Version notes: 3 transactional_id; 5 log_start_offset;
8 record_errors and error_message (KIP-467); 9 flexible; 10 current leader and endpoints
(KIP-951); 12 transactions 2 (KIP-890); 13 topic ids in place of names (KIP-516).
"""

from __future__ import annotations

from struct import Struct, error
from typing import TYPE_CHECKING, Final, NamedTuple
from uuid import UUID

from penstock.wire.errors import WireError
from penstock.wire.primitives import (
    INT32,
    array_length,
    read_length,
    read_long_length,
    skip_tags,
    string,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

API_KEY: Final = 0
FIRST_VERSION, LAST_VERSION = 3, 13
_FLEXIBLE_FROM, _TOPIC_IDS_FROM, _ERRORS_FROM, _LOG_START_FROM = 9, 13, 8, 5

_REQUEST_HEADER = Struct(">ihhih")  # length, API key, version, correlation id, client id's length
_ACKS = Struct(">hi")  # acks, timeout in ms
_LONGEST_START: Final = 256 * 1024
_REFUSED = Struct(">ihqq")  # index, error code, base offset, log append time


def read_acks(start: bytes) -> int | None:
    """Read the acks of a request from its first bytes; None where more of them are needed.

    Raises:
        WireError: They are not the start of a Produce request.
    """
    try:
        _, _, version, _, client_id_size = _REQUEST_HEADER.unpack_from(start)
        flexible = version >= _FLEXIBLE_FROM
        position = _REQUEST_HEADER.size + max(0, client_id_size)
        if flexible:
            position = skip_tags(start, position)
        length, position = read_length(start, position, flexible=flexible)
        acks: int = _ACKS.unpack_from(start, position + max(0, length))[0]
        return acks
    except (IndexError, error):
        if len(start) > _LONGEST_START:
            raise WireError("a Produce request whose start cannot be read") from None
        return None


class Partition(NamedTuple):
    """One partition of a request: its number, and where its bytes and its records are."""

    number: int
    start: int
    records_start: int
    end: int
    records_end: int


class Topic(NamedTuple):
    """One topic of a request.

    Attributes:
        key: The identifier as it stands in the request: a string, or the 16 bytes of an id.
        name: The name, or None where the request has an id.
        topic_id: The id, or None where the request has a name.
        partitions: In the request's order.
        tail: Its tagged fields.
    """

    key: bytes
    name: str | None
    topic_id: UUID | None
    partitions: Sequence[Partition]
    tail: bytes


class Refusal(NamedTuple):
    """What the client is told about a partition that does not go to the broker.

    Attributes:
        code: Kafka's error code.
        message: The text for the client, or None.
        record_errors: Position in the batch and text of each record to blame, ascending.
    """

    code: int
    message: str | None = None
    record_errors: Sequence[tuple[int, str | None]] = ()


class ProduceRequest:
    """A request, as positions in its frame."""

    __slots__ = (
        "acks",
        "client_id",
        "correlation_id",
        "frame",
        "topics",
        "topics_end",
        "topics_start",
        "version",
    )

    def __init__(self, frame: bytes) -> None:
        """Read a frame, length included.

        Raises:
            WireError: It is not a whole Produce request of a version known here.
        """
        self.frame = frame
        try:
            self._read(frame)
        except (IndexError, error, UnicodeDecodeError):
            raise WireError("a Produce request that cannot be read") from None

    def _read(self, frame: bytes) -> None:
        _, _, version, self.correlation_id, client_id_size = _REQUEST_HEADER.unpack_from(frame)
        if not FIRST_VERSION <= version <= LAST_VERSION:
            raise WireError(f"Produce version {version}")
        self.version = version
        flexible = version >= _FLEXIBLE_FROM
        position = _REQUEST_HEADER.size
        self.client_id: str | None = None
        if client_id_size >= 0:
            self.client_id = frame[position : position + client_id_size].decode()
            position += client_id_size
        if flexible:
            position = skip_tags(frame, position)
        length, position = read_length(frame, position, flexible=flexible)
        position += max(0, length)  # transactional id
        self.acks, _ = _ACKS.unpack_from(frame, position)
        position += _ACKS.size
        self.topics_start = position
        count, position = read_long_length(frame, position, flexible=flexible)
        self.topics: list[Topic] = []
        for _ in range(count):
            topic, position = self._topic(position, flexible)
            self.topics.append(topic)
        self.topics_end = position
        if flexible:
            position = skip_tags(frame, position)
        if position != len(frame):
            raise WireError("a Produce request with bytes before or after its end")

    def _topic(self, position: int, flexible: bool) -> tuple[Topic, int]:
        frame = self.frame
        start = position
        name = topic_id = None
        if self.version >= _TOPIC_IDS_FROM:
            position += 16
            if position > len(frame):
                raise IndexError
            topic_id = UUID(bytes=frame[start:position])
        else:
            length, position = read_length(frame, position, flexible=flexible)
            if length < 0:
                raise IndexError
            position += length
            name = frame[position - length : position].decode()
        key = frame[start:position]
        count, position = read_long_length(frame, position, flexible=flexible)
        partitions = []
        for _ in range(count):
            first = position
            (number,) = INT32.unpack_from(frame, position)
            length, position = read_long_length(frame, position + 4, flexible=flexible)
            records = position
            position += max(0, length)
            records_end = position
            if flexible:
                position = skip_tags(frame, position)
            if position > len(frame):
                raise IndexError
            partitions.append(Partition(number, first, records, position, records_end))
        tail_start = position
        if flexible:
            position = skip_tags(frame, position)
        return Topic(key, name, topic_id, partitions, frame[tail_start:position]), position

    def records(self, partition: Partition) -> memoryview:
        """Give the bytes that the request carries for a partition; empty for null."""
        return memoryview(self.frame)[partition.records_start : partition.records_end]

    def without(self, refused: Collection[tuple[int, int]]) -> list[bytes | memoryview]:
        """Write the request with only the partitions that are not refused.

        Args:
            refused: Pairs of positions: topic in `topics`, partition in its `partitions`.

        Returns:
            Buffers that together are a frame; empty when no partition is left.
        """
        frame = memoryview(self.frame)
        flexible = self.version >= _FLEXIBLE_FROM
        body: list[bytes | memoryview] = []
        topics = 0
        for t, topic in enumerate(self.topics):
            kept = [p for i, p in enumerate(topic.partitions) if (t, i) not in refused]
            if kept:
                topics += 1
                body += (topic.key, array_length(len(kept), flexible=flexible))
                body += (frame[p.start : p.end] for p in kept)
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

    def answer(
        self, refusals: Mapping[tuple[int, int], Refusal], broker: bytes | None
    ) -> list[bytes]:
        """Write the response: the broker's for what it got, ours for what it did not.

        Args:
            refusals: By positions of topic and partition, as for `without`.
            broker: The broker's response frame, or None when it was not asked.

        Returns:
            Buffers that together are a frame, partitions in the order of the request, each
            once.

        Raises:
            WireError: The broker's response cannot be read.
        """
        flexible = self.version >= _FLEXIBLE_FROM
        answers = ProduceResponse(broker, self.version) if broker is not None else None
        body: list[bytes] = []
        topics = 0
        for t, topic in enumerate(self.topics):
            partitions: dict[int, bytes] = {}
            for i, partition in enumerate(topic.partitions):
                refusal = refusals.get((t, i))
                if refusal is not None:
                    partitions[partition.number] = self._refused(partition.number, refusal)
                elif answers is not None:
                    answered = answers.take(topic.key, partition.number)
                    if answered is not None:
                        partitions[partition.number] = answered
            if partitions:
                topics += 1
                body += (topic.key, array_length(len(partitions), flexible=flexible))
                body += partitions.values()
                if flexible:
                    body.append(b"\x00")
        throttle_and_tags = (
            answers.tail if answers is not None else b"\0\0\0\0" + (b"\x00" if flexible else b"")
        )
        header = INT32.pack(self.correlation_id) + (b"\x00" if flexible else b"")
        parts = [header, array_length(topics, flexible=flexible), *body, throttle_and_tags]
        return [INT32.pack(sum(map(len, parts))), *parts]

    def _refused(self, index: int, refusal: Refusal) -> bytes:
        """Write one partition's refusal as a broker shapes it (kafka.server.ReplicaManager)."""
        version = self.version
        flexible = version >= _FLEXIBLE_FROM
        parts = [_REFUSED.pack(index, refusal.code, -1, -1)]
        if version >= _LOG_START_FROM:
            parts.append(b"\xff" * 8)
        if version >= _ERRORS_FROM:
            tags = b"\x00" if flexible else b""
            parts.append(array_length(len(refusal.record_errors), flexible=flexible))
            parts += (
                INT32.pack(position) + string(text, flexible=flexible) + tags
                for position, text in refusal.record_errors
            )
            parts += (string(refusal.message, flexible=flexible), tags)
        return b"".join(parts)


class ProduceResponse:
    """A broker's response, as slices by topic and partition."""

    __slots__ = ("_partitions", "tail")

    def __init__(self, frame: bytes, version: int) -> None:
        """Read a frame, length included.

        Raises:
            WireError: It is not a whole response of this version.
        """
        self._partitions: dict[tuple[bytes, int], bytes] = {}
        try:
            self._read(frame, version)
        except (IndexError, error):
            raise WireError("a Produce response that cannot be read") from None

    def take(self, topic: bytes, index: int) -> bytes | None:
        """Give a partition's answer, the first time it is asked for."""
        return self._partitions.pop((topic, index), None)

    def _read(self, frame: bytes, version: int) -> None:
        flexible = version >= _FLEXIBLE_FROM
        position = 8
        if flexible:
            position = skip_tags(frame, position)
        topics, position = read_long_length(frame, position, flexible=flexible)
        for _ in range(topics):
            start = position
            if version >= _TOPIC_IDS_FROM:
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
            if flexible:
                position = skip_tags(frame, position)
        self.tail = frame[position:]
        end = skip_tags(frame, position + 4) if flexible else position + 4
        if end != len(frame):
            raise IndexError


def _skip_partition(frame: bytes, position: int, version: int) -> int:
    flexible = version >= _FLEXIBLE_FROM
    position += _REFUSED.size + (8 if version >= _LOG_START_FROM else 0)
    if version < _ERRORS_FROM:
        return position
    errors, position = read_long_length(frame, position, flexible=flexible)
    for _ in range(errors):
        length, position = read_length(frame, position + 4, flexible=flexible)
        position += max(0, length)
        if flexible:
            position = skip_tags(frame, position)
    length, position = read_length(frame, position, flexible=flexible)
    position += max(0, length)
    return skip_tags(frame, position) if flexible else position
