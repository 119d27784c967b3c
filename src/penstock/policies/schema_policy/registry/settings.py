"""The keys `schema.registry.*`: where the registry is, and how Penstock shows who it is.

The names are those of Confluent's clients, with `schema.registry.` before them.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from penstock.policies.schema_policy.registry.contexts import DEFAULT_CONTEXT, context_of_url
from penstock.policies.schema_policy.registry.tls import (
    KEY_PASSWORD,
    TLS_KEYS,
    client_context,
)
from penstock.policy import ConfigKey

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping, Sequence

PREFIX: Final = "schema.registry."
URL: Final = "schema.registry.url"
USER_INFO: Final = "schema.registry.basic.auth.user.info"
USER_SOURCE: Final = "schema.registry.basic.auth.credentials.source"
TOKEN: Final = "schema.registry.bearer.auth.token"  # noqa: S105 - a name
TOKEN_SOURCE: Final = "schema.registry.bearer.auth.credentials.source"  # noqa: S105 - a name
LOGICAL_CLUSTER: Final = "schema.registry.bearer.auth.logical.cluster"
IDENTITY_POOL: Final = "schema.registry.bearer.auth.identity.pool.id"
ISSUER: Final = "schema.registry.bearer.auth.issuer.endpoint.url"
CLIENT_ID: Final = "schema.registry.bearer.auth.client.id"
CLIENT_SECRET: Final = "schema.registry.bearer.auth.client.secret"  # noqa: S105 - a name
_CLOSE: Final = 0.88
SCOPE: Final = "schema.registry.bearer.auth.scope"
EXPIRY_BUFFER: Final = "schema.registry.bearer.auth.cache.expiry.buffer.seconds"
STATIC_TOKEN: Final = "STATIC_TOKEN"  # noqa: S105 - a name
OAUTHBEARER: Final = "OAUTHBEARER"
TIMEOUT: Final = "schema.registry.timeout.ms"
CACHE: Final = "schema.registry.cache.dir"
KEYS: Final = {
    URL: (
        "",
        (
            "The registry's URL, `http://` or `https://`. You can list several URLs of one "
            "registry, separated by commas. If one does not answer, or does not know the id, the "
            "next is used. The URL can have a path: `https://host/apis/ccompat/v7`, "
            "`https://host/contexts/.name`."
        ),
    ),
    USER_INFO: ("", "`user:password`, sent with each request."),
    USER_SOURCE: ("USER_INFO", "`USER_INFO`: there is no other source."),
    TOKEN: ("", "A token, sent with each request."),
    TOKEN_SOURCE: (
        STATIC_TOKEN,
        "`STATIC_TOKEN`: the token in the file. `OAUTHBEARER`: tokens from a token endpoint.",
    ),
    ISSUER: ("", "With `OAUTHBEARER`: the URL of the token endpoint (OAuth client credentials)."),
    CLIENT_ID: ("", "With `OAUTHBEARER`: the client id."),
    CLIENT_SECRET: ("", "With `OAUTHBEARER`: the client secret."),
    SCOPE: ("", "With `OAUTHBEARER`: the scope to request."),
    EXPIRY_BUFFER: (
        "300",
        (
            "With `OAUTHBEARER`: the number of seconds before a token expires at which the next "
            "is fetched. A token with a shorter lifetime is replaced after 80 % of it."
        ),
    ),
    LOGICAL_CLUSTER: ("", "Confluent Cloud's id of the registry, with a token."),
    IDENTITY_POOL: ("", "Confluent Cloud's id of an identity pool, with a token."),
    TIMEOUT: ("5000", "Deadline of one look-up over all URLs, in milliseconds."),
    CACHE: (
        "",
        (
            "A folder that keeps responses across a restart, so that gateways and jobs continue "
            "while the registry is unavailable. Anyone who can write there decides which records "
            "are accepted."
        ),
    ),
    **TLS_KEYS,
}
"""The keys, with their defaults and meanings for the configuration reference."""
SECRETS: Final = frozenset({USER_INFO, TOKEN, CLIENT_SECRET, KEY_PASSWORD})
"""Those whose values are not shown."""
CONFIG_KEYS: Final = tuple(
    ConfigKey(name, "PASSWORD" if name in SECRETS else "STRING", default or None, meaning)
    for name, (default, meaning) in KEYS.items()
)
"""The same, for policies that have names."""
_MOST_URLS: Final = 10
_LONGEST_TIMEOUT: Final = 600_000
_PRINTABLE: Final = re.compile(r"[\x21-\x7e]+")
"""The allowed contents of a header that a client sends."""


@dataclass(frozen=True, slots=True)
class OAuthSettings:
    """Where tokens come from, and for whom. The printed form shows no secret.

    Attributes:
        url: The token endpoint.
        client_id: The client's id.
        client_secret: By what that is known.
        scope: The requested scope; may be empty.
        buffer: How many seconds before a token expires another is fetched.
    """

    url: str
    client_id: str
    client_secret: str = field(repr=False)
    scope: str = ""
    buffer: float = 300.0


@dataclass(frozen=True, slots=True)
class RegistrySettings:
    """The values of the keys. The printed form shows no secret.

    Attributes:
        urls: At least one, without a slash at the end.
        context: The registry's context that they are of.
        cache_folder: Where answers outlive the process; None for nowhere.
        oauth: Where tokens are fetched; None where none are.
        timeout: Seconds that a look-up may take.
        user_info: `user:password`, or empty.
        headers: The headers of the login, besides `user_info`: a token and those that belong to it.
        tls: The TLS settings of HTTPS; None if no URL is HTTPS.
    """

    urls: tuple[str, ...]
    timeout: float
    user_info: str = field(default="", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    tls: ssl.SSLContext | None = field(default=None, repr=False)
    context: str = DEFAULT_CONTEXT
    cache_folder: Path | None = None
    oauth: OAuthSettings | None = None

    @property
    def caller(self) -> tuple[str, ...]:
        """The client: with the same URLs, others may be given another registry's answers.

        Confluent Cloud chooses a registry by the API key or the logical cluster. Passwords and
        secrets, which are renewed, have no part in it; of a token, which is all that there may
        be, a hash has.
        """
        user, _, _ = self.user_info.partition(":")
        headers = {name.lower(): value for name, value in self.headers.items()}
        token = headers.pop("authorization", "")
        return (
            user,
            sha256(token.encode()).hexdigest() if token else "",
            *(f"{name}: {headers[name]}" for name in sorted(headers)),
            *((self.oauth.url, self.oauth.client_id, self.oauth.scope) if self.oauth else ()),
        )

    @classmethod
    def from_configs(
        cls, configs: Mapping[str, str], folder: Path | None = None
    ) -> RegistrySettings | None:
        """Read the keys out of a configuration, and the files that it names.

        Args:
            configs: All keys; those that do not start with `schema.registry.` are passed over.
            folder: Where relative locations of files start.

        Returns:
            The settings; None where there is no `schema.registry.url` and no other of the keys.

        Raises:
            ValueError: A key is unknown, has a value that it cannot have, or needs another key;
                or a file cannot be used. The text names the key, and shows no secret.
        """
        registry_configs = {key: value for key, value in configs.items() if key.startswith(PREFIX)}
        for key in registry_configs:
            if key not in KEYS:
                close = difflib.get_close_matches(key, KEYS, n=1, cutoff=_CLOSE)
                hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(KEYS)}"
                raise ValueError(f"{key} is unknown; {hint}")
        if not registry_configs:
            return None
        urls = _urls(registry_configs.get(URL, ""))
        _only(registry_configs, USER_SOURCE)
        oauth = _oauth(registry_configs)
        secure = any(url.startswith("https:") for url in (*urls, oauth.url if oauth else ""))
        if not secure:
            for key in registry_configs:
                if key in TLS_KEYS:
                    raise ValueError(f"{key} needs a URL in {URL} that begins with https://")
        return cls(
            urls,
            _timeout(registry_configs.get(TIMEOUT, KEYS[TIMEOUT][0])),
            _user_info(registry_configs),
            _bearer(registry_configs),
            client_context(registry_configs, folder or Path()) if secure else None,
            _context(urls),
            _cache_folder(registry_configs, folder or Path()),
            oauth,
        )


def _urls(text: str) -> tuple[str, ...]:
    parts = tuple(dict.fromkeys(part.strip().rstrip("/") for part in text.split(",")))
    if not text.strip() or len(parts) > _MOST_URLS:
        raise ValueError(
            f"{URL} must be a URL like https://registry.example:8081, or up to {_MOST_URLS} of "
            f"them separated by commas, not {len(parts) if text.strip() else 'nothing'}"
        )
    for number, part in enumerate(parts, 1):
        problem = _problem(part)
        if problem:
            # The URL itself may hold a password, so it is not shown.
            which = f"URL {number} of {URL}" if len(parts) > 1 else URL
            raise ValueError(f"{which} {problem}")
    return parts


def _context(urls: Sequence[str]) -> str:
    contexts = {context_of_url(url) for url in urls}
    if len(contexts) > 1:
        raise ValueError(
            f"all URLs of {URL} must be of one context, not of {', '.join(sorted(contexts))}"
        )
    return contexts.pop()


def _problem(url: str) -> str:
    """Return the fault of a URL, or nothing."""
    if url and not _PRINTABLE.fullmatch(url):
        return "must be ASCII text without spaces and control characters"
    try:
        parts = urlsplit(url)
        _ = parts.port  # raises
    except ValueError:
        return "is not a URL like https://registry.example:8081"
    if "@" in parts.netloc:
        return f"must not contain a user or a password; they belong into {USER_INFO}"
    if parts.scheme.lower() not in {"http", "https"} or not parts.hostname:
        return "must begin with http:// or https:// and a host"
    if parts.query or parts.fragment:
        return "must end with its path, without a query or a fragment"
    try:
        context_of_url(url)
    except ValueError as error:
        return str(error)
    return ""


def _timeout(text: str) -> float:
    number = int(text) if re.fullmatch(r"\s*\d{1,9}\s*", text) else 0
    if not 1 <= number <= _LONGEST_TIMEOUT:
        raise ValueError(
            f"{TIMEOUT} must be a number of milliseconds from 1 to {_LONGEST_TIMEOUT}, "
            f"not {text.strip() or 'nothing'}"
        )
    return number / 1000


def _cache_folder(configs: Mapping[str, str], folder: Path) -> Path | None:
    name = configs.get(CACHE, "").strip()
    if not name:
        return None
    path = folder / name
    for part in (path, *path.parents):
        if part.is_dir():
            return path.absolute()
        if part.exists():
            break
    raise ValueError(f"{CACHE} must name a folder, and {part} is not a folder")


def _only(configs: Mapping[str, str], key: str) -> None:
    """Confluent's clients need some keys, whose one value here is the default."""
    default = KEYS[key][0]
    if configs.get(key, default).strip().upper() != default:
        raise ValueError(f"{key} must be {default}: Penstock has no other source of credentials")


