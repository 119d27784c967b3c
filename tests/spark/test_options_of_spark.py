"""Every option of Spark's Kafka source and sink, tried with both formats: `kafka` and `penstock`.

Each works as there, or is refused with what to do instead, or why it is of no use.
"""

import itertools
import re
import uuid
from typing import NamedTuple

import pytest
from confluent_kafka import Producer

from penstock.spark import register
from tests.conftest import create_topic
from tests.integration.reading import read_topic

PROVIDER = "org.apache.spark.sql.kafka010.KafkaSourceProvider$"
COLUMNS = "key", "value", "topic", "partition", "offset", "timestamp", "timestampType"
START = 1_700_000_000_000
RECORDS = 12
"""In two partitions, one each millisecond."""


class Option(NamedTuple):
    """What becomes of an option.

    Attributes:
        name: Its name, as it is documented.
        value: A value; `TOPIC` is the topic.
        hint: What our error says; empty if the option is taken.
        is_refused_there: Whether Spark's own format refuses it, too.
        more: Other options.
    """

    name: str
    value: str
    hint: str = ""
    is_refused_there: bool = False
    more: dict[str, str] = {}


SUBSCRIBED = {"subscribe": "TOPIC"}
OF_SOURCE = [
    Option("subscribe", "TOPIC"),
    Option("subscribe", "TOPIC,TOPIC"),
    Option("subscribe", "TOPIC-not-there", "there is no topic", is_refused_there=True),
    Option("subscribePattern", "^TOPIC$"),
    Option("subscribePattern", "TOPIC"),
    Option("subscribePattern", "^options"),
    Option("subscribePattern", "(", "subscribePattern \\(: ", is_refused_there=True),
    Option("assign", '{"TOPIC": [1]}', "name topics with subscribe"),
    *(
        Option(name, value, more=SUBSCRIBED)
        for name, value in [
            ("startingOffsets", "earliest"), ("startingOffsets", '{"TOPIC": {"0": 2, "1": -2}}'),
            ("STARTINGOFFSETS", "Earliest"), ("endingOffsets", "latest"),
            ("endingOffsets", '{"TOPIC": {"0": 2, "1": -1}}'), ("endingOffsets", '{"TOPIC": {"0": 2, "1": 0}}'),
            ("startingTimestamp", f"{START + 4}"), ("endingTimestamp", f"{START + 4}"),
            ("endingTimestamp", f"{START + 999}"), ("startingTimestamp", f"{START - 5}"),
            ("failOnDataLoss", "false"), ("failOnDataLoss", "TRUE"), ("minPartitions", "5"),
            ("maxOffsetsPerTrigger", "1"), ("includeHeaders", "true"), ("kafka.client.id", "me"),
            ("kafka.isolation.level", "read_committed"), ("kafka.max.poll.records", "3"),
            ("kafka.receive.buffer.bytes", "70000"), ("kafka.fetch.max.bytes", "100000"),
            ("kafka.key.serializer", "any"),
        ]
    ),
    Option("startingOffsets", "latest", r"latest \(-1\)", is_refused_there=True, more=SUBSCRIBED),
    Option("startingOffsets", '{"TOPIC": {"0": 2, "1": -1}}', r"latest \(-1\)", is_refused_there=True,
           more=SUBSCRIBED),
    Option("startingOffsets", '{"TOPIC": {"0": 2}}', "TOPIC-1 is left out", is_refused_there=True,
           more=SUBSCRIBED),
    Option("endingOffsets", "earliest", r"earliest \(-2\)", is_refused_there=True, more=SUBSCRIBED),
    Option("endingOffsets", '{"TOPIC": {"0": -2, "1": 2}}', r"earliest \(-2\)", is_refused_there=True,
           more=SUBSCRIBED),
    Option("endingOffsets", '{"TOPIC": {"0": 1, "1": 2}}', "TOPIC-0 starts at offset 3, after its end 1",
           is_refused_there=True, more=SUBSCRIBED | {"startingOffsets": '{"TOPIC": {"0": 3, "1": 0}}'}),
    Option("endingTimestamp", f"{START + 2}", "TOPIC-0 starts at offset 3, after its end 1",
           is_refused_there=True, more=SUBSCRIBED | {"startingTimestamp": f"{START + 6}"}),
    Option("startingTimestamp", f"{START + 11}", "has no record since then", is_refused_there=True,
           more=SUBSCRIBED),
    Option("startingOffsetsByTimestampStrategy", "latest",
           more=SUBSCRIBED | {"startingTimestamp": f"{START + 11}"}),
    Option("startingOffsetsByTimestampStrategy", "no", "error or latest", is_refused_there=True,
           more=SUBSCRIBED | {"startingTimestamp": f"{START + 11}"}),
    Option("startingOffsetsByTimestamp", f'{{"TOPIC": {{"0": {START + 4}, "1": {START}}}}}',
           "use startingTimestamp", more=SUBSCRIBED),
    Option("endingOffsetsByTimestamp", f'{{"TOPIC": {{"0": {START + 4}, "1": {START}}}}}',
           "use endingTimestamp", more=SUBSCRIBED),
    Option("includeHeaders", "no", "includeHeaders no: true or false", is_refused_there=True,
           more=SUBSCRIBED),
    Option("minPartitions", "0", "minPartitions 0: ", is_refused_there=True, more=SUBSCRIBED),
    Option("maxRecordsPerPartition", "3", "use minPartitions", more=SUBSCRIBED),
    Option("minOffsetsPerTrigger", "3", "use a longer trigger", more=SUBSCRIBED),
    Option("maxTriggerDelay", "3m", "use a longer trigger", more=SUBSCRIBED),
    Option("groupIdPrefix", "me", "no consumer group is used", more=SUBSCRIBED),
    Option("kafkaConsumer.pollTimeoutMs", "9000", "use kafka.request.timeout.ms", more=SUBSCRIBED),
    Option("fetchOffset.numRetries", "3", "use kafka.default.api.timeout.ms", more=SUBSCRIBED),
    Option("fetchOffset.retryIntervalMs", "10", "use kafka.retry.backoff.ms", more=SUBSCRIBED),
    Option("includeTimestamp", "true", "timestamp is always a column", more=SUBSCRIBED),
    Option("startingOffset", "earliest", "startingOffsets is near it", more=SUBSCRIBED),
    Option("topic", "TOPIC", "has no option topic", more=SUBSCRIBED),
    Option("kafka.group.id", "mine", "no consumer group is used", more=SUBSCRIBED),
    *(
        Option(f"kafka.{key}", value, f"no option kafka.{key}: ", True, more=SUBSCRIBED)
        for key, value in [
            ("auto.offset.reset", "earliest"), ("enable.auto.commit", "false"),
            ("interceptor.classes", "any"),
            ("key.deserializer", "org.apache.kafka.common.serialization.StringDeserializer"),
            ("value.deserializer", "org.apache.kafka.common.serialization.StringDeserializer"),
        ]
    ),
    Option("kafka.isolation.level", "read_uncommitted", "only read_committed", more=SUBSCRIBED),
]  # fmt: skip
TARGETED = {"topic": "TOPIC"}
# By default, Kafka's Java producer waits 60 s for a topic, and 120 s to send.
IMPATIENT = {
    "kafka.max.block.ms": "1000",
    "kafka.delivery.timeout.ms": "3000",
    "kafka.request.timeout.ms": "2000",
}
OF_SINK = [
    Option("topic", "TOPIC"),
    Option("topic", "TOPIC-not-there", "topic TOPIC-not-there, the target: there is no topic",
           is_refused_there=True, more=IMPATIENT),
    Option("topic", "TOPIC,TOPIC", "topic TOPIC,TOPIC, the target: there is no topic", is_refused_there=True),
    Option("topic", "options*", r"topic options\*, the target: there is no topic",
           is_refused_there=True),
    *(
        Option(name, value, more=TARGETED)
        for name, value in [
            ("kafka.client.id", "me"), ("kafka.compression.type", "zstd"), ("kafka.acks", "all"),
            ("kafka.linger.ms", "1"), ("KAFKA.batch.size", "1000"), ("checkpointLocation", "any"),
        ]
    ),
    Option("kafka.compression.type", "best", "one of none, gzip", is_refused_there=True,
           more=TARGETED),
    Option("includeHeaders", "true", "headers are written if the frame has the column",
           more=TARGETED),
    Option("kafka.key.serializer", "org.apache.kafka.common.serialization.StringSerializer",
           "keys are bytes or text", is_refused_there=True, more=TARGETED),
    Option("kafka.value.serializer", "org.apache.kafka.common.serialization.StringSerializer",
           "values are bytes or text", is_refused_there=True, more=TARGETED),
    Option("kafka.enable.idempotence", "true", "each row is written once", more=TARGETED),
    Option("kafka.transactional.id", "mine", "use job", is_refused_there=True,
           more=TARGETED | IMPATIENT),
    Option("kafka.interceptor.classes", "", "interceptors of the file's plan", more=TARGETED),
    Option("topik", "TOPIC", "topic is near it", more=TARGETED),
]  # fmt: skip


