"""Writers on a real Kafka: unchanged batches, positions, fencing, refusals of a target."""

import contextlib
import subprocess
import time
import uuid
from pathlib import Path

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition

from penstock.kafka.artifacts import java
from penstock.kafka.client.connections.connection import Connection
from penstock.kafka.client.positions import (
    Claim,
    Position,
    PositionTask,
    commit_positions,
    read_positions,
)
from penstock.kafka.client.protocol import produced_batches
from penstock.kafka.client.protocol.produced_batches import BatchSource
from penstock.kafka.client.protocol.write_errors import FencedError, RefusedBatchError
from penstock.kafka.client.writing.transactional_writer import TransactionalWriter
from penstock.kafka.local import class_path
from penstock.kafka.records.header import as_produced, read_producer
from penstock.kafka.wire.producer_ids import ProducerIdAndEpoch
from penstock.policy import Header, Record
from tests.integration.reading import read_topic, topic_id
from tests.java import QUICK
from tests.kafka.records.encoding import CODECS, encode_batch

FILE = Path("/nowhere/penstock.properties")
NOW = int(time.time() * 1000) - 3_600_000


@pytest.fixture
def connection(kafka):
    with Connection({"bootstrap.servers": kafka.bootstrap_servers}, FILE) as running:
        yield running


@pytest.fixture
def task(admin, topic):
    """Makes the task of a separate job, on a new source topic."""

    def make(**options):
        source = topic("source", **options)
        job = f"split-{uuid.uuid4().hex[:8]}"
        return PositionTask(job, source, topic_id(admin, source), 0)

    return make


def records(first, count, size=20):
    return [
        Record(
            NOW + number,
            b"k%d" % number,
            b"%d" % number + b"x" * size,
            (Header("n", b"%d" % number), Header("none", None), Header("n", b"again")),
        )
        for number in range(first, first + count)
    ]


def batches(count, each=10, codec="none", first=0):
    return [
        (number * each, encode_batch(records(number * each, each), codec=codec))
        for number in range(first, first + count)
    ]


def committed(kafka, topic):
    """The records that readers get, with all their parts."""
    found = read_topic(kafka.bootstrap_servers, topic, isolation="read_committed", full=True)
    return [(m.timestamp(), m.key(), m.value(), m.headers() or []) for m in found]


def expected(all_records):
    return [
        (
            (1, record.timestamp),
            record.key,
            record.value,
            [tuple(header) for header in record.headers],
        )
        for record in all_records
    ]


def test_batches_arrive_as_they_were(kafka, connection, topic, task):
    work, target = task(), topic("target")
    with TransactionalWriter(connection, work) as writer:
        assert writer.position is None
        at = 0
        for codec in CODECS:
            writer.write(
                target,
                0,
                encode_batch(records(at, 50), codec=codec),
                BatchSource(work.topic, 0, at),
            )
            at += 50
        writer.commit(Position(at, '{"accepted": 250}'))
    assert committed(kafka, target) == expected(records(0, 250))
    assert codecs_of(kafka, target) == list(CODECS.values())
    positions = read_positions(connection, work.group, {work.topic: [0]})
    assert positions == {(work.topic, 0): Position(250, '{"accepted": 250}')}
    with TransactionalWriter(connection, work) as again:
        assert again.position == Position(250, '{"accepted": 250}')


def codecs_of(kafka, topic):
    """The codec of each batch of records."""
    return [batch[22] & 7 for batch in stored_batches(kafka, topic)]


def test_values_that_brokers_set_are_not_copied(kafka, connection, topic, task):
    """LogAppendTime and a delete horizon: each record has the time that its producer gave it."""
    work, target = task(), topic("target")
    with TransactionalWriter(connection, work) as writer:
        for number, bits in enumerate((0x08, 0x40)):
            batch = encode_batch(
                records(10 * number, 10), attributes=bits | CODECS["lz4"], codec="lz4"
            )
            writer.write(target, 0, batch, BatchSource(work.topic, 0, 10 * number))
        writer.commit(Position(20))
    assert committed(kafka, target) == expected(records(0, 20))


def test_a_target_with_its_own_time_and_codec(kafka, connection, topic, task):
    work = task()
    target = topic("t", **{"message.timestamp.type": "LogAppendTime", "compression.type": "gzip"})
    began = int(time.time() * 1000)
    with TransactionalWriter(connection, work) as writer:
        writer.write(
            target, 0, encode_batch(records(0, 9), codec="lz4"), BatchSource(work.topic, 0, 0)
        )
        writer.commit(Position(9))
    found = committed(kafka, target)
    assert [row[1:] for row in found] == [row[1:] for row in expected(records(0, 9))]
    assert all(kind == 2 and at >= began - 1000 for (kind, at), *_ in found)


