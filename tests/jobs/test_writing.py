"""Topics split on raw batches: each record once, also after retries, by a real Kafka."""

import os
import re
import signal
import subprocess
import sys
import time
import uuid
from collections import Counter

import pytest
from confluent_kafka import TopicPartition

from penstock.jobs.positions import OffsetsDone, job_id
from penstock.kafka.client.connections.connection import Connection
from penstock.kafka.client.positions import Position, PositionTask, commit_positions, read_positions
from penstock.kafka.cluster.offsets import Cluster
from tests.conftest import create_topic, delete_topic
from tests.integration.reading import read_topic
from tests.jobs.slow_records import COUNT, PARTITIONS, SLOW, records, values
from tests.kafka.client.settings import FILE
from tests.limits import HANGS_S
from tests.spark.conftest import BOTH, NO_BAD

HELD = """
import os, time
from pathlib import Path
from penstock.policy import *
class NoBad(RecordValidationPolicy):
    def validate(self, topic, record):
        until = os.environ.get("HELD_UNTIL")
        if until and topic.topic_id_partition.partition >= 2:
            while not Path(until).exists(): time.sleep(0.05)
        if record.value.startswith(b"bad"): raise InvalidRecordException("bad is not good")
"""


@pytest.fixture
def split(command, configured, topic):
    """Makes targets; returns them, and a function that runs the same command again and again."""
    file, good, dead = configured(), topic("good", 3), topic("dead", 3)

    def run(source, *options):
        done = command("split", file, "--topic", source, "--accepted", good, "--rejected", dead,
                       *options)  # fmt: skip
        assert done.code == 0, done
        numbers = re.search(r"([\d,]+) accepted, ([\d,]+) refused", done.out).groups()
        return tuple(int(number.replace(",", "")) for number in numbers), done

    return good, dead, run


@BOTH
@pytest.mark.slow
def test_the_same_command_writes_nothing_twice(split, produce, topic, kafka):
    good, dead, run = split
    source = topic("in", PARTITIONS)
    produce(source, records(400))
    assert run(source)[0] == (360, 40)
    counts, done = run(source)
    assert counts == (0, 0)
    assert "an earlier run has done 400 offsets" in done.out
    produce(source, records(100, first=400))
    assert run(source)[0] == (90, 10)
    written = values(kafka, good, dead)
    assert written == Counter(record["value"] for record in records(500))


@BOTH
def test_with_log_append_time_timestamps_are_those_of_the_source(split, produce, topic, kafka):
    good, _, run = split
    source = topic("in", 1, **{"message.timestamp.type": "LogAppendTime"})
    of_2001 = [{**record, "timestamp": 1_000_000_000_000} for record in records(100, 1)]
    produce(source, of_2001[:50])
    produce(source, of_2001[50:])
    assert run(source)[0] == (90, 10)

    def times(name):
        found = read_topic(kafka.bootstrap_servers, name, isolation="read_committed", full=True)
        return {
            message.value(): message.timestamp()[1]
            for message in found
            if b"good" in message.value()
        }

    assert times(good) == times(source)
    assert min(times(good).values()) > 1_700_000_000_000


def expire(admin, done):
    """Remove the committed offsets of the job of a command, as brokers do after some days."""
    [job] = re.findall(r"^job ([\w.-]+):", done.out, re.MULTILINE)
    admin.delete_consumer_groups([f"penstock-{job}"])[f"penstock-{job}"].result(60)
    return job


@pytest.mark.cases(1)
@BOTH
def test_the_position_outlives_committed_offsets(split, produce, topic, kafka, admin):
    good, dead, run = split
    source = topic("in", 2)
    produce(source, records(100, 2))
    assert run(source)[0] == (90, 10)
    expire(admin, run(source)[1])
    produce(source, records(50, 2, first=100))
    counts, done = run(source)
    assert counts == (45, 5)
    assert "an earlier run has done 100 offsets" in done.out
    assert run(source)[0] == (0, 0)
    assert values(kafka, good, dead) == Counter(record["value"] for record in records(150, 2))


@pytest.mark.cases(1)
@BOTH
def test_a_lost_position_is_an_error_with_advice(command, configured, produce, topic, kafka, admin):
    file, source, good, dead = configured(), topic("in", 2), topic("good", 1), topic("dead", 1)
    arguments = ("split", file, "--topic", source, "--accepted", good, "--rejected", dead)
    produce(source, records(100, 2))
    assert command(*arguments).code == 0
    expire(admin, command(*arguments))
    file.write_text(file.read_text() + f"redrive.places.topic={source}-places\n")
    done = command(*arguments)
    assert done.code == 3, done
    assert f"{good}: the first records of {source}-0 are there already" in done.err
    assert "--again" in done.err
    assert "--reset-offsets" in done.err
    assert sum(values(kafka, good, dead).values()) == 100
    assert command(*arguments, "--again").code == 0
    assert sum(values(kafka, good, dead).values()) == 200
    assert "an earlier run has done 100" in command(*arguments).out


