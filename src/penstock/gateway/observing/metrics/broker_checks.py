"""Whether brokers can be reached: by clients' connections, and by separate connections.

While clients connect, theirs show it. Where none has for `EVERY_S`, a connection is opened as they
would be, with TLS if that is configured, and closed again. Nothing is sent over it, so a broker
that accepts connections and does not answer counts as reached.

An unreachable broker counts as long as the cluster names it: no client is sent to a broker that was
removed, or is known to be down. The list of brokers is read again at times while there is such
a broker.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, NamedTuple

import structlog

from penstock.gateway.broker_connection import ConnectError, connect

if TYPE_CHECKING:
    import ssl
    from collections.abc import Awaitable, Callable, Collection, Mapping

    from penstock.configuration import Address

log = structlog.get_logger()

EVERY_S: Final = 5.0
TIMEOUT_S: Final = 5.0
_NONE_KNOWN_S: Final = 0.1
"""While the gateway starts."""
NAMED_EVERY_S: Final = 30.0
"""How often the brokers of the cluster are read, while a broker cannot be reached."""


class Reached(NamedTuple):
    """How the last attempt to connect to a broker ended.

    Attributes:
        address: The broker's address.
        why_not: Why it could not be reached; empty if it was.
        at: When, by the clock of the event loop.
    """

    address: Address
    why_not: str
    at: float


class BrokerChecks:
    """How the last attempt to connect to each broker ended."""

    def __init__(
        self,
        addresses: Callable[[], Mapping[int, Address]],
        named: Callable[[], Awaitable[Collection[int]]],
        tls: ssl.SSLContext | None,
    ) -> None:
        """Prepare; nothing is connected to.

        Args:
            addresses: Returns the addresses of all brokers that were ever known, by node id.
            named: Returns the node ids that the cluster names now; none if it does not answer.
            tls: The TLS context of connections to the cluster; None without TLS.
        """
        self._reached: dict[int, Reached] = {}
        self._known = addresses
        self._named = named
        self._unnamed: frozenset[int] = frozenset()
        self._requested_at = -NAMED_EVERY_S
        self._tls = tls

    @property
    def brokers(self) -> dict[int, Reached]:
        """By node id; without those that cannot be reached and that the cluster does not name."""
        return {
            node: broker
            for node, broker in self._reached.items()
            if not (broker.why_not and node in self._unnamed)
        }

    def connected(self, address: Address, why_not: str = "") -> None:
        """Take note of a client's connection to a broker, or of an attempt that failed.

        Args:
            address: The address that was connected to; it may be a bootstrap address.
            why_not: The error; empty if it worked.
        """
        now = asyncio.get_running_loop().time()
        for node, known_address in self._known().items():
            if known_address == address:
                self._reached[node] = Reached(address, why_not, now)

    async def run(self) -> None:
        """Try the brokers without a recent connection, repeatedly."""
        while True:
            known_addresses = self._known()
            for node in self._reached.keys() - known_addresses.keys():
                del self._reached[node]
            fresh_from = asyncio.get_running_loop().time() - EVERY_S
            due = [
                address
                for node, address in known_addresses.items()
                if node not in self._reached
                or self._reached[node].address != address
                or self._reached[node].at <= fresh_from
            ]
            await asyncio.gather(*map(self._try, due))
            await self._request_names()
            await asyncio.sleep(EVERY_S if known_addresses else _NONE_KNOWN_S)

    async def _request_names(self) -> None:
        """Find out which of the brokers that cannot be reached the cluster still names."""
        now = asyncio.get_running_loop().time()
        unreachable = {node for node, broker in self._reached.items() if broker.why_not}
        if not unreachable or now - self._requested_at < NAMED_EVERY_S:
            return
        self._requested_at = now
        try:
            named = await self._named()
        except Exception:  # such as a file of certificates that is being replaced
            log.exception("brokers of the cluster are not known")
            return
        if named:
            self._unnamed = frozenset(unreachable.difference(named))

    async def _try(self, address: Address) -> None:
        try:
            transport = await connect(address, self._tls, asyncio.Protocol, TIMEOUT_S)
        except ConnectError as error:
            self.connected(address, str(error))
        else:
            transport.close()
            self.connected(address)
