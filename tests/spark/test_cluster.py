"""A real cluster: a master and two workers, as separate processes, from the wheel."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
import zipfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.integration.reading import read_topic
from tests.java import QUICK
from tests.limits import HANGS_S
from tests.spark.conftest import NO_BAD
from tests.spark.installed import SPARK

pytestmark = pytest.mark.spark_processes
COUNT = 60_000
QUICK_JVM = " ".join(QUICK)
# In a separate zip, not next to the file: it has to reach the executors by itself.
SHIPPED = """
import time
from penstock.policy import *
class NoBad(RecordValidationPolicy):
    def validate(self, topic, record):
        if record.value.endswith(b"00"): time.sleep(0.005)
        if record.value.startswith(b"bad"): raise InvalidRecordException("bad is not good")
"""


def executors(folder: Path) -> list[int]:
    """Return the process ids of the executors of the workers in a folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            is_executor = "CoarseGrainedExecutorBackend" in (process / "cmdline").read_text()
            if is_executor and (process / "cwd").resolve().is_relative_to(folder):
                found.append(int(process.name))
    return found


def kill_an_executor(workers: Path, written: Path, process: subprocess.Popen) -> int | None:
    """Kill one once files are being written, and before all are; return its process id."""
    while process.poll() is None:
        if list(written.rglob("*.parquet")) and (found := executors(workers)):
            os.kill(found[0], signal.SIGKILL)
            return found[0]
        time.sleep(0.01)
    return None


def stored_in(folder: Path) -> list[bytes]:
    import pyarrow.dataset

    table = pyarrow.dataset.dataset(str(folder), format="parquet").to_table(["value"])
    return [value.as_py() for value in table["value"]]


