"""Tasks on a real Kafka that are killed at random moments: 0 duplicates, 0 losses, right counts."""

import json
import os
import random
import signal
import subprocess
import sys
import time
import uuid
from collections import Counter

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    OffsetSpec,
    ResourceType,
)

from penstock.jobs.batches.task import TaskEnding
from penstock.kafka.client.connections.connection import Connection
from penstock.kafka.client.positions import read_positions
from tests.integration.reading import read_topic, topic_id
from tests.jobs.batches.fates import fate
from tests.kafka.client.settings import FILE
from tests.kafka.records.encoding import CODECS

pytestmark = [pytest.mark.system, pytest.mark.slow]
COUNT = 100_000
PARTITIONS = 2
SEED = random.randrange(2**32)
NOW = int(time.time() * 1000) - 3_600_000
START = b'{"id": '
OUTCOMES = (b"bad ", b"odd ", b"drop ", b"fail ", b"secret ")
COMPACTED = {
    "cleanup.policy": "compact",
    "segment.bytes": "1048576",
    "segment.ms": "100",
    "min.cleanable.dirty.ratio": "0.01",
    "min.compaction.lag.ms": "0",
}


def fill(servers, name, count, chance):
    """Write records in batches of any codec, some in transactions, of which some are aborted."""
    producers = []
    for codec in CODECS:
        settings = {"bootstrap.servers": servers, "compression.type": codec, "linger.ms": 20}
        producers.append((Producer(settings), False))
        named = Producer({**settings, "transactional.id": f"{name}-{codec}"})
        named.init_transactions(60)
        producers.append((named, True))
    at = 0
    while at < count:
        producer, is_transactional = chance.choice(producers)
        aborts = is_transactional and chance.random() < 0.3
        if is_transactional:
            producer.begin_transaction()
        some = chance.choice([1, 40, 700, 3000])
        for number in range(at, at + some):
            start = chance.choice(OUTCOMES) if chance.random() < 0.1 else b""
            key = b"same" if chance.random() < 0.05 else b"%d" % number
            value = None if number % 1000 == 1 else start + START + b"%d}" % number
            headers = [("own", b"%d" % number), ("none", None)] if number % 3 else None
            producer.produce(name, value, key, number % PARTITIONS,
                             timestamp=NOW + number, headers=headers)  # fmt: skip
            if number % 500 == 0:
                producer.flush(30)
        assert producer.flush(60) == 0
        if is_transactional:
            (producer.abort_transaction if aborts else producer.commit_transaction)(60)
        at += 0 if aborts else some


def settle(admin, servers, name):
    """Wait until compaction has removed a record, and stop compaction."""
    ticker = Producer({"bootstrap.servers": servers})
    before, deadline = len(read_topic(servers, name, isolation="read_committed")), time.time() + 90
    while len(read_topic(servers, name, isolation="read_committed")) >= before - 100:
        assert time.time() < deadline, "nothing was compacted"
        for partition in range(PARTITIONS):
            ticker.produce(name, b"tick", b"same", partition)
        ticker.flush(30)
        time.sleep(4)
    entry = ConfigEntry("cleanup.policy", "delete",
                        incremental_operation=AlterConfigOpType.SET)  # fmt: skip
    resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=[entry])
    for done in admin.incremental_alter_configs([resource]).values():
        done.result(30)
    time.sleep(3)


@pytest.fixture(scope="module")
def source(kafka, admin):
    """A topic of 100,000 records with gaps, markers and aborted batches; its visible records."""
    from tests.conftest import create_topic

    name = f"source-{uuid.uuid4().hex[:8]}"
    create_topic(admin, name, PARTITIONS, COMPACTED)
    fill(kafka.bootstrap_servers, name, COUNT, random.Random(SEED))
    settle(admin, kafka.bootstrap_servers, name)
    found = read_topic(kafka.bootstrap_servers, name, isolation="read_committed", full=True)
    assert len(found) > COUNT * 0.9
    return name, found


