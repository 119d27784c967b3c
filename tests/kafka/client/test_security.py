"""TLS and SASL as aiokafka's arguments, and unsupported keys."""

import sys
from types import ModuleType

import pytest
from structlog.testing import capture_logs

from penstock.configuration import ConfigurationError
from penstock.kafka.client.connections.oauth import TokenProvider
from penstock.kafka.client.connections.security import ConnectionSecurity, connection_options
from tests.certificates import Files
from tests.kafka.client.settings import FILE

LOGIN = (
    'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="p";'
)


def options(mechanism, jaas="", protocol="SASL_PLAINTEXT", **more):
    return connection_options(
        {
            "security.protocol": protocol,
            "sasl.mechanism": mechanism,
            "sasl.jaas.config": jaas,
            **more,
        },
        FILE,
    )


def test_nothing_is_secured_by_default():
    assert connection_options({}, FILE) == {"security_protocol": "PLAINTEXT"}


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_user_and_password(mechanism):
    assert options(mechanism, LOGIN) == {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": "u",
        "sasl_plain_password": "p",
    }


def test_user_and_password_by_librdkafkas_names():
    more = {"sasl.username": "u", "sasl.password": "p"}
    assert options("PLAIN", **more)["sasl_plain_password"] == "p"


def test_an_unsecured_token():
    found = options("OAUTHBEARER", 'x required unsecuredLoginStringClaim_sub="alice";')
    assert isinstance(found["sasl_oauth_token_provider"], TokenProvider)


def test_stores(tmp_path):
    files = Files(tmp_path)
    found = connection_options(
        {
            "security.protocol": "ssl",
            "ssl.truststore.location": str(files.trust),
            "ssl.keystore.location": str(files.key("client.pem")),
        },
        FILE,
    )
    assert found["security_protocol"] == "SSL"
    assert found["ssl_context"].check_hostname


def test_certificates_are_read_again_when_their_file_has_changed(tmp_path):
    files = Files(tmp_path)
    key = files.key("client.pem")
    given = {
        "security.protocol": "SSL",
        "ssl.truststore.location": str(files.trust),
        "ssl.keystore.location": str(key),
    }
    security = ConnectionSecurity(given, FILE)
    first = security.options()["ssl_context"]
    assert security.options()["ssl_context"] is first

    whole = key.read_text()
    key.write_text(whole[:100])
    with capture_logs() as logs:
        assert security.options()["ssl_context"] is first
        assert security.options()["ssl_context"] is first
    assert [line["event"] for line in logs] == ["certificates are not read again"]

    key.write_text(whole)
    second = security.options()["ssl_context"]
    assert second is not first
    key.unlink()
    with capture_logs():
        assert security.options()["ssl_context"] is second


def test_without_tls_no_file_is_read(tmp_path):
    given = {"ssl.keystore.location": str(tmp_path / "none")}
    security = ConnectionSecurity(given, FILE)
    assert security.options() == security.options() == {"security_protocol": "PLAINTEXT"}


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"security.protocol": "TLS"}, "upstream.security.protocol must be one of PLAINTEXT"),
        (
            {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "AWS_MSK_IAM"},
            "upstream.sasl.mechanism must be one of PLAIN",
        ),
        (
            {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"},
            "needs username and password in upstream.sasl.jaas.config",
        ),
        (
            {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "SCRAM-SHA-256",
                "sasl.jaas.config": LOGIN.replace(";", ' tokenauth="true";'),
            },
            "delegation tokens",
        ),
        (
            {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER"},
            "needs .*upstream.sasl.oauthbearer.token.endpoint.url",
        ),
        (
            {"security.protocol": "SSL", "ssl.truststore.certificates": "-----BEGIN"},
            "upstream.ssl.truststore.certificates is not usable",
        ),
        (
            {"security.protocol": "SSL", "ssl.keystore.location": "client.jks"},
            "must be a PEM file",
        ),
    ],
)
def test_unusable_keys(given, text):
    with pytest.raises(ConfigurationError, match=text) as caught:
        connection_options(given, FILE)
    assert str(FILE) in str(caught.value)


def test_kerberos_needs_a_library(monkeypatch):
    monkeypatch.setitem(sys.modules, "gssapi", None)
    with pytest.raises(ConfigurationError, match="needs the Python package gssapi"):
        options("GSSAPI")


def test_kerberos_needs_a_library_that_can_be_loaded(monkeypatch, tmp_path):
    """Kerberos itself is not in the package."""
    (tmp_path / "gssapi.py").write_text("raise ImportError('libgssapi_krb5.so.2: not found')")
    monkeypatch.delitem(sys.modules, "gssapi", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigurationError, match=r"package gssapi, .*: libgssapi_krb5\.so\.2: not"):
        options("GSSAPI")


def test_kerberos_needs_a_library_that_is_complete(monkeypatch, tmp_path):
    (tmp_path / "gssapi.py").write_text("import needed_by_gssapi")
    monkeypatch.delitem(sys.modules, "gssapi", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigurationError, match=r"package gssapi, .*: No module named 'needed_by"):
        options("GSSAPI")


def test_kerberos(monkeypatch):
    monkeypatch.setitem(sys.modules, "gssapi", ModuleType("gssapi"))
    found = options("GSSAPI", 'Krb5LoginModule required serviceName="broker" principal="p@R";')
    assert found["sasl_kerberos_service_name"] == "broker"
    assert found["kerberos_principal"] == "p@R"
    found = options("GSSAPI")
    assert found["sasl_kerberos_service_name"] == "kafka"
    assert found["kerberos_principal"] == ""


@pytest.mark.parametrize(
    ("option", "variable"), [("keyTab", "KRB5_CLIENT_KTNAME"), ("ticketCache", "KRB5CCNAME")]
)
def test_files_of_kerberos_are_named_by_the_environment(monkeypatch, option, variable):
    monkeypatch.setitem(sys.modules, "gssapi", ModuleType("gssapi"))
    monkeypatch.delenv(variable, raising=False)
    login = f'Krb5LoginModule required {option}="/a.file";'
    with pytest.raises(ConfigurationError, match=f"{option} is an option of Java.* {variable}"):
        options("GSSAPI", login)
    monkeypatch.setenv(variable, "/a.file")
    assert options("GSSAPI", login)["sasl_mechanism"] == "GSSAPI"
