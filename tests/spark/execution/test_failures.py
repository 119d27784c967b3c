"""Failures are reported in one line, with the right exit code, and leave nothing behind."""

import json
import os
import resource
import subprocess
import sys

import pytest
from confluent_kafka import TopicPartition
from pyspark.sql import functions as F

from penstock.kafka.cluster.offsets import Cluster
from penstock.spark.execution.failures import (
    reason_of,
)
from tests.limits import HANGS_S
from tests.spark.conftest import NO_BAD

pytestmark = pytest.mark.slow


def filled(produce, topic, *values):
    name = topic("in")
    produce(name, [{"value": value} for value in values])
    return name


def remove_after_look_up(monkeypatch, admin, name):
    """Remove the first five records of a topic once a command has looked its offsets up."""
    ranges = Cluster.ranges

    def then_delete(self, *given):
        found = ranges(self, *given)
        for future in admin.delete_records([TopicPartition(name, 0, 5)]).values():
            future.result(60)
        return found

    monkeypatch.setattr(Cluster, "ranges", then_delete)


def test_a_policy_that_raises_or_exits_fails_its_record_only(command, configured, produce, topic):
    name = filled(produce, topic, b"good", b"raise", b"sys.exit", b"good")
    done = command("audit", configured(), "--topic", name, "--fail-over", "0.4")
    assert done.code == 1
    assert "2 accepted, 0 refused, 0 dropped, 2 failed" in done.out
    assert "failed: ZeroDivisionError" in done.out


@pytest.mark.parametrize("does", [b"os._exit", b"hang"])
@pytest.mark.parametrize("job", ["split", "audit"])
def test_a_policy_that_takes_the_process_along_ends_the_job(
    spark, command, configured, produce, topic, tmp_path, job, does
):
    name = filled(produce, topic, b"good", does, b"good")
    key = "spark.sql.execution.pyspark.udf.idleTimeoutSeconds"
    before = spark.conf.get(key)
    spark.conf.set(key, "3")
    try:
        targets = ("--accepted", f"path:{tmp_path / 'a'}", "--rejected", f"path:{tmp_path / 'd'}")
        done = command(job, configured(), "--topic", name, *(targets if job == "split" else ()))
    finally:
        spark.conf.set(key, before)
    assert done.code == 3, done
    expected = "a policy hangs" if does == b"hang" else "a policy ended its process"
    assert expected in done.err, done.err
    lines = [
        line for line in done.err.splitlines() if not line.startswith(("judging", "splitting"))
    ]
    assert len(lines) == 1, done.err
    assert not list(tmp_path.glob("a*")) + list(tmp_path.glob("d*"))


def test_topics_that_are_not_there(command, configured):
    done = command("audit", configured(), "--topic", "nowhere")
    assert (done.code, "there is no topic nowhere" in done.err) == (2, True)


def test_a_cluster_that_is_not_there(command, configured):
    done = command("audit", configured(), "--topic", "t", "--bootstrap-server", "127.0.0.1:1")
    assert (done.code, "cannot be reached" in done.err) == (3, True), done


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        ((), 0, "warning: 5 offsets of 1 partitions were removed"),
        (("--strict",), 3, "5 offsets of 1 partitions were removed"),
    ],
)
def test_records_that_are_gone_meanwhile(
    command, configured, produce, topic, admin, monkeypatch, tmp_path, options, code, message
):
    """Offsets are looked up, then retention takes the records away."""
    name = filled(produce, topic, *[b"good"] * 10)
    remove_after_look_up(monkeypatch, admin, name)
    report = tmp_path / "report"
    done = command("audit", configured(), "--topic", name, "--report", report, *options)
    assert (done.code, message in done.err) == (code, True), done
    assert (report / "report.json").exists() == (code == 0)
    if not options:
        document = json.loads((report / "report.json").read_text())
        lost = {"topic": name, "partition": 0, "from": 0, "to": 5}
        assert (document["judged"], document["about"]["lost"]) == (5, [lost])


def test_a_topic_that_is_deleted_meanwhile(command, configured, produce, topic, admin, monkeypatch):
    from penstock.spark.execution import task_runner
    from tests.conftest import delete_topic

    name = filled(produce, topic, *[b"good"] * 10)
    run_tasks = task_runner.run_tasks

    def delete_first(*given, **options):
        delete_topic(admin, name)  # until the broker does not know it: else it would be read
        return run_tasks(*given, **options)

    monkeypatch.setattr(task_runner, "run_tasks", delete_first)
    file = configured({**NO_BAD, "upstream.default.api.timeout.ms": "3000"})
    done = command("audit", file, "--topic", name)
    assert (done.code, "UNKNOWN_TOPIC_OR_PARTITION" in done.err) == (3, True), done
    assert name in done.err