@pytest.mark.cases(1)
@BOTH
def test_again_judges_and_writes_all_records(split, produce, topic, kafka):
    good, dead, run = split
    source = topic("in", 2)
    produce(source, records(100, 2))
    assert run(source)[0] == (90, 10)
    counts, done = run(source)
    assert counts == (0, 0)
    assert "neither judged nor written again, even if policies have changed" in done.out
    assert "--again" in done.out
    assert run(source, "--again")[0] == (90, 10)
    counts, done = run(source)
    assert counts == (0, 0)
    expected = Counter(record["value"] for record in records(100, 2))
    assert values(kafka, good, dead) == expected + expected


@pytest.mark.cases(1)
@BOTH
def test_offsets_that_retention_removed_between_two_runs_are_reported(split, produce, topic, admin):
    _, _, run = split
    source = topic("in", 1)
    produce(source, records(100, 1))
    assert run(source)[0] == (90, 10)
    produce(source, records(100, 1, first=100))
    for done in admin.delete_records([TopicPartition(source, 0, 150)]).values():
        done.result(30)
    counts, done = run(source)
    assert counts == (45, 5)
    assert "warning: 50 offsets were removed before they were read" in done.err


@pytest.mark.cases(1)
@BOTH
def test_strict_fails_if_offsets_were_removed_between_two_runs(
    command, configured, produce, topic, admin
):
    source, good, dead = topic("in", 1), topic("good", 1), topic("dead", 1)
    arguments = ("split", configured(), "--topic", source, "--accepted", good, "--rejected", dead,
                 "--strict")  # fmt: skip
    produce(source, records(100, 1))
    assert command(*arguments).code == 0
    produce(source, records(100, 1, first=100))
    for done in admin.delete_records([TopicPartition(source, 0, 150)]).values():
        done.result(30)
    done = command(*arguments)
    assert (done.code, "50 offsets were removed" in done.err) == (3, True), done


@BOTH
def test_a_log_that_ends_before_the_position_of_its_job_is_an_error(
    command, configured, produce, topic, kafka
):
    """As after an unclean election: records written there since have not been judged."""
    source, good, dead = topic("in", 1), topic("good", 1), topic("dead", 1)
    arguments = ("split", configured(), "--topic", source, "--accepted", good, "--rejected", dead,
                 "--job", source)  # fmt: skip
    produce(source, records(10, 1))
    with Connection({"bootstrap.servers": kafka.bootstrap_servers}, FILE) as connection:
        group = f"penstock-{source}"
        commit_positions(connection, group, {(source, 0): Position(20)})
    done = command(*arguments)
    assert (done.code, "ends at offset 10, before 20" in done.err) == (3, True), done


@pytest.mark.cases(1)
@pytest.mark.parametrize("options", [(), ("--streaming", "--available-now")])
def test_a_topic_that_was_created_again_is_read_from_its_start(
    split, produce, admin, kafka, options
):
    _, _, run = split
    source = f"again-{uuid.uuid4().hex[:8]}"
    create_topic(admin, source)
    produce(source, records(100, 1))
    assert run(source, "--job", source, *options)[0] == (90, 10)
    delete_topic(admin, source)
    create_topic(admin, source)
    produce(source, records(200, 1, first=1000))
    assert run(source, "--job", source, *options)[0] == (180, 20)


@pytest.mark.slow
def test_another_command_or_target_is_another_job(command, configured, produce, topic):
    source, good, dead, other = topic("in", 1), topic("good"), topic("dead"), topic("other")
    file = configured({**NO_BAD, "produce.request.interceptors": "policies.Repair"})
    produce(source, records(100, 1))
    common = (file, "--topic", source, "--job", source)
    assert command("split", *common, "--accepted", good, "--rejected", dead).code == 0
    for arguments in (
        ("split", *common, "--accepted", other, "--rejected", dead),
        ("split", *common, "--accepted", other, "--rejected", dead, "--streaming",
         "--available-now"),
        ("redact", *common, "--to", good),
    ):  # fmt: skip
        done = command(*arguments)
        assert (done.code, f"--job {source}" in done.err) == (2, True), done
    assert command("split", *common, "--accepted", good, "--rejected", dead).code == 0


@pytest.mark.cases(1)
@BOTH
def test_another_job_begins_again(split, produce, topic, kafka):
    good, dead, run = split
    source = topic("in", 2)
    produce(source, records(100, partitions=2))
    assert run(source)[0] == run(source, "--job", "again")[0] == (90, 10)
    assert set(values(kafka, good, dead).values()) == {2}


@BOTH
def test_several_topics(split, produce, topic, kafka):
    good, dead, run = split
    sources = topic("in", 2), topic("in", 3)
    produce(sources[0], records(100, partitions=2))
    produce(sources[1], records(100, partitions=3, first=100))
    assert run(",".join(sources))[0] == (180, 20)
    assert len(values(kafka, good, dead)) == 200


