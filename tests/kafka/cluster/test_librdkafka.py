"""librdkafka's clients: its keys are checked first, and a token is available at the start."""

import json

import pytest
from confluent_kafka import KafkaException

from penstock.configuration import ConfigurationError
from penstock.configuration.clients.oauth import FROM_URL, HANDLER, TOKEN_URL
from penstock.kafka.cluster.librdkafka import (
    admin_client,
    check,
    client_settings,
    consumer,
    producer,
    watched,
)
from tests.kafka.client.settings import FILE
from tests.kafka.client.token_endpoint import unsigned

OAUTH = {
    "bootstrap.servers": "127.0.0.1:9",
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "OAUTHBEARER",
    HANDLER: FROM_URL,
}


def test_a_client_has_a_name():
    assert client_settings({"bootstrap.servers": "k:9"}, FILE.parent)["client.id"] == "penstock"
    named = {"bootstrap.servers": "k:9", "client.id": "mine"}
    assert client_settings(named, FILE.parent)["client.id"] == "mine"


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("send.buffers.bytes", "; did you mean upstream.send.buffer.bytes?"),
        ("completely.different", "not a key of Kafka's Java clients or of librdkafka$"),
    ],
)
def test_an_unknown_key(key, text):
    given = {"bootstrap.servers": "k:9", key: "1"}
    with pytest.raises(ConfigurationError, match=f"{FILE}: upstream.{key} is .*{text}"):
        check(given, FILE)
    with pytest.raises(ConfigurationError, match=f"upstream.{key} is .*{text}"):
        client_settings(given, FILE.parent)


def test_a_value_that_librdkafka_refuses():
    with pytest.raises(ConfigurationError, match=r'upstream\.\*: .*"socket.keepalive.enable"'):
        client_settings({"bootstrap.servers": "k:9", "socket.keepalive.enable": "x"}, FILE.parent)


def test_the_keys_of_kip_768_are_checked_without_an_endpoint():
    keys = {TOKEN_URL: "https://127.0.0.1:1/",
            "sasl.jaas.config": 'x required clientId="me" clientSecret="s3";'}  # fmt: skip
    check({**OAUTH, **keys}, FILE)


@pytest.mark.system
@pytest.mark.parametrize("make", [admin_client, consumer, producer])
def test_a_client_starts_with_a_token(make, tmp_path):
    (tmp_path / "token").write_text(unsigned("alice"))
    given = {**OAUTH, TOKEN_URL: (tmp_path / "token").as_uri()}
    assert make({**client_settings(given, FILE.parent), "group.id": "g"})


@pytest.mark.parametrize("make", [admin_client, consumer, producer])
@pytest.mark.parametrize(
    ("token", "text"), [(None, "cannot be read"), (unsigned("a", -5), "the token has expired")]
)
def test_a_client_without_a_token_reports_the_reason_at_once(make, tmp_path, token, text):
    file = tmp_path / "token"
    if token is not None:
        file.write_text(token)
    settings = client_settings({**OAUTH, TOKEN_URL: file.as_uri()}, FILE.parent)
    with pytest.raises(KafkaException, match=text):
        make({**settings, "group.id": "g"})


@pytest.mark.parametrize(
    ("sources", "is_lost"),
    [
        ([[], []], True),
        ([["logical"], ["logical"]], True),
        ([[]], False),
        ([[], ["configured"], []], False),
        ([["learned", "logical"], ["learned"]], False),
    ],
)
def test_a_client_without_brokers_twice_has_lost_them(sources, is_lost):
    calls = []
    look = watched({}, lambda: calls.append(None))["stats_cb"]
    for found in sources:
        look(json.dumps({"brokers": {f"b{i}": {"source": s} for i, s in enumerate(found)}}))
    assert bool(calls) == is_lost
