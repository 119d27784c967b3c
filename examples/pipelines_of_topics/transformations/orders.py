"""Orders as tables: `judged`, `accepted`, `rejected`, and the counts of `reasons`.

`judged` stores the verdict on each record. The other tables read it, so they agree, and an update
of them judges no record again.
"""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

from penstock.spark import register

spark = SparkSession.active()
register(spark)
plan = spark.conf.get("spark.penstock.plan")
topic = spark.conf.get("spark.penstock.topic")


@dp.table(comment="Each stored record of the topic, with its verdict")
def judged() -> DataFrame:
    return (
        spark.readStream.format("penstock")
        .option("plan", plan)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .load()
    )


@dp.table(comment="Records that all policies accept")
def accepted() -> DataFrame:
    # Names columns, because drop() needs the table, which does not exist before the first run.
    judged = spark.readStream.table("judged").where("verdict.outcome = 'accepted'")
    return judged.select("key", "value", "headers", "topic", "partition", "offset", "timestamp")


@dp.table(comment="Records that are refused, or on which a policy failed")
def rejected() -> DataFrame:
    return spark.readStream.table("judged").where("verdict.outcome IN ('refused', 'failed')")


@dp.materialized_view(comment="The number of records for each reason")
def reasons() -> DataFrame:
    return spark.read.table("judged").groupBy("topic", "verdict").count()
