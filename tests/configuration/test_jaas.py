"""`sasl.jaas.config`: what Java reads in it."""

from penstock.configuration.clients.jaas import jaas_options

CONFIG = "sasl.jaas.config"


def test_options_in_each_form():
    text = """x required a="1" b='2' c=3 ssl.truststore.location="/t.pem" d="";"""
    assert jaas_options({CONFIG: text}) == {
        "a": "1", "b": "2", "c": "3", "ssl.truststore.location": "/t.pem", "d": ""
    }  # fmt: skip
    assert jaas_options({}) == {}


def test_escapes_are_those_of_java():
    text = r'x required password="a\"b\\c\nd=e;";'
    assert jaas_options({CONFIG: text}) == {"password": 'a"b\\c\nd=e;'}
