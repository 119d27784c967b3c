"""`penstock.policies.Rules` at a gateway: attributes that only the wire has, and the responses."""

import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from penstock.local import LocalKafka, free_ports
from tests.gateways import RunningGateway, write_configuration
from tests.topic_configs.admin_requests import TopicClient

if TYPE_CHECKING:
    from pathlib import Path

OK, INVALID_RECORD = 0, 87
GOOD = b'{"amount": 1}'


@pytest.fixture(scope="module")
def judging(
    kafka: LocalKafka, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningGateway]:
    folder: Path = tmp_path_factory.mktemp("rules")
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
    file = write_configuration(folder, kafka.bootstrap_servers, free_ports(6)[0], properties, "")
    running = RunningGateway(file)
    yield running
    running.stop()


@pytest.fixture
def client_of(judging: RunningGateway) -> Iterator[TopicClient]:
    with TopicClient(judging.broker_address()) as client:
        yield client


def test_records_and_batches(client_of):
    topic = f"rules-{uuid.uuid4().hex[:8]}"
    client_of.create(topic, {})

    assert client_of.produce(topic, GOOD, GOOD, GOOD).error_code == OK
    answer = client_of.produce(topic, GOOD, b'{"amount": 0}', b"{}")
    assert answer.error_code == INVALID_RECORD
    messages = {
        error.batch_index: error.batch_index_error_message for error in answer.record_errors
    }
    assert messages == {
        1: 'rule "positive" failed: value.amount > 0',
        2: 'rule "positive" has no result: a field or key that it reads is not there: '
        "value.amount > 0",
    }
    answer = client_of.produce(topic, *[GOOD] * 4)
    assert answer.error_code == INVALID_RECORD
    messages = {
        error.batch_index: error.batch_index_error_message for error in answer.record_errors
    }
    assert messages == dict.fromkeys(range(4), 'rule "small" failed: at most three records')
