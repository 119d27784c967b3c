"""Keys and defaults that scripts and playbooks rely on: a change of a default breaks them."""

import pytest

from penstock.configuration.file import FILE_KEYS
from penstock.configuration.topic_keys import TOPIC_KEYS
from penstock.policies import SchemaPolicy

OF_FILE = {
    "upstream.security.protocol": "PLAINTEXT",
    "advertised.host": None,
    "broker.ports": None,
    "broker.ids.first": 0,
    "broker.addresses": "ports",
    "listener.proxy.protocol": False,
    "create.topic.policy.class.name": None,
    "alter.config.policy.class.name": None,
    "record.validator.classes": (),
    "record.validation.policy.class.name": None,
    "record.validation.policy.class.path": (),
    "records.policy.class.names.allowed": (),
    "produce.request.interceptors": (),
    "produce.request.interceptors.timeout.ms": 5000,
    "produce.request.interceptors.max.timeout.retries": 0,
    "produce.request.interceptors.failed.error.code": -1,
    "produce.request.interceptors.state.topic": "__penstock_producer_state",
    "produce.rejection.scope": "partition",
    "policies": (),
    "policy.timeout.ms": 5000,
    "topic.settings.topic": "__penstock_topic_settings",
    "topic.settings.keys.allowed": ("*",),
    "socket.request.max.bytes": 104857600,
    "queued.max.request.bytes": -1,
    "decompressed.batch.max.bytes": 67108864,
    "decompressed.batch.max.records": 500000,
    "max.connections": 2147483647,
    "max.connections.per.ip": 2147483647,
    "max.connection.creation.rate": 2147483647,
    "sasl.server.max.receive.size": 524288,
    "metrics.listener": None,
    "metrics.listener.token": None,
    "console.peers": (),
    "audit.topic": "",
    "audit.file": "",
}
OF_TOPICS = {
    "records.policy.class.name": None,
    "records.policy.enabled": "false",
    "record.validation.policy": None,
    "penstock.mode": "enforce",
    "penstock.policies": None,
    "penstock.quarantine.max.ratio": "1.0",
    "produce.rejection.reasons": "records",
    "errors.deadletterqueue.topic.name": "${topic}.dead",
    "errors.deadletterqueue.topic.replication.factor": "3",
}
OF_SCHEMA_POLICY = {
    "confluent.value.schema.validation": "false",
    "confluent.key.schema.validation": "false",
    "confluent.value.subject.name.strategy": "TopicNameStrategy",
    "confluent.key.subject.name.strategy": "TopicNameStrategy",
    "schema.validation.level": "payload",
    "schema.id.location": "any",
    "schema.id.header.position": "last",
    "schema.versions": "any",
    "schema.unusable": "refuse",
    "schema.file": None,
}


@pytest.mark.parametrize(("key", "default"), OF_FILE.items())
def test_a_key_of_the_file_keeps_its_default(key, default):
    assert FILE_KEYS[key].default == default


def test_the_cluster_is_required():
    required = [name for name, field in FILE_KEYS.items() if field.is_required()]
    assert required == ["upstream.bootstrap.servers"]


@pytest.mark.parametrize(("key", "default"), OF_TOPICS.items())
def test_a_topic_level_key_keeps_its_default(key, default):
    assert TOPIC_KEYS[key].default == default


def test_schema_policy_keeps_its_topic_level_keys():
    assert {row.name: row.default for row in SchemaPolicy.topic_configs} == OF_SCHEMA_POLICY
