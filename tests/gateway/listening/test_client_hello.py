"""A client's first TLS record is received, and stays in the socket."""

import asyncio
import contextlib
import socket

import pytest
import uvloop

from penstock.gateway.listening.client_hello import RECORD_MAX_BYTES, first_record

pytestmark = pytest.mark.system


def record(size):
    return b"\x16\x03\x01" + size.to_bytes(2, "big") + b"x" * size


@contextlib.asynccontextmanager
async def connected():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        ours = socket.create_connection(listening.getsockname())
        theirs, _ = listening.accept()
    with ours, theirs:
        ours.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        theirs.setblocking(False)
        yield ours, theirs


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
@pytest.mark.parametrize("size", [1, 200, 2000, RECORD_MAX_BYTES - 5])
def test_a_record_in_parts_is_returned_once_it_is_complete(run, size):
    sent = record(size)
    parts = [sent[:1], sent[1:4], sent[4:5], sent[5:-1], sent[-1:] + b"what follows"]

    async def main():
        async with connected() as (ours, theirs), asyncio.timeout(60):
            found = asyncio.create_task(first_record(theirs))
            for part in parts:
                for _ in range(9):
                    await asyncio.sleep(0)
                assert not found.done()
                ours.sendall(part)
            assert await found == sent
            assert theirs.getsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT) == 1
            received = b""
            while len(received) < len(sent):
                received += theirs.recv(2**16)
            assert received == sent + b"what follows"

    run(main())


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
@pytest.mark.parametrize(
    "sent", [b"", b"\x16", record(100)[:50], b"GET", b"\x16\x03\x01\0\0", record(2**14 + 1)]
)
def test_nothing_else_is_returned(run, sent):
    async def main():
        async with connected() as (ours, theirs), asyncio.timeout(60):
            ours.sendall(sent)
            ours.shutdown(socket.SHUT_WR)
            assert await first_record(theirs) is None
            assert theirs.recv(2**16) == sent

    run(main())


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
def test_a_silent_client_is_not_waited_for_after_the_time(run):
    async def main():
        async with connected() as (ours, theirs):
            ours.sendall(b"\x16")
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(first_record(theirs), 0.05)
            assert theirs.getsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT) == 1

    run(main())
