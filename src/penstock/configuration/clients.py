"""The keys of a Java client, as other clients take them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_JAAS: Final = re.compile(r"""(\w+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'([^']*)')""")
_DROPPED: Final = {
    "ssl.truststore.type",
    "ssl.keystore.type",
    "ssl.enabled.protocols",
    "ssl.cipher.suites",  # in Java's names
    "sasl.jaas.config",
}


def client_properties(properties: Mapping[str, str], folder: Path) -> dict[str, str]:
    """Translate a Java client's properties to librdkafka's.

    Args:
        properties: The keys after `upstream.`.
        folder: Where relative locations start.
    """
    result: dict[str, str] = {}
    for key, value in properties.items():
        if key == "ssl.keystore.location":
            path = str(folder / value)
            result["ssl.certificate.location"] = result["ssl.key.location"] = path
        elif key == "ssl.truststore.location":
            result["ssl.ca.location"] = str(folder / value)
        elif key == "ssl.endpoint.identification.algorithm":
            result[key] = value.strip() or "none"
        elif key not in _DROPPED:
            result[key] = value
    jaas = properties.get("sasl.jaas.config")
    if jaas:
        options = {match[1]: match[2] or match[3] or "" for match in _JAAS.finditer(jaas)}
        result.setdefault("sasl.username", options.get("username", ""))
        result.setdefault("sasl.password", options.get("password", ""))
    return result


def java_properties(properties: Mapping[str, str], folder: Path) -> dict[str, str]:
    """Complete a Java client's properties: PEM stores, and locations from `folder` on.

    Args:
        properties: The keys after `upstream.`.
        folder: Where relative locations start.
    """
    result = dict(properties)
    for store in ("keystore", "truststore"):
        location = properties.get(f"ssl.{store}.location")
        if location:
            result[f"ssl.{store}.location"] = str(folder / location)
            result.setdefault(f"ssl.{store}.type", "PEM")
    return result
