"""The headers of batches, read from segments that a broker has written."""

import uuid

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from penstock.local import LocalKafka
from tests.conftest import create_topic
from tests.soak.segments import batches

pytestmark = pytest.mark.system


def test_what_a_broker_has_stored(tmp_path):
    with LocalKafka(folder=tmp_path) as kafka:
        topic = f"numbered-{uuid.uuid4().hex[:8]}"
        create_topic(AdminClient({"bootstrap.servers": kafka.bootstrap_servers}), topic, 2)
        producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": "t"})
        producer.init_transactions(30)
        for _ in range(2):
            producer.begin_transaction()
            for number in range(3):
                producer.produce(topic, b"%d" % number, partition=1, timestamp=1_000 + number)
            producer.commit_transaction(30)
        node = kafka.nodes[0].node_id
        found = list(batches(tmp_path / f"node-{node}" / "data", topic))
    sent = [one for one in found if not one.is_control]
    assert [one.partition for one in found] == [1, 1, 1, 1]
    assert [one.is_control for one in found] == [False, True, False, True]
    assert [(one.first_offset, one.first_sequence, one.records) for one in sent] == [
        (0, 0, 3),
        (4, 3, 3),
    ]
    assert {one.first_timestamp_ms for one in sent} == {1_000}
    assert len({(one.producer_id, one.epoch) for one in found}) == 1
