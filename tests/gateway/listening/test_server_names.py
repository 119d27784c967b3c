"""The broker that a client connects to, by the server name of its TLS handshake."""

import contextlib
import gc
import ssl
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import structlog
import trustme

from penstock.configuration import Address, ConfigurationError, read_configuration
from penstock.gateway.listening.certificate_names import CertificateNames
from penstock.gateway.listening.client_listeners import Listening
from penstock.gateway.listening.endpoints import endpoints_of
from penstock.gateway.listening.server_names import ServerNames
from penstock.gateway.listening.tls import server_context

HOST = "gw.example.com"


@pytest.fixture(scope="module")
def authority():
    return trustme.CA()


@pytest.fixture
def issue(authority, tmp_path):
    """Write a key with a certificate for the given names; return the listener's properties."""

    def write(*names):
        file = tmp_path / "listener.pem"
        authority.issue_cert(*names).private_key_and_cert_chain_pem.write_to_path(file)
        return {"ssl.keystore.location": str(file)}

    return write


class Handshakes:
    """Handshakes in memory with a listener that knows server names."""

    def __init__(self, properties, file):
        self.names = ServerNames(HOST)
        self.context = server_context(properties, file)
        self.names.attach(self.context)

    def server(self, name, *, version=None, session=None, client=None):
        """Shake hands with a server name (None for no name); return both ends."""
        if client is None:
            client = self.client(version)
        there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
        ours = client.wrap_bio(back, there, server_hostname=name, session=session)
        theirs = self.context.wrap_bio(there, back, server_side=True)
        left, failure = [ours, theirs], None
        while left:
            for end in list(left):
                try:
                    end.do_handshake()
                except ssl.SSLWantReadError:
                    continue
                except ssl.SSLError as error:
                    if end is ours or failure:
                        raise  # as the client gets it
                    failure = error
                    continue
                left.remove(end)
        theirs.write(b"x")
        assert ours.read(1) == b"x"  # with it a session for the next handshake has come
        return ours, theirs

    @staticmethod
    def client(version=None):
        client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
        if version is not None:
            client.minimum_version = client.maximum_version = version
        return client

    def node_of(self, end):
        return self.names.node_of(SimpleNamespace(get_extra_info={"ssl_object": end}.get))

    def node(self, name, **options):
        return self.node_of(self.server(name, **options)[1])


@pytest.fixture
def handshakes(issue, tmp_path):
    return Handshakes(issue(f"*.{HOST}", HOST), tmp_path / "file")


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize(
    ("name", "node"),
    [
        (HOST, None),
        (HOST.upper(), None),
        (None, None),
        (f"broker-0.{HOST}", 0),
        (f"broker-17.{HOST}", 17),
        ("Broker-17.GW.example.COM", 17),
        (f"broker-2147483647.{HOST}", 2147483647),
    ],
)  # fmt: skip
def test_a_server_name_selects_a_broker(handshakes, name, node, version):
    assert handshakes.node(name, version=version) == node


@pytest.mark.parametrize(
    "name",
    [
        "example.com",
        f"other.{HOST}",
        f"broker-.{HOST}",
        f"broker-01.{HOST}",
        f"broker-+1.{HOST}",
        f"broker--1.{HOST}",
        f"broker-1.broker-1.{HOST}",
        f"broker-1.x{HOST}",
        f"broker-2147483648.{HOST}",
        "broker-99999999999999999999." + HOST,
        "broker-1",
        f"x.broker-1.{HOST}",
    ],
)
def test_an_unknown_server_name_ends_the_handshake_with_an_alert(handshakes, name):
    with (
        structlog.testing.capture_logs() as logged,
        pytest.raises(ssl.SSLError, match=r"(?i)unrec"),
    ):
        handshakes.server(name)
    assert logged == [
        {"event": "unknown server name", "log_level": "warning", "name": name,
         "expected": f"broker-<id>.{HOST}"}
    ]  # fmt: skip