@pytest.mark.parametrize(
    ("make", "code", "message"),
    [
        (lambda folder, rows: "none", 2, "no files with this name"),
        (lambda folder, rows: rows(b"x").drop("value", "offset"), 2, "no column value, offset"),
        (lambda folder, rows: rows(b"x").withColumn("key", F.col("topic")), 2, "column key is string"),
        (lambda folder, rows: "text.parquet", 2, "not Parquet"),
        (lambda folder, rows: "text.json", 2, "text.json, line 1: is not JSON"),
    ],
)  # fmt: skip
def test_files_that_are_not_records(command, configured, rows, tmp_path, make, code, message):
    made = make(tmp_path, rows)
    path = tmp_path / (made if isinstance(made, str) else "in")
    if not isinstance(made, str):
        made.write.parquet(str(path))
    elif made != "none":
        path.write_text("no JSON at all")
    done = command("audit", configured(), "--input", path)
    assert (done.code, message in done.err) == (code, True), done


def test_a_plan_that_does_not_load(command, configured, topic):
    file = configured({**NO_BAD, "record.validation.policy.class.name": "policies.Missing"})
    done = command("audit", file, "--topic", topic())
    assert (done.code, "has no class Missing" in done.err) == (2, True), done


def test_a_plan_that_loads_here_and_not_on_the_executors(command, configured, produce, topic):
    policies = """
import os
from penstock.policy import *
class NoBad(RecordValidationPolicy):
    def configure(self, configs):
        if "SPARK_REUSE_WORKER" in os.environ: raise OSError("no such registry")
    def validate(self, topic, record): pass
"""
    done = command("audit", configured(NO_BAD, policies), "--topic",
                   filled(produce, topic, b"x"))  # fmt: skip
    assert done.code == 3, done
    assert "cannot be loaded on the executors" in done.err
    assert "no such registry" in done.err


@pytest.mark.parametrize("accepted", ["a topic", "a folder"])
def test_a_dead_letter_that_is_too_large(command, configured, produce, topic, tmp_path, accepted):
    name = filled(produce, topic, b"bad" + b"x" * 900_000)
    good = topic() if accepted == "a topic" else f"path:{tmp_path / 'good'}"
    dead = topic("dead", **{"max.message.bytes": "10000"})
    done = command("split", configured(), "--topic", name, "--accepted", good, "--rejected", dead)
    assert done.code == 3, done
    assert "more than the target's max.message.bytes (10000)" in done.err


def test_records_that_are_gone_before_a_folder_is_written(
    command, configured, produce, topic, admin, monkeypatch, tmp_path
):
    name = filled(produce, topic, *[b"good"] * 10)
    remove_after_look_up(monkeypatch, admin, name)
    done = command("split", configured(), "--topic", name, "--accepted", f"path:{tmp_path / 'a'}",
                   "--rejected", f"path:{tmp_path / 'd'}")  # fmt: skip
    assert (done.code, "are no longer there (retention" in done.err) == (3, True), done
    assert "run again with a later --from" in done.err
    assert not list(tmp_path.glob("a*")) + list(tmp_path.glob("d*"))


@pytest.mark.spark_processes
def test_no_space_left(configured, produce, topic, tmp_path):
    """A limit on the size of files stands in for a full disk."""
    name = topic("in")
    produce(name, [{"value": os.urandom(500_000)} for _ in range(80)])
    done = subprocess.run(
        [sys.executable, "-m", "penstock", "split", str(configured()), "--topic", name,
         "--accepted", f"path:{tmp_path / 'a'}", "--rejected", f"path:{tmp_path / 'd'}",
         "--master", "local[2]"],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (20 * 2**20, 20 * 2**20)),
        capture_output=True, text=True, check=False, timeout=HANGS_S,
    )  # fmt: skip
    assert done.returncode == 3, done
    assert "no space left" in done.stderr, done.stderr
    assert not list(tmp_path.glob("a*")) + list(tmp_path.glob("d*"))


@pytest.mark.parametrize("to", ["topics", "folders"])
def test_nothing_to_do_is_no_failure(command, configured, topic, spark, tmp_path, to):
    name, good, dead = topic("in", 3), topic("good"), topic("dead")
    places = (
        (good, dead) if to == "topics" else (f"path:{tmp_path / 'a'}", f"path:{tmp_path / 'd'}")
    )
    done = command("split", configured(), "--topic", name, "--accepted", places[0],
                   "--rejected", places[1])  # fmt: skip
    assert done.code == 0, done
    assert "0 accepted, 0 refused" in done.out
    if to == "folders":
        assert spark.read.parquet(str(tmp_path / "d")).count() == 0
        done = command("audit", configured(), "--input", tmp_path / "a", "--fail-over", "0")
        assert (done.code, "0 records judged" in done.out) == (0, True)


