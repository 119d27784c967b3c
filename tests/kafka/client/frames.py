"""Frames of responses, written by the protocol library."""

import io

from kio.serial import entity_writer


def response_frame(entity, correlation_id: int = 0) -> bytes:
    """Return a response as a broker sends it, without its length."""
    buffer = io.BytesIO()
    kind = type(entity)
    header = kind.__header_schema__
    entity_writer(header)(buffer, header(correlation_id=correlation_id))
    entity_writer(kind)(buffer, entity)
    return buffer.getvalue()
