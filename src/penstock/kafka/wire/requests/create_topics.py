"""CreateTopics (API key 19): requests and responses, topic by topic.

A request may have thousands of topics, and a response has all configs of each: a reader or
writer may stop after each topic, and passes on unchanged parts as bytes.
"""

from __future__ import annotations

import dataclasses
import typing
from struct import error
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kio.schema.create_topics.v7.request import CreateTopicsRequest
from kio.serial import entity_reader

from penstock.kafka.wire.checked import checked
from penstock.kafka.wire.errors import WireError
from penstock.kafka.wire.frames import THROTTLE_TIME_BYTES, body_of_response
from penstock.kafka.wire.own_requests import write_request
from penstock.kafka.wire.primitives import INT32, array_length, read_long_length

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_BEHIND_TOPICS: Final = 4 + 1 + 1  # timeout, validate_only, no tagged fields


class Result(NamedTuple):
    """The result of a topic: the entity of the protocol library, and its bytes."""

    entity: Any
    data: bytes


def request(
    correlation_id: int,
    *,
    topics: Sequence[bytes],
    timeout: Any,
    validate_only: bool,
    client_id: str | None,
) -> bytes:
    """Return a request of version 7, length included.

    Args:
        topics: The topics, each as `write_entity` writes it.
        validate_only: Whether nothing is created.
        client_id: The client id, or None.
    """
    empty = CreateTopicsRequest(topics=(), timeout=timeout, validate_only=validate_only)
    frame = write_request(correlation_id, empty, client_id)
    count_at = len(frame) - _BEHIND_TOPICS - 1
    count = array_length(len(topics), flexible=True)
    body = b"".join((frame[4:count_at], count, *topics, frame[count_at + 1 :]))
    return INT32.pack(len(body)) + body


class Results:
    """The results in a response."""

    def __init__(self, frame: bytes, kind: Any) -> None:
        """Read the part before the results.

        Args:
            frame: The response, length included.
            kind: The type of the response, of any version.

        Raises:
            WireError: It cannot be read.
        """
        self._frame = frame
        self._kind = _kind_of_topics(kind)
        flexible = kind.__flexible__
        try:
            position = body_of_response(frame, flexible=flexible)
            self.throttle_time = frame[position : position + THROTTLE_TIME_BYTES]
            position += THROTTLE_TIME_BYTES
            self._count, self._position = read_long_length(frame, position, flexible=flexible)
        except (IndexError, error):
            raise WireError("a CreateTopicsResponse that cannot be read") from None

    def __iter__(self) -> Iterator[Result]:
        """Read each result.

        Raises:
            WireError: A result cannot be read.
        """
        reader, position = entity_reader(self._kind), self._position
        for _ in range(self._count):
            data, position = checked(self._frame, position, self._kind)
            try:
                entity, _ = reader(data, 0)
            except Exception as reason:
                raise WireError("a CreateTopicsResponse that cannot be read") from reason
            yield Result(entity, data)


def response(
    correlation_id: int, kind: Any, *, throttle_time: bytes, results: Sequence[bytes]
) -> bytes:
    """Return a response, length included.

    Args:
        kind: The type of the response, of any version.
        results: The results, each as `write_entity` writes it.
    """
    tags = b"\x00" if kind.__flexible__ else b""
    count = array_length(len(results), flexible=kind.__flexible__)
    body = b"".join((INT32.pack(correlation_id), tags, throttle_time, count, *results, tags))
    return INT32.pack(len(body)) + body


def _kind_of_topics(kind: Any) -> Any:
    [topics] = (field for field in dataclasses.fields(kind) if field.name == "topics")
    return typing.get_args(topics.type)[0]