def numbered(options):
    """Return parameters with different ids."""
    return [
        pytest.param(option, id=f"{number}-{option.name}") for number, option in enumerate(options)
    ]


@pytest.fixture(scope="module")
def filled(kafka, admin):
    """A topic with records in two partitions, one each millisecond."""
    name = f"options-{uuid.uuid4().hex[:8]}"
    create_topic(admin, name, 2)
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    for number in range(RECORDS):
        producer.produce(name, b"v%d" % number, None if number % 3 else b"k", number % 2,
                         timestamp=START + number, headers=[("h", b"%d" % number)])  # fmt: skip
    assert producer.flush(60) == 0
    return name


def options_of(option, topic, kafka):
    given = {"kafka.bootstrap.servers": kafka.bootstrap_servers, **option.more}
    given[option.name] = option.value
    return {key: value.replace("TOPIC", topic) for key, value in given.items()}


def outcome(work):
    """Return what work returns, or None and the text of its error."""
    try:
        return work(), ""
    except Exception as error:
        assert "Traceback" not in str(error)
        return None, str(error)


@pytest.mark.cases(12)
@pytest.mark.parametrize("option", numbered(OF_SOURCE))
def test_an_option_of_the_source(spark, kafka, filled, option):
    register(spark)
    given = options_of(option, filled, kafka)

    def read(name):
        frame = spark.read.format(name).options(**given).load()
        columns = [*COLUMNS, *(["headers"] if given.get("includeHeaders") == "true" else [])]
        return sorted(frame.select(*columns).collect(), key=lambda row: row[2:5])

    theirs, there = outcome(lambda: read("kafka"))
    ours, here = outcome(lambda: read("penstock"))
    compare(option, filled, (theirs, there), (ours, here))


