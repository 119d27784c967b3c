"""Which connections rustls serves, and with which versions, suites and certificates."""

import asyncio
import contextlib
import socket
import ssl
import threading

import pytest
import structlog
import trustme
from cryptography.hazmat.primitives import serialization

from penstock.configuration import read_configuration
from penstock.gateway.listening.client_listeners import Listening
from penstock.gateway.listening.endpoints import endpoints_of
from penstock.gateway.listening.native_tls import NativeTls
from penstock.gateway.listening.server_names import ServerNames
from penstock.gateway.listening.tls import server_context
from penstock.gateway.listening.tls_connection import TlsPhase
from penstock.native import find_native
from tests.gateway.listening.test_tls import JAVA_SUITES, Files, only

native, _ = find_native()
pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(not hasattr(native, "TlsServer"), reason="penstock_native is not installed"),
]
HOST = "gw.example.com"


@pytest.fixture
def files(tmp_path):
    return Files(tmp_path)


def native_tls(files, names=None, **properties):
    named = {f"ssl.{key.replace('_', '.')}": value for key, value in properties.items()}
    named = {"ssl.keystore.location": str(files.key), **named}
    return NativeTls(native, server_context(named, files.file), named, files.file, names)


def client_context(files, change=lambda _: None):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    files.authority.configure_trust(context)
    context.check_hostname = False
    change(context)
    return context


class Ends:
    """Both ends of a connection in memory: OpenSSL's client, and rustls's server."""

    def __init__(self, accept, context, name=None):
        self.inwards, self.outwards = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.client = context.wrap_bio(self.inwards, self.outwards, server_hostname=name)
        with pytest.raises(ssl.SSLWantReadError):
            self.client.do_handshake()
        self.server = accept(self.outwards.read())

    def shake_hands(self):
        self.inwards.write(self.server.take_unsent())
        while self.server.phase == TlsPhase.HANDSHAKE:
            with contextlib.suppress(ssl.SSLWantReadError):
                self.client.do_handshake()
            self.to_server()
        self.client.do_handshake()
        return self

    def to_server(self):
        plain, unsent, _ = self.server.receive(self.outwards.read())
        self.inwards.write(unsent)
        return plain

    def to_client(self, data):
        self.inwards.write(self.server.send(data))
        found = b""
        while len(found) < len(data):
            found += self.client.read(2**20)
        return found


def connect(served, context, name=None):
    """Send a client's first message; return its connection, if rustls serves it."""

    def accept(hello):
        ours, theirs = socket.socketpair()
        with ours, theirs:
            theirs.setblocking(False)
            ours.sendall(hello)
            found = asyncio.run(served.accept(theirs))
            theirs.setblocking(True)
            ours.sendall(b"x")
            assert theirs.recv(2**16) == (b"" if found else hello) + b"x"
            return found

    ends = Ends(accept, context, name)
    return ends.shake_hands() if ends.server is not None else None


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_bytes_arrive_in_both_directions(files, version):
    ends = connect(native_tls(files), client_context(files, only(version)))
    assert ends.client.version() == version.name.replace("_", ".")
    for size in (1, 200, 16_384, 16_385, 300_000):
        data = bytes(at * 7 % 256 for at in range(size))
        ends.client.write(data)
        assert ends.to_server() == data
        assert ends.to_client(data) == data


def test_a_record_in_parts_waits_for_its_last_byte(files):
    ends = connect(native_tls(files), client_context(files))
    ends.client.write(b"hello")
    record = ends.outwards.read()
    for byte in record[:-1]:
        assert ends.server.receive(bytes([byte])) == (b"", b"", TlsPhase.OPEN)
    assert ends.server.receive(record[-1:])[0] == b"hello"


@pytest.mark.parametrize(("named", "spoken"), JAVA_SUITES)
def test_the_suites_of_the_listener_are_spoken(files, named, spoken):
    served = native_tls(files, cipher_suites=named)
    ends = connect(served, client_context(files)) if served._server else None
    if "GCM" in spoken or "CHACHA" in spoken:
        assert ends.client.cipher()[:2] == (spoken, "TLSv1.2")
    else:
        assert ends is None


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_version_that_is_not_enabled_is_left_to_python(files, version):
    served = native_tls(files, enabled_protocols="TLSv1.2")
    ends = connect(served, client_context(files, only(version)))
    assert (ends is None) == (version is ssl.TLSVersion.TLSv1_3)


