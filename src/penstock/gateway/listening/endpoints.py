"""TLS contexts and the advertised host of a configuration, checked without connecting."""

from __future__ import annotations

import re
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.configuration import Address, ConfigurationError
from penstock.configuration.clients.tls import client_context
from penstock.gateway.listening.certificate_names import CertificateNames
from penstock.gateway.listening.listener import bind
from penstock.gateway.listening.server_names import ServerNames
from penstock.gateway.listening.tls import server_context

if TYPE_CHECKING:
    import ssl

    from penstock.configuration import Configuration


_HOST_NAME: Final = re.compile(r"(?!-)[A-Za-z0-9_-]{1,63}(?:\.(?!-)[A-Za-z0-9_-]{1,63})*\.?")
_HOST_MAX: Final = 253 - len("broker-2147483647.")
_ANY_NODE: Final = 2**31 - 1
"""A node id that only a wildcard covers."""


class Endpoints(NamedTuple):
    """How clients connect to the gateway, and the gateway to the cluster.

    Attributes:
        listener_tls: The TLS context of the listener; None without TLS.
        upstream_tls: The TLS context of connections to the cluster; None without TLS.
        advertised_host: The host name for clients.
        server_names: The names of brokers (`broker.addresses=sni`); None if each has a port.
        warnings: Faults that are not errors.
    """

    listener_tls: ssl.SSLContext | None
    upstream_tls: ssl.SSLContext | None
    advertised_host: str
    server_names: ServerNames | None
    warnings: tuple[str, ...]


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
        from penstock.kafka.client.connections.security import connection_options  # noqa: PLC0415

        connection_options(upstream, file)
    _check_broker_ports(configuration)
    _check_metrics_listener(configuration)
    host = _advertised_host(configuration)
    names = _server_names(configuration, host)
    warnings: tuple[str, ...] = ()
    if names is not None and listener_tls is not None:
        names.attach(listener_tls)
        certificate = CertificateNames(configuration.properties, file)
        warnings = names_that_are_not_covered(certificate, host, names)
    return Endpoints(listener_tls, upstream_tls, host, names, warnings)


def _server_names(configuration: Configuration, host: str) -> ServerNames | None:
    file = configuration.path
    if configuration.broker_addresses != "sni":
        if configuration.advertised_port is not None:
            raise ConfigurationError(
                f"{file}: advertised.port needs broker.addresses=sni: otherwise each broker has "
                "its own port (broker.ports)"
            )
        return None
    if not configuration.listener.tls:
        raise ConfigurationError(
            f"{file}: broker.addresses=sni needs TLS, whose handshakes have the names of brokers: "
            "listeners=SSL://... or SASL_SSL://..."
        )
    for key in ("broker.ports", "broker.ids.first"):
        if key in configuration.properties:
            raise ConfigurationError(
                f"{file}: {key} has no effect with broker.addresses=sni: all brokers share a port"
            )
    if _is_ip_address(host) or not _HOST_NAME.fullmatch(host) or len(host) > _HOST_MAX:
        raise ConfigurationError(
            f"{file}: advertised.host={host}: broker.addresses=sni needs a host name (in ASCII), "
            "since broker-<id> is put before it"
        )
    return ServerNames(host)


def _is_ip_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _is_wildcard(host: str) -> bool:
    return not host or (_is_ip_address(host) and ip_address(host).is_unspecified)


def names_that_are_not_covered(
    certificate: CertificateNames, host: str, names: ServerNames
) -> tuple[str, ...]:
    """Return the names for which clients would not accept a listener's certificate."""
    warnings = []
    host = host.rstrip(".")
    any_broker = names.name(_ANY_NODE)
    uncovered = certificate.uncovered([host, any_broker])
    if host in uncovered:
        warnings.append(
            f"ssl.keystore.location: the certificate does not cover {host} (advertised.host): "
            "clients that verify it cannot connect there"
        )
    if any_broker in uncovered:
        warnings.append(
            f"ssl.keystore.location: the certificate does not cover *.{host}: clients can only "
            "connect to brokers that it covers by their names, broker-<id>"
        )
    return tuple(warnings)


def _advertised_host(configuration: Configuration) -> str:
    host = configuration.advertised_host or configuration.listener.address.host
    if _is_wildcard(host):
        raise ConfigurationError(
            f"{configuration.path}: advertised.host must be set: clients cannot connect to "
            f"the listener's wildcard address"
        )
    return host


def broker_ports_of(configuration: Configuration, port: int) -> range:
    """Return the ports of brokers, if each has its own.

    Args:
        port: That of the listener, if the file says 0.

    Raises:
        ConfigurationError: There are none.
    """
    ports = configuration.broker_ports or range(port + 1, min(port + 101, 65536))
    if not ports:
        raise ConfigurationError(
            f"{configuration.path}: listeners: no port after {port} is left for brokers; "
            f"take a lower one, or set broker.ports"
        )
    return ports


def _check_broker_ports(configuration: Configuration) -> None:
    port, ports = configuration.listener.address.port, configuration.broker_ports
    if ports is not None and port in ports:
        raise ConfigurationError(
            f"{configuration.path}: listeners: port {port} is one of broker.ports, "
            f"{ports[0]}-{ports[-1]}; each broker needs a separate port: take a port outside"
        )


def _check_metrics_listener(configuration: Configuration) -> None:
    """Raise an error if the address is not of this machine, is for Kafka's clients, or is open.

    Whether the port is free is not checked: it is not while a gateway runs with this file.
    """
    address, clients = configuration.metrics_listener, configuration.listener.address
    if address is None:
        return
    hosts = {address.host, clients.host}
    ports = {clients.port, *(configuration.broker_ports or ())}
    if (
        address.port
        and address.port in ports
        and (len(hosts) == 1 or any(map(_is_wildcard, hosts)))
    ):
        raise ConfigurationError(
            f"{configuration.path}: metrics.listener: port {address.port} is used by listeners "
            "or broker.ports"
        )
    with bind(Address(address.host, 0), "metrics.listener", configuration.path) as bound:
        is_loopback = ip_address(bound.getsockname()[0].partition("%")[0]).is_loopback
    if not is_loopback and configuration.metrics_listener_token is None:
        raise ConfigurationError(
            f"{configuration.path}: metrics.listener={address} is not a loopback address, so "
            "metrics.listener.token is required"
        )
