"""Random histories of connections to brokers with TLS: of OpenSSL in Python, or of rustls natively.

Clients have TLS, too, or none. The broker's bytes of TLS come in parts of any size, with new keys
and sessions in between, and it ends in the middle of a response, in any way. Both ways each byte
arrives once, in order, and the same connections are closed.
"""

import asyncio
import contextlib
import random
import ssl
from functools import partial

import pytest
import trustme
import uvloop

from penstock import _native
from penstock.configuration import Address
from penstock.configuration.clients.tls import client_context
from penstock.gateway.broker_tls import BrokerTls
from penstock.gateway.listening.native_tls import NativeTls
from penstock.gateway.listening.tls import server_context
from penstock.gateway.observing.metrics.measured_gateway import ConnectionState
from tests.gateway.lane.tls_ends import (
    MIB,
    Client,
    Gateway,
    PlainClient,
    answer_to,
    live,
    request,
    until,
)

native = _native
pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(not hasattr(native, "TlsClient"), reason="native threads need Linux"),
]
HISTORIES = 60
ENDS = ("close_notify", "end", "gone", "invalid record", "client", "gateway", "protocol error")
VERSIONS = (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)


class Broker:
    """A connection of a broker, whose TLS is written in parts of any size."""

    def __init__(self, context, chance, reader, writer):
        self._in, self.out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self._in, self.out, server_side=True)
        self.reader, self.writer, self.chance = reader, writer, chance
        self.unread = b""
        self.reads = asyncio.Event()
        self.reads.set()

    async def shake_hands(self):
        while True:
            try:
                self.tls.do_handshake()
            except ssl.SSLWantReadError:
                await self.flush()
                await self._receive()
            else:
                return await self.flush()

    async def _receive(self):
        await self.reads.wait()
        data = await self.reader.read(1 + self.chance.randrange(3000))
        if not data:
            raise ConnectionError
        self._in.write(data)

    async def flush(self):
        data = self.out.read()
        while data:
            size = self.chance.choice((1, 5, 100, 10_000, len(data)))
            self.writer.write(data[:size])
            await self.writer.drain()
            data = data[size:]
            await asyncio.sleep(0)

    async def send(self, data):
        while data:
            part, data = data[: (size := 1 + self.chance.randrange(40_000))], data[size:]
            self.tls.write(part)
            await self.flush()

    async def readexactly(self, size):
        while len(self.unread) < size:
            try:
                data = self.tls.read(MIB)
            except ssl.SSLWantReadError:
                await self._receive()
                continue
            if not data:
                raise ConnectionError
            self.unread += data
        found, self.unread = self.unread[:size], self.unread[size:]
        return found

    async def finish(self, end):
        if end == "close_notify":
            with contextlib.suppress(ssl.SSLWantReadError):
                self.tls.unwrap()
            await self.flush()
        elif end == "gone":
            self.writer.transport.abort()
        elif end == "invalid record":
            self.tls.write(b"x" * 100)
            data = bytearray(self.out.read())
            data[-1] ^= 1
            self.writer.write(data)
        elif end == "protocol error":
            await self.send(b"\xff" * 100)
        self.writer.close()


class TlsGateway(Gateway):
    """A gateway before a broker with TLS."""

    def __init__(self, tls, chance, brokers, context, is_native):
        super().__init__(tls, chance)
        self.is_native = is_native
        self._brokers, self._context = brokers, context
        self.partial = None
        self.broker = None
        self._serving = set()

    async def __aexit__(self, *error):
        await super().__aexit__(*error)
        await asyncio.wait_for(asyncio.gather(*self._serving), 60)

    async def _serve(self, reader, writer):
        self._serving.add(asyncio.current_task())
        broker = Broker(self._context, self._chance, reader, writer)
        with contextlib.suppress(OSError, ssl.SSLError):
            await broker.shake_hands()
            while True:
                size = await broker.readexactly(4)
                rest = await broker.readexactly(int.from_bytes(size, "big"))
                self.broker = broker
                self.received += size + rest
                answer = answer_to(int.from_bytes(rest[4:8], "big"))
                if self.partial is not None:
                    part, end = self.partial
                    await broker.send(answer[: int(part * len(answer))])
                    await broker.finish(end)
                    break
                await broker.send(answer)
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()

    def change_owner(self):
        super().change_owner()
        for connection in self.connections:
            # With 0, a broker's invalid frame would be given away again each time.
            connection._reads_until_try += 1

    async def connect_upstream(self, _node, protocol):
        port = self._broker.sockets[0].getsockname()[1]
        return await self._brokers.connect(Address("localhost", port), lambda: protocol, 60)


async def finish(gateway, client, end, chance):
    """End the connection, perhaps in the middle of a response; wait until both sides have."""
    if end == "client":
        await client.close()
    elif end == "gateway":
        for connection in list(gateway.connections):
            connection.close()
    elif chance.random() < 0.7:
        gateway.partial = chance.random(), end
        await client.send(request(5))
    else:
        await gateway.broker.finish(end)
    if end != "client":
        await client.done()
    await until(lambda: not gateway.connections and not gateway.limits.count)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder, authority = tmp_path_factory.mktemp("tls"), trustme.CA()
    for name in ("broker.pem", "listener.pem"):
        issued = authority.issue_cert("localhost")
        issued.private_key_and_cert_chain_pem.write_to_path(folder / name)
    authority.cert_pem.write_to_path(folder / "authority.pem")
    return folder


