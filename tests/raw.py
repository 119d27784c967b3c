"""A client without a library: frames in, frames out."""

import datetime
import io
import socket
import ssl
import struct
from collections.abc import Iterable, Sequence
from typing import Any
from uuid import UUID

from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i16, i32, i32Timedelta

from penstock.kafka.wire.schemas import load_request_schema, load_response_schema


class RawClient:
    """A connection."""

    def __init__(self, address: str, timeout_s: float = 25.0, trust: str = "") -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout_s)
        if trust:
            context = ssl.create_default_context(cafile=trust)
            self.socket = context.wrap_socket(self.socket, server_hostname=host)
        self._correlation_id = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, frame: bytes) -> None:
        """Send bytes unchanged."""
        self.socket.sendall(frame)

    def receive(self) -> bytes:
        """Receive a frame including its length; EOFError if the peer has closed."""
        head = self._exactly(4)
        return head + self._exactly(int.from_bytes(head, "big"))

    def _exactly(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            part = self.socket.recv(count - len(data))
            if not part:
                raise EOFError
            data += part
        return data

    def closed(self) -> bool:
        """Wait for the peer to close; return False if it sent bytes instead."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionError:
            return True

    def frame(self, request: Any, client_id: str | None = "raw") -> bytes:
        """Write a kio request as a frame."""
        self._correlation_id += 1
        return request_frame(request, self._correlation_id, client_id)

    def call(self, request: Any, client_id: str | None = "raw") -> Any:
        """Send a kio request, return the kio response."""
        self.send(self.frame(request, client_id))
        return self.response(type(request))

    def response(self, request_type: Any) -> Any:
        """Receive the response to a request of this type."""
        return parse_response(self.receive(), request_type.__api_key__, request_type.__version__)


def request_frame(request: Any, correlation_id: int, client_id: str | None = "raw") -> bytes:
    """Write a kio request as a frame."""
    buffer = io.BytesIO()
    header = request.__header_schema__
    fields = {
        "request_api_key": i16(request.__api_key__),
        "request_api_version": i16(request.__version__),
        "correlation_id": i32(correlation_id),
    }
    if "client_id" in header.__dataclass_fields__:
        fields["client_id"] = client_id
    entity_writer(header)(buffer, header(**fields))
    entity_writer(type(request))(buffer, request)
    body = buffer.getvalue()
    return struct.pack(">i", len(body)) + body


def parse_response(frame: bytes, api_key: int, version: int) -> Any:
    """Read a response frame with kio."""
    schema = load_response_schema(api_key, version)
    _, size = entity_reader(schema.__header_schema__)(frame, 4)
    value, used = entity_reader(schema)(frame, 4 + size)
    assert 4 + size + used == len(frame)
    return value


Topics = Sequence[tuple[str | UUID, Sequence[tuple[int, bytes | None]]]]


def produce_request(
    topics: Topics,
    *,
    version: int = 9,
    acks: int = -1,
    transactional_id: str | None = None,
    timeout_ms: int = 10_000,
) -> Any:
    """A Produce request."""
    schema = load_request_schema(0, version)
    module = __import__(schema.__module__, fromlist=["x"])
    key = "topic_id" if version >= 13 else "name"
    return schema(
        transactional_id=transactional_id,
        acks=i16(acks),
        timeout=i32Timedelta.parse(datetime.timedelta(milliseconds=timeout_ms)),
        topic_data=tuple(
            module.TopicProduceData(
                **{key: topic},
                partition_data=tuple(
                    module.PartitionProduceData(index=i32(index), records=records)
                    for index, records in partitions
                ),
            )
            for topic, partitions in topics
        ),
    )


def produced(response: Any) -> dict[tuple[Any, int], Any]:
    """The partition responses of a Produce response, by topic and partition."""
    result = {}
    for topic in response.responses:
        key = getattr(topic, "topic_id", None) or getattr(topic, "name", None)
        for partition in topic.partition_responses:
            assert (key, partition.index) not in result
            result[key, partition.index] = partition
    return result


def errors(partition: Any) -> Iterable[tuple[int, str | None]]:
    """The record errors of a partition response."""
    return [(e.batch_index, e.batch_index_error_message) for e in partition.record_errors]
