"""Connections to brokers with TLS: who judges certificates, who has the bytes, and which errors show."""

import asyncio
import contextlib
import datetime
import gc
import random
import ssl
import time
import weakref
from types import SimpleNamespace

import pytest
import structlog
import trustme
import uvloop
from cryptography.hazmat.primitives import serialization

from penstock import _native
from penstock.configuration import Address
from penstock.configuration.clients.tls import client_context
from penstock.gateway import broker_tls
from penstock.gateway.broker_connection import ConnectError, connect
from penstock.gateway.broker_tls import BrokerTls
from penstock.gateway.lane import availability
from penstock.gateway.listening.tls_connection import TlsConnection, TlsPhase
from tests.gateway.listening.receiving import Receiving
from tests.gateway.listening.tls_files import JAVA_SUITES, only
from tests.gateway.listening.tls_sessions import Keys

native = _native
pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(not hasattr(native, "TlsClient"), reason="native threads need Linux"),
]
WITHIN_S = 30.0
YESTERDAY = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=1)


class Certificates:
    """An authority, and files with keys and certificates that it issues."""

    def __init__(self, folder):
        self.folder, self.authority = folder, trustme.CA()
        self.trust = folder / "authority.pem"
        self.authority.cert_pem.write_to_path(self.trust)

    def issue(self, *names, authority=None, **more):
        """Return a file; by default, for `localhost`."""
        more = {"key_type": trustme.KeyType.RSA, **more}
        issued = (authority or self.authority).issue_cert(*(names or ("localhost",)), **more)
        file = self.folder / f"{issued.private_key_pem.bytes()[40:60].hex()}.pem"
        issued.private_key_and_cert_chain_pem.write_to_path(file)
        return file


@pytest.fixture
def certificates(tmp_path):
    return Certificates(tmp_path)


class Broker:
    """A server with TLS that returns what it receives."""

    def __init__(self, file, change=lambda _: None):
        self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.tls.load_cert_chain(file)
        change(self.tls)
        self.connections, self._serving = 0, set()
        self.shown, self.suites = [], set()
        self.writers = []

    async def __aenter__(self):
        await self.listen(0)
        return self

    async def listen(self, port):
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", port, ssl=self.tls)
        self.address = Address("localhost", self._server.sockets[0].getsockname()[1])

    async def __aexit__(self, *_):
        await self.close()

    async def close(self):
        self._server.close()
        for writer in self.writers:
            writer.transport.abort()
        await asyncio.gather(*self._serving)

    async def _serve(self, reader, writer):
        self.connections += 1
        self.writers.append(writer)
        self._serving.add(asyncio.current_task())
        if self.tls is not None:
            self.shown.append(writer.get_extra_info("peercert"))
            self.suites.add(writer.get_extra_info("cipher")[0])
        with contextlib.suppress(OSError):
            await self.converse(reader, writer)
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()

    async def converse(self, reader, writer):
        while data := await reader.read(2**16):
            writer.write(data)
            await writer.drain()


class Plain(Broker):
    """A server without TLS, which closes, gives any answer, or none at all."""

    def __init__(self, answer):
        self.tls, self.answer = None, answer
        self.connections, self.writers, self._serving = 0, [], set()

    async def converse(self, reader, writer):
        await reader.read(100)
        if self.answer is None:
            await reader.read()
        else:
            writer.write(self.answer)


class Peer(Receiving):
    """What the gateway receives of a broker."""

    def __init__(self):
        self.received = b""
        self.changed = asyncio.Event()
        self.lost = asyncio.Event()
        self.transport = None

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        self.received += data
        self.changed.set()

    def connection_lost(self, _):
        self.lost.set()
        self.changed.set()

    async def exchange(self, data):
        self.received = b""
        self.transport.write(data)
        while len(self.received) < len(data):
            self.changed.clear()
            await asyncio.wait_for(self.changed.wait(), WITHIN_S)
            assert not self.lost.is_set()
        assert self.received == data


def upstream(certificates, **more):
    """Return the TLS of a configuration, which native threads may have."""
    made = python_tls(certificates, **more)
    assert made.use(native) == ""
    return made


def python_tls(certificates, **more):
    named = {f"ssl.{key.replace('_', '.')}": str(value) for key, value in more.items()}
    properties = {"ssl.truststore.location": str(certificates.trust), **named}
    context = client_context(properties, certificates.folder / "file")
    return BrokerTls(context, properties, certificates.folder)


async def connected(tls, address):
    peer = Peer()
    transport = await tls.connect(address, lambda: peer, WITHIN_S)
    assert transport is peer.transport
    await peer.exchange(b"hello")
    return peer


