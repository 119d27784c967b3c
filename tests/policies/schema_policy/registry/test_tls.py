"""Stores of certificates and keys, in files and as contents, and invalid stores."""

import ssl

import pytest

from penstock.policies.schema_policy.registry.tls import client_context
from tests.policies.schema_policy.certificates import Certificates

PREFIX = "schema.registry.ssl."


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    return Certificates(tmp_path_factory.mktemp("certificates"))


def made(folder, **configs):
    given = {PREFIX + key.replace("_", "."): str(value) for key, value in configs.items()}
    return client_context(given, folder)


def test_without_keys_the_machine_decides_whom_to_trust(tmp_path):
    context = made(tmp_path)
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname
    assert context.minimum_version >= ssl.TLSVersion.TLSv1_2


def test_a_truststore_is_all_that_is_trusted(certificates):
    folder = certificates.trusted.parent
    for context in (
        made(folder, truststore_location="trusted.pem", truststore_type="pem"),
        made(folder, truststore_certificates=certificates.trusted.read_text()),
    ):
        assert context.cert_store_stats()["x509_ca"] == 1
        assert context.verify_mode is ssl.CERT_REQUIRED


def test_a_host_need_not_be_named_if_the_algorithm_is_empty(tmp_path):
    context = made(tmp_path, endpoint_identification_algorithm=" ")
    assert not context.check_hostname
    assert context.verify_mode is ssl.CERT_REQUIRED


@pytest.mark.thorough
def test_a_key_is_loaded_with_its_password(certificates, tmp_path):
    made(tmp_path, keystore_location=certificates.client)
    made(tmp_path, keystore_location=certificates.locked, key_password="secret")
    with pytest.raises(ValueError, match=r"keystore.location is not usable .*key.password"):
        made(tmp_path, keystore_location=certificates.locked, key_password="wrong-4711")
    with pytest.raises(ValueError, match=r"keystore.location is not usable"):
        made(tmp_path, keystore_location=certificates.locked)


def test_a_key_may_stand_in_the_configuration(certificates, tmp_path):
    text = certificates.client.read_text()
    key, chain = text[: text.index("-----BEGIN CERT")], text[text.index("-----BEGIN CERT") :]
    made(tmp_path, keystore_key=key, keystore_certificate_chain=chain)
    with pytest.raises(ValueError, match=r"keystore.key and .* need each other"):
        made(tmp_path, keystore_key=key)
    with pytest.raises(ValueError, match=r"keystore.key is not usable") as caught:
        made(tmp_path, keystore_key=chain, keystore_certificate_chain=chain)
    assert "BEGIN" not in str(caught.value)
    with pytest.raises(ValueError, match=r"keystore.location and .* cannot both be given"):
        made(tmp_path, keystore_location="x", keystore_key=key, keystore_certificate_chain=chain)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"\xfe\xed\xfe\xed\0\0\0\2", "must be a PEM file, and .* is JKS"),
        (b"\x30\x82\x0a\x00", "must be a PEM file, and .* is PKCS12 or DER"),
        (b"no certificate", "is not usable .certificates are required."),
        (b"", "is not usable"),
    ],
)
def test_stores_of_java_and_other_files_are_refused(tmp_path, content, text):
    (tmp_path / "store").write_bytes(content)
    with pytest.raises(ValueError, match=f"schema.registry.ssl.truststore.location {text}"):
        made(tmp_path, truststore_location="store")


def test_a_store_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"truststore.location is not usable .* No such file"):
        made(tmp_path, truststore_location="none.pem")
    with pytest.raises(ValueError, match=r"truststore.location must be a PEM file, and .* is JKS"):
        made(tmp_path, truststore_location="none.jks", truststore_type="JKS")
    with pytest.raises(ValueError, match=r"algorithm must be https, or empty, not ldaps"):
        made(tmp_path, endpoint_identification_algorithm="ldaps")
    with pytest.raises(ValueError, match=r"location and .*certificates cannot both be given"):
        made(tmp_path, truststore_location="a", truststore_certificates="b")
