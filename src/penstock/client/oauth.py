"""Tokens of SASL OAUTHBEARER: from an OAuth endpoint, from a file, or unsecured ones for tests.

The keys are those of Kafka's own clients (KIP-768, KIP-1139) and of librdkafka; the options of
`sasl.jaas.config` are those of `OAuthBearerLoginModule`.
"""

from __future__ import annotations

import asyncio
import base64
import json
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from aiokafka.abc import AbstractTokenProvider

from penstock.client.errors import LoginError
from penstock.configuration.clients import jaas_options
from penstock.configuration.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_URL: Final = "sasl.oauthbearer.token.endpoint.url"
_CLIENT_IDS: Final = (
    "sasl.oauthbearer.client.credentials.client.id",
    "sasl.oauthbearer.client.id",
)
_CLIENT_SECRETS: Final = (
    "sasl.oauthbearer.client.credentials.client.secret",
    "sasl.oauthbearer.client.secret",
)
_SCOPE: Final = "sasl.oauthbearer.scope"
_EXTENSION: Final = "extension_"
_UNSECURED: Final = "unsecuredLoginStringClaim_"
_TIMEOUT_S: Final = 10.0
_LIFETIME_S: Final = 3600
_USED_FOR: Final = 0.8
"""The share of its lifetime that a token is used for, as in Kafka (login refresh window)."""
_MAX_BYTES: Final = 2**20


class _Token(NamedTuple):
    text: str
    lifetime_s: float


class TokenProvider(AbstractTokenProvider):  # type: ignore[misc]
    """Obtains tokens, each used for 80 % of its lifetime."""

    def __init__(self, obtain: Callable[[], _Token], extensions: Mapping[str, str]) -> None:
        self._obtain = obtain
        self._extensions = dict(extensions)
        self._token = ""
        self._until = 0.0

    async def token(self) -> str:
        """Return a token.

        Raises:
            LoginError: There is none.
        """
        if time.monotonic() >= self._until:
            found = await asyncio.to_thread(self._obtain)
            self._token = found.text
            self._until = time.monotonic() + _USED_FOR * found.lifetime_s
        return self._token

    def extensions(self) -> dict[str, str]:
        """Return what is sent along with the token (KIP-342)."""
        return self._extensions


def token_provider(properties: Mapping[str, str], where: str) -> TokenProvider:
    """Make the provider that the properties describe. Nothing is contacted.

    Args:
        properties: The keys after `upstream.`.
        where: The file and the prefix of the keys, for errors.

    Raises:
        ConfigurationError: They describe none.
    """
    options = jaas_options(properties)
    extensions = {
        name.removeprefix(_EXTENSION): value
        for name, value in options.items()
        if name.startswith(_EXTENSION)
    }
    url = properties.get(_URL, "").strip()
    if url:
        return TokenProvider(_from_url(url, properties, options, where), extensions)
    claims = {
        name.removeprefix(_UNSECURED): value
        for name, value in options.items()
        if name.startswith(_UNSECURED)
    }
    if not claims.get("sub"):
        raise ConfigurationError(
            f"{where}sasl.mechanism=OAUTHBEARER needs {where}{_URL} (http, https or file)"
        )
    return TokenProvider(lambda: _unsecured(claims), extensions)


def _from_url(
    url: str, properties: Mapping[str, str], options: Mapping[str, str], where: str
) -> Callable[[], _Token]:
    parts = urllib.parse.urlsplit(url)
    if parts.scheme == "file":
        path = Path(urllib.request.url2pathname(parts.path))
        return lambda: _from_file(path)
    if parts.scheme not in {"http", "https"}:
        raise ConfigurationError(f"{where}{_URL} must begin with https:, http: or file:")
    client = options.get("clientId") or _first(properties, _CLIENT_IDS)
    secret = options.get("clientSecret") or _first(properties, _CLIENT_SECRETS)
    if not client or not secret:
        raise ConfigurationError(
            f"{where}{_URL} needs clientId and clientSecret in {where}sasl.jaas.config, or "
            f"{where}{_CLIENT_IDS[0]} and {where}{_CLIENT_SECRETS[0]}"
        )
    scope = options.get("scope") or properties.get(_SCOPE, "")
    form = {"grant_type": "client_credentials", **({"scope": scope} if scope else {})}
    credentials = base64.b64encode(f"{client}:{secret}".encode()).decode()
    request = urllib.request.Request(  # noqa: S310 - the scheme was checked
        url,
        urllib.parse.urlencode(form).encode(),
        {"Authorization": f"Basic {credentials}", "Accept": "application/json"},
    )
    return lambda: _from_endpoint(request)


def _first(properties: Mapping[str, str], keys: tuple[str, ...]) -> str:
    return next((properties[key] for key in keys if properties.get(key)), "")


def _from_file(path: Path) -> _Token:
    try:
        text = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        raise LoginError(f"the token in {path} cannot be read") from None
    return _Token(text, _lifetime(text))


def _from_endpoint(request: urllib.request.Request) -> _Token:
    address = urllib.parse.urlsplit(request.full_url).netloc.rpartition("@")[2]
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as response:  # noqa: S310
            answer = json.loads(response.read(_MAX_BYTES))
        token = answer["access_token"]
        lifetime = float(answer.get("expires_in") or _lifetime(token))
    except urllib.error.HTTPError as error:
        error.close()
        raise LoginError(
            f"the token endpoint at {address} responded with HTTP status {error.code}"
        ) from None
    except OSError as error:
        raise LoginError(
            f"the token endpoint at {address} cannot be reached: {type(error).__name__}",
            retriable=True,
        ) from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise LoginError(f"the token endpoint at {address} returned no access_token") from None
    return _Token(token, lifetime)


def _lifetime(token: str) -> float:
    """Return the seconds until a JWT expires; an hour where it does not say."""
    try:
        claims = json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))
        return max(0.0, float(claims["exp"]) - time.time())
    except (ValueError, KeyError, TypeError, IndexError):
        return _LIFETIME_S


def _unsecured(claims: Mapping[str, str]) -> _Token:
    now = time.time()
    body: dict[str, Any] = {**claims, "iat": now, "exp": now + _LIFETIME_S}
    parts = ({"alg": "none"}, body)
    encoded = (base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=") for part in parts)
    return _Token(".".join(part.decode() for part in encoded) + ".", _LIFETIME_S)