async def is_native(tls, address):
    """Connect; return whether rustls has the connection."""
    peer = await connected(tls, address)
    peer.transport.close()
    await asyncio.wait_for(peer.lost.wait(), WITHIN_S)
    return isinstance(peer.transport, TlsConnection)


async def error_of(connecting):
    try:
        (await connecting).close()
    except ConnectError as error:
        return str(error)
    return ""


async def same_error(tls, address, timeout_s=WITHIN_S):
    """Return the error, which is OpenSSL's."""
    wanted = await error_of(connect(address, tls.context, asyncio.Protocol, timeout_s))
    found = await error_of(tls.connect(address, Receiving, timeout_s))
    assert found == wanted
    assert found != ""
    return found


def let_pass(monkeypatch, seconds, *, on_the_wall=None):
    """Let seconds pass from now, perhaps others for the clock that is set."""
    wall = time.time() + (seconds if on_the_wall is None else on_the_wall)
    monotonic = time.monotonic() + seconds
    clocks = SimpleNamespace(time=lambda: wall, monotonic=lambda: monotonic)
    monkeypatch.setattr(broker_tls, "time", clocks)


@pytest.mark.parametrize("loop", [asyncio.run, uvloop.run])
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_bytes_arrive_in_both_directions(certificates, version, loop):
    async def run():
        async with Broker(certificates.issue(), only(version)) as broker:
            peer = await connected(upstream(certificates), broker.address)
            assert isinstance(peer.transport, TlsConnection)
            for size in (1, 200, 16_384, 16_385, 300_000):
                await peer.exchange(bytes(at * 7 % 256 for at in range(size)))
            peer.transport.close()
            await asyncio.wait_for(peer.lost.wait(), WITHIN_S)
            assert broker.connections == 2  # the first one only for its certificate

    loop(run())


async def test_a_certificate_is_judged_once_for_many_connections(certificates):
    async with Broker(certificates.issue()) as broker:
        tls = upstream(certificates)
        peers = await asyncio.gather(*(connected(tls, broker.address) for _ in range(20)))
        assert all(isinstance(peer.transport, TlsConnection) for peer in peers)
        assert broker.connections == 21


async def test_a_certificate_is_judged_again_after_some_minutes(certificates, monkeypatch):
    async with Broker(certificates.issue()) as broker:
        tls = upstream(certificates)
        assert await is_native(tls, broker.address)
        for later, more in ((broker_tls.ACCEPTED_S - 60, 1), (broker_tls.ACCEPTED_S + 60, 2)):
            let_pass(monkeypatch, later)
            before = broker.connections
            assert await is_native(tls, broker.address)
            assert broker.connections == before + more


async def test_a_certificate_is_not_accepted_longer_than_it_is_valid(certificates, monkeypatch):
    expires_at = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=100)
    async with Broker(certificates.issue(not_after=expires_at)) as broker:
        tls = upstream(certificates)
        for later, connections in ((0, 2), (90, 3), (110, 5)):
            let_pass(monkeypatch, later)
            assert await is_native(tls, broker.address) is (later < 100)
            assert broker.connections == connections


async def test_a_clock_that_is_set_changes_nothing_but_validity(certificates, monkeypatch):
    async with Broker(certificates.issue()) as broker:
        tls = upstream(certificates)
        assert await is_native(tls, broker.address)
        for passed, wall, connections in ((60, -9999, 3), (61, 9999, 4), (400, -9999, 6)):
            let_pass(monkeypatch, passed, on_the_wall=wall)
            assert await is_native(tls, broker.address)
            assert broker.connections == connections


@pytest.mark.cases(3)
@pytest.mark.parametrize("known_before", [False, True])
@pytest.mark.parametrize("what", ["authority", "name", "expired", "another authority's"])
async def test_a_certificate_that_is_not_accepted_is_an_error_of_openssl(
    certificates, what, known_before
):
    """Also if the broker had one before that was accepted."""
    more = {
        "authority": {"authority": trustme.CA()},
        "name": {},
        "expired": {"not_before": YESTERDAY, "not_after": YESTERDAY},
        "another authority's": {"authority": certificates.authority.create_child_ca()},
    }[what]
    names = ("other",) if what == "name" else ()
    bad = certificates.issue(*names, **more)
    if what == "another authority's":  # the authority in between is not sent
        text = bad.read_text()
        bad.write_text(text[: text.index("END CERTIFICATE") + 20] + "\n")
    async with Broker(certificates.issue() if known_before else bad) as broker:
        tls = upstream(certificates)
        if known_before:
            assert await is_native(tls, broker.address)
            broker.tls.load_cert_chain(bad)
        with structlog.testing.capture_logs() as logged:
            error = await same_error(tls, broker.address)
        assert "CERTIFICATE_VERIFY_FAILED" in error
        assert logged == [], "the caller reports it"
        broker.tls.load_cert_chain(certificates.issue())
        if known_before:  # OpenSSL judges the unknown certificate with a connection
            assert not await is_native(tls, broker.address)
        assert await is_native(tls, broker.address)


