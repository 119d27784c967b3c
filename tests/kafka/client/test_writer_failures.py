"""Writers that are killed, that meet, and whose brokers are killed: no duplicate, no loss."""

import os
import random
import signal
import subprocess
import sys
import threading
import time
import uuid

import pytest
from confluent_kafka.admin import AdminClient

from penstock.kafka.client.connections.connection import Connection
from penstock.kafka.client.errors import ClientError
from penstock.kafka.client.positions import Position, PositionTask, read_positions
from penstock.kafka.client.protocol.produced_batches import BatchSource
from penstock.kafka.client.protocol.write_errors import AbortedError
from penstock.kafka.client.writing.limits import WriterLimits
from penstock.kafka.client.writing.transactional_writer import TransactionalWriter
from penstock.kafka.local import LocalKafka
from tests.conftest import create_topic
from tests.integration.reading import read_topic, topic_id, values_of
from tests.kafka.client.copying import BATCH, CHUNK, FENCED, FILE, copy, is_dead, made_up, value

pytestmark = [pytest.mark.system, pytest.mark.slow]
COUNT = 100_000
SEED = random.randrange(2**32)


class Work:
    """A task, its targets, and the records that have to be in them at the end."""

    def __init__(self, admin, servers):
        self.servers = servers
        self.job = f"copy-{uuid.uuid4().hex[:8]}"
        self.source, self.target, self.dead = (
            f"{kind}-{self.job}" for kind in ("source", "target", "dead")
        )
        for name in (self.source, self.target, self.dead):
            create_topic(admin, name)
        self.source_id = topic_id(admin, self.source)
        self.task = PositionTask(self.job, self.source, self.source_id, 0)

    def process(self, count=COUNT):
        return subprocess.Popen(
            [sys.executable, "-m", "tests.kafka.client.copying", self.servers, self.job, self.source,
             str(self.source_id), self.target, self.dead, str(count)],
            stdout=subprocess.PIPE,
            text=True,
        )  # fmt: skip

    def position(self):
        properties = {"bootstrap.servers": self.servers, "default.api.timeout.ms": "5000"}
        try:
            with Connection(properties, FILE) as connection:
                found = read_positions(connection, self.task.group, {self.source: [0]})
        except ClientError as error:
            assert "UNSTABLE_OFFSET_COMMIT" in str(error), error
            return 0  # a commit that was interrupted: the next writer decides about it
        return found[self.source, 0].offset if found else 0

    def check(self, count=COUNT):
        """Whether each record exists once, in order."""
        for topic, dead in ((self.target, False), (self.dead, True)):
            stored = read_topic(self.servers, topic, isolation="read_committed")
            expected = [
                value(number)
                for first in range(0, count, BATCH)
                if is_dead(first) == dead
                for number in range(first, first + BATCH)
            ]
            assert values_of(stored) == expected, f"{topic}, seed {SEED}"


@pytest.fixture
def work(kafka, admin):
    return Work(admin, kafka.bootstrap_servers)


def test_a_task_that_is_killed_again_and_again(work):
    chance = random.Random(SEED)
    kills = 0
    while work.position() < COUNT:
        process = work.process()
        assert process.stdout.readline() == "begins\n"
        try:
            process.wait(chance.uniform(0.1, 0.5) if kills < 8 else 60)
            assert process.returncode == 0
        except subprocess.TimeoutExpired:
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
            kills += 1
        process.stdout.close()
    assert kills >= 3
    work.check()


def test_a_task_that_stops_for_a_while_is_fenced(work):
    """A zombie: the batches that it had sent before are aborted, later batches are refused."""
    zombie = work.process()
    assert zombie.stdout.readline() == "begins\n"
    while work.position() < CHUNK:
        time.sleep(0.02)
    os.kill(zombie.pid, signal.SIGSTOP)
    other = work.process()
    assert other.wait(100) == 0
    os.kill(zombie.pid, signal.SIGCONT)
    assert zombie.wait(60) == FENCED
    for process in (zombie, other):
        process.stdout.close()
    work.check()


def test_many_at_once(work):
    """Speculation: each attempt fences the earlier attempt; together they do the work once."""
    count, running = 40_000, []
    while work.position() < count:
        running.append(work.process(count))
        time.sleep(0.7)
        if len(running) > 3:
            running[-1].wait(100)
    codes = [process.wait(100) for process in running]
    for process in running:
        process.stdout.close()
    assert set(codes) <= {0, FENCED}
    work.check(count)


@pytest.mark.timeout(400)
def test_brokers_that_are_killed_and_restarted():
    """Leaders and coordinators move while 100,000 records are written."""
    chance = random.Random(SEED)
    with LocalKafka(
        nodes=3,
        properties={"default.replication.factor": "3", "min.insync.replicas": "2"},
    ) as kafka:
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
        work = Work(admin, kafka.bootstrap_servers)
        reached, failed = [0], []

        def run():
            try:
                with Connection(
                    {"bootstrap.servers": kafka.bootstrap_servers, "request.timeout.ms": "5000"},
                    FILE,
                ) as connection:
                    copy(
                        connection, work.task, work.target, work.dead, COUNT,
                        progress=lambda at: (reached.append(at), time.sleep(0.2)),
                    )  # fmt: skip
            except BaseException as error:
                failed.append(error)

        writer = threading.Thread(target=run)
        writer.start()
        order = list(kafka.nodes)
        chance.shuffle(order)
        for node in order:
            before = reached[-1]
            while reached[-1] < before + CHUNK and writer.is_alive():
                time.sleep(0.05)
            chance.choice((node.kill, node.stop))()
            time.sleep(chance.uniform(0.5, 3))
            node.start()
            kafka.wait_ready()
        writer.join(120)
        assert not failed, f"{failed}, seed {SEED}"
        assert reached[-1] == COUNT
        work.check()


def test_a_transaction_that_is_open_for_too_long():
    """The brokers abort it, the writer reports it, and the next writer continues."""
    quickly = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "200"}
    with LocalKafka(properties=quickly) as kafka:
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
        work = Work(admin, kafka.bootstrap_servers)
        with Connection({"bootstrap.servers": kafka.bootstrap_servers}, FILE) as connection:
            limits = WriterLimits(transaction_timeout_s=1.0)
            with TransactionalWriter(connection, work.task, limits=limits) as writer:
                writer.write(work.target, 0, made_up(0), BatchSource(work.source, 0, 0))
                time.sleep(3)
                with pytest.raises(AbortedError, match="open for longer than 1 s"):
                    writer.commit(Position(BATCH))
                with pytest.raises(AbortedError, match="open for longer than 1 s"):
                    writer.abort()  # no other writer has taken over
            assert not read_positions(connection, work.task.group, {work.source: [0]})
            copy(connection, work.task, work.target, work.dead, CHUNK)
        work.check(CHUNK)
