"""PEM stores, as files and as properties; stores of Java are refused."""

import ssl
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
    pkcs12,
)

from penstock.configuration import ConfigurationError
from penstock.configuration.clients.stores import CHAIN, KEY, TRUSTED, with_contents
from penstock.configuration.clients.tls import client_context
from penstock.gateway.listening.tls import server_context
from tests.certificates import Files


@pytest.fixture
def files(tmp_path):
    return Files(tmp_path)


@pytest.fixture
def properties(files):
    files.key("client.pem")
    return {
        "bootstrap.servers": "127.0.0.1:9",
        "security.protocol": "SSL",
        "ssl.truststore.location": files.trust.name,
        "ssl.keystore.location": "client.pem",
    }


def test_contents_take_the_place_of_locations(properties, tmp_path):
    found = with_contents(properties, tmp_path / "penstock.properties")
    assert not [key for key in found if key.endswith("location")]
    assert found["ssl.keystore.type"] == found["ssl.truststore.type"] == "PEM"
    assert found[TRUSTED] == (tmp_path / "authority.pem").read_text().strip()
    assert found[KEY].startswith("-----BEGIN PRIVATE KEY-----")
    assert found[CHAIN].startswith("-----BEGIN CERTIFICATE-----")
    assert "PRIVATE" not in found[CHAIN]
    assert with_contents(found, Path("/elsewhere/x")) == found


def test_contents_are_as_good_as_files_to_python(properties, tmp_path):
    """A handshake in memory: the client shows its certificate, and trusts the authority."""
    file = tmp_path / "penstock.properties"
    travelled = with_contents(properties, file)
    for path in tmp_path.glob("*.pem"):
        path.rename(path.with_suffix(".gone"))
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(tmp_path / "client.gone")
    server.load_verify_locations(tmp_path / "authority.gone")
    server.verify_mode = ssl.CERT_REQUIRED
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = client_context(travelled, Path("/elsewhere/x"))
    ends = [
        client.wrap_bio(to_client, to_server, server_hostname="127.0.0.1"),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    for _ in range(4):
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
    assert ends[1].getpeercert()["subjectAltName"] == (("IP Address", "127.0.0.1"),)


@pytest.mark.parametrize("store", ["truststore", "keystore"])
@pytest.mark.parametrize(
    ("name", "content", "kind"),
    [
        ("store.jks", b"", "JKS"),
        ("store", b"\xfe\xed\xfe\xed\x00\x00", "JKS"),
        ("store.p12", b"", "PKCS12"),
    ],
)
def test_stores_of_java_are_refused_with_the_reason(tmp_path, store, name, content, kind):
    (tmp_path / name).write_bytes(content)
    given = {"bootstrap.servers": "k:9", f"ssl.{store}.location": name}
    expected = (
        f"upstream.ssl.{store}.location must be a PEM file, and .*{name} is {kind}: .* Python"
    )
    with pytest.raises(ConfigurationError, match=expected):
        with_contents(given, tmp_path / "penstock.properties")
    with pytest.raises(ConfigurationError, match=expected):
        client_context(given, tmp_path / "penstock.properties")


def test_a_real_pkcs12_store_is_known_by_its_bytes(files, tmp_path):
    pem = files.key("client.pem").read_bytes()
    store = pkcs12.serialize_key_and_certificates(
        b"client",
        load_pem_private_key(pem, None),
        x509.load_pem_x509_certificate(pem),
        None,
        BestAvailableEncryption(b"password"),
    )
    (tmp_path / "client.store").write_bytes(store)
    with pytest.raises(ConfigurationError, match="is PKCS12"):
        with_contents({"ssl.keystore.location": "client.store"}, tmp_path / "x")


def test_a_type_of_java_is_refused_whatever_the_file(files):
    given = {"ssl.truststore.location": files.trust.name, "ssl.truststore.type": "jks"}
    with pytest.raises(ConfigurationError, match="is JKS"):
        with_contents(given, files.trust)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot be read here .No such file.*; it is read on the driver"),
        (b"\xff\xff", "no text"),
        (b"nothing", "a private key and its certificates are required"),
        (b"-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----", "a private key and its"),
    ],
)
def test_invalid_stores(tmp_path, content, message):
    if content is not None:
        (tmp_path / "client.pem").write_bytes(content)
    with pytest.raises(ConfigurationError, match=message) as raised:
        with_contents({"ssl.keystore.location": "client.pem"}, tmp_path / "penstock.properties")
    assert "penstock.properties: upstream.ssl.keystore.location" in str(raised.value)


def pem_of(files, name):
    """Return a private key and its certificates, as two texts."""
    text = files.key(name).read_text()
    at = text.index("-----BEGIN CERTIFICATE")
    return text[:at], text[at:]


@pytest.fixture
def parts(tmp_path):
    return pem_of(Files(tmp_path), "issued.pem")


def faults(text, tmp_path, **more):
    """Return what is said of a key store, by each of its readers."""
    (tmp_path / "client.pem").write_text(text)
    given = {"ssl.keystore.location": "client.pem", **more}
    found = []
    for prefix, read in (
        ("upstream.", client_context),
        ("", server_context),
        ("upstream.", with_contents),
    ):
        try:
            read(given, tmp_path / "p.properties")
        except ConfigurationError as error:
            text = str(error).removeprefix(f"{tmp_path}/p.properties: {prefix}")
            found.append(text.partition(" are required): ")[2])
    return found


def test_a_key_store_without_a_key_or_a_certificate_is_explained(parts, tmp_path):
    key, chain = parts
    assert len(faults(key, tmp_path)) == 3
    for text in faults(key, tmp_path):
        assert text == "it has no certificate: append the file of the certificate to it, with cat"
    for text in faults(chain, tmp_path):
        assert text == "it has no private key: append the file of the key to it, with cat"
    for text in faults("", tmp_path):
        assert text == "it has neither a private key nor a certificate"
    assert faults(key + chain, tmp_path) == []


def test_a_key_of_another_certificate_is_named(parts, tmp_path):
    _, chain = pem_of(Files(tmp_path), "other.pem")
    assert faults(parts[0] + chain, tmp_path) == [
        "the private key is not that of the first certificate"
    ] * 2  # fmt: skip


@pytest.mark.parametrize("password", [{}, {"ssl.key.password": "guessed"}])
def test_a_password_that_does_not_open_the_key_is_named(parts, tmp_path, password):
    key, chain = parts
    encrypted = load_pem_private_key(key.encode(), None).private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"right")
    )
    found = faults(encrypted.decode() + chain, tmp_path, **password)
    assert found == [
        "the private key is encrypted, and upstream.ssl.key.password does not open it",
        "the private key is encrypted, and ssl.key.password does not open it",
    ]


@pytest.mark.parametrize(("given", "missing"), [(KEY, CHAIN), (CHAIN, KEY)])
def test_a_key_in_the_file_needs_its_certificates(given, missing):
    with pytest.raises(ConfigurationError) as raised:
        client_context({given: "secret"}, Path("f"))
    assert str(raised.value) == f"f: upstream.{given} needs upstream.{missing}"
    with pytest.raises(ConfigurationError) as raised:
        server_context({given: "secret"}, Path("f"))
    assert str(raised.value) == f"f: {given} needs {missing}"


def test_an_invalid_private_key_is_not_shown():
    given = {KEY: "secret of a key", CHAIN: "secret of a chain"}
    with pytest.raises(ConfigurationError, match=r"upstream\.ssl\.keystore\.key") as raised:
        client_context(given, Path("f"))
    assert "secret" not in str(raised.value)
