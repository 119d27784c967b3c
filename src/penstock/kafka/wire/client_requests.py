"""Requests of clients that are parsed by the protocol library, with responses in their version.

Used by handlers. A request may have 50,000 entries, so it is read, and its response is written, in
slices.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import sys
from typing import TYPE_CHECKING, Any, Final

from kio.static.primitive import i32Timedelta

from penstock.kafka.wire.errors import WireError
from penstock.kafka.wire.own_requests import response_in_slices
from penstock.kafka.wire.primitives import INT16, INT32, skip_tags
from penstock.kafka.wire.requests.entities import SLICE_ENTRIES, read_in_slices, write_in_slices
from penstock.kafka.wire.requests.produce import ENTRIES_MAX
from penstock.kafka.wire.schemas import load_request_schema, load_response_schema

if TYPE_CHECKING:
    from types import ModuleType

    from penstock.kafka.wire.slices import Slices

NO_TIME: Final = i32Timedelta.parse(dt.timedelta())
"""The `throttle_time` of responses that are made here."""
_METADATA: Final = 3
"""librdkafka announces all topics with four bytes instead of one, and brokers ignore the rest."""
_CORRELATION_AT: Final = 8
_CLIENT_ID_AT: Final = 12


class ClientRequest:
    """A request of a client. Its body is parsed when it is needed.

    Attributes:
        frame: The original frame, length included.
        correlation_id: The client's correlation id.
        client_id: The client id, or None.
        body_at: Where the body begins in the frame.
    """

    def __init__(
        self, frame: bytes, api_key: int, version: int, client_id: str | None, body_at: int
    ) -> None:
        self.frame = frame
        self.api_key = api_key
        self.version = version
        self.correlation_id: int = INT32.unpack_from(frame, _CORRELATION_AT)[0]
        self.client_id = client_id
        self.body_at = body_at

    def read_body(self) -> Slices[Any]:
        """Return the entity of the protocol library.

        Yields:
            After each slice.

        Raises:
            WireError: It cannot be read, or has bytes after its end and is not Metadata.
        """
        kind = load_request_schema(self.api_key, self.version)
        body, end = yield from read_in_slices(
            self.frame, self.body_at, kind, most_entries=ENTRIES_MAX
        )
        if end != len(self.frame) and self.api_key != _METADATA:
            raise WireError("a request with bytes behind its end")
        return body

    def with_body(self, body: Any) -> Slices[bytes]:
        """Return the frame of this request with another body of the same version, in slices."""
        return _framed(self.frame[4 : self.body_at], body)

    def response(self, body: Any) -> Slices[bytes]:
        """Return the frame of a response to this request, in slices."""
        return _framed(self.response_header, body)

    @property
    def response_header(self) -> bytes:
        """The header of a response to this request."""
        is_flexible = self.response_type.__header_schema__.__flexible__
        return INT32.pack(self.correlation_id) + (b"\x00" if is_flexible else b"")

    def read_response(self, frame: bytes) -> Slices[Any]:
        """Return the body of a response to this request, in slices.

        Raises:
            WireError: It cannot be read.
        """
        return response_in_slices(frame, self.response_type)

    @property
    def types(self) -> ModuleType:
        """The protocol library's module with the types of the request."""
        return _module(load_request_schema(self.api_key, self.version))

    @property
    def response_type(self) -> Any:
        """The protocol library's type of the response."""
        return load_response_schema(self.api_key, self.version)

    @property
    def response_types(self) -> ModuleType:
        """The protocol library's module with the types of the response."""
        return _module(self.response_type)


def read_request(frame: bytes) -> ClientRequest:
    """Return the request in a frame, length included.

    Raises:
        WireError: Its header cannot be read.
    """
    try:
        api_key, version = INT16.unpack_from(frame, 4)[0], INT16.unpack_from(frame, 6)[0]
        kind = load_request_schema(api_key, version)
        size = INT16.unpack_from(frame, _CLIENT_ID_AT)[0]
        position = _CLIENT_ID_AT + INT16.size
        client_id = None
        if size >= 0:
            client_id = frame[position : position + size].decode(errors="replace")  # as brokers do
        position += max(0, size)
        if kind.__flexible__:
            position = skip_tags(frame, position)
    except Exception as error:
        raise WireError("a request that cannot be read") from error
    return ClientRequest(frame, api_key, version, client_id, position)


def as_version(body: Any, kind: type[Any]) -> Slices[Any]:
    """Return a body in another version of its type, without fields that this version lacks.

    Yields:
        After each slice.
    """
    module = sys.modules[kind.__module__]
    fields = {}
    for field in dataclasses.fields(kind):
        value = getattr(body, field.name)
        if isinstance(value, tuple) and value and dataclasses.is_dataclass(value[0]):
            entries = []
            for number, entry in enumerate(value, 1):
                entries.append(
                    (yield from as_version(entry, getattr(module, type(entry).__name__)))
                )
                if number % SLICE_ENTRIES == 0:
                    yield
            value = tuple(entries)
        fields[field.name] = value
    return kind(**fields)


def _framed(header: bytes, body: Any) -> Slices[bytes]:
    data = yield from write_in_slices(body)
    return b"".join((INT32.pack(len(header) + len(data)), header, data))


def _module(kind: type[Any]) -> ModuleType:
    return sys.modules[kind.__module__]
