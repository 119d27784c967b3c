"""Tasks that Spark tries again, because a policy could not decide at their first attempt."""

import json
import os
import subprocess
import sys

import pyarrow.parquet
import pytest

from tests.integration.reading import read_topic, values_of
from tests.limits import HANGS_S
from tests.policies.schema_policy.fake_registry import FakeRegistry
from tests.spark.registered import contents, register, settings

# The first attempt of each task uses a registry that always answers 503.
POLICIES = """
from pyspark import TaskContext
from penstock.policies import SchemaPolicy

class AwayAtFirst(SchemaPolicy):
    def configure(self, configs):
        task = TaskContext.get()
        away = task is not None and task.attemptNumber() == 0
        url = "AWAY" if away else "THERE"
        super().configure({**configs, "schema.registry.url": url})
"""
# One session for all jobs; an attempt fails at once, so that there have to be more of them.
SCRIPT = """
import json, sys
import penstock.spark.session as sessions
from penstock import cli
from penstock.jobs import policy_retries

policy_retries.FOR_S = 0.0
spark = sessions.start_session("repeated", "local[2,2]", {"spark.sql.shuffle.partitions": "2"})
sessions.start_session, stop_session = lambda *_, **__: spark, sessions.stop_session
sessions.stop_session = lambda _: None
for arguments in json.loads(sys.argv[1]):
    print("exit code", cli.main(arguments), flush=True)
stop_session(spark)
"""


@pytest.fixture
def away():
    with FakeRegistry() as running:
        running.status = 503
        yield running


def in_folder(folder):
    """Return the values in a folder's Parquet files."""
    return pyarrow.parquet.read_table(folder, columns=["value"])["value"].to_pylist()


@pytest.mark.spark_processes
def test_a_task_is_tried_again_and_nothing_is_counted_or_written_twice(
    configured, produce, topic, kafka, away, tmp_path
):
    jobs = []
    with FakeRegistry() as there:
        code = POLICIES.replace("AWAY", away.url).replace("THERE", there.url)
        source = topic("in", 2)
        sent = contents(register(there, source))
        produce(source, [
            {"key": b"%d" % partition, "value": value, "partition": partition}
            for partition in range(2) for value in sent
        ])  # fmt: skip
        jobs.append(["audit", str(configured(settings("AwayAtFirst"), code)), "--topic", source])
        # A file for each job: a worker keeps the policies of a file, with their registry.
        good, dead = topic("clean", 2), topic("dead", 2)
        jobs.append(["split", str(configured(settings("AwayAtFirst"), code)), "--topic", source,
                     "--accepted", good, "--rejected", dead])  # fmt: skip
        jobs.append(["split", str(configured(settings("AwayAtFirst"), code)), "--topic", source,
                     "--accepted", f"path:{tmp_path / 'a'}", "--rejected", f"path:{tmp_path / 'd'}"])  # fmt: skip
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT, json.dumps(jobs)],
            env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"},
            capture_output=True, text=True, timeout=HANGS_S, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done
    assert done.stdout.count("exit code 0") == len(jobs), done
    assert done.stdout.count("6 accepted, 2 refused") == len(jobs), done
    # Each job has used it, at each of its two tasks or at a task that both partitions share.
    assert len(away.requests) >= len(jobs)
    accepted = sorted(map(str, [value for value in sent if value != sent[1]] * 2))
    found = read_topic(kafka.bootstrap_servers, good, isolation="read_committed")
    assert sorted(map(str, values_of(found))) == accepted
    assert sorted(map(str, in_folder(tmp_path / "a"))) == accepted
    found = read_topic(kafka.bootstrap_servers, dead, isolation="read_committed")
    assert values_of(found) == in_folder(tmp_path / "d") == [sent[1]] * 2
