"""Which connections rustls serves, and with which versions, suites and certificates."""

import asyncio
import contextlib
import socket
import ssl
import threading
from types import SimpleNamespace

import pytest
import structlog
import trustme
from cryptography.hazmat.primitives import serialization

from penstock.configuration import ConfigurationError, read_configuration
from penstock.gateway.lane import availability
from penstock.gateway.listening import native_tls as native_tls_module
from penstock.gateway.listening.client_listeners import Listening
from penstock.gateway.listening.endpoints import endpoints_of
from penstock.gateway.listening.native_tls import NativeTls
from penstock.gateway.listening.server_names import ServerNames
from penstock.gateway.listening.tls import renew, server_context
from penstock.gateway.listening.tls_connection import TlsPhase
from tests.gateway.listening.tls_files import JAVA_SUITES, Files, only
from tests.gateway.listening.tls_sessions import (
    Ends,
    Keys,
    client_context,
    native,
    native_tls,
)

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(not hasattr(native, "TlsServer"), reason="native threads need Linux"),
]
HOST = "gw.example.com"


@pytest.fixture
def files(tmp_path):
    return Files(tmp_path)


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


class Unanswered:
    """A server that fails the test if it answers."""

    def __init__(self, server):
        self._server = server

    def hello(self, record):
        name = self._server.hello(record).server_name
        return SimpleNamespace(server_name=name, answer=lambda: pytest.fail("it is computed"))


@pytest.mark.parametrize("name", ["other.example.com", f"broker-x.{HOST}", None])
def test_an_unknown_name_costs_no_signature(files, name):
    served = native_tls(files, ServerNames(HOST))
    served._server = Unanswered(served._server)
    assert connect(served, client_context(files), name) is None


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


def certificate_of(tls, files):
    """Return the certificate that a listener shows natively, or in Python."""
    if isinstance(tls, NativeTls):
        return connect(tls, client_context(files)).client.getpeercert(binary_form=True)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = client_context(files).wrap_bio(to_client, to_server)
    server = tls.wrap_bio(to_server, to_client, server_side=True)
    for end in (client, server, client):
        with contextlib.suppress(ssl.SSLWantReadError):
            end.do_handshake()
    return client.getpeercert(binary_form=True)


def test_an_unusable_file_leaves_both_libraries_with_the_certificate_that_they_have(files):
    served = native_tls(files)
    before = certificate_of(served, files)
    complete = files.key.read_bytes()
    for content in (complete[: len(complete) // 2], b"", b"\x30\x82PKCS12"):
        files.key.write_bytes(content)
        with pytest.raises(ConfigurationError):
            served.renew()
        assert certificate_of(served, files) == certificate_of(served.context, files) == before
    files.key.unlink()
    with pytest.raises(ConfigurationError):
        served.renew()
    assert certificate_of(served, files) == before


def replacing(monkeypatch, files, times):
    """Replace the file right after it was read by OpenSSL, so many times."""
    left = iter(range(times))

    def renewed(*arguments):
        renew(*arguments)
        if next(left, None) is not None:
            files.issue("next.example.com")

    monkeypatch.setattr(native_tls_module, "renew", renewed)


@pytest.mark.parametrize("times", [1, 2])
def test_both_libraries_show_the_same_certificate_if_the_file_changes_meanwhile(
    files, monkeypatch, times
):
    served = native_tls(files)
    replacing(monkeypatch, files, times)
    with structlog.testing.capture_logs() as logged:
        served.renew()
    assert certificate_of(served, files) == certificate_of(served.context, files)
    assert logged == [], "connections with TLS are still native"


def test_no_client_sees_an_old_certificate_if_the_file_is_unusable_in_the_end(files, monkeypatch):
    served = native_tls(files)

    def renewed(*arguments):
        renew(*arguments)
        files.key.write_bytes(b"")

    files.issue("next.example.com")
    monkeypatch.setattr(native_tls_module, "renew", renewed)
    with structlog.testing.capture_logs() as logged, pytest.raises(ConfigurationError):
        served.renew()
    assert connect(served, client_context(files)) is None
    assert logged[0]["log_level"] == "warning"


def test_a_file_that_always_changes_leaves_connections_to_python_with_a_warning(files, monkeypatch):
    served = native_tls(files)
    replacing(monkeypatch, files, 99)
    with structlog.testing.capture_logs() as logged:
        served.renew()
    assert connect(served, client_context(files)) is None
    assert logged[0]["log_level"] == "warning"


def test_a_reload_that_ends_native_tls_is_a_warning(files):
    served = native_tls(files)
    key, _, chain = files.key.read_bytes().partition(b"-----BEGIN CERTIFICATE-----")
    files.key.write_bytes(encrypted(key) + b"-----BEGIN CERTIFICATE-----" + chain)
    served._properties["ssl.key.password"] = "secret"
    with structlog.testing.capture_logs() as logged:
        served.renew()
    (line,) = logged
    assert (line["log_level"], line["event"]) == (
        "warning",
        "connections with TLS are processed in Python",
    )


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


def encrypted(key):
    return serialization.load_pem_private_key(key, None).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"secret"),
    )


