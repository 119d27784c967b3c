"""Records are counted while Spark's jobs read them."""

import threading
import time

from penstock.cluster.ranges import OffsetRange
from penstock.spark.execution.progress import RecordsRead
from penstock.spark.sources import read_range

COUNT = 12_000


def slowly(batches):
    for batch in batches:
        time.sleep(0.4)
        yield batch


def test_records_are_counted_while_a_job_runs(spark, kafka, produce, topic):
    name = topic("progress")
    produce(name, [{"value": b"x" * 20} for _ in range(COUNT)])
    options = {"kafka.bootstrap.servers": kafka.bootstrap_servers}
    df = read_range(spark, options, [OffsetRange(name, 0, 0, COUNT)], records_per_task=1500)
    read, seen, ended = RecordsRead(spark), [], threading.Event()

    def watch():
        while not ended.wait(0.1):
            seen.append(read())

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        assert df.select("value").mapInArrow(slowly, "value binary").count() == COUNT
    finally:
        ended.set()
        thread.join()
    assert read() == COUNT
    assert seen == sorted(seen)
    assert len({one for one in seen if 0 < one < COUNT}) > 1


def test_what_was_read_before_does_not_count(spark):
    assert spark.range(100).count() == 100
    assert RecordsRead(spark)() == 0
