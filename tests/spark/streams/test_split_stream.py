"""`split --streaming` from topics to topics, on a real Kafka and Spark: each record once."""

import contextlib
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections import Counter
from pathlib import Path

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions
from confluent_kafka.cimpl import NewTopic

from penstock.kafka.local import LocalKafka, free_ports
from tests.chaos.leaders import move_leaders
from tests.conftest import create_topic
from tests.integration.reading import read_topic
from tests.jobs.slow_records import SLOW, records, values
from tests.limits import HANGS_S
from tests.spark.conftest import NO_BAD

RECORDS = "penstock_records_total"


def numbers(text):
    found = re.search(r"([\d,]+) accepted, ([\d,]+) refused", text).groups()
    return tuple(int(row.replace(",", "")) for row in found)


def metric(text, name, **labels):
    for line in text.splitlines():
        shown = dict(re.findall(r'(\w+)="([^"]*)"', line))
        if re.split(r"[{ ]", line)[0] == name and labels.items() <= shown.items():
            return float(line.rsplit(" ", 1)[1])
    raise AssertionError(f"no {name}{labels} in\n{text}")


@pytest.fixture
def stream(command, configured, topic):
    """Makes targets; returns them, and a function that runs a stream of the current records."""
    file, good, dead = configured(), topic("good", 3), topic("dead", 3)

    def run(source, *options, code=0):
        done = command("split", file, "--topic", source, "--accepted", good, "--rejected", dead,
                       "--streaming", "--available-now", *options)  # fmt: skip
        assert done.code == code, done
        return done

    return good, dead, run


def test_existing_records_in_bounded_micro_batches_and_then_new_records(
    stream, produce, topic, kafka, tmp_path
):
    good, dead, run = stream
    source, metrics = topic("in", 4), tmp_path / "penstock.prom"
    produce(source, records(400, 4))
    done = run(source, "--batch-records", "100", "--metrics-file", metrics)
    assert numbers(done.out) == (360, 40)
    assert "40  policies_" in done.out
    assert "bad is not good" in done.out
    assert re.search(r"batches? \d.*: [\d,]+ accepted", done.err)
    assert "; 0 behind" in done.err
    text = metrics.read_text()
    assert metric(text, RECORDS, topic=source, outcome="accepted", policy="") == 360
    assert metric(text, RECORDS, topic=source, outcome="refused") == 40
    assert metric(text, "penstock_stream_batches_total") >= 4
    assert metric(text, "penstock_stream_lag_records", topic=source, partition="3") == 0

    assert numbers(run(source).out) == (0, 0)
    produce(source, records(100, 4, first=400))
    assert numbers(run(source).out) == (90, 10)
    assert values(kafka, good, dead) == Counter(record["value"] for record in records(500, 4))


@pytest.mark.slow
def test_a_stream_continues_a_job_without_streaming_and_vice_versa(
    stream, command, configured, produce, topic, kafka
):
    good, dead, run = stream
    source = topic("in", 2)
    arguments = ("split", configured(), "--topic", source, "--accepted", good, "--rejected", dead)
    produce(source, records(100, 2))
    assert numbers(command(*arguments).out) == (90, 10)
    produce(source, records(50, 2, first=100))
    assert numbers(run(source).out) == (45, 5)
    produce(source, records(50, 2, first=150))
    assert numbers(command(*arguments).out) == (45, 5)
    assert values(kafka, good, dead) == Counter(record["value"] for record in records(200, 2))


@pytest.mark.slow
def test_again_writes_everything_once_more_and_ends(stream, produce, topic, kafka):
    good, dead, run = stream
    source = topic("in", 2)
    produce(source, records(100, 2))
    assert numbers(run(source).out) == (90, 10)
    assert numbers(run(source, "--again", "--batch-records", "30").out) == (90, 10)
    assert numbers(run(source).out) == (0, 0)
    expected = Counter(record["value"] for record in records(100, 2))
    assert values(kafka, good, dead) == expected + expected


def test_a_stream_without_an_end_does_not_begin_again_with_each_start(command, configured):
    done = command("split", configured(), "--topic", "in", "--accepted", "good", "--rejected",
                   "dead", "--streaming", "--again")  # fmt: skip
    assert done.code == 2
    assert "--again cannot be used with --streaming" in done.err
    assert "--available-now" in done.err


