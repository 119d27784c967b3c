"""The addresses of brokers, and the ports for clients: node id N at first port + N - first id."""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from penstock.configuration import Address

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

log = structlog.get_logger()


class Addresses:
    """The brokers known so far, by node id, and their ports here."""

    def __init__(
        self,
        *,
        bootstrap: Iterable[Address],
        advertised_host: str,
        ports: range,
        first_id: int,
        on_broker: Callable[[int, int], None],
    ) -> None:
        """Make a table without brokers.

        Args:
            bootstrap: The bootstrap addresses of the cluster.
            advertised_host: The host name for clients.
            ports: The ports for brokers.
            first_id: The node id at the first of these ports.
            on_broker: Called with node id and port when a broker becomes known, before its
                address is sent to a client.
        """
        self._bootstrap = tuple(bootstrap)
        self._advertised_host = advertised_host
        self._ports = ports
        self._first_id = first_id
        self._on_broker = on_broker
        self._brokers: dict[int, Address] = {}

    def learn(self, node: int, address: Address) -> None:
        """Store the address of a broker."""
        known = self._brokers.get(node)
        if known == address:
            return
        self._brokers[node] = address
        log.info("broker", node=node, address=str(address))
        if known is None:
            port = self.port_of(node)
            if port in self._ports:
                self._on_broker(node, port)
            else:
                log.error(
                    "broker out of reach for clients: its node id has no port",
                    node=node,
                    broker_ports=f"{self._ports[0]}-{self._ports[-1]}",
                    broker_ids_first=self._first_id,
                )

    def port_of(self, node: int) -> int:
        """Return the port of a node for clients; it may be outside of `broker.ports`."""
        return self._ports[0] + node - self._first_id

    def of_node(self, node: int) -> Address | None:
        """Return the address of a broker; None if it is not known."""
        return self._brokers.get(node)

    @property
    def brokers(self) -> Mapping[int, Address]:
        """The addresses of the known brokers, by node id."""
        return self._brokers

    def of_cluster(self) -> list[Address]:
        """Return the addresses to try for any broker: the bootstrap ones, then all brokers."""
        return list(dict.fromkeys((*self._bootstrap, *self._brokers.values())))

    def for_clients(self, node: int, host: str, port: int) -> tuple[str, int]:
        """Return the address for clients in place of the address of a broker."""
        if not host:  # a response with an error has no node
            return host, port
        own_port = self.port_of(node)
        # For a node without a port here: an address that refuses connections, not the broker's.
        return self._advertised_host, own_port if own_port in self._ports else 1

    def learn_for_clients(self, node: int, host: str, port: int) -> tuple[str, int]:
        """Store the address of a broker, and return the one for clients."""
        if host and node >= 0:
            self.learn(node, Address(host, port))
        return self.for_clients(node, host, port)
