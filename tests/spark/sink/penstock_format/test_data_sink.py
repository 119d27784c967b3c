"""`df.write.format("penstock")`: accepted records are written once, also after retries."""

from collections import Counter
from types import SimpleNamespace

import pyarrow as pa
import pytest
from confluent_kafka import Producer
from pyspark import TaskContext

from penstock.engine.chain import RecordVerdicts
from penstock.engine.modes.dead_letters import Origin, read_origin
from penstock.engine.verdict import refused_record
from penstock.jobs.batches.targets import Target
from penstock.kafka.client.protocol.write_errors import RefusedBatchError
from penstock.kafka.client.writing.decisions import BatchId
from penstock.policy import Header
from penstock.spark import register
from penstock.spark.sink.penstock_format import data_sink
from penstock.spark.sink.penstock_format.data_sink import BatchSink
from penstock.spark.sink.penstock_format.task import AttemptResult
from penstock.spark.sink.rows import OutgoingRows
from tests.integration.reading import read_topic
from tests.limits import HANGS_S
from tests.spark.conftest import NO_BAD

REPAIR = {**NO_BAD, "produce.request.interceptors": "policies.Repair"}
COMMITTED = {"isolation": "read_committed"}


@pytest.fixture
def write(spark, kafka):
    """Writes a frame to a topic."""
    register(spark)

    def save(frame, topic, file=None, **options):
        writer = frame.write.format("penstock").mode("append").option("topic", topic)
        writer = writer.option("kafka.bootstrap.servers", kafka.bootstrap_servers)
        if file is not None:
            writer = writer.option("plan", str(file))
        writer.options(**options).save()

    return save


def values(kafka, topic):
    return Counter(record[2] for record in read_topic(kafka.bootstrap_servers, topic, **COMMITTED))


def test_accepted_records_are_written_with_key_headers_time_and_partition(
    write, rows, kafka, topic, configured
):
    target = topic("out", 3)
    frame = rows(
        {"value": b"a", "key": b"k", "headers": [("h", b"1"), ("h", None)], "partition": 4},
        {"value": None, "partition": 2},
        partitions=2,
    )
    write(frame, target, configured(), **{"kafka.compression.type": "zstd"})
    found = read_topic(kafka.bootstrap_servers, target, full=True, **COMMITTED)
    first, two = sorted(found, key=lambda record: record.partition())
    assert (first.key(), first.value(), first.partition()) == (b"k", b"a", 1)
    assert first.headers() == [("h", b"1"), ("h", None)]
    assert first.timestamp()[1] == 1_700_000_000_000
    assert (two.key(), two.value(), two.partition()) == (None, None, 2)


def test_a_key_goes_where_the_java_client_sends_it(write, spark, kafka, topic):
    ours, theirs = topic("out", 5), topic("out", 5)
    keys = [b"k%d" % n for n in range(200)]
    producer = Producer(
        {"bootstrap.servers": kafka.bootstrap_servers, "partitioner": "murmur2_random"}
    )
    for key in keys:
        producer.produce(theirs, b"", key)
    assert producer.flush(30) == 0
    write(spark.createDataFrame([(key, b"") for key in keys], "key binary, value binary"), ours)
    found = [
        {record[1]: record[0] for record in read_topic(kafka.bootstrap_servers, name, **COMMITTED)}
        for name in (ours, theirs)
    ]
    assert found[0] == found[1]
    assert len(found[0]) == 200


def test_texts_are_written_as_bytes_and_records_without_a_time_have_that_of_now(
    write, spark, kafka, topic
):
    target = topic("out")
    write(spark.createDataFrame([("k", "\xe4")], "key string, value string"), target)
    (record,) = read_topic(kafka.bootstrap_servers, target, full=True)
    assert (record.key(), record.value()) == (b"k", "\xe4".encode())
    assert record.timestamp()[1] > 1_700_000_100_000


def test_a_refused_record_fails_the_job_and_nothing_is_written(
    write, rows, kafka, topic, configured
):
    target = topic("out")
    with pytest.raises(Exception, match=r"refused by .*NoBad: 87 bad is not good; nothing of the"):
        write(rows(*[b"good"] * 50, b"bad", partitions=3), target, configured())
    assert not values(kafka, target)


