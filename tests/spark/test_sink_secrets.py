"""Secrets of the sink: in the environment, not among its options."""

import re

import pytest

from penstock.spark.session import SETTINGS
from penstock.spark.sink_secrets import environment, for_executors, hidden

pytestmark = pytest.mark.unit
OPTIONS = {
    "kafka.bootstrap.servers": "k:9092",
    "kafka.sasl.mechanism": "PLAIN",
    "kafka.sasl.jaas.config": 'PlainLoginModule required username="u" password="a-secret";',
    "kafka.ssl.keystore.key": "-----BEGIN PRIVATE KEY-----",
    "kafka.ssl.key.password": "another-secret",
    "kafka.ssl.truststore.certificates": "-----BEGIN CERTIFICATE-----",
}


def test_every_secret_is_a_variable_and_no_more():
    variables = environment(OPTIONS)
    assert sorted(variables) == [
        "PENSTOCK_SECRET_SASL_JAAS_CONFIG",
        "PENSTOCK_SECRET_SSL_KEYSTORE_KEY",
        "PENSTOCK_SECRET_SSL_KEY_PASSWORD",
    ]
    found = hidden(OPTIONS, variables.get)
    assert not [value for value in found.values() if value in variables.values()]
    assert found["kafka.sasl.jaas.config"] == "${env:PENSTOCK_SECRET_SASL_JAAS_CONFIG}"
    assert found["kafka.config.providers"] == "env"
    assert found["kafka.ssl.truststore.certificates"] == "-----BEGIN CERTIFICATE-----"


def test_spark_redacts_the_variables_of_executors():
    for name in for_executors(environment(OPTIONS)):
        assert re.search(SETTINGS["spark.redaction.regex"], name)


def test_where_executors_have_no_such_variable_options_stay():
    assert hidden(OPTIONS, {}.get) == OPTIONS
    stale = dict.fromkeys(environment(OPTIONS), "old")
    assert hidden(OPTIONS, stale.get) == OPTIONS


def test_a_users_own_providers_stay():
    own = {**OPTIONS, "kafka.config.providers": "vault"}
    assert hidden(own, environment(OPTIONS).get) == own


def test_without_secrets_nothing_changes():
    plain = {"kafka.bootstrap.servers": "k:9092"}
    assert (environment(plain), hidden(plain, {}.get)) == ({}, plain)