async def test_a_replaced_certificate_leaves_one_connection_to_python(certificates):
    async with Broker(certificates.issue()) as broker:
        tls = upstream(certificates)
        assert await is_native(tls, broker.address)
        broker.tls.load_cert_chain(certificates.issue("localhost", key_type=trustme.KeyType.ECDSA))
        with structlog.testing.capture_logs() as logged:
            found = await asyncio.gather(*(is_native(tls, broker.address) for _ in range(9)))
        assert found.count(False) == 1
        assert logged == []


async def test_brokers_behind_one_address_may_have_a_certificate_each(certificates):
    contexts = []

    def alternate(connection, _, __):
        contexts.append(contexts.pop(0))
        connection.context = contexts[0]

    async with Broker(certificates.issue()) as broker:
        for _ in range(3):
            contexts.append(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
            contexts[-1].load_cert_chain(certificates.issue())
        broker.tls.sni_callback = alternate
        tls = upstream(certificates)
        with structlog.testing.capture_logs() as logged:
            found = [await is_native(tls, broker.address) for _ in range(20)]
        assert all(found[5:])
        assert logged == []
        assert broker.connections < 30


@pytest.mark.parametrize("algorithm", ["", "https"])
async def test_a_name_counts_as_configured(certificates, algorithm):
    async with Broker(certificates.issue("other")) as broker:
        tls = upstream(certificates, endpoint_identification_algorithm=algorithm)
        if algorithm:
            assert "Hostname mismatch" in await same_error(tls, broker.address)
        else:
            assert await is_native(tls, broker.address)


@pytest.mark.parametrize(("host", "sent"), [("127.0.0.1", None), ("localhost", "localhost")])
async def test_the_name_of_the_broker_is_sent_unless_it_is_an_address(certificates, host, sent):
    names = []
    async with Broker(certificates.issue("127.0.0.1", "localhost")) as broker:
        broker.tls.sni_callback = lambda _, name, __: names.append(name)
        assert await is_native(upstream(certificates), Address(host, broker.address.port))
        assert names == [sent, sent]


async def test_names_that_rustls_would_change_are_left_to_python(certificates, monkeypatch):
    loop = asyncio.get_running_loop()
    resolve = loop.getaddrinfo
    monkeypatch.setattr(
        loop, "getaddrinfo", lambda _, *rest, **how: resolve("localhost", *rest, **how)
    )
    async with Broker(certificates.issue()) as broker:
        tls = upstream(certificates, endpoint_identification_algorithm="")
        address = Address("localhost.", broker.address.port)
        with structlog.testing.capture_logs() as logged:
            assert not await is_native(tls, address)
        assert {line["reason"] for line in logged} == {"its name cannot be sent"}


async def test_certificates_that_are_their_own_authority_are_accepted_as_by_openssl(tmp_path):
    """Where the truststore has the broker's own certificate: webpki would not accept it."""
    alone = trustme.CA()
    certificates = Certificates(tmp_path)
    certificates.trust.write_bytes(alone.cert_pem.bytes())
    file = tmp_path / "broker.pem"
    alone.private_key_pem.write_to_path(file)
    alone.cert_pem.write_to_path(file, append=True)
    async with Broker(file) as broker:
        tls = upstream(certificates, endpoint_identification_algorithm="")
        wanted = await error_of(connect(broker.address, tls.context, asyncio.Protocol, WITHIN_S))
        if wanted:
            assert await same_error(tls, broker.address) == wanted
        else:
            assert await is_native(tls, broker.address)


def cbc(context):
    only(ssl.TLSVersion.TLSv1_2)(context)
    context.set_ciphers("ECDHE-RSA-AES256-SHA384")


async def test_a_broker_that_rustls_cannot_serve_is_left_to_python_for_a_while(
    certificates, monkeypatch
):
    async with Broker(certificates.issue(), cbc) as broker:
        tls = upstream(certificates)
        with structlog.testing.capture_logs() as logged:
            for number in range(4):
                assert len(logged) == (number == broker_tls._ROUNDS)
                assert not await is_native(tls, broker.address)
        (line,) = logged
        assert (line["log_level"], line["broker"]) == ("warning", str(broker.address))
        assert line["event"] == "connections to a broker are processed in Python"
        assert line["reason"]
        before = broker.connections
        assert not await is_native(tls, broker.address)
        assert broker.connections == before + 1
        let_pass(monkeypatch, broker_tls.IN_PYTHON_S + 1)
        broker.tls.set_ciphers("ECDHE-RSA-AES256-GCM-SHA384")
        assert await is_native(tls, broker.address)


async def test_a_handshake_that_only_rustls_does_not_complete_is_left_to_python_afterwards(
    certificates,
):
    async with Broker(certificates.issue()) as broker:
        tls = upstream(certificates)
        silent = SimpleNamespace(take_unsent=lambda: b"\x16", server_name=None)
        tls._client = SimpleNamespace(to=lambda *_: SimpleNamespace(connect=lambda: silent))
        with structlog.testing.capture_logs() as logged:
            for _ in range(broker_tls._ROUNDS):
                assert await error_of(tls.connect(broker.address, Peer, 1.0)) == "TimeoutError"
                assert logged == []
            assert not await is_native(tls, broker.address)
        assert [line["reason"] for line in logged] == ["the handshake takes too long"]


class Relay:
    """A relay to a broker that treats its first connections in a given way, and passes others on."""

    def __init__(self, broker, *first):
        self.broker, self.first, self.connections = broker, list(first), 0

    async def __aenter__(self):
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, backlog=300)
        self.address = Address("localhost", self._server.sockets[0].getsockname()[1])
        self._tasks, self._writers, self._ends = set(), [], asyncio.Event()
        return self

    async def __aexit__(self, *_):
        self._server.close()
        self._ends.set()
        for writer in self._writers:
            writer.transport.abort()
        await asyncio.gather(*self._tasks)

    async def _serve(self, reader, writer):
        self._tasks.add(asyncio.current_task())
        self.connections += 1
        what = self.first.pop(0) if self.first else "pass"
        self._writers.append(writer)
        try:
            if what == "reset":
                await reader.read(10)
                return
            if what == "silent":
                await self._ends.wait()
                return
            found, to_broker = await asyncio.open_connection("127.0.0.1", self.broker.address.port)
            self._writers.append(to_broker)
            await asyncio.gather(self._pass(reader, to_broker), self._pass(found, writer))
        finally:
            writer.transport.abort()

    async def _pass(self, reader, writer):
        with contextlib.suppress(OSError):
            while data := await reader.read(2**16):
                writer.write(data)
        writer.close()


