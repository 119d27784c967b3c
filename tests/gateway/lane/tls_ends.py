"""A gateway with TLS, and clients that send and read parts of any size."""

import asyncio
import contextlib
import random
import socket
import ssl
from collections.abc import Callable
from functools import partial

from penstock import _native
from penstock.engine.workers.gathered_writes import GatheredWrites
from penstock.gateway.context.turns import Turns
from penstock.gateway.lane.lane import Lane
from penstock.gateway.listening.listener import ConnectionLimits, Listener
from penstock.gateway.listening.native_tls import NativeTls
from penstock.gateway.sessions.connection import ClientConnection
from penstock.gateway.sessions.memory import READ_BYTES, Budget
from tests.gateway.loops import Loop
from tests.gateway.sessions.talk import answer

native = _native
MIB = 2**20
ANY = 2**31 - 1


class Gateway(Loop):
    """The parts of a gateway that connections need, before a broker that answers each request."""

    request_max_bytes = 100 * MIB
    request_min_bytes_per_second = 4096
    connection_max_age_s = float("inf")
    read_buffer = memoryview(bytearray(READ_BYTES))

    def __init__(self, tls: ssl.SSLContext | NativeTls | None, chance: random.Random) -> None:
        super().__init__(judged=frozenset())
        self.loop = asyncio.get_running_loop()
        self.turns = Turns(self.loop.call_soon)
        self.connections = set()
        self.writes = GatheredWrites()
        self.budget = Budget(64 * MIB, self.loop.time)
        self.received = b""
        self.broker_writer = None
        self.given = self.forwarded = 0
        self._tls = tls
        self._chance = chance
        self.is_native = isinstance(tls, NativeTls)

    async def __aenter__(self) -> "Gateway":
        if self.is_native:
            self.lane = Lane(
                native,
                self,
                self.loop,
                connections=self.connections,
                request_max_bytes=self.request_max_bytes,
                budget_bytes=self.budget.max_bytes,
                threads=1,
            )
        await self.start_broker()
        bound = socket.create_server(("127.0.0.1", 0))
        bound.setblocking(False)
        self.limits = ConnectionLimits(
            max_connections=ANY, per_ip=ANY, creation_rate=ANY, clock=self.loop.time
        )
        make = partial(ClientConnection, self, lambda _: None)
        self._listener = Listener(bound, self.limits, make, self._tls)
        self.address = bound.getsockname()
        return self

    async def __aexit__(self, *_: object) -> None:
        for connection in list(self.connections):
            connection.abort()
        await self._listener.close()
        self._broker.close()
        if self.lane is not None:
            self.lane.close()

    async def start_broker(self) -> None:
        self._broker = await asyncio.start_server(self._serve, "127.0.0.1", 0)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.broker_writer = writer
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                size = await reader.readexactly(4)
                rest = await reader.readexactly(int.from_bytes(size, "big"))
                self.received += size + rest
                writer.write(answer_to(int.from_bytes(rest[4:8], "big")))
        writer.close()

    async def connect_upstream(
        self, _node: int | None, protocol: asyncio.BaseProtocol
    ) -> asyncio.BaseTransport:
        address = self._broker.sockets[0].getsockname()
        return (await self.loop.create_connection(lambda: protocol, *address))[0]

    def change_owner(self) -> None:
        """Take a connection back, so that it is given away again soon."""
        for connection in self.connections:
            self.given += connection._lane_number is not None
            connection.take_back()
            connection._reads_until_try = self._chance.randrange(3)


def size_of(number: int, kind: str) -> int:
    chance = random.Random(f"{number} {kind}")
    return chance.choices((chance.randrange(60), chance.randrange(30_000), chance.randrange(MIB)),
                          (12, 6, 1))[0]  # fmt: skip


def answer_to(number: int) -> bytes:
    return answer(number, bytes([number % 256]) * size_of(number, "response"))


