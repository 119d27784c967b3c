"""`penstock.policies.Rules` at a gateway: attributes that only the wire has, and the responses."""

import uuid
from pathlib import Path

import pytest

from penstock.kafka.local import LocalKafka
from tests.gateways import gateway_port, write_configuration

OK, INVALID_RECORD = 0, 87
GOOD = b'{"amount": 1}'


@pytest.fixture(scope="module")
def file(kafka: LocalKafka, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("rules")
    properties = {
        "record.validation.policy.class.name": "penstock.policies.Rules",
        "topics.rules-*.record.validation.policy": "rules",
        "rules.positive": "value.amount > 0",
        "rules.where": 'client.address == "127.0.0.1" && topic.startsWith("rules-")',
        "rules.small": "count <= 3",
        "rules.small.scope": "batch",
        "rules.small.message": "at most three records",
        "policy.workers": 1,
    }
    return write_configuration(folder, kafka.bootstrap_servers, gateway_port(), properties, "")


def test_records_and_batches(topic_client):
    topic = f"rules-{uuid.uuid4().hex[:8]}"
    topic_client.create(topic, {})

    assert topic_client.produce(topic, GOOD, GOOD, GOOD).error_code == OK
    answer = topic_client.produce(topic, GOOD, b'{"amount": 0}', b"{}")
    assert answer.error_code == INVALID_RECORD
    messages = {
        error.batch_index: error.batch_index_error_message for error in answer.record_errors
    }
    assert messages == {
        1: 'rule "positive" failed: value.amount > 0',
        2: 'rule "positive" has no result: a field or key that it reads is not there: '
        "value.amount > 0",
    }
    answer = topic_client.produce(topic, *[GOOD] * 4)
    assert answer.error_code == INVALID_RECORD
    messages = {
        error.batch_index: error.batch_index_error_message for error in answer.record_errors
    }
    assert messages == dict.fromkeys(range(4), 'rule "small" failed: at most three records')