@pytest.mark.parametrize("what", ["reset", "silent"])
async def test_a_broker_that_is_slow_or_loses_connections_at_times_stays_native(certificates, what):
    async with Broker(certificates.issue()) as broker, Relay(broker) as relay:
        tls = upstream(certificates)
        with structlog.testing.capture_logs() as logged:
            for _ in range(2 * broker_tls._ROUNDS):
                assert await is_native(tls, relay.address)
                relay.first = [what] * (2 if what == "reset" else 1)
                error = await error_of(tls.connect(relay.address, Receiving, 0.5))
                assert error == ("" if what == "reset" else "TimeoutError")
        assert logged == []


async def test_handshakes_that_are_slow_with_openssl_too_do_not_leave_a_broker_to_python(
    certificates, monkeypatch
):
    monkeypatch.setattr(broker_tls, "CHECK_S", 0.3)
    async with Broker(certificates.issue()) as broker, Relay(broker) as relay:
        tls = upstream(certificates)
        with structlog.testing.capture_logs() as logged:
            for _ in range(broker_tls._ROUNDS + 1):
                assert await is_native(tls, relay.address)
                relay.first = ["silent"] * 3  # a connection natively; a check, and one in Python
                for _ in range(2):
                    error = await error_of(tls.connect(relay.address, Receiving, 0.3))
                    assert error == "TimeoutError"
            assert await is_native(tls, relay.address)
        assert logged == []


async def test_the_time_of_a_handshake_begins_when_the_broker_is_connected_to(
    certificates, monkeypatch
):
    async with Broker(certificates.issue()) as broker:
        tls = upstream(certificates)
        assert await is_native(tls, broker.address)
        loop, times = asyncio.get_running_loop(), []
        connect_natively, timeout = loop.create_connection, asyncio.timeout

        async def connecting(*which, **more):
            times.append("connected")
            return await connect_natively(*which, **more)

        def noted(seconds):
            times.append(seconds)
            return timeout(seconds)

        monkeypatch.setattr(loop, "create_connection", connecting)
        monkeypatch.setattr(asyncio, "timeout", noted)
        (await tls.connect(broker.address, Peer, 7.0)).close()
        assert times == [14.0, 7.0, "connected", 7.0]


