"""Tokens of SASL OAUTHBEARER: from an OAuth endpoint, from a file, or unsecured for tests."""

from __future__ import annotations

import base64
import json
import re
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from penstock.configuration.clients.tls import client_context
from penstock.errors import UnavailableError

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping

    from penstock.configuration.clients.oauth import OAuth

_LIFETIME_S: Final = 3600.0
"""Of a token that does not say when it expires."""
_LONGEST_LIFETIME_S: Final = 30 * 86_400.0
_MAX_BYTES: Final = 2**20
_TOKEN: Final = re.compile(r"[\x21-\x7e]+")


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
        self._obtaining = threading.Lock()

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
        with self._obtaining:
            if self._token.left_s <= (1 - share) * self._token.lifetime_s:
                self._token = self._obtain()
            return self._token

    def _obtain(self) -> Token:
        if not self._oauth.url:
            return _unsecured(self._oauth.claims)
        parts = urllib.parse.urlsplit(self._oauth.url)
        if parts.scheme == "file":
            return _from_file(Path(urllib.request.url2pathname(parts.path)))
        return _from_endpoint(_request(self._oauth), self._oauth.timeout_s, self._tls)


def _request(oauth: OAuth) -> urllib.request.Request:
    """Return the request of the client credentials grant (RFC 6749, 4.4.2)."""
    scope = {"scope": oauth.scope} if oauth.scope else {}
    form = {"grant_type": "client_credentials", **scope}
    named = [oauth.client_id, oauth.client_secret]
    if oauth.urlencoded:
        named = [urllib.parse.quote_plus(text) for text in named]
    credentials = base64.b64encode(":".join(named).encode()).decode()
    return urllib.request.Request(  # noqa: S310 - the scheme was checked
        oauth.url,
        urllib.parse.urlencode(form).encode(),
        {"Authorization": f"Basic {credentials}", "Accept": "application/json"},
    )


def _from_file(path: Path) -> Token:
    try:
        text = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        raise TokenError(f"the token in {path} cannot be read") from None
    if not _TOKEN.fullmatch(text):
        raise TokenError(f"{path} holds no token")
    return _token(text, _lifetime_s(text))


def _from_endpoint(
    request: urllib.request.Request, timeout_s: float, tls: ssl.SSLContext | None
) -> Token:
    address = urllib.parse.urlsplit(request.full_url).netloc.rpartition("@")[2]
    try:
        with urllib.request.urlopen(request, timeout=timeout_s, context=tls) as response:  # noqa: S310
            answer = json.loads(response.read(_MAX_BYTES))
        text = answer["access_token"]
        lifetime_s = float(answer.get("expires_in") or _lifetime_s(text))
        if not _TOKEN.fullmatch(text):
            raise ValueError
    except urllib.error.HTTPError as error:
        error.close()
        raise TokenError(
            f"the token endpoint at {address} responded with HTTP status {error.code}"
        ) from None
    except OSError as error:
        raise TokenError(
            f"the token endpoint at {address} cannot be reached: {_reason(error)}", retriable=True
        ) from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise TokenError(f"the token endpoint at {address} returned no access_token") from None
    return _token(text, lifetime_s)


def _reason(error: OSError) -> str:
    cause = error.reason if isinstance(error, urllib.error.URLError) else error
    return type(cause).__name__


def _token(text: str, lifetime_s: float) -> Token:
    if not 0 <= lifetime_s <= _LONGEST_LIFETIME_S:  # not a number, too
        lifetime_s = 0.0 if lifetime_s < 0 else _LONGEST_LIFETIME_S
    return Token(text, lifetime_s, time.monotonic())


def _lifetime_s(token: str) -> float:
    """Return the seconds until a JWT expires; an hour where it does not say."""
    try:
        claims = json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))
        return max(0.0, float(claims["exp"]) - time.time())
    except (ValueError, KeyError, TypeError, IndexError):
        return _LIFETIME_S


def _unsecured(claims: Mapping[str, str]) -> Token:
    now = time.time()
    body: dict[str, Any] = {**claims, "iat": now, "exp": now + _LIFETIME_S}
    parts = ({"alg": "none"}, body)
    encoded = (base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=") for part in parts)
    return _token(".".join(part.decode() for part in encoded) + ".", _LIFETIME_S)
