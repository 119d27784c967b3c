"""Connections: their number, their addresses, their rate, and a lack of file descriptors."""

import asyncio
import contextlib
import errno
import gc
import socket
import ssl
import struct
import weakref

import pytest
import structlog
import trustme
import uvloop

from penstock import _native
from penstock.configuration import Address
from penstock.gateway.listening.listener import (
    ACCEPTED_AT_ONCE,
    ConnectionLimits,
    Listener,
    bind,
)
from penstock.gateway.listening.native_tls import NativeTls
from penstock.gateway.listening.server_names import ServerNames
from penstock.gateway.listening.tls import server_context
from penstock.gateway.listening.tls_connection import TlsConnection
from penstock.gateway.sessions.transports import readable_bytes
from tests.gateway.listening.receiving import Receiving
from tests.proxies import header

pytestmark = pytest.mark.system
ANY = 2**31 - 1


class Echo(Receiving):
    served: list = []

    def __init__(self, peer, on_closed):
        self.peer = peer
        self.on_closed = on_closed

    def connection_made(self, transport):
        self.transport = transport
        self.served.append(transport)

    def data_received(self, data):
        self.transport.write(data)

    def connection_lost(self, _):
        self.on_closed()


def listening(
    make,
    tls=None,
    *,
    bound=None,
    proxied=False,
    max_connections=ANY,
    per_ip=ANY,
    creation_rate=ANY,
):
    """Start a listener on a free port; return it, its limits and its port."""
    limits = ConnectionLimits(
        max_connections=max_connections,
        per_ip=per_ip,
        creation_rate=creation_rate,
        clock=asyncio.get_running_loop().time,
    )
    bound = bound or socket.create_server(("127.0.0.1", 0))
    bound.setblocking(False)
    return Listener(bound, limits, make, tls, proxied=proxied), limits, bound.getsockname()[1]


@pytest.fixture
async def listen():
    """Start a listener; return its limits, and a function that connects to it."""
    running, connected = [], []

    def start(**most):
        listener, limits, port = listening(Echo, **most)
        running.append(listener)

        async def connect():
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            connected.append(writer)
            return reader, writer

        return limits, connect

    yield start
    for opened in running:
        await opened.close()
    for writer in connected:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
    while Echo.served:
        Echo.served.pop().abort()
    await asyncio.sleep(0.01)


async def is_served(reader, writer, within_s=30.0):
    writer.write(b"x")
    try:
        return await asyncio.wait_for(reader.read(1), within_s) == b"x"
    except (TimeoutError, ConnectionError):
        return False


async def test_connections_beyond_the_limit_wait_until_a_connection_closes(listen):
    limits, connect = listen(max_connections=2)
    first, second, third = [await connect() for _ in range(3)]
    assert await is_served(*first)
    assert await is_served(*second)
    assert not await is_served(*third, within_s=0.2)
    assert limits.count == 2
    first[1].close()
    assert await third[0].read(1) == b"x"  # it waited


async def test_a_connection_beyond_the_limit_of_its_address_is_closed(listen):
    limits, connect = listen(per_ip=2)
    first, second, third = [await connect() for _ in range(3)]
    assert await is_served(*first)
    assert await is_served(*second)
    assert not await is_served(*third)
    assert limits.count == 2
    second[1].close()
    await second[1].wait_closed()
    while limits.count == 2:
        await asyncio.sleep(0.01)
    assert await is_served(*await connect())


async def test_the_creation_rate_of_connections_is_limited(listen):
    limits, connect = listen(creation_rate=20)
    loop = asyncio.get_running_loop()
    began = loop.time()
    connections = [await connect() for _ in range(30)]
    assert all([await is_served(*connection) for connection in connections])
    assert loop.time() - began > 0.4  # 20 at once, then one each 50 ms
    assert limits.count == 30


