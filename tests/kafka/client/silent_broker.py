"""A broker that does not respond, and a connection to it."""

import asyncio
import contextlib
import struct
from collections.abc import AsyncIterator, Callable
from typing import Any

from penstock.configuration.values import Address
from penstock.kafka.client.connections.connection import Connection
from penstock.kafka.client.protocol.produce import write_request
from tests.kafka.client.settings import FILE

NODE = 1
PRODUCE, HANDSHAKE, API_VERSIONS, AUTHENTICATE = 0, 17, 18, 36
SMALL = write_request(None, 10.0, {("orders.dead", 0): [b"letter"]})
LARGE_BYTES = 64 * 2**20


class Broker:
    """Responds to the first requests of a connection, and to others when a test allows it."""

    def __init__(self) -> None:
        self.requests = asyncio.Queue()
        """For each Produce request: its connection, and the function that sends the response."""
        self.handshakes = asyncio.Queue()
        self.connections = 0
        self.is_mute = False
        """Whether connections get no response at all."""
        self.mechanisms = ("SCRAM-SHA-256",)
        self.produce_versions = (0, 12)
        self._writers = []
        self.reads = asyncio.Event()
        self.ended = asyncio.Queue()
        """The bytes that arrived after the first bytes of the first large request."""

    async def __aenter__(self) -> "Broker":
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.address = Address(*self._server.sockets[0].getsockname())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    async def next_request(self) -> tuple[int, Callable[..., None]]:
        return await asyncio.wait_for(self.requests.get(), 30)

    async def end_of_connection(self) -> int:
        return await asyncio.wait_for(self.ended.get(), 30)

    def disconnect(self) -> None:
        """Close all connections."""
        for writer in self._writers:
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.append(writer)
        number = self.connections
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                key, _, correlation = struct.unpack(">hhi", await reader.readexactly(8))

                def respond(body: bytes = b"", correlation: int = correlation) -> None:
                    response = struct.pack(">i", correlation) + body
                    writer.write(struct.pack(">i", len(response)) + response)

                if size > LARGE_BYTES:
                    self.requests.put_nowait((number, respond))
                    await self.reads.wait()
                    break
                await reader.readexactly(size - 8)
                if self.is_mute:
                    continue
                if key == API_VERSIONS:
                    served = [
                        (PRODUCE, *self.produce_versions),
                        (HANDSHAKE, 0, 1),
                        (AUTHENTICATE, 0, 0),
                    ]
                    respond(
                        struct.pack(">hi", 0, len(served))
                        + b"".join(struct.pack(">hhh", *version_range) for version_range in served)
                    )
                elif key == HANDSHAKE:
                    names = [name.encode() for name in self.mechanisms]
                    respond(
                        struct.pack(">hi", 0, len(names))
                        + b"".join(struct.pack(">h", len(name)) + name for name in names)
                    )
                    self.handshakes.put_nowait(number)
                elif key == AUTHENTICATE:
                    respond(struct.pack(">hhi", 0, -1, 0))
                else:
                    self.requests.put_nowait((number, respond))
        rest = 0
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(2**20):
                rest += len(data)
        self.ended.put_nowait(rest)
        writer.close()


@contextlib.asynccontextmanager
async def connected(broker: Broker, **properties: object) -> AsyncIterator[Connection]:
    """A client that knows the broker's address as that of a node."""
    found = Connection({"bootstrap.servers": str(broker.address), **properties}, FILE)
    found._brokers.learn({NODE: broker.address})
    try:
        yield found
    finally:
        await found.close_here()
        await asyncio.to_thread(found.close)


def sent(connection: Connection, request: Any = SMALL) -> asyncio.Future[Any]:
    return asyncio.ensure_future(connection.exchange(NODE, request))