def test_the_writer_that_was_opened_last_wins(kafka, connection, topic, task):
    work, target, dead = task(), topic("target"), topic("dead")
    first = TransactionalWriter(connection, work)
    for offset, batch in batches(3):
        first.write(target, 0, batch, BatchSource(work.topic, 0, offset))
    first.commit(Position(30))
    for offset, batch in batches(3, first=3):
        first.write(target, 0, batch, BatchSource(work.topic, 0, offset))
    with TransactionalWriter(connection, work) as second:
        assert second.position == Position(30)
        for late in (
            lambda: first.write(target, 0, batches(1)[0][1], BatchSource(work.topic, 0, 60)),
            lambda: first.write(dead, 0, batches(1)[0][1], BatchSource(work.topic, 0, 60)),
            lambda: first.commit(Position(60)),
        ):
            with pytest.raises(FencedError, match="another writer of the same task"):
                late()
                first.commit(Position(70))
        with pytest.raises(FencedError):
            first.abort()
        first.close()
        for offset, batch in batches(3, first=3):
            second.write(target, 0, batch, BatchSource(work.topic, 0, offset))
        second.commit(Position(60))
    assert committed(kafka, target) == expected(records(0, 60))
    assert committed(kafka, dead) == []


def test_the_earlier_of_two_runs_ends(kafka, connection, topic, task):
    """However often Spark tries its task again."""
    work, target = task(), topic("target")

    def opened(run, seen):
        claim = Claim(run, frozenset({seen}), 0)
        return TransactionalWriter(connection, work, claim=claim)

    earlier = opened("a", "")
    offset, batch = batches(1)[0]
    earlier.write(target, 0, batch, BatchSource(work.topic, 0, offset))
    earlier.commit(Position(10, "counts of a"))
    with opened("b", "a") as later:
        assert later.position == Position(10, "", "b")
        offset, batch = batches(1, first=1)[0]
        later.write(target, 0, batch, BatchSource(work.topic, 0, offset))
        with pytest.raises(FencedError):
            earlier.write(target, 0, batch, BatchSource(work.topic, 0, offset))
            earlier.commit(Position(20))
        for _ in range(3):
            with pytest.raises(FencedError, match="another run of the job"):
                opened("a", "")
        later.commit(Position(20))
    assert committed(kafka, target) == expected(records(0, 20))


def test_an_aborted_chunk_is_not_visible_and_the_writer_continues(kafka, connection, topic, task):
    work, target = task(), topic("target")
    with TransactionalWriter(connection, work) as writer:
        for round_ in range(3):
            for offset, batch in batches(20, first=500):
                writer.write(target, 0, batch, BatchSource(work.topic, 0, offset))
            writer.abort()
            writer.abort()
            offset, batch = batches(1, first=round_)[0]
            writer.write(target, 0, batch, BatchSource(work.topic, 0, offset))
            writer.commit(Position(10 * round_ + 10))
    assert committed(kafka, target) == expected(records(0, 30))


def test_uncommitted_records_are_aborted_at_the_end(kafka, connection, topic, task):
    work, target = task(), topic("target")
    with (
        contextlib.suppress(ZeroDivisionError),
        TransactionalWriter(connection, work) as writer,
    ):
        writer.write(target, 0, batches(1)[0][1], BatchSource(work.topic, 0, 0))
        raise ZeroDivisionError
    assert committed(kafka, target) == []
    assert read_positions(connection, work.group, {work.topic: [0]}) == {}


def test_a_chunk_without_records_still_moves_on(connection, task):
    work = task()
    with TransactionalWriter(connection, work) as writer:
        writer.commit(Position(100))
        writer.commit(Position(200))
        assert writer.position == Position(200)
    positions = read_positions(connection, work.group, {work.topic: [0]})
    assert positions == {(work.topic, 0): Position(200)}


def test_ranges_of_a_partition_have_positions_of_their_own(kafka, connection, topic, task):
    work, target = task(), topic("target", partitions=2)
    first, other = work._replace(first=0), work._replace(first=50)
    with (
        TransactionalWriter(connection, first) as a,
        TransactionalWriter(connection, other) as b,
    ):
        a.write(target, 0, encode_batch(records(0, 10)), BatchSource(work.topic, 0, 0))
        b.write(target, 1, encode_batch(records(50, 10)), BatchSource(work.topic, 0, 50))
        b.commit(Position(60))
        a.commit(Position(10))
    for task_, offset in ((first, 10), (other, 60)):
        with TransactionalWriter(connection, task_) as again:
            assert again.position == Position(offset)
    assert len(committed(kafka, target)) == 20


def test_a_batch_that_is_too_large_for_the_target(kafka, connection, topic, task):
    work, target = task(), topic("small", **{"max.message.bytes": "2000"})
    with (
        TransactionalWriter(connection, work) as writer,
        pytest.raises(RefusedBatchError) as caught,
    ):
        writer.write(target, 0, encode_batch(records(7, 1, 9000)), BatchSource(work.topic, 0, 7))
        writer.commit(Position(8))
    text = str(caught.value)
    assert f"topic {target}, partition 0" in text
    assert f"from {work.topic}, partition 0, offset 7" in text
    assert "larger than the target's max.message.bytes: raise it" in text
    assert "xxx" not in text


