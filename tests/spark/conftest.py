"""One Spark session for all tests, commands run in this process, topics filled with known records."""

import contextlib
import io
import os
import shutil
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Producer

from penstock import cli
from penstock.jobs.plan import load_plan
from penstock.kafka.local import free_ports
from tests.gateways import wait_until
from tests.java import QUICK

POLICIES = """
import os, sys, time
from pathlib import Path
from penstock.policy import *

class NoBad(RecordValidationPolicy):
    def validate(self, topic, record):
        if record.value is None: return
        if record.value.startswith(b"bad"):
            raise InvalidRecordException("bad is not good")
        if record.value.startswith(b"odd"):
            raise InvalidRecordException(record.value.decode())
        if record.value == b"raise": 1 / 0
        if record.value == b"sys.exit": sys.exit(3)
        if record.value == b"os._exit": os._exit(3)
        if record.value == b"hang": time.sleep(600)

class Repair(ProduceRequestInterceptor):
    def interceptor_topic_pattern(self): return ""
    def process_record(self, key, value, topic, partition, headers):
        if value == b"drop": raise ProduceRequestInterceptorSkipRecordException()
        if value == b"fail": raise ValueError("secret contents")
        if value and value.startswith(b"bad") and not value.endswith(b"7"):
            value = b"good" + value[3:]
        return ProduceRequestInterceptorResult(key, value)

class RepairAll(Repair):
    def process_record(self, key, value, topic, partition, headers):
        return ProduceRequestInterceptorResult(key, value.replace(b"bad", b"good"))
"""
NO_BAD = {
    "record.validation.policy.class.name": "policies.NoBad",
    "topics.*.record.validation.policy": "any",
}


class Done(NamedTuple):
    """What a command did."""

    code: int
    out: str
    err: str


BOTH = pytest.mark.parametrize("runner", ["spark", "local"])
"""Of tests of commands that run on Spark and without it."""
LOCAL = {"audit", "split", "redact", "redrive"}


@pytest.fixture
def runner() -> str:
    """The runners of the tasks of commands."""
    return "spark"


@pytest.fixture
def command(request, runner, monkeypatch) -> Callable[..., Done]:
    """Runs `penstock` in this process: on a session, or with `--local`."""
    if runner == "spark":
        spark = request.getfixturevalue("spark")
        monkeypatch.setattr("penstock.spark.session.start_session", lambda *_, **__: spark)
        monkeypatch.setattr("penstock.spark.session.stop_session", lambda _: None)

    def run(*arguments: object) -> Done:
        if runner == "local" and arguments[0] in LOCAL:
            arguments = (*arguments, "--local")
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                code = cli.main([str(argument) for argument in arguments])
            except SystemExit as error:
                code = int(error.code or 0)
        assert "Traceback" not in err.getvalue()
        return Done(code, out.getvalue(), err.getvalue())

    return run


@pytest.fixture
def configured(tmp_path, kafka) -> Callable[..., Path]:
    """Writes a configuration file."""

    def write(properties=NO_BAD, policies: str = POLICIES, name: str = "plan") -> Path:
        folder = tmp_path / f"{name}-{uuid.uuid4().hex[:6]}"
        folder.mkdir()
        # Each file has its own module, because this process keeps imported modules.
        module = f"policies_{uuid.uuid4().hex}"
        (folder / f"{module}.py").write_text(policies)
        lines = {"upstream.bootstrap.servers": kafka.bootstrap_servers, **properties}
        file = folder / "penstock.properties"
        file.write_text(
            "".join(f"{k}={v}\n".replace("policies.", f"{module}.") for k, v in lines.items())
        )
        return file

    return write


@pytest.fixture
def plan(configured) -> Callable[..., Any]:
    """Loads a plan."""
    return lambda *args, **options: load_plan(configured(*args), **options)


@pytest.fixture
def topic_plan(tmp_path) -> Callable[..., Any]:
    """Loads the plan of topic `t`, without a cluster; its policy `p` has these keys."""

    def load(**keys: str) -> Any:
        lines = {"policies": "p", "topics.t.penstock.policies": "p"}
        lines |= {f"policies.p.{key}": value for key, value in keys.items()}
        file = tmp_path / f"{uuid.uuid4().hex[:6]}.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
        return load_plan(file, topic="t")

    return load


@pytest.fixture
def produce(kafka) -> Callable[..., None]:
    """Produces past every policy, straight to the broker."""

    def send(topic: str, records: Sequence[dict], **settings: Any) -> None:
        producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, **settings})
        for record in records:
            producer.produce(topic, **record)
            producer.poll(0)
        assert producer.flush(30) == 0

    return send


ROW = ("topic string, partition int, offset bigint, timestamp timestamp, key binary, "
       "value binary, headers array<struct<key:string,value:binary>>")  # fmt: skip


@pytest.fixture
def rows(spark) -> Callable[..., Any]:
    """Makes a frame with Kafka's columns from values or mappings."""
    import datetime as dt

    def make(*records: Any, partitions: int = 1) -> Any:
        data = []
        for number, given in enumerate(records):
            record = given if isinstance(given, dict) else {"value": given}
            data.append((
                record.get("topic", "t"), record.get("partition", 0), number,
                dt.datetime.fromtimestamp(1_700_000_000 + number, dt.UTC),
                record.get("key"), record.get("value"), record.get("headers"),
            ))  # fmt: skip
        return spark.createDataFrame(data, ROW).coalesce(partitions)

    return make


@pytest.fixture
def elsewhere(spark, tmp_path) -> Callable[[Path], str]:
    """Returns the URL of a file of the test in a file system that is not this machine's."""
    host = uuid.uuid4().hex
    keys = spark.sparkContext._jsc.hadoopConfiguration()
    keys.set(f"fs.viewfs.mounttable.{host}.link./files", f"file://{tmp_path}")
    return lambda path: f"viewfs://{host}/files/{path.relative_to(tmp_path)}"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """Starts a master and two workers; returns the master's address and the workers' processes."""
    from tests.spark.installed import SPARK

    folder = tmp_path_factory.mktemp("cluster")
    environment = {
        **os.environ, "SPARK_HOME": str(SPARK), "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable, "SPARK_NO_DAEMONIZE": "1",
        "SPARK_DAEMON_JAVA_OPTS": " ".join(QUICK),
    }  # fmt: skip
    port = free_ports(2)[0]
    running = []

    def start(name, *arguments):
        with (folder / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                [str(SPARK / "bin" / "spark-class"), f"org.apache.spark.deploy.{arguments[0]}",
                 "--host", "127.0.0.1", "--webui-port", "0", *arguments[1:]],
                stdout=log, stderr=subprocess.STDOUT, env=environment, cwd=folder,
                start_new_session=True,
            )  # fmt: skip
        running.append(process)
        return folder / f"{name}.log"

    try:
        log = start("master", "master.Master", "--port", str(port))
        wait_until(lambda: "elected leader" in log.read_text(), 60, what="the master")
        for name in ("one", "two"):
            start(name, "worker.Worker", "--cores", "1", "--memory", "1500m", "--work-dir",
                  str(folder / name), f"spark://127.0.0.1:{port}")  # fmt: skip
        wait_until(lambda: log.read_text().count("Registering worker") == 2, 60, what="workers")
        yield f"spark://127.0.0.1:{port}", folder
    finally:
        for process in running:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        shutil.rmtree(folder, ignore_errors=True)
