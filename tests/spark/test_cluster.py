"""A real cluster: a master and two workers, processes of their own, from the wheel."""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyspark
import pytest

from penstock.local import free_ports
from tests.gateways import wait_until
from tests.java import QUICK
from tests.spark.conftest import NO_BAD

SPARK = Path(pyspark.__file__).parent
COUNT = 60_000
QUICK_JVM = " ".join(QUICK)
# In a zip of its own, not beside the file: it has to reach the executors by itself.
SHIPPED = """
import time
from penstock.policy import *
class NoBad(RecordValidationPolicy):
    def validate(self, topic, record):
        if record.value.endswith(b"00"): time.sleep(0.005)
        if record.value.startswith(b"bad"): raise InvalidRecordException("bad is not good")
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """Starts a master and two workers; gives the master's address and the workers' processes."""
    folder = tmp_path_factory.mktemp("cluster")
    environment = {
        **os.environ, "SPARK_HOME": str(SPARK), "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable, "SPARK_NO_DAEMONIZE": "1",
        "SPARK_DAEMON_JAVA_OPTS": QUICK_JVM,
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


@pytest.mark.spark_processes
@pytest.mark.timeout(300)
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
        out, err = process.communicate(timeout=200)
    assert process.returncode == 0, err
    assert killer.result()
    assert re.search(rf"{COUNT - COUNT // 20:,} accepted, {COUNT // 20:,} refused", out), out
    values = [stored_in(folder) for folder in folders]
    assert [len(v) for v in values] == [len(set(v)) for v in values]
    assert [len(v) for v in values] == [COUNT - COUNT // 20, COUNT // 20]
    assert all(value.startswith(b"bad") for value in values[1])
