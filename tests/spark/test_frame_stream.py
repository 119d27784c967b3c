"""`penstock split --streaming` to folders: bounded micro-batches, each once."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from threading import Event

import pytest
from confluent_kafka import TopicPartition
from pyspark.errors import StreamingQueryException

from penstock.cli.jobs import frame_stream
from tests.conftest import delete_topic
from tests.gateways import without_waiting
from tests.spark.conftest import NO_BAD


@pytest.fixture
def stream(command, configured, topic, produce, tmp_path):
    """Runs a stream from a topic to two folders."""
    source, file = topic("in", 3), configured()

    def run(*more):
        return command("split", file, "--topic", source, "--accepted", f"path:{tmp_path / 'good'}",
                       "--rejected", f"path:{tmp_path / 'dead'}", "--streaming", "--checkpoint",
                       tmp_path / "checkpoint", *more)  # fmt: skip

    def send(first, end):
        produce(source, [{"value": b"%s %d" % (b"good" if n % 10 else b"bad", n),
                          "partition": n % 3} for n in range(first, end)])  # fmt: skip

    run.send, run.source = send, source
    return run


@pytest.fixture
def batches(spark, tmp_path):
    """Returns the numbers in the values of each micro-batch."""

    def read():
        found = {}
        for name in ("good", "dead"):
            for folder in (tmp_path / name).glob("batch=*"):
                rows = spark.read.parquet(str(folder)).collect()
                values = [int(row.value.split()[1]) for row in rows]
                found.setdefault(int(folder.name.split("=")[1]), []).extend(values)
        return [found[number] for number in sorted(found)]

    return read


def in_any_order(found):
    return sorted(number for batch in found for number in batch)


def test_the_first_micro_batch_is_bounded_and_a_restart_loses_nothing(stream, batches, monkeypatch):
    stream.send(0, 300)
    options, report_counts = ("--available-now", "--batch-records", "90"), frame_stream.report

    def fail(number, counts):
        report_counts(number, counts)
        if number == 1:  # Spark's checkpoint does not have its writes as done
            raise OSError("the driver ends here")

    with monkeypatch.context() as patched:
        patched.setattr(frame_stream, "report", fail)
        assert stream(*options).code == 3
    first = batches()
    assert list(map(len, first)) == [90, 90]
    done = stream(*options)
    assert done.code == 0, done
    found = batches()
    assert found[0] == first[0]
    assert sorted(found[1]) == sorted(first[1])
    assert in_any_order(found) == list(range(300))
    assert max(map(len, found)) <= 92
    assert "batch 1: 81 accepted, 9 refused" in done.err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("every", "more"), [(("--every", "24h"), 0), (("--every", "1s"), 40), ((), 40)]
)
def test_a_stream_looks_at_intervals_and_is_not_slowed_down_by_its_bound(
    stream, batches, monkeypatch, every, more
):
    """The next micro-batch starts immediately while there are more records."""
    monkeypatch.setattr(frame_stream, "BATCH_RECORDS", 90)
    stream.send(0, 300)
    seen, report_counts = [], frame_stream.report

    def report(number, counts):
        report_counts(number, counts)
        seen.append(sum(counts.values()))
        if sum(seen) == 300 and more:
            stream.send(300, 300 + more)
        elif sum(seen) == 300 + more:
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(frame_stream, "report", report)
    done = stream(*every)
    assert done.code == 0, done
    assert in_any_order(batches()) == list(range(300 + more))
    assert max(seen) <= 92


@pytest.mark.slow
def test_lag_and_counts_are_metrics_and_lines(stream, tmp_path):
    stream.send(0, 300)
    metrics = tmp_path / "penstock.prom"
    done = stream("--available-now", "--batch-records", "90", "--metrics-file", metrics)
    assert done.code == 0, done
    text, labels = metrics.read_text(), f'policy="",topic="{stream.source}"'
    assert f'penstock_records_total{{outcome="accepted",{labels}}} 270.0' in text
    assert f'penstock_records_total{{outcome="refused",{labels}}} 30.0' in text
    for partition in range(3):
        lag = f'penstock_stream_lag_records{{partition="{partition}",topic="{stream.source}"}}'
        assert f"{lag} 0.0" in text
    assert "penstock_stream_batches_total 4.0" in text
    assert ": 0 behind" in done.err.splitlines()[-1]


@pytest.mark.slow
def test_a_new_checkpoint_replaces_nothing_in_a_folder(stream, batches, tmp_path):
    stream.send(0, 30)
    assert stream("--available-now").code == 0
    stream.send(30, 40)
    (tmp_path / "checkpoint").rename(tmp_path / "lost")
    done = stream("--available-now", "--from", "latest")
    assert done.code == 2, done
    assert f"{tmp_path / 'good'} holds files already" in done.err
    assert in_any_order(batches()) == list(range(30))


@pytest.mark.slow
def test_an_older_checkpoint_replaces_nothing_in_a_folder(stream, batches, tmp_path):
    """Its micro-batches would have the numbers of others."""
    checkpoint, backup = tmp_path / "checkpoint", tmp_path / "backup"
    for first in (0, 30):
        stream.send(first, first + 30)
        assert stream("--available-now").code == 0
        if not first:
            shutil.copytree(checkpoint, backup)
    stream.send(60, 70)
    checkpoint.rename(tmp_path / "latest")
    backup.rename(checkpoint)
    done = stream("--available-now")
    assert done.code == 2, done
    assert f"{tmp_path / 'good'} has batch=1, and --checkpoint {checkpoint} has no" in done.err
    shutil.rmtree(checkpoint)
    (tmp_path / "latest").rename(checkpoint)
    assert stream("--available-now").code == 0
    assert in_any_order(batches()) == list(range(70))


@pytest.mark.slow
def test_a_folder_of_another_stream_is_left_as_it_is(stream, batches, tmp_path):
    """Two streams that start before the first micro-batch both find empty folders."""
    stream.send(0, 30)
    assert stream("--available-now").code == 0
    owner = tmp_path / "good" / "_penstock_stream"
    assert owner.read_text() == (tmp_path / "dead" / owner.name).read_text()
    owner.write_text("another")
    (tmp_path / "good" / f".{owner.name}.crc").unlink()
    stream.send(30, 60)
    done = stream("--available-now")
    assert done.code == 3, done
    assert f"path:{tmp_path / 'good'} belongs to another stream" in done.err
    plan, _ = without_waiting(done.err).splitlines()
    assert plan.startswith("plan ")
    assert in_any_order(batches()) == list(range(30))


SLOW = """
import time
from penstock.policy import *

