"""ApiVersions (API key 18): limits the announced versions to those that are supported here.

Versions 0 to 5. The response's header is version 0 in all of them, and a request in a version
that the broker does not know is answered in version 0 (KIP-511). From version 5 on, a request may
name the cluster and the broker that the client meant (KIP-1242).
"""

from __future__ import annotations

import re
from struct import Struct, error
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.kafka.wire.errors import REBOOTSTRAP_REQUIRED, UNSUPPORTED_VERSION, WireError
from penstock.kafka.wire.primitives import (
    INT16,
    INT32,
    array_length,
    read_length,
    read_long_length,
    skip_string,
    skip_tags,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

API_KEY: Final = 18
LAST_VERSION: Final = 5
NAMES_BROKER_FROM: Final = 5
_FLEXIBLE_FROM: Final = 3
_RANGE = Struct(">hhh")  # API key, first version, last version
_CLIENT_ID_AT: Final = 12
_SOFTWARE: Final = re.compile(rb"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
"""The name and version of a client's software (ApiVersionsRequest.java)."""
_TEXT_MAX: Final = 2**15 - 1
"""The most bytes of a string: a broker closes the connection if it is longer."""
_NO_NODE: Final = -1


class MeantBroker(NamedTuple):
    """The broker that a client meant to connect to.

    Attributes:
        node: Its node id.
    """

    cluster_id: str
    node: int


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
        entries: list[bytes] = []
        for _ in range(count):
            key, first, last = _RANGE.unpack_from(frame, position)
            start = position = position + _RANGE.size
            if flexible:
                position = skip_tags(frame, position)
            least, most = ranges.get(key, (first, last))
            if max(first, least) <= min(last, most):
                entries.append(
                    _RANGE.pack(key, max(first, least), min(last, most)) + frame[start:position]
                )
        if position > len(frame):
            raise IndexError
    except (IndexError, error):
        raise WireError("a response to ApiVersions that cannot be read") from None
    parts: list[bytes | memoryview] = [
        frame[4:10],
        array_length(len(entries), flexible=flexible),
        *entries,
        memoryview(frame)[position:],
    ]
    return [INT32.pack(sum(map(len, parts))), *parts]


def request(correlation_id: int) -> bytes:
    """Write a request in version 0, without a client id."""
    body = INT16.pack(API_KEY) + INT16.pack(0) + INT32.pack(correlation_id) + INT16.pack(-1)
    return INT32.pack(len(body)) + body


def meant_broker(frame: bytes) -> MeantBroker | None:
    """Return the broker that a request of version 5 names, length included.

    Returns:
        The broker; None if the request names none, or is one that brokers refuse as invalid.

    Raises:
        WireError: The request cannot be read.
    """
    try:
        position = skip_string(frame, _CLIENT_ID_AT, flexible=False)
        name, position = _text(frame, skip_tags(frame, position))
        version, position = _text(frame, position)
        cluster, position = _text(frame, position)
        (node,) = INT32.unpack_from(frame, position)
        if skip_tags(frame, position + INT32.size) > len(frame):
            raise IndexError
        cluster_id = None if cluster is None else cluster.decode()
    except (IndexError, error, UnicodeDecodeError):
        raise WireError("a request for ApiVersions that cannot be read") from None
    if not (_SOFTWARE.fullmatch(name or b"") and _SOFTWARE.fullmatch(version or b"")):
        return None
    return None if cluster_id is None or node == _NO_NODE else MeantBroker(cluster_id, node)


def _text(frame: bytes, position: int) -> tuple[bytes | None, int]:
    """Return the bytes of a string, or None, and the position after it."""
    length, position = read_length(frame, position, flexible=True)
    if length > _TEXT_MAX or position + length > len(frame):
        raise IndexError
    end = position + max(0, length)
    return (frame[position:end] if length >= 0 else None), end


def rebootstrap_required(correlation_id: int) -> bytes:
    """Answer a request of version 5 that meant another broker, as a broker does (KIP-1242)."""
    body = INT32.pack(correlation_id) + INT16.pack(REBOOTSTRAP_REQUIRED)
    body += array_length(0, flexible=True) + INT32.pack(0) + b"\x00"  # throttle time, tagged fields
    return INT32.pack(len(body)) + body


def unsupported(correlation_id: int) -> bytes:
    """Answer a request in a version that is not known here, as a broker does (KIP-511)."""
    body = INT32.pack(correlation_id) + INT16.pack(UNSUPPORTED_VERSION)
    body += INT32.pack(1) + _RANGE.pack(API_KEY, 0, LAST_VERSION)
    return INT32.pack(len(body)) + body
