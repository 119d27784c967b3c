"""`penstock split`: accepted records here, dead letters there."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from penstock.kafka.client.connections.connection import connect
from penstock.kafka.client.connections.pipeline import Pipeline
from penstock.kafka.client.protocol.produced_batches import BatchSource
from penstock.kafka.client.writing.idempotent_pipeline import new_producer
from penstock.kafka.client.writing.limits import WriterLimits
from penstock.kafka.records.builder import build
from penstock.kafka.records.encoder import NewHeader, encode
from penstock.spark import judge, load_plan, register
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


@pytest.mark.cases(1)
@BOTH
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


def stored_as_sent(messages, sent):
    """Return whether messages are some records, in the order of each partition, as they were."""
    for partition in range(3):
        own = [item for item in sent if item["partition"] == partition]
        keys = {record["key"] for record in own}
        found = [message for message in messages if message.key() in keys]
        assert {message.partition() for message in found} <= {partition % 2}
        assert [
            (message.key(), message.value(), message.headers() or [], message.timestamp()[1])
            for message in found
        ] == [
            (record["key"], record["value"], record["headers"] or [], record["timestamp"])
            for record in own
        ]


@pytest.mark.slow
@pytest.mark.parametrize("topics", ["accepted", "rejected"])
@BOTH
def test_a_topic_and_a_folder_as_targets(
    command, configured, produce, topic, spark, kafka, tmp_path, topics
):
    source, target, folder = topic("in", 3), topic("target", 2), tmp_path / "folder"
    before = int(time.time() * 1000)
    sent = [{**item, "timestamp": before - 5000 + n} for n, item in enumerate(made())]
    produce(source, sent)
    places = (target, f"path:{folder}") if topics == "accepted" else (f"path:{folder}", target)
    done = command("split", configured(), "--topic", source, "--accepted", places[0],
                   "--rejected", places[1])  # fmt: skip
    assert done.code == 0, done
    assert "270 accepted, 30 refused" in done.out
    messages = read_topic(kafka.bootstrap_servers, target, full=True)
    bad = {item["key"] for item in sent if (item["value"] or b"").startswith(b"bad")}
    if topics == "accepted":
        stored_as_sent(messages, [item for item in sent if item["key"] not in bad])
        assert {row.key for row in spark.read.parquet(str(folder)).collect()} == bad
    else:
        assert spark.read.parquet(str(folder)).count() == 270
        assert {message.key() for message in messages} == bad
        letters = {message.key(): message for message in messages}
        for record, offset in with_offsets(sent):
            if record["key"] in bad:
                letter = letters[record["key"]]
                found = letter.partition(), letter.value(), letter.headers()
                check_dead_letter(found, record, offset, source, before - 5000)
                assert before <= letter.timestamp()[1] <= time.time() * 1000


@pytest.mark.slow
def test_a_checkpoint_of_sparks_connector_continues(
    command, configured, produce, topic, spark, tmp_path
):
    """As a stream to folders of an earlier version left it."""
    source = topic("in", 3)
    produce(source, made())
    good, dead = tmp_path / "good", tmp_path / "dead"
    arguments = ("split", configured(), "--topic", source, "--accepted", f"path:{good}",
                 "--rejected", f"path:{dead}", "--streaming", "--available-now",
                 "--checkpoint", tmp_path / "checkpoint")  # fmt: skip
    assert command(*arguments).code == 0
    assert len(read_offsets(spark, good) + read_offsets(spark, dead)) == 300
    for file in (tmp_path / "checkpoint" / "offsets").glob("[0-9]*"):
        *head, offsets = file.read_text().splitlines()
        kept = {name: entry["offsets"] for name, entry in json.loads(offsets).items()}
        file.write_text("\n".join([*head, json.dumps(kept)]))
        file.with_name(f".{file.name}.crc").unlink()
    produce(source, made(30))
    assert command(*arguments).code == 0
    found = read_offsets(spark, good) + read_offsets(spark, dead)
    assert len(found) == len(set(found)) == 330


@BOTH
def test_interceptors_change_only_accepted_records(command, configured, produce, topic,
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
def killed_at_the_end(arguments, errors):
    """Run a command; kill it and all that it started. Its errors are written to a file."""
    with errors.open("wb") as stderr:
        process = subprocess.Popen(list(map(str, arguments)), stderr=stderr)
    try:
        yield process
    finally:
        children = _descendants(process.pid)
        process.kill()
        process.wait()
        for pid in children:
            with contextlib.suppress(ProcessLookupError):  # it ends by itself without the first
                os.kill(pid, signal.SIGKILL)


@pytest.mark.spark_processes
def test_a_stream_to_folders_survives_kills_and_holds_each_record_once(
    configured, produce, topic, spark, tmp_path
):
    source = topic("in", 3)
    produce(source, made(3000))
    file = configured()
    good, dead, errors = tmp_path / "good", tmp_path / "dead", tmp_path / "errors"
    arguments = [
        sys.executable, "-m", "penstock", "split", file, "--topic", source, "--accepted",
        f"path:{good}", "--rejected", f"path:{dead}", "--streaming", "--checkpoint",
        tmp_path / "checkpoint", "--master", "local[2]",
    ]  # fmt: skip

    read = partial(read_offsets, spark)
    for more, total in ((0, 3000), (500, 3500)):
        produce(source, made(more))
        with killed_at_the_end(arguments, errors) as process:

            def has_written(process=process, total=total):
                assert process.poll() is None, errors.read_text()
                return len(read(good)) + len(read(dead)) >= total

            wait_until(has_written, HANGS_S, what="the stream")
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


def _descendants(pid):
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):  # the thread has ended
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
    ("arguments", "message"),
    [
        (("--accepted", "a", "--rejected", "a"), "must differ"),
        (("--accepted", "{t}", "--rejected", "a"), "cannot be written to while it is read"),
        (("--accepted", "nope", "--rejected", "{t}x"), "there is no topic nope"),
        (("--accepted", "a/b", "--rejected", "c"), "path:a/b"),
        (("--accepted", "path:a", "--rejected", "c", "--streaming"), "--checkpoint"),
        (("--accepted", "table:a", "--rejected", "c", "--streaming"), "needs --checkpoint DIR"),
        (("--accepted", "table:a", "--rejected", "c", "--local"), "table:a needs Spark: leave out --local"),
        (("--accepted", "table:/a", "--rejected", "c"), "write table:delta.`/a`"),
        (("--accepted", "table:a", "--rejected", "c", "--every", "5s"), "require --streaming"),
        (("--accepted", "a", "--rejected", "c", "--checkpoint", "x"), "--streaming"),
        (("--accepted", "path:x", "--rejected", "path:y", "--from", "yesterday"), "an ISO time"),
        (("--accepted", "path:x", "--rejected", "path:y", "--from", "7:0"), "has the partitions 0"),
        (("--accepted", "path:x", "--rejected", "path:y", "--from", "0:9"), "from 0 up to 0"),
        (("--accepted", "path:x", "--rejected", "path:y", "--conf", "x=1"), "spark.KEY=VALUE"),
        (("--accepted", "path:x", "--rejected", "path:y", "--conf",
          "spark.sql.execution.arrow.maxRecordsPerBatch=0"), "1 or more"),
    ],
)  # fmt: skip
def test_wrong_use_is_reported(command, configured, topic, arguments, message):
    name = topic("in")
    done = command("split", configured(), "--topic", name,
                   *(argument.replace("{t}", name) for argument in arguments))  # fmt: skip
    assert done.code == 2, done
    assert message in done.err


def write_batch(kafka, topic, records, codec=0):
    """Write a batch that producers do not send: `(timestamp, value)`."""
    connection = connect({"bootstrap.servers": kafka.bootstrap_servers}, Path("tests"))
    limits = WriterLimits()
    pipeline = Pipeline(connection, transactional_id=None, max_bytes=limits.bytes_in_flight,
                        timeout_s=limits.delivery_timeout_s)  # fmt: skip
    pipeline.start(new_producer(connection))
    timestamps, values = zip(*records, strict=True)
    nothing = [None] * len(values)
    section = build(timestamps[0], timestamps, nothing, values, [[]] * len(values))
    header = NewHeader(codec, timestamps[0], max(timestamps))
    batch = encode(header, section, len(values), fast=True)
    pipeline.put(topic, 0, batch, BatchSource("tests", 0, 0))
    pipeline.flush()


ANY_TIME = {"message.timestamp.after.max.ms": str(2**63 - 1)}
LOG_TIME = {"message.timestamp.type": "LogAppendTime"}
MS_MAX = (2**63 - 1) // 1000
FAR = [
    -5_361_120_000_000, -1_000_001, -1, 0, 10_406_880_000_123, 316_306_080_000_000,
    MS_MAX, -MS_MAX, MS_MAX + 1, -MS_MAX - 1, 2**62, -(2**62), 2**63 - 1, -(2**63),
]  # fmt: skip
"""Times before 1900, before 1970, after 2255, after 9999, and those that Spark does not have."""


@pytest.mark.slow
@BOTH
def test_timestamps_of_every_year_are_kept(command, configured, topic, spark, kafka, tmp_path):
    source, good, back = (topic(name, **ANY_TIME) for name in ("in", "good", "back"))
    write_batch(kafka, source, [(time, b"%d" % time) for time in FAR])
    file, folder = configured(), tmp_path / "folder"
    for arguments in (
        ("--topic", source, "--accepted", good, "--rejected", f"path:{tmp_path / 'dead'}"),
        ("--topic", source, "--accepted", f"path:{folder}", "--rejected", topic("dead")),
        ("--input", folder, "--accepted", back, "--rejected", topic("dead")),
    ):
        done = command("split", file, *arguments)
        assert f"{len(FAR)} accepted" in done.out, done
    for name in (good, back):
        found = read_topic(kafka.bootstrap_servers, name, full=True)
        # Its consumer takes -1 for no timestamp.
        assert [record.timestamp()[1] for record in found if record.value() != b"-1"] == [
            time for time in FAR if time != -1
        ]


@pytest.mark.slow
@BOTH
def test_redact_keeps_timestamps_of_every_year(command, configured, topic, kafka, tmp_path):
    source, redacted, back = (topic(name, **ANY_TIME) for name in ("in", "redacted", "back"))
    write_batch(kafka, source, [(time, b"bad%d" % at) for at, time in enumerate(FAR)])
    file = configured({"produce.request.interceptors": "policies.RepairAll"})
    folder = f"path:{tmp_path / 'folder'}"
    for arguments in (
        ("--topic", source, "--to", redacted),
        ("--topic", source, "--to", folder),
        ("--input", tmp_path / "folder", "--to", back),
    ):
        done = command("redact", file, *arguments)
        assert done.code == 0, done
    for name in (redacted, back):
        found = read_topic(kafka.bootstrap_servers, name, full=True)
        assert [record.value() for record in found] == [b"good%d" % at for at in range(len(FAR))]
        assert [record.timestamp()[1] for record in found] == FAR
        assert [record.headers() for record in found] == [None] * len(FAR)


@pytest.mark.slow
def test_the_source_and_the_sink_keep_timestamps_of_every_year(spark, topic, kafka, configured):
    """Also of judged rows; the time of the broker's log is that of the write."""
    source, back, now = topic("in", **ANY_TIME), topic("back", **ANY_TIME), topic("now", **LOG_TIME)
    write_batch(kafka, source, [(time, b"%d" % time) for time in FAR])
    register(spark)
    at = {"kafka.bootstrap.servers": kafka.bootstrap_servers, "plan": str(configured(NO_BAD))}
    frame = spark.read.format("penstock").options(subscribe=source, **at).load()
    judged = judge(frame, load_plan(configured(NO_BAD)))
    assert {row.verdict.outcome for row in judged.select("verdict").collect()} == {"accepted"}
    begun = int(time.time() * 1000)
    for rows, name in ((frame, back), (judged, back), (frame, now)):
        rows.write.format("penstock").mode("append").options(topic=name, **at).save()
    found = read_topic(kafka.bootstrap_servers, back, full=True)
    assert [record.value() for record in found] == [b"%d" % time for time in FAR] * 2
    assert [record.timestamp()[1] for record in found] == FAR * 2
    assert [record.headers() for record in found] == [None] * 2 * len(FAR)
    found = read_topic(kafka.bootstrap_servers, now, full=True)
    assert [record.value() for record in found] == [b"%d" % time for time in FAR]
    assert all(begun <= record.timestamp()[1] <= time.time() * 1000 for record in found)