def _user_info(configs: Mapping[str, str]) -> str:
    text = configs.get(USER_INFO, "").strip()
    if USER_INFO not in configs:
        return ""
    user, colon, _ = text.partition(":")
    if not user or not colon or not text.isprintable():
        raise ValueError(f"{USER_INFO} must be user:password")
    if TOKEN in configs:
        raise ValueError(f"{USER_INFO} and {TOKEN} cannot both be given")
    return text


def _oauth(configs: Mapping[str, str]) -> OAuthSettings | None:
    """Return where tokens are fetched, if they are."""
    source = configs.get(TOKEN_SOURCE, STATIC_TOKEN).strip().upper()
    if source not in {STATIC_TOKEN, OAUTHBEARER}:
        raise ValueError(f"{TOKEN_SOURCE} must be {STATIC_TOKEN} or {OAUTHBEARER}")
    if source == STATIC_TOKEN:
        for key in (ISSUER, CLIENT_ID, CLIENT_SECRET, SCOPE, EXPIRY_BUFFER):
            if key in configs:
                raise ValueError(f"{key} needs {TOKEN_SOURCE}={OAUTHBEARER}")
        return None
    for key in (TOKEN, USER_INFO):
        if key in configs:
            raise ValueError(f"{key} and {TOKEN_SOURCE}={OAUTHBEARER} cannot both be given")
    url, client, secret = (_needed(configs, key) for key in (ISSUER, CLIENT_ID, CLIENT_SECRET))
    problem = _problem(url)
    if problem:
        raise ValueError(f"{ISSUER} {problem}")
    if ":" in client:
        raise ValueError(f"{CLIENT_ID} must not contain a colon")
    buffer = configs.get(EXPIRY_BUFFER, KEYS[EXPIRY_BUFFER][0]).strip()
    if not re.fullmatch(r"\d{1,5}", buffer):
        raise ValueError(f"{EXPIRY_BUFFER} must be a number of seconds, not {buffer or 'nothing'}")
    return OAuthSettings(url, client, secret, configs.get(SCOPE, "").strip(), float(buffer))


def _needed(configs: Mapping[str, str], key: str) -> str:
    value = configs.get(key, "").strip()
    if not value or not value.isprintable():
        raise ValueError(f"{TOKEN_SOURCE}={OAUTHBEARER} needs {key}, a text on one line")
    return value


def _bearer(configs: Mapping[str, str]) -> dict[str, str]:
    """Return the headers of a token.

    Source: `BearerAuthCredentialProvider` of Confluent's client, and its `RestService`.
    """
    names = {
        TOKEN: "Authorization",
        LOGICAL_CLUSTER: "target-sr-cluster",
        IDENTITY_POOL: "Confluent-Identity-Pool-Id",
    }
    headers: dict[str, str] = {}
    for key, name in names.items():
        if key not in configs:
            continue
        value = configs[key].strip()
        if not _PRINTABLE.fullmatch(value):
            raise ValueError(
                f"{key} must have only letters, digits and punctuation, without spaces"
            )
        if TOKEN not in configs and ISSUER not in configs:
            raise ValueError(f"{key} needs {TOKEN} or {ISSUER}")
        headers[name] = f"Bearer {value}" if key == TOKEN else value
    return headers
