"""FindCoordinator (API key 10), versions 0 to 6: requests with many keys, without an object each.

Versions 4 and later have any number of keys (KIP-699).
"""

from __future__ import annotations

from struct import error
from typing import TYPE_CHECKING, Final

from penstock.kafka.wire.errors import WireError
from penstock.kafka.wire.primitives import (
    INT16,
    INT32,
    read_varint,
    skip_string,
    skip_tags,
    string,
    varint,
)
from penstock.kafka.wire.requests.produce import ENTRIES_MAX

if TYPE_CHECKING:
    from penstock.kafka.wire.slices import Slices

MANY_FROM: Final = 4
_TYPED_FROM, _FLEXIBLE_FROM = 1, 3
_SLICE_KEYS: Final = 2000
_MESSAGES_MAX_BYTES: Final = 2**20
"""If the message would be repeated for more bytes than this, it is left out."""


def key_type(frame: bytes, position: int, version: int) -> int:
    """Return the type of the keys of a request: 0 for groups.

    Args:
        frame: The request, length included.
        position: Where its body begins.

    Raises:
        WireError: It ends too early.
    """
    try:
        if _TYPED_FROM <= version < MANY_FROM:
            position = skip_string(frame, position, flexible=version >= _FLEXIBLE_FROM)
        return frame[position] if version >= _TYPED_FROM else 0
    except (IndexError, error):
        raise WireError("a FindCoordinator request that cannot be read") from None


def unavailable(
    frame: bytes, position: int, header: bytes, code: int, message: str | None
) -> Slices[bytes]:
    """Return the response that no key of a request has a coordinator, from version 4 on.

    Args:
        frame: The request, length included.
        position: Where its body begins.
        header: The header of the response.
        code: The error code.
        message: The error message.

    Yields:
        After each slice.

    Raises:
        WireError: The request cannot be read, or has too many keys.
    """
    try:
        count, position = read_varint(frame, position + 1)
        if count - 1 > ENTRIES_MAX:
            raise WireError("a request with too many entries")
        text = message if count * len(message or "") < _MESSAGES_MAX_BYTES else None
        end = b"".join(
            (
                INT32.pack(-1), string("", flexible=True), INT32.pack(-1), INT16.pack(code),
                string(text, flexible=True), b"\x00",
            )
        )  # fmt: skip
        body = bytearray(header + INT32.pack(0) + varint(max(1, count)))
        for number in range(1, count):
            size, behind = read_varint(frame, position)
            behind += size - 1
            if not size or behind > len(frame):
                raise IndexError
            body += frame[position:behind]
            body += end
            position = behind
            if number % _SLICE_KEYS == 0:
                yield
        if skip_tags(frame, position) != len(frame):
            raise IndexError
    except (IndexError, error):
        raise WireError("a FindCoordinator request that cannot be read") from None
    body += b"\x00"
    return INT32.pack(len(body)) + body
