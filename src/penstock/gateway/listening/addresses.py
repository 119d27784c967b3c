"""The addresses of brokers, and the addresses that replace them for clients."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import structlog

from penstock.configuration import Address

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

log = structlog.get_logger()

_CLOSED_PORT: Final = 1
"""For a node that cannot be reached here: a port that refuses connections, not the broker's."""


class BrokerPlaces(Protocol):
    """How clients reach brokers."""

    def place(self, node: int) -> Address | None:
        """Return the address of a broker for clients, or None."""

    def found(self, node: int) -> None:
        """Make ready for a broker, before its address is sent to a client."""


class BrokerPorts(NamedTuple):
    """A port for each broker: node id N at first port + N - first id.

    Attributes:
        advertised_host: The host name for clients.
        ports: The ports for brokers.
        first_id: The node id at the first of these ports.
        on_broker: Called with node id and port when a broker becomes known.
    """

    advertised_host: str
    ports: range
    first_id: int
    on_broker: Callable[[int, int], None]

    def place(self, node: int) -> Address | None:
        """Return the address of a broker for clients, or None."""
        port = self.ports[0] + node - self.first_id
        return Address(self.advertised_host, port) if port in self.ports else None

    def found(self, node: int) -> None:
        """Listen on the port of a broker."""
        place = self.place(node)
        if place is not None:
            self.on_broker(node, place.port)
            return
        log.error(
            "broker out of reach for clients: its node id has no port",
            node=node,
            broker_ports=f"{self.ports[0]}-{self.ports[-1]}",
            broker_ids_first=self.first_id,
        )


class BrokerNames(NamedTuple):
    """A name for each broker, and one port for all of them.

    Attributes:
        name: Returns the host name of a broker for clients.
        port: The port for clients.
        on_broker: Called with the node id when a broker becomes known.
    """

    name: Callable[[int], str]
    port: int
    on_broker: Callable[[int], None]

    def place(self, node: int) -> Address | None:
        """Return the address of a broker for clients, or None."""
        return Address(self.name(node), self.port) if node >= 0 else None

    def found(self, node: int) -> None:
        """Check that clients can reach a broker."""
        self.on_broker(node)


class Addresses:
    """The brokers known so far, by node id."""

    def __init__(
        self, *, bootstrap: Iterable[Address], advertised_host: str, places: BrokerPlaces
    ) -> None:
        """Make a table without brokers.

        Args:
            bootstrap: The bootstrap addresses of the cluster.
            advertised_host: The host name for clients.
            places: How clients reach brokers.
        """
        self._bootstrap = tuple(bootstrap)
        self._advertised_host = advertised_host
        self._places = places
        self._brokers: dict[int, Address] = {}

    def learn(self, node: int, address: Address) -> None:
        """Store the address of a broker."""
        previous_address = self._brokers.get(node)
        if previous_address == address:
            return
        self._brokers[node] = address
        log.info("broker", node=node, address=str(address))
        if previous_address is None:
            self._places.found(node)

    def of_node(self, node: int) -> Address | None:
        """Return the address of a broker; None if it is not known."""
        return self._brokers.get(node)

    @property
    def brokers(self) -> Mapping[int, Address]:
        """The addresses of the known brokers, by node id."""
        return self._brokers

    @property
    def out_of_reach(self) -> list[int]:
        """The node ids of the known brokers that clients cannot reach."""
        return [node for node in self._brokers if self._places.place(node) is None]

    def of_cluster(self) -> list[Address]:
        """Return the addresses to try for any broker: the bootstrap addresses, then all brokers."""
        return list(dict.fromkeys((*self._bootstrap, *self._brokers.values())))

    def for_clients(self, node: int, host: str, port: int) -> tuple[str, int]:
        """Return the address for clients that replaces the address of a broker."""
        if not host:  # a response with an error has no node
            return host, port
        return self._places.place(node) or (self._advertised_host, _CLOSED_PORT)

    def learn_for_clients(self, node: int, host: str, port: int) -> tuple[str, int]:
        """Store the address of a broker, and return the address for clients."""
        if host and node >= 0:
            self.learn(node, Address(host, port))
        return self.for_clients(node, host, port)