@pytest.mark.parametrize(
    ("last", "message"),
    [
        ("struct.error: a secret", "Spark's job failed: "),
        ("  File x\npkg.StrangeError: a secret", "pkg.StrangeError in a Python worker"),
        ("ImportError: cannot import name 'a' from 'b'", "cannot import name 'a' from 'b'"),
    ],
)
def test_an_error_in_a_python_worker_is_named_without_its_text(last, message):
    from pyspark.errors import PythonException

    text = f"An exception was thrown from the Python worker:\nTraceback (most recent call last):\n{last}\n"
    reason, code = reason_of(PythonException(text))
    assert (code, message in reason, "secret" in reason) == (3, True, False), reason


def test_an_error_of_delta_is_shown_without_the_values_of_the_row():
    from pyspark.errors import PySparkException

    text = (
        "Job aborted.\nCaused by: org.apache.spark.sql.delta.schema.DeltaInvariantViolationException: "
        "[DELTA_VIOLATE_CONSTRAINT_WITH_VALUES] CHECK constraint no (offset < 0) violated by row "
        "with values:\n - offset : a secret\n"
    )
    reason, code = reason_of(PySparkException(text))
    assert reason.endswith("DELTA_VIOLATE_CONSTRAINT_WITH_VALUES")
    assert code == 3


@pytest.mark.parametrize(
    "text",
    [
        "Python worker failed to connect back.",
        "Timed out while waiting for the Python worker to connect back after 60 seconds",
    ],
)
def test_a_worker_that_spark_could_not_start_is_no_fault_of_a_policy(text):
    from pyspark.errors import PySparkException

    cause = "Caused by: java.net.SocketTimeoutException: Accept timed out"
    reason, code = reason_of(PySparkException(f"Job aborted.\n{text}\n{cause}\n"))
    assert "policy" not in reason
    assert "did not start in time" in reason
    assert code == 3


@pytest.mark.unit
@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        ("[UNABLE_TO_INFER_SCHEMA] Unable to infer schema for Parquet.", 2,
         "there are no Parquet files"),
        ("[FAILED_READ_FILE.CANNOT_READ_FILE_FOOTER] Encountered error", 2,
         "a file is not Parquet, or is damaged"),
        (("[CONVERSION_INVALID_INPUT] The value 'secret' (base64) cannot be converted to "
         '"BINARY" because it is malformed. SQLSTATE: 22018'), 3,
         ("a value does not fit the type that it is read as, or an expression of --column: "
         "CONVERSION_INVALID_INPUT")),
        ("Traceback\npenstock.jobs.files.json_lines.WrongLineError: s3a://b/x.json, line 7: is not JSON",
         2, "a line is not a record: s3a://b/x.json, line 7: is not JSON"),
        (("[PYTHON_STREAMING_DATA_SOURCE_RUNTIME_ERROR] Failed when Python streaming data source "
         "perform initialOffset:\nConfigurationError: there is no topic t"), 3,
         "topics cannot be read or written: there is no topic t"),
        ("Traceback\nConfigurationError: no such registry", 3,
         "the policies cannot be loaded on the executors: no such registry"),
        (("An error occurred while calling o9.append.\n: org.apache.iceberg.exceptions."
          "CommitFailedException: Base metadata location 's3://secret' is not same"), 3,
         "Iceberg failed: CommitFailedException"),
        (("org.apache.iceberg.exceptions.CommitStateUnknownException: Cannot determine whether the "
          "commit was successful or not"), 3,
         "records may be committed to an Iceberg table, or not; start again"),
        ("Traceback\npenstock.spark.execution.failures.SparkError: table:t: unset spark.wap.id", 3,
         "a table cannot be written: table:t: unset spark.wap.id"),
        (("An error occurred while calling o6.parquet.\n: org.apache.spark.SparkException: "
          "[INTERNAL_ERROR] Executed command failed.\n\tat org.apache.spark"), 3,
         ("Spark's job failed: org.apache.spark.SparkException: [INTERNAL_ERROR] Executed command "
          "failed.")),
        (("An error occurred while calling o6.parquet.\n: org.apache.spark.SparkException: "
          "Job 5 cancelled because SparkContext was shut down"), 3,
         "Spark's application was stopped while its job ran"),
    ],
)  # fmt: skip
def test_a_text_of_spark_has_one_meaning(text, code, message):
    from pyspark.errors import PySparkException

    assert reason_of(PySparkException(text)) == (message, code)