def test_an_executor_that_dies_in_the_middle_of_a_split_changes_nothing(
    cluster, configured, produce, topic, tmp_path
):
    master, workers = cluster
    source = topic("in", 6)
    produce(source, [
        {"value": b"%s-%06d" % (b"bad" if i % 20 == 0 else b"good", i), "partition": i % 6}
        for i in range(COUNT)
    ])  # fmt: skip
    with zipfile.ZipFile(tmp_path / "shipped.zip", "w") as archive:
        archive.writestr("shipped.py", SHIPPED)
    file = configured({**NO_BAD, "record.validation.policy.class.name": "shipped.NoBad"}, "")
    folders = tmp_path / "accepted", tmp_path / "rejected"
    process = subprocess.Popen(
        [sys.executable, "-m", "penstock", "split", str(file), "--topic", source,
         "--accepted", f"path:{folders[0]}", "--rejected", f"path:{folders[1]}",
         "--master", master, "--conf", "spark.executor.memory=1g",
         "--conf", f"spark.submit.pyFiles={tmp_path / 'shipped.zip'}",
         "--conf", "spark.driver.host=127.0.0.1",
         "--conf", f"spark.executor.extraJavaOptions={QUICK_JVM}"],
        env={**os.environ, "PYTHONPATH": str(tmp_path / "shipped.zip"),
             "SPARK_LOCAL_IP": "127.0.0.1"},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    with ThreadPoolExecutor() as threads:
        killer = threads.submit(kill_an_executor, workers, tmp_path, process)
        out, err = process.communicate(timeout=HANGS_S)
    assert process.returncode == 0, err
    assert killer.result()
    assert re.search(rf"{COUNT - COUNT // 20:,} accepted, {COUNT // 20:,} refused", out), out
    values = [stored_in(folder) for folder in folders]
    assert [len(v) for v in values] == [len(set(v)) for v in values]
    assert [len(v) for v in values] == [COUNT - COUNT // 20, COUNT // 20]
    assert all(value.startswith(b"bad") for value in values[1])


SPECULATION = {
    "spark.speculation": "true", "spark.speculation.interval": "100ms",
    "spark.speculation.multiplier": "1.01", "spark.speculation.quantile": "0.1",
    "spark.speculation.minTaskRuntime": "200ms",
}  # fmt: skip


def test_an_executor_that_dies_while_topics_are_written_changes_nothing(
    cluster, configured, produce, topic, kafka, tmp_path
):
    """Attempts of a task, in sequence and at once: each record is written once."""
    master, workers = cluster
    source, good, dead = topic("in", 6), topic("good", 6), topic("dead", 6)
    sent = [
        {"value": b"%s-%06d" % (b"bad" if i % 20 == 0 else b"good", i), "partition": i % 6}
        for i in range(COUNT)
    ]
    produce(source, sent)
    with zipfile.ZipFile(tmp_path / "shipped.zip", "w") as archive:
        archive.writestr("shipped.py", SHIPPED)
    file = configured({**NO_BAD, "record.validation.policy.class.name": "shipped.NoBad"}, "")
    conf = {
        "spark.executor.memory": "1g", "spark.driver.host": "127.0.0.1",
        "spark.submit.pyFiles": tmp_path / "shipped.zip",
        "spark.executor.extraJavaOptions": QUICK_JVM, **SPECULATION,
    }  # fmt: skip
    settings = [part for key, value in conf.items() for part in ("--conf", f"{key}={value}")]
    process = subprocess.Popen(
        [sys.executable, "-m", "penstock", "split", str(file), "--topic", source, "--accepted",
         good, "--rejected", dead, "--master", master, *settings],
        env={**os.environ, "PYTHONPATH": f"{tmp_path / 'shipped.zip'}:{os.environ['PYTHONPATH']}"
             if os.environ.get("PYTHONPATH") else str(tmp_path / "shipped.zip"),
             "SPARK_LOCAL_IP": "127.0.0.1"},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    killed = 0
    while process.poll() is None and not killed:
        if read_topic(kafka.bootstrap_servers, good, isolation="read_committed") and (
            found := executors(workers)
        ):
            os.kill(killed := found[0], signal.SIGKILL)
        time.sleep(0.1)
    out, err = process.communicate(timeout=HANGS_S)
    assert process.returncode == 0, err
    assert killed
    assert re.search(rf"{COUNT - COUNT // 20:,} accepted, {COUNT // 20:,} refused", out), out
    written = Counter(
        value
        for name in (good, dead)
        for _, _, value, _ in read_topic(kafka.bootstrap_servers, name, isolation="read_committed")
    )
    assert written == Counter(item["value"] for item in sent)


def submit(master, tmp_path, *arguments, **conf):
    settings = [part for key, value in conf.items() for part in ("--conf", f"{key}={value}")]
    return subprocess.Popen(
        [str(SPARK / "bin" / "spark-submit"), "--master", master,
         "--py-files", str(tmp_path / "shipped.zip"),
         "--conf", "spark.driver.host=127.0.0.1", "--conf", "spark.executor.memory=1g",
         "--conf", f"spark.executor.extraJavaOptions={QUICK_JVM}", *settings,
         str(Path(__file__).parents[2] / "examples" / "spark_submit.py"), *map(str, arguments)],
        env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def test_spark_submit_with_speculation_and_an_executor_that_dies(
    cluster, configured, produce, topic, tmp_path
):
    """Tasks run twice, by speculation and after the kill: each record is counted and written once."""
    master, workers = cluster
    source = topic("in", 6)
    produce(source, [
        {"value": b"%s-%06d" % (b"bad" if i % 20 == 0 else b"good", i), "partition": i % 6}
        for i in range(COUNT)
    ])  # fmt: skip
    with zipfile.ZipFile(tmp_path / "shipped.zip", "w") as archive:
        archive.writestr("shipped.py", SHIPPED)
    file = configured({**NO_BAD, "record.validation.policy.class.name": "shipped.NoBad"}, "")
    folders = tmp_path / "accepted", tmp_path / "rejected"
    process = submit(
        master, tmp_path, "split", file, "--topic", source,
        "--accepted", f"path:{folders[0]}", "--rejected", f"path:{folders[1]}",
        **{"spark.speculation": "true", "spark.speculation.multiplier": "1.1",
           "spark.speculation.quantile": "0.1", "spark.speculation.interval": "50ms",
           "spark.speculation.minTaskRuntime": "100ms"},
    )  # fmt: skip
    with ThreadPoolExecutor() as threads:
        killer = threads.submit(kill_an_executor, workers, tmp_path, process)
        out, err = process.communicate(timeout=HANGS_S)
    assert process.returncode == 0, err[-3000:]
    assert killer.result()
    assert re.search(rf"{COUNT - COUNT // 20:,} accepted, {COUNT // 20:,} refused", out), out
    values = [stored_in(folder) for folder in folders]
    assert [len(v) for v in values] == [len(set(v)) for v in values]
    assert [len(v) for v in values] == [COUNT - COUNT // 20, COUNT // 20]


def test_cluster_mode_is_refused_by_spark_itself(cluster, tmp_path):
    """Of a standalone cluster, for Python; on YARN and Kubernetes it works."""
    process = submit(cluster[0], tmp_path, "--version", **{"spark.submit.deployMode": "cluster"})
    _, err = process.communicate(timeout=HANGS_S)
    assert process.returncode == 1
    assert "not supported for python applications on standalone clusters" in err