@pytest.mark.cases(1)
@pytest.mark.parametrize("option", ["rejected", "errors.deadletterqueue.topic.name"])
def test_with_a_place_for_them_refused_records_become_dead_letters(
    write, rows, kafka, topic, configured, option
):
    target, dead = topic("out", 2), topic("dead")
    frame = rows(b"good", b"bad7", b"bad1", b"drop", {"value": b"fail", "headers": [("h", b"1")]})
    write(frame, target, configured(REPAIR), **{option: dead})
    assert values(kafka, target) == Counter([b"good", b"good1"])
    letters = {
        record[2]: record[3] for record in read_topic(kafka.bootstrap_servers, dead, **COMMITTED)
    }
    assert set(letters) == {b"bad7", b"fail"}
    headers = dict(letters[b"fail"])
    assert headers["h"] == b"1"
    assert headers["__penstock.outcome"] == b"failed"
    origin = read_origin([Header(*letter) for letter in letters[b"bad7"]], Origin("", 0, 0, 0))
    assert origin[:3] == ("t", 0, 1)


def test_a_named_job_is_written_once(write, rows, kafka, topic):
    target = topic("out")
    for _ in range(2):
        write(rows(b"one", b"two"), target, job="nightly")
    assert values(kafka, target) == Counter([b"one", b"two"])
    write(rows(b"one", b"two"), target, job="next")
    write(rows(b"one", b"two"), target)
    assert set(values(kafka, target).values()) == {3}


class Attempts:
    """Replaces the work of tasks: writes nothing, and returns the attempt."""

    def write(self, attempt, rows):
        assert not list(rows)
        return AttemptResult(attempt)


@pytest.mark.parametrize(
    ("properties", "batch"),
    [
        ({"sql.streaming.queryId": "q", "streaming.sql.batchId": "7"}, BatchId("q", 7)),
        ({}, BatchId("", 0)),
    ],
)
def test_a_frame_of_a_micro_batch_is_known_by_its_query_and_number(monkeypatch, properties, batch):
    context = object.__new__(TaskContext)
    context._localProperties, context._partitionId, context._attemptNumber = properties, 3, 1
    monkeypatch.setattr(TaskContext, "_taskContext", context)
    attempt = BatchSink(Attempts(), "orders").write(iter(())).written.attempt
    assert (attempt.job, attempt.batch, attempt.task, attempt.number) == ("orders", batch, 3, 1)


@pytest.mark.cases(2)
@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"topics": "x"}, "writes with no option topics; topic is near it"),
        ({"rejected": "missing-dead"}, "there is no topic missing-dead"),
        ({"kafka.compression.type": "lzo"}, "kafka.compression.type lzo: one of none, gzip"),
        ({"job": "a b"}, "job a b: must be letters"),
        ({"kafka.sasl.jaas.config": "secret"}, "a secret is not an option"),
    ],
)
def test_errors_are_raised_before_records_are_written(write, rows, topic, options, text):
    with pytest.raises(Exception, match=text) as caught:
        write(rows(b"x"), topic("out"), **options)
    assert "secret" not in str(caught.value).replace("a secret is not", "")


def test_a_column_that_cannot_be_written_is_named(write, spark, topic):
    frame = spark.createDataFrame([(b"v", 1)], "value binary, amount int")
    with pytest.raises(Exception, match="writes no column amount"):
        write(frame, topic("out"))
    with pytest.raises(Exception, match="has no column value"):
        write(frame.select("amount"), topic("out"))


@pytest.fixture
def stream(spark, kafka, configured, tmp_path):
    """Runs a stream from topic to topic until it has read all records."""
    register(spark)

    def run(source, target, file, place="place", **options):
        servers = {"kafka.bootstrap.servers": kafka.bootstrap_servers}
        query = (
            spark.readStream.format("penstock").option("subscribe", source).options(**servers)
            .option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", 20).load()
            .writeStream.format("penstock").options(**servers, **options)
            .option("plan", str(file)).option("topic", target)
            .option("checkpointLocation", str(tmp_path / place)).trigger(availableNow=True).start()
        )  # fmt: skip
        assert query.awaitTermination(HANGS_S)
        assert query.exception() is None

    return run


def records(numbers):
    return [
        {"value": b"%s %d" % (b"odd" if n % 10 == 0 else b"v", n), "partition": n % 3}
        for n in numbers
    ]


def forget_last_commit(checkpoint):
    """Remove Spark's last commit, as if the driver had ended before; return how many there were."""
    commits = sorted((checkpoint / "commits").glob("[0-9]*"), key=lambda entry: int(entry.name))
    commits[-1].unlink()
    (commits[-1].parent / f".{commits[-1].name}.crc").unlink(missing_ok=True)
    return len(commits)