async def test_a_lost_check_refuses_nobody_that_waits_for_it(certificates):
    async with Broker(certificates.issue()) as broker, Relay(broker, "reset") as relay:
        tls = upstream(certificates)
        found = await asyncio.gather(*(is_native(tls, relay.address) for _ in range(20)))
        assert found == [False] * 20
        assert await is_native(tls, relay.address)
        assert relay.connections == 1 + 20 + 1


async def test_a_connection_takes_at_most_twice_its_time(certificates):
    async with Broker(certificates.issue()) as broker, Relay(broker, *["silent"] * 9) as relay:
        tls = upstream(certificates)
        began = time.monotonic()
        error = await error_of(tls.connect(relay.address, Receiving, 0.5))
        assert error == "TimeoutError"
        assert 0.9 < time.monotonic() - began < 5.0


async def test_a_connection_that_is_lost_in_a_handshake_is_tried_again_natively(
    certificates, monkeypatch
):
    async with Broker(certificates.issue()) as broker:
        tls = upstream(certificates)
        assert await is_native(tls, broker.address)
        loop, lost = asyncio.get_running_loop(), []
        connect_natively = loop.create_connection

        async def losing(make, *address, **more):
            found = await connect_natively(make, *address, **more)
            if not lost:
                lost.append(True)
                found[0].abort()
            return found

        monkeypatch.setattr(loop, "create_connection", losing)
        with structlog.testing.capture_logs() as logged:
            assert await is_native(tls, broker.address)
        assert (lost, logged) == ([True], [])


@pytest.mark.cases(3)
@pytest.mark.parametrize("answer", [b"", b"\0\0\0\x05other", b"HTTP/1.1 400 Bad\r\n\r\n", None])
@pytest.mark.parametrize("known_before", [False, True])
async def test_a_broker_without_tls_is_an_error_of_openssl(certificates, answer, known_before):
    async with Broker(certificates.issue()) as broker:
        tls = upstream(certificates)
        if known_before:
            assert await is_native(tls, broker.address)
        await broker.close()
        other = Plain(answer)
        await other.listen(broker.address.port)
        await same_error(tls, broker.address, 1.0 if answer is None else WITHIN_S)
        await other.close()
        tls = upstream(certificates)
        assert "Connect" in await same_error(tls, broker.address)  # it is away


async def test_a_client_that_waits_no_longer_does_not_end_the_check_of_another(certificates):
    async with Broker(certificates.issue()) as broker:
        tls = upstream(certificates)
        first = asyncio.create_task(connected(tls, broker.address))
        second = asyncio.create_task(connected(tls, broker.address))
        await asyncio.sleep(0)
        first.cancel()
        assert isinstance((await second).transport, TlsConnection)


async def test_a_connection_is_lost_with_the_brokers_end(certificates):
    async with Broker(certificates.issue()) as broker:
        tls = upstream(certificates)
        for end in ("close_notify", "end"):
            peer = await connected(tls, broker.address)
            writer = broker.writers[-1]
            writer.write(b"last")
            writer.close() if end == "close_notify" else writer.transport.abort()
            await asyncio.wait_for(peer.lost.wait(), WITHIN_S)
            assert end == "end" or peer.received.endswith(b"last")


@pytest.mark.parametrize("kind", [trustme.KeyType.RSA, trustme.KeyType.ECDSA])
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_the_gateway_shows_its_own_certificate(certificates, kind, version):
    def demands(context):
        only(version)(context)
        context.load_verify_locations(certificates.trust)
        context.verify_mode = ssl.CERT_REQUIRED

    own = certificates.issue("gateway.example.com", key_type=kind)
    key, _, chain = own.read_text().partition("-----BEGIN CERTIFICATE-----")
    inline = {
        "keystore_key": key,
        "keystore_certificate_chain": "-----BEGIN CERTIFICATE-----" + chain,
    }
    async with Broker(certificates.issue(), demands) as broker:
        for keys in ({"keystore_location": own}, inline):
            assert await is_native(upstream(certificates, **keys), broker.address)
        names = {shown["subjectAltName"] for shown in broker.shown}
        assert names == {(("DNS", "gateway.example.com"),)}
        assert len(broker.shown) == 4


