"""Secrets of the cluster and of a schema registry are in nothing that Spark shows: its UI, its event log, its plans."""

import subprocess
import sys

import pytest
from confluent_kafka.admin import AdminClient

from tests.certificates import Files
from tests.conftest import create_topic
from tests.limits import HANGS_S
from tests.policies.schema_policy.fake_registry import FakeRegistry
from tests.secured import as_admin, produce, secure_kafka, upstream_as_admin

# Runs the commands on a session with a UI and an event log, and a job that connects from its
# tasks; then stores everything that the UI shows.
SCRIPT = """
import json, re, sys, urllib.request
from pathlib import Path
import pyarrow as pa
from pyspark.errors import PySparkException
import penstock.spark.session as sessions
from penstock import cli
from penstock.configuration import load_configuration
from penstock.spark import register
from penstock.spark.execution.failures import is_late_worker
from penstock.jobs.topics.access import ClusterAccess

master, (file, shown, events) = sys.argv[1], map(Path, sys.argv[2:])
configuration = load_configuration(file)
properties = configuration.upstream_properties
spark = sessions.start_session("secrets", master, {
    "spark.ui.enabled": "true", "spark.ui.port": "0", "spark.eventLog.enabled": "true",
    "spark.driver.host": "127.0.0.1", "spark.executor.memory": "1g",
    "spark.eventLog.dir": events.as_uri(), "spark.eventLog.compress": "false",
})
sessions.start_session, sessions.stop_session = lambda *_, **__: spark, lambda _: None
assert cli.main(["audit", str(file), "--topic", "in", "--report", str(shown / "report")]) == 0
for accepted in ("good", "path:" + str(shown / "good")):
    assert cli.main(["split", str(file), "--topic", "in", "--accepted", accepted,
                     "--rejected", "dead"]) == 0
register(spark)
source = {"plan": str(file), "subscribe": "in"}
assert spark.read.format("penstock").options(**source).load().count() == 2
streamed = spark.readStream.format("penstock").options(**source).load().writeStream
streamed = streamed.foreachBatch(lambda frame, _: frame.count()).trigger(availableNow=True)
streamed = streamed.option("checkpointLocation", str(shown / "place"))
is_done = False
while not is_done:
    try:
        is_done = streamed.start().awaitTermination(1800)
        assert is_done
    except PySparkException as error:  # Spark waits only ten seconds for the process of a source
        assert is_late_worker(error), error

access = ClusterAccess.of(properties, configuration.path)
for store in configuration.path.parent.parent.glob("*.pem"):
    store.rename(store.with_suffix(".gone"))  # an executor does not have them

def leaders(batches):
    for batch in batches:
        found = len(access.connect().describe(["in", "good"]))
        yield pa.RecordBatch.from_pydict({"found": [found] * len(batch)})

rows = spark.range(2, numPartitions=2).mapInArrow(leaders, "found long")
assert [row.found for row in rows.collect()] == [2, 2]
(shown / "plan").write_text(rows._jdf.queryExecution().toString())

def get(path):
    with urllib.request.urlopen(spark.sparkContext.uiWebUrl + path, timeout=30) as response:
        text = response.read().decode()
    number = len(list(shown.iterdir()))
    (shown / f"{number}.page").write_text(path + "\\n" + text)
    return text

api = "/api/v1/applications/" + json.loads(get("/api/v1/applications"))[0]["id"]
jobs = json.loads(get(f"{api}/jobs"))
stages = json.loads(get(f"{api}/stages?details=true"))
queries = json.loads(get(f"{api}/sql?details=true&planDescription=true&length=1000"))
assert jobs and stages and len(queries) >= 5, (len(jobs), len(stages), len(queries))
for path in ("environment", "allexecutors", "storage/rdd"):
    get(f"{api}/{path}")
for page in ("jobs", "stages", "storage", "environment", "executors", "SQL"):
    get(f"/{page}/")
for job in jobs:
    get(f"/jobs/job/?id={job['jobId']}")
for stage in stages:
    get(f"/stages/stage/?id={stage['stageId']}&attempt=0")
for query in queries:
    get(f"/SQL/execution/?id={query['id']}")
spark.stop()
print("done")
"""


@pytest.mark.spark_processes
@pytest.mark.parametrize("where", ["one machine", "a cluster"])
def test_no_secret_is_shown(request, configured, tmp_path, monkeypatch, where):
    master = "local[2]"
    if where == "a cluster":
        master, _ = request.getfixturevalue("cluster")
        monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    files = Files(tmp_path)
    key = files.key("client.pem")
    secrets = ["a-secret", "registry-secret", *key.read_text().split("-----")[2].split()]
    shown, events = tmp_path / "shown", tmp_path / "events"
    shown.mkdir(), events.mkdir()
    with (
        secure_kafka(files) as kafka,
        FakeRegistry(user_info="me:registry-secret") as registry,
    ):
        registry.register("in-value", '"int"')
        settings = as_admin(kafka.bootstrap_servers, files)
        for name in ("in", "good", "dead"):
            create_topic(AdminClient(settings), name)
        for value in (b"\x00\x00\x00\x00\x01\x02", b"bad"):
            assert produce(settings, "in", value) == ""
        file = configured(
            {
                # Their registry requires a password, too.
                "record.validation.policy.class.name": "policies.SchemaPolicy",
                "topics.in.confluent.value.schema.validation": "true",
                "schema.registry.url": registry.url,
                "upstream.bootstrap.servers": kafka.bootstrap_servers,
                **upstream_as_admin(files),
                "upstream.ssl.keystore.location": key,
                "schema.registry.basic.auth.user.info": "me:registry-secret",
            },
            "from penstock.policies import SchemaPolicy",
        )
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT, master, str(file), str(shown), str(events)],
            capture_output=True, text=True, check=False, timeout=HANGS_S,
        )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    written = [path for path in [*shown.rglob("*"), *events.rglob("*")] if path.is_file()]
    texts = {path: path.read_text(errors="replace") for path in written}
    texts[tmp_path / "output"] = done.stdout + done.stderr
    assert any("MapInArrow" in text for text in texts.values())  # the plans are included
    report = (shown / "report" / "report.json").read_text()
    assert "does not begin with a schema id" in report
    assert any("SparkListenerSQLExecutionStart" in text for text in texts.values())
    found = {
        (path.name, text.splitlines()[0][:80])
        for path, text in texts.items()
        for secret in secrets
        if secret in text
    }
    assert found == set()
    assert "GET /schemas/ids/1" in registry.requests
    assert len(set(registry.authorizations)) == 1  # all were let in
