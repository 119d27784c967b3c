"""The formats and encodings that a client of `/metrics` accepts."""

from __future__ import annotations

import asyncio
import gzip
import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from penstock.gateway.observing.metrics.http_server import HttpResponse, Request

_LEAST_BYTES: Final = 1024
"""Smaller bodies are sent as they are."""
_LEVEL: Final = 1
_WEIGHT: Final = re.compile(r"0(\.\d{0,3})?|1(\.0{0,3})?")
_VARY: Final = ("Vary", "Accept, Accept-Encoding")


def preferred(header: bytes | None, offered: Sequence[str]) -> str:
    """Return the media type that a client prefers (RFC 9110, 12.5.1).

    Args:
        header: The value of `Accept`; None where it is not there.
        offered: The media types that there are, the default first. A client that accepts none
            of them gets it, too: metrics in another format are better than an error.
    """
    ranges = list(_weighted(header))
    if not ranges:
        return offered[0]
    return max(offered, key=lambda media_type: _rank(media_type, ranges))


def _rank(media_type: str, ranges: Sequence[tuple[str, float]]) -> tuple[float, bool, int]:
    """Return what makes a type better than others: its weight; named, and before others."""
    kind = media_type.partition("/")[0]
    for name in (media_type, f"{kind}/*", "*/*"):  # a range that is more specific decides alone
        weights = [weight for other, weight in ranges if other == name]
        if weights:
            first = next(place for place, (other, _) in enumerate(ranges) if other == name)
            return max(weights), name == media_type and max(weights) > 0, -first
    return 0.0, False, 0


def accepts(header: bytes | None, value: str) -> bool:
    """Return whether a header names a value, with a quality other than 0.

    Args:
        header: The value of `Accept-Encoding`; None where it is not there.
        value: An encoding. Wildcards do not count as naming it.
    """
    return any(name == value and weight > 0 for name, weight in _weighted(header))


def _weighted(header: bytes | None) -> Iterator[tuple[str, float]]:
    """Yield the names in a header, in lower case, and the weight of each, from 0 to 1."""
    for part in (header or b"").decode("latin-1").lower().split(","):
        name, *parameters = (item.strip() for item in part.split(";"))
        if name:
            yield name, min(map(_weight, parameters), default=1.0)


def _weight(parameter: str) -> float:
    name, _, value = parameter.partition("=")
    match = _WEIGHT.fullmatch(value.strip()) if name.strip() == "q" else None
    return float(match[0]) if match else 1.0


async def compressed(answer: HttpResponse, request: Request) -> HttpResponse:
    """Return an answer with gzip, where its client accepts that and it is worth the time."""
    headers = (*answer.headers, _VARY)
    is_wanted = accepts(request.header(b"accept-encoding"), "gzip")
    if not is_wanted or len(answer.body) < _LEAST_BYTES:
        return answer._replace(headers=headers)
    # In a thread: zlib releases the interpreter, and the event loop continues.
    body = await asyncio.to_thread(gzip.compress, answer.body, _LEVEL, mtime=0)
    return answer._replace(body=body, headers=(*headers, ("Content-Encoding", "gzip")))
