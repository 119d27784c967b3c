"""The addresses of the brokers, requested by the gateway's own principal."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from penstock.errors import UnavailableError
from penstock.kafka.client.connections.connection import connect
from penstock.kafka.client.connections.retries import retried
from penstock.kafka.client.errors import ClientError
from penstock.kafka.cluster.connection_faults import fault_of
from penstock.kafka.wire.errors import WireError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from penstock.configuration import Address


class UnreachableError(UnavailableError):
    """The cluster does not respond. The message has the addresses that were tried, and why."""


class ClusterDescription(NamedTuple):
    """The cluster id and the brokers.

    Attributes:
        brokers: Addresses by node id.
    """

    cluster_id: str
    brokers: dict[int, Address]


def describe(properties: Mapping[str, str], file: Path, timeout_s: float) -> ClusterDescription:
    """Return the cluster id and the addresses of the brokers. Blocks.

    Args:
        properties: The keys after `upstream.`, as a Java client takes them.
        file: The configuration file; relative locations start at its folder.
        timeout_s: When to give up.

    Raises:
        ConfigurationError: No connection can be made of the keys.
        UnreachableError: The cluster did not respond in time, or refused the connection.
    """
    try:
        connection = connect(properties, file)
        nodes = retried(connection, timeout_s, connection.cluster)
    except (ClientError, WireError) as error:
        reason = fault_of(properties, file) or str(error)
        raise UnreachableError(
            f"upstream.bootstrap.servers {properties['bootstrap.servers']}: {reason}"
        ) from None
    return ClusterDescription(nodes.cluster_id, nodes.brokers)
