"""How the gateway's own principal logs in."""

import pytest

from penstock.configuration import ConfigurationError
from penstock.configuration.clients.login import read_login
from penstock.configuration.clients.oauth import FROM_URL, HANDLER, TOKEN_URL

JAAS = 'x.PlainLoginModule required username="u" password="s3";'


def login(mechanism, jaas="", **more):
    given = {"security.protocol": "sasl_ssl", "sasl.mechanism": mechanism, "sasl.jaas.config": jaas}
    return read_login({**given, **more}, "f: upstream.")


def test_without_sasl_there_is_no_login():
    assert read_login({"sasl.mechanism": "NONE"}, "") is None


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", " SCRAM-SHA-512 "])
def test_a_password(mechanism):
    found = login(mechanism, JAAS)
    assert found[:3] == (mechanism.strip(), "u", "s3")
    assert "s3" not in repr(found)


def test_librdkafkas_names():
    given = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN",
             "sasl.username": "u", "sasl.password": "p"}  # fmt: skip
    assert read_login(given, "")[:3] == ("PLAIN", "u", "p")


@pytest.mark.parametrize(
    ("mechanism", "jaas", "more", "text"),
    [
        ("AWS_MSK_IAM", "", {}, r"upstream\.sasl\.mechanism must be one of PLAIN"),
        ("PLAIN", "", {}, r"needs username and password in upstream\.sasl\.jaas\.config"),
        ("PLAIN", 'x required username="u";', {}, "needs username and password"),
        ("SCRAM-SHA-256", JAAS.replace(";", " tokenauth=true;"), {}, "delegation tokens"),
        ("PLAIN", JAAS, {HANDLER: "com.example.Vault"}, rf"{HANDLER} must be left out with PLAIN"),
        (
            "OAUTHBEARER",
            JAAS,
            {HANDLER: "com.example.Login"},
            rf"upstream\.{HANDLER} must be {FROM_URL}, or left out",
        ),
        (
            "OAUTHBEARER",
            JAAS,
            {TOKEN_URL: "file:/t", "sasl.oauthbearer.jwt.retriever.class": "x.JwtBearer"},
            r"jwt\.retriever\.class must be .*DefaultJwtRetriever",
        ),
    ],
)
def test_unusable_logins(mechanism, jaas, more, text):
    with pytest.raises(ConfigurationError, match=text) as found:
        login(mechanism, jaas, **more)
    assert str(found.value).startswith("f: upstream.")
    assert "s3" not in str(found.value)
