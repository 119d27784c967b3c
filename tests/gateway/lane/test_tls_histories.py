"""Random histories of connections with TLS: served by OpenSSL in Python, or by rustls and natively.

Requests and responses of any size are sent in parts of any size, of the bytes of TLS, and at times
the client does not read. Native threads get the connection, and it is taken back at any moment. In
the end a side closes, properly or not. Both ways each byte arrives once, in order, and the same
connections are closed.
"""

import asyncio
import contextlib
import random
import socket
import ssl

import pytest
import structlog
import trustme
import uvloop

from penstock.gateway.listening.native_tls import NativeTls
from penstock.gateway.listening.tls import server_context
from penstock.gateway.listening.tls_connection import TlsConnection
from penstock.gateway.observing.metrics.measured_gateway import ConnectionState
from tests.gateway.lane.tls_ends import Client, Gateway, answer_to, live, native, request, until

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(not hasattr(native, "TlsServer"), reason="native threads need Linux"),
]
HISTORIES = 42
ENDS = ("close_notify", "end", "gone", "invalid record", "broker", "gateway", "protocol error")


async def finish(gateway, client, end, chance):
    """End the connection, and wait until both sides have."""
    if end != "protocol error" and chance.random() < 0.5:
        client.tls.write(request(1)[:-1])  # it is never complete
        await client.flush()
    if end == "close_notify":
        with contextlib.suppress(ssl.SSLWantReadError):
            client.tls.unwrap()
        await client.flush()
    elif end == "end":
        client.socket.shutdown(socket.SHUT_WR)
    elif end == "gone":
        await client.close()
    elif end == "invalid record":
        client.tls.write(b"x" * 100)
        data = bytearray(client.out.read())
        data[-1] ^= 1
        await client.loop.sock_sendall(client.socket, data)
    elif end == "broker":
        gateway.broker_writer.close()
    elif end == "gateway":
        for connection in list(gateway.connections):
            connection.close()
    else:
        client.tls.write(b"\xff" * 2000)
        await client.flush()
    if end != "gone":
        await client.done()
    await until(lambda: not gateway.connections and not gateway.limits.count)


@pytest.fixture(scope="module")
def certified(tmp_path_factory):
    folder, authority = tmp_path_factory.mktemp("tls"), trustme.CA()
    file = folder / "listener.pem"
    authority.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(file)
    properties = {"ssl.keystore.location": str(file)}
    server = server_context(properties, folder / "file")
    client = ssl.create_default_context()
    authority.configure_trust(client)
    return server, NativeTls(native, server, properties, folder / "file", None), client


async def lived(seed, tls, context):
    chance = random.Random(seed)
    context.maximum_version = chance.choice((ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3))
    async with Gateway(tls, random.Random(seed)) as gateway, asyncio.timeout(120):
        client = Client(context, random.Random(f"{seed} client"))
        await client.connect(gateway.address)
        await until(lambda: gateway.connections)
        (connection,) = gateway.connections
        assert isinstance(connection._transport, TlsConnection) == isinstance(tls, NativeTls)
        assert connection.tls_library == ("rustls" if isinstance(tls, NativeTls) else "openssl")
        sent = await live(gateway, client, chance)
        await finish(gateway, client, ENDS[seed % len(ENDS)], random.Random(seed))
        await client.close()
        return (sent, gateway.received, client.received), gateway.given


@pytest.mark.cases(2)
@pytest.mark.parametrize("part", range(6))
@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
def test_tls_in_python_and_native_tls_are_indistinguishable(part, run, certified):
    python, natively, context = certified
    given = 0
    for seed in range(part * HISTORIES // 6, (part + 1) * HISTORIES // 6):
        try:
            in_python, _ = uvloop.run(lived(seed, python, context))
            in_native, times = run(lived(seed, natively, context))
        except Exception as error:
            raise AssertionError(f"seed {seed}") from error
        assert in_python == in_native, f"seed {seed}"
        given += times
    assert given > HISTORIES // 6


@contextlib.asynccontextmanager
async def answered(natively, context):
    """A gateway, a client that has got a response, and its connection."""
    async with Gateway(natively, random.Random(1)) as gateway, asyncio.timeout(120):
        client = Client(context, random.Random(1))
        await client.connect(gateway.address)
        await client.send(request(1))
        await until(lambda: client.received == answer_to(1))
        (connection,) = gateway.connections
        yield gateway, client, connection
        await client.close()


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_connection_ends_before_its_keys_are_used_up(version, certified):
    """TLS 1.2 has no other keys for it; rustls would drop what it cannot encrypt."""
    _, natively, context = certified
    context.maximum_version = version

    async def use():
        async with answered(natively, context) as (_, client, connection):
            connection.check()
            assert connection.state is ConnectionState.OPEN
            connection._tls.tls.count_records(2**24 - 2**20)
            connection.check()
            if version is ssl.TLSVersion.TLSv1_2:
                await client.done()
                assert client.end == "close_notify"
            else:
                assert connection.state is ConnectionState.OPEN

    uvloop.run(use())


def test_a_part_of_a_record_counts_in_the_memory_of_clients(certified):
    """A record that never ends is held by the library, wherever the connection is."""
    _, natively, context = certified

    async def use():
        async with answered(natively, context) as (_, client, connection):
            client.tls.write(b"x" * 16_000)
            await client.loop.sock_sendall(client.socket, client.out.read()[:-1])

            def is_counted():
                connection.account()
                return connection.held_bytes > 16_000

            await until(is_counted)

    uvloop.run(use())


def test_a_panic_of_the_library_is_counted_and_logged(certified):
    _, natively, context = certified

    async def use():
        async with answered(natively, context) as (gateway, client, connection):
            connection._tls.tls.panic()
            with structlog.testing.capture_logs() as logged:
                gateway.lane.look_again()
            assert gateway.lane._lane.panics == 1
            (line,) = [line for line in logged if line["log_level"] == "error"]
            assert "tls.rs:" in line["at"]
            assert "record's content" not in str(logged)
            await client.send(request(2))
            await client.done()

    uvloop.run(use())