def test_a_client_without_a_common_suite_is_left_to_python(files):
    def old(context):
        only(ssl.TLSVersion.TLSv1_2)(context)
        context.set_ciphers("ECDHE-RSA-AES256-SHA384")

    assert connect(native_tls(files), client_context(files, old)) is None


@pytest.mark.parametrize(
    ("name", "is_served"),
    [(HOST, True), (f"broker-7.{HOST}", True), ("Broker-7.GW.example.com", True),
     ("other.example.com", False), (f"broker-x.{HOST}", False), (None, False)],
)  # fmt: skip
def test_a_name_selects_a_broker_and_another_name_is_left_to_python(files, name, is_served):
    names = ServerNames(HOST)
    ends = connect(native_tls(files, names), client_context(files), name)
    assert (ends is not None) == is_served
    if is_served:
        found = names._find(ends.server.server_name)
        assert found == (7 if "7" in name else None)


@pytest.mark.parametrize("named", [HOST, "anything.example.org", "192.0.2.1", None])
def test_without_names_of_brokers_any_name_is_served(files, named):
    assert connect(native_tls(files), client_context(files), named) is not None


def test_a_renewed_certificate_is_shown_to_new_connections(files):
    served = native_tls(files)
    context = client_context(files)
    before = connect(served, context).client.getpeercert()
    files.issue("second.example.com")
    assert connect(served, context).client.getpeercert() == before
    served.renew()
    after = connect(served, context).client.getpeercert()
    assert after["subjectAltName"] == (("DNS", "second.example.com"),)


def test_a_client_can_resume_its_session(files):
    served, context = native_tls(files), client_context(files)
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        only(version)(context)
        first = connect(served, context)
        first.to_client(b"x")  # with it a session has come

        def accept(hello, served=served):
            return served._server.hello(hello).answer()

        inwards, outwards = ssl.MemoryBIO(), ssl.MemoryBIO()
        client = context.wrap_bio(inwards, outwards, session=first.client.session)
        with pytest.raises(ssl.SSLWantReadError):
            client.do_handshake()
        inwards.write(accept(outwards.read()).take_unsent())
        with contextlib.suppress(ssl.SSLWantReadError):
            client.do_handshake()
        assert client.session_reused


def test_keys_of_elliptic_curves_are_used(tmp_path):
    files = Files(tmp_path)
    issued = files.authority.issue_cert(HOST, key_type=trustme.KeyType.ECDSA)
    issued.private_key_and_cert_chain_pem.write_to_path(files.key)
    ends = connect(native_tls(files), client_context(files, only(ssl.TLSVersion.TLSv1_2)))
    assert ends.client.cipher()[0].startswith("ECDHE-ECDSA-")


def test_a_key_in_the_configuration_file_is_used(files):
    key, _, chain = files.key.read_text().partition("-----BEGIN CERTIFICATE-----")
    named = {
        "ssl.keystore.key": key,
        "ssl.keystore.certificate.chain": f"-----BEGIN CERTIFICATE-----{chain}",
    }
    served = NativeTls(native, server_context(named, files.file), named, files.file, None)
    assert connect(served, client_context(files)) is not None


def unserved(files, **properties):
    with structlog.testing.capture_logs() as logged:
        served = native_tls(files, **properties)
    assert connect(served, client_context(files)) is None
    (line,) = logged
    assert line["event"] == "connections with TLS are processed in Python"
    return line["reason"]


def test_listeners_with_client_certificates_are_left_to_python(files, tmp_path):
    files.authority.cert_pem.write_to_path(tmp_path / "authority.pem")
    for demand in ("required", "requested"):
        reason = unserved(
            files, client_auth=demand, truststore_location=str(tmp_path / "authority.pem")
        )
        assert reason == "ssl.client.auth"


def test_an_encrypted_key_is_left_to_python(files):
    key, _, chain = files.key.read_bytes().partition(b"-----BEGIN CERTIFICATE-----")
    encrypted = serialization.load_pem_private_key(key, None).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"secret"),
    )
    files.key.write_bytes(encrypted + b"-----BEGIN CERTIFICATE-----" + chain)
    reason = unserved(files, key_password="secret")
    assert reason == "the key is encrypted, or of a kind that is not known"


