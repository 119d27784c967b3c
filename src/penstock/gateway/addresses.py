"""Where brokers are, and where clients find them: node id N at the first port + N - first id."""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from penstock.configuration import Address

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

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
        """Start with no broker known.

        Args:
            bootstrap: The cluster's bootstrap addresses.
            advertised_host: The name given to clients.
            ports: The ports for brokers.
            first_id: The node id at the first of them.
            on_broker: Called with node id and port when a broker becomes known, before any
                client is told of it.
        """
        self._bootstrap = tuple(bootstrap)
        self._advertised_host = advertised_host
        self._ports = ports
        self._first_id = first_id
        self._on_broker = on_broker
        self._brokers: dict[int, Address] = {}

    def learn(self, node: int, address: Address) -> None:
        """Take note of where a broker is."""
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
        """Return the port at which clients reach a node; it may lie outside `broker.ports`."""
        return self._ports[0] + node - self._first_id

    def of_node(self, node: int) -> Address | None:
        """Return where a broker is."""
        return self._brokers.get(node)

    def of_cluster(self) -> list[Address]:
        """Return where some broker may answer: the bootstrap addresses, then all brokers."""
        return list(dict.fromkeys((*self._bootstrap, *self._brokers.values())))

    def for_clients(self, node: int, host: str, port: int) -> tuple[str, int]:
        """Return what clients are told in place of a broker's address."""
        if not host:  # "no node": an error's place holder
            return host, port
        there = self.port_of(node)
        # A node without a port here: what clients are told refuses them, and is not the broker.
        return self._advertised_host, there if there in self._ports else 1

    def learn_for_clients(self, node: int, host: str, port: int) -> tuple[str, int]:
        """Take note of a broker's address, and give what clients are told instead."""
        if host and node >= 0:
            self.learn(node, Address(host, port))
        return self.for_clients(node, host, port)
