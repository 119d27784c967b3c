"""`spark.read.format("penstock")`: the rows of Spark's Kafka source, with verdicts."""

import random

import pytest
from confluent_kafka import Producer, TopicPartition
from pyspark.testing import assertDataFrameEqual

from penstock.spark import judge, load_plan, register
from tests.spark.conftest import NO_BAD
from tests.spark_connector import read_by_connector

KAFKA = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers"]


@pytest.fixture
def read(spark, kafka):
    """Reads topics by the data source."""
    register(spark)

    def load(topics, plan=None, *, schema=None, **options):
        reader = spark.read.format("penstock").option("subscribe", topics)
        reader = reader.option("kafka.bootstrap.servers", kafka.bootstrap_servers)
        if plan is not None:
            reader = reader.option("plan", str(plan))
        if schema is not None:
            reader = reader.schema(schema)
        return reader.options(**options).load()

    return load


def test_spark_finds_the_format_by_itself(spark, kafka, produce, topic):
    """In a session in which nobody registered it; and then it may be registered."""
    source = topic("in", 1)
    produce(source, [{"value": b"good"}] * 3)
    session = spark.newSession()

    def count():
        reader = session.read.format("penstock").option("subscribe", source)
        return reader.option("kafka.bootstrap.servers", kafka.bootstrap_servers).load().count()

    assert count() == 3
    register(session)
    assert count() == 3


def generated(count, seed=7):
    """Return records of all kinds: no key, no value, headers without values, odd timestamps."""
    chance = random.Random(seed)
    header = [("a", b"1"), ("a", None), ("\xe4", b""), ("b", b"\xff\x00")]
    return [
        {
            "key": chance.choice([None, b"", b"k%d" % n]),
            "value": chance.choice([None, b"", b"good", b"bad", b"odd %d" % n, b"raise"]),
            "headers": chance.choice([None, chance.choices(header, k=3)]),
            "timestamp": chance.choice([1_700_000_000_000 + n, 1, 0]),
            "partition": n % 3,
        }
        for n in range(count)
    ]


@pytest.mark.cases(1)
@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_the_rows_are_those_of_the_connector_with_the_verdicts_of_judge(
    read, spark, kafka, configured, produce, topic, codec
):
    source, appended = topic("in", 3), topic("in", 1, **{"message.timestamp.type": "LogAppendTime"})
    produce(source, generated(2000), **{"compression.type": codec, "batch.size": 4000})
    produce(appended, [{**record, "partition": 0} for record in generated(50)])
    file, both = configured(), f"{source},{appended}"
    found = read(both, file, minPartitions=5)
    assert found.columns == [*KAFKA, "verdict"]
    assert found.rdd.getNumPartitions() >= 5
    expected = judge(read_by_connector(spark, kafka.bootstrap_servers, both), load_plan(file))
    assertDataFrameEqual(found, expected)


def test_without_a_plan_there_is_no_verdict(read, spark, kafka, produce, topic):
    source = topic("in")
    produce(source, [{"value": b"x"}])
    assertDataFrameEqual(read(source), read_by_connector(spark, kafka.bootstrap_servers, source))
    with pytest.raises(Exception, match="the column verdict needs the option plan"):
        read(source, schema="value binary, verdict struct<outcome:string,policy:string,code:int,"
             "message:string>").collect()  # fmt: skip


def test_only_the_columns_of_a_schema_are_made(read, configured, produce, topic):
    source = topic("in")
    produce(source, [{"value": b"bad"}, {"value": b"good"}])
    verdict = "verdict struct<outcome: string, policy: string, code: int, message: string>"
    found = read(source, configured(), schema=f"{verdict}, offset bigint")
    assert [(row.offset, row.verdict.outcome) for row in found.orderBy("offset").collect()] == [
        (0, "refused"), (1, "accepted"),
    ]  # fmt: skip
    assert read(source, schema="value binary").collect()[0].value == b"bad"
    assert "headers" not in read(source, includeHeaders="false").columns
    with pytest.raises(Exception, match="column value is binary, not string"):
        read(source, schema="value string").collect()


def test_an_empty_topic_and_an_empty_range(read, configured, produce, topic):
    empty, source = topic("in", 2), topic("in")
    produce(source, [{"value": b"bad"}])
    assert read(empty, configured()).count() == 0
    offsets = f'{{"{source}": {{"0": 1}}}}'
    assert read(source, configured(), startingOffsets=offsets).count() == 0


def test_offsets_and_times(read, produce, topic):
    source = topic("in", 2)
    produce(source, [{"value": b"%d" % n, "partition": n % 2, "timestamp": 1000 + n}
                     for n in range(20)])  # fmt: skip

    def values(**options):
        return sorted(int(row.value) for row in read(source, **options).collect())

    starts = f'{{"{source}": {{"0": 8, "1": 10}}}}'
    assert values(startingOffsets=starts) == [16, 18]
    assert values(endingOffsets=f'{{"{source}": {{"0": 1, "1": 0}}}}') == [0]
    assert values(startingTimestamp="1017") == [17, 18, 19]
    assert values(startingTimestamp="1017", endingTimestamp="1019") == [17, 18]
    for offsets, text in (
        ({"0": 1}, "-1 is left out"),
        ({"0": 1, "1": 11}, "ends at offset 10, before 11"),
        ({"0": 1, "1": 1, "2": 1}, "-2 is not there"),
    ):
        given = f'{{"{source}": {str(offsets).replace(chr(39), chr(34))}}}'
        with pytest.raises(Exception, match=text):
            values(startingOffsets=given)