async def test_a_certificate_that_the_broker_does_not_accept_ends_the_connection(certificates):
    """With TLS 1.3 it does so after the handshake."""

    def demands(context):
        context.load_verify_locations(certificates.trust)
        context.verify_mode = ssl.CERT_REQUIRED

    async with Broker(certificates.issue(), demands) as broker:
        tls = upstream(certificates)
        peer = Peer()
        await tls.connect(broker.address, lambda: peer, WITHIN_S)
        await asyncio.wait_for(peer.lost.wait(), WITHIN_S)
        assert (peer.received, broker.connections) == (b"", 0)


async def test_large_session_tickets_may_come_before_each_response(certificates):
    """Tickets have the client's certificates, as those of Java do."""

    def generous(context):
        context.num_tickets = 20
        context.load_verify_locations(certificates.trust)
        context.verify_mode = ssl.CERT_REQUIRED

    own = certificates.issue(*(f"{number:03}.gateway.example.com" for number in range(200)))
    async with Broker(certificates.issue(), generous) as broker:
        peer = await connected(upstream(certificates, keystore_location=own), broker.address)
        assert isinstance(peer.transport, TlsConnection)
        await peer.exchange(b"x" * 100_000)


def without_native(tls):
    with structlog.testing.capture_logs() as logged:
        reason = tls.use(native)
    (line,) = logged
    assert line["event"] == "connections to brokers are processed in Python"
    assert (line["log_level"], line["reason"]) == ("info", reason)
    return reason


async def test_an_encrypted_key_is_left_to_python(certificates):
    own = certificates.issue("gateway.example.com")
    key, _, chain = own.read_bytes().partition(b"-----BEGIN CERTIFICATE-----")
    encrypted = serialization.load_pem_private_key(key, None).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"secret"),
    )
    own.write_bytes(encrypted + b"-----BEGIN CERTIFICATE-----" + chain)
    tls = python_tls(certificates, keystore_location=own, key_password="secret")
    reason = without_native(tls)
    assert reason == "upstream.ssl.*: the key is encrypted, or of a kind that is not known"
    async with Broker(certificates.issue()) as broker:
        assert not await is_native(tls, broker.address)
        assert broker.connections == 1


def test_suites_that_are_all_unknown_are_left_to_python(certificates):
    tls = python_tls(certificates, cipher_suites=JAVA_SUITES[1][0], enabled_protocols="TLSv1.2")
    assert "cipher suite" in without_native(tls)


@pytest.mark.parametrize("reason", ["PENSTOCK_NATIVE_TLS=0", "OpenSSL is in FIPS mode"])
def test_all_connections_can_be_left_to_python(certificates, monkeypatch, reason):
    monkeypatch.setenv("PENSTOCK_NATIVE_TLS", "0" if "NATIVE" in reason else "")
    monkeypatch.setattr(availability, "_is_fips", lambda: "FIPS" in reason)
    assert without_native(python_tls(certificates)) == reason


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_only_enabled_versions_are_spoken(certificates, version):
    async with Broker(certificates.issue(), only(version)) as broker:
        tls = upstream(certificates, enabled_protocols="TLSv1.3")
        if version is ssl.TLSVersion.TLSv1_3:
            assert await is_native(tls, broker.address)
        else:
            await same_error(tls, broker.address)


@pytest.mark.parametrize(("named", "spoken"), JAVA_SUITES[:1])
async def test_only_configured_suites_are_spoken(certificates, named, spoken):
    async with Broker(certificates.issue()) as broker:
        tls = upstream(certificates, cipher_suites=named)
        assert await is_native(tls, broker.address)
        assert broker.suites == {spoken}


async def test_failed_connections_leave_nothing(certificates):
    async with Broker(certificates.issue(), cbc) as broker:
        tls = upstream(certificates)
        gc.collect()
        gc.disable()
        try:
            for _ in range(3):
                tls._brokers.clear()
                assert not await is_native(tls, broker.address)
            await asyncio.sleep(0)
            left = [made for made in gc.get_objects() if isinstance(made, TlsConnection)]
            assert left == []
        finally:
            gc.enable()


class Owner:
    """Has a transport, whose protocol has it: as a client's connection in the gateway."""


async def owned(tls, address):
    """Connect, perhaps in vain, and close; return what had the connection, and the error."""
    owner, peer = Owner(), Peer()
    peer.owner = owner
    try:
        owner.transport = await tls.connect(address, lambda: peer, WITHIN_S)
    except ConnectError as error:
        return weakref.ref(owner), str(error)
    assert isinstance(owner.transport, TlsConnection)
    owner.transport.close()
    await asyncio.wait_for(peer.lost.wait(), WITHIN_S)
    return weakref.ref(owner), ""


