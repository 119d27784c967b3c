"""Orders as tables: judged once, then accepted ones, refused ones, and how many for what reason.

`judged` keeps the verdict on each record, so the tables after it cannot disagree, and nothing is
judged again when they are updated.
"""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

from penstock.spark import register

spark = SparkSession.active()
register(spark)
plan = spark.conf.get("spark.penstock.plan")
topic = spark.conf.get("spark.penstock.topic")


@dp.table(comment="Each record of the topic, as it is stored, with the verdict on it")
def judged() -> DataFrame:
    return (
        spark.readStream.format("penstock")
        .option("plan", plan)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .load()
    )


@dp.table(comment="What every policy accepts")
def accepted() -> DataFrame:
    # Named columns: drop() would look at the table, which is not there before the first run.
    judged = spark.readStream.table("judged").where("verdict.outcome = 'accepted'")
    return judged.select("key", "value", "headers", "topic", "partition", "offset", "timestamp")


@dp.table(comment="What is refused, or could not be judged")
def rejected() -> DataFrame:
    return spark.readStream.table("judged").where("verdict.outcome IN ('refused', 'failed')")


@dp.materialized_view(comment="The number of records for each reason")
def reasons() -> DataFrame:
    return spark.read.table("judged").groupBy("topic", "verdict").count()