def test_a_resumed_session_goes_to_the_broker_of_its_own_server_name(handshakes):
    client = handshakes.client(ssl.TLSVersion.TLSv1_3)
    first, _ = handshakes.server(f"broker-1.{HOST}", client=client)
    again, server = handshakes.server(f"broker-2.{HOST}", client=client, session=first.session)
    assert again.session_reused
    assert handshakes.node_of(server) == 2
    _, server = handshakes.server(HOST, client=client, session=first.session)
    assert handshakes.node_of(server) is None


@pytest.mark.parametrize("node", [1, 2])
def test_a_resumed_session_of_tls_1_2_goes_to_the_broker_of_the_first_session(handshakes, node):
    """Even under another name, which RFC 6066 forbids: OpenSSL returns the first name."""
    client = handshakes.client(ssl.TLSVersion.TLSv1_2)
    first, _ = handshakes.server(f"broker-1.{HOST}", client=client)
    again, server = handshakes.server(f"broker-{node}.{HOST}", client=client, session=first.session)
    assert again.session_reused
    assert handshakes.node_of(server) == 1


def test_no_state_is_kept_of_a_connection_that_has_ended(handshakes):
    for number in range(50):
        handshakes.node(f"broker-{number}.{HOST}")
    with contextlib.suppress(ssl.SSLError):
        handshakes.server("other.example.com")
    gc.collect()
    assert len(handshakes.names._nodes) == 0


def test_a_server_name_that_is_not_ascii_is_logged_in_a_line(handshakes, capsys):
    """Python calls only its own hook for this error, which would log a traceback for each name."""
    ours_out, ours_in = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = handshakes.client()
    end = client.wrap_bio(ours_in, ours_out, server_hostname="a" * 20 + ".example.com")
    with contextlib.suppress(ssl.SSLWantReadError):
        end.do_handshake()
    hello = ours_out.read().replace(b"a" * 20, b"\xff\xfe" + b"a" * 18)
    there = ssl.MemoryBIO()
    there.write(hello)
    server = handshakes.context.wrap_bio(there, ssl.MemoryBIO(), server_side=True)
    with structlog.testing.capture_logs() as logged, pytest.raises(ssl.SSLError):
        server.do_handshake()
    assert [item["event"] for item in logged] == ["unknown server name"]
    assert "\\xff\\xfe" in logged[0]["name"]
    assert capsys.readouterr().err == ""


def test_the_hook_for_names_that_are_not_ascii_is_set_once_and_passes_other_errors_on(
    handshakes, capsys
):
    hook = sys.unraisablehook
    ServerNames(HOST).attach(handshakes.context)
    assert sys.unraisablehook is hook


def configuration(tmp_path, **properties):
    named = {key.replace("_", "."): value for key, value in properties.items()}
    return read_configuration(
        tmp_path / "gateway.properties",
        {
            "upstream.bootstrap.servers": "none:1",
            "listeners": f"SSL://{HOST}:9192",
            "broker.addresses": "sni",
            **named,
        },
    )


@pytest.mark.parametrize(
    ("properties", "complaint"),
    [
        ({"listeners": f"PLAINTEXT://{HOST}:9192"}, "needs TLS"),
        ({"listeners": f"SASL_PLAINTEXT://{HOST}:9192"}, "needs TLS"),
        ({"broker_ports": "9193-9199"}, "broker.ports has no effect"),
        ({"broker_ids_first": "1"}, "broker.ids.first has no effect"),
        ({"advertised_host": "192.0.2.1"}, "needs a host name"),
        ({"listeners": "SSL://[::1]:9192"}, "needs a host name"),
        ({"advertised_host": "gw..example.com"}, "needs a host name"),
        ({"advertised_host": ".example.com"}, "needs a host name"),
        ({"advertised_host": "gäte.example.com"}, "needs a host name"),
        ({"advertised_host": "x" * 64 + ".example.com"}, "needs a host name"),
        ({"advertised_host": "a." * 120 + "com"}, "needs a host name"),
        ({"advertised_host": "*.example.com"}, "needs a host name"),
        ({"broker_addresses": "ports", "advertised_port": "443"}, "advertised.port needs"),
    ],
)
def test_keys_that_cannot_be_combined_are_an_error(issue, tmp_path, properties, complaint):
    given = {**issue(HOST), **properties}
    with pytest.raises(ConfigurationError, match=complaint):
        endpoints_of(configuration(tmp_path, **given))


