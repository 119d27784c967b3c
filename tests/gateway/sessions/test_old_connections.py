"""Connections that are closed at their age: no response is lost, and no request sent twice."""

import asyncio
import contextlib
import socket
from functools import partial

import pytest
import uvloop

from penstock.gateway.sessions import connection as connections
from penstock.gateway.sessions.connection_age import ConnectionAge
from tests.gateway.lying_server import Server
from tests.gateway.sessions.talk import answer, other

AGE_S = 100.0
OLD_S, WAITED_S = AGE_S + 1, AGE_S * 1.1
"""By then a connection is old, and has waited for a moment between requests."""


@pytest.fixture(autouse=True)
def without_jitter(monkeypatch):
    age = partial(ConnectionAge, vary=lambda *_: 1.0)
    monkeypatch.setattr(connections, "ConnectionAge", age)


class Later:
    """An event loop whose time can be set ahead."""

    def __init__(self, loop):
        self._loop, self.ahead_s = loop, 0.0

    def __getattr__(self, name):
        return getattr(self._loop, name)

    def time(self):
        return self._loop.time() + self.ahead_s


class OldConnections(Server):
    """A server whose broker answers when the test says so."""

    connection_max_age_s = AGE_S
    request_min_bytes_per_second = 0

    def __init__(self):
        super().__init__([])
        self.loop = Later(self.loop)
        self.requests = asyncio.Queue()
        self.answers = asyncio.Queue()

    async def _serve(self, reader, writer):
        answering = asyncio.create_task(self._answer(writer))
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while size := await reader.readexactly(4):
                frame = await reader.readexactly(int.from_bytes(size, "big"))
                self.requests.put_nowait(int.from_bytes(frame[4:8], "big"))
        answering.cancel()
        writer.close()

    async def _answer(self, writer):
        while True:
            writer.write(answer(await self.answers.get()))

    async def connect(self):
        return await asyncio.open_connection(*self._listening.sockets[0].getsockname())

    async def exchange(self, client, number):
        client[1].write(other(number))
        await self.respond(client, number)

    async def respond(self, client, number):
        """Have the broker answer the next request, and read its response."""
        assert await self.requests.get() == number
        self.answers.put_nowait(number)
        expected = answer(number)
        assert await client[0].readexactly(len(expected)) == expected

    def check(self, age_s):
        """Check all connections as if they had an age."""
        self.loop.ahead_s = age_s
        for connection in list(self.connections):
            connection.check()

    @property
    def is_open(self):
        return [connection.state.name for connection in self.connections] == ["OPEN"]


def run(test):
    async def within():
        async with asyncio.timeout(60), OldConnections() as server:
            client = await server.connect()
            await server.exchange(client, 1)
            await test(server, client)
            client[1].close()
            async with asyncio.timeout(10):
                while server.closed < 1:
                    await asyncio.sleep(0.01)

    uvloop.run(within())


def test_a_connection_is_closed_at_its_age_between_two_requests():
    async def test(server, client):
        server.check(AGE_S - 1)
        await server.exchange(client, 2)
        assert server.is_open
        server.check(OLD_S)
        assert await client[0].read() == b""

    run(test)


def test_an_awaited_response_is_sent_before_the_close():
    async def test(server, client):
        client[1].write(other(2))
        assert await server.requests.get() == 2
        server.check(OLD_S)
        assert server.is_open
        server.check(WAITED_S)
        client[1].write(other(3))  # is not read any more
        server.answers.put_nowait(2)
        assert await client[0].read() == answer(2)
        assert server.requests.empty()

    run(test)


def test_a_request_of_which_a_part_is_received_is_completed_and_answered():
    async def test(server, client):
        frame = other(2)
        client[1].write(frame[:-1])
        (connection,) = server.connections
        while not connection.missing_bytes:
            await asyncio.sleep(0)
        server.check(OLD_S)
        server.check(WAITED_S)
        client[1].write(frame[-1:] + other(3))
        await server.respond(client, 2)
        assert await client[0].read() == b""
        assert server.requests.empty()

    run(test)


def test_bytes_that_were_not_read_yet_are_a_request_to_be_answered():
    async def test(server, client):
        # The event loop has no turn between this and the check.
        raw = socket.socket(fileno=client[1].get_extra_info("socket").fileno())
        raw.send(other(2))
        raw.detach()
        server.check(OLD_S)
        await server.respond(client, 2)
        assert server.is_open

    run(test)


def test_requests_after_the_end_do_not_reset_the_connection():
    async def test(server, client):
        server.check(OLD_S)
        client[1].write(other(2) * 100)
        await client[1].drain()
        assert await client[0].read() == b""
        for _ in range(10):
            client[1].write(other(3) * 1000)
            await client[1].drain()
        assert server.requests.empty() and not server.closed

    run(test)


def test_a_client_that_does_not_close_its_side_is_closed(monkeypatch):
    monkeypatch.setattr(connections, "LINGER_S", 0.05)

    async def test(server, client):
        server.check(OLD_S)
        async with asyncio.timeout(10):
            while not server.closed:
                await asyncio.sleep(0.01)

    run(test)


@pytest.mark.parametrize("begins", [True, False])
def test_a_client_that_has_sent_no_request_is_left_to_the_limits_for_it(begins):
    async def test(server, client):
        new = await server.connect()
        while len(server.connections) < 2:
            await asyncio.sleep(0)
        if begins:
            new[1].write(other(2)[:5])
            await asyncio.sleep(0.05)
        server.check(WAITED_S)
        assert await client[0].read() == b""
        assert len(server.connections) >= 1
        new[1].close()

    run(test)
