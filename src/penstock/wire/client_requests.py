"""Requests of clients that are parsed by the protocol library, with responses in their version.

Used by handlers: the requests of the admin APIs are small and rare.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import io
import sys
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i32Timedelta

from penstock.wire.checked import checked
from penstock.wire.errors import WireError
from penstock.wire.own_requests import read_response
from penstock.wire.primitives import INT16, INT32, skip_tags
from penstock.wire.produce import ENTRIES_MAX

if TYPE_CHECKING:
    from types import ModuleType

NO_TIME: Final = i32Timedelta.parse(dt.timedelta())
"""The `throttle_time` of responses that are made here."""
_METADATA: Final = 3
"""librdkafka announces all topics with four bytes instead of one, and brokers ignore the rest."""
_CORRELATION_AT: Final = 8
_CLIENT_ID_AT: Final = 12


class ClientRequest:
    """A request of a client. Its body is parsed when it is first used.

    Attributes:
        frame: The original frame, length included.
        api_key: The API key.
        version: The version.
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

    @cached_property
    def body(self) -> Any:
        """The entity of the protocol library.

        Raises:
            WireError: It cannot be read, or has bytes after its end and is not Metadata.
        """
        return _read(self.frame, self.body_at, load_request_schema(self.api_key, self.version))

    def with_body(self, body: Any) -> bytes:
        """Return the frame of this request with another body of the same version."""
        return _framed(self.frame[4 : self.body_at], body)

    def response(self, body: Any) -> bytes:
        """Return the frame of a response to this request."""
        return _framed(self.response_header, body)

    @property
    def response_header(self) -> bytes:
        """The header of a response to this request."""
        is_flexible = self.response_type.__header_schema__.__flexible__
        return INT32.pack(self.correlation_id) + (b"\x00" if is_flexible else b"")

    def read_response(self, frame: bytes) -> Any:
        """Return the body of a response to this request.

        Raises:
            WireError: It cannot be read.
        """
        return read_response(frame, self.response_type)

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


def _read(frame: bytes, position: int, kind: type[Any]) -> Any:
    data, end = checked(frame, position, kind, most_entries=ENTRIES_MAX)
    if end != len(frame) and kind.__api_key__ != _METADATA:
        raise WireError("a request with something behind its end")
    try:
        return entity_reader(kind)(data, 0)[0]
    except Exception as error:
        raise WireError("a request that cannot be read") from error


def as_version(body: Any, kind: type[Any]) -> Any:
    """Return a body in another version of its type, without fields that this version lacks."""
    of = sys.modules[kind.__module__]
    fields = {}
    for field in dataclasses.fields(kind):
        value = getattr(body, field.name)
        if isinstance(value, tuple):
            value = tuple(
                as_version(one, getattr(of, type(one).__name__))
                if dataclasses.is_dataclass(one)
                else one
                for one in value
            )
        fields[field.name] = value
    return kind(**fields)


def _framed(header: bytes, body: Any) -> bytes:
    buffer = io.BytesIO()
    buffer.write(b"\x00\x00\x00\x00")
    buffer.write(header)
    entity_writer(type(body))(buffer, body)
    frame = buffer.getvalue()
    return INT32.pack(len(frame) - 4) + frame[4:]


def _module(kind: type[Any]) -> ModuleType:

    return sys.modules[kind.__module__]