@pytest.mark.slow
def test_a_stream_writes_each_record_once_through_restarts(
    stream, produce, kafka, topic, configured, tmp_path
):
    source, target, dead = topic("in", 3), topic("out", 2), topic("dead")
    file, options = configured(), {"rejected": dead}
    produce(source, records(range(60)))
    stream(source, target, file, **options)
    # A crash between the tasks' commit and Spark's: the last micro-batch is done, and repeated.
    batches = forget_last_commit(tmp_path / "place")
    stream(source, target, file, **options)
    produce(source, records(range(60, 100)))
    stream(source, target, file, **options)
    expected = Counter(record["value"] for record in records(range(100)))
    assert values(kafka, target) + values(kafka, dead) == expected
    assert set(values(kafka, dead)) == {b"odd %d" % n for n in range(0, 100, 10)}
    assert batches >= 3


@pytest.mark.slow
def test_a_stream_ends_at_a_refused_record_and_continues_with_another_plan(
    stream, produce, kafka, topic, configured
):
    source, target = topic("in", 3), topic("out", 2)
    produce(source, records(range(30)))
    with pytest.raises(Exception, match=r"refused by .*NoBad: 87 odd"):
        stream(source, target, configured())
    assert not values(kafka, target)
    stream(source, target, configured({}))
    assert values(kafka, target) == Counter(record["value"] for record in records(range(30)))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["orders-{}", "orders"])
def test_a_job_in_foreach_batch_writes_each_micro_batch_once_for_each_checkpoint(
    write, spark, produce, kafka, topic, tmp_path, name
):
    source, target = topic("in", 3), topic("out", 2)
    expected = Counter(record["value"] for record in records(range(60)))
    produce(source, records(range(60)))

    def run(place):
        stream = (
            spark.readStream.format("penstock").option("subscribe", source)
            .option("kafka.bootstrap.servers", kafka.bootstrap_servers)
            .option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", 20).load()
        )  # fmt: skip
        query = (
            stream.select("value", "partition").writeStream
            .foreachBatch(lambda frame, number: write(frame, target, job=name.format(number)))
            .option("checkpointLocation", str(tmp_path / place)).trigger(availableNow=True).start()
        )  # fmt: skip
        assert query.awaitTermination(HANGS_S)
        assert query.exception() is None

    run("place")
    assert values(kafka, target) == expected
    forget_last_commit(tmp_path / "place")
    run("place")
    assert values(kafka, target) == expected
    run("another place")  # a new query, whose numbers start again
    assert values(kafka, target) == expected + expected


@pytest.mark.unit
@pytest.mark.parametrize("header", [None, {"key": None, "value": b"1"}])
def test_a_header_without_a_key_is_reported_with_its_place(header):
    header_type = pa.struct([("key", pa.string()), ("value", pa.binary())])
    columns = {
        "value": pa.array([b"v"], pa.binary()),
        "topic": ["in"],
        "partition": pa.array([3], pa.int32()),
        "offset": pa.array([7], pa.int64()),
        "headers": pa.array([[header]], pa.list_(header_type)),
    }
    for judge in (None, lambda *_: RecordVerdicts([(0, refused_record("bad", "p"))], None)):
        letters = None if judge is None else Target("dead", 1, 1000)
        outgoing = OutgoingRows(Target("t", 1, 1000), letters, judge, codec=0)
        with pytest.raises(RefusedBatchError, match="from in, partition 3, offset 7 has a header"):
            list(outgoing.add(pa.RecordBatch.from_pydict(columns)))


@pytest.mark.parametrize(
    ("batch", "rejected", "line"),
    [
        (BatchId("", 0), None, "job: 5 accepted, 1 refused, 0 dropped, 0 failed; accepted in good"),
        (
            BatchId("q", 7),
            "dead",
            (
                "job, batch 7: 5 accepted, 1 refused, 0 dropped, 0 failed; accepted in good; "
                "dead letters in dead"
            ),
        ),
    ],
)
def test_the_log_of_the_driver_has_the_counts_of_a_batch(capsys, batch, rejected, line):
    attempt = SimpleNamespace(job="job", batch=batch)
    task = SimpleNamespace(
        accepted=SimpleNamespace(topic="good"),
        rejected=None if rejected is None else SimpleNamespace(topic=rejected),
    )
    results = [
        SimpleNamespace(attempt=attempt, counts=Counter(counts))
        for counts in ({"accepted": 2}, {"accepted": 3, "refused": 1})
    ]
    data_sink._report(task, results)
    data_sink._report(task, [SimpleNamespace(attempt=attempt, counts=Counter())])
    assert capsys.readouterr().err == f"penstock: {line}\n"
