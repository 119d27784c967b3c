"""Asks the cluster where its brokers are, as the gateway's own principal."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from penstock.configuration import Address, ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_JAAS = re.compile(r"""(\w+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'([^']*)')""")
# Java client keys that librdkafka names otherwise.
_RENAMED = {
    "ssl.truststore.location": "ssl.ca.location",
    "sasl.mechanism": "sasl.mechanism",
    "ssl.key.password": "ssl.key.password",
}
_DROPPED = {"ssl.truststore.type", "ssl.keystore.type", "sasl.jaas.config"}


class UnreachableError(Exception):
    """The cluster does not answer. The text says which addresses were tried, and why not."""


def brokers(properties: Mapping[str, str], timeout_s: float) -> dict[int, Address]:
    """Ask for the brokers' addresses. Blocks.

    Args:
        properties: The keys after `upstream.`, as a Java client takes them.
        timeout_s: When to give up.

    Returns:
        Addresses by node id.

    Raises:
        UnreachableError: No answer came in time, or the cluster refuses us.
    """
    reasons: list[str] = []
    settings: dict[str, Any] = {
        **client_properties(properties),
        "client.id": "penstock",
        "log_level": 0,
        "socket.connection.setup.timeout.ms": 5000,
        "error_cb": lambda error: reasons.append(error.str()),
    }
    try:
        admin = AdminClient(settings)
        nodes = admin.describe_cluster(request_timeout=timeout_s).result(timeout_s + 1).nodes
    except KafkaException as error:
        raise UnreachableError(
            f"upstream.bootstrap.servers {properties['bootstrap.servers']}: "
            + (reasons[-1] if reasons else error.args[0].str())
        ) from None
    except TimeoutError:
        raise UnreachableError(
            f"upstream.bootstrap.servers {properties['bootstrap.servers']}: no answer"
        ) from None
    return {node.id: Address(node.host, node.port) for node in nodes}


def client_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """Translate a Java client's properties to librdkafka's."""
    result: dict[str, str] = {}
    for key, value in properties.items():
        if key == "ssl.keystore.location":
            result["ssl.certificate.location"] = result["ssl.key.location"] = value
        elif key == "ssl.endpoint.identification.algorithm":
            result[key] = value.strip() or "none"
        elif key not in _DROPPED:
            result[_RENAMED.get(key, key)] = value
    jaas = properties.get("sasl.jaas.config")
    if jaas:
        options = {match[1]: match[2] or match[3] or "" for match in _JAAS.finditer(jaas)}
        result.setdefault("sasl.username", options.get("username", ""))
        result.setdefault("sasl.password", options.get("password", ""))
    return result


def check(properties: Mapping[str, str], file: Path) -> None:
    """Check, without connecting, that a client could be made of the keys.

    Raises:
        ConfigurationError: It could not.
    """
    try:
        AdminClient({**client_properties(properties), "log_level": 0})
    except KafkaException as error:
        raise ConfigurationError(f"{file}: upstream.*: {error.args[0].str()}") from None
