"""Responses of brokers are not read while memory is short; every client gets its response."""

import asyncio
import contextlib
import socket
import struct

import pytest
import uvloop

from penstock.gateway.sessions.memory import LOW_USE_BYTES, READ_BYTES, UNREAD_S, Budget
from tests.gateway.loops import find_coordinators, numbered
from tests.gateway.lying_server import BUDGET, MIB, Server, settled
from tests.kafka.wire.entities import coordinators


def test_endless_responses_are_held_up_to_the_budget_and_a_single_response_beyond():
    size = 30 * MIB
    head = size.to_bytes(4, "big") + (7).to_bytes(4, "big")
    parts = [head, *[bytes(MIB)] * 29]

    async def run():
        async with Server(parts) as server, asyncio.timeout(60):
            clients = [await server.open_client() for _ in range(12)]
            await settled(lambda: server.budget.used_bytes)
            allowance = 12 * (2 * READ_BYTES + LOW_USE_BYTES)
            assert server.most_bytes < BUDGET + size + allowance
            assert server.most_bytes > BUDGET
            for _, writer in clients:
                writer.close()

    uvloop.run(run())


def test_responses_that_exceed_the_budget_together_are_sent_in_turn():
    frame = numbered(coordinators(200_000, brokers=3), 7)
    assert len(frame) > BUDGET

    async def run():
        async with Server([frame]) as server, asyncio.timeout(100):
            clients = [await server.open_client() for _ in range(8)]

            async def received(reader):
                return len(await reader.readexactly(4 + int.from_bytes(await reader.readexactly(4),
                                                                       "big") - 4))  # fmt: skip

            sizes = await asyncio.gather(*(received(reader) for reader, _ in clients))
            assert len(set(sizes)) == 1
            assert min(sizes) > len(frame) // 2
            assert server.most_bytes < BUDGET + 4 * len(frame)
            for _, writer in clients:
                writer.close()

    uvloop.run(run())


class AnsweringServer(Server):
    """Its broker responds to each request in turn."""

    async def _serve(self, reader, writer):
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
                for part in self._broker_sends:
                    writer.write(part)
                await writer.drain()
        writer.close()


def test_many_responses_over_each_connection_are_sent_in_turn():
    frame = numbered(coordinators(20_000, brokers=3), 7)

    async def run():
        async with AnsweringServer([frame]) as server, asyncio.timeout(100):
            server.budget = Budget(MIB, server.loop.time)
            clients = [await server.open_client() for _ in range(12)]

            async def received(reader, writer):
                writer.write(find_coordinators(7) * 9)
                return {
                    len(
                        await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
                    )
                    for _ in range(10)
                }

            sizes = await asyncio.gather(*(received(*client) for client in clients))
            assert len(set.union(*sizes)) == 1
            for _, writer in clients:
                writer.close()
            while server.closed < len(clients):
                await asyncio.sleep(0.01)

    uvloop.run(run())


def test_a_client_that_does_not_read_its_response_is_closed_and_others_get_theirs():
    frame = numbered(coordinators(200_000, brokers=3), 7)

    async def run():
        async with Server([frame]) as server, asyncio.timeout(100):
            unread = [await server.open_client() for _ in range(3)]
            for reader, _ in unread:
                reader._transport.pause_reading()
            await settled(lambda: server.budget.used_bytes)
            reader, writer = await server.open_client()
            await settled(lambda: server.budget.used_bytes)
            server.later_s = UNREAD_S + 1
            server.budget.tick()
            assert len(await reader.readexactly(len(frame) // 2)) == len(frame) // 2
            for _, opened in (*unread, (reader, writer)):
                opened.close()

    uvloop.run(run())


@pytest.mark.parametrize("is_needed", [True, False])
def test_a_client_counts_until_its_broker_connection_is_closed(is_needed):
    async def run():
        async with Server([]) as server, asyncio.timeout(60):
            _, writer = await server.open_client()
            while not any(connection.state.value == "open" for connection in server.connections):
                await asyncio.sleep(0.01)
            (connection,) = server.connections
            upstream = connection._upstream
            connection._session._unconfirmed = is_needed  # as after a request with acks=0
            linger = struct.pack("ii", 1, 0)  # it is reset, and not closed halfway
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            writer.transport.abort()
            if is_needed:
                await settled(lambda: server.closed)
                assert not server.closed
                upstream.abort()
            while not server.closed:
                await asyncio.sleep(0.01)

    uvloop.run(run())
