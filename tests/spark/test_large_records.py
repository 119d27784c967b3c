"""Many large records: memory is bounded by bytes, and a JVM without memory reports that."""

import os
import re
import subprocess
import sys
import uuid

import pytest
from confluent_kafka import Producer
from py4j.protocol import Py4JError

from penstock.spark.execution.failures import jvm_end, lost_its_jvm, reason_of
from tests.conftest import create_topic
from tests.limits import HANGS_S


@pytest.fixture(scope="module")
def large_records(kafka, admin):
    """A topic with 1,300 records of 1 MB, which are not compressible."""
    name = f"large-{uuid.uuid4().hex[:6]}"
    create_topic(admin, name, 2, {"max.message.bytes": "2000000"})
    producer = Producer(
        {"bootstrap.servers": kafka.bootstrap_servers, "message.max.bytes": 2_000_000}
    )
    value = os.urandom(1_000_000)
    for number in range(1300):
        producer.produce(name, value, partition=number % 2)
        producer.poll(0)
        if number % 50 == 0:
            assert producer.flush(30) == 0
    assert producer.flush(30) == 0
    yield name
    for deleted in admin.delete_topics([name]).values():
        deleted.result(30)


def run(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "penstock", *map(str, arguments), "--master", "local[2]"],
        capture_output=True, text=True, check=False, timeout=HANGS_S,
    )  # fmt: skip


@pytest.mark.spark_processes
def test_they_fit_into_the_default_memory(configured, large_records, tmp_path):
    file = configured()
    done = run("audit", file, "--topic", large_records)
    assert "1,300 accepted" in done.stdout, done
    done = run("split", file, "--topic", large_records, "--accepted", f"path:{tmp_path / 'a'}",
               "--rejected", f"path:{tmp_path / 'd'}")  # fmt: skip
    assert "1,300 accepted" in done.stdout, done


@pytest.mark.spark_processes
def test_the_error_of_a_jvm_without_memory_names_the_key(configured, large_records, tmp_path):
    done = run("split", configured(), "--topic", large_records, "--accepted",
               f"path:{tmp_path / 'a'}", "--rejected", f"path:{tmp_path / 'd'}", "--conf", "spark.driver.memory=512m",
               "--conf", "spark.sql.execution.arrow.maxBytesPerBatch=1g")  # fmt: skip
    assert done.returncode == 3, done
    assert re.search(
        r"too little memory[;,] give it more with --conf spark\.driver\.memory", done.stderr
    )
    assert "Traceback" not in done.stderr
    assert done.stderr.splitlines()[-1].startswith("penstock split: Spark's JVM"), done.stderr


def test_ends_of_a_jvm():
    assert "too little memory" in jvm_end(52)
    assert "was killed, as a system does" in jvm_end(-9)
    assert jvm_end(134) == "Spark's JVM ended with exit code 134"
    text, code = reason_of(Py4JError("An error occurred while calling o1.collect"))
    assert code == 3
    assert text.startswith("Spark's JVM does not answer any more; if it had too little memory, ")
    assert "--conf spark.driver.memory=4g" in text
    assert not lost_its_jvm(Py4JError("An error occurred while calling o1.x. Trace:\npy4j..."))
    assert lost_its_jvm(ConnectionRefusedError())
    assert lost_its_jvm(Py4JError("An error occurred while calling o1.collect"))
    assert not lost_its_jvm(ValueError())


@pytest.mark.parametrize(
    "message",
    [
        "java.lang.OutOfMemoryError: Java heap space",
        "ExecutorLostFailure (executor 1 exited caused by a task) Reason: Command exited with code 52",
        "Reason: Container from a bad node: x. Exit status: 137",
        "The executor with id 1 exited with exit code 137(SIGKILL, possible container OOM).",
    ],
)
def test_executors_that_end_for_memory(message):
    from pyspark.errors import PySparkException

    text, code = reason_of(PySparkException(message=f"Job aborted: {message}"))
    assert code == 3
    assert "had too little memory; give it more" in text
    assert "spark.executor.memoryOverhead" in text