def brokers(folder, *, is_native):
    properties = {"ssl.truststore.location": str(folder / "authority.pem")}
    made = BrokerTls(client_context(properties, folder / "file"), properties, folder)
    assert not is_native or made.use(native) == ""
    return made


def listener(folder, *, is_native):
    properties = {"ssl.keystore.location": str(folder / "listener.pem")}
    context = server_context(properties, folder / "file")
    return NativeTls(native, context, properties, folder / "file", None) if is_native else context


async def lived(seed, folder, is_native):
    chance = random.Random(seed)
    has_tls = chance.random() < 0.5
    tls = listener(folder, is_native=is_native) if has_tls else None
    of_client = ssl.create_default_context(cafile=folder / "authority.pem")
    of_client.maximum_version = chance.choice(VERSIONS)
    of_broker = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    of_broker.load_cert_chain(folder / "broker.pem")
    of_broker.maximum_version = chance.choice(VERSIONS)
    of_broker.num_tickets = chance.choice((0, 2, 30))
    library = "rustls" if is_native else "openssl"
    made = TlsGateway(
        tls, random.Random(seed), brokers(folder, is_native=is_native), of_broker, is_native
    )
    async with made as gateway, asyncio.timeout(120):
        client = (Client if has_tls else PlainClient)(of_client, random.Random(f"{seed} client"))
        await client.connect(gateway.address)
        await until(lambda: gateway.connections)
        (connection,) = gateway.connections
        sent = await live(gateway, client, chance, most=21)
        assert connection.broker_tls_library == library
        assert connection.tls_library == (library if has_tls else "")
        await finish(gateway, client, ENDS[seed % len(ENDS)], random.Random(seed))
        await client.close()
        return (sent, gateway.received, client.received), gateway.given


@pytest.mark.cases(2)
@pytest.mark.parametrize("part", range(6))
@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
def test_tls_to_brokers_in_python_and_natively_are_indistinguishable(part, run, folder):
    given = 0
    for seed in range(part * HISTORIES // 6, (part + 1) * HISTORIES // 6):
        try:
            in_python, _ = uvloop.run(lived(seed, folder, False))
            in_native, times = run(lived(seed, folder, True))
        except Exception as error:
            raise AssertionError(f"seed {seed}") from error
        assert in_python == in_native, f"seed {seed}"
        given += times
    assert given > HISTORIES // 6


@contextlib.asynccontextmanager
async def answered(folder, version=ssl.TLSVersion.TLSv1_3):
    """A gateway, a client without TLS that has got a response, and its connection."""
    of_broker = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    of_broker.load_cert_chain(folder / "broker.pem")
    of_broker.maximum_version = version
    made = TlsGateway(None, random.Random(1), brokers(folder, is_native=True), of_broker, True)
    async with made as gateway, asyncio.timeout(120):
        client = PlainClient(None, random.Random(1))
        await client.connect(gateway.address)
        await client.send(request(1))
        await until(lambda: client.received == answer_to(1))
        (connection,) = gateway.connections
        yield gateway, client, connection
        await client.close()


@pytest.mark.parametrize("version", VERSIONS)
def test_a_connection_ends_before_the_keys_of_its_brokers_side_are_used_up(version, folder):
    async def use():
        async with answered(folder, version) as (_, client, connection):
            connection.check()
            connection._broker_tls.tls.count_records(2**24 - 2**20)
            connection.check()
            if version is ssl.TLSVersion.TLSv1_2:
                await client.done()
            else:
                assert connection.state is ConnectionState.OPEN

    uvloop.run(use())


def test_a_part_of_a_brokers_record_counts_in_the_memory_of_clients(folder):
    async def use():
        async with answered(folder) as (gateway, _, connection):
            gateway.broker.tls.write(b"x" * 16_000)
            gateway.broker.writer.write(gateway.broker.out.read()[:-1])

            def is_counted():
                connection.account()
                return connection.held_bytes > 16_000

            await until(is_counted)

    uvloop.run(use())


async def moved(gateway, client, connection):
    """Send requests until a native thread has the connection."""
    for number in range(2, 200):
        before = len(client.received)
        await client.send(request(number))
        await until(
            partial(lambda end: len(client.received) == end, before + len(answer_to(number)))
        )
        if connection._lane_number is not None:
            return
    raise AssertionError("it stays in Python")


def test_a_broker_that_does_not_read_stops_its_client(folder):
    """As without TLS: what a thread has encrypted and not sent is limited."""

    async def use():
        async with answered(folder) as (gateway, client, connection):
            await moved(gateway, client, connection)
            gateway.broker.reads.clear()
            frame = request(7)
            frame = (len(frame) - 4 + 64 * MIB).to_bytes(4, "big") + frame[4:] + bytes(64 * MIB)
            sending = asyncio.create_task(client.loop.sock_sendall(client.socket, frame))
            await until(lambda: connection.state is ConnectionState.PAUSED)
            connection.account()
            assert connection.held_bytes < MIB
            assert not sending.done()
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)
            gateway.broker.reads.set()

    uvloop.run(use())


def test_a_panic_of_the_library_on_the_brokers_side_closes_one_connection(folder):
    async def use():
        async with answered(folder) as (gateway, client, connection):
            await moved(gateway, client, connection)
            connection._broker_tls.tls.panic()
            await client.send(request(2))
            await client.done()
            assert gateway.lane._lane.panics == 1

    uvloop.run(use())
