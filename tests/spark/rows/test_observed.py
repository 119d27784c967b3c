"""Counts of judged rows in an `Observation`, and in the progress of a stream."""

import pytest
from pyspark.sql import Observation

from penstock.configuration import ConfigurationError
from penstock.policy import BrokerRecordValidator, InvalidRecordException
from penstock.spark import judge_rows, plan, split_rows
from tests.spark.rows.orders import COUNTS, ORDERS, RULES


class NoUsd(BrokerRecordValidator):
    def validate_record(self, topic_partition, key, value, headers):
        if b'"id":4' in value:
            raise ZeroDivisionError
        return InvalidRecordException("no USD") if b"USD" in value else None


def test_an_observation_counts_by_outcome_and_rule(spark):
    seen = Observation()
    row_plan = plan(rules=RULES, policies=[NoUsd])
    _, bad = split_rows(spark.sql(ORDERS), row_plan, observation=seen)
    assert bad.count() == 5
    assert seen.get == {**COUNTS, "accepted": 0, "failed": 1, "refused.NoUsd": 1}


def test_a_name_counts_in_the_progress_of_a_stream(spark, tmp_path):
    spark.sql(ORDERS).coalesce(1).write.parquet(str(tmp_path / "in"))
    stream = spark.readStream.schema("id bigint, amount bigint, currency string").parquet(
        str(tmp_path / "in")
    )
    judged = judge_rows(stream, plan(rules=RULES), observation="orders")
    query = (
        judged.writeStream.format("memory").queryName("judged_orders")
        .option("checkpointLocation", str(tmp_path / "place")).trigger(availableNow=True).start()
    )  # fmt: skip
    query.awaitTermination()
    metrics = [progress["observedMetrics"] for progress in query.recentProgress]
    assert [dict(metric["orders"].asDict()) for metric in metrics if metric] == [COUNTS]
    assert spark.table("judged_orders").where("verdict.outcome = 'accepted'").count() == 1


@pytest.mark.parametrize("observation", [5, "", object()])
def test_wrong_observations(spark, observation):
    with pytest.raises(ConfigurationError, match="observation must be an Observation of Spark, or"):
        judge_rows(spark.range(1), plan(rules=RULES), observation=observation)
