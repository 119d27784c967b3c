"""Frames of a login."""

import io
from datetime import timedelta

from kio.schema.errors import ErrorCode
from kio.serial import entity_writer
from kio.static.primitive import i64Timedelta

from penstock.kafka.wire.schemas import load_request_schema, load_response_schema
from tests.raw import request_frame

ALICE = b"\x00alice\x00secret"


def handshake_frame(
    mechanism: str = "PLAIN", version: int = 1, client_id: str | None = "raw"
) -> bytes:
    return request_frame(load_request_schema(17, version)(mechanism=mechanism), 7, client_id)


def authenticate_frame(
    auth_bytes: bytes = ALICE, version: int = 2, client_id: str | None = "raw"
) -> bytes:
    return request_frame(load_request_schema(36, version)(auth_bytes=auth_bytes), 7, client_id)


def response_frame(
    code: int = 0,
    *,
    version: int = 2,
    message: str | None = None,
    auth_bytes: bytes = b"",
    lifetime_ms: int = 0,
) -> bytes:
    schema = load_response_schema(36, version)
    lifetime = timedelta(milliseconds=lifetime_ms)
    more = {"session_lifetime": i64Timedelta.parse(lifetime)} if version else {}
    buffer = io.BytesIO()
    header = schema.__header_schema__
    entity_writer(header)(buffer, header(correlation_id=7))
    entity_writer(schema)(
        buffer,
        schema(error_code=ErrorCode(code), error_message=message, auth_bytes=auth_bytes, **more),
    )
    body = buffer.getvalue()
    return len(body).to_bytes(4, "big") + body