class Runner:
    """Starts the processes of one job."""

    def __init__(self, kafka, admin, kind, source, targets, **more):
        self.kafka, self.admin = kafka, admin
        self.given = {
            "servers": kafka.bootstrap_servers, "kind": kind, "topic": source,
            "topic_id": str(topic_id(admin, source)), "job": f"{kind}-{uuid.uuid4().hex[:8]}",
            "run": "run", "first": 0, "chunk": 2000, "targets": targets, **more,
        }  # fmt: skip
        latest = {
            TopicPartition(source, number): OffsetSpec.latest() for number in range(PARTITIONS)
        }
        self.ends = {
            partition.partition: result.result(60).offset
            for partition, result in admin.list_offsets(latest).items()
        }

    def describe(self, partition):
        return {**self.given, "partition": partition, "end": self.ends[partition]}

    def process(self, partition):
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "tests.jobs.batches.working",
                json.dumps(self.describe(partition)),
            ],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout.readline() == "begins\n"
        return process

    def run(self, partition, chance, kills=6):
        """Run the task of a partition, killed at first; return its ending and counts."""
        killed = 0
        while True:
            process = self.process(partition)
            lines = []
            if killed < kills:
                lines = [process.stdout.readline() for _ in range(chance.randrange(3))]
                time.sleep(chance.uniform(0, 0.1))
                process.kill()
            out, _ = process.communicate(timeout=120)
            if process.returncode:
                assert process.returncode == -signal.SIGKILL
                killed += 1
                continue
            ending, outcomes, reasons = result_of("".join(lines) + out)
            return killed, ending, Counter(outcomes), reasons


def result_of(out):
    """The ending of a task, and its counts: the last line that it prints."""
    return json.loads(out.splitlines()[-1])


def committed(kafka, topic, partition):
    found = read_topic(kafka.bootstrap_servers, topic, isolation="read_committed", full=True)
    return [entry for entry in found if entry.partition() == partition]


def what(message):
    return (message.timestamp(), message.key(), message.value(), message.headers() or [])


class Row:
    def __init__(self, message):
        self.value = message.value()


def test_a_split_that_is_killed_repeatedly_writes_each_record_once(kafka, admin, topic, source):
    name, records = source
    chance = random.Random(SEED)
    clean, dead = topic("clean", PARTITIONS), topic("dead", 1)
    targets = {"accepted": (clean, PARTITIONS), "rejected": (dead, 1)}
    runner = Runner(kafka, admin, "split", name, targets)
    kills = 0
    for partition in range(PARTITIONS):
        before = len(committed(kafka, dead, 0))
        own = [record for record in records if record.partition() == partition]
        killed, ending, outcomes, reasons = runner.run(partition, chance)
        kills += killed
        assert ending == TaskEnding.DONE
        fates = [fate(Row(row)) for row in own]
        assert +outcomes == Counter(fates), f"seed {SEED}"
        assert reasons == len(own) - outcomes["accepted"]
        accepted = [row for row, its in zip(own, fates, strict=True) if its == "accepted"]
        expected = [
            (time_, key, value and value.replace(b"secret", b"******"), headers)
            for time_, key, value, headers in map(what, accepted)
        ]
        assert list(map(what, committed(kafka, clean, partition))) == expected, f"seed {SEED}"
        rejected = [
            row for row, its in zip(own, fates, strict=True) if its in {"refused", "failed"}
        ]
        check_letters(name, rejected, committed(kafka, dead, 0)[before:])
    assert kills >= 3


def check_letters(source, records, letters):
    assert len(letters) == len(records), f"seed {SEED}"
    for record, letter in zip(records, letters, strict=True):
        own = record.headers() or []
        added = dict(letter.headers()[len(own) :])
        assert letter.headers()[: len(own)] == own
        assert (letter.key(), letter.value()) == (record.key(), record.value())
        assert added["__dlq.errors.topic"] == source.encode()
        assert added["__dlq.errors.partition"] == b"%d" % record.partition()
        assert added["__dlq.errors.offset"] == b"%d" % record.offset(), f"seed {SEED}"
        assert added["__penstock.timestamp"] == b"%d" % record.timestamp()[1]
        assert letter.timestamp()[1] > NOW + COUNT


