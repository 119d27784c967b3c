"""Produce requests that a broker, as its clients see it, refuses: by a rule of the test."""

import asyncio
import io
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from kio.index import load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i32, i64

PRODUCE: Final = 0
_RECORD_ERRORS_FROM: Final = 8


@dataclass(frozen=True)
class Rule:
    """How a request is refused.

    Attributes:
        code: Every partition is answered with it; None closes the connection instead, and then
            no later request on the connection goes to the broker unless this one did.
        stored: The broker gets the request; only its answer is replaced.
        alone: Later requests go to the broker, even while this one is not answered; otherwise
            they are refused like it until it is.
    """

    code: int | None
    stored: bool = False
    alone: bool = True


CLOSED: Final = Rule(None)
CLOSED_WHEN_STORED: Final = Rule(None, stored=True)


class Refusal:
    """Refuses the first Produce request in which some bytes stand, a record's value for one."""

    def __init__(self, content: bytes, rule: Rule, call: Callable[..., None]) -> None:
        self.rule = rule
        self._content = content
        self._call = call
        self._reached = threading.Event()
        self._opened = asyncio.Event()

    def wait(self, timeout_s: float = 60.0) -> None:
        """Wait until the request is there."""
        assert self._reached.wait(timeout_s), f"{self._content!r} did not come"

    @property
    def was_met(self) -> bool:
        """Whether the request was there."""
        return self._reached.is_set()

    def open(self) -> None:
        """Have it refused; until then it is not answered."""
        self._call(self._opened.set)

    def meets(self, frame: bytes) -> bool:
        """Tell whether a Produce request is refused."""
        if self._reached.is_set():
            return not self.rule.alone and not self._opened.is_set()
        if self._content in frame:
            self._reached.set()
            return True
        return False

    async def answer(self, request: bytes) -> bytes | None:
        """Give the response to a request when the time has come; None closes the connection."""
        await self._opened.wait()
        return None if self.rule.code is None else refused(request, self.rule.code)


def refused(frame: bytes, code: int) -> bytes:
    """Answer a Produce request: all its partitions with an error code."""
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
