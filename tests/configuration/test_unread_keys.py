"""Keys of built-in policies in a file without a policy that reads them."""

import pytest

from penstock.configuration.unread_keys import unread_keys, unread_security_keys


@pytest.mark.parametrize(
    ("key", "readers"),
    [
        ("topic.rules.partitions.max", "create.topic.policy.class.name or alter.config.policy"),
        ("schema.registry.ulr", "record.validation.policy.class.name or record.validator.classes"),
    ],
)
@pytest.mark.parametrize("policy", ["", " "])
def test_a_key_without_a_policy_has_no_effect(key, readers, policy):
    of_other = "record.validator.classes" if key.startswith("topic.") else "alter.config.policy"
    properties = {key: "12", of_other: "a.B", "record.validation.policy.class.name": policy}

    (warning,) = unread_keys(properties)

    assert warning.startswith(f"{key} has no effect, because no policy reads it: set {readers}")


@pytest.mark.parametrize(
    ("key", "reader"),
    [
        ("topic.rules.partitions.max", "create.topic.policy.class.name"),
        ("topic.rules.partitions.max", "alter.config.policy.class.name"),
        ("json.schema.folder", "record.validation.policy.class.name"),
        ("json.schema.folder", "record.validator.classes"),
        ("schema.registry.url", "produce.request.interceptors"),
        ("schema.null.keys", "topics.orders*.records.policy.class.name"),
        ("schema.null.keys", "records.policy.class.names.allowed"),
        ("schema.protobuf.unknown.fields", "policies"),
        ("topic.rules.partitions.max", "policies"),
    ],
)
def test_a_key_is_read_where_a_policy_may_read_it(key, reader):
    assert not list(unread_keys({key: "12", reader: "a.B"}))


def test_other_keys_are_not_of_built_in_policies():
    assert not list(unread_keys({"topic.settings.topic": "", "acme.rules": "1"}))


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({"upstream.ssl.truststore.location": "a"}, "security.protocol is PLAINTEXT: set SSL or"),
        (
            {"upstream.ssl.keystore.location": "a", "upstream.security.protocol": "sasl_plaintext"},
            "is SASL_PLAINTEXT: set SSL or SASL_SSL",
        ),
        (
            {"upstream.sasl.password": "a", "upstream.security.protocol": "SSL"},
            "is SSL: set SASL_SSL",
        ),
        ({"ssl.keystore.location": "a"}, "listeners has no TLS: begin it with SSL:// or"),
        ({"ssl.client.auth": "a", "listeners": "SASL_PLAINTEXT://:9192"}, "listeners has no TLS"),
    ],
)
def test_a_key_of_tls_or_a_login_without_it_has_no_effect(properties, expected):
    (warning,) = unread_security_keys(properties)
    assert warning.startswith(f"{next(iter(properties))} has no effect")
    assert expected in warning


@pytest.mark.parametrize(
    "properties",
    [
        {"upstream.ssl.truststore.location": "a", "upstream.security.protocol": "SASL_SSL",
         "upstream.sasl.password": "b"},
        {"upstream.ssl.truststore.location": "a", "upstream.security.protocol": "SASL_PLAINTEXT",
         "upstream.sasl.mechanism": "OAUTHBEARER"},
        {"ssl.keystore.location": "a", "listeners": "PLAINTEXT://:9192,SSL://:9193"},
        {"upstream.sasl.jaas.config": "", "upstream.ssl.endpoint.identification.algorithm": " "},
    ],
)  # fmt: skip
def test_keys_of_tls_and_logins_that_are_used(properties):
    assert not list(unread_security_keys(properties))