def test_an_encrypted_key_is_left_to_python(files):
    key, _, chain = files.key.read_bytes().partition(b"-----BEGIN CERTIFICATE-----")
    files.key.write_bytes(encrypted(key) + b"-----BEGIN CERTIFICATE-----" + chain)
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


def test_chacha20_does_not_wear_its_keys_out(files):
    def chacha(context):
        only(ssl.TLSVersion.TLSv1_2)(context)
        context.set_ciphers("ECDHE-RSA-CHACHA20-POLY1305")

    ends = connect(native_tls(files), client_context(files, chacha))
    ends.server.count_records(2**40)
    assert ends.to_client(b"x") == b"x"
    assert not ends.server.is_worn


def with_keys(files, tmp_path):
    """Return both ends, and the client's keys."""
    log = tmp_path / "keys"

    def logged(context):
        only(ssl.TLSVersion.TLSv1_3)(context)
        context.keylog_filename = str(log)

    ends = connect(native_tls(files), client_context(files, logged))
    (line,) = [line for line in log.read_text().splitlines() if "CLIENT_TRAFFIC_SEC" in line]
    return ends, Keys(ends.client.cipher()[0], bytes.fromhex(line.split()[2]))


def test_a_message_of_the_handshake_that_never_ends_is_not_collected(files, tmp_path):
    ends, keys = with_keys(files, tmp_path)
    server, held, phase = ends.server, 0, TlsPhase.OPEN
    assert server.receive(keys.record(23, b"hello"))[0] == b"hello"
    message = b"\x04\0\xff\xff" + b"x" * 65_000  # NewSessionTicket
    for at in range(0, len(message), 2000):
        phase = server.receive(keys.record(22, message[at : at + 2000]))[2]
        if phase == TlsPhase.OPEN:
            assert held < server.held_bytes < 20_000
            held = server.held_bytes
    assert phase == TlsPhase.FAILED
    assert held > 15_000


def test_a_connection_may_renew_its_keys_a_limited_number_of_times(files, tmp_path):
    ends, keys = with_keys(files, tmp_path)
    renewed = 0
    while ends.server.phase == TlsPhase.OPEN and renewed < 9999:
        renewed += 30
        data = b"".join(keys.renew() for _ in range(30)) + keys.record(23, b"x")
        plain, _, phase = ends.server.receive(data)
        assert plain == b"x" or phase == TlsPhase.FAILED
    assert 900 < renewed < 1100
    assert ends.server.failure == "too many records have no data"


@pytest.mark.parametrize("reason", ["PENSTOCK_NATIVE_TLS=0", "OpenSSL is in FIPS mode", ""])
def test_all_connections_with_tls_can_be_left_to_python(files, tmp_path, monkeypatch, reason):
    monkeypatch.setenv("PENSTOCK_NATIVE_TLS", "0" if "NATIVE" in reason else "")
    monkeypatch.setattr(availability, "_is_fips", lambda: "FIPS" in reason)
    properties = {
        "upstream.bootstrap.servers": "none:1",
        "listeners": "SSL://127.0.0.1:0",
        "ssl.keystore.location": str(files.key),
    }
    of = read_configuration(tmp_path / "gateway.properties", properties)
    with structlog.testing.capture_logs() as logged:
        why = availability.why_without_tls()
        listening = Listening(of, endpoints_of(of), None, None, native, why)
    assert isinstance(listening._tls, NativeTls) == (not reason)
    assert [line["reason"] for line in logged] == ([reason] if reason else [])


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SSL"])
@pytest.mark.parametrize("brokers_in_python", ["", "upstream.ssl.*: the key is encrypted"])
def test_connections_of_which_the_brokers_side_is_pythons_are_left_to_python(
    files, tmp_path, protocol, brokers_in_python
):
    properties = {
        "upstream.bootstrap.servers": "none:1",
        "upstream.security.protocol": protocol,
        "listeners": "SSL://127.0.0.1:0",
        "ssl.keystore.location": str(files.key),
    }
    of = read_configuration(tmp_path / "gateway.properties", properties)
    with structlog.testing.capture_logs() as logged:
        listening = Listening(of, endpoints_of(of), None, None, native, brokers_in_python)
    assert isinstance(listening._tls, NativeTls) == (not brokers_in_python)
    reasons = [line["reason"] for line in logged if "processed in Python" in line["event"]]
    assert reasons == ([brokers_in_python] if brokers_in_python else [])


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
def test_other_bytes_than_tls_are_left_to_python(files, sent):
    served = native_tls(files)
    ours, theirs, sending = first_bytes(sent, ends=True)
    with ours, theirs:
        theirs.setblocking(False)
        sending.start()
        assert asyncio.run(asyncio.wait_for(served.accept(theirs), 60)) is None
        sending.join()
        assert theirs.recv(100) == sent