@BOTH
def test_batches_and_timestamps_are_kept(split, produce, topic, kafka, admin):
    """A batch that is accepted completely is written unchanged, with its compression."""
    from confluent_kafka import Consumer

    good, _, run = split
    source = topic("in")
    then = int(time.time() * 1000) - 3_600_000
    sent = [{"value": b"good", "timestamp": then + n, "partition": 0} for n in range(50)]
    produce(source, sent, **{"compression.type": "lz4"})
    run(source)
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": f"g-{good}",
                         "auto.offset.reset": "earliest"})  # fmt: skip
    consumer.subscribe([good])
    seen = []
    until = time.monotonic() + 60
    while len(seen) < 50 and time.monotonic() < until:
        seen += [message.timestamp()[1] for message in consumer.consume(50, 1)]
    consumer.close()
    assert seen == [then + n for n in range(50)]


def positions(kafka, source, job):
    with Connection({"bootstrap.servers": kafka.bootstrap_servers}, "f") as connection:
        group = PositionTask(job, source, None, 0).group
        return read_positions(connection, group, {source: range(PARTITIONS)})


def has_written(kafka, source):
    """Whether more is committed than where the job begins."""
    return any(position.offset for position in positions(kafka, source, f"j-{source}").values())


HOW = {"spark": ["--master", "local[2]"], "local": ["--local"]}


@pytest.mark.parametrize("how", [pytest.param("spark", marks=pytest.mark.spark_processes), "local"])
def test_a_killed_run_continues(how, configured, produce, topic, kafka):
    source, good, dead = topic("in", PARTITIONS), topic("good", 2), topic("dead", 2)
    produce(source, records())
    arguments = [
        sys.executable, "-m", "penstock", "split", str(configured(NO_BAD, SLOW)), "--topic", source,
        "--accepted", good, "--rejected", dead, "--job", f"j-{source}", *HOW[how],
    ]  # fmt: skip
    process = subprocess.Popen(
        arguments, start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    until = time.monotonic() + HANGS_S
    while not has_written(kafka, source) and time.monotonic() < until:
        assert process.poll() is None, process.communicate()
        time.sleep(0.2)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    before = sum(values(kafka, good, dead).values())
    assert 0 < before < COUNT

    done = subprocess.run(arguments, capture_output=True, text=True, check=False, timeout=HANGS_S)

    assert done.returncode == 0, done
    accepted, refused = map(int, re.search(r"(\d+) accepted, (\d+) refused",
                                           done.stdout.replace(",", "", 1)).groups())  # fmt: skip
    assert accepted + refused <= COUNT - before
    assert values(kafka, good, dead) == Counter(record["value"] for record in records())


@pytest.mark.parametrize("how", [pytest.param("spark", marks=pytest.mark.spark_processes), "local"])
def test_of_two_concurrent_runs_the_older_ends(how, configured, produce, topic, kafka, tmp_path):
    source, good, dead = topic("in", PARTITIONS), topic("good", 2), topic("dead", 2)
    produce(source, records())
    arguments = [
        sys.executable, "-m", "penstock", "split", str(configured(NO_BAD, HELD)), "--topic", source,
        "--accepted", good, "--rejected", dead, "--job", f"j-{source}", *HOW[how],
    ]  # fmt: skip

    def start(**environment):
        return subprocess.Popen(
            arguments,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | environment,
        )

    ended = tmp_path / "ended"
    older = start(HELD_UNTIL=str(ended))
    until = time.monotonic() + HANGS_S
    while not positions(kafka, source, f"j-{source}") and time.monotonic() < until:
        assert older.poll() is None, older.communicate()
        time.sleep(0.2)
    younger = start()
    out, err = younger.communicate(timeout=HANGS_S)
    ended.touch()
    _, older_err = older.communicate(timeout=HANGS_S)
    assert (older.returncode, younger.returncode) == (3, 0), (older_err, out, err)
    assert "another run of the job" in older_err
    assert values(kafka, good, dead) == Counter(record["value"] for record in records())


def test_finished_offsets_are_counted(split, produce, topic, kafka):
    _, _, run = split
    source = topic("in", 2)
    produce(source, records(100, partitions=2))
    properties = {"bootstrap.servers": kafka.bootstrap_servers}
    cluster = Cluster(properties, None)
    ranges = cluster.ranges(cluster.topics(source), "earliest")
    with Connection(properties, "f") as connection:
        assert OffsetsDone(connection, f"j-{source}", ranges, {})() == 0
        run(source, "--job", f"j-{source}")
        assert OffsetsDone(connection, f"j-{source}", ranges, {})() == 100


def test_a_job_has_its_topics_and_its_start(kafka, topic):
    cluster = Cluster({"bootstrap.servers": kafka.bootstrap_servers}, None)
    first, other = cluster.topics(f"{topic()},{topic()}")
    assert job_id("split", [first], [other], "earliest") == job_id(
        "split", [first], [other], "earliest"
    )
    ids = {
        job_id(*arguments)
        for arguments in [
            ("split", [first], [other], "earliest"),
            ("split", [first], [other], "latest"),
            ("split", [other], [first], "earliest"),
            ("split", [first, other], [first], "earliest"),
            ("redact", [first], [other], "earliest"),
        ]
    }
    assert len(ids) == 5
