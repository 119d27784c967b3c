"""Requests of the gateway and their responses, written and read by the protocol library.

If a client may determine their size, they are written and read in slices.
"""

from __future__ import annotations

from struct import error
from typing import TYPE_CHECKING, Any, Final, TypeVar

from kio.serial import entity_reader
from kio.static.primitive import i16, i32

from penstock.kafka.wire.checked import checked
from penstock.kafka.wire.errors import WireError
from penstock.kafka.wire.frames import body_of_response
from penstock.kafka.wire.primitives import INT32
from penstock.kafka.wire.requests.entities import read_in_slices, write_entity

if TYPE_CHECKING:
    from penstock.kafka.wire.slices import Slices

    T = TypeVar("T")

CLIENT_ID: Final = "penstock"


def write_request(correlation_id: int, request: Any, client_id: str | None = CLIENT_ID) -> bytes:
    """Return the frame of a request entity, length included."""
    body = write_entity(request)
    return framed_request(correlation_id, kind=type(request), body=body, client_id=client_id)


def framed_request(
    correlation_id: int, *, kind: Any, body: bytes, client_id: str | None = CLIENT_ID
) -> bytes:
    """Return the frame of a request whose body has been written, length included.

    Args:
        kind: The type of the request entity.
        client_id: The client id, or None.
    """
    header = write_entity(
        kind.__header_schema__(
            request_api_key=kind.__api_key__,
            request_api_version=i16(kind.__version__),
            correlation_id=i32(correlation_id),
            client_id=client_id,
        )
    )
    return b"".join((INT32.pack(len(header) + len(body)), header, body))


def read_response(frame: bytes, kind: type[T]) -> T:
    """Return the response entity in a frame, length included.

    Raises:
        WireError: It cannot be read.
    """
    try:
        flexible = kind.__flexible__  # type: ignore[attr-defined]
        position = body_of_response(frame, flexible=flexible)
        data, _ = checked(frame, position, kind)  # type: ignore[arg-type]
        entity, _ = entity_reader(kind)(data, 0)  # type: ignore[type-var]
    except Exception as reason:
        raise WireError(f"a {kind.__name__} that cannot be read") from reason
    return entity


def response_in_slices(frame: bytes, kind: type[T]) -> Slices[T]:
    """Return the response entity in a frame, length included.

    Yields:
        After each slice.

    Raises:
        WireError: It cannot be read.
    """
    flexible = kind.__flexible__  # type: ignore[attr-defined]
    try:
        position = body_of_response(frame, flexible=flexible)
    except (IndexError, error):
        raise WireError(f"a {kind.__name__} that cannot be read") from None
    entity, _ = yield from read_in_slices(frame, position, kind)  # type: ignore[arg-type]
    return entity  # type: ignore[no-any-return]
