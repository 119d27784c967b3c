"""Sessions of commands: a command that starts a JVM waits for its end."""

import os
import subprocess
import sys

import pytest

from penstock.spark import SETTINGS
from penstock.spark.session import _JvmProcess, _own_settings
from tests.integration.reading import read_topic
from tests.limits import HANGS_S
from tests.spark.session_script import SCRIPT

SPARKS_OWN = "avro,csv,json,kafka,orc,parquet,text"
"""Spark's default of `spark.sql.sources.useV1SourceList`."""


ENDING = """
import threading
from penstock.spark.execution.failures import lost_its_jvm
from penstock.spark.session import end_jvm, has_stopped, jvm_failure, start_session

session = start_session("test", "local[1]", {"spark.jars": ""})
assert not has_stopped(session)
exit = session._jvm.java.lang.Runtime.getRuntime().exit
timer = threading.Timer(3, exit, [52])
timer.start()
try:
    session.range(10**15).selectExpr("sum(hash(id))").collect()
except Exception as error:
    assert lost_its_jvm(error) or has_stopped(session), error
print(jvm_failure())
end_jvm()
"""


@pytest.mark.spark_processes
def test_a_session_whose_jvm_ends_has_stopped():
    """Its jobs fail before the JVM's end, by an error that does not name it."""
    done = subprocess.run(
        [sys.executable, "-c", ENDING], capture_output=True, text=True, timeout=HANGS_S, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "Spark's JVM had too little memory" in done.stdout


@pytest.mark.spark_processes
def test_a_stopped_session_leaves_no_jvm():
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=HANGS_S, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout == "ended\n"


@pytest.mark.system
def test_the_jvm_ignores_a_signal_to_all_processes_of_a_command():
    """The command ends its queries first, and then the JVM."""
    arguments = _JvmProcess(stdout=subprocess.PIPE, text=True)
    arguments["preexec_fn"] = lambda: os.write(1, b"prepared ")
    process = subprocess.Popen(["sh", "-c", "kill -TERM $$; echo continues"], **arguments)
    assert process.communicate()[0] == "prepared continues\n"


@pytest.mark.parametrize(("master", "is_set"), [("local[2]", True), ("spark://host:7077", False)])
def test_a_delta_table_on_this_machine_has_few_partitions_of_its_log(monkeypatch, master, is_set):
    for name in ("SPARK_LOCAL_IP", "SPARK_SUBMIT_OPTS"):  # which are changed
        monkeypatch.setenv(name, os.environ.get(name, ""))
    assert ("spark.databricks.delta.snapshotPartitions" in _own_settings(master)) is is_set


@pytest.mark.parametrize(("master", "is_set"), [("local[2]", True), ("spark://host:7077", False)])
def test_workers_on_the_terminal_of_a_command_have_the_quiet_daemon(monkeypatch, master, is_set):
    for name in ("SPARK_LOCAL_IP", "SPARK_SUBMIT_OPTS"):  # which are changed
        monkeypatch.setenv(name, os.environ.get(name, ""))
    assert ("spark.python.daemon.module" in _own_settings(master)) is is_set


def test_a_session_of_your_own_with_the_settings_writes_to_kafka_as_before(spark, topic, kafka):
    own, target = spark.newSession(), topic("t", 1)
    own.conf.set("spark.sql.sources.useV1SourceList", SPARKS_OWN)
    for key, value in SETTINGS.items():
        if own.conf.isModifiable(key):
            own.conf.set(key, value)
    writing = own.createDataFrame([(b"one",)], "value binary").write.format("kafka")
    servers = {"kafka.bootstrap.servers": kafka.bootstrap_servers}
    writing.options(**servers, topic=target).save()
    found = read_topic(kafka.bootstrap_servers, target)
    assert [value for _, _, value, _ in found] == [b"one"]


def test_a_lost_jvm_prints_no_traceback(spark, capfd):
    """The server for accumulators of PySpark reads from the JVM in a thread."""
    server = spark.sparkContext._accumulatorServer
    try:
        raise EOFError
    except EOFError:
        server.handle_error(None, ("127.0.0.1", 1))
    assert "Traceback" not in "".join(capfd.readouterr())
