"""Columns that are added to frames, on a session and as in a pipeline."""

import pytest
from pyspark.sql import functions

from penstock.spark.frames import added_columns
from penstock.spark.frames.added_columns import is_in_pipeline, with_column


@pytest.mark.parametrize("in_pipeline", [False, True])
def test_a_column_is_added_or_replaced(spark, monkeypatch, in_pipeline):
    monkeypatch.setattr(added_columns, "is_in_pipeline", lambda: in_pipeline)
    frame = spark.createDataFrame([(1, "a", 2)], "id INT, Name STRING, `a.b` INT")
    added = with_column(frame, "verdict", functions.col("id") + 1)
    assert added.collect()[0].asDict() == {"id": 1, "Name": "a", "a.b": 2, "verdict": 2}
    replaced = with_column(added, "name", functions.lit("b"))
    assert {key.lower(): value for key, value in replaced.collect()[0].asDict().items()} == {
        "id": 1,
        "name": "b",
        "a.b": 2,
        "verdict": 2,
    }
    assert len(replaced.columns) == 4


def test_a_session_is_no_pipeline(spark):
    assert not is_in_pipeline()
