"""Where the tokens of SASL OAUTHBEARER come from.

The keys are those of Kafka's own clients (KIP-768, KIP-1025, KIP-1139); the options of
`sasl.jaas.config` are those of `OAuthBearerLoginModule`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import urlsplit

from penstock.configuration.clients.jaas import jaas_options
from penstock.configuration.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

TOKEN_URL: Final = "sasl.oauthbearer.token.endpoint.url"  # noqa: S105 - the name of a key
HANDLER: Final = "sasl.login.callback.handler.class"
_CLIENT_ID: Final = "sasl.oauthbearer.client.credentials.client.id"
_CLIENT_SECRET: Final = "sasl.oauthbearer.client.credentials.client.secret"  # noqa: S105 - a key
_SCOPE: Final = "sasl.oauthbearer.scope"
_RETRIEVER: Final = "sasl.oauthbearer.jwt.retriever.class"
_PACKAGE: Final = "org.apache.kafka.common.security.oauthbearer"
FROM_URL: Final = f"{_PACKAGE}.OAuthBearerLoginCallbackHandler"
"""The handler of a Java client that gets its tokens from a URL."""
_HANDLERS: Final = (
    FROM_URL,
    f"{_PACKAGE}.secured.OAuthBearerLoginCallbackHandler",
    f"{_PACKAGE}.internals.secured.OAuthBearerLoginCallbackHandler",
    f"{_PACKAGE}.internals.unsecured.OAuthBearerUnsecuredLoginCallbackHandler",
)
_RETRIEVERS: Final = tuple(
    f"{_PACKAGE}.{name}"
    for name in ("DefaultJwtRetriever", "ClientCredentialsJwtRetriever", "FileJwtRetriever")
)
_EXTENSION: Final = "extension_"
_UNSECURED: Final = "unsecuredLoginStringClaim_"
_TLS: Final = "ssl."
_TIMEOUT_MS: Final = 10_000
_USED_FOR: Final = 0.8
"""`sasl.login.refresh.window.factor` of Kafka."""


class OAuth(NamedTuple):
    """The source of tokens, and the content of requests for them.

    Attributes:
        url: `https:`, `http:` or `file:`; empty for unsecured tokens.
        client_id: For the client credentials grant.
        client_secret: For the client credentials grant.
        scope: Empty for none.
        urlencoded: Whether client id and secret are URL-encoded (KIP-1025).
        timeout_s: For the endpoint to accept a connection and to respond.
        used_for: The share of its lifetime that a token is used for.
        extensions: Sent along with a token (KIP-342).
        claims: Of an unsecured token.
        tls: `ssl.*` for the endpoint; relative locations start at the configuration's folder.
    """

    url: str
    client_id: str
    client_secret: str
    scope: str
    urlencoded: bool
    timeout_s: float
    used_for: float
    extensions: Mapping[str, str]
    claims: Mapping[str, str]
    tls: Mapping[str, str]

    def __repr__(self) -> str:
        """Return the kind of the URL only; the rest can be secret."""
        return f"OAuth({urlsplit(self.url).scheme or 'unsecured'})"


def read_oauth(properties: Mapping[str, str], where: str) -> OAuth:
    """Read where tokens come from. Nothing is contacted.

    Args:
        properties: The keys after `upstream.`.
        where: The file and `upstream.`, for errors.

    Raises:
        ConfigurationError: They do not say it, or name a Java class that is not Kafka's own.
    """
    _check_class(properties, HANDLER, _HANDLERS, where)
    _check_class(properties, _RETRIEVER, _RETRIEVERS, where)
    options = jaas_options(properties)
    url = properties.get(TOKEN_URL, "").strip()
    claims = _beginning(options, _UNSECURED)
    if not url and not claims.get("sub"):
        raise ConfigurationError(
            f"{where}sasl.mechanism=OAUTHBEARER needs {_key(where, TOKEN_URL)} "
            "(http, https or file)"
        )
    oauth = OAuth(
        url,
        properties.get(_CLIENT_ID) or options.get("clientId", ""),
        properties.get(_CLIENT_SECRET) or options.get("clientSecret", ""),
        properties.get(_SCOPE) or options.get("scope", ""),
        properties.get("sasl.oauthbearer.header.urlencode", "").strip().lower() == "true",
        _timeout_s(properties),
        float(properties.get("sasl.login.refresh.window.factor") or _USED_FOR),
        _beginning(options, _EXTENSION),
        {} if url else claims,
        {name: value for name, value in options.items() if name.startswith(_TLS)},
    )
    if url:
        _check_url(oauth, where)
    return oauth


def _check_url(oauth: OAuth, where: str) -> None:
    scheme = urlsplit(oauth.url).scheme
    if scheme not in {"http", "https", "file"}:
        raise ConfigurationError(f"{where}{TOKEN_URL} must begin with https:, http: or file:")
    if scheme != "file" and not (oauth.client_id and oauth.client_secret):
        raise ConfigurationError(
            f"{where}{TOKEN_URL} needs clientId and clientSecret in "
            f"{_key(where, 'sasl.jaas.config')}, or {_key(where, _CLIENT_ID)} and "
            f"{_key(where, _CLIENT_SECRET)}"
        )


def _check_class(
    properties: Mapping[str, str], key: str, known_classes: tuple[str, ...], where: str
) -> None:
    if properties.get(key, "").strip() not in {"", *known_classes}:
        raise ConfigurationError(
            f"{where}{key} must be {known_classes[0]}, or left out: Penstock's client is written "
            "in Python, and cannot load a Java class"
        )


def _timeout_s(properties: Mapping[str, str]) -> float:
    """Return the timeout for a connection and a response together, in seconds: the longer one."""
    keys = ("sasl.login.connect.timeout.ms", "sasl.login.read.timeout.ms")
    return max(int(properties.get(key) or 0) or _TIMEOUT_MS for key in keys) / 1000


def _beginning(options: Mapping[str, str], prefix: str) -> dict[str, str]:
    return {
        name.removeprefix(prefix): value
        for name, value in options.items()
        if name.startswith(prefix)
    }


def _key(where: str, key: str) -> str:
    """Return a key as it is in the file."""
    return f"{where.rpartition(' ')[2]}{key}"
