"""How the gateway's own principal logs in to the cluster: `sasl.*` after `upstream.`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.configuration.clients.jaas import jaas_options
from penstock.configuration.clients.oauth import OAuth, read_oauth
from penstock.configuration.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

_LOGIN_MODULE: Final = re.compile(
    r"[\w.$]+\s+(required|requisite|sufficient|optional)\b", re.IGNORECASE
)
_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI")


class Login(NamedTuple):
    """A login.

    Attributes:
        mechanism: The SASL mechanism.
        user: Of PLAIN and SCRAM.
        password: Of PLAIN and SCRAM.
        oauth: Where OAUTHBEARER gets its tokens; None for other mechanisms.
    """

    mechanism: str
    user: str = ""
    password: str = ""
    oauth: OAuth | None = None

    def __repr__(self) -> str:
        """Return the mechanism only; the rest can be secret."""
        return f"Login({self.mechanism})"


def read_login(properties: Mapping[str, str], where: str) -> Login | None:
    """Read how to log in; None where `security.protocol` has no SASL.

    Args:
        properties: The keys after `upstream.`, as a Java client takes them, and librdkafka's
            `sasl.username` and `sasl.password`.
        where: The file and `upstream.`, for errors.

    Raises:
        ConfigurationError: The mechanism is unknown, or one of its keys is missing. The
            text shows no value of `sasl.jaas.config`.
    """
    jaas = properties.get("sasl.jaas.config", "").strip()
    if jaas and not _LOGIN_MODULE.match(jaas):
        raise ConfigurationError(
            f"{where}sasl.jaas.config must be a login module and its options, such as "
            'org.apache.kafka.common.security.plain.PlainLoginModule required username="..." '
            'password="..."; its value is not shown, because it is a secret'
        )
    if not properties.get("security.protocol", "").strip().upper().startswith("SASL"):
        return None
    mechanism = (properties.get("sasl.mechanism") or "GSSAPI").strip()
    if mechanism not in _MECHANISMS:
        raise ConfigurationError(f"{where}sasl.mechanism must be one of {', '.join(_MECHANISMS)}")
    if mechanism == "GSSAPI":
        return Login(mechanism)
    if mechanism == "OAUTHBEARER":
        return Login(mechanism, oauth=read_oauth(properties, where))
    return _password(properties, mechanism, where)


def _password(properties: Mapping[str, str], mechanism: str, where: str) -> Login:
    handler = "sasl.login.callback.handler.class"
    if properties.get(handler, "").strip():
        raise ConfigurationError(
            f"{where}{handler} must be left out with {mechanism}: Penstock's client is written "
            "in Python, and cannot load a Java class"
        )
    options = jaas_options(properties)
    if options.get("tokenauth", "").lower() == "true":
        raise ConfigurationError(
            f"{where}sasl.jaas.config: delegation tokens (tokenauth) are not supported"
        )
    user = properties.get("sasl.username") or options.get("username")
    password = properties.get("sasl.password") or options.get("password")
    if not user or not password:
        raise ConfigurationError(
            f"{where}sasl.mechanism={mechanism} needs username and password in "
            f"{where.rpartition(' ')[2]}sasl.jaas.config"
        )
    return Login(mechanism, user, password)
