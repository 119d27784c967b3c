"""Access to the metrics listener.

Without a token it listens on a loopback address, and serves every process of this machine. A
browser on this machine may have pages of other sites: such a page may have its own name resolved to
127.0.0.1 (DNS rebinding), and would then be of the same origin. So without a token a request needs
a `Host` header with an address or a name of this machine. With a token other names are served, as
load balancers have them, because a page of another site does not have the token.

Nothing is answered for pages of another origin, and nothing allows them to read it (CORS).
"""

from __future__ import annotations

import re
import secrets
import time
from hashlib import sha256
from hmac import compare_digest
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qs

from penstock.gateway.observing.metrics.http_server import HttpResponse

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from penstock.gateway.observing.metrics.http_server import Request

SESSIONS_MAX: Final = 100
"""At the limit the oldest session ends."""
SESSION_S: Final = 12 * 3600.0
_OF_THIS_PAGE: Final = frozenset({None, b"same-origin", b"none"})
"""`Sec-Fetch-Site` of requests that no other page makes; other programs do not send it."""
_HOST: Final = re.compile(r"(?:\[([0-9a-f:.]+)\]|([^\[\]:]*))(?::\d*)?")
_WRONG_NAME: Final = (
    b"this name is none of this machine; with metrics.listener.token any name is served\n"
)


class Access:
    """Decides which requests are served."""

    def __init__(
        self,
        token: str | None,
        *,
        without_token: Collection[str] = (),
        host: str = "",
        cookie: str = "penstock",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Make the rules of a listener.

        Args:
            token: The token that requests need, if any: as `Authorization: Bearer` (RFC 6750),
                or by a session that has been opened with it.
            without_token: The paths that need no token.
            host: The name on which it listens, which is always served.
            cookie: The name of the cookie; browsers do not distinguish ports.
            clock: Returns the monotonic time in seconds.
        """
        self._token = None if token is None else token.encode()
        self._without_token = frozenset(without_token)
        self._names = frozenset({"localhost", host.lower()} - {""})
        self._cookie = cookie.encode()
        self._clock = clock
        self._sessions: dict[bytes, float] = {}

    @property
    def needs_token(self) -> bool:
        """Whether there is a token, so that users can log in and out."""
        return self._token is not None

    def refuse(self, request: Request) -> HttpResponse | None:
        """Return the response to a request that is not served; None if it is served."""
        if self._token is None and not self._is_local(request.header(b"host")):
            return HttpResponse(421, _WRONG_NAME)
        if not _is_of_this_page(request):
            return HttpResponse(403, b"not for pages of another origin\n")
        if request.path not in self._without_token and not self.is_authorized(request):
            return HttpResponse(
                401, b"a token is needed\n", headers=(("WWW-Authenticate", "Bearer"),)
            )
        return None

    def is_authorized(self, request: Request) -> bool:
        """Return whether a request carries the token, or is of an open session."""
        if self._token is None:
            return True
        authorization = request.header(b"authorization")
        if authorization is None:
            return self._is_open(request)
        scheme, _, token = authorization.partition(b" ")
        return scheme.lower() == b"bearer" and compare_digest(token.strip(), self._token)

    def open_session(self, request: Request) -> str | None:
        """Return the cookie (`Set-Cookie`) of a new session; None if the token is wrong.

        Args:
            request: With a form, as browsers send it, that has a field `token`.
        """
        try:
            fields = parse_qs(request.body.decode("ascii"), max_num_fields=2)
        except ValueError:
            return None
        token = fields.get("token", [""])[0].strip().encode("utf-8", "replace")
        if self._token is None or not compare_digest(token, self._token):
            return None
        now = self._clock()
        for ended in [session for session, expiry in self._sessions.items() if expiry <= now]:
            del self._sessions[ended]
        if len(self._sessions) >= SESSIONS_MAX:
            del self._sessions[next(iter(self._sessions))]
        session = secrets.token_urlsafe(32)
        self._sessions[_digest(session.encode())] = now + SESSION_S
        return self._set_cookie(session, int(SESSION_S))

    def close_session(self, request: Request) -> str:
        """End the session of a request; return the cookie that takes its place."""
        for session in self._given(request):
            self._sessions.pop(session, None)
        return self._set_cookie("", 0)

    def _set_cookie(self, value: str, age_s: int) -> str:
        name = self._cookie.decode()
        return f"{name}={value}; Max-Age={age_s}; Path=/; HttpOnly; SameSite=Strict"

    def _is_open(self, request: Request) -> bool:
        now = self._clock()
        return any(self._sessions.get(session, now) > now for session in self._given(request))

    def _given(self, request: Request) -> list[bytes]:
        """Return the sessions that a request names, as they are kept: not to be guessed by time."""
        pairs = (request.header(b"cookie") or b"").split(b";")
        named = (pair.strip().partition(b"=") for pair in pairs)
        return [_digest(value) for name, _, value in named if name == self._cookie]

    def _is_local(self, host: bytes | None) -> bool:
        """Return whether a `Host` (RFC 9110, 7.2) is an address, or a name of this machine."""
        if host is None:  # HTTP/1.0; no browser speaks that
            return True
        name = _without_port(host.decode("latin-1").lower())
        if name in self._names or name.endswith(".localhost"):
            return True
        try:
            ip_address(name)
        except ValueError:
            return False
        return True


def _is_of_this_page(request: Request) -> bool:
    if request.header(b"sec-fetch-mode") == b"navigate" and request.method == "GET":
        return True  # a link to the console; its page is not read by the page with the link
    if request.header(b"sec-fetch-site") not in _OF_THIS_PAGE:
        return False
    origin, host = request.header(b"origin"), request.header(b"host")
    return origin is None or (host is not None and origin.partition(b"://")[2] == host)


def _without_port(host: str) -> str:
    match = _HOST.fullmatch(host)
    return (match[1] or match[2].rstrip(".")) if match else ""


def _digest(session: bytes) -> bytes:
    return sha256(session).digest()
