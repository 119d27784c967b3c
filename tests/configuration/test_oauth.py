"""Where the tokens of OAUTHBEARER come from."""

import pytest

from penstock.configuration import ConfigurationError
from penstock.configuration.clients.oauth import TOKEN_URL, read_oauth

JAAS = {"sasl.jaas.config": 'x required clientId="me" clientSecret="s3" scope="a b";'}
KIP_1139 = {
    "sasl.oauthbearer.client.credentials.client.id": "me",
    "sasl.oauthbearer.client.credentials.client.secret": "s3",
    "sasl.oauthbearer.scope": "a b",
}


@pytest.mark.parametrize("given", [JAAS, KIP_1139])
def test_each_form_has_the_same_meaning(given):
    found = read_oauth({TOKEN_URL: " https://a/b ", **given}, "")
    assert found[:4] == ("https://a/b", "me", "s3", "a b")
    assert (found.timeout_s, found.used_for, found.urlencoded) == (10.0, 0.8, False)
    assert repr(found) == "OAuth(https)"


def test_keys_of_the_endpoint_and_the_token():
    text = 'x required extension_who="me" extension_where="here" ssl.truststore.location="t.pem" unsecured="1";'
    given = {
        TOKEN_URL: "file:///t",
        "sasl.jaas.config": text,
        "sasl.login.connect.timeout.ms": "500",
        "sasl.login.read.timeout.ms": "1500",
        "sasl.login.refresh.window.factor": "0.5",
        "sasl.oauthbearer.header.urlencode": "TRUE",
    }
    found = read_oauth(given, "")
    assert found.extensions == {"who": "me", "where": "here"}
    assert found.tls == {"ssl.truststore.location": "t.pem"}
    assert (found.timeout_s, found.used_for, found.urlencoded) == (1.5, 0.5, True)


def test_a_timeout_of_0_is_the_default():
    given = {TOKEN_URL: "file:///t", "sasl.login.connect.timeout.ms": "0",
             "sasl.login.read.timeout.ms": "5"}  # fmt: skip
    assert read_oauth(given, "").timeout_s == 10.0


@pytest.mark.parametrize(
    ("properties", "text"),
    [
        ({}, r"needs upstream\.sasl\.oauthbearer\.token\.endpoint\.url"),
        ({TOKEN_URL: "ftp://a/b", **JAAS}, "must begin with https:"),
        ({TOKEN_URL: "https://a/b"}, "needs clientId and clientSecret"),
    ],
)
def test_missing_keys_are_named(properties, text):
    with pytest.raises(ConfigurationError, match=text):
        read_oauth(properties, "f: upstream.")