def test_from_latest_is_the_end_at_the_first_run(stream, produce, topic, kafka):
    """The second run does not skip records that arrive between two runs."""
    good, dead, run = stream
    source = topic("in", 2)
    produce(source, records(100, 2))
    assert numbers(run(source, "--from", "latest").out) == (0, 0)
    produce(source, records(50, 2, first=100))
    assert numbers(run(source, "--from", "latest").out) == (45, 5)
    assert len(values(kafka, good, dead)) == 50


def delete_before(admin, source, partition, offset):
    place = TopicPartition(source, partition, offset)
    for done in admin.delete_records([place]).values():
        done.result(30)


@pytest.mark.slow
def test_removed_records_are_counted_and_reported(stream, produce, topic, kafka, admin, tmp_path):
    good, dead, run = stream
    source, metrics = topic("in", 2), tmp_path / "penstock.prom"
    produce(source, records(100, 2))
    run(source)
    produce(source, records(100, 2, first=100))
    delete_before(admin, source, 0, 80)
    done = run(source, "--metrics-file", metrics, "--batch-records", "10")
    assert f"30 of {source}: offsets were removed before they were read" in done.err
    assert metric(metrics.read_text(), "penstock_stream_removed_offsets_total", topic=source) == 30
    assert sum(values(kafka, good, dead).values()) == 170
    produce(source, records(10, 2, first=200))
    delete_before(admin, source, 0, 103)
    done = run(source, "--strict", code=3)
    assert f"3 of {source}: offsets were removed" in done.err
    produce(source, records(10, 2, first=210))
    assert sum(numbers(run(source, "--strict").out)) >= 10
    assert sum(values(kafka, good, dead).values()) == 187


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--to", "latest", "--every", "5"), "'5' is not a duration"),
        (("--to", "0:1"), "to stop, use --available-now"),
        (("--batch-records", "0"), "is not a number of at least 1"),
        (("--metrics-listener", "here"), "host:port"),
        (("--job", "a b"), "--job a b"),
    ],
)  # fmt: skip
def test_wrong_use_is_reported(stream, topic, arguments, message):
    _, _, run = stream
    assert message in run(topic("in"), *arguments, code=2).err


def test_a_checkpoint_of_spark_is_not_begun_again(stream, topic, tmp_path):
    _, _, run = stream
    source = topic("in")
    assert numbers(run(source, "--checkpoint", tmp_path).out) == (0, 0)
    (tmp_path / "offsets").mkdir()
    assert "leave --checkpoint out" in run(source, "--checkpoint", tmp_path, code=2).err


class Running:
    """A stream as a separate process; everything that it started ends with it."""

    def __init__(self, *arguments, master="local[2]"):
        self.arguments = [sys.executable, "-m", "penstock", "split", *map(str, arguments),
                          "--streaming", "--master", master]  # fmt: skip
        self.lines = []

    def __enter__(self):
        self.process = subprocess.Popen(
            self.arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            start_new_session=True,
        )  # fmt: skip
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        return self

    def __exit__(self, *_):
        self.kill()
        self.process.stdout.close()
        self.process.stderr.close()

    def _read(self):
        for line in self.process.stderr:
            self.lines.append(line)

    def wait_until(self, condition, *, what):
        """Wait for a condition while it runs."""
        deadline = time.monotonic() + HANGS_S
        while not condition():
            assert self.process.poll() is None, self.lines
            assert time.monotonic() < deadline, f"waited for {what}: {self.lines}"
            time.sleep(0.2)

    def wait_for_output(self, text):
        self.wait_until(lambda: text in "".join(self.lines), what=text)

    def workers(self):
        """Return the process ids of Spark's Python workers: forks of the daemon."""
        found = {}
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                is_worker = b"pyspark.worker" in (process / "cmdline").read_bytes()
                if is_worker and os.getsid(int(process.name)) == self.process.pid:
                    parent = (process / "stat").read_text().rpartition(")")[2].split()[1]
                    found[int(process.name)] = int(parent)
        return sorted(process for process, parent in found.items() if parent in found)

    def kill(self):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self._reader.join(60)

    def stop(self, end=subprocess.Popen.terminate):
        """End it in order; return its exit code and its output."""
        end(self.process)
        out, _ = self.process.stdout.read(), self.process.wait(HANGS_S)
        self._reader.join(60)
        return self.process.returncode, out


def total(kafka, *topics):
    return sum(values(kafka, *topics).values())


