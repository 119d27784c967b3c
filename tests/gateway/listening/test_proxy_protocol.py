"""The PROXY protocol, version 2: headers that are read, and headers that are rejected."""

import asyncio
import contextlib
import socket
import ssl
import struct
from ipaddress import ip_address

import pytest
import structlog
import trustme
import uvloop

from penstock.configuration import Address
from penstock.gateway.listening import listener, proxy_protocol
from penstock.gateway.listening.listener import ConnectionLimits, Listener
from penstock.gateway.listening.proxy_protocol import (
    HEADER_MAX_BYTES,
    SIGNATURE,
    EndedError,
    ProxyHeaderError,
    read_address,
    read_client,
    read_fixed,
)
from penstock.gateway.listening.server_names import ServerNames
from penstock.gateway.listening.tls import server_context
from tests.proxies import header

system = pytest.mark.system
ANY = 2**31 - 1
TLVS = b"\x03\x00\x04abcd" + b"\xea\x00\x10" + bytes(16)


def read(data: bytes):
    command, family, length = read_fixed(data[:16])
    return command, read_address(family, data[16 : 16 + length])


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("203.0.113.7", "203.0.113.7"),
        ("2001:db8::7", "2001:db8::7"),
        ("::ffff:203.0.113.7", "203.0.113.7"),
        ("::1", "::1"),
    ],
)
@pytest.mark.parametrize("tlvs", [b"", TLVS])
def test_the_address_of_a_client_is_read(source, expected, tlvs):
    assert read(header(source, 54321, tlvs=tlvs)) == (1, Address(expected, 54321))


@pytest.mark.parametrize("family", [0x00, 0x12, 0x22, 0x31, 0x32])
def test_address_families_without_a_usable_address_are_read(family):
    data = SIGNATURE + struct.pack(">BBH", 0x21, family, 5) + b"12345"
    assert read(data) == (1, None)


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (SIGNATURE + b"\x11\x11\x00\x00", "its version is 1, not 2"),
        (SIGNATURE + b"\x31\x11\x00\x00", "its version is 3"),
        (SIGNATURE + b"\x22\x11\x00\x00", "command 2 is not known"),
        (SIGNATURE + b"\x2f\x11\x00\x00", "command 15 is not known"),
        (SIGNATURE + b"\x21\x13\x00\x00", "family 0x13 is not known"),
        (SIGNATURE + b"\x21\x41\x00\x00", "family 0x41 is not known"),
        (SIGNATURE + b"\x21\x11\x00\x0b" + bytes(11), "11 bytes for addresses that take 12"),
        (SIGNATURE + b"\x21\x21\x00\x0c" + bytes(12), "12 bytes for addresses that take 36"),
        (b"PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\n", "version 1; have the load balancer send version 2"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(16), "it is missing"),
        (b"\0\0\0\x20\0\x12\0\x03" + bytes(16), "it is missing"),
    ],
)
def test_invalid_headers_are_rejected(data, complaint):
    with pytest.raises(ProxyHeaderError, match=complaint):
        read(data)


@contextlib.asynccontextmanager
async def connected():
    """A client's socket, and the accepted socket."""
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    with ours, theirs:
        yield ours, theirs


async def written(client: socket.socket, data: bytes, size: int) -> None:
    for start in range(0, len(data), size):
        client.sendall(data[start : start + size])
        await asyncio.sleep(0)


@system
@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
@pytest.mark.parametrize("size", [1, 3, 16, 17, 10_000])
def test_a_header_in_pieces_is_read_without_a_byte_after_it(new_loop, size):
    async def both():
        async with connected() as (client, accepted):
            data = header("203.0.113.7", 5, tlvs=TLVS) + b"\x16\x03\x01 the client's first bytes"
            reading = asyncio.ensure_future(read_client(accepted))
            await written(client, data, size)
            return await reading, accepted.recv(100)

    with asyncio.Runner(loop_factory=new_loop) as runner:
        found, rest = runner.run(both())
    assert found == Address("203.0.113.7", 5)
    assert rest == b"\x16\x03\x01 the client's first bytes"