def compare(option, topic, theirs, ours):
    rows, text = ours
    assert (theirs[0] is None) == option.is_refused_there, theirs[1]
    if not option.hint:
        assert rows == theirs[0], text
        return
    assert rows is None
    assert re.search(option.hint.replace("TOPIC", topic), text), text[:500]


def test_all_options_of_spark_are_tried(spark):
    """By the names in its own class."""
    loaded = spark._jvm.org.apache.spark.util.Utils.classForName(PROVIDER, True, False)
    found = set()
    for field in loaded.getDeclaredFields():
        field.setAccessible(True)
        value = field.get(None)
        if isinstance(value, str):
            found.add(value.lower())
    values = {"15m", "_mocksystemtime"}
    options = {name for name in found - values if " " not in name and "org.apache" not in name}
    assert {"subscribe", "topic", "minpartitions"} < options
    tried = {option.name.lower() for option in itertools.chain(OF_SOURCE, OF_SINK)}
    assert options <= tried


@pytest.mark.cases(6)
@pytest.mark.parametrize("option", numbered(OF_SINK))
def test_an_option_of_the_sink(spark, kafka, topic, option):
    register(spark)
    frame = spark.sql(
        "SELECT 'k' AS key, X'00ff' AS value, array(named_struct('key', 'h', 'value', X'01')) "
        "AS headers, 1 AS partition"
    )

    def write(name):
        target = topic("sunk", 2)
        given = options_of(option, target, kafka)
        frame.write.format(name).mode("append").options(**given).save()
        found = read_topic(kafka.bootstrap_servers, target, isolation="read_committed")
        return [(*record[:3], record[3]) for record in found]

    theirs = outcome(lambda: write("kafka"))
    ours = outcome(lambda: write("penstock"))
    compare(option, "sunk-[0-9a-f]+", theirs, ours)


def test_a_table_and_a_view(spark, kafka, filled):
    """Spark passes the options of a table of its catalog to no reader in Python."""
    register(spark)

    def count(kind, form):
        name = f"options_{uuid.uuid4().hex}"
        spark.sql(
            f"CREATE {kind} {name} USING {form} OPTIONS (subscribe '{filled}', "
            f"`kafka.bootstrap.servers` '{kafka.bootstrap_servers}')"
        )
        try:
            return spark.table(name).count()
        finally:
            spark.sql(f"DROP {kind.rpartition(' ')[2]} {name}")

    assert count("TEMPORARY VIEW", "kafka") == count("TEMPORARY VIEW", "penstock") == RECORDS
    assert "use CREATE TEMPORARY VIEW" in outcome(lambda: count("TABLE", "penstock"))[1]


def test_columns_of_the_sink_in_any_case_and_never_twice(spark, kafka, topic):
    """Spark's Kafka sink takes them in lower case only, and ignores others, such as `Key`."""
    register(spark)
    target = topic("sunk")

    def write(form, **columns):
        frame = spark.range(1).selectExpr(
            *(f"'{text}' AS {name}" for name, text in columns.items())
        )
        options = {"kafka.bootstrap.servers": kafka.bootstrap_servers, "topic": target}
        frame.write.format(form).mode("append").options(**options).save()

    def stored():
        found = read_topic(kafka.bootstrap_servers, target, isolation="read_committed")
        return [record[1:3] for record in found]

    assert "Required attribute 'value' not found" in outcome(lambda: write("kafka", VALUE="v"))[1]
    write("kafka", value="w", Key="k")
    assert stored() == [(None, b"w")]
    write("penstock", VALUE="v", Key="k")
    assert stored() == [(None, b"w"), (b"k", b"v")]
    error = outcome(lambda: write("penstock", VALUE="v", value="w"))[1]
    assert "the frame has two columns value" in error