@pytest.mark.parametrize("is_accepted", [True, False])
async def test_closed_and_refused_connections_leave_nothing(certificates, is_accepted):
    authority = None if is_accepted else trustme.CA()
    async with Broker(certificates.issue(authority=authority)) as broker:
        tls = upstream(certificates)
        await owned(tls, broker.address)
        gc.collect()
        gc.disable()
        try:
            left = [await owned(tls, broker.address) for _ in range(5)]
            await asyncio.sleep(0)
            assert all(("VERIFY_FAILED" in error) is not is_accepted for _, error in left)
            assert [owner() for owner, _ in left] == [None] * 5
        finally:
            gc.enable()


async def test_addresses_that_are_not_used_any_more_are_forgotten(certificates, monkeypatch):
    async with Broker(certificates.issue("localhost", "127.0.0.1")) as broker:
        tls = upstream(certificates)
        other = Address("127.0.0.1", broker.address.port)
        assert await is_native(tls, broker.address)
        let_pass(monkeypatch, broker_tls.ACCEPTED_S + 1)
        assert await is_native(tls, other)
        assert list(tls._brokers) == [other]
        for number in range(100):
            tls._accept(other, bytes([number]), time.time() + 1000)
        assert list(tls._brokers[other].certificates) == [bytes([of]) for of in range(36, 100)]


async def test_each_certificate_of_an_address_is_forgotten_at_its_time(certificates, monkeypatch):
    async with Broker(certificates.issue()) as broker:
        tls = upstream(certificates)
        for passed in (100, 0):
            tls._accept(broker.address, b"%d" % passed, time.time() + 50 + passed)
        let_pass(monkeypatch, 60)
        assert list(tls._known(broker.address).certificates) == [b"100"]
        assert tls._known(broker.address).native is not None
        let_pass(monkeypatch, 160)
        assert tls._known(broker.address).native is None


class Ends:
    """Both ends of a connection in memory: rustls's client, and OpenSSL's server."""

    def __init__(self, certificates, change=lambda _: None, part=2**16):
        file = certificates.issue()
        self.inwards, self.outwards = ssl.MemoryBIO(), ssl.MemoryBIO()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(file)
        change(context)
        self.context = context
        self.server = context.wrap_bio(self.inwards, self.outwards, server_side=True)
        shown = ssl.PEM_cert_to_DER_cert(
            "-----BEGIN CERTIFICATE-----" + file.read_text().split("-----BEGIN CERTIFICATE-----")[1]
        )
        suites = [cipher["name"] for cipher in context.get_ciphers()]
        made = native.TlsClient(None, True, True, suites)
        self.begin = made.to("localhost", [shown]).connect
        self.client = self.begin()
        self.inwards.write(self.client.take_unsent())
        while True:
            try:
                self.server.do_handshake()
            except ssl.SSLWantReadError:
                self.to_client(part)
            else:
                break
        self.to_client(part)
        assert self.client.phase == TlsPhase.OPEN

    def flight(self, client):
        """Return what the server sends first to another client."""
        inwards, outwards = ssl.MemoryBIO(), ssl.MemoryBIO()
        inwards.write(client.take_unsent())
        with pytest.raises(ssl.SSLWantReadError):
            self.context.wrap_bio(inwards, outwards, server_side=True).do_handshake()
        return outwards.read()

    def to_client(self, part=2**16):
        """Pass on in parts what the server has sent; return its bytes, and the last phase."""
        data, received, phase = self.outwards.read(), b"", None
        for at in range(0, len(data), part):
            plain, unsent, phase = self.client.receive(data[at : at + part])
            self.inwards.write(unsent)
            received += plain
        return received, phase

    def to_server(self, data):
        self.inwards.write(self.client.send(data))
        found = b""
        while len(found) < len(data):
            found += self.server.read(2**20)
        assert found == data


@pytest.mark.parametrize("part", [1, 2, 5, 700])
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_records_of_a_broker_may_be_divided_at_each_byte(certificates, version, part):
    ends = Ends(certificates, only(version), part)
    for size in (1, 300, 17_000):
        data = bytes(at * 7 % 256 for at in range(size))
        ends.to_server(data)
        ends.server.write(data)
        assert ends.to_client(part) == (data, TlsPhase.OPEN)
    assert ends.client.held_bytes == 0
    with pytest.raises(ssl.SSLWantReadError):
        ends.server.unwrap()
    assert ends.to_client(part) == (b"", TlsPhase.ENDED)