@system
async def test_a_connection_of_the_load_balancer_itself_has_its_address():
    async with connected() as (client, accepted):
        local = SIGNATURE + struct.pack(">BBH", 0x20, 0xFF, 7) + b"ignored" + b"rest"
        client.sendall(local)
        assert await read_client(accepted) is None
        assert accepted.recv(100) == b"rest"


@system
@pytest.mark.parametrize("end", range(1, 16 + 12 + len(TLVS)))
async def test_a_truncated_header_is_an_error(end):
    async with connected() as (client, accepted):
        client.sendall(header("203.0.113.7", 5, tlvs=TLVS)[:end])
        client.shutdown(socket.SHUT_WR)
        with pytest.raises(ProxyHeaderError, match="ends too early"):
            await read_client(accepted)


@system
async def test_a_health_check_that_only_connects_is_not_logged():
    async with connected() as (client, accepted):
        client.shutdown(socket.SHUT_WR)
        with pytest.raises(EndedError):
            await read_client(accepted)


@system
async def test_no_more_bytes_are_read_than_a_header_may_have():
    async with connected() as (client, accepted):
        client.sendall(SIGNATURE + struct.pack(">BBH", 0x21, 0x11, HEADER_MAX_BYTES - 15))
        with pytest.raises(ProxyHeaderError, match=f"more than {HEADER_MAX_BYTES}"):
            await read_client(accepted)
    async with connected() as (client, accepted):
        client.sendall(header("203.0.113.7", 5, tlvs=bytes(HEADER_MAX_BYTES - 28)))
        assert await read_client(accepted) == Address("203.0.113.7", 5)


@system
@pytest.mark.parametrize("data", [b"PROX", b"\r\n\r\n\0x", b"GET /", b"\x16"])
async def test_an_invalid_header_is_rejected_at_its_first_wrong_byte(data):
    async with connected() as (client, accepted):
        client.sendall(data)  # and nothing more: nobody waits for sixteen bytes
        with pytest.raises(ProxyHeaderError):
            await asyncio.wait_for(read_client(accepted), 60)


class Served(asyncio.Protocol):
    made: list = []

    def __init__(self, peer, on_closed):
        self.peer, self.on_closed = peer, on_closed

    def connection_made(self, transport):
        self.transport = transport
        self.made.append(self)

    def data_received(self, data):
        self.transport.write(f"{self.peer} {data.decode()}".encode())

    def connection_lost(self, _):
        self.on_closed()


class Running:
    """A listener behind a load balancer, and connections from that load balancer."""

    def __init__(self, make=Served, tls=None, **limits):
        loop = asyncio.get_running_loop()
        limits = {"max_connections": ANY, "per_ip": ANY, "creation_rate": ANY, **limits}
        self.limits = ConnectionLimits(**limits, clock=loop.time)
        listening = socket.create_server(("127.0.0.1", 0))
        listening.setblocking(False)
        self.port = listening.getsockname()[1]
        self.listener = Listener(listening, self.limits, make, tls, proxied=True)
        self._writers = []

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        await self.listener.close()
        for writer in self._writers:
            writer.close()
        while Served.made:
            Served.made.pop().transport.abort()
        await asyncio.sleep(0.01)

    async def connect(self, data=b""):
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(data)
        self._writers.append(writer)
        return reader, writer

    async def answer(self, data):
        """Send bytes; return the response, or nothing if the connection is closed."""
        reader, _ = await self.connect(data)
        with contextlib.suppress(ConnectionError):
            return (await asyncio.wait_for(reader.read(100), 60)).decode()
        return ""


@system
async def test_the_listener_uses_the_address_of_the_header():
    async with Running() as running:
        assert await running.answer(header("203.0.113.7", 5) + b"hello") == "203.0.113.7:5 hello"
        assert await running.answer(header("2001:db8::7", 5) + b"hello") == "[2001:db8::7]:5 hello"
        local = await running.answer(SIGNATURE + b"\x20\x00\x00\x00hello")
        assert local.startswith("127.0.0.1:")


