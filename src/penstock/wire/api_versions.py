"""ApiVersions (API key 18): limits the announced versions to those that are supported here.

Versions 0 to 4. The response's header is version 0 in all of them, and a request in a version
that the broker does not know is answered in version 0 (KIP-511).
"""

from __future__ import annotations

from struct import Struct, error
from typing import TYPE_CHECKING, Final

from penstock.wire.errors import UNSUPPORTED_VERSION, WireError
from penstock.wire.primitives import (
    INT16,
    INT32,
    array_length,
    read_long_length,
    skip_tags,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

API_KEY: Final = 18
LAST_VERSION: Final = 4
_FLEXIBLE_FROM: Final = 3
_RANGE = Struct(">hhh")  # API key, first version, last version


def narrow(
    frame: bytes, version: int, ranges: Mapping[int, tuple[int, int]]
) -> list[bytes | memoryview]:
    """Narrow the ranges of a response; drop an API without a range.

    Args:
        frame: The broker's response, length included.
        version: The version of the request.
        ranges: First and last version understood, by API key; others stay as they are.

    Returns:
        Buffers that together are the new frame.

    Raises:
        WireError: The response cannot be read.
    """
    try:
        (code,) = INT16.unpack_from(frame, 8)
        flexible = version >= _FLEXIBLE_FROM and code != UNSUPPORTED_VERSION
        count, position = read_long_length(frame, 10, flexible=flexible)
        kept: list[bytes] = []
        for _ in range(count):
            key, first, last = _RANGE.unpack_from(frame, position)
            start = position = position + _RANGE.size
            if flexible:
                position = skip_tags(frame, position)
            least, most = ranges.get(key, (first, last))
            if max(first, least) <= min(last, most):
                kept.append(
                    _RANGE.pack(key, max(first, least), min(last, most)) + frame[start:position]
                )
        if position > len(frame):
            raise IndexError
    except (IndexError, error):
        raise WireError("a response to ApiVersions that cannot be read") from None
    parts: list[bytes | memoryview] = [
        frame[4:10],
        array_length(len(kept), flexible=flexible),
        *kept,
        memoryview(frame)[position:],
    ]
    return [INT32.pack(sum(map(len, parts))), *parts]


def request(correlation_id: int) -> bytes:
    """Write a request in version 0, without a client id."""
    body = INT16.pack(API_KEY) + INT16.pack(0) + INT32.pack(correlation_id) + INT16.pack(-1)
    return INT32.pack(len(body)) + body


def unsupported(correlation_id: int) -> bytes:
    """Answer a request in a version that is not known here, as a broker does (KIP-511)."""
    body = INT32.pack(correlation_id) + INT16.pack(UNSUPPORTED_VERSION)
    body += INT32.pack(1) + _RANGE.pack(API_KEY, 0, LAST_VERSION)
    return INT32.pack(len(body)) + body
