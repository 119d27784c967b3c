"""A round: a topic is split, and its dead letters are redriven, while all of it is attacked."""

import contextlib
import random
from collections import Counter, defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from confluent_kafka.cimpl import NewTopic

from penstock.kafka.local import LocalKafka
from tests.integration.reading import read_topic
from tests.jobs.kills.brokers import Disturbances
from tests.jobs.kills.jobs import Job
from tests.spark.conftest import NO_BAD

PRODUCED_MS: Final = 1_700_000_000_000
REPLAYS: Final = "__penstock.replays"
POLICIES: Final = """
import time
from penstock.policy import *

class NoBad(RecordValidationPolicy):
    def validate(self, topic, record):
        time.sleep(0.001)
        if record.value.startswith((b"bad", b"worse")):
            raise InvalidRecordException("bad is not good")

class Repair(ProduceRequestInterceptor):
    def interceptor_topic_pattern(self): return ".*"
    def process_record(self, key, value, topic, partition, headers):
        return ProduceRequestInterceptorResult(key, value.replace(b"bad", b"repaired"))
"""


class Round:
    """A round with all its choices from a seed."""

    def __init__(self, seed: int, brokers: LocalKafka, folder: Path) -> None:
        self._chance, self._brokers, self._folder = random.Random(seed), brokers, folder
        self._partitions = self._chance.choice((1, 2, 5))
        self._count = self._chance.choice((300, 3000, 6000))
        self._is_broker_time = self._chance.random() < 0.3
        names = ("source", "good", "dead", "back")
        self._source, self._good, self._dead, self._back = (f"{name}-{seed}" for name in names)
        self._topics = [f"{name}-{seed}" for name in names]
        self._admin = AdminClient({"bootstrap.servers": brokers.bootstrap_servers})
        self.attacks: list[str] = []

    def run(self) -> None:
        """Run it, and compare what is stored with what was produced."""
        self._create_topics()
        produced = self._produce()
        file = self._configure()
        is_disturbed = self._chance.random() < 0.5
        with self._disturbances() if is_disturbed else contextlib.nullcontext():
            self._attack("split", file, "--topic", self._source, "--accepted", self._good,
                         "--rejected", self._dead, *self._mode(), written=(self._good, self._dead))  # fmt: skip
        self._check_split(produced)
        with self._disturbances() if is_disturbed else contextlib.nullcontext():
            self._attack("redrive", file, "--from", self._dead, "--to", self._back,
                         "--topic", self._source, "--with", "policies.Repair", written=(self._back,))  # fmt: skip
        self._check_redrive(produced)

    def _mode(self) -> tuple[str, ...]:
        if self._is_local():
            return ("--local",)
        if self._chance.random() < 0.5:
            return ("--streaming", "--available-now", "--batch-records",
                    str(self._chance.choice((200, 1000))))  # fmt: skip
        return ()

    def _is_local(self) -> bool:
        return self._chance.random() < 0.5

    def _attack(self, command: str, *arguments: str, written: tuple[str, ...]) -> None:
        given = list(arguments)
        is_local = "--local" in given or (command == "redrive" and self._is_local())
        if "--local" in given:
            given.remove("--local")
        folder = self._folder / command
        folder.mkdir()
        job = Job(
            [command, *given], is_local=is_local, folder=folder, chance=self._chance,
            written=lambda: self._ends(written),
        )  # fmt: skip
        try:
            job.run(self._chance.randrange(1, 4))
        finally:
            where = "locally" if is_local else "on Spark"
            self.attacks.append(f"{command} {where}: {', '.join(job.done)}")

    def _disturbances(self) -> Disturbances:
        topics = [*self._topics, "__transaction_state", "__consumer_offsets"]
        return Disturbances(self._brokers, topics, random.Random(self._chance.random()), (4, 12))

    def _create_topics(self) -> None:
        kept = {"retention.ms": "-1"}
        time = {"message.timestamp.type": "LogAppendTime"} if self._is_broker_time else {}
        topics = [
            NewTopic(
                name, self._partitions, 3, config=kept | time if name == self._source else kept
            )
            for name in self._topics
        ]
        for future in self._admin.create_topics(topics).values():
            future.result(30)

    def _produce(self) -> list[list[bytes]]:
        """Fill the source, with aborted transactions between; return the values of partitions."""
        chance, first = self._chance, 0
        producer = Producer({
            "bootstrap.servers": self._brokers.bootstrap_servers,
            "batch.num.messages": chance.choice((1, 40, 1000)),
            "linger.ms": 5, "compression.type": chance.choice(("none", "lz4", "zstd", "gzip")),
            "transactional.id": self._source,
        })  # fmt: skip
        producer.init_transactions(60)
        found: list[list[bytes]] = [[] for _ in range(self._partitions)]
        while first < self._count:
            producer.begin_transaction()
            is_aborted = chance.random() < 0.2
            end = min(first + chance.choice((100, 1000)), self._count)
            for number in range(first, end):
                kind = b"bad" if number % 10 == 0 else b"worse" if number % 10 == 1 else b"good"
                value = b"aborted" if is_aborted else b"%s-%06d" % (kind, number)
                partition = number % self._partitions
                producer.produce(self._source, value, partition=partition,
                                 timestamp=PRODUCED_MS + number)  # fmt: skip
                if not is_aborted:
                    found[partition].append(value)
            assert producer.flush(60) == 0
            (producer.abort_transaction if is_aborted else producer.commit_transaction)(60)
            first = end
        return found

    def _configure(self) -> str:
        (self._folder / "policies.py").write_text(POLICIES)
        file = self._folder / "penstock.properties"
        lines = {**NO_BAD, "upstream.bootstrap.servers": self._brokers.bootstrap_servers}
        file.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
        return str(file)

    def _ends(self, topics: tuple[str, ...]) -> int:
        """Return the number of offsets that are written, or -1 while a leader is missing."""
        latest = {
            TopicPartition(topic, partition): OffsetSpec.latest()
            for topic in topics
            for partition in range(self._partitions)
        }
        try:
            return sum(f.result(30).offset for f in self._admin.list_offsets(latest).values())
        except Exception:
            return -1

    def _stored(self, topic: str) -> list[list[Any]]:
        """Return the committed records of each partition."""
        found: dict[int, list[Any]] = defaultdict(list)
        servers = self._brokers.bootstrap_servers
        for message in read_topic(servers, topic, isolation="read_committed", full=True):
            found[message.partition()].append(message)
        return [found[partition] for partition in range(self._partitions)]

    def _check_split(self, produced: list[list[bytes]]) -> None:
        times = {
            message.value(): message.timestamp()
            for messages in self._stored(self._source)
            for message in messages
        }
        good = self._stored(self._good)
        _compare(good, [[v for v in own if v.startswith(b"good")] for own in produced])
        wrong = [
            m.value() for own in good for m in own
            if m.timestamp()[1] != times[m.value()][1]
        ]  # fmt: skip
        assert not wrong, f"timestamps of {len(wrong)} records"
        dead = self._stored(self._dead)
        _compare(dead, [[v for v in own if not v.startswith(b"good")] for own in produced])

    def _check_redrive(self, produced: list[list[bytes]]) -> None:
        bad = [[v for v in own if v.startswith(b"bad")] for own in produced]
        repaired = [[value.replace(b"bad", b"repaired") for value in own] for own in bad]
        _compare(self._stored(self._back), repaired)
        # A run that follows a killed run also judges the letters that the killed run has written.
        attempts: dict[bytes, list[int]] = defaultdict(list)
        for messages in self._stored(self._dead):
            for message in messages:
                replays = dict(message.headers()).get(REPLAYS)
                attempts[message.value()].append(0 if replays is None else int(replays))
        for value, replays in attempts.items():
            expected = [0] if value.startswith(b"bad") else list(range(len(replays)))
            assert replays == expected, (value, replays)
            assert value.startswith(b"bad") or len(replays) >= 2, (value, replays)


def _compare(stored: list[list[Any]], expected: list[list[bytes]]) -> None:
    """Fail, and say how the records of a partition differ from those that are expected."""
    for partition, (messages, values) in enumerate(zip(stored, expected, strict=True)):
        found = [message.value() for message in messages]
        if found == values:
            continue
        counts, wanted = Counter(found), Counter(values)
        missing, added = sorted((wanted - counts).elements()), sorted((counts - wanted).elements())
        order = [
            m.offset()
            for m, (a, b) in zip(messages[1:], pairwise(found), strict=True)
            if a[-6:] > b[-6:]
        ]
        raise AssertionError(
            f"partition {partition}: of {len(values)} records {len(missing)} are missing "
            f"({missing[:3]}), {len(added)} are doubled or wrong ({added[:3]}), and the order "
            f"breaks at offsets {order[:5]}"
        )