def test_a_redrive_that_is_killed_repeatedly_returns_each_record_once(kafka, admin, topic):
    """Accepted records return once, the rest waits once; run again, no record returns twice."""
    chance = random.Random(SEED)
    servers = kafka.bootstrap_servers
    dead, back, parked = topic("dead", PARTITIONS), topic("back", 3), topic("parked", 1)
    places = topic("places", 1, **{"cleanup.policy": "compact"})
    producer = Producer({"bootstrap.servers": servers, "compression.type": "lz4"})
    count = 20_000
    for number in range(count):
        value = (b"bad %d", b"badly %d", b"drop %d")[number % 10 if number % 10 < 3 else 0]
        producer.produce(
            dead, value % number, b"%d" % number, number % PARTITIONS, timestamp=NOW,
            headers=[("own", b"1"), ("__dlq.errors.topic", b"orders"),
                     ("__dlq.errors.partition", b"%d" % (number % 7)),
                     ("__dlq.errors.offset", b"%d" % number),
                     ("__penstock.timestamp", b"%d" % (NOW - number))],
        )  # fmt: skip
        if number % 5000 == 0:
            producer.flush(30)
    assert producer.flush(30) == 0
    targets = {"target": (back, 3), "again": (dead, PARTITIONS), "parked": (parked, 1)}
    first = Runner(kafka, admin, "redrive", dead, targets, places=places)
    kills, total = 0, Counter()
    for partition in range(PARTITIONS):
        killed, ending, outcomes, _ = first.run(partition, chance)
        kills, total = kills + killed, total + outcomes
        assert ending == TaskEnding.DONE
    assert kills >= 2
    tenth = count // 10
    assert total == {"returned": 8 * tenth, "again": tenth, "dropped": tenth}
    numbers = [n for n in range(count) if n % 10 not in {1, 2}]
    assert back_again(kafka, back) == sorted((n % 7 % 3, NOW - n, b"good %d" % n) for n in numbers)
    waiting = [
        letter for p in range(PARTITIONS) for letter in committed(kafka, dead, p)[count // 2 :]
    ]
    assert sorted(int(record.key()) for record in waiting) == [
        n for n in range(count) if n % 10 == 1
    ]
    # The second attempt of those that are left is their last.
    second = Runner(kafka, admin, "redrive", dead, targets, places=places, run="second")
    second.given["job"] = first.given["job"]
    results = [second.run(partition, chance, kills=1) for partition in range(PARTITIONS)]
    assert sum((outcomes for _, _, outcomes, _ in results), Counter()) == {"parked": tenth}
    assert len(committed(kafka, parked, 0)) == tenth
    assert len(back_again(kafka, back)) == 8 * tenth
    assert len(read_topic(servers, places, isolation="read_committed")) > 0


def back_again(kafka, back):
    found = read_topic(kafka.bootstrap_servers, back, isolation="read_committed", full=True)
    return sorted((entry.partition(), entry.timestamp()[1], entry.value()) for entry in found)


def test_a_zombie_is_fenced_and_reports_it(kafka, admin, topic, source):
    name, records = source
    clean, dead = topic("clean", PARTITIONS), topic("dead", 1)
    targets = {"accepted": (clean, PARTITIONS), "rejected": (dead, 1)}
    runner = Runner(kafka, admin, "split", name, targets, chunk=50)
    zombie = runner.process(0)
    with Connection({"bootstrap.servers": kafka.bootstrap_servers}, FILE) as connection:
        group = f"penstock-{runner.given['job']}"
        while not read_positions(connection, group, {name: [0]}):
            time.sleep(0.02)
    os.kill(zombie.pid, signal.SIGSTOP)
    assert zombie.poll() is None
    runner.given["chunk"] = 5000
    out, _ = runner.process(0).communicate(timeout=300)
    assert result_of(out)[0] == TaskEnding.DONE
    os.kill(zombie.pid, signal.SIGCONT)
    out, _ = zombie.communicate(timeout=60)
    assert result_of(out)[0] == TaskEnding.FENCED
    own = [fate(Row(record)) for record in records if record.partition() == 0]
    assert len(committed(kafka, clean, 0)) == own.count("accepted")