def test_a_compacted_target_refuses_records_without_a_key(kafka, connection, topic, task):
    work, target = task(), topic("compacted", **{"cleanup.policy": "compact"})
    batch = encode_batch([Record(NOW, None, b"secret-value")])
    with (
        TransactionalWriter(connection, work) as writer,
        pytest.raises(RefusedBatchError, match="has a record that the target refuses") as caught,
    ):
        writer.write(target, 0, batch, BatchSource(work.topic, 0, 7))
        writer.commit(Position(8))
    assert "secret-value" not in str(caught.value)


def test_a_target_that_does_not_exist(connection, task):
    work = task()
    with TransactionalWriter(connection, work):
        pass  # the coordinators and their topics are there now
    connection.settings = connection.settings._replace(api_timeout_s=3.0)
    with (
        TransactionalWriter(connection, work) as writer,
        pytest.raises(Exception, match="UNKNOWN_TOPIC_OR_PARTITION"),
    ):
        writer.write("nowhere", 0, batches(1)[0][1], BatchSource(work.topic, 0, 0))


def test_a_group_that_consumers_have_joined(kafka, connection, task):
    """Transactional commits are used nevertheless; offsets committed without are not."""
    work = task()
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": work.group})
    try:
        consumer.subscribe([work.topic])
        deadline = time.monotonic() + 60
        while not consumer.assignment() and time.monotonic() < deadline:
            consumer.poll(0.2)
        with TransactionalWriter(connection, work) as writer:
            writer.commit(Position(5))
        with pytest.raises(Exception, match="consumers have joined the group; choose another job"):
            commit_positions(connection, work.group, {(work.topic, 0): Position(6)})
    finally:
        consumer.close()


def test_operators_can_move_a_position(admin, connection, task):
    work = task()
    with TransactionalWriter(connection, work) as writer:
        writer.commit(Position(500))
    moved = ConsumerGroupTopicPartitions(work.group, [TopicPartition(work.topic, 0, 20)])
    admin.alter_consumer_group_offsets([moved])[work.group].result(60)
    with TransactionalWriter(connection, work) as writer:
        assert writer.position == Position(20)


def stored_batches(kafka, topic):
    """The batches of records in the broker's own file."""
    segments = sorted(Path(kafka.folder).glob(f"node-*/data/{topic}-0/*.log"))
    data = b"".join(segment.read_bytes() for segment in segments)
    while data:
        size = 12 + int.from_bytes(data[8:12], "big")
        if not data[22] & 0x20:
            yield data[:size]
        data = data[size:]


def by_librdkafka(servers, topic, codec):
    producer = Producer(
        {"bootstrap.servers": servers, "transactional.id": topic, "compression.type": codec,
         "linger.ms": 5}
    )  # fmt: skip
    producer.init_transactions(60)
    for _ in range(2):
        producer.begin_transaction()
        for record in records(0, 300):
            producer.produce(
                topic, record.value, record.key, 0, timestamp=record.timestamp,
                headers=[tuple(header) for header in record.headers],
            )  # fmt: skip
        producer.commit_transaction(60)


def by_java(servers, topic, codec):
    subprocess.run(
        [java(), "-Xmx128m", *QUICK, "-cp", class_path(),
        "org.apache.kafka.tools.ProducerPerformance",
         "--topic", topic, "--num-records", "900", "--record-size", "70", "--throughput", "-1",
         "--transactional-id", topic, "--producer-props", f"bootstrap.servers={servers}",
         f"compression.type={codec}"],
        check=True, capture_output=True, timeout=300,
    )  # fmt: skip


@pytest.mark.cases(2)
@pytest.mark.parametrize("codec", ["none", "lz4", "zstd"])
@pytest.mark.parametrize("by", [by_librdkafka, by_java])
def test_a_stamped_header_equals_that_of_other_producers(kafka, topic, by, codec):
    """Stamped with the numbers that it has, a batch stays as it is, checksum included."""
    name = topic("written")
    by(kafka.bootstrap_servers, name, codec)
    seen = 0
    for batch in stored_batches(kafka, name):
        found = read_producer(batch)
        assert found.transactional
        assert batch[22] & 7 == CODECS[codec]
        producer = ProducerIdAndEpoch(found.producer_id, found.epoch)
        stamped = b"".join(
            as_produced(
                batch,
                producer_id=producer.producer_id,
                epoch=producer.epoch,
                base_sequence=found.base_sequence,
                transactional=True,
            )
        )
        assert stamped[8:12] == batch[8:12]
        assert stamped[16:] == batch[16:]
        assert stamped[:8] == bytes(8)
        assert stamped[12:16] == b"\xff" * 4
        assert produced_batches.record_count(batch, BatchSource(name, 0, 0)) == found.record_count
        seen += found.record_count
    assert seen in {600, 900}
