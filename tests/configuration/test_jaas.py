"""`sasl.jaas.config`: what Java reads in it."""

import pytest

from penstock.configuration.clients.jaas import jaas_config, jaas_options

CONFIG = "sasl.jaas.config"


def test_options_in_each_form():
    text = """x required a="1" b='2' c=3 ssl.truststore.location="/t.pem" d="";"""
    assert jaas_options({CONFIG: text}) == {
        "a": "1", "b": "2", "c": "3", "ssl.truststore.location": "/t.pem", "d": ""
    }  # fmt: skip
    assert jaas_options({}) == {}


@pytest.mark.parametrize("value", ['a"b', "a\\b", "a=b;", "a\nb", "\\n", "", "'"])
def test_what_is_written_is_read_again(value):
    text = jaas_config("PLAIN", {"username": "u", "password": value})
    assert text.startswith("org.apache.kafka.common.security.plain.PlainLoginModule required ")
    assert jaas_options({CONFIG: text}) == {"username": "u", "password": value}
