"""Schemas that are a serialized `FileDescriptorProto` in base64, instead of a text.

Confluent's client for Python registers them so (`ProtobufSerializer`), and a registry may return
them unchanged. They are not read here, but by protoc, in its process.
"""

from __future__ import annotations

import re
from base64 import b64decode
from binascii import Error
from typing import Final

_BASE64: Final = re.compile(r"\s*[A-Za-z0-9+/\s]+={0,2}\s*")
_FILE: Final = b"\x0a"
"""`FileDescriptorSet.file`: field 1, with a length."""
_NAME: Final = b"\x0a"
"""`FileDescriptorProto.name`: field 1, with a length."""


def descriptor_in(text: str) -> bytes | None:
    """Return the bytes of a schema in base64; None if it is a text.

    Nothing can be both: a text with any declaration has a semicolon or a brace.
    """
    if not text.strip() or not _BASE64.fullmatch(text):
        return None
    try:
        return b64decode("".join(text.split()), validate=True)
    except Error:
        return None


def is_descriptor(text: str) -> bool:
    """Return whether a schema is a descriptor in base64, not a text."""
    return descriptor_in(text) is not None


def named_in_set(descriptor: bytes, name: str) -> bytes:
    """Return a descriptor as an element of a serialized `FileDescriptorSet`.

    Args:
        descriptor: A serialized `FileDescriptorProto`.
        name: The name that the file gets: of a field that comes twice, the last counts.
    """
    encoded = name.encode(errors="replace")
    named = descriptor + _NAME + _varint(len(encoded)) + encoded
    return _FILE + _varint(len(named)) + named


def _varint(number: int) -> bytes:
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)
