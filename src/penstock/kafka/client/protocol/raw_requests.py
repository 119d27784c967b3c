"""Requests in the form that aiokafka's connections send, and responses as bytes.

aiokafka negotiates a version among those that it knows itself, and decodes the response on its
event loop. Here a request has a fixed version, and its body and its response are bytes. The thread
that sent the request reads the response, and records are not copied.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, TypeVar

from kio.serial import entity_reader, entity_writer

from penstock.kafka.client.errors import UnsupportedVersionError
from penstock.kafka.wire.checked import checked
from penstock.kafka.wire.errors import WireError
from penstock.kafka.wire.primitives import INT16, INT32, skip_tags, string

if TYPE_CHECKING:
    from collections.abc import Mapping

T = TypeVar("T")
_CORRELATION_ID_BYTES: Final = 4
_NO_TAGS: Final = b"\x00"


class RawResponse:
    """A response as it was received. Its text shows no contents: aiokafka logs it."""

    __slots__ = ("frame",)

    def __init__(self, frame: bytes) -> None:
        self.frame = frame

    @classmethod
    def decode(cls, buffer: io.BytesIO) -> RawResponse:
        """Take a frame, without its length, out of aiokafka's buffer; it is not copied."""
        return cls(buffer.getvalue())


class _EncodedBody(NamedTuple):
    data: bytes

    def encode(self) -> bytes:
        return self.data


class _ResponseHeader(NamedTuple):
    correlation_id: int


@dataclass(frozen=True, slots=True)
class RawRequest:
    """A request whose body is written.

    Attributes:
        version: The version of the body.
        flexible: Whether headers have tagged fields (KIP-482).
        body: The bytes after the header.
    """

    api_key: int
    version: int
    flexible: bool
    body: bytes

    RESPONSE_TYPE: ClassVar[type[RawResponse]] = RawResponse

    def prepare(self, versions: Mapping[int, tuple[int, int]]) -> RawRequest:
        """Check, for aiokafka, that the broker serves the version.

        Raises:
            UnsupportedVersionError: It does not.
        """
        first, last = versions.get(self.api_key, (0, -1))
        if not first <= self.version <= last:
            raise UnsupportedVersionError(
                f"the broker does not serve version {self.version} of API {self.api_key}"
            )
        return self

    def build_request_header(self, correlation_id: int, client_id: str) -> _EncodedBody:
        """Write the header."""
        return _EncodedBody(
            INT16.pack(self.api_key)
            + INT16.pack(self.version)
            + INT32.pack(correlation_id)
            + string(client_id, flexible=False)
            + (_NO_TAGS if self.flexible else b"")
        )

    def encode(self) -> bytes:
        """Return the body."""
        return self.body

    def parse_response_header(self, buffer: io.BytesIO) -> _ResponseHeader:
        """Read the correlation id."""
        return _ResponseHeader(
            int.from_bytes(buffer.read(_CORRELATION_ID_BYTES), "big", signed=True)
        )

    def __repr__(self) -> str:
        return f"RawRequest(api_key={self.api_key}, version={self.version})"


def raw_request(entity: Any) -> RawRequest:
    """Write a request of the protocol library."""
    kind = type(entity)
    buffer = io.BytesIO()
    entity_writer(kind)(buffer, entity)
    return RawRequest(
        int(kind.__api_key__), int(kind.__version__), kind.__flexible__, buffer.getvalue()
    )


def body_position(frame: bytes, *, flexible: bool) -> int:
    """Return where a response's body begins.

    Raises:
        IndexError: The frame ends before.
    """
    if not flexible:
        return _CORRELATION_ID_BYTES
    return skip_tags(frame, _CORRELATION_ID_BYTES)


def read_entity(response: RawResponse, kind: type[T]) -> T:
    """Read a response as an entity of the protocol library.

    Raises:
        WireError: It cannot be read.
    """
    try:
        flexible = kind.__flexible__  # type: ignore[attr-defined]
        position = body_position(response.frame, flexible=flexible)
        data, _ = checked(response.frame, position, kind)  # type: ignore[arg-type]
        entity, _ = entity_reader(kind)(data, 0)  # type: ignore[type-var]
    except Exception as error:
        raise WireError(f"a {kind.__name__} that cannot be read") from error
    return entity