class NoBad(RecordValidationPolicy):
    def validate(self, topic, record):
        time.sleep(0.002)
"""


@pytest.mark.slow
@pytest.mark.parametrize("end", [subprocess.Popen.terminate, lambda it: os.killpg(it.pid, signal.SIGTERM)],
                         ids=["SIGTERM", "SIGTERM to all its processes"])  # fmt: skip
def test_a_micro_batch_that_a_signal_interrupts_is_no_error(
    configured, topic, produce, tmp_path, end
):
    """Spark would show a thousand lines, of a stack overflow, about the job that was cancelled."""
    source, file = topic("in"), configured(policies=SLOW)
    produce(source, [{"value": b"good %d" % number} for number in range(10_000)])
    command = [sys.executable, "-m", "penstock", "split", str(file), "--topic", source,
               "--accepted", f"path:{tmp_path / 'good'}", "--rejected", f"path:{tmp_path / 'dead'}",
               "--streaming", "--checkpoint", str(tmp_path / "checkpoint"), "--batch-records",
               "1000", "--master", "local[1]"]  # fmt: skip
    running = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        assert any(line.startswith("batch 0") for line in running.stderr)
        time.sleep(1)
        end(running)
        output = running.communicate(timeout=120)[1]
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(running.pid, signal.SIGKILL)
        running.wait()
    assert running.returncode == 0, output
    assert "ending" in output
    assert "Exception" not in output, output[:2000]


NO_TOPICS = [
    (("--again",), "--again"),
    (("--job", "x"), "--job"),
    (("--job", "x", "--streaming", "--checkpoint", "c"), "--job"),
    (("--again", "--streaming", "--available-now", "--checkpoint", "c"), "--again"),
]


@pytest.mark.cases(2)
@pytest.mark.parametrize("target", ["path:good", "table:good"])
@pytest.mark.parametrize(("options", "named"), NO_TOPICS)
def test_options_for_topics_are_not_ignored(command, configured, topic, target, options, named):
    done = command("split", configured(), "--topic", topic("in"), "--accepted", target,
                   "--rejected", topic("dead"), *options)  # fmt: skip
    assert done.code == 2, done
    assert f"{named} needs topics as source and targets" in done.err


@pytest.mark.parametrize("named", ["--again", "--job=x"])
def test_redact_does_not_ignore_them_either(command, configured, topic, tmp_path, named):
    file = configured({**NO_BAD, "produce.request.interceptors": "policies.Repair"})
    for arguments in (
        ("--topic", topic("in"), "--to", f"path:{tmp_path / 'folder'}"),
        ("--input", tmp_path / "archive", "--to", topic("out")),
    ):
        done = command("redact", file, *arguments, named)
        assert done.code == 2, done
        assert f"{named[:5]}" in done.err
        assert "needs topics as source and targets" in done.err


@pytest.mark.slow
def test_a_stream_from_latest_begins_at_the_end_at_its_first_start(stream, batches):
    """A stream without records has no micro-batch, and nothing in Spark's checkpoint."""
    stream.send(0, 30)
    options = ("--available-now", "--from", "latest")
    assert stream(*options).code == 0
    stream.send(30, 60)
    assert stream(*options).code == 0
    assert in_any_order(batches()) == list(range(30, 60))


