"""A server whose broker sends what a test chooses."""

import asyncio
import contextlib
from collections.abc import Callable, Iterable

from penstock.configuration import Address
from penstock.engine.workers.gathered_writes import GatheredWrites
from penstock.gateway.context.turns import Turns
from penstock.gateway.sessions.connection import ClientConnection
from penstock.gateway.sessions.memory import READ_BYTES, Budget
from tests.gateway.loops import Loop, find_coordinators

MIB = 2**20
BUDGET = 4 * MIB


class Server(Loop):
    """The parts of a gateway that connections need, before a broker that sends given bytes."""

    request_max_bytes = 100 * MIB
    request_min_bytes_per_second = 4096
    connection_max_age_s = float("inf")

    def __init__(self, broker_sends: Iterable[bytes]) -> None:
        super().__init__()
        self.loop = asyncio.get_running_loop()
        self.turns = Turns(self.loop.call_soon)
        self.connections = set()
        self.writes = GatheredWrites()
        self.later_s = 0.0
        self.read_buffer = memoryview(bytearray(READ_BYTES))
        self.budget = Budget(BUDGET, lambda: self.loop.time() + self.later_s)
        self.most_bytes = 0
        self._broker_sends = broker_sends
        self.closed = 0

    async def __aenter__(self) -> "Server":
        self._broker = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self._listening = await self.loop.create_server(self._accepted, "127.0.0.1", 0)
        self._watch = self.loop.create_task(self._look())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._watch.cancel()
        for connection in list(self.connections):
            connection.abort()
        self._broker.close()
        self._listening.close()

    def _accepted(self) -> ClientConnection:
        return ClientConnection(self, lambda _: None, Address("127.0.0.1", 1), self._closed)

    def _closed(self) -> None:
        self.closed += 1

    async def _look(self) -> None:
        while True:
            self.most_bytes = max(self.most_bytes, self.budget.used_bytes)
            await asyncio.sleep(0)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
            for part in self._broker_sends:
                writer.write(part)
                await writer.drain()
            await reader.read()
        writer.close()

    async def connect_upstream(
        self, _node: int | None, protocol: asyncio.BaseProtocol
    ) -> asyncio.BaseTransport:
        address = self._broker.sockets[0].getsockname()
        return (await self.loop.create_connection(lambda: protocol, *address))[0]

    async def open_client(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect, and send a request whose response is collected."""
        address = self._listening.sockets[0].getsockname()
        reader, writer = await asyncio.open_connection(*address)
        writer.write(find_coordinators(7))
        return reader, writer


async def settled(measure: Callable[[], object]) -> None:
    """Wait until a measure is the same many times in a row."""
    seen = []
    while len(seen) < 50 or len(set(seen[-50:])) > 1:
        seen.append(measure())
        await asyncio.sleep(0.005)
