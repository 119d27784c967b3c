"""Refusals of Produce requests as a broker would send them, by a rule of the test."""

import asyncio
import io
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i32, i64

from penstock.kafka.wire.schemas import load_request_schema, load_response_schema

PRODUCE: Final = 0
_RECORD_ERRORS_FROM: Final = 8


@dataclass(frozen=True)
class Rule:
    """The way in which a request is refused.

    Attributes:
        code: The error code of every partition; None closes the connection instead, and then no
            later request on the connection reaches the broker unless this request did.
        stored: The broker gets the request; only its response is replaced.
        alone: Later requests reach the broker, even before the response to this request; otherwise
            they are refused like it until then.
    """

    code: int | None
    stored: bool = False
    alone: bool = True


CLOSED: Final = Rule(None)
CLOSED_WHEN_STORED: Final = Rule(None, stored=True)


class Refusal:
    """Refuses the first Produce request that contains the given bytes, such as a record's value."""

    def __init__(self, content: bytes, rule: Rule, call: Callable[..., None]) -> None:
        self.rule = rule
        self._content = content
        self._call = call
        self._reached = threading.Event()
        self._opened = asyncio.Event()

    def wait(self, timeout_s: float = 60.0) -> None:
        """Wait until the request has arrived."""
        assert self._reached.wait(timeout_s), f"{self._content!r} did not occur"

    @property
    def has_arrived(self) -> bool:
        """Whether the request has arrived."""
        return self._reached.is_set()

    def open(self) -> None:
        """Refuse the request; until then it gets no response."""
        self._call(self._opened.set)

    def refuses(self, frame: bytes) -> bool:
        """Return whether a Produce request is refused."""
        if self._reached.is_set():
            return not self.rule.alone and not self._opened.is_set()
        if self._content in frame:
            self._reached.set()
            return True
        return False

    async def response(self, request: bytes) -> bytes | None:
        """Return the response to a request once it is due; None closes the connection."""
        await self._opened.wait()
        return None if self.rule.code is None else refused(request, self.rule.code)


def refused(frame: bytes, code: int) -> bytes:
    """Return a response to a Produce request with an error code for all its partitions."""
    version = int.from_bytes(frame[6:8], "big")
    schema = load_request_schema(PRODUCE, version)
    header, size = entity_reader(schema.__header_schema__)(frame, 4)
    request, _ = entity_reader(schema)(frame, 4 + size)
    response = load_response_schema(PRODUCE, version)
    module = __import__(response.__module__, fromlist=["x"])
    topics = tuple(_refused_topic(module, topic, version, code) for topic in request.topic_data)
    return _frame(response(responses=topics), header.correlation_id)


def _refused_topic(module: Any, topic: Any, version: int, code: int) -> Any:
    errors = {"record_errors": ()} if version >= _RECORD_ERRORS_FROM else {}
    key = "name" if hasattr(topic, "name") else "topic_id"
    return module.TopicProduceResponse(
        **{key: getattr(topic, key)},
        partition_responses=tuple(
            module.PartitionProduceResponse(
                index=partition.index, error_code=ErrorCode(code), base_offset=i64(-1), **errors
            )
            for partition in topic.partition_data
        ),
    )


def _frame(response: Any, correlation_id: int) -> bytes:
    buffer = io.BytesIO()
    header = response.__header_schema__
    entity_writer(header)(buffer, header(correlation_id=i32(correlation_id)))
    entity_writer(type(response))(buffer, response)
    body = buffer.getvalue()
    return struct.pack(">i", len(body)) + body