async def test_a_listener_recovers_from_a_lack_of_file_descriptors(listen, monkeypatch):
    _, connect = listen()
    served = await connect()
    assert await is_served(*served)
    loop = asyncio.get_running_loop()
    accept, left = loop.sock_accept, [3]

    async def fails(listening):
        if left[0]:
            left[0] -= 1
            raise OSError(errno.EMFILE, "Too many open files")
        return await accept(listening)

    monkeypatch.setattr(loop, "sock_accept", fails, raising=False)
    waiting = await connect()
    assert await is_served(*served)
    assert await is_served(*waiting)
    another = await connect()
    assert await is_served(*another)
    assert left == [0]


@pytest.fixture(params=["Python", "native"])
def with_native(request):
    """Has rustls serve the connections of a context that it can serve."""
    native = _native
    if request.param == "Python":
        return lambda context, *_: context
    if not hasattr(native, "TlsServer"):
        pytest.skip("native threads need Linux")

    def add(context, file, names=None):
        properties = {"ssl.keystore.location": str(file)}
        return NativeTls(native, context, properties, file, names)

    return add


NATIVE_ONLY = pytest.mark.parametrize("with_native", ["native"], indirect=True)
"""For tests of what the TLS of event loops does in another way."""


@pytest.fixture
def certified(tmp_path, with_native):
    """A listener's TLS, and that of its clients."""
    authority, file = trustme.CA(), tmp_path / "listener.pem"
    issued = authority.issue_cert("localhost")
    issued.private_key_and_cert_chain_pem.write_to_path(file)
    client = ssl.create_default_context()
    authority.configure_trust(client)
    server = server_context({"ssl.keystore.location": str(file)}, tmp_path / "file")
    return with_native(server, file), client


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
@pytest.mark.parametrize("proxied", [False, True])
@pytest.mark.parametrize("with_tls", [False, True])
def test_a_connection_made_while_the_listener_closes_stays_open_or_is_lost(
    new_loop, proxied, with_tls, certified
):
    """Otherwise a session would write to a closed connection."""
    server, client = certified if with_tls else (None, None)
    made, lost = [], []

    class Closing(Echo):
        def connection_made(self, transport):
            self.transport = transport
            made.append(transport)
            closing.append(asyncio.get_running_loop().create_task(listener.close()))

        def connection_lost(self, _):
            lost.append(self.transport)
            self.on_closed()

    def use_it(port):
        with socket.create_connection(("127.0.0.1", port), 60) as raw:
            raw.sendall(header("203.0.113.7", 5) if proxied else b"")
            with client.wrap_socket(raw, server_hostname="localhost") if client else raw as wire:
                with contextlib.suppress(ConnectionError):
                    wire.sendall(b"x")
                    return wire.recv(1)
                return b""

    async def use():
        nonlocal listener
        listener, limits, port = listening(Closing, server, proxied=proxied)
        answer = await asyncio.to_thread(use_it, port)
        await closing[0]
        for transport in made:
            transport.abort()
        async with asyncio.timeout(60):
            while len(lost) < len(made) or limits.count:
                await asyncio.sleep(0.01)
        return answer

    listener, closing = None, []
    with asyncio.Runner(loop_factory=new_loop) as runner:
        answer = runner.run(use())
    assert len(made) == 1
    assert with_tls or answer == b"x"


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
@pytest.mark.parametrize("proxied", [False, True])
# Python closes a socket that the event loop has accepted and not handed over, and warns.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_listener_can_close_at_any_step_of_a_new_connection(new_loop, proxied):
    """An accepted client is served, or sees the connection closed."""
    served = []

    async def use(steps):
        lost = []

        class Telling(Echo):
            served: list = []  # other tests' connections are not counted

            def connection_lost(self, _):
                lost.append(self)
                self.on_closed()

        # What connects waits in the backlog: no step of the loop is done meanwhile.
        listener, limits, port = listening(Telling, proxied=proxied)
        with socket.create_connection(("127.0.0.1", port), 60) as client:
            client.sendall((header("203.0.113.7", 5) if proxied else b"") + b"x")
            for _ in range(steps):
                await asyncio.sleep(0)
            await listener.close()
            with contextlib.suppress(ConnectionError):
                answer = await asyncio.to_thread(client.recv, 1)
                served.append(answer == b"x")
                assert served[-1] is bool(Telling.served)
        async with asyncio.timeout(60):
            while len(lost) < len(Telling.served) or limits.count:
                await asyncio.sleep(0.01)

    with asyncio.Runner(loop_factory=new_loop) as runner:
        for steps in range(30):
            runner.run(use(steps))
    assert served[-1]


