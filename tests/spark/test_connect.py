"""The same functions with Spark Connect: a session without its own JVM."""

import os
import subprocess
import sys

import pytest

from tests.limits import HANGS_S
from tests.spark.conftest import NO_BAD

SCRIPT = """
import sys
from pyspark.sql import Observation, SparkSession
from penstock.spark import apply, close_policies, judge, load_plan, register, split
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

seen = Observation()
accepted, rejected = split(df, plan, observation=seen)
print("split", [bytes(row.value) for row in accepted.collect()],
      [bytes(row.value) for row in rejected.collect()], seen.get["refused"],
      [(row.message, row["count"]) for row in seen.get["reasons"]])

register(spark)
topic, checkpoint = sys.argv[2:]
options = {"plan": sys.argv[1], "subscribe": topic}
found = spark.read.format("penstock").options(**options).load().orderBy("offset").collect()
print("read", [(bytes(row.value), row.verdict.outcome) for row in found])
query = (
    spark.readStream.format("penstock").options(**options).option("startingOffsets", "earliest")
    .load().writeStream.format("memory").queryName("streamed").trigger(availableNow=True)
    .option("checkpointLocation", checkpoint).start()
)
query.awaitTermination()
print("streamed", spark.table("streamed").where("verdict.outcome = 'refused'").count())
close_policies(spark, workers=2)
spark.stop()
end_jvm()
"""


@pytest.mark.spark_processes
def test_all_functions_work_as_with_classic_sessions(configured, produce, topic, tmp_path):
    source = topic("in")
    produce(source, [{"value": b"bad7"}, {"value": b"good"}])
    file = configured({**NO_BAD, "produce.request.interceptors": "policies.Repair"})
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(file), source, str(tmp_path / "place")],
        env={**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True, text=True, timeout=HANGS_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert "judged [('refused', 'bad is not good'), ('accepted', None), ('accepted', None)]" in (
        done.stdout
    ), done.stdout
    assert "applied [b'good1', b'ok']" in done.stdout
    assert "split [b'good1', b'ok'] [b'bad7'] 1 [('bad is not good', 1)]" in done.stdout
    assert "read [(b'bad7', 'refused'), (b'good', 'accepted')]" in done.stdout
    assert "streamed 1" in done.stdout
