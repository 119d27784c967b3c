"""The formats and encodings that a client of `/metrics` accepts."""

from __future__ import annotations

import asyncio
import gzip
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from penstock.gateway.observing.metrics.http_server import HttpResponse, Request

_LEAST_BYTES: Final = 1024
"""Smaller bodies are sent as they are."""
_LEVEL: Final = 1
_VARY: Final = ("Vary", "Accept, Accept-Encoding")


def accepts(header: bytes | None, value: str) -> bool:
    """Return whether a header names a value, with a quality other than 0.

    Args:
        header: The value of `Accept` or `Accept-Encoding`; None where it is not there.
        value: A media type or an encoding. Wildcards do not count as naming it.
    """
    for part in (header or b"").decode("latin-1").lower().split(","):
        name, *parameters = (item.strip() for item in part.split(";"))
        if name == value:
            return not any(_is_zero(parameter) for parameter in parameters)
    return False


def _is_zero(parameter: str) -> bool:
    name, _, value = parameter.partition("=")
    return name.strip() == "q" and not value.strip().strip("0.")


async def compressed(answer: HttpResponse, request: Request) -> HttpResponse:
    """Return an answer with gzip, where its client accepts that and it is worth the time."""
    headers = (*answer.headers, _VARY)
    is_wanted = accepts(request.header(b"accept-encoding"), "gzip")
    if not is_wanted or len(answer.body) < _LEAST_BYTES:
        return answer._replace(headers=headers)
    # In a thread: zlib releases the interpreter, and the event loop continues.
    body = await asyncio.to_thread(gzip.compress, answer.body, _LEVEL, mtime=0)
    return answer._replace(body=body, headers=(*headers, ("Content-Encoding", "gzip")))
