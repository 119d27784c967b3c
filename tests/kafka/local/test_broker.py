"""The local Kafka: a given folder is kept, and errors have their reason."""

import pytest
from confluent_kafka.admin import AdminClient

from penstock.kafka.local import LocalKafka, LocalKafkaError
from tests.conftest import create_topic

pytestmark = [pytest.mark.system, pytest.mark.slow]


def test_a_named_folder_keeps_the_data(tmp_path):
    for new in (True, False):
        with LocalKafka(folder=tmp_path / "data") as kafka:
            admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
            if new:
                create_topic(admin, "kept")
            assert "kept" in admin.list_topics(timeout=60).topics
            pid = kafka.nodes[0].pid
        assert pid
        assert kafka.nodes[0].pid is None


def test_a_broker_that_cannot_start_raises_the_reason_and_leaves_no_process():
    kafka = LocalKafka(properties={"log.retention.ms": "never"})
    with pytest.raises(LocalKafkaError, match=r"log\.retention\.ms"):
        kafka.start()
    assert not any(node.pid for node in kafka.nodes)