@pytest.mark.spark_processes
def test_killed_again_and_again_while_records_come(configured, produce, topic, kafka):
    source, good, dead = topic("in", 4), topic("good", 2), topic("dead", 2)
    file, chance = configured(NO_BAD, SLOW), random.Random(11)
    arguments = (file, "--topic", source, "--accepted", good, "--rejected", dead,
                 "--batch-records", "600", "--every", "200ms")  # fmt: skip
    sent = 0
    for _ in range(4):
        produce(source, records(1500, 4, first=sent))
        sent += 1500
        before = total(kafka, good, dead)
        with Running(*arguments) as running:
            running.wait_until(
                lambda before=before: total(kafka, good, dead) > before, what="a commit"
            )
            time.sleep(chance.uniform(0, 3))
            running.kill()
    with Running(*arguments, "--available-now") as running:
        assert running.process.wait(HANGS_S) == 0, running.lines
    assert values(kafka, good, dead) == Counter(record["value"] for record in records(sent, 4))


@pytest.mark.spark_processes
def test_tasks_that_are_killed_at_random_moments(configured, produce, topic, kafka):
    """Spark tries them again: what a killed attempt has committed is written and counted once."""
    source, good, dead = topic("in", 4), topic("good", 2), topic("dead", 2)
    produce(source, records(6000, 4))
    arguments = (configured(NO_BAD, SLOW), "--topic", source, "--accepted", good, "--rejected",
                 dead, "--batch-records", "1500", "--available-now")  # fmt: skip
    chance, killed = random.Random(7), set()
    with Running(*arguments, master="local[2,100]") as running:
        running.wait_until(lambda: total(kafka, good, dead) > 0, what="a commit")
        while running.process.poll() is None and len(killed) < 8:
            time.sleep(chance.uniform(0, 1.5))
            if workers := running.workers():
                killed.add(worker := chance.choice(workers))
                with contextlib.suppress(ProcessLookupError):
                    os.kill(worker, signal.SIGKILL)
        out, code = running.process.stdout.read(), running.process.wait(HANGS_S)
    assert code == 0, running.lines
    assert len(killed) > 2
    assert values(kafka, good, dead) == Counter(record["value"] for record in records(6000, 4))
    assert numbers(out) == (5400, 600)


@pytest.mark.spark_processes
@pytest.mark.parametrize(
    "end",
    [
        lambda process: process.send_signal(signal.SIGTERM),
        lambda process: process.send_signal(signal.SIGINT),
        lambda process: os.killpg(process.pid, signal.SIGTERM),
    ],
    ids=["SIGTERM", "SIGINT", "SIGTERM to all its processes"],
)
def test_ended_in_the_middle_of_a_micro_batch(configured, produce, topic, kafka, end):
    source, good, dead = topic("in", 2), topic("good", 2), topic("dead", 2)
    produce(source, records(40_000, 2))
    arguments = (configured(NO_BAD, SLOW), "--topic", source, "--accepted", good,
                 "--rejected", dead)  # fmt: skip
    with Running(*arguments) as running:
        running.wait_until(lambda: total(kafka, good, dead) > 0, what="a commit")
        code, out = running.stop(end)
        assert code == 0, running.lines
    first = numbers(out)
    # The counts of a micro-batch that was given up are not reported.
    assert sum(first) <= total(kafka, good, dead) < 40_000
    if "given up" not in "".join(running.lines):
        assert 0 < sum(first) == total(kafka, good, dead)
    assert set(values(kafka, good, dead).values()) == {1}
    before = total(kafka, good, dead)
    with Running(*arguments) as running:
        running.wait_until(lambda: total(kafka, good, dead) > before, what="the rest")
        code, out = running.stop()
    assert code == 0
    assert sum(numbers(out)) == total(kafka, good, dead) - before
    assert set(values(kafka, good, dead).values()) == {1}


@pytest.mark.spark_processes
def test_topics_and_partitions_that_come_and_go(configured, produce, topic, kafka, admin):
    prefix = f"orders-{os.getpid()}-{time.monotonic_ns()}"
    good, dead = topic("good", 2), topic("dead", 2)
    first, gone, new = (f"{prefix}-{name}" for name in ("a", "b", "c"))
    for name in (first, gone):
        create_topic(admin, name, 2)
        produce(name, records(50, 2))
    port = free_ports(1)[0]
    with Running(configured(), "--topic", f"{prefix}-*", "--accepted", good, "--rejected", dead,
                 "--metrics-listener", f"127.0.0.1:{port}") as running:  # fmt: skip
        running.wait_until(lambda: total(kafka, good, dead) == 100, what="what was there")
        create_topic(admin, new, 1)
        produce(new, records(30, 1))
        admin.create_partitions([NewPartitions(first, 3)])[first].result(30)
        running.wait_until(lambda: total(kafka, good, dead) == 130, what="the new topic")
        produce(first, records(30, 3))
        admin.delete_topics([gone])[gone].result(30)
        running.wait_for_output(f"topic {gone} was deleted; the stream continues without it")
        running.wait_until(lambda: total(kafka, good, dead) == 160, what="the new partition")
        create_topic(admin, gone, 2)
        produce(gone, records(20, 2))
        running.wait_until(lambda: total(kafka, good, dead) == 180, what="the topic that came back")
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as response:
            text = response.read().decode()
        assert metric(text, RECORDS, topic=new, outcome="accepted") == 27
        assert metric(text, "penstock_stream_lag_records", topic=first, partition="2") == 0
        code, out = running.stop()
    assert (code, numbers(out)) == (0, (162, 18)), running.lines


