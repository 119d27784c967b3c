"""The keys of a Java client, as other clients take them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from penstock.configuration.stores import CHAIN, KEY, TRUSTED, location_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_JAAS: Final = re.compile(r"""(\w+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'([^']*)')""")
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


def _store(properties: Mapping[str, str], folder: Path, store: str) -> str:
    return str(location_of(properties, folder, store, "upstream.") or "")


def jaas_options(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the options in `sasl.jaas.config`, by name; none without it."""
    matches = _JAAS.finditer(properties.get("sasl.jaas.config", ""))
    return {match[1]: match[2] or match[3] or "" for match in matches}
