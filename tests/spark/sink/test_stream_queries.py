import pytest

from penstock.spark.execution.failures import SparkError
from penstock.spark.sink.stream_queries import query_id


def test_a_session_outside_of_a_stream_has_no_query(spark):
    with pytest.raises(SparkError, match="does not say which stream"):
        query_id(spark)


def test_the_id_is_that_of_the_query(spark, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.txt").write_text("a")
    found = []
    query = (
        spark.readStream.text(str(tmp_path / "in"))
        .writeStream.foreachBatch(lambda frame, _: found.append(query_id(frame.sparkSession)))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True).start()
    )  # fmt: skip
    query.awaitTermination()
    assert found == [str(query.id)]
