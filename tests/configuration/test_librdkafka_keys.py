"""One file for every client: librdkafka's settings, and those of Kafka's Java client."""

from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from penstock.configuration import ConfigurationError
from penstock.configuration.clients.client_keys import CLIENT_KEYS, Effect
from penstock.configuration.clients.librdkafka_keys import client_properties
from penstock.configuration.clients.oauth import FROM_URL, HANDLER, TOKEN_URL
from penstock.configuration.clients.upstream_keys import check_upstream

FILE = Path("/nowhere/penstock.properties")
OAUTH = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "OAUTHBEARER",
    TOKEN_URL: "https://login/token",
    "sasl.oauthbearer.client.credentials.client.id": "me",
    "sasl.oauthbearer.client.credentials.client.secret": "s3",
}
SAMPLES = {
    "bootstrap.servers": "k:9092",
    "security.protocol": "PLAINTEXT",
    "sasl.jaas.config": 'x required username="u" password="p";',
    "sasl.mechanism": "PLAIN",
    "ssl.endpoint.identification.algorithm": "",
    "transactional.id": "t",
    "client.dns.lookup": "use_all_dns_ips",
}


def sample(key):
    """A value that a key may have."""
    for value in (SAMPLES.get(key.name), "-1", "1", "6000", "0.2", "0.8", "true", "x"):
        try:
            if value is not None:
                key.read(value)
                return value
        except ValueError:
            continue
    return next(
        value
        for value in ("https", "read_committed", "REBOOTSTRAP", "INFO", "none", "CLASSIC",
                      "implicit", "batch_optimized", "full")
        if not _refused(key, value)
    )  # fmt: skip


def _refused(key, value):
    try:
        key.read(value)
    except ValueError:
        return True
    return False


def test_librdkafka_takes_every_key_of_a_java_client():
    """All together, and with the numbers that Java allows and librdkafka does not."""
    stores = {name for name in CLIENT_KEYS if name.startswith(("ssl.keystore", "ssl.truststore"))}
    given = {
        key.name: sample(key)
        for key in CLIENT_KEYS.values()
        if key.effect is not Effect.REFUSED and key.name not in {*stores, HANDLER}
    }
    given["sasl.oauthbearer.jwt.retriever.class"] = ""
    found = client_properties(given, FILE.parent)
    assert len(found) > 15
    AdminClient({**found, "log_level": 0})
    for number in ("0", str(2**31 - 1)):
        numbers = {key.name: number for key in CLIENT_KEYS.values() if key.bounds is not None}
        AdminClient({**client_properties({**given, **numbers}, FILE.parent), "log_level": 0})


def test_names_of_librdkafka():
    given = {"bootstrap.servers": "k:9", "send.buffer.bytes": "-1", "receive.buffer.bytes": "65536"}
    assert client_properties(given, FILE.parent) == {
        "bootstrap.servers": "k:9",
        "socket.send.buffer.bytes": "0",
        "socket.receive.buffer.bytes": "65536",
    }


def test_keys_unknown_to_librdkafka_are_not_passed_to_it():
    given = {"default.api.timeout.ms": "5", "fetch.max.wait.ms": "5", "client.rack": "east"}
    assert client_properties(given, FILE.parent) == {"client.rack": "east"}


def test_its_own_names_stay():
    given = {"debug": "broker", "sasl.mechanisms": "PLAIN", "sasl.username": "u",
             "sasl.password": "p", "security.protocol": "SASL_SSL"}  # fmt: skip
    assert client_properties(given, FILE.parent) == {
        "debug": "broker", "sasl.mechanism": "PLAIN", "sasl.username": "u", "sasl.password": "p",
        "security.protocol": "SASL_SSL",
    }  # fmt: skip


def test_tokens_are_no_properties_of_librdkafka():
    given = {**OAUTH, HANDLER: FROM_URL, "sasl.oauthbearer.method": "oidc"}
    assert client_properties(given, FILE.parent) == {
        "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER"
    }  # fmt: skip


@pytest.mark.parametrize(
    "translate", [lambda given: check_upstream(given, "upstream."),
                  lambda given: client_properties(given, FILE.parent)]
)  # fmt: skip
@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"send.buffer.bytes": "64k"}, r"upstream\.send\.buffer\.bytes must be a whole number"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "X"}, r"sasl\.mechanism must be one"),
    ],
)
def test_each_reader_refuses_the_same(translate, given, text):
    with pytest.raises(ConfigurationError, match=text):
        translate(given)