@pytest.mark.slow
def test_a_checkpoint_whose_name_is_a_pattern(command, configured, topic, produce, tmp_path):
    source, file = topic("in"), configured()
    arguments = ("split", file, "--topic", source, "--accepted", f"path:{tmp_path / 'good'}",
                 "--rejected", f"path:{tmp_path / 'dead'}", "--streaming", "--available-now",
                 "--checkpoint", tmp_path / "check[1]{a}*")  # fmt: skip
    produce(source, [{"value": b"good"}])
    done = command(*arguments)
    assert done.code == 0, done
    done = command(*arguments)
    assert done.code == 0, done


@pytest.mark.cases(1)
@pytest.mark.parametrize("offset", ["5", '{"logOffset":3}', "-", ""])
def test_a_checkpoint_of_another_source(stream, tmp_path, offset):
    offsets = tmp_path / "checkpoint" / "offsets"
    offsets.mkdir(parents=True)
    (offsets / "0").write_text(f'v1\n{{"batchWatermarkMs":0}}\n{offset}' if offset else "")
    done = stream("--available-now")
    assert done.code == 2, done
    assert f"{tmp_path / 'checkpoint'} is not that of a stream of topics, or damaged" in done.err


@pytest.mark.slow
def test_retention_between_micro_batches(stream, batches, admin, tmp_path, monkeypatch):
    """The checkpoint has the offsets: with another --from alone, the stream would not continue."""
    stream.send(0, 300)
    report_counts, options = frame_stream.report, ("--available-now", "--batch-records", "90")

    def report(number, counts):
        report_counts(number, counts)
        places = [TopicPartition(stream.source, partition, 90) for partition in range(3)]
        for done in admin.delete_records(places).values():
            done.result()

    with monkeypatch.context() as patched:
        patched.setattr(frame_stream, "report", report)
        done = stream(*options)
    assert done.code == 3, done
    assert "and a stream with a new --checkpoint (and new folders)" in done.err
    assert stream(*options, "--from", "0:95,1:95,2:95").code == 3
    assert len(in_any_order(batches())) == 90
    for folder in ("good", "dead", "checkpoint"):
        (tmp_path / folder).rename(tmp_path / f"former-{folder}")
    assert stream(*options).code == 0
    assert in_any_order(batches()) == list(range(270, 300))


@pytest.mark.slow
def test_a_repeated_first_micro_batch_begins_where_it_did(stream, batches, admin, monkeypatch):
    """Not at `--from` again: records that were removed since would be left out silently."""
    stream.send(0, 30)

    def interrupt(*_):
        raise OSError("interrupted")

    with monkeypatch.context() as patched:
        patched.setattr(frame_stream, "report", interrupt)
        assert stream("--available-now").code == 3
    assert stream("--available-now", "--from", "0:9,1:9,2:9").code == 0
    assert in_any_order(batches()) == list(range(30))


@pytest.mark.slow
def test_a_deleted_topic_does_not_end_the_stream_of_the_others(
    command, configured, topic, produce, admin, batches, tmp_path
):
    """Also not where a micro-batch with its records was planned, and not done."""
    kept = topic("glob", 1)
    deleted, file, checkpoint = topic(kept, 1), configured(), tmp_path / "checkpoint"

    def stream(topics):
        return command("split", file, "--topic", topics, "--accepted", f"path:{tmp_path / 'good'}",
                       "--rejected", f"path:{tmp_path / 'dead'}", "--streaming", "--available-now",
                       "--checkpoint", checkpoint)  # fmt: skip

    produce(kept, [{"value": b"good 1"}])
    produce(deleted, [{"value": b"good 2"}])
    assert stream(f"{kept}*").code == 0
    done = stream(kept)
    assert (done.code, f"leaves out topic {deleted}, which" in done.err) == (2, True), done
    for name in ("0", ".0.crc"):
        (checkpoint / "commits" / name).unlink()
    delete_topic(admin, deleted)
    produce(kept, [{"value": b"good 3"}])
    done = stream(f"{kept}*")
    message = f"topic {deleted} was deleted; the stream continues without it"
    assert (done.code, message in done.err) == (0, True), done
    assert in_any_order(batches()) == [1, 3]


