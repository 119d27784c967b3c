"""What each version of PySpark has to do: audit, split, judge; and the data source from 4.0 on.

The first argument is the address of a server of Spark Connect, or a master.
"""

import sys
import time

import pyspark
from pyspark.sql import Observation, SparkSession

import penstock.spark
from penstock.configuration import ConfigurationError
from penstock.spark import apply, audit, audit_rows, judge, judge_rows, load_plan, split, split_rows
from penstock.spark import plan as rows_of
from penstock.spark.execution.settings import SETTINGS

where, version, file, checkpoint, source, clean, dead, out, streamed = sys.argv[1:]
assert pyspark.__version__ == version, pyspark.__version__
is_remote = where.startswith("sc://")
if is_remote:
    spark = SparkSession.builder.remote(where).getOrCreate()
else:
    spark = (
        SparkSession.builder.master(where)
        .config("spark.ui.enabled", "false")
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )
spark.conf.set("spark.sql.shuffle.partitions", "2")
plan = load_plan(file)
_began = time.monotonic()


def shown(what: str, *found: object) -> None:
    """Print what was done, and how long it took."""
    global _began  # noqa: PLW0603 - a script
    now = time.monotonic()
    print(f"  {what:<28} {found}  {now - _began:.1f} s", flush=True)
    _began = now


report = audit(source, plan, spark=spark)
shown("audit of a topic", report.judged, report.accepted, report.refused)
assert (report.judged, report.accepted, report.refused) == (2000, 1800, 200)
assert report.reasons[0].message == "bad is not good"

done = split(source, plan, accepted=clean, rejected=dead, spark=spark)
shown("split of a topic", done.accepted, done.refused)
assert (done.accepted, done.refused) == (1800, 200)
assert split(source, plan, accepted=clean, rejected=dead, spark=spark).done_before == 2000

columns = (
    "topic string, partition int, offset bigint, key binary, value binary, timestamp timestamp, "
    "headers array<struct<key:string,value:binary>>"
)
rows = [
    (source, n % 3, n, None, b"bad" if n % 4 == 0 else b"good", None, [("h", b"1")])
    for n in range(100)
]
frame = spark.createDataFrame(rows, columns)
outcomes = [row.verdict.outcome for row in judge(frame, plan).collect()]
assert outcomes.count("refused") == 25
assert apply(frame, plan).where("verdict.outcome = 'accepted'").count() == 75
assert audit(frame, plan).refused == 25
shown("judge, apply, audit", len(outcomes))

if version.startswith("3.") and is_remote:
    try:
        split(frame, plan)
    except ConfigurationError as error:
        shown("split of a frame", str(error))
    else:
        raise AssertionError("PySpark 3 has no local checkpoints with Spark Connect")
else:
    accepted, rejected = split(frame, plan)
    assert (accepted.count(), rejected.count()) == (75, 25)
    shown("split of a frame", accepted.count(), rejected.count())

rows_plan = rows_of({"paid": "value.amount > 0", "known": "value.currency in ['EUR']"})
amounts = spark.range(100).selectExpr(
    "id", "if(id % 4 = 0, null, id) amount", "if(id % 10 = 0, 'USD', 'EUR') currency"
)
good, bad = split_rows(amounts, rows_plan, key="id")
assert (good.columns, good.count()) == (["id", "amount", "currency"], 70)
rules = bad.selectExpr("explode(verdict.objections.rule) rule").groupBy("rule").count().collect()
assert {row["rule"]: row["count"] for row in rules} == {"paid": 25, "known": 10}
report_of_rows = audit_rows(amounts, rows_plan, label="id", samples=1)
assert [(rule.rule, rule.count, rule.samples) for rule in report_of_rows.rules] == [
    ("paid", 25, ("0",)),
    ("known", 10, ("0",)),
]
assert report_of_rows.rules[0].mode == "enforce"
shown("rows", report_of_rows.judged, report_of_rows.refused)

counts = {"judged": 100, "accepted": 70, "refused": 30, "failed": 0, "refused.paid": 25,
          "refused.known": 10}  # fmt: skip
if version.startswith("3.") and is_remote:
    shown("observation", "PySpark 3 has none with Spark Connect")
else:
    seen = Observation()
    assert judge_rows(amounts, rows_plan, observation=seen).count() == 100
    assert seen.get == counts, seen.get
    shown("observation", seen.get)

# What Spark 3.5 refuses to write by default.
for key in ("datetimeRebaseModeInWrite", "int96RebaseModeInWrite"):
    spark.conf.set(f"spark.sql.parquet.{key}", SETTINGS[f"spark.sql.parquet.{key}"])
old = spark.sql("SELECT DATE'0001-01-01' day, TIMESTAMP'1500-01-01 00:00:00' at")
old.write.parquet(f"{checkpoint}-old")
assert spark.read.parquet(f"{checkpoint}-old").exceptAll(old).count() == 0
shown("write old dates and times")

if version.startswith("3."):
    try:
        penstock.spark.register(spark)
    except ImportError as error:
        shown("data source", str(error))
    else:
        raise AssertionError("PySpark 3 has no data sources in Python")
    spark.stop()
    sys.exit()

penstock.spark.register(spark)
read = spark.read.format("penstock").option("plan", file).option("subscribe", source).load()
assert read.where("verdict.outcome = 'refused'").count() == 200
assert read.where("offset < 10 and partition = 1").count() == 10
assert read.count() == 2000
shown("read a topic", read.count())


def written(name: str) -> int:
    """Return how many records a topic has, for readers of what is committed."""
    reader = spark.read.format("penstock").option("subscribe", name)
    return int(reader.option("plan", file).load().count())


# Tasks of the made-up frame share partitions: the sink keeps the order of each.
ordered = accepted.repartition("topic", "partition").sortWithinPartitions("partition", "offset")
ordered.write.format("penstock").mode("append").option("plan", file).option("topic", out).save()
shown("write a frame", written(out))
assert written(out) == 75


def stream(until: int) -> None:
    """Run the query until it has written so many records."""
    query = (
        spark.readStream.format("penstock").option("plan", file).option("subscribe", source)
        .option("startingOffsets", "earliest").load().drop("verdict")
        .writeStream.format("penstock").option("plan", file).option("topic", streamed)
        .option("rejected", dead).option("checkpointLocation", checkpoint).start()
    )  # fmt: skip
    query.processAllAvailable()
    query.stop()
    assert written(streamed) == until, written(streamed)


stream(1800)
stream(1800)
shown("stream from topic to topic", written(streamed))
spark.stop()
