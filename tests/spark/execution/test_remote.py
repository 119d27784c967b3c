"""The commands and functions against a server of Spark Connect: no SparkContext, no py4j."""

import os
import subprocess
import sys

import pytest

from penstock.configuration import ConfigurationError
from penstock.kafka.local import free_ports
from penstock.spark.execution.remote import check_remote
from tests.limits import HANGS_S
from tests.spark.conftest import NO_BAD
from tests.spark.connect_server import connect_server
from tests.spark.installed import SPARK

ENVIRONMENT = {
    **os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1",
}  # fmt: skip
FUNCTIONS = """
import sys
from pyspark.sql import SparkSession
from penstock.spark import audit, load_plan, register, split

spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
file, source, clean, dead, out = sys.argv[2:]
plan = load_plan(file)
print("audit", audit(source, plan, spark=spark).refused)
done = split(source, plan, accepted=clean, rejected=dead, spark=spark)
print("split", done.accepted, done.refused)
register(spark)
frame = spark.read.format("penstock").option("plan", file).option("subscribe", clean).load()
print("frame", audit(frame, plan).accepted)
frame.write.format("penstock").mode("append").option("plan", file).option("topic", out).save()
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """Starts a server of Spark Connect; returns its address."""
    with connect_server(SPARK, tmp_path_factory.mktemp("connect"), ENVIRONMENT) as address:
        yield address


def penstock(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "penstock", *map(str, arguments)],
        env=ENVIRONMENT, capture_output=True, text=True, timeout=HANGS_S, check=False,
    )  # fmt: skip


@pytest.mark.spark_processes
def test_the_commands_work_with_a_server(server, configured, produce, topic, stored, tmp_path):
    source, clean, dead, out = topic("in", 2), topic("clean"), topic("dead"), topic("out")
    produce(source, [{"value": b"bad%d" % n if n < 3 else b"good"} for n in range(10)])
    file = configured()
    remote = ("--remote", server)
    done = penstock("audit", file, "--topic", source, *remote, "--report", tmp_path)
    assert (done.returncode, "7 accepted, 3 refused" in done.stdout) == (0, True), done.stderr
    done = penstock(
        "split", file, "--topic", source, *remote, "--accepted", clean, "--rejected", dead
    )
    assert (done.returncode, "7 accepted, 3 refused" in done.stdout) == (0, True), done.stderr
    repairing = configured({**NO_BAD, "produce.request.interceptors": "policies.Repair"})
    done = penstock("redrive", repairing, "--from", dead, "--to", clean, "--topic", source, *remote)
    assert (done.returncode, "3 returned" in done.stdout) == (0, True), done.stderr
    done = penstock("redact", repairing, "--topic", source, "--to", out, *remote)
    assert (done.returncode, "10 accepted" in done.stdout) == (0, True), done.stderr
    assert len(stored(clean, isolation="read_committed")) == 10
    done = penstock("split", file, "--topic", source, *remote, "--job", "s", "--streaming",
                    "--available-now", "--accepted", clean, "--rejected", dead)  # fmt: skip
    assert done.returncode == 0, done.stderr
    done = penstock("split", file, "--topic", source, *remote, "--accepted",
                    f"path:{tmp_path}/a", "--rejected", f"path:{tmp_path}/d")  # fmt: skip
    assert (done.returncode, "--remote: with topics only" in done.stderr) == (2, True), done.stderr


@pytest.mark.spark_processes
def test_the_functions_and_the_sink_work_with_a_server(server, configured, produce, topic, stored):
    source, clean, dead, out = topic("in", 2), topic("clean"), topic("dead"), topic("out")
    produce(source, [{"value": b"bad%d" % n if n < 3 else b"good"} for n in range(10)])
    arguments = [server, str(configured()), source, clean, dead, out]
    done = subprocess.run(
        [sys.executable, "-c", FUNCTIONS, *arguments],
        env=ENVIRONMENT, capture_output=True, text=True, timeout=HANGS_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.splitlines() == ["audit 3", "split 7 3", "frame 7"]
    assert [record[2] for record in stored(out, isolation="read_committed")] == [b"good"] * 7


@pytest.mark.spark_processes
def test_a_missing_server_is_reported(configured, topic):
    port = free_ports(1)[0]
    done = penstock(
        "audit", configured(), "--topic", topic("in"), "--remote", f"sc://127.0.0.1:{port}"
    )
    assert done.returncode == 3
    assert "no server of Spark Connect answers" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_address_is_checked():
    assert check_remote("sc://spark:15002", None) == "sc://spark:15002"
    with pytest.raises(ConfigurationError, match="must be sc://HOST:PORT"):
        check_remote("spark:15002", None)
    with pytest.raises(ConfigurationError, match="name one of them"):
        check_remote("sc://spark:15002", "local[2]")
