"""Ranges read from a real broker, against what librdkafka reads."""

import time
import uuid

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from kio.schema.alter_client_quotas.v1.request import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from kio.schema.describe_client_quotas.v1.request import (
    ComponentData,
    DescribeClientQuotasRequest,
)
from kio.static.primitive import i8

from penstock.kafka.client.connections.connection import Connection
from penstock.kafka.client.errors import NotReadableYetError, TopicRecreatedError
from penstock.kafka.client.reading.offset_ranges import LostOffsets, WantedRange
from penstock.kafka.client.reading.reader import RangeReader
from penstock.kafka.records.batch import read_batch
from tests.conftest import create_topic, delete_topic
from tests.gateways import wait_until
from tests.kafka.client.settings import FILE
from tests.raw import RawClient


def connected(kafka, **more):
    properties = {"bootstrap.servers": kafka.bootstrap_servers, "fetch.max.wait.ms": "50"}
    return Connection({**properties, **more}, FILE)


@pytest.fixture
def connection(kafka):
    with connected(kafka) as running:
        yield running


@pytest.fixture
def produce(kafka):
    """Produces values in batches: one batch for each list."""

    def send(topic, *batches, finish="", transaction=None, **settings):
        if transaction is not None:
            settings["transactional.id"] = transaction
        producer = Producer(
            {"bootstrap.servers": kafka.bootstrap_servers, "linger.ms": 5000, **settings}
        )
        if transaction is not None:
            producer.init_transactions(60)
            producer.begin_transaction()
        for values in batches:
            for value in values:
                producer.produce(topic, value, key=value[:20], partition=0)
            assert producer.flush(30) == 0
        if finish:
            getattr(producer, f"{finish}_transaction")(30)
        return producer

    return send


def read(connection, topic, first, end, **more):
    """Return (offset, value) of the range, and the lost offsets."""
    found, lost = [], []
    more.setdefault("on_lost", lost.append)
    for batch in RangeReader(connection, WantedRange(topic, 0, first, end), **more):
        data = bytes(8) + bytes(batch.data[8:])
        records = read_batch(data, api_version=9, max_decompressed_bytes=2**26).records
        assert len(records) == batch.record_count
        offsets = range(batch.base_offset, batch.last_offset + 1)
        found += [
            (offset, value)
            for offset, value in zip(offsets, records.values, strict=True)
            if batch.first <= offset < batch.end
        ]
    return found, lost


def consumed(kafka, topic, end, isolation="read_committed"):
    """Return (offset, value) of what librdkafka reads."""
    consumer = Consumer(
        {
            "bootstrap.servers": kafka.bootstrap_servers,
            "group.id": uuid.uuid4().hex,
            "isolation.level": isolation,
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    found = []
    while True:
        message = consumer.poll(60)
        assert message is not None, "the broker did not answer"
        if message.error():
            break
        found.append((message.offset(), message.value()))
    consumer.close()
    return [row for row in found if row[0] < end]


def end_of(kafka, topic):
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": "x"})
    first, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), 60)
    consumer.close()
    return first, end


def await_stable(kafka, topic, end):
    """Wait for the markers: a transaction has ended for its producer before they are written."""
    wait_until(lambda: end_of(kafka, topic)[1] == end, 60, what=f"{topic} up to {end}")


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_range(connection, kafka, topic, produce, codec):
    name = topic()
    produce(name, *[[b"%d-%d" % (i, j) for j in range(7)] for i in range(4)],
            **{"compression.type": codec})  # fmt: skip
    everything = consumed(kafka, name, 28)
    assert len(everything) == 28
    for first, end in [(0, 28), (0, 1), (27, 28), (3, 24), (7, 14), (6, 15), (13, 13)]:
        assert read(connection, name, first, end) == (everything[first:end], [])


def test_brokers_that_know_no_ids_in_fetches(connection, topic, produce, monkeypatch):
    name = topic()
    produce(name, [b"0", b"1"], [b"2"])
    monkeypatch.setattr(connection, "versions", lambda *_, **__: range(13))
    assert read(connection, name, 1, 3) == ([(1, b"1"), (2, b"2")], [])


def test_large_batches_and_a_low_limit(kafka, topic, produce):
    name = topic(**{"max.message.bytes": "3000000"})
    large = [bytes([i]) * 2_000_000 for i in range(4)]
    produce(name, [b"small"], *[[text] for text in large], [b"small"],
            **{"message.max.bytes": 3_000_000})  # fmt: skip
    with connected(kafka, **{"fetch.max.bytes": "60000"}) as connection:
        found, _ = read(connection, name, 0, 6)
    assert [value for _, value in found] == [b"small", *large, b"small"]


def test_transactions(connection, kafka, topic, produce):
    name = topic()
    transaction, two = uuid.uuid4().hex, uuid.uuid4().hex
    produce(name, [b"a0", b"a1"], transaction=transaction, finish="abort")
    produce(name, [b"plain"])
    produce(name, [b"c0"], [b"c1"], transaction=transaction, finish="commit")
    open_aborted = produce(name, [b"d0"], transaction=two)
    produce(name, [b"e0"], transaction=transaction, finish="commit")
    open_aborted.produce(name, b"d1", partition=0)
    open_aborted.flush(60)
    open_aborted.abort_transaction(60)
    produce(name, [b"last"])
    end = 9 + 4  # records and markers
    await_stable(kafka, name, end)
    for isolation, committed in (("read_committed", True), ("read_uncommitted", False)):
        wanted = consumed(kafka, name, end, isolation)
        assert read(connection, name, 0, end, committed=committed)[0] == wanted
        for first in range(end):
            found, _ = read(connection, name, first, end - 1, committed=committed)
            assert found == [row for row in wanted if first <= row[0] < end - 1]
    values = [value for _, value in read(connection, name, 0, end)[0]]
    assert values == [b"plain", b"c0", b"c1", b"e0", b"last"]


