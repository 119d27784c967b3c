"""Listens for clients: on the bootstrap address, and where brokers are found."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import structlog

from penstock.configuration import Address, ConfigurationError
from penstock.gateway.listening.addresses import Addresses, BrokerNames, BrokerPorts
from penstock.gateway.listening.certificate_names import CertificateNames
from penstock.gateway.listening.endpoints import broker_ports_of, names_that_are_not_covered
from penstock.gateway.listening.listener import Listener, bind
from penstock.gateway.listening.native_tls import NativeTls
from penstock.gateway.listening.tls import renew

if TYPE_CHECKING:
    import asyncio
    import socket
    import ssl
    from collections.abc import Callable, Mapping
    from typing import Any

    from penstock.configuration import Configuration
    from penstock.gateway.listening.endpoints import Endpoints
    from penstock.gateway.listening.listener import ConnectionLimits
    from penstock.gateway.listening.server_names import ServerNames
    from penstock.gateway.listening.shared_buffer import SharedBufferProtocol

    NodeOf = Callable[[asyncio.BaseTransport], int | None]
    """Returns the node id of the broker that a client connected to; None for any broker."""
    MakeConnection = Callable[[NodeOf, Address, Callable[[], None]], SharedBufferProtocol]

log = structlog.get_logger()

_TRIED_PORTS: Final = 20


class Listening:
    """All listeners for clients."""

    def __init__(
        self,
        configuration: Configuration,
        endpoints: Endpoints,
        limits: ConnectionLimits,
        make: MakeConnection,
        native: Any | None = None,
        in_python: str = "",
    ) -> None:
        """Prepare; `open` listens.

        Args:
            limits: The limits of all listeners together.
            make: Returns the protocol of a connection. Its arguments are a function that returns
                the broker, the client's address, and a function to be called when the connection is
                closed.
            native: The native module, if it is to have the TLS of clients.
            in_python: Why native threads may not have connections with TLS, of clients or to
                brokers; empty if they may.
        """
        self._configuration = configuration
        self._endpoints = endpoints
        self._tls = _tls(configuration, endpoints, native, in_python)
        self._limits = limits
        self._make = make
        self._listeners: list[Listener] = []
        self._is_open = False
        self._expires_at: float | None = None

    @property
    def certificate_expires_at(self) -> float | None:
        """When the certificate expires, in seconds since 1970; None without TLS or if unknown."""
        return self._expires_at

    async def open(self, broker_addresses: Mapping[int, Address]) -> tuple[Address, Addresses]:
        """Listen on the bootstrap address, and for the known brokers.

        Args:
            broker_addresses: The addresses of brokers, by node id.

        Returns:
            The bootstrap address, with the actual port if the file says 0, and the addresses of
            brokers. It also listens for brokers that are added later.

        Raises:
            ConfigurationError: A port cannot be bound.
        """
        configuration = self._configuration
        any_port = not configuration.listener.address.port and not configuration.broker_ports
        tries = _TRIED_PORTS if any_port else 1
        while True:
            tries -= 1
            try:
                opened = self._open(broker_addresses)
            except ConfigurationError:
                # The port was free, but a port behind it was not.
                if not tries:
                    raise
                await self.close()
            else:
                self._is_open = True
                return opened

    async def close(self) -> None:
        """Stop accepting; open connections stay open."""
        for listener in self._listeners:
            await listener.close()
        self._listeners.clear()

    def renew(self, broker_addresses: Mapping[int, Address]) -> None:
        """Read the certificate again.

        Args:
            broker_addresses: The addresses of brokers, by node id.
        """
        if self._endpoints.listener_tls is not None:
            configuration = self._configuration
            if isinstance(self._tls, NativeTls):
                self._tls.renew()
            else:
                renew(self._endpoints.listener_tls, configuration.properties, configuration.path)
            certificate = self._certificate()
            self._expires_at = certificate.expires_at if certificate is not None else None
            if certificate is not None:
                self._check_names(certificate)
                self._check_brokers(certificate, *broker_addresses)

    def _open(self, broker_addresses: Mapping[int, Address]) -> tuple[Address, Addresses]:
        where = self._configuration.listener.address
        listening = self._bind(where.port, "listeners")
        names = self._endpoints.server_names
        self._serve(listening, names.node_of if names is not None else _any_node)
        port: int = listening.getsockname()[1]
        addresses = Addresses(
            bootstrap=self._configuration.upstream_servers,
            advertised_host=self._endpoints.advertised_host,
            places=self._broker_ports(port) if names is None else self._broker_names(port, names),
        )
        for node, address in sorted(broker_addresses.items()):
            addresses.learn(node, address)
        certificate = self._certificate()
        self._expires_at = certificate.expires_at if certificate is not None else None
        return Address(where.host, port), addresses

    def _broker_ports(self, port: int) -> BrokerPorts:
        configuration = self._configuration
        host, ports = self._endpoints.advertised_host, broker_ports_of(configuration, port)
        return BrokerPorts(host, ports, configuration.broker_ids_first, self._open_broker_port)

    def _broker_names(self, port: int, names: ServerNames) -> BrokerNames:
        advertised = self._configuration.advertised_port or port
        return BrokerNames(names.name, advertised, self._check_broker)

    def _certificate(self) -> CertificateNames | None:
        """Read the certificate; None without TLS, and while its file is being replaced."""
        configuration = self._configuration
        if self._endpoints.listener_tls is None:
            return None
        try:
            return CertificateNames(configuration.properties, configuration.path)
        except ConfigurationError:
            return None  # the next reload reads it again, and reports it

    def _check_names(self, certificate: CertificateNames) -> None:
        """Warn as the start does, if clients would not accept the certificate."""
        names = self._endpoints.server_names
        if names is None:
            return
        host, file = self._endpoints.advertised_host, self._configuration.path
        for text in names_that_are_not_covered(certificate, host, names):
            log.warning("configuration", file=str(file), text=text)

    def _check_broker(self, node: int) -> None:
        certificate = self._certificate()
        if certificate is not None:
            self._check_brokers(certificate, node)

    def _check_brokers(self, certificate: CertificateNames, *nodes: int) -> None:
        """Log the brokers for whose names clients would not accept the certificate."""
        if self._endpoints.server_names is None:
            return
        names = {self._endpoints.server_names.name(node): node for node in nodes}
        for name in certificate.uncovered(names):
            log.error(
                "broker out of reach for clients: the certificate does not cover its name",
                node=names[name],
                name=name,
            )

    def _open_broker_port(self, node: int, port: int) -> None:
        """Listen on the port of a broker."""
        try:
            listening = self._bind(port, "broker.ports")
        except ConfigurationError as error:
            if not self._is_open:
                raise
            log.error("broker out of reach for clients", node=node, reason=str(error))
            return
        self._serve(listening, lambda _: node)

    def _bind(self, port: int, key: str) -> socket.socket:
        host = self._configuration.listener.address.host
        return bind(Address(host, port), key, self._configuration.path)

    def _serve(self, listening: socket.socket, node_of: NodeOf) -> None:
        listening.setblocking(False)
        self._listeners.append(
            Listener(
                listening,
                self._limits,
                partial(self._make, node_of),
                self._tls,
                proxied=self._configuration.listener_proxy_protocol,
            )
        )


def _tls(
    configuration: Configuration,
    endpoints: Endpoints,
    native: Any | None,
    in_python: str,
) -> ssl.SSLContext | NativeTls | None:
    """Return the TLS of the listeners; None without TLS."""
    context = endpoints.listener_tls
    if native is None or context is None:
        return context
    # No thread would have such a connection if its brokers' side is Python's.
    if in_python:
        log.info("connections with TLS are processed in Python", reason=in_python)
        return context
    return NativeTls(
        native, context, configuration.properties, configuration.path, endpoints.server_names
    )


def check_free(configuration: Configuration) -> None:
    """Check that the ports that are known before the brokers are can be listened on.

    Policies take long to load, and a cluster may take long to respond: neither is waited for
    where another program has the port.

    Raises:
        ConfigurationError: A port is taken, or its address does not belong to this machine.
    """
    listen_addresses = {
        "metrics.listener": configuration.metrics_listener,
        "listeners": configuration.listener.address,
    }
    for key, address in listen_addresses.items():
        if address is not None:
            bind(address, key, configuration.path).close()


def _any_node(_: asyncio.BaseTransport) -> None:
    """Return None: the bootstrap address means any broker."""