def test_only_the_offsets_that_options_select_are_judged(read, configured, produce, topic):
    """All records are in one batch, and judging one of the others would end the worker."""
    source = topic("in", 2)
    wanted = [b"bad" if n % 3 == 0 else b"good" for n in range(10)]
    values = [*[b"os._exit"] * 40, *wanted, *[b"os._exit"] * 40]
    produce(source, [{"value": value, "partition": 0} for value in values], **{"linger.ms": 500})
    bounds = {
        "startingOffsets": f'{{"{source}": {{"0": 40, "1": -2}}}}',
        "endingOffsets": f'{{"{source}": {{"0": 50, "1": -1}}}}',
    }
    found = read(source, configured(), **bounds).orderBy("offset").collect()
    assert [(row.offset, row.value) for row in found] == list(enumerate(wanted, 40))
    assert [row.verdict.outcome == "refused" for row in found] == [v == b"bad" for v in wanted]


def test_aborted_and_open_transactions_are_left_out(read, kafka, topic):
    source = topic("in")
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": source})
    producer.init_transactions()
    for end in (producer.commit_transaction, producer.abort_transaction, None):
        producer.begin_transaction()
        producer.produce(source, b"x", partition=0)
        producer.flush(30)
        if end is not None:
            end(30)
    assert [row.offset for row in read(source).collect()] == [0]
    producer.abort_transaction(30)


def test_records_that_were_removed_are_an_error_unless_it_is_allowed(
    read, produce, topic, admin, spark
):
    source = topic("in")
    produce(source, [{"value": b"%d" % n} for n in range(10)])
    offsets = f'{{"{source}": {{"0": 2}}}}'
    found = read(source, startingOffsets=offsets)
    allowed = read(source, startingOffsets=offsets, failOnDataLoss="false")
    for future in admin.delete_records([TopicPartition(source, 0, 6)]).values():
        future.result(30)
    with pytest.raises(Exception, match="the offsets from 2 up to 6 were removed before they were"):
        found.collect()
    assert [int(row.value) for row in allowed.collect()] == [6, 7, 8, 9]


def test_a_pattern(spark, kafka, read, produce, topic):
    first, two = topic("like-this"), topic("like-that")
    for name in (first, two):
        produce(name, [{"value": name.encode()}])

    def like(pattern):
        reader = spark.read.format("penstock").option("subscribePattern", pattern)
        return reader.option("kafka.bootstrap.servers", kafka.bootstrap_servers).load()

    assert {row.topic for row in like(f"{first[:-1]}.|{two}").collect()} == {first, two}
    # A part of the name is enough, as for Spark's Kafka source.
    assert {row.topic for row in like(f"^{first[:-2]}").collect()} == {first}
    with pytest.raises(Exception, match=r"subscribePattern nothing: no topic of .* matches it"):
        like("nothing").collect()


@pytest.mark.slow
def test_errors_are_raised(read, configured, topic):
    with pytest.raises(Exception, match="there is no topic missing on"):
        read("missing").collect()
    with pytest.raises(Exception, match="has no option startingoffset; startingOffsets is near it"):
        read("t", startingOffset="earliest")
    broken = {**NO_BAD, "record.validation.policy.class.name": "policies.NotThere"}
    with pytest.raises(Exception, match="NotThere"):
        read(topic("in"), configured(broken)).collect()


def test_large_records_come_in_batches_of_bounded_size(read, produce, topic):
    source = topic("in", 1, **{"max.message.bytes": "20000000"})
    value = bytes(1_000_000)
    produce(source, [{"value": value} for _ in range(40)],
            **{"compression.type": "zstd", "batch.size": 15_000_000, "linger.ms": 500,
               "message.max.bytes": 15_000_000})  # fmt: skip

    sizes = read(source, schema="value binary").mapInArrow(
        lambda batches: (
            __import__("pyarrow").RecordBatch.from_pydict(
                {"n": [len(batch)], "size": [batch.nbytes]}
            )
            for batch in batches
        ),
        "n long, size long",
    )
    found = sizes.collect()
    assert sum(row.n for row in found) == 40
    assert max(row.size for row in found) < 10 * 2**20


def test_a_frame_that_was_filtered_reads_all_when_it_is_used_again(read, produce, topic):
    source = topic("in", 2)
    produce(source, [{"value": b"%d" % n, "partition": n % 2} for n in range(20)])
    frame = read(source)
    assert frame.where("offset < 3 and partition = 1").count() == 3
    assert frame.count() == 20


def test_an_error_is_one_line_and_not_a_traceback(read, configured, produce, topic):
    with pytest.raises(Exception, match="there is no topic missing on") as caught:
        read("missing").collect()
    assert "Traceback" not in str(caught.value)
    assert "File " not in str(caught.value)
