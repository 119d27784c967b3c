"""The same functions with Spark Connect: a session without a JVM of its own."""

import os
import subprocess
import sys

from tests.spark.conftest import NO_BAD

SCRIPT = """
import sys
from pyspark.sql import SparkSession
from penstock.spark import apply, close_policies, judge, load_plan
from penstock.spark.session import end_jvm

spark = SparkSession.builder.remote("local[2]").getOrCreate()
assert "connect" in type(spark).__module__
columns = ("topic string, partition int, key binary, value binary, "
           "headers array<struct<key:string,value:binary>>")
rows = [("t", 0, b"k", b"bad7", [("a", None)]), ("t", 0, None, b"bad1", None), ("t", 1, None, b"ok", None)]
df = spark.createDataFrame(rows, columns)
plan = load_plan(sys.argv[1])
judged = judge(df, plan).select("verdict.outcome", "verdict.message").collect()
print("judged", [tuple(row) for row in judged])
applied = apply(df, plan).where("verdict.outcome = 'accepted'").select("value").collect()
print("applied", [bytes(row.value) for row in applied])
close_policies(spark, workers=2)
spark.stop()
end_jvm()
"""


def test_judge_and_apply(configured):
    file = configured({**NO_BAD, "produce.request.interceptors": "policies.Repair"})
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(file)],
        env={**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True, text=True, timeout=150, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert "judged [('refused', 'bad is not good'), ('accepted', None), ('accepted', None)]" in (
        done.stdout
    ), done.stdout
    assert "applied [b'good1', b'ok']" in done.stdout
