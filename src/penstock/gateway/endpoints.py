"""TLS contexts and the advertised host of a configuration, checked without connecting."""

from __future__ import annotations

from ipaddress import ip_address
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.configuration import Address, ConfigurationError
from penstock.configuration.tls import client_context
from penstock.gateway.listener import bind
from penstock.gateway.tls import server_context

if TYPE_CHECKING:
    import ssl

    from penstock.configuration import Configuration


_WILDCARDS: Final = frozenset({"", "0.0.0.0", "::"})  # noqa: S104 - compared, not bound


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
    _check_metrics_listener(configuration)
    return Endpoints(listener_tls, upstream_tls, _advertised_host(configuration))


def _advertised_host(configuration: Configuration) -> str:
    host = configuration.advertised_host or configuration.listener.address.host
    if host in _WILDCARDS:
        raise ConfigurationError(
            f"{configuration.path}: advertised.host must be set: clients cannot connect to "
            f"the listener's wildcard address"
        )
    return host


def _check_metrics_listener(configuration: Configuration) -> None:
    """Raise an error if the address is none of this machine, is for Kafka's clients, or is open.

    Whether the port is free is not asked: it is not where a gateway runs with this file.
    """
    address, clients = configuration.metrics_listener, configuration.listener.address
    if address is None:
        return
    hosts = {address.host, clients.host}
    ports = {clients.port, *(configuration.broker_ports or ())}
    if address.port and address.port in ports and (len(hosts) == 1 or hosts & _WILDCARDS):
        raise ConfigurationError(
            f"{configuration.path}: metrics.listener: port {address.port} is one of those that "
            "listeners and broker.ports have for clients"
        )
    with bind(Address(address.host, 0), "metrics.listener", configuration.path) as bound:
        is_loopback = ip_address(bound.getsockname()[0].partition("%")[0]).is_loopback
    if not is_loopback and configuration.metrics_listener_token is None:
        raise ConfigurationError(
            f"{configuration.path}: metrics.listener={address} is no loopback address, and needs "
            "metrics.listener.token"
        )
