"""A connection that is lost before its first response ends with a TCP reset."""

import asyncio
import contextlib
import os
import signal
import socket
import struct

import pytest
import uvloop

from penstock.gateway.sessions.resets import reset_on_close
from tests.gateway.loops import find_coordinators
from tests.gateway.lying_server import Server
from tests.raw import RawClient

ANSWER = struct.pack(">ii", 4, 7)


class Broker(Server):
    """A gateway's server, before a broker that may be unavailable or close connections."""

    def __init__(self, *, is_away=False, answer=b"", stays=False):
        super().__init__([answer])
        self._is_away = is_away
        self._stays = stays
        self.refused = 0

    async def _serve(self, reader, writer):
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
            for part in self._broker_sends:
                writer.write(part)
            if self._stays:
                await reader.read()
        writer.close()

    async def connect_upstream(self, node, protocol):
        if self._is_away:
            self.refused += 1
            return None
        return await super().connect_upstream(node, protocol)

    async def connect(self):
        return await asyncio.open_connection(*self._listening.sockets[0].getsockname())


def heartbeat():
    """A request whose response is streamed."""
    return struct.pack(">ihhih", 10, 12, 0, 7, -1)


def run(test):
    async def within():
        async with asyncio.timeout(60):
            await test()

    uvloop.run(within())


def test_a_connection_to_an_unavailable_broker_is_reset():
    async def scenario():
        async with Broker(is_away=True) as server:
            reader, writer = await server.connect()
            writer.write(heartbeat())
            with pytest.raises(ConnectionResetError):
                await reader.read()
            assert server.refused == 1
            writer.close()
            assert not server.connections

    run(scenario)


def test_a_client_that_sends_nothing_stays_although_its_broker_is_unavailable():
    """franz-go gives up if a connection ends before it has sent something."""

    async def scenario():
        async with Broker(is_away=True) as server:
            _, writer = await server.connect()
            while not server.connections:
                await asyncio.sleep(0)
            (client,) = server.connections
            client.check()
            assert not server.refused
            assert server.connections
            writer.close()
            while server.connections:
                await asyncio.sleep(0)

    run(scenario)


@pytest.mark.parametrize("request_", [heartbeat(), find_coordinators(7)])
def test_a_connection_whose_broker_closes_before_the_first_response_is_reset(request_):
    async def scenario():
        async with Broker() as server:
            reader, writer = await server.connect()
            writer.write(request_)
            with pytest.raises(ConnectionResetError):
                await reader.read()
            writer.close()

    run(scenario)


def test_after_a_response_a_connection_is_closed_without_a_reset():
    async def scenario():
        async with Broker(answer=ANSWER) as server:
            reader, writer = await server.connect()
            writer.write(heartbeat())
            assert await reader.read() == ANSWER
            writer.close()

    run(scenario)


def test_a_client_with_another_protocol_sees_its_connection_closed():
    async def scenario():
        async with Broker(stays=True) as server:
            reader, writer = await server.connect()
            writer.write(b"\0\0\0\x20" + b"\xff" * 32)
            assert await reader.read() == b""
            writer.close()

    run(scenario)


def test_a_client_that_shuts_its_side_down_without_a_request_sees_the_connection_closed():
    async def scenario():
        async with Broker(stays=True) as server:
            reader, writer = await server.connect()
            writer.write_eof()
            assert await reader.read() == b""
            writer.close()

    run(scenario)


@pytest.mark.parametrize("is_connected", [True, False])
def test_connections_are_reset_when_the_gateway_stops(is_connected):
    async def scenario():
        async with Broker(stays=True) as server:
            reader, writer = await server.connect()
            if is_connected:
                writer.write(heartbeat()[:5])
            while not server.connections or (
                is_connected and not any(connection._session for connection in server.connections)
            ):
                await asyncio.sleep(0)
            for connection in list(server.connections):
                connection.end()
            with pytest.raises(ConnectionResetError):
                await reader.read()
            writer.close()

    run(scenario)


def test_connections_are_reset_when_the_gateway_is_killed(gateway):
    running = gateway()
    with (
        RawClient(running.broker_address()) as sender,
        RawClient(running.broker_address()) as idles,
    ):
        answered = RawClient(running.broker_address())
        with answered:
            answered.send(struct.pack(">ihhih", 10, 18, 0, 7, -1))
            answered.receive()
            sender.send(b"\0\0\0\x0a\0")
            os.kill(running.pid, signal.SIGKILL)
            assert answered.socket.recv(1) == b""
        for client in (sender, idles):
            with pytest.raises(ConnectionResetError):
                client.socket.recv(1)
    running.kill()


@pytest.mark.system
@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_a_closed_connection_is_not_reset(new_loop):
    async def close() -> None:
        listening = socket.create_server(("127.0.0.1", 0))
        transport, _ = await asyncio.get_running_loop().create_connection(
            asyncio.Protocol, *listening.getsockname()
        )
        transport.abort()
        await asyncio.sleep(0.05)
        reset_on_close(transport, True)
        listening.close()

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(close())


def test_responses_that_come_together_are_sent_before_their_connection_is_closed():
    """The last response closes the connection, since its client has closed its side."""

    class Late(Broker):
        async def _serve(self, reader, writer):
            await reader.readexactly(2 * len(heartbeat()))
            (client,) = self.connections
            while client._half_closed is None:
                await asyncio.sleep(0)
            writer.write(ANSWER + ANSWER)
            writer.close()

    async def scenario():
        async with Late() as server:
            reader, writer = await server.connect()
            writer.write(2 * heartbeat())
            writer.write_eof()
            assert await reader.read() == ANSWER + ANSWER
            writer.close()

    run(scenario)
