"""Keys of librdkafka: errors with Kafka's names for them."""

import re

import pytest
from confluent_kafka import Consumer, KafkaException, Producer

from penstock.configuration import ConfigurationError
from penstock.configuration.clients import librdkafka_keys
from penstock.configuration.clients.client_keys import CLIENT_KEYS, check_client_keys
from penstock.configuration.clients.librdkafka_keys import KAFKAS_KEYS, USED_KEYS


def test_kafkas_names_are_kafkas():
    assert set(KAFKAS_KEYS.values()) <= CLIENT_KEYS.keys()
    others = KAFKAS_KEYS.keys() | librdkafka_keys._WITHOUT | USED_KEYS
    assert not others & CLIENT_KEYS.keys()


@pytest.mark.parametrize("key", sorted(KAFKAS_KEYS.keys() | librdkafka_keys._WITHOUT))
def test_each_is_a_key_of_librdkafka(key):
    """It says so of a value that no key takes, or takes it."""
    for kind, more in ((Producer, {}), (Consumer, {"group.id": "g"})):
        try:
            kind({key: "\x01", "log_level": 0, **more})
        except KafkaException as error:
            assert "No such configuration property" not in str(error)
        except (TypeError, ValueError):
            pass


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("ssl.key.pem", "a key of librdkafka; Kafka's name for it is upstream.ssl.keystore.key"),
        ("sasl.mechanisms", "a key of librdkafka; Kafka's name for it is upstream.sasl.mechanism"),
        ("debug", "a key of librdkafka, and Kafka has none for it: leave it out"),
        ("send.buffers.bytes",
         "not a key of Kafka's Java clients; did you mean upstream.send.buffer.bytes?"),
        ("completely.different", "not a key of Kafka's Java clients"),
    ],
)  # fmt: skip
def test_a_key_that_is_not_used_is_an_error(key, text):
    expected = f"^f: upstream.{re.escape(key)} is {re.escape(text)}$"
    with pytest.raises(ConfigurationError, match=expected):
        check_client_keys({key: "secret"}, "f: upstream.")


def test_user_and_password_are_used():
    check_client_keys(dict.fromkeys(USED_KEYS, "x"), "f: upstream.")
