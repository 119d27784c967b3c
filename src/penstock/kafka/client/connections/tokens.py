"""Tokens of SASL OAUTHBEARER: from an OAuth endpoint, from a file, or unsecured for tests."""

from __future__ import annotations

import base64
import http.client
import json
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from penstock.configuration.clients.tls import client_context
from penstock.errors import UnavailableError
from penstock.kafka.client.connections.timed_http import OversizeError, read_response
from penstock.policy.client_credentials import (
    InvalidTokenError,
    is_token,
    lifetime_of,
    read_token,
    token_request,
)

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping

    from penstock.configuration.clients.oauth import OAuth

_LIFETIME_S: Final = 3600.0
"""Of an unsecured token."""
_MAX_BYTES: Final = 2**20


class TokenError(UnavailableError):
    """There is no token. The message holds no secret.

    Attributes:
        retriable: Whether there may be a token later.
    """

    def __init__(self, message: str, *, retriable: bool = False) -> None:
        super().__init__(message)
        self.retriable = retriable


class Token(NamedTuple):
    """A token.

    Attributes:
        text: What a broker gets.
        lifetime_s: How long it lasted when it was obtained.
        obtained_at: By the monotonic clock, in seconds.
    """

    text: str
    lifetime_s: float
    obtained_at: float

    @property
    def left_s(self) -> float:
        """How long it lasts from now."""
        return self.obtained_at + self.lifetime_s - time.monotonic()

    def __repr__(self) -> str:
        """Return no part of the token."""
        return f"Token({self.lifetime_s:.0f} s)"


class OAuthTokens:
    """Obtains tokens, each used for a share of its lifetime. Any thread may call it."""

    def __init__(self, oauth: OAuth, file: Path) -> None:
        """Prepare; nothing is contacted.

        Args:
            oauth: Where tokens come from.
            file: The configuration file; relative locations start at its folder.

        Raises:
            ConfigurationError: A store for the endpoint is not usable.
        """
        self._oauth = oauth
        self._tls: ssl.SSLContext | None = None
        if oauth.tls:
            self._tls = client_context(oauth.tls, file, "upstream.sasl.jaas.config: ")
        self._token = Token("", 0.0, 0.0)
        self._lock = threading.Lock()

    @property
    def extensions(self) -> Mapping[str, str]:
        """The SASL extensions of a token (KIP-342)."""
        return self._oauth.extensions

    def token(self, used_for: float | None = None) -> Token:
        """Return a token. Blocks while it is obtained.

        Args:
            used_for: The share of its lifetime after which another token is obtained; by default
                `sasl.login.refresh.window.factor`.

        Raises:
            TokenError: There is no token.
        """
        share = self._oauth.used_for if used_for is None else used_for
        if not self._lock.acquire(timeout=self._oauth.timeout_s):
            raise TokenError("a token that was requested before has not come", retriable=True)
        try:
            if self._token.left_s <= (1 - share) * self._token.lifetime_s:
                self._token = self._obtain()
            return self._token
        finally:
            self._lock.release()

    def _obtain(self) -> Token:
        if not self._oauth.url:
            return _unsecured(self._oauth.claims)
        parts = urllib.parse.urlsplit(self._oauth.url)
        if parts.scheme == "file":
            return _from_file(Path(urllib.request.url2pathname(parts.path)))
        return _from_endpoint(_request(self._oauth), self._oauth.timeout_s, self._tls)


def _request(oauth: OAuth) -> urllib.request.Request:
    body, headers = token_request(
        oauth.client_id, oauth.client_secret, oauth.scope, urlencoded=oauth.urlencoded
    )
    return urllib.request.Request(oauth.url, body, headers)  # noqa: S310 - the scheme was checked


def _from_file(path: Path) -> Token:
    try:
        text = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        raise TokenError(f"the token in {path} cannot be read") from None
    if not is_token(text):
        raise TokenError(f"{path} holds no token")
    try:
        return Token(text, lifetime_of(text, time.time()), time.monotonic())
    except InvalidTokenError:
        raise TokenError(f"{path} holds a token whose exp is not a time") from None


def _from_endpoint(
    request: urllib.request.Request, timeout_s: float, tls: ssl.SSLContext | None
) -> Token:
    address = urllib.parse.urlsplit(request.full_url).netloc.rpartition("@")[2]
    try:
        body = read_response(request, timeout_s, _MAX_BYTES, tls)
        text, lifetime_s = read_token(body, time.time())
    except urllib.error.HTTPError as error:
        error.close()
        raise TokenError(
            f"the token endpoint at {address} responded with HTTP status {error.code}"
        ) from None
    except OversizeError:
        raise TokenError(
            f"the token endpoint at {address} returned more than {_MAX_BYTES} bytes"
        ) from None
    except TimeoutError:
        raise TokenError(
            f"the token endpoint at {address} returned no token within {timeout_s:g} s",
            retriable=True,
        ) from None
    except OSError as error:
        raise TokenError(
            f"the token endpoint at {address} cannot be reached: {_reason(error)}", retriable=True
        ) from None
    except http.client.InvalidURL:
        raise TokenError("the URL of the token endpoint is not valid") from None
    except http.client.HTTPException as error:
        raise TokenError(
            f"the token endpoint at {address} broke off its response, or did not speak HTTP: "
            f"{type(error).__name__}",
            retriable=True,
        ) from None
    except InvalidTokenError as error:
        raise TokenError(f"the token endpoint at {address} {error}") from None
    return Token(text, lifetime_s, time.monotonic())


def _reason(error: OSError) -> str:
    cause = error.reason if isinstance(error, urllib.error.URLError) else error
    return type(cause).__name__


def _unsecured(claims: Mapping[str, str]) -> Token:
    now = time.time()
    body: dict[str, Any] = {**claims, "iat": now, "exp": now + _LIFETIME_S}
    parts = ({"alg": "none"}, body)
    encoded = (base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=") for part in parts)
    text = ".".join(part.decode() for part in encoded) + "."
    return Token(text, _LIFETIME_S, time.monotonic())