def test_suites_that_are_all_unknown_are_left_to_python(files):
    assert "cipher suite" in unserved(
        files, cipher_suites=JAVA_SUITES[1][0], enabled_protocols="TLSv1.2"
    )


def test_an_error_is_reported_to_the_client_and_nothing_follows_it(files):
    ends = connect(native_tls(files), client_context(files))
    ends.client.write(b"good")
    good = ends.outwards.read()
    ends.client.write(b"bad")
    bad = bytearray(ends.outwards.read())
    bad[-1] ^= 1
    plain, alert, phase = ends.server.receive(good + bytes(bad))
    assert (plain, phase) == (b"good", TlsPhase.FAILED)
    ends.inwards.write(alert)
    with pytest.raises(ssl.SSLError, match="ALERT_BAD_RECORD_MAC"):
        ends.client.read(1)
    assert ends.server.receive(good) == (b"", b"", TlsPhase.FAILED)
    with pytest.raises(ConnectionError):
        ends.server.send(b"x")


def test_the_ends_of_both_sides_follow_the_bytes_before_them(files):
    ends = connect(native_tls(files), client_context(files))
    ends.client.write(b"last")
    with pytest.raises(ssl.SSLWantReadError):
        ends.client.unwrap()
    plain, _, phase = ends.server.receive(ends.outwards.read())
    assert (plain, phase) == (b"last", TlsPhase.ENDED)
    ends.inwards.write(ends.server.send(b"answer"))
    assert ends.client.read(9) == b"answer"
    ends.server.end()
    ends.inwards.write(ends.server.take_unsent())
    with pytest.raises(ssl.SSLZeroReturnError):
        ends.client.read(1)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_nothing_is_sent_with_keys_that_are_used_up(files, version):
    ends = connect(native_tls(files), client_context(files, only(version)))
    assert not ends.server.is_worn
    ends.server.count_records(2**24 - 2**20)
    assert ends.to_client(b"x") == b"x"
    assert ends.server.is_worn == (version is ssl.TLSVersion.TLSv1_2)
    ends.server.count_records(2**20)
    if version is ssl.TLSVersion.TLSv1_2:
        with pytest.raises(ConnectionError, match="used up"):
            ends.server.send(b"x")
    else:
        assert ends.to_client(b"x") == b"x"


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SASL_PLAINTEXT", "SSL", "SASL_SSL"])
def test_connections_of_which_the_brokers_side_has_tls_are_left_to_python(
    files, tmp_path, protocol
):
    properties = {
        "upstream.bootstrap.servers": "none:1",
        "upstream.security.protocol": protocol,
        "upstream.sasl.mechanism": "PLAIN",
        "upstream.sasl.jaas.config": (
            "org.apache.kafka.common.security.plain.PlainLoginModule required "
            'username="u" password="p";'
        ),
        "listeners": "SSL://127.0.0.1:0",
        "ssl.keystore.location": str(files.key),
    }
    of = read_configuration(tmp_path / "gateway.properties", properties)
    with structlog.testing.capture_logs() as logged:
        listening = Listening(of, endpoints_of(of), None, None, native)
    assert isinstance(listening._tls, NativeTls) == protocol.endswith("PLAINTEXT")
    reasons = [line["reason"] for line in logged if "processed in Python" in line["event"]]
    assert reasons == ([] if protocol.endswith("PLAINTEXT") else ["upstream.security.protocol"])


def first_bytes(*parts, ends=False):
    """Send parts of a first message to a listener that would serve it; return what it accepts."""
    ours, theirs = socket.socketpair()

    def send():
        for part in parts:
            ours.sendall(part)
        if ends:
            ours.shutdown(socket.SHUT_WR)

    return ours, theirs, threading.Thread(target=send)


@pytest.mark.parametrize(
    "sent",
    [b"GET / HTTP/1.1\r\n", b"\x80\x2e\x01\x00\x02", b"\x16\x03\x01\xff\xff", b"\x16\x03\x01\0\0x",
     b"\x16\x03\x01\0\x05hello", b""],
)  # fmt: skip
def test_what_is_not_tls_is_left_to_python(files, sent):
    served = native_tls(files)
    ours, theirs, sending = first_bytes(sent, ends=True)
    with ours, theirs:
        theirs.setblocking(False)
        sending.start()
        assert asyncio.run(asyncio.wait_for(served.accept(theirs), 60)) is None
        sending.join()
        assert theirs.recv(100) == sent
