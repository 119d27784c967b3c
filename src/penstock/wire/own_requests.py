"""Requests of the gateway's own and their responses, written and read by the protocol library."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any, Final, TypeVar

from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i16, i32

from penstock.wire.checked import checked
from penstock.wire.errors import WireError
from penstock.wire.primitives import INT32, skip_tags

if TYPE_CHECKING:
    T = TypeVar("T")

CLIENT_ID: Final = "penstock"
_HEAD_BYTES: Final = 8


def write_request(correlation_id: int, request: Any, client_id: str | None = CLIENT_ID) -> bytes:
    """Return the frame of a request entity, length included."""
    kind = type(request)
    header = kind.__header_schema__
    buffer = io.BytesIO()
    entity_writer(header)(
        buffer,
        header(
            request_api_key=kind.__api_key__,
            request_api_version=i16(kind.__version__),
            correlation_id=i32(correlation_id),
            client_id=client_id,
        ),
    )
    entity_writer(kind)(buffer, request)
    body = buffer.getvalue()
    return INT32.pack(len(body)) + body


def write_entity(entity: Any) -> bytes:
    """Return the bytes of an entity of the protocol library."""
    buffer = io.BytesIO()
    entity_writer(type(entity))(buffer, entity)
    return buffer.getvalue()


def read_response(frame: bytes, kind: type[T]) -> T:
    """Return the response entity in a frame, length included.

    Raises:
        WireError: It cannot be read.
    """
    try:
        flexible = kind.__flexible__  # type: ignore[attr-defined]
        position = skip_tags(frame, _HEAD_BYTES) if flexible else _HEAD_BYTES
        data, _ = checked(frame, position, kind)  # type: ignore[arg-type]
        entity, _ = entity_reader(kind)(data, 0)  # type: ignore[type-var]
    except Exception as error:
        raise WireError(f"a {kind.__name__} that cannot be read") from error
    return entity
