"""The keys of a Java client, as other clients take them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from penstock.configuration.errors import ConfigurationError
from penstock.configuration.stores import CHAIN, KEY, TRUSTED, location_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_JAAS: Final = re.compile(r"""(\w+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'([^']*)')""")
_LOGIN_MODULE: Final = re.compile(
    r"[\w.$]+\s+(required|requisite|sufficient|optional)\b", re.IGNORECASE
)
_WITH_PASSWORD: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_LOGIN: Final = {"username": "sasl.username", "password": "sasl.password"}
"""The options of a login module, and the keys of librdkafka that may stand in their place."""
_DROPPED: Final = {
    "ssl.truststore.type",
    "ssl.keystore.type",
    "ssl.enabled.protocols",
    "ssl.cipher.suites",  # in Java's names
    "default.api.timeout.ms",  # librdkafka has no such keys
    "fetch.max.wait.ms",
    "sasl.jaas.config",
}
_CONTENTS: Final = {TRUSTED: "ssl.ca.pem", CHAIN: "ssl.certificate.pem", KEY: "ssl.key.pem"}


def client_properties(properties: Mapping[str, str], folder: Path) -> dict[str, str]:
    """Translate a Java client's properties to librdkafka's.

    Args:
        properties: The keys after `upstream.`.
        folder: Where relative locations start.

    Raises:
        ConfigurationError: A store is one of Java.
    """
    result: dict[str, str] = {}
    for key, value in properties.items():
        if key == "ssl.keystore.location":
            path = _store(properties, folder, "keystore")
            result["ssl.certificate.location"] = result["ssl.key.location"] = path
        elif key == "ssl.truststore.location":
            result["ssl.ca.location"] = _store(properties, folder, "truststore")
        elif key == "ssl.endpoint.identification.algorithm":
            result[key] = value.strip() or "none"
        elif key in _CONTENTS:
            result[_CONTENTS[key]] = value
        elif key not in _DROPPED:
            result[key] = value
    if properties.get("sasl.jaas.config"):
        options = jaas_options(properties)
        result.setdefault("sasl.username", options.get("username", ""))
        result.setdefault("sasl.password", options.get("password", ""))
    return result


def check_login(properties: Mapping[str, str], file: Path) -> None:
    """Check that a login can be read from `sasl.jaas.config`. No error shows its value.

    Args:
        properties: The keys after `upstream.`, as a Java client takes them.
        file: The configuration file, for the error.

    Raises:
        ConfigurationError: It is no entry of JAAS, or has no user name or password.
    """
    jaas = properties.get("sasl.jaas.config", "").strip()
    where = f"{file}: upstream.sasl.jaas.config"
    if jaas and not _LOGIN_MODULE.match(jaas):
        raise ConfigurationError(
            f"{where} must be a login module and its options, such as "
            'org.apache.kafka.common.security.plain.PlainLoginModule required username="..." '
            'password="..."; its value is not shown, because it is a secret'
        )
    mechanism = properties.get("sasl.mechanism", properties.get("sasl.mechanisms", "")).strip()
    protocol = properties.get("security.protocol", "").strip().upper()
    if not protocol.startswith("SASL_") or mechanism not in _WITH_PASSWORD:
        return
    options = jaas_options(properties)
    missing = [one for one, key in _LOGIN.items() if not options.get(one) and key not in properties]
    if missing:
        wanted = " and ".join(f'{one}="..."' for one in missing)
        raise ConfigurationError(
            f"{where} needs {wanted} for upstream.sasl.mechanism={mechanism}; its value is not "
            "shown, because it is a secret"
        )


def _store(properties: Mapping[str, str], folder: Path, store: str) -> str:
    return str(location_of(properties, folder, store, "upstream.") or "")


def jaas_options(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the options in `sasl.jaas.config`, by name; none without it."""
    matches = _JAAS.finditer(properties.get("sasl.jaas.config", ""))
    return {match[1]: match[2] or match[3] or "" for match in matches}
