"""Records are counted while Spark's jobs read them."""

import threading
import time

import pytest

from penstock.spark.execution.progress import RecordsRead

COUNT = 12_000


def slowly(looks):
    """Return a function that holds each batch back until the counts were looked at some more."""

    def read(batches):
        for batch in batches:
            until = looks.stat().st_size + 3
            while looks.stat().st_size < until:
                time.sleep(0.01)
            yield batch

    return read


@pytest.fixture
def task_for_each_file(spark):
    """Without it, a task reads several small files, and two tasks read all of them."""
    key = "spark.sql.files.maxPartitionBytes"
    before = spark.conf.get(key)
    spark.conf.set(key, "4m")
    yield
    spark.conf.set(key, before)


@pytest.mark.usefixtures("task_for_each_file")
def test_records_are_counted_while_a_job_runs(spark, tmp_path):
    rows = spark.range(COUNT, numPartitions=8).selectExpr(
        "cast(cast(id AS string) AS binary) value"
    )
    rows.write.parquet(str(tmp_path / "rows"))
    df = spark.read.parquet(str(tmp_path / "rows"))
    read, seen, ended = RecordsRead(spark), [], threading.Event()
    looks = tmp_path / "looks"
    looks.touch()

    def watch():
        while not ended.wait(0.1):
            seen.append(read())
            with looks.open("ab") as file:
                file.write(b".")

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        assert df.select("value").mapInArrow(slowly(looks), "value binary").count() == COUNT
    finally:
        ended.set()
        thread.join()
    assert read() == COUNT
    assert seen == sorted(seen)
    assert len({item for item in seen if 0 < item < COUNT}) > 1


def test_earlier_reads_do_not_count(spark):
    assert spark.range(100).count() == 100
    assert RecordsRead(spark)() == 0
