"""Tasks in Spark's Python workers: their results, and the end of tasks that hang."""

import time

import pytest

from penstock.jobs.tasks.planning import Task
from penstock.kafka.cluster.ranges import OffsetRange
from penstock.spark.execution.failures import reason_of
from penstock.spark.execution.task_runner import run_tasks

pytestmark = pytest.mark.slow

TASKS = [Task((OffsetRange("t", number, 0, 10), OffsetRange("u", number, 5, 6))) for number in
         range(20)]  # fmt: skip


def described(task):
    yield None
    yield ";".join(map(str, task.ranges)).encode()


def sorted_lines(results):
    return b"\n".join(sorted(line for result in results for line in result.splitlines()))


@pytest.fixture
def idle_timeout(spark):
    key = "spark.sql.execution.pyspark.udf.idleTimeoutSeconds"
    before = spark.conf.get(key)
    spark.conf.set(key, "15")  # a busy machine needs a few seconds to start a worker
    yield
    spark.conf.set(key, before)


def test_each_task_is_done_once_and_counted(spark):
    done = spark.sparkContext.accumulator(0)
    found = run_tasks(spark, TASKS, described, sorted_lines, counter=done)
    assert found.decode().splitlines() == sorted(
        f"t {number}:0-10;u {number}:5-6" for number in range(20)
    )
    assert done.value == 20 * 11


def test_no_tasks_have_no_result(spark):
    assert run_tasks(spark, [], described, sorted_lines) is None


def slow(task):
    for _ in range(100):
        time.sleep(0.2)
        yield None
    yield b"x"


def hanging(task):
    time.sleep(300)
    yield b"x"


def test_a_long_task_shows_that_it_is_at_work(spark, idle_timeout):
    assert run_tasks(spark, TASKS[:2], slow, b"".join) == b"xx"


def test_a_task_that_hangs_ends_the_job(spark, idle_timeout):
    began = time.monotonic()
    with pytest.raises(Exception, match="Python") as raised:
        run_tasks(spark, TASKS[:1], hanging, b"".join)
    assert time.monotonic() - began < 250
    assert "a policy hangs" in str(reason_of(raised.value))