@pytest.mark.slow
@pytest.mark.parametrize("way", ["spark", "stream", "local"])
def test_records_with_any_timestamp_become_letters_and_return(
    command, configured, topic, kafka, tmp_path, way
):
    source, good = (topic(name, **ANY_TIME) for name in ("in", "good"))
    write_batch(kafka, source, [(time, b"bad%d" % at) for at, time in enumerate(FAR)])
    dead, local = f"path:{tmp_path / 'dead'}", ["--local"] if way == "local" else []
    stream = ("--streaming", "--available-now", "--checkpoint", tmp_path / "checkpoint")
    done = command("split", configured(NO_BAD), "--topic", source, "--accepted", good,
                   "--rejected", dead, *(stream if way == "stream" else local))  # fmt: skip
    assert (done.code, f"{len(FAR)} refused" in done.out + done.err) == (0, True), done
    for policies in (NO_BAD, {}):  # they are refused again, and return
        redriven = ("--from", dead, "--to", source, *local)
        done = command("redrive", configured(policies), *redriven)
        assert done.code == 0, done
    found = read_topic(kafka.bootstrap_servers, source, full=True)
    assert [record.value() for record in found] == [b"bad%d" % at for at in range(len(FAR))] * 2
    assert [record.timestamp()[1] for record in found] == FAR * 2


@pytest.mark.slow
@pytest.mark.parametrize("permitted", [False, True])
def test_a_batch_is_as_large_as_the_file_permits(
    command, configured, topic, kafka, tmp_path, permitted
):
    source, gzip = topic("in"), 1
    write_batch(kafka, source, [(5, bytes(100_000))] * 1400, codec=gzip)
    largest = {"decompressed.batch.max.bytes": "200000000"} if permitted else {}
    done = command("split", configured({**NO_BAD, **largest}), "--topic", source, "--accepted",
                   f"path:{tmp_path / 'good'}", "--rejected", f"path:{tmp_path / 'dead'}")  # fmt: skip
    if permitted:
        assert "1,400 accepted" in done.out, done
    else:
        expected = f"{source}-0: the batch at offset 0 cannot be read: "
        assert (done.code, expected in done.err) == (3, True), done
