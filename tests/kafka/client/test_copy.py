"""From one topic to another: raw batches read, written exactly once, and nothing lost of them."""

import random
import time
import uuid
from pathlib import Path

from confluent_kafka import Producer

from penstock.kafka.client.connections.connection import Connection
from penstock.kafka.client.positions import Position, PositionTask
from penstock.kafka.client.protocol.produced_batches import BatchSource
from penstock.kafka.client.reading.offset_ranges import WantedRange
from penstock.kafka.client.reading.reader import RangeReader
from penstock.kafka.client.writing.transactional_writer import TransactionalWriter
from tests.integration.reading import read_topic, topic_id
from tests.kafka.records.encoding import CODECS

FILE = Path("/nowhere/penstock.properties")
COUNT = 100_000
CHUNK_BYTES = 1 << 20
SINCE = int(time.time() * 1000) - 3_600_000


def fill(servers, topic, chance):
    """Write with every codec, with transactions and without; return how many are to be read."""
    committed = 0
    for codec in CODECS:
        for transactional in (False, True):
            settings = {"bootstrap.servers": servers, "compression.type": codec, "linger.ms": 20}
            if transactional:
                settings["transactional.id"] = f"{topic}-{codec}"
            producer = Producer(settings)
            if transactional:
                producer.init_transactions(60)
            for commit in (True, False, True) if transactional else (True,):
                if transactional:
                    producer.begin_transaction()
                count = COUNT // (3 * len(CODECS))
                for number in range(count if commit else count // 10):
                    produce(producer, topic, committed + number, chance)
                producer.flush(60)
                if transactional:
                    (producer.commit_transaction if commit else producer.abort_transaction)(60)
                committed += count if commit else 0
    return committed


def produce(producer, topic, number, chance):
    producer.produce(
        topic,
        None if chance.random() < 0.1 else b"%d " % number + bytes(chance.randrange(100)),
        None if chance.random() < 0.1 else b"k%d" % number,
        0,
        timestamp=SINCE + number,
        headers=[("h", None), ("h", b"%d" % number)] if number % 3 == 0 else [],
    )
    if number % 1000 == 0:
        producer.poll(0)


def copy(connection, task, target, end):
    with TransactionalWriter(connection, task) as writer:
        start = writer.position.offset if writer.position else 0
        offsets = WantedRange(task.topic, 0, start, end, task.topic_id)
        size = 0
        for batch in RangeReader(connection, offsets, on_lost=lambda lost: 1 / 0):
            writer.write(target, 0, batch.data, BatchSource(task.topic, 0, batch.base_offset))
            size += len(batch.data)
            if size > CHUNK_BYTES:
                writer.commit(Position(batch.last_offset + 1))
                size = 0
        writer.commit(Position(end))


def test_a_topic_is_copied(kafka, admin, topic):
    seed = random.randrange(2**32)
    source, target = topic("source"), topic("target")
    count = fill(kafka.bootstrap_servers, source, random.Random(seed))
    with Connection({"bootstrap.servers": kafka.bootstrap_servers}, FILE) as connection:
        task = PositionTask(f"copy-{uuid.uuid4().hex[:8]}", source, topic_id(admin, source), 0)
        stored = read_topic(kafka.bootstrap_servers, source, isolation="read_committed", full=True)
        assert len(stored) == count
        copy(connection, task, target, stored[-1].offset() + 1)
    copied = read_topic(kafka.bootstrap_servers, target, isolation="read_committed", full=True)

    def all_of(messages):
        return [(m.timestamp(), m.key(), m.value(), m.headers()) for m in messages]

    assert all_of(copied) == all_of(stored), f"seed {seed}"
    assert [m.timestamp()[1] for m in copied] == [SINCE + number for number in range(count)]