@pytest.fixture(scope="module")
def three_brokers(tmp_path_factory):
    running = LocalKafka(
        nodes=3, first_node_id=1, folder=tmp_path_factory.mktemp("stream"),
        properties={"default.replication.factor": "3", "min.insync.replicas": "1",
                    "offsets.topic.replication.factor": "3",
                    "offsets.topic.num.partitions": "3",
                    "transaction.state.log.num.partitions": "3",
                    "transaction.state.log.replication.factor": "3",
                    "transaction.state.log.min.isr": "1"},
    )  # fmt: skip
    with running:
        yield running


@pytest.mark.spark_processes
def test_leaders_that_move_and_brokers_that_are_away(three_brokers, configured):
    servers = three_brokers.bootstrap_servers
    admin = AdminClient({"bootstrap.servers": servers})
    # Others would send a batch again that was stored just before its leader moved.
    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True})
    for name, partitions in (("in", 6), ("good", 3), ("dead", 3)):
        admin.create_topics([NewTopic(name, partitions, 3)])[name].result(30)
    sent = []

    def send(count):
        for record in records(count, 6, first=len(sent)):
            sent.append(record["value"])
            producer.produce("in", record["value"], partition=record["partition"])
        assert producer.flush(60) == 0

    def written():
        found = [read_topic(servers, name, isolation="read_committed") for name in ("good", "dead")]
        return Counter(value for some in found for _, _, value, _ in some)

    def all_are_written(what):
        running.wait_until(lambda: sum(written().values()) >= len(sent), what=what)

    send(600)
    with Running(configured(), "--bootstrap-server", servers, "--topic", "in", "--accepted",
                 "good", "--rejected", "dead", "--every", "200ms") as running:  # fmt: skip
        all_are_written("the beginning")
        for seed in range(3):
            move_leaders(servers, ["in", "good", "dead"], random.Random(seed))
            send(300)
        all_are_written("after moves of leaders")
        for node in three_brokers.nodes[1:]:
            node.kill()
            send(300)
            all_are_written("while a broker is away")
            node.start()
            three_brokers.wait_ready()
        for node in three_brokers.nodes:
            node.kill()
        time.sleep(20)
        for node in three_brokers.nodes:
            node.start()
        three_brokers.wait_ready()
        send(300)
        all_are_written("after all brokers were away")
        code, _ = running.stop()
    assert code == 0, running.lines
    assert "waiting" in "".join(running.lines)
    assert Counter(value for _, _, value, _ in read_topic(servers, "in")) == Counter(sent)
    assert written() == Counter(sent)


@pytest.mark.spark_processes
def test_the_older_of_two_streams_of_a_job_ends(configured, produce, topic, kafka):
    source, good, dead = topic("in", 4), topic("good", 2), topic("dead", 2)
    arguments = (configured(), "--topic", source, "--accepted", good, "--rejected", dead)
    produce(source, records(100, 4))
    with Running(*arguments) as older:
        older.wait_until(lambda: total(kafka, good, dead) == 100, what="the older one")
        with Running(*arguments) as younger:
            younger.wait_for_output("goes on in 4 partitions")
            sent, deadline = 100, time.monotonic() + HANGS_S
            # The older run ends when it finds something new that the younger run has claimed.
            while older.process.poll() is None and time.monotonic() < deadline:
                produce(source, records(20, 4, first=sent))
                sent += 20
                time.sleep(0.5)
            assert older.process.returncode == 3
            older._reader.join(60)
            assert "another run of the job" in "".join(older.lines)
            younger.wait_until(lambda: total(kafka, good, dead) == sent, what="the younger one")
            assert younger.stop()[0] == 0
    assert values(kafka, good, dead) == Counter(record["value"] for record in records(sent, 4))
