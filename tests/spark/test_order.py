"""From topics to topics with Spark's formats: no record of a partition changes its place."""

from itertools import pairwise

import pytest

from penstock.spark import register
from tests.integration.reading import read_topic
from tests.limits import HANGS_S
from tests.spark_connector import read_by_connector

SIZE, COUNT = 1000, 24_000
"""Enough for several tasks of the least size."""


@pytest.fixture
def filled(produce, topic):
    """A topic of one partition whose records have one key, and their number as the value."""
    name = topic("in", 1)
    produce(
        name, [{"key": b"k", "value": b"%0*d" % (SIZE, n), "partition": 0} for n in range(COUNT)]
    )
    return name


@pytest.fixture
def servers(spark, kafka):
    register(spark)
    return {"kafka.bootstrap.servers": kafka.bootstrap_servers}


def stored(kafka, topic):
    found = read_topic(kafka.bootstrap_servers, topic, isolation="read_committed")
    return [int(value) for _, _, value, _ in found]


def assert_in_order(found):
    back = sum(after < before for before, after in pairwise(found))
    assert (len(found), back, found[-1]) == (COUNT, 0, COUNT - 1)


def written(frame, topic, servers, **options):
    writer = frame.write.format("penstock").mode("append").option("topic", topic)
    writer.options(**servers, **options).save()


def test_from_the_source_to_the_sink(spark, kafka, filled, topic, servers):
    frame = spark.read.format("penstock").options(**servers).option("subscribe", filled).load()
    for name, given in {"all": frame, "some": frame.select("key", "value")}.items():
        target = topic(name, 1)
        written(given, target, servers)
        assert_in_order(stored(kafka, target))


@pytest.mark.slow
def test_from_the_connector_to_the_sink(spark, kafka, filled, topic, servers):
    target = topic("out", 1)
    written(read_by_connector(spark, kafka.bootstrap_servers, filled), target, servers)
    assert_in_order(stored(kafka, target))


@pytest.mark.slow
def test_a_partition_that_was_cut_is_not_written(spark, kafka, filled, topic, servers):
    target = topic("out", 1)
    reader = spark.read.format("penstock").options(**servers).option("subscribe", filled)
    cut = reader.option("minPartitions", 4).load()
    theirs = read_by_connector(spark, kafka.bootstrap_servers, filled, minPartitions=4)
    for frame in (cut, theirs, cut.repartition(3)):
        with pytest.raises(Exception, match=r"several tasks have records of|not in its order"):
            written(frame, target, servers)
    assert stored(kafka, target) == []
    written(cut, target, servers, failOnOrderLoss="false")
    assert sorted(stored(kafka, target)) == list(range(COUNT))


@pytest.mark.slow
def test_a_stream_from_the_source_to_the_sink(spark, kafka, filled, topic, servers, tmp_path):
    target = topic("out", 1)
    query = (
        spark.readStream.format("penstock").options(**servers).option("subscribe", filled)
        .option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", 14_000).load()
        .select("key", "value").writeStream.format("penstock").options(**servers)
        .option("topic", target).option("checkpointLocation", str(tmp_path / "place"))
        .trigger(availableNow=True).start()
    )  # fmt: skip
    assert query.awaitTermination(HANGS_S)
    assert query.exception() is None
    assert_in_order(stored(kafka, target))