def with_keys(certificates):
    """Return both ends, and the server's keys: for records that OpenSSL never sends."""
    log = certificates.folder / "keys"

    def logged(context):
        only(ssl.TLSVersion.TLSv1_3)(context)
        context.num_tickets = 0
        context.keylog_filename = str(log)

    ends = Ends(certificates, logged)
    (line,) = [line for line in log.read_text().splitlines() if "SERVER_TRAFFIC_SEC" in line]
    return ends, Keys(ends.server.cipher()[0], bytes.fromhex(line.split()[2]))


def test_a_broker_may_renew_its_keys_and_send_tickets_at_any_time(certificates):
    ends, keys = with_keys(certificates)
    ticket = ticket_of(60_000)
    for number in range(500):
        data = keys.renew() + keys.record(23, b"%d" % number)
        if not number % 20:
            for at in range(0, len(ticket), 16_000):
                data += keys.record(22, ticket[at : at + 16_000])
            data += keys.renew() + keys.record(23, b"!")
        plain, _, phase = ends.client.receive(data)
        assert plain == b"%d" % number + (b"" if number % 20 else b"!")
        assert phase == TlsPhase.OPEN
    ends.to_server(b"hello")


def ticket_of(size):
    """Return a NewSessionTicket."""
    body = bytes(8) + b"\0" + size.to_bytes(2, "big") + bytes(size) + b"\0\0"
    return b"\4" + len(body).to_bytes(3, "big") + body


def test_a_certificate_that_the_gateway_cannot_show_ends_the_handshake(certificates):
    """OpenSSL shows it with another signature; rustls would shake hands without it."""

    def demands(context):
        only(ssl.TLSVersion.TLSv1_2)(context)
        context.load_verify_locations(certificates.trust)
        context.verify_mode = ssl.CERT_OPTIONAL

    own = certificates.issue("gateway.example.com", key_type=trustme.KeyType.ECDSA)
    file = certificates.issue()
    ends = Ends(certificates, only(ssl.TLSVersion.TLSv1_2))
    ends.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ends.context.load_cert_chain(file)
    demands(ends.context)
    shown = ssl.PEM_cert_to_DER_cert(
        "-----BEGIN CERTIFICATE-----" + file.read_text().split("-----BEGIN CERTIFICATE-----")[1]
    )
    suites = [cipher["name"] for cipher in ends.context.get_ciphers()]
    begin = native.TlsClient(own.read_bytes(), True, False, suites).to("localhost", [shown]).connect
    for offered, is_shown in ((b"\x04\x03\x05\x03\x06\x03", True), (b"\x05\x03" * 3, False)):
        client = begin()
        flight = ends.flight(client)
        assert flight.count(b"\x04\x03\x05\x03\x06\x03") == 1
        _, sent, phase = client.receive(flight.replace(b"\x04\x03\x05\x03\x06\x03", offered))
        assert phase == (TlsPhase.HANDSHAKE if is_shown else TlsPhase.FAILED)
        assert bool(sent) is is_shown
        assert not client.is_established
        assert client.failure == (
            None if is_shown else "no signature scheme fits the gateway's key"
        )


def test_a_broker_that_sends_only_tickets_is_limited(certificates):
    ends, keys = with_keys(certificates)
    ticket, sent, phase = ticket_of(15_000), 0, TlsPhase.OPEN
    while phase == TlsPhase.OPEN:
        record = keys.record(22, ticket)
        sent += len(record)
        phase = ends.client.receive(record)[2]
    assert phase == TlsPhase.FAILED
    assert 2**18 < sent < 2**18 + 20_000
    assert ends.client.failure == "too many records have no data"


def test_a_key_update_that_wants_an_answer_gets_it(certificates):
    ends, keys = with_keys(certificates)
    ends.to_server(b"with the first keys")
    ends.client.receive(keys.record(22, b"\x18\0\0\1\1"))
    sent = ends.client.send(b"with the next keys")
    assert len(sent) > len(b"with the next keys") + 2 * 22  # with its own renewal before that
    ends.inwards.write(sent)
    assert ends.server.read(99) == b"with the next keys"


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_broker_that_sends_anything_causes_no_error_of_the_library(certificates, version):
    chance = random.Random(version)
    ends = Ends(certificates, only(version))
    failed = 0
    for _ in range(200):
        client = ends.begin()
        data = bytearray(ends.flight(client))
        for _ in range(chance.randrange(1, 4)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        if chance.random() < 0.3:
            at = chance.randrange(len(data))
            data[at:at] = chance.randbytes(chance.randrange(1, 70))
        size = chance.choice((1, 50, len(data)))
        for at in range(0, len(data), size):
            client.receive(bytes(data[at : at + size]))
        failed += client.phase == TlsPhase.FAILED
        assert client.failure != "an error of the library"
    assert failed > 100
