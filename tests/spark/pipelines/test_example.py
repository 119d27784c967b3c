"""The examples of declarative pipelines, and functions in them, as Spark's command runs them."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.limits import HANGS_S
from tests.spark.installed import SPARK
from tests.spark.pipelines.scenario import run_scenario

EXAMPLES = Path(__file__).parents[3] / "examples"
EXAMPLE = EXAMPLES / "pipelines_of_topics"


IN_QUERY_FUNCTIONS = """
from pyspark import pipelines as dp
from pyspark.sql import SparkSession
from penstock.spark import apply, judge, load_plan

spark = SparkSession.active()
FILE = spark.conf.get("spark.penstock.plan")
AS_JSON = "binary(to_json(struct(*), map('ignoreNullFields', 'false'))) value"

@dp.materialized_view
def numbers():
    return spark.range(10).selectExpr("id", "if(id % 5 = 0, null, id) amount")

@dp.materialized_view
def judged():
    rows = spark.read.table("numbers")
    return judge(rows.selectExpr("*", AS_JSON, "0 partition"), load_plan(FILE, topic="numbers"))

@dp.materialized_view
def applied():
    rows = spark.read.table("numbers").selectExpr("id", AS_JSON, "binary('k') key", "0 partition",
        "array(struct('h' AS key, binary('v') AS value)) headers")
    return apply(rows, load_plan(FILE, topic="changed"))
"""
CHANGING = """
from penstock.policy import ProduceRequestInterceptor, ProduceRequestInterceptorResult

class Shout(ProduceRequestInterceptor):
    def interceptor_topic_pattern(self): return "changed"
    def process_record(self, key, value, topic, partition, headers):
        return ProduceRequestInterceptorResult(key, value.upper())
"""
PLAN = """
produce.request.interceptors=shout.Shout
policies=whole
policies.whole.type=Required
policies.whole.fields=amount
topics.numbers.penstock.policies=whole
"""


def run_pipeline(project, *arguments):
    done = subprocess.run(
        [SPARK / "bin" / "spark-pipelines", "run", *arguments,
         "--spec", project / "spark-pipeline.yml"],
        cwd=project, capture_output=True, text=True, timeout=HANGS_S, check=False,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1",
             "PYSPARK_DRIVER_PYTHON": sys.executable},
    )  # fmt: skip
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]


@pytest.mark.spark_processes
def test_the_example(tmp_path):
    run_scenario(tmp_path, SPARK, {
        **os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1",
    })  # fmt: skip


@pytest.mark.spark_processes
def test_judge_and_apply_in_query_functions(spark, tmp_path):
    """They look at no frame: Spark ends a pipeline whose query function does."""
    files = {
        "spark-pipeline.yml": (
            f"name: rows\nstorage: {(tmp_path / 'storage').as_uri()}\n"
            f"configuration:\n  spark.penstock.plan: {tmp_path / 'rows.properties'}\n"
            "libraries:\n  - glob:\n      include: transformations/**\n"
        ),
        "transformations/rows.py": IN_QUERY_FUNCTIONS,
        "rows.properties": PLAN,
        "shout.py": CHANGING,
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    run_pipeline(tmp_path)

    def table(name):
        return spark.read.parquet(str(tmp_path / "spark-warehouse" / name)).collect()

    refused = {row.id for row in table("judged") if row.verdict.outcome == "refused"}
    assert refused == {0, 5}
    assert {bytes(row.value) for row in table("applied") if row.id == 3} == {b'{"ID":3,"AMOUNT":3}'}


@pytest.mark.spark_processes
def test_the_example_of_topics(spark, configured, produce, topic, tmp_path):
    source, project, storage = topic("orders", 2), tmp_path / "project", tmp_path / "storage"
    shutil.copytree(EXAMPLE, project)
    file = project / "spark-pipeline.yml"
    values = {
        "/etc/penstock/penstock.properties": str(configured()),
        "spark.penstock.topic: orders": f"spark.penstock.topic: {source}",
        "file:///var/lib/orders-pipeline": storage.as_uri(),
    }
    spec = file.read_text()
    for written, wanted in values.items():
        assert written in spec
        spec = spec.replace(written, wanted)
    file.write_text(spec)
    storage.mkdir()

    def run():
        run_pipeline(project, "--conf", "spark.sql.catalogImplementation=hive")

    def table(name):
        return spark.read.parquet(str(project / "spark-warehouse" / name))

    produce(source, [{"value": b"bad" if n % 5 == 0 else b"good", "key": b"%d" % n}
                     for n in range(100)])  # fmt: skip
    run()
    assert (table("accepted").count(), table("rejected").count()) == (80, 20)
    produce(source, [{"value": b"bad", "key": b"later"}])
    run()
    assert table("judged").count() == 101, "each record once"
    assert max(row.key for row in table("rejected").collect()) == b"later"
    counts = {row.verdict.outcome: row["count"] for row in table("reasons").collect()}
    assert counts == {"accepted": 80, "refused": 21}
