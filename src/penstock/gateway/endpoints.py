"""TLS contexts and the advertised host of a configuration, checked without connecting."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from penstock.configuration import ConfigurationError
from penstock.configuration.tls import client_context
from penstock.gateway.tls import server_context

if TYPE_CHECKING:
    import ssl

    from penstock.configuration import Configuration


class Endpoints(NamedTuple):
    """How clients connect to the gateway, and the gateway to the cluster.

    Attributes:
        listener_tls: The TLS context of the listener; None without TLS.
        upstream_tls: The TLS context of connections to the cluster; None without TLS.
        advertised_host: The host name for clients.
    """

    listener_tls: ssl.SSLContext | None
    upstream_tls: ssl.SSLContext | None
    advertised_host: str


def endpoints_of(configuration: Configuration) -> Endpoints:
    """Return the endpoints of a configuration.

    Raises:
        ConfigurationError: Keys contradict each other, or a file they name is not usable.
    """
    file = configuration.path
    upstream = configuration.upstream_properties
    listener_tls = None
    if configuration.listener.tls:
        listener_tls = server_context(configuration.properties, file)
    upstream_tls = None
    if configuration.upstream_security_protocol.endswith("SSL"):
        upstream_tls = client_context(upstream, file)
    if upstream.keys() - {"bootstrap.servers"}:
        # The Kafka client takes long to import, and is not needed to check addresses.
        from penstock.cluster.brokers import check  # noqa: PLC0415

        check(upstream, file)
    return Endpoints(listener_tls, upstream_tls, _advertised_host(configuration))


def _advertised_host(configuration: Configuration) -> str:
    host = configuration.advertised_host or configuration.listener.address.host
    if host in {"", "0.0.0.0", "::"}:  # noqa: S104 - compared, not bound
        raise ConfigurationError(
            f"{configuration.path}: advertised.host must be set: clients cannot connect to "
            f"the listener's wildcard address"
        )
    return host
