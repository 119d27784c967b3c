"""How many tasks run at a time, while executors come; `test_connect.py` has Spark Connect."""

from types import SimpleNamespace

import pytest

from penstock.spark.execution.task_runner import SparkRunner
from penstock.spark.execution.task_slots import task_slots

pytestmark = pytest.mark.unit


def session(slots, **conf):
    settings = {name.replace("_", "."): value for name, value in conf.items()}
    return SimpleNamespace(
        sparkContext=SimpleNamespace(defaultParallelism=slots),
        conf=SimpleNamespace(get=settings.get),
    )


def test_a_stream_uses_executors_that_come_after_its_start():
    spark = session(2)
    runner = SparkRunner(spark)
    assert runner.cores == 2
    spark.sparkContext.defaultParallelism = 16
    assert runner.cores == 16
    spark.sparkContext.defaultParallelism = 4
    assert runner.cores == 4


@pytest.mark.parametrize(
    ("conf", "found"),
    [
        ({}, 4),
        ({"spark_dynamicAllocation_enabled": "false"}, 4),
        ({"spark_dynamicAllocation_enabled": "true"}, 8),
        ({"spark_dynamicAllocation_enabled": "True"}, 8),
    ],
)
def test_dynamic_allocation_adds_executors_for_tasks_that_wait(conf, found):
    assert task_slots(session(4, **conf)) == found


def test_no_parallelism_is_one_task():
    """`--conf spark.default.parallelism=0` is allowed by Spark."""
    assert task_slots(session(0)) == 1
