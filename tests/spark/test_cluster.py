"""A real cluster: a master and two workers, processes of their own, from the wheel."""

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import zipfile
from pathlib import Path

import pyspark
import pytest

from penstock.local import free_ports
from tests.gateways import wait_until
from tests.spark.conftest import NO_BAD

SPARK = Path(pyspark.__file__).parent
COUNT = 60_000
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


def executors():
    """The process ids of executors on this machine that belong to our workers."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if "CoarseGrainedExecutorBackend" in path.read_text():
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found


@pytest.mark.timeout(300)
def test_an_executor_that_dies_in_the_middle_of_a_split_changes_nothing(
    cluster, configured, produce, topic, tmp_path
):
    master, _ = cluster
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
         "--conf", "spark.driver.host=127.0.0.1"],
        env={**os.environ, "PYTHONPATH": str(tmp_path / "shipped.zip"),
             "SPARK_LOCAL_IP": "127.0.0.1"},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    killed = []

    def kill_one():
        # Once files are being written, and before all are.
        deadline = time.monotonic() + 90
        while time.monotonic() < deadline and process.poll() is None:
            if list(tmp_path.rglob("*.parquet")) and (found := executors()):
                os.kill(found[0], signal.SIGKILL)
                killed.append(found[0])
                return
            time.sleep(0.01)

    killer = threading.Thread(target=kill_one)
    killer.start()
    out, err = process.communicate(timeout=200)
    killer.join()
    assert process.returncode == 0, err
    assert killed
    assert re.search(rf"{COUNT - COUNT // 20:,} accepted, {COUNT // 20:,} refused", out), out
    import pyarrow.dataset

    stored = [
        pyarrow.dataset.dataset(str(folder), format="parquet").to_table(["value"])["value"]
        for folder in folders
    ]
    values = [[value.as_py() for value in column] for column in stored]
    assert [len(v) for v in values] == [len(set(v)) for v in values]
    assert [len(v) for v in values] == [COUNT - COUNT // 20, COUNT // 20]
    assert all(value.startswith(b"bad") for value in values[1])