def request(number: int) -> bytes:
    body = bytes([number % 251]) * (size_of(number, "request") + 1)
    head = (16).to_bytes(2, "big") + (4).to_bytes(2, "big") + number.to_bytes(4, "big")
    return (len(head) + len(body)).to_bytes(4, "big") + head + body


class PlainClient:
    """A client without TLS, which sends and reads parts of any size."""

    def __init__(self, _context: ssl.SSLContext | None, chance: random.Random) -> None:
        self.loop = asyncio.get_running_loop()
        self.socket = socket.socket()
        if chance.random() < 0.5:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
        self.socket.setblocking(False)
        self.chance = chance
        self.received = b""
        self.reads = asyncio.Event()
        self.reads.set()

    async def connect(self, address: tuple[str, int]) -> None:
        await self.loop.sock_connect(self.socket, address)
        self._reading = self.loop.create_task(self._read())

    async def send(self, data: bytes) -> None:
        while data:
            size = self.chance.choice((1, 5, 100, 10_000, len(data)))
            await self.loop.sock_sendall(self.socket, data[:size])
            data = data[size:]
            await asyncio.sleep(0)

    async def _read(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                await self.reads.wait()
                size = self.chance.choice((1, 30, 5000, 100_000))
                if not (data := await self.loop.sock_recv(self.socket, size)):
                    return
                self.received += data

    async def close(self) -> None:
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)
        self.socket.close()

    async def done(self) -> None:
        await asyncio.wait_for(self._reading, 60)


class Client(PlainClient):
    """A client with TLS."""

    def __init__(self, context: ssl.SSLContext, chance: random.Random) -> None:
        super().__init__(context, chance)
        self._in, self.out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self._in, self.out, server_hostname="localhost")
        self.end = ""

    async def connect(self, address: tuple[str, int]) -> None:
        await self.loop.sock_connect(self.socket, address)
        while True:
            try:
                self.tls.do_handshake()
            except ssl.SSLWantReadError:
                await self.loop.sock_sendall(self.socket, self.out.read())
                data = await self.loop.sock_recv(self.socket, 1 + self.chance.randrange(3000))
                assert data, "the handshake has failed"
                self._in.write(data)
            else:
                break
        await self.flush()
        self._reading = self.loop.create_task(self._read())

    async def send(self, data: bytes) -> None:
        while data:
            part, data = data[: (size := 1 + self.chance.randrange(40_000))], data[size:]
            self.tls.write(part)
            await self.flush()

    async def flush(self) -> None:
        await super().send(self.out.read())

    async def _read(self) -> None:
        try:
            while True:
                await self.reads.wait()
                size = self.chance.choice((1, 30, 5000, 100_000))
                data = await self.loop.sock_recv(self.socket, size)
                if not data:
                    self.end = self.end or "end"
                    return
                self._in.write(data)
                with contextlib.suppress(ssl.SSLWantReadError):
                    while part := self.tls.read(MIB):
                        self.received += part
                    self.end = "close_notify"
                if self.end:  # OpenSSL in Python waits 30 s for the client's end
                    self.socket.shutdown(socket.SHUT_RDWR)
                    return
        except (OSError, ssl.SSLError) as error:
            self.end = type(error).__name__


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.001)


async def live(
    gateway: Gateway, client: PlainClient, chance: random.Random, most: int = 25
) -> bytes:
    """Live a connection's life of at most so many requests; return what was sent."""
    sent, expected = b"", b""

    def is_answered() -> bool:
        return len(client.received) == len(expected)

    for number in range(1, chance.randrange(4, most + 1)):
        sent += request(number)
        expected += answer_to(number)
        if chance.random() < 0.3:
            client.reads.clear()
            sending = asyncio.create_task(client.send(request(number)))
            for _ in range(chance.randrange(50)):
                await asyncio.sleep(0)
            client.reads.set()
            await sending
        else:
            await client.send(request(number))
        if chance.random() < 0.5:
            gateway.change_owner()
        if chance.random() < 0.5:
            await until(is_answered)
    await until(is_answered)
    assert client.received == expected
    assert gateway.received == sent
    return sent
