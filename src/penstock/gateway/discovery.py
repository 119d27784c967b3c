"""Asks the cluster where its brokers are, as the gateway's own principal."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from penstock.configuration import Address, ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_ALL_BROKERS_DOWN = KafkaError._ALL_BROKERS_DOWN  # noqa: SLF001 - its public name
_JAAS = re.compile(r"""(\w+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'([^']*)')""")
_DROPPED = {"ssl.truststore.type", "ssl.keystore.type", "sasl.jaas.config"}


class UnreachableError(Exception):
    """The cluster does not answer. The text says which addresses were tried, and why not."""


def brokers(properties: Mapping[str, str], folder: Path, timeout_s: float) -> dict[int, Address]:
    """Ask for the brokers' addresses. Blocks.

    Args:
        properties: The keys after `upstream.`, as a Java client takes them.
        folder: Where relative locations in them start.
        timeout_s: When to give up.

    Returns:
        Addresses by node id.

    Raises:
        UnreachableError: No answer came in time, or the cluster refuses us.
    """
    errors: list[KafkaError] = []
    settings: dict[str, Any] = {
        **client_properties(properties, folder),
        "client.id": "penstock",
        "log_level": 0,
        "socket.connection.setup.timeout.ms": 5000,
        "error_cb": errors.append,
    }
    admin = AdminClient(settings)
    try:
        nodes = admin.describe_cluster(request_timeout=timeout_s).result(timeout_s + 1).nodes
    except (KafkaException, TimeoutError) as error:
        admin.poll(0)  # hands us the errors of connections, which say more
        said = [one.str() for one in errors if one.code() != _ALL_BROKERS_DOWN]
        if not said:
            said = [error.args[0].str() if isinstance(error, KafkaException) else "no answer"]
        raise UnreachableError(
            f"upstream.bootstrap.servers {properties['bootstrap.servers']}: {said[-1]}"
        ) from None
    return {node.id: Address(node.host, node.port) for node in nodes}


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


def check(properties: Mapping[str, str], file: Path) -> None:
    """Check, without connecting, that a client could be made of the keys.

    Raises:
        ConfigurationError: It could not.
    """
    try:
        AdminClient({**client_properties(properties, file.parent), "log_level": 0})
    except KafkaException as error:
        raise ConfigurationError(f"{file}: upstream.*: {error.args[0].str()}") from None
