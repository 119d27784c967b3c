"""Records of a real broker at the offsets that dead letters of share groups name."""

import uuid

import pytest
from confluent_kafka import Producer, TopicPartition

from penstock.jobs.batches.originals import Original, StoredOriginals, spans
from penstock.jobs.batches.task import TaskLimits
from penstock.kafka.client.connections.connection import Connection
from penstock.kafka.client.errors import NotReadableYetError
from penstock.policy import Header
from tests.conftest import create_topic, delete_topic
from tests.gateways import wait_until
from tests.integration.reading import read_topic
from tests.kafka.client.settings import FILE

NOW = 1_700_000_000_000


@pytest.mark.parametrize("offsets, expected", [
    ([], []), ([3], [(3, 3)]), ([1, 2, 9], [(1, 9)]), ([0, 500, 1001], [(0, 500), (1001, 1001)]),
    ([4, 4, 2**62, 2**63 - 1], [(4, 4), (2**62, 2**62), (2**63 - 1, 2**63 - 1)]),
])  # fmt: skip
def test_offsets_that_are_near_are_read_together(offsets, expected):
    assert list(spans(offsets)) == expected


@pytest.fixture
def originals(kafka):
    settings = {"bootstrap.servers": kafka.bootstrap_servers, "fetch.max.wait.ms": "50",
                "default.api.timeout.ms": "5000"}  # fmt: skip
    with Connection(settings, FILE) as connection:
        yield StoredOriginals(connection, TaskLimits())


@pytest.fixture
def produce(kafka):
    """Produces batches of a single record, in partition 0."""

    def send(topic, *values, end="", transaction=None, timestamp=NOW):
        settings = {} if transaction is None else {"transactional.id": transaction}
        producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, **settings})
        if transaction is not None:
            producer.init_transactions(60)
            producer.begin_transaction()
        for value in values:
            producer.produce(topic, value, key=b"k", partition=0, timestamp=timestamp,
                             headers=[("own", b"1"), ("own", None)])  # fmt: skip
            assert producer.flush(60) == 0
        if end:
            getattr(producer, f"{end}_transaction")(60)
        return producer

    return send


def values(found):
    return {offset: record.value for offset, record in found.items()}


def test_a_record_as_it_was(originals, topic, produce):
    name = topic()
    produce(name, b"first", None, b"third")
    own = (Header("own", b"1"), Header("own", None))
    assert originals(name, 0, [0, 1]) == {
        0: Original(NOW, b"k", b"first", own), 1: Original(NOW, b"k", None, own),
    }  # fmt: skip


def test_offsets_that_headers_make_up(originals, topic, produce):
    name = topic()
    produce(name, b"0", b"1", b"2")
    far = [-(2**63), -1, 1, 1, 3, 2**31, 2**63 - 1]
    assert values(originals(name, 0, far)) == {1: b"1"}
    assert originals(topic(), 0, [0, 1]) == {}


@pytest.mark.parametrize("partition", [1, 2**31 - 1])
def test_a_partition_that_does_not_exist(originals, topic, produce, partition):
    name = topic()
    produce(name, b"0")
    assert originals(name, partition, [0]) == {}


def test_a_topic_that_does_not_exist_or_is_deleted_or_created_again(
    originals, topic, produce, admin
):
    assert originals("orders-that-never-were", 0, [0]) == {}
    name = topic()
    produce(name, b"0", b"1")
    assert values(originals(name, 0, [1])) == {1: b"1"}
    delete_topic(admin, name)
    assert originals(name, 0, [1]) == {}
    create_topic(admin, name)
    produce(name, b"another")
    assert values(originals(name, 0, [0, 1])) == {0: b"another"}


def test_records_that_retention_removed(originals, topic, produce, admin):
    name = topic()
    produce(name, *(b"%d" % number for number in range(6)))
    place = TopicPartition(name, 0, 4)
    admin.delete_records([place])[place].result(60)
    assert values(originals(name, 0, [0, 3, 4])) == {4: b"4"}
    assert originals(name, 0, [0, 3]) == {}


def test_markers_and_records_of_aborted_transactions(originals, kafka, topic, produce):
    name, transaction = topic(), uuid.uuid4().hex
    produce(name, b"0", transaction=transaction, end="commit")
    produce(name, b"2", transaction=transaction, end="abort")
    produce(name, b"4")
    read_topic(kafka.bootstrap_servers, name, isolation="read_committed")  # markers are written
    assert values(originals(name, 0, [0, 1, 2, 3, 4])) == {0: b"0", 4: b"4"}
    assert originals(name, 0, [1]) == originals(name, 0, [3]) == {}


def test_a_record_of_an_open_transaction_is_an_error_that_may_go_away(originals, topic, produce):
    """It may be there soon: its letter is not without a record."""
    name = topic()
    waiting = produce(name, b"0", transaction=uuid.uuid4().hex)
    with pytest.raises(NotReadableYetError, match="last stable offset is 0") as raised:
        originals(name, 0, [0])
    assert raised.value.retriable
    waiting.commit_transaction(60)
    assert values(originals(name, 0, [0])) == {0: b"0"}


@pytest.mark.slow
def test_a_record_that_compaction_removed(originals, kafka, topic, produce):
    name = topic(**{
        "cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.01",
        "max.compaction.lag.ms": "100",
    })  # fmt: skip
    now = {"timestamp": 0}
    produce(name, *(b"%d" % number for number in range(20)), **now)

    def is_compacted():
        produce(name, b"last", **now)  # a segment that is written to is not compacted
        return len(read_topic(kafka.bootstrap_servers, name)) < 20

    wait_until(is_compacted, 120, what="the compaction")
    stored = {record.offset(): record.value()
              for record in read_topic(kafka.bootstrap_servers, name, full=True)}  # fmt: skip
    gone = [offset for offset in range(20) if offset not in stored]
    assert gone
    found = values(originals(name, 0, range(max(stored) + 1)))
    assert found == stored
    assert originals(name, 0, gone) == {}
