"""The keys of Kafka's Java clients: all of them, and their valid values."""

import subprocess
from pathlib import Path

import pytest

from penstock.configuration import ConfigurationError
from penstock.configuration.clients.client_keys import CLIENT_KEYS, check_client_keys, checks_host
from tests.java import program

OF_KAFKA_3 = {"auto.include.jmx.reporter", "internal.leave.group.on.close"}


@pytest.mark.system
def test_every_key_of_kafkas_clients_is_known():
    run = program(Path(__file__).parent / "java" / "ClientKeys.java")
    names = set(subprocess.run(run, capture_output=True, text=True, check=True).stdout.split())
    assert len(names) > 100
    assert names ^ CLIENT_KEYS.keys() == OF_KAFKA_3


@pytest.mark.parametrize(
    ("key", "value", "wanted"),
    [
        ("send.buffer.bytes", "64k", "a whole number from -1 to 2147483647"),
        ("receive.buffer.bytes", "-2", "a whole number from -1 "),
        ("security.protocol", "TLS", "one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"),
        ("sasl.login.refresh.window.factor", "0.4", "a number from 0.5 to 1"),
        ("sasl.login.refresh.window.factor", "nan", "a number from 0.5 to 1"),
        ("sasl.oauthbearer.header.urlencode", "yes", "one of true, false"),
        ("sasl.login.callback.handler.class", "com example", "the name of a Java class"),
        ("ssl.endpoint.identification.algorithm", "http", "https, or empty "),
        ("ssl.engine.factory.class", "com.example.Engine", "left out: .* cannot load a Java class"),
        ("bootstrap.servers", "k", "host:port"),
        ("fetch.max.bytes", "0", "a whole number from 1 "),
    ],
)
def test_a_wrong_value_is_named(key, value, wanted):
    with pytest.raises(ConfigurationError, match=rf"^f: upstream\.{key} must be {wanted}"):
        check_client_keys({key: value}, "f: upstream.")


@pytest.mark.parametrize(
    "value",
    [
        "PlainLoginModule required username=u password=secret",
        'PlainLoginModule needed username="u" password="secret";',
        'PlainLoginModule required username="u" password="secret;',
        "password=secret",
    ],
)
def test_a_secret_is_not_repeated(value):
    with pytest.raises(ConfigurationError, match=r"upstream\.sasl\.jaas\.config must be ") as found:
        check_client_keys({"sasl.jaas.config": value}, "f: upstream.")
    assert "secret" not in str(found.value)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("sasl.jaas.config", 'x.Module required user="a;\\"b" key=true;'),
        ("sasl.jaas.config", "x.Module REQUIRED user='a' ;\n"),
        ("sasl.jaas.config", ""),
        ("send.buffer.bytes", " -1 "),
        ("security.protocol", "sasl_ssl"),
        ("ssl.engine.factory.class", ""),
        ("sasl.username", "x"),
    ],
)
def test_a_value_that_is_right(key, value):
    check_client_keys({key: value}, "")


def test_a_long_jaas_config_is_read_at_once():
    value = "x required " + 'a="' + "\\" * 20_000 + " b=" * 20_000
    with pytest.raises(ConfigurationError):
        check_client_keys({"sasl.jaas.config": value}, "")


@pytest.mark.parametrize("value", ["", " ", "none"])
def test_the_host_is_checked_unless_it_is_switched_off(value):
    assert checks_host({})
    assert checks_host({"ssl.endpoint.identification.algorithm": "https"})
    assert not checks_host({"ssl.endpoint.identification.algorithm": value})
