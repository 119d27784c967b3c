"""`penstock split`: accepted records here, dead letters there."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from tests.gateways import wait_until
from tests.integration.reading import read_topic
from tests.limits import HANGS_S
from tests.spark.conftest import BOTH, NO_BAD


def made(count=300, every=10):
    return [
        {
            "value": None if i == 1 else b"%s-%d" % (b"bad" if i % every == 0 else b"good", i),
            "key": b"k%d" % i,
            "headers": [("a", b"1"), ("a", None), ("b", b"\xff")] if i % 2 == 0 else None,
            "partition": i % 3,
        }
        for i in range(count)
    ]


def as_stored(record):
    return record["partition"], record["key"], record["value"], record["headers"] or []


def with_offsets(records):
    """Return records with the offsets that they get."""
    offsets = {0: 0, 1: 0, 2: 0}
    found = []
    for record in records:
        found.append((record, offsets[record["partition"]]))
        offsets[record["partition"]] += 1
    return found


def check_dead_letter(letter, record, offset, source, before):
    partition, value, headers = letter
    own = record["headers"] or []
    assert partition == record["partition"] % 2
    assert value == record["value"]
    assert headers[: len(own)] == own
    added = dict(headers[len(own) :])
    assert added["__dlq.errors.topic"] == source.encode()
    assert added["__dlq.errors.partition"] == b"%d" % record["partition"]
    assert added["__dlq.errors.offset"] == b"%d" % offset
    assert added["__dlq.errors.message"] == b"bad is not good"
    assert added["__penstock.policy"].endswith(b".NoBad")
    assert added["__penstock.code"] == b"87"
    assert added["__penstock.message"] == b"bad is not good"
    assert before <= int(added["__penstock.timestamp"]) <= time.time() * 1000


@BOTH
def test_to_topics(command, configured, produce, topic, kafka):
    source, good, dead = topic("in", 3), topic("good", 3), topic("dead", 2)
    before = int(time.time() * 1000)
    produce(source, made())

    done = command("split", configured(), "--topic", source, "--accepted", good,
                   "--rejected", dead)  # fmt: skip

    assert done.code == 0, done
    assert "270 accepted, 30 refused, 0 dropped, 0 failed" in done.out
    bad = {r["key"] for r in made() if (r["value"] or b"").startswith(b"bad")}
    stored = read_topic(kafka.bootstrap_servers, good)
    expected = [as_stored(r) for r in made() if r["key"] not in bad]
    assert sorted(stored, key=str) == sorted(expected, key=str)
    for partition in range(3):  # and in order
        assert [s for s in stored if s[0] == partition] == [
            e for e in expected if e[0] == partition
        ]
    letters = {key: (p, value, headers)
               for p, key, value, headers in read_topic(kafka.bootstrap_servers, dead)}  # fmt: skip
    assert letters.keys() == bad
    for record, offset in with_offsets(made()):
        if record["key"] in bad:
            check_dead_letter(letters[record["key"]], record, offset, source, before)


def test_to_folders(command, configured, produce, topic, spark, tmp_path):
    source = topic("in", 3)
    produce(source, made())
    good, dead = tmp_path / "good", tmp_path / "dead"
    arguments = ("split", configured(), "--topic", source, "--accepted", f"path:{good}",
                 "--rejected", f"path:{dead}")  # fmt: skip
    assert command(*arguments).code == 0
    accepted, rejected = spark.read.parquet(str(good)), spark.read.parquet(str(dead))
    assert (accepted.count(), rejected.count()) == (270, 30)
    assert accepted.columns == rejected.columns == [
        "key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers",
    ]  # fmt: skip
    assert (good / "_SUCCESS").exists()
    assert not list(tmp_path.glob("*.incomplete"))
    first = rejected.orderBy("partition", "offset").first()
    assert (first["topic"], first["partition"], first["offset"]) == (source, 0, 0)
    again = command(*arguments)
    assert again.code == 2
    assert "holds files already" in again.err


@pytest.mark.slow
def test_one_door_a_topic_the_other_a_folder(command, configured, produce, topic, spark, kafka,
                                             tmp_path):  # fmt: skip
    source, good = topic("in", 3), topic("good")
    produce(source, made())
    done = command("split", configured(), "--topic", source, "--accepted", good,
                   "--rejected", f"path:{tmp_path / 'dead'}")  # fmt: skip
    assert done.code == 0, done
    assert "270 accepted, 30 refused" in done.out
    assert len(read_topic(kafka.bootstrap_servers, good)) == 270
    assert spark.read.parquet(str(tmp_path / "dead")).count() == 30


@BOTH
def test_interceptors_change_what_is_accepted_and_nothing_else(command, configured, produce, topic,
                                                               kafka):  # fmt: skip
    source, good, dead = topic("in"), topic("good"), topic("dead")
    produce(source, [{"value": v} for v in (b"bad1", b"bad7", b"drop", b"good", b"fail")])
    file = configured({**NO_BAD, "produce.request.interceptors": "policies.Repair"})
    done = command("split", file, "--topic", source, "--accepted", good, "--rejected", dead)
    assert "2 accepted, 1 refused, 1 dropped, 1 failed" in done.out
    assert [v for _, _, v, _ in read_topic(kafka.bootstrap_servers, good)] == [b"good1", b"good"]
    letters = read_topic(kafka.bootstrap_servers, dead)
    assert [v for _, _, v, _ in letters] == [b"bad7", b"fail"]
    assert b"secret" not in str(letters).encode()


def read_offsets(spark, folder: Path) -> list:
    if not any(folder.glob("batch=*/*.parquet")):
        return []
    rows = spark.read.parquet(str(folder)).select("partition", "offset").collect()
    return [tuple(row) for row in rows]


@contextlib.contextmanager
def killed_at_the_end(arguments):
    """Run a command; kill it and all that it started."""
    process = subprocess.Popen(list(map(str, arguments)), stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        children = _descendants(process.pid)
        process.kill()
        process.wait()
        for pid in children:
            os.kill(pid, signal.SIGKILL) if _alive(pid) else None


@pytest.mark.spark_processes
def test_a_stream_to_folders_survives_kills_and_holds_each_record_once(
    configured, produce, topic, spark, tmp_path
):
    source = topic("in", 3)
    produce(source, made(3000))
    file = configured()
    good, dead = tmp_path / "good", tmp_path / "dead"
    arguments = [
        sys.executable, "-m", "penstock", "split", file, "--topic", source, "--accepted",
        f"path:{good}", "--rejected", f"path:{dead}", "--streaming", "--checkpoint",
        tmp_path / "checkpoint", "--master", "local[2]",
    ]  # fmt: skip

    read = partial(read_offsets, spark)
    for more, total in ((0, 3000), (500, 3500)):
        produce(source, made(more))
        with killed_at_the_end(arguments):
            wait_until(
                lambda total=total: len(read(good)) + len(read(dead)) >= total,
                HANGS_S,
                what="the stream",
            )
    finished = subprocess.run(
        [*map(str, arguments), "--available-now"],
        capture_output=True,
        text=True,
        timeout=HANGS_S,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    found = read(good) + read(dead)
    assert len(found) == len(set(found)) == 3500
    assert len(read(dead)) == 350


def _alive(pid):
    return Path(f"/proc/{pid}").exists()


def _descendants(pid):
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in task.read_text().split():
            found += [int(child), *_descendants(int(child))]
    return found


@pytest.mark.slow
def test_a_stream_ends_in_order_on_sigterm(configured, produce, topic, kafka, tmp_path):
    source, good, dead = topic("in"), topic("good"), topic("dead")
    produce(source, [{"value": b"good"}, {"value": b"bad"}])
    process = subprocess.Popen(
        [sys.executable, "-m", "penstock", "split", str(configured()), "--topic", source,
         "--accepted", good, "--rejected", dead, "--streaming", "--checkpoint",
         str(tmp_path / "checkpoint"), "--master", "local[2]"],
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        for line in process.stderr:
            if line.startswith("batch 0: 1 accepted, 1 refused"):
                break
        process.send_signal(signal.SIGTERM)
        assert process.wait(HANGS_S) == 0, process.stderr.read()
    finally:
        process.kill()
        process.wait()
        process.stderr.close()
    assert len(read_topic(kafka.bootstrap_servers, good)) == 1
    assert len(read_topic(kafka.bootstrap_servers, dead)) == 1


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--accepted", "a", "--rejected", "a"), "must differ"),
        (("--accepted", "{t}", "--rejected", "a"), "cannot be written to while it is read"),
        (("--accepted", "nope", "--rejected", "{t}x"), "there is no topic nope"),
        (("--accepted", "a/b", "--rejected", "c"), "path:a/b"),
        (("--accepted", "path:a", "--rejected", "c", "--streaming"), "--checkpoint"),
        (("--accepted", "a", "--rejected", "c", "--checkpoint", "x"), "--streaming"),
        (("--accepted", "path:x", "--rejected", "path:y", "--from", "yesterday"), "an ISO time"),
        (("--accepted", "path:x", "--rejected", "path:y", "--from", "7:0"), "has the partitions 0"),
        (("--accepted", "path:x", "--rejected", "path:y", "--from", "0:9"), "from 0 up to 0"),
        (("--accepted", "path:x", "--rejected", "path:y", "--conf", "x=1"), "spark.KEY=VALUE"),
        (("--accepted", "path:x", "--rejected", "path:y", "--conf",
          "spark.sql.execution.arrow.maxRecordsPerBatch=0"), "1 or more"),
    ],
)  # fmt: skip
def test_wrong_use_is_told(command, configured, topic, arguments, told):
    name = topic("in")
    done = command("split", configured(), "--topic", name,
                   *(argument.replace("{t}", name) for argument in arguments))  # fmt: skip
    assert done.code == 2, done
    assert told in done.err
