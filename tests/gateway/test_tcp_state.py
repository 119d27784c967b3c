"""The TCP state of a client's connection can be read at any time."""

import asyncio
import socket

import pytest
import uvloop

from penstock.gateway.sessions.transports import tcp_state

TCP_ESTABLISHED = 1


@pytest.mark.system
@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_the_tcp_state_of_an_open_and_of_a_closed_connection(new_loop):
    async def states() -> list[int]:
        listening = socket.create_server(("127.0.0.1", 0))
        transport, _ = await asyncio.get_running_loop().create_connection(
            asyncio.Protocol, *listening.getsockname()
        )
        found = [tcp_state(transport)]
        transport.abort()
        await asyncio.sleep(0.05)
        listening.close()
        return [*found, tcp_state(transport)]

    with asyncio.Runner(loop_factory=new_loop) as runner:
        assert runner.run(states()) == [TCP_ESTABLISHED, 0]
