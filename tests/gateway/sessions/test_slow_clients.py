"""Clients that send slowly, or nothing: when the broker is connected to, and what is held of them."""

import asyncio
import contextlib
import struct

import pytest
import uvloop

from penstock.gateway.sessions.memory import FEW_BYTES
from penstock.gateway.sessions.request_rate import WINDOW_S
from tests.gateway.lying_server import BUDGET, MIB, Server, settled
from tests.hostile.greedy import unfinished

REQUEST = struct.pack(">ihhih", 10, 12, 0, 7, -1)


class SlowClients(Server):
    """A gateway's server whose broker responds to nothing, and whose time can be set."""

    def __init__(self):
        super().__init__([])
        self.connects = 0

    async def connect_upstream(self, node, protocol):
        self.connects += 1
        return await super().connect_upstream(node, protocol)

    async def connect(self, count):
        address = self._listening.sockets[0].getsockname()
        opened = [await asyncio.open_connection(*address) for _ in range(count)]
        while len(self.connections) < count:
            await asyncio.sleep(0)
        return opened

    def pass_time(self, seconds, every_s=1.0):
        """Look at all connections as if time passed."""
        now = self.loop.time()
        for number in range(1, int(seconds / every_s) + 1):
            for connection in list(self.connections):
                connection._gateway = At(self, now + number * every_s)
                connection.check()
        for connection in self.connections:
            connection._gateway = self


class At:
    """A gateway at another time."""

    def __init__(self, gateway, now):
        self._gateway, self._now = gateway, now

    def __getattr__(self, name):
        return getattr(self._gateway, name)

    @property
    def loop(self):
        return self

    def time(self):
        return self._now


def run(test):
    async def within():
        async with asyncio.timeout(60), SlowClients() as server:
            await test(server)

    uvloop.run(within())


def test_the_broker_is_connected_to_at_the_first_bytes_of_a_client():
    async def test(server):
        opened = await server.connect(100)
        await settled(lambda: server.connects)
        assert server.connects == 0
        for _, writer in opened[:3]:
            writer.write(REQUEST[:1])
        while server.connects < 3:
            await asyncio.sleep(0)
        await settled(lambda: server.connects)
        assert server.connects == 3
        for _, writer in opened:
            writer.close()

    run(test)


def test_before_its_broker_is_connected_to_only_a_few_bytes_of_a_client_are_read():
    async def test(server):
        ((_, writer),) = await server.connect(1)
        (connection,) = server.connections
        server.connect_upstream = lambda *_: asyncio.sleep(60)
        writer.write(bytes(MIB))
        await settled(lambda: len(connection._early))
        assert 0 < len(connection._early) <= FEW_BYTES
        writer.close()

    run(test)


@pytest.mark.parametrize("sent", [REQUEST[:1], REQUEST[:-1]])
def test_clients_that_stop_within_a_request_are_all_closed(sent):
    async def test(server):
        opened = await server.connect(20)
        for _, writer in opened:
            writer.write(sent)
        await settled(lambda: sum(client.state.value == "open" for client in server.connections))
        server.pass_time(WINDOW_S)
        assert len(server.connections) == 20
        server.pass_time(2 * WINDOW_S)
        assert not server.connections
        for _, writer in opened:
            writer.close()

    run(test)


def test_clients_between_requests_and_clients_that_the_gateway_has_paused_stay():
    async def test(server):
        opened = await server.connect(2)
        for (_, writer), sent in zip(opened, (REQUEST + bytes(2), REQUEST[:5]), strict=True):
            writer.write(sent)
        await settled(lambda: sum(client.state.value == "open" for client in server.connections))
        for connection in server.connections:
            if connection._session.left_bytes:
                connection.pause("memory")
        server.pass_time(10 * WINDOW_S)
        assert len(server.connections) == 2
        for _, writer in opened:
            writer.close()

    run(test)


def test_unfinished_requests_hold_no_more_than_the_budget_and_a_few_bytes_each():
    """Each read brought up to 256 KiB of each connection, however many there were."""
    count, size = 100, 300_000

    async def test(server):
        opened = await server.connect(count)
        for _, writer in opened:
            writer.write(unfinished(size))
        await settled(lambda: server.budget.used_bytes)
        assert BUDGET // 2 < server.most_bytes
        assert server.most_bytes < BUDGET + BUDGET // 4 + size + count * 3 * FEW_BYTES
        for _, writer in opened:
            with contextlib.suppress(OSError):
                writer.transport.abort()

    run(test)
