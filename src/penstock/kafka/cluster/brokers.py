"""The addresses of the brokers, requested by the gateway's own principal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from confluent_kafka import KafkaError, KafkaException

from penstock.configuration import Address
from penstock.errors import UnavailableError
from penstock.kafka.cluster.connection_faults import fault_of
from penstock.kafka.cluster.futures import result_of
from penstock.kafka.cluster.librdkafka import admin_client, client_settings

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from confluent_kafka.admin import AdminClient

_ALL_BROKERS_DOWN = KafkaError._ALL_BROKERS_DOWN  # noqa: SLF001 - its public name


class UnreachableError(UnavailableError):
    """The cluster does not respond. The message has the addresses that were tried, and why."""


class ClusterDescription(NamedTuple):
    """The cluster id and the brokers.

    Attributes:
        brokers: Addresses by node id.
    """

    cluster_id: str
    brokers: dict[int, Address]


def describe(properties: Mapping[str, str], folder: Path, timeout_s: float) -> ClusterDescription:
    """Return the cluster id and the addresses of the brokers. Blocks.

    Args:
        properties: The keys after `upstream.`, as a Java client takes them.
        folder: The base of relative locations in them.
        timeout_s: When to give up.

    Raises:
        UnreachableError: The cluster did not respond in time, or refused the connection.
    """
    errors: list[KafkaError] = []
    settings: dict[str, Any] = {
        **client_settings(properties, folder),
        "socket.connection.setup.timeout.ms": 5000,
        "error_cb": errors.append,
    }
    admin: AdminClient | None = None
    try:
        admin = admin_client(settings)
        cluster = result_of(admin.describe_cluster(request_timeout=timeout_s), timeout_s + 1)
    except (KafkaException, TimeoutError) as error:
        if admin is not None:
            admin.poll(0)  # hands us the errors of connections, which say more
        reasons = [error.str() for error in errors if error.code() != _ALL_BROKERS_DOWN]
        if not reasons:
            reasons = [error.args[0].str() if isinstance(error, KafkaException) else "no answer"]
        reason = fault_of(properties, folder) or reasons[-1]
        raise UnreachableError(
            f"upstream.bootstrap.servers {properties['bootstrap.servers']}: {reason}"
        ) from None
    return ClusterDescription(
        cluster.cluster_id or "", {node.id: Address(node.host, node.port) for node in cluster.nodes}
    )
