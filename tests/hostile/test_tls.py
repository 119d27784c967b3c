"""TLS: the enabled versions and cipher suites, and renewed certificates (10)."""

import contextlib
import signal
import socket
import ssl
from pathlib import Path

import pytest

from tests.certificates import Files
from tests.gateways import RunningGateway, gateway_port, write_configuration
from tests.hostile.greedy import place

CIPHER = "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"


@pytest.fixture
def tls(kafka, tmp_path):
    """Starts gateways with TLS; ends them."""
    files = Files(tmp_path)
    with contextlib.ExitStack() as ends:

        def start(**properties: str) -> tuple[RunningGateway, Path, Files]:
            key = files.key("gateway.pem")
            port = gateway_port()
            properties = {
                "listeners": f"SSL://127.0.0.1:{port}",
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": key,
                **{name.replace("_", "."): value for name, value in properties.items()},
            }
            running = RunningGateway(
                write_configuration(tmp_path, kafka.bootstrap_servers, port, properties)
            )
            ends.callback(running.stop)
            return running, key, files

        yield start


def handshake(address: str, files: Files, **settings: object) -> tuple[str, str, bytes]:
    """Connect; return the version, the cipher, and the gateway's certificate."""
    context = ssl.create_default_context(cafile=str(files.trust))
    for name, value in settings.items():
        if name == "ciphers":
            context.set_ciphers(str(value))
        else:
            setattr(context, name, value)
    with (
        socket.create_connection(place(address), 60) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1") as connection,
    ):
        certificate = connection.getpeercert(binary_form=True)
        assert certificate is not None
        return connection.version() or "", (connection.cipher() or ("",))[0], certificate


def test_only_enabled_tls_versions_are_accepted(tls):
    running, _, files = tls(ssl_enabled_protocols="TLSv1.2")
    assert handshake(running.address, files)[0] == "TLSv1.2"
    with pytest.raises((ssl.SSLError, ConnectionError)):
        handshake(running.address, files, minimum_version=ssl.TLSVersion.TLSv1_3)


def test_only_enabled_cipher_suites_are_accepted(tls):
    running, _, files = tls(ssl_enabled_protocols="TLSv1.2", ssl_cipher_suites=CIPHER)
    assert handshake(running.address, files)[1] == "ECDHE-ECDSA-AES256-GCM-SHA384"
    with pytest.raises((ssl.SSLError, ConnectionError)):
        handshake(running.address, files, ciphers="ECDHE-ECDSA-AES128-GCM-SHA256")


def test_a_renewed_certificate_is_used_for_new_connections(tls):
    running, key, files = tls()
    before = handshake(running.address, files)[2]
    files.key(key.name)
    running.process.send_signal(signal.SIGHUP)
    running.wait_for("reloaded")
    assert handshake(running.address, files)[2] != before


def test_a_certificate_that_cannot_be_read_changes_nothing(tls):
    running, key, files = tls()
    before = handshake(running.address, files)[2]
    key.write_text("nothing")
    running.process.send_signal(signal.SIGHUP)
    running.wait_for("not reloaded, the old policies stay in force")
    assert handshake(running.address, files)[2] == before