@system
async def test_connections_are_counted_by_the_address_of_the_header():
    async with Running(per_ip=1) as running:
        first = await running.connect(header("203.0.113.7", 5) + b"a")
        assert await first[0].read(100)
        assert await running.answer(header("203.0.113.8", 5) + b"b")  # another, from the same peer
        assert not await running.answer(header("203.0.113.7", 6) + b"c")
        assert not await running.answer(header("::ffff:203.0.113.7", 6) + b"c")
        first[1].close()
        await first[1].wait_closed()
        while running.limits.count > 1:
            await asyncio.sleep(0.01)
        assert await running.answer(header("203.0.113.7", 5) + b"d")


@system
async def test_a_connection_without_a_header_is_counted_closed_and_logged(monkeypatch):
    monkeypatch.setattr(listener, "HEADER_S", 0.2)
    async with Running(max_connections=3) as running:
        with structlog.testing.capture_logs() as logged:
            slow = [await running.connect(part) for part in (b"", b"\r", header("1.2.3.4", 5)[:20])]
            waiting = await running.connect(header("203.0.113.7", 5) + b"x")
            for reader, _ in slow:
                with contextlib.suppress(ConnectionError):
                    assert await asyncio.wait_for(reader.read(1), 60) == b""
            # A further one was accepted when they were closed.
            assert await asyncio.wait_for(waiting[0].read(100), 60) == b"203.0.113.7:5 x"
            assert running.limits.count == 1
            monkeypatch.setattr(listener, "HEADER_S", 60)
            assert not await running.answer(b"\0\0\0\x20\0\x12\0\x03" + bytes(8))
            _, writer = await running.connect()
            writer.close()
            while running.limits.count > 1:
                await asyncio.sleep(0.01)
    reasons = [line["reason"] for line in logged if "PROXY" in line["event"]]
    assert reasons == ["it is not there after 0 s"] * 3 + ["it is missing"]


@system
@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_the_gateways_event_loop_reads_the_header_and_then_the_tls_handshake(
    new_loop, tmp_path, monkeypatch
):
    """A header in time and a late header, then TLS with the name of a broker."""
    monkeypatch.setattr(listener, "HEADER_S", 0.5)
    authority, file = trustme.CA(), tmp_path / "listener.pem"
    issued = authority.issue_cert("gw.example.com", "*.gw.example.com")
    issued.private_key_and_cert_chain_pem.write_to_path(file)
    context = server_context({"ssl.keystore.location": str(file)}, tmp_path / "file")
    names = ServerNames("gw.example.com")
    names.attach(context)

    class Named(Served):
        def data_received(self, data):
            self.transport.write(f"{self.peer} {names.node_of(self.transport)}".encode())

    def request_name(port, name):
        client = ssl.create_default_context()
        authority.configure_trust(client)
        with socket.create_connection(("127.0.0.1", port), 60) as raw:
            raw.sendall(header("203.0.113.7", 5))
            with client.wrap_socket(raw, server_hostname=name) as secure:
                secure.sendall(b"?")
                return secure.recv(100).decode()

    async def use():
        async with Running(Named, context) as running:
            late, _ = await running.connect(header("203.0.113.7", 5)[:20])
            while not running.limits.count:
                await asyncio.sleep(0.01)
            monkeypatch.setattr(listener, "HEADER_S", 60)
            for name, node in (("gw.example.com", None), ("broker-7.gw.example.com", 7)):
                answer = await asyncio.to_thread(request_name, running.port, name)
                assert answer == f"203.0.113.7:5 {node}"
            assert await asyncio.wait_for(late.read(1), 60) == b""
            with pytest.raises(ssl.SSLError, match=r"(?i)eof|unrec"):
                await asyncio.to_thread(request_name, running.port, "other.gw.example.com")
            while running.limits.count:
                await asyncio.sleep(0.01)

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(use())


def test_the_header_of_these_tests_is_that_of_the_standard():
    """The expected bytes are from another implementation."""
    known = bytes.fromhex("0d0a0d0a000d0a515549540a2111000c") + bytes(
        [203, 0, 113, 7, 198, 51, 100, 1]
    )
    assert header("203.0.113.7", 54321, "198.51.100.1", 9092) == known + bytes.fromhex("d4312384")
    assert ip_address("203.0.113.7").packed in known
    assert proxy_protocol.HEADER_S > 0
