"""The grant of client credentials (OAuth 2.0): its requests, and the tokens in its responses.

The login at brokers (KIP-768) and that at a schema registry share it. What sends the request, and
when a token is replaced, is theirs.
Source: RFC 6749 (2.3.1, 4.4, 5.1) and RFC 7519 (4.1.4).
"""

from __future__ import annotations

import json
import math
import re
from base64 import b64encode, urlsafe_b64decode
from typing import Final, NamedTuple
from urllib.parse import quote_plus, urlencode

_LIFETIME_S: Final = 3600.0
_LONGEST_LIFETIME_S: Final = 30 * 86_400.0
_INVALID_LIFETIME_S: Final = 1e9
_LONGEST: Final = 65_536
_DIGITS: Final = re.compile(r"[0-9]{1,10}")
_TOKEN: Final = re.compile(r"[\x21-\x7e]+")


class InvalidTokenError(ValueError):
    """A token cannot be used. The message, without its text, completes "the endpoint ..."."""


class TokenRequest(NamedTuple):
    """A request to a token endpoint, by POST.

    Attributes:
        headers: With the client's id and secret.
    """

    body: bytes
    headers: dict[str, str]


def token_request(
    client_id: str, client_secret: str, scope: str, *, urlencoded: bool = False
) -> TokenRequest:
    """Return the request for a token.

    Args:
        client_id: The client's id.
        client_secret: The client's secret.
        scope: The scope to request; empty for the endpoint's default.
        urlencoded: Whether id and secret are encoded as in a URL, as RFC 6749 wants it.
    """
    form = {"grant_type": "client_credentials"} | ({"scope": scope} if scope else {})
    login = [client_id, client_secret]
    if urlencoded:
        login = [quote_plus(text) for text in login]
    headers = {
        "Authorization": f"Basic {b64encode(':'.join(login).encode()).decode()}",
        "Content-Type": "application/x-www-form-urlencoded",
        "Accept": "application/json",
    }
    return TokenRequest(urlencode(form).encode(), headers)


def read_token(body: bytes, now: float) -> tuple[str, float]:
    """Return the token in the body of a response, and its lifetime in seconds, 30 days at most.

    Args:
        body: Of a response with status 200.
        now: The time, in seconds since 1970.

    Raises:
        InvalidTokenError: It has no token, or no usable lifetime.
    """
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        document = None
    token = document.get("access_token") if isinstance(document, dict) else None
    if not isinstance(token, str) or not is_token(token):
        raise InvalidTokenError("returned no access_token")
    lifetime = document.get("expires_in")
    if lifetime is None:
        return token, lifetime_of(token, now)
    if isinstance(lifetime, str) and _DIGITS.fullmatch(lifetime):
        lifetime = int(lifetime)
    if not isinstance(lifetime, int | float) or not 0 < lifetime < _INVALID_LIFETIME_S:
        raise InvalidTokenError("returned no usable expires_in")
    return token, min(float(lifetime), _LONGEST_LIFETIME_S)


def is_token(text: str) -> bool:
    """Return whether a text can be a token: printable ASCII without spaces."""
    return len(text) <= _LONGEST and _TOKEN.fullmatch(text) is not None


def lifetime_of(token: str, now: float) -> float:
    """Return the seconds until a JWT expires, 30 days at most; an hour if it does not say.

    Args:
        token: The token. It need not be a JWT.
        now: The time, in seconds since 1970.

    Raises:
        InvalidTokenError: It expires at something that is not a time.
    """
    try:
        claims = json.loads(urlsafe_b64decode(token.split(".")[1] + "=="))
        expires = float(claims["exp"])
    except OverflowError:
        expires = math.inf
    except (ValueError, KeyError, TypeError, IndexError, RecursionError):
        return _LIFETIME_S
    if not math.isfinite(expires):
        raise InvalidTokenError("returned a token whose exp is not a time")
    return min(max(0.0, expires - now), _LONGEST_LIFETIME_S)
