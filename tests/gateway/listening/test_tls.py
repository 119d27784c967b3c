"""The TLS versions, suites and certificates of a listener."""

import ssl

import pytest
import trustme

from penstock.configuration import ConfigurationError
from penstock.gateway.listening.tls import renew, server_context
from tests.gateway.listening.tls_files import JAVA_SUITES, Files, only

NEWEST = "TLS_AES_256_GCM_SHA384,TLS_CHACHA20_POLY1305_SHA256,TLS_AES_128_GCM_SHA256"


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return Files(tmp_path_factory.mktemp("tls"))


@pytest.mark.parametrize(
    ("allowed", "refused"),
    [
        ("TLSv1.3", ssl.TLSVersion.TLSv1_2),
        ("TLSv1.2", ssl.TLSVersion.TLSv1_3),
        ("TLSv1.2, TLSv1.3", None),
        ("", None),
    ],
)
def test_enabled_protocols_are_spoken(files, allowed, refused):
    server = files.context(enabled_protocols=allowed)
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        if version is refused:
            with pytest.raises(ssl.SSLError):
                files.handshake(server, only(version))
        else:
            assert files.handshake(server, only(version)).version() == version.name.replace(
                "_", "."
            )


@pytest.mark.parametrize(("named", "spoken"), JAVA_SUITES)
def test_a_cipher_suite_may_have_its_java_or_openssl_name(files, named, spoken):
    server = files.context(cipher_suites=named)
    assert files.handshake(server).cipher()[:2] == (spoken, "TLSv1.2")
    with pytest.raises(ssl.SSLError):
        files.handshake(server, only(ssl.TLSVersion.TLSv1_3))


def test_cipher_suites_of_both_tls_versions_can_be_combined(files):
    server = files.context(cipher_suites=f"{NEWEST},{JAVA_SUITES[0][0]}")
    assert files.handshake(server).version() == "TLSv1.3"
    older = files.handshake(server, only(ssl.TLSVersion.TLSv1_2))
    assert older.cipher()[0] == JAVA_SUITES[0][1]
    assert files.handshake(files.context(cipher_suites=NEWEST)).version() == "TLSv1.3"


@pytest.mark.parametrize(
    ("properties", "text"),
    [
        ({"enabled_protocols": "TLSv1.1"}, "TLSv1.1 must be one of TLSv1.2, TLSv1.3"),
        ({"enabled_protocols": "SSLv3,TLSv1.2"}, "SSLv3 must be one of"),
        ({"cipher_suites": "TLS_RSA_WITH_NONSENSE_SHA"}, "TLS_RSA_WITH_NONSENSE_SHA"),
        ({"cipher_suites": f"nonsense,{JAVA_SUITES[0][0]}"}, "nonsense is not known"),
        ({"cipher_suites": "TLS_AES_128_GCM_SHA256"}, "only be allowed together"),
        ({"cipher_suites": NEWEST, "enabled_protocols": "TLSv1.2"}, "has no suite for any"),
    ],
)
def test_invalid_tls_keys_are_an_error_at_start(files, properties, text):
    with pytest.raises(ConfigurationError, match=text):
        files.context(**properties)


def test_key_and_certificates_may_be_texts_in_the_file(files):
    issued = files.authority.issue_cert("text.example.com", key_type=trustme.KeyType.RSA)
    chain = b"".join(pem.bytes() for pem in issued.cert_chain_pems).decode()
    key = issued.private_key_pem.bytes().decode()
    server = server_context(
        {"ssl.keystore.key": key, "ssl.keystore.certificate.chain": chain}, files.file
    )
    shown = files.handshake(server).getpeercert()["subjectAltName"]
    assert shown == (("DNS", "text.example.com"),)


def test_a_renewed_certificate_is_shown_to_new_connections(tmp_path):
    files = Files(tmp_path)
    properties = {"ssl.keystore.location": str(files.key)}
    server = files.context()
    first = files.handshake(server).getpeercert()
    files.issue("second.example.com")
    assert files.handshake(server).getpeercert() == first
    renew(server, properties, files.file)
    assert files.handshake(server).getpeercert()["subjectAltName"] == (
        ("DNS", "second.example.com"),
    )
    files.key.write_text("nonsense")
    with pytest.raises(ConfigurationError, match="is not usable"):
        renew(server, properties, files.file)
    assert files.handshake(server).getpeercert()["subjectAltName"] == (
        ("DNS", "second.example.com"),
    )


def test_a_renewed_listener_trusts_added_certificate_authorities(tmp_path):
    files = Files(tmp_path)
    trusted = tmp_path / "clients.pem"
    first, second = trustme.CA(), trustme.CA()
    first.cert_pem.write_to_path(trusted)
    properties = {
        "ssl.keystore.location": str(files.key),
        "ssl.truststore.location": str(trusted),
        "ssl.client.auth": "required",
    }
    server = server_context(properties, files.file)

    def shown_by(authority):
        issued = authority.issue_cert("client.example.com")

        def change(context):
            only(ssl.TLSVersion.TLSv1_2)(context)  # whose server judges before the client is done
            issued.configure_cert(context)

        return change

    files.handshake(server, shown_by(first))
    with pytest.raises(ssl.SSLError):
        files.handshake(server, shown_by(second))
    second.cert_pem.write_to_path(trusted, append=True)
    renew(server, properties, files.file)
    files.handshake(server, shown_by(second))
    files.handshake(server, shown_by(first))