@pytest.mark.parametrize(
    ("names", "warned"),
    [
        ([HOST, f"*.{HOST}"], []),
        ([f"*.{HOST}"], [f"does not cover {HOST} (advertised.host)"]),
        ([HOST], [f"does not cover *.{HOST}"]),
        ([HOST, f"broker-1.{HOST}"], [f"does not cover *.{HOST}"]),
        (["other.example.com"], [f"does not cover {HOST} (", f"does not cover *.{HOST}"]),
    ],
)
def test_a_certificate_that_does_not_cover_the_names_is_reported(issue, tmp_path, names, warned):
    found = endpoints_of(configuration(tmp_path, **issue(*names))).warnings
    assert len(found) == len(warned)
    for text, expected in zip(found, warned, strict=True):
        assert expected in text


@pytest.mark.parametrize(
    ("names", "warned", "brokers"),
    [
        ([HOST, f"*.{HOST}"], [], []),
        ([f"*.{HOST}"], [f"does not cover {HOST} (advertised.host)"], []),
        ([HOST, f"broker-1.{HOST}"], [f"does not cover *.{HOST}"], [2]),
        (["other.example.com"], [f"does not cover {HOST} (", f"does not cover *.{HOST}"], [1, 2]),
    ],
)
def test_a_renewed_certificate_is_checked_like_the_first_certificate(
    issue, tmp_path, names, warned, brokers
):
    of = configuration(tmp_path, **issue(HOST, f"*.{HOST}"))
    listening = Listening(of, endpoints_of(of), None, None)
    issue(*names)
    with structlog.testing.capture_logs() as logged:
        listening.renew({node: Address("kafka", 9092) for node in (1, 2)})
    texts = [item["text"] for item in logged if item["event"] == "configuration"]
    assert len(texts) == len(warned)
    for text, expected in zip(texts, warned, strict=True):
        assert expected in text
    assert [item["node"] for item in logged if "out of reach" in item["event"]] == brokers


def test_a_certificate_file_that_is_being_replaced_does_not_undo_a_reload(
    issue, tmp_path, monkeypatch
):
    """The policies are already in force; the next reload reads the file again."""
    of = configuration(tmp_path, **issue(HOST, f"*.{HOST}"))
    listening = Listening(of, endpoints_of(of), None, None)

    def renewed(*_):
        (tmp_path / "listener.pem").write_text("half of a")

    monkeypatch.setattr("penstock.gateway.listening.client_listeners.renew", renewed)
    listening.renew({1: Address("kafka", 9092)})


def test_a_certificate_in_the_configuration_file_is_used(issue, tmp_path):
    """`ssl.keystore.certificate.chain` and `ssl.keystore.key` (KIP-651)."""
    pem = Path(issue(HOST, f"*.{HOST}")["ssl.keystore.location"]).read_text()
    key, _, chain = pem.partition("-----BEGIN CERTIFICATE-----")
    inline = {
        "ssl.keystore.key": key,
        "ssl.keystore.certificate.chain": "-----BEGIN CERTIFICATE-----" + chain,
    }
    assert CertificateNames(inline, tmp_path / "file").uncovered([HOST, "other"]) == ["other"]


def test_a_host_with_a_trailing_dot_is_accepted(issue, tmp_path):
    found = endpoints_of(
        configuration(tmp_path, advertised_host=f"{HOST}.", **issue(HOST, f"*.{HOST}"))
    )
    assert found.warnings == ()
    assert found.server_names.name(1) == f"broker-1.{HOST}"


def test_the_certificate_is_checked_with_client_authentication_and_old_tls(
    issue, tmp_path, authority
):
    trust = tmp_path / "authority.pem"
    authority.cert_pem.write_to_path(trust)
    demands = {
        "ssl.client.auth": "required",
        "ssl.truststore.location": str(trust),
        "ssl.enabled.protocols": "TLSv1.2",
    }
    properties = {**issue(f"broker-1.{HOST}"), **demands}
    certificate = CertificateNames(properties, tmp_path / "file")
    names = [f"broker-{node}.{HOST}" for node in (0, 1, 2)]
    assert certificate.uncovered(names) == [names[0], names[2]]