async def test_a_silent_connection_does_not_keep_the_listener_from_closing(certified):
    for tls, proxied in ((certified[0], False), (None, True), (certified[0], True)):
        listener, limits, port = listening(Echo, tls, proxied=proxied)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while not limits.count:
            await asyncio.sleep(0.01)
        async with asyncio.timeout(5):
            await listener.close()
            with contextlib.suppress(ConnectionError):
                assert await reader.read(1) == b""
        writer.close()
        assert limits.count == 0


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
@pytest.mark.parametrize("most", [{}, {"per_ip": 3}])
def test_other_work_has_its_turn_while_connections_are_accepted(run, most):
    """With 40,000 connections a second, /livez did not respond."""
    waiting = 20 * ACCEPTED_AT_ONCE

    async def flood():
        accepted = 0
        bound = socket.create_server(("127.0.0.1", 0), backlog=waiting)
        bound.setblocking(False)
        limits = ConnectionLimits(
            max_connections=ANY,
            per_ip=most.get("per_ip", ANY),
            creation_rate=ANY,
            clock=asyncio.get_running_loop().time,
        )
        opened = limits.opened

        def counted(ip):
            nonlocal accepted
            accepted += 1
            return opened(ip)

        limits.opened = counted
        clients = [socket.create_connection(bound.getsockname()) for _ in range(waiting)]
        listener = Listener(bound, limits, Echo, None)
        steps = []
        while accepted < waiting:
            before = accepted
            await asyncio.sleep(0)
            steps.append(accepted - before)
        await listener.close()
        for each in (*clients, *Echo.served):
            each.close()
        Echo.served.clear()
        await asyncio.sleep(0.01)
        return steps

    assert max(run(flood())) <= ACCEPTED_AT_ONCE


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_client_gets_an_alert_for_an_unrecognized_name(run, version, tmp_path, with_native):
    file = tmp_path / "listener.pem"
    trustme.CA().issue_cert("gw.example.com").private_key_and_cert_chain_pem.write_to_path(file)
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
    client.minimum_version = client.maximum_version = version

    def shake(port):
        with (
            socket.create_connection(("127.0.0.1", port)) as raw,
            client.wrap_socket(raw, server_hostname="other.example.com"),
        ):
            pass

    async def main():
        tls = server_context({"ssl.keystore.location": str(file)}, file)
        names = ServerNames("gw.example.com")
        names.attach(tls)
        listener, limits, port = listening(Echo, with_native(tls, file, names))
        with pytest.raises(ssl.SSLError) as raised:
            await asyncio.to_thread(shake, port)
        await listener.close()
        assert limits.count == 0
        return raised.value

    assert run(main()).reason == "TLSV1_UNRECOGNIZED_NAME"


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
def test_bytes_of_any_number_are_echoed_by_tls(run, certified):
    server, client = certified

    def use_it(port):
        with (
            socket.create_connection(("127.0.0.1", port), 60) as raw,
            client.wrap_socket(raw, server_hostname="localhost") as wire,
        ):
            for size in (1, 1000, 100_000):
                sent, received = bytes(at * 7 % 256 for at in range(size)), b""
                wire.sendall(sent)
                while len(received) < size:
                    received += wire.recv(size)
                assert received == sent
            return wire.unwrap().recv(1)

    async def main():
        listener, limits, port = listening(Echo, server)
        assert await asyncio.to_thread(use_it, port) == b""
        async with asyncio.timeout(60):
            while limits.count:
                await asyncio.sleep(0.01)
        await listener.close()
        Echo.served.clear()

    run(main())


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
@pytest.mark.parametrize("sent", [b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\0\x05hello", b""])
def test_a_handshake_that_fails_is_logged_and_closed(run, certified, sent):
    server, _ = certified

    async def main():
        listener, limits, port = listening(Echo, server)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(sent)
        writer.write_eof()
        async with asyncio.timeout(60):
            with contextlib.suppress(ConnectionError):
                await reader.read()
            while limits.count:
                await asyncio.sleep(0.01)
        writer.close()
        await listener.close()

    with structlog.testing.capture_logs() as logged:
        run(main())
    (line,) = logged
    assert (line["event"], line["side"], line["peer"]) == (
        "closing a connection",
        "client",
        "127.0.0.1",
    )
    assert "TLS" in line["reason"] or not sent


def refuse_certificate(port):
    with (
        socket.create_connection(("127.0.0.1", port), 60) as raw,
        contextlib.suppress(ssl.SSLError),
    ):
        ssl.create_default_context().wrap_socket(raw, server_hostname="localhost")


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
def test_a_client_that_refuses_the_certificate_is_logged(run, certified):
    server, _ = certified

    async def main():
        listener, limits, port = listening(Echo, server)
        await asyncio.to_thread(refuse_certificate, port)
        async with asyncio.timeout(60):
            while limits.count:
                await asyncio.sleep(0.01)
        await listener.close()

    with structlog.testing.capture_logs() as logged:
        run(main())
    (line,) = logged
    assert line["reason"].startswith("TLS: ")


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
@pytest.mark.parametrize("begun", [b"", b"\x16", b"\x16\x03\x01\x01\0abc"])
def test_a_handshake_has_a_limited_time(run, certified, begun, monkeypatch):
    monkeypatch.setattr("penstock.gateway.listening.listener.TLS_HANDSHAKE_S", 0.2)
    server, _ = certified

    async def main():
        listener, limits, port = listening(Echo, server)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(begun)
        async with asyncio.timeout(60):
            with contextlib.suppress(ConnectionError):
                assert await reader.read() == b""
        writer.close()
        await listener.close()
        assert limits.count == 0

    with structlog.testing.capture_logs() as logged:
        run(main())
    (line,) = logged
    assert line["reason"].startswith("SSL handshake is taking longer than 0.2 seconds")


class Talkative(Receiving):
    """Sends much, reads nothing, and closes once the client has sent as well."""

    SENT = b"response" * 2**18

    def __init__(self, closed):
        self._closed = closed

    def connection_made(self, transport):
        transport.write(self.SENT)
        transport.pause_reading()
        asyncio.get_running_loop().call_soon(self._close_if_received, transport)

    def _close_if_received(self, transport):
        if readable_bytes(transport):
            transport.close()
        else:
            asyncio.get_running_loop().call_soon(self._close_if_received, transport)

    def connection_lost(self, exc):
        self._closed()


@NATIVE_ONLY
@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_pipelining_client_gets_all_responses_of_a_gateway_that_closes(run, version, certified):
    server, client = certified
    client.minimum_version = client.maximum_version = version

    def use_it(port):
        raw = socket.socket()
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
        raw.settimeout(60)
        raw.connect(("127.0.0.1", port))
        received = b""
        with raw, client.wrap_socket(raw, server_hostname="localhost") as wire:
            wire.sendall(b"request" * 10_000)
            while part := wire.recv(2**16):
                received += part
        return received

    async def main():
        listener, limits, port = listening(lambda _, closed: Talkative(closed), server)
        assert await asyncio.to_thread(use_it, port) == Talkative.SENT
        async with asyncio.timeout(60):
            while limits.count:
                await asyncio.sleep(0.01)
        await listener.close()

    run(main())


@NATIVE_ONLY
@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
def test_a_connection_that_times_out_is_not_a_handshake_that_does(run, certified, monkeypatch):
    server, _ = certified

    async def times_out(_):
        raise TimeoutError(errno.ETIMEDOUT, "Connection timed out")

    monkeypatch.setattr(server, "accept", times_out)

    async def main():
        listener, limits, port = listening(Echo, server)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        async with asyncio.timeout(60):
            assert await reader.read() == b""
        writer.close()
        await listener.close()
        assert limits.count == 0

    with structlog.testing.capture_logs() as logged:
        run(main())
    (line,) = logged
    assert "Connection timed out" in line["reason"]


def reset_after_first_message(port):
    unsent, received = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = ssl.create_default_context().wrap_bio(received, unsent, server_hostname="localhost")
    with contextlib.suppress(ssl.SSLWantReadError):
        client.do_handshake()
    with socket.create_connection(("127.0.0.1", port), 60) as raw:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        raw.sendall(unsent.read())
        raw.recv(100)


@NATIVE_ONLY
@pytest.mark.parametrize("fail", [refuse_certificate, reset_after_first_message])
def test_a_failed_handshake_leaves_no_objects(certified, monkeypatch, fail):
    """They have the memory of a TLS connection, and the garbage collector seldom runs."""
    server, _ = certified
    made = []
    init = TlsConnection.__init__

    def noted(self, *arguments):
        made.append(weakref.ref(self))
        init(self, *arguments)

    monkeypatch.setattr(TlsConnection, "__init__", noted)

    async def main():
        listener, limits, port = listening(Echo, server)
        for _ in range(5):
            await asyncio.to_thread(fail, port)
        async with asyncio.timeout(20):
            while len(made) < 5 or limits.count or any(reference() for reference in made):
                await asyncio.sleep(0.01)
        await listener.close()

    gc.collect()
    gc.disable()
    try:
        uvloop.run(main())
    finally:
        gc.enable()


@pytest.mark.parametrize("host", ["", "::", "0:0:0:0:0:0:0:0"])
async def test_ipv4_and_ipv6_are_accepted_on_all_addresses_and_a_client_has_one_name(
    host, tmp_path
):
    peers = []

    def make(peer, on_closed):
        peers.append(peer.host)
        return Echo(peer, on_closed)

    bound = bind(Address(host, 0), "listeners", tmp_path)
    listener, _, port = listening(make, bound=bound, per_ip=1)
    try:
        for address in ("127.0.0.1", "::1"):
            client = await asyncio.open_connection(address, port)
            assert await is_served(*client)
            refused = await asyncio.open_connection(address, port)
            assert not await is_served(*refused)
            for _, writer in (client, refused):
                writer.close()
        assert peers == ["127.0.0.1", "::1"]
    finally:
        await listener.close()


@pytest.mark.parametrize("host", ["", "::"])
def test_ipv4_is_accepted_where_there_is_no_ipv6(host, monkeypatch, tmp_path):
    monkeypatch.setattr(socket, "has_dualstack_ipv6", lambda: False)
    with bind(Address(host, 0), "listeners", tmp_path) as bound:
        assert bound.getsockname()[0] == "0.0.0.0"


def test_ipv4_is_accepted_where_no_address_of_ipv6_is_free(monkeypatch, tmp_path):
    create = socket.create_server

    def without_addresses(address, **options):
        if options.get("family") == socket.AF_INET6:
            raise OSError(errno.EADDRNOTAVAIL, "not here")
        return create(address, **options)

    monkeypatch.setattr(socket, "create_server", without_addresses)
    with bind(Address("", 0), "listeners", tmp_path) as bound:
        assert bound.getsockname()[0] == "0.0.0.0"


def test_other_addresses_are_of_one_family(tmp_path):
    with bind(Address("0.0.0.0", 0), "listeners", tmp_path) as bound:
        assert bound.family == socket.AF_INET
    with bind(Address("::1", 0), "listeners", tmp_path) as bound:
        assert bound.getsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY) == 1