class Ending:
    """Ends a stream after some looks."""

    def __init__(self, looks):
        self.looks = looks

    def is_set(self):
        return not self.looks

    def wait(self, _):
        self.looks -= 1


class Ended:
    """A query that has ended."""

    def awaitTermination(self, _):  # noqa: N802 - Spark's name
        return True


def test_a_stream_without_new_records_starts_no_query():
    started, ends = [], iter([1, 1, 1, 2, 2, 3])

    def start(available_now):
        started.append(available_now)
        return Ended()

    stream = frame_stream._PreparedStream(start, lambda: next(ends), stops_early=lambda: False)
    frame_stream._run_at_intervals(stream, 0.1, Ending(6), Event())
    assert started == [True] * 3


class Watch:
    """Notes what it is called with."""

    def __init__(self):
        self.seen = []

    def look(self, _):
        self.seen.append("look")

    def looked(self, answers):
        self.seen.append(answers)

    def finish(self, _, is_ending):
        self.seen.append(("finish", is_ending()))

    def end(self, _):
        self.seen.append("end")


def test_lag_and_the_time_of_a_look_are_published_between_queries():
    watch, ends = Watch(), iter([((), {"p": 1}), ((), {"p": 1}), ((), {"p": 2})])
    stream = frame_stream._PreparedStream(
        lambda _: Ended(), lambda: next(ends), stops_early=lambda: False, watch=watch
    )
    frame_stream._run_at_intervals(stream, 0.1, Ending(3), Event())
    query = [("finish", False), "end"]
    assert watch.seen == [{"p": 1}, *query, {"p": 1}, {"p": 2}, *query]


@pytest.mark.timeout(60)
def test_a_silent_cluster_does_not_delay_a_signal():
    requested, answer, ending = Event(), Event(), Event()

    def ends():
        requested.set()
        ending.set()
        answer.wait()

    stream = frame_stream._PreparedStream(None, ends, stops_early=lambda: False, watch=Watch())
    frame_stream._run_at_intervals(stream, 0.1, ending, Event())
    assert requested.is_set()
    assert stream.watch.seen == []
    answer.set()


def test_a_query_that_fails_publishes_its_last_figures():
    class Failed:
        def awaitTermination(self, _):  # noqa: N802 - Spark's name
            raise OSError("failed")

    watch = Watch()
    with pytest.raises(OSError, match="failed"):
        frame_stream._wait(Failed(), Ending(1), Event(), watch)
    assert watch.seen == ["end"]


class Late:
    """A query whose process of Python starts too late."""

    text = "org.apache.spark.SparkException: Python worker failed to connect back."

    def awaitTermination(self, _):  # noqa: N802 - Spark's name
        raise StreamingQueryException(self.text)


class Wrong(Late):
    """A query that fails otherwise."""

    text = "org.apache.spark.SparkException: another"


@pytest.mark.parametrize(
    ("queries", "warnings", "fails"),
    [
        ([Late, Late, Late, Ended], 3, False),
        ([Late, Late, Late, Late], 3, True),
        ([Wrong], 0, True),
        ([Late, Wrong], 1, True),
    ],
)
def test_a_query_whose_process_starts_too_late_is_started_again(capsys, queries, warnings, fails):
    started, left = [], iter(queries)

    def start(available_now):
        started.append(available_now)
        return next(left)()

    stream = frame_stream._PreparedStream(start, None, stops_early=lambda: False, watch=Watch())
    with pytest.raises(StreamingQueryException) if fails else contextlib.nullcontext():
        frame_stream._run_to_end(stream, Ending(9), Event())
    assert started == [True] * len(queries)
    assert capsys.readouterr().err.count("; the stream starts again\n") == warnings


def test_a_query_that_fails_after_a_request_to_end_has_ended():
    """The signal has ended its workers, too."""
    started = []

    def start(available_now):
        started.append(available_now)
        return Wrong()

    stream = frame_stream._PreparedStream(start, None, stops_early=lambda: False)
    frame_stream._run_query(stream, False, Ending(0), Event())
    assert started == [False]


def test_a_query_that_is_stopped_is_not_looked_at():
    class Running:
        stopped = False

        def awaitTermination(self, _):  # noqa: N802 - Spark's name
            return False

        def stop(self):
            self.stopped = True

    query, watch, stopping = Running(), Watch(), Event()
    frame_stream._wait(query, Ending(0), stopping, watch)
    assert (query.stopped, stopping.is_set(), watch.seen) == (True, True, ["end"])