def test_an_open_transaction(connection, kafka, topic, produce):
    name = topic()
    produce(name, [b"before"])
    waiting = produce(name, [b"open"], transaction=uuid.uuid4().hex)
    produce(name, [b"after"])
    text = "from 1 up to 3 cannot be read yet, the last stable offset is 1"
    with (
        connected(kafka, **{"default.api.timeout.ms": "600"}) as impatient,
        pytest.raises(NotReadableYetError, match=text),
    ):
        read(impatient, name, 0, 3)
    assert len(read(connection, name, 0, 3, committed=False)[0]) == 3
    assert read(connection, name, 0, 1) == ([(0, b"before")], [])
    waiting.commit_transaction(60)
    await_stable(kafka, name, 4)
    assert [value for _, value in read(connection, name, 0, 4)[0]] == [b"before", b"open", b"after"]


@pytest.mark.slow
def test_compaction(connection, kafka, topic, produce):
    """The first records of keys are removed, and complete batches with them."""
    name = topic(
        **{
            "cleanup.policy": "compact",
            "segment.bytes": "1048576",
            "segment.ms": "100",
            "min.cleanable.dirty.ratio": "0.01",
            "min.compaction.lag.ms": "0",
            "delete.retention.ms": "0",
        }
    )
    for _ in range(3):
        produce(name, [b"%d" % (i % 3) for i in range(30)], [b"0"] * 10)
        time.sleep(0.2)
    produce(name, [b"end"])
    _, end = end_of(kafka, name)
    deadline = time.monotonic() + 60
    while len(consumed(kafka, name, end)) > 60 and time.monotonic() < deadline:
        time.sleep(1)
        produce(name, [b"end"])
    wanted = consumed(kafka, name, end)
    assert len(wanted) <= 60
    found = [(batch.first, batch.end) for batch in reader(connection, name, 0, end)]
    assert all(any(a <= offset < b for a, b in found) for offset, _ in wanted)
    for first, upto in ((0, end), (5, end - 3), (45, 47)):
        within = [row for row in wanted if first <= row[0] < upto]
        assert offsets(reader(connection, name, first, upto)) == [row for row, _ in within]


def reader(connection, topic, first, end):
    return RangeReader(connection, WantedRange(topic, 0, first, end), on_lost=pytest.fail)


def offsets(batches):
    """Return the offsets of records; aiokafka's reader knows batches with gaps."""
    from aiokafka.record.default_records import DefaultRecordBatch

    return [
        record.offset
        for batch in batches
        for record in DefaultRecordBatch(bytes(batch.data))
        if batch.first <= record.offset < batch.end
    ]


def test_removed_records(connection, admin, topic, produce):
    name = topic()
    produce(name, [b"%d" % i for i in range(10)], [b"%d" % i for i in range(10, 20)])
    admin.delete_records([TopicPartition(name, 0, 13)])[TopicPartition(name, 0)].result(60)
    found, lost = read(connection, name, 2, 18)
    assert found == [(i, b"%d" % i) for i in range(13, 18)]
    assert lost == [LostOffsets(name, 0, 2, 13)]
    assert read(connection, name, 0, 10) == ([], [LostOffsets(name, 0, 0, 10)])


def test_a_topic_that_is_created_again(connection, admin, topic, produce):
    name = topic()
    produce(name, [b"first"])
    described = connection.topic(name)
    delete_topic(admin, name)
    create_topic(admin, name)
    produce(name, [b"second"])
    offsets = WantedRange(name, 0, 0, 1, described.topic_id)
    with pytest.raises(TopicRecreatedError):
        list(RangeReader(connection, offsets, on_lost=pytest.fail))


@pytest.mark.slow
def test_a_quota(kafka, topic, produce):
    """The broker's answers to a client above its quota have no records, and say how long to wait."""
    name = topic()
    produce(name, *[[bytes(50_000)] for _ in range(8)])
    rate = OpData(key="consumer_byte_rate", value=30_000.0, remove=False)
    entity = EntityData(entity_type="client-id", entity_name="slow")
    request = AlterClientQuotasRequest(
        entries=(EntryData(entity=(entity,), ops=(rate,)),), validate_only=False
    )
    with RawClient(kafka.bootstrap_servers) as client:
        assert client.call(request).entries[0].error_code == 0
        described = DescribeClientQuotasRequest(
            components=(ComponentData(entity_type="client-id", match_type=i8(0), match="slow"),),
            strict=True,
        )
        wait_until(lambda: client.call(described).entries, what="the quota")
    throttled = []
    with connected(kafka, **{"client.id": "slow", "fetch.max.bytes": "60000"}) as connection:
        batches = RangeReader(
            connection,
            WantedRange(name, 0, 0, 8),
            on_lost=pytest.fail,
            sleep=lambda seconds: (throttled.append(seconds), time.sleep(seconds)),
        )
        assert [batch.first for batch in batches] == list(range(8))
    assert sum(throttled) > 0.5


def test_two_ranges_at_a_time(connection, topic, produce):
    name = topic()
    produce(name, *[[b"%d" % i] for i in range(40)])
    first, second = (iter(reader(connection, name, *bounds)) for bounds in ((0, 20), (20, 40)))
    pairs = list(zip(first, second, strict=True))
    assert [pair.first for pair, _ in pairs] == list(range(20))
