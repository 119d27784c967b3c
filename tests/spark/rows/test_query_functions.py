"""Rows in the query functions of declarative pipelines, which run with Spark Connect."""

import os
import subprocess
import sys

import pyarrow.parquet as pq
import pytest

from tests.limits import HANGS_S
from tests.spark.installed import SPARK

IN_QUERY_FUNCTIONS = """
from pyspark import pipelines as dp
from pyspark.sql import SparkSession
from penstock.policy import InvalidRecordException, RecordValidationPolicy
from penstock.spark import judge_rows, plan, split_rows

spark = SparkSession.active()

class NotSeven(RecordValidationPolicy):
    def validate(self, topic, record):
        if record.key == b"7":
            raise InvalidRecordException("seven")

rows_plan = plan(rules={"paid": "value.amount > 0"}, policies=[NotSeven])

@dp.materialized_view
def numbers():
    return spark.range(10).selectExpr("id", "if(id % 5 = 0, null, id) amount")

@dp.materialized_view
def judged():
    return judge_rows(spark.read.table("numbers"), rows_plan, key="id")

@dp.materialized_view
def good():
    return split_rows(spark.read.table("numbers"), rows_plan, key="id")[0]
"""


@pytest.mark.spark_processes
def test_rows_are_judged_without_a_look_at_their_columns(tmp_path):
    files = {
        "spark-pipeline.yml": (
            f"name: rows\nstorage: {(tmp_path / 'storage').as_uri()}\n"
            "libraries:\n  - glob:\n      include: transformations/**\n"
        ),
        "transformations/rows.py": IN_QUERY_FUNCTIONS,
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    done = subprocess.run(
        [SPARK / "bin" / "spark-pipelines", "run", "--spec", tmp_path / "spark-pipeline.yml"],
        cwd=tmp_path, capture_output=True, text=True, timeout=HANGS_S, check=False,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1",
             "PYSPARK_DRIVER_PYTHON": sys.executable},
    )  # fmt: skip
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]

    def table(name):
        return pq.read_table(tmp_path / "spark-warehouse" / name).to_pylist()

    rules = {
        row["id"]: [objection["rule"] or objection["message"] for objection in objections]
        for row in table("judged")
        if (objections := row["verdict"]["objections"])
    }
    assert rules == {0: ["paid"], 5: ["paid"], 7: ["seven"]}
    assert sorted(row["id"] for row in table("good")) == [1, 2, 3, 4, 6, 8, 9]
    assert set(table("good")[0]) == {"id", "amount"}
