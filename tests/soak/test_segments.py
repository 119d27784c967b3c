"""The headers of batches, read from segments that a broker has written."""

import uuid

from confluent_kafka import Producer

from tests.conftest import create_topic
from tests.gateways import wait_until
from tests.soak.segments import Epochs, batches


def test_stored_batches_are_read(kafka, admin):
    topic = f"numbered-{uuid.uuid4().hex[:8]}"
    create_topic(admin, topic, 2)
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": topic})
    producer.init_transactions(30)
    for _ in range(2):
        producer.begin_transaction()
        for number in range(3):
            producer.produce(topic, b"%d" % number, partition=1, timestamp=1_000 + number)
        producer.commit_transaction(30)
    # The marker of a transaction is written a moment after its commit is answered.
    wait_until(lambda: len(list(batches(kafka, topic))) == 4, 30)
    found = list(batches(kafka, topic))
    sent = [batch for batch in found if not batch.is_control]
    assert [batch.partition for batch in found] == [1, 1, 1, 1]
    assert [batch.is_control for batch in found] == [False, True, False, True]
    assert [(batch.first_offset, batch.first_sequence, batch.records) for batch in sent] == [
        (0, 0, 3),
        (4, 3, 3),
    ]
    assert {batch.first_timestamp_ms for batch in sent} == {1_000}
    assert len({(batch.producer_id, batch.epoch) for batch in found}) == 1
    producer_id, epoch = sent[0].producer_id, sent[0].epoch
    assert Epochs(found).of(1, 2) == Epochs(found).of(1, 5) == (producer_id, epoch)


def test_a_producer_that_is_not_idempotent_has_no_epoch(kafka, admin):
    topic = f"numbered-{uuid.uuid4().hex[:8]}"
    create_topic(admin, topic, 1)
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "acks": "all"})
    producer.produce(topic, b"0")
    assert producer.flush(30) == 0
    assert Epochs(batches(kafka, topic)).of(0, 0) is None
