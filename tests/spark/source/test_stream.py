"""`readStream.format("penstock")`: bounded micro-batches, each record once, through a restart."""

import json
from types import SimpleNamespace
from uuid import UUID

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.cimpl import NewPartitions
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from penstock.jobs.tasks.planning import Sizes
from penstock.kafka.cluster.errors import ClusterError
from penstock.kafka.cluster.offsets import Topic
from penstock.kafka.cluster.ranges import Partition
from penstock.spark import register, split
from penstock.spark.source.bounds import EARLIEST, LATEST
from penstock.spark.source.reading import SourceError, SourceReading
from penstock.spark.source.stream import StreamReader, from_json, to_json

pytestmark = pytest.mark.slow


def test_an_offset_keeps_ids_and_every_partition():
    topics = (Topic("a", UUID(int=1), (0, 11)), Topic("b", UUID(int=2), (0,)))
    offsets = {Partition("a", 0): 5, Partition("a", 11): 2**60, Partition("b", 0): 0}
    kept = to_json(offsets, topics)
    assert kept["a"] == {"id": str(UUID(int=1)), "offsets": {"0": 5, "11": 2**60}}
    assert from_json(kept) == offsets


ONE, TWO = Topic("a", UUID(int=1), (0, 1)), Topic("b", UUID(int=2), (0,))
A0, A1, B0 = Partition("a", 0), Partition("a", 1), Partition("b", 0)


class Log:
    """A cluster with some topics, and what of its client's options a stream looks at."""

    def __init__(self, *topics, first=0, ends):
        self.described, self.first, self.ends, self.requests = topics, first, ends, 0
        self.cluster = self

        self.options = SimpleNamespace(fails_on_loss=True, fails_on_deletion=True, tasks=None)

    def topics(self):
        return self.described

    topics_left = topics

    def subscribes(self, name):
        return name in {"a", "b"}

    def missing(self, names):
        return set(names) - {topic.name for topic in self.described}

    def sizes(self, _):
        return Sizes()

    def first_offsets(self, topics):
        return dict.fromkeys(self.end_offsets(topics), self.first)

    def end_offsets(self, _):
        self.requests += 1
        return self.ends(self.requests) if callable(self.ends) else self.ends


def reader(log, *, fails_on_loss=True, fails_on_deletion=True):
    log.options.fails_on_loss = fails_on_loss
    log.options.fails_on_deletion = fails_on_deletion and fails_on_loss
    return StreamReader(log, SourceReading(None, None, ("value",), fails_on_loss))


@pytest.mark.unit
def test_a_micro_batch_has_a_share_of_each_partition():
    log = Log(ONE, ends={A0: 100, A1: 1100})
    start = to_json({A0: 0, A1: 100}, [ONE])
    end = from_json(reader(log).latestOffset(start, ReadMaxRows(110)))
    assert end == {A0: 10, A1: 200}
    assert from_json(reader(log).latestOffset(start, ReadAllAvailable())) == log.ends


@pytest.mark.unit
def test_a_new_partition_begins_at_its_first_offset():
    log = Log(ONE, TWO, first=7, ends={A0: 9, A1: 9, B0: 7})
    end = reader(log).latestOffset(to_json({A0: 9}, [ONE]), ReadMaxRows(1))
    assert from_json(end) == {A0: 9, A1: 8, B0: 7}
    assert end["b"]["id"] == str(TWO.topic_id)


@pytest.mark.unit
def test_nothing_after_the_start_of_the_query_is_read_with_available_now():
    log = Log(ONE, ends={A0: 5, A1: 5})
    batch = reader(log)
    batch.prepareForTriggerAvailableNow()
    log.ends, log.described = {A0: 50, A1: 50, B0: 50}, (ONE, TWO)
    start = to_json({A0: 0, A1: 0}, [ONE])
    found = from_json(batch.latestOffset(start, ReadAllAvailable()))
    assert (found[A0], found[A1], found.get(B0)) == (5, 5, 0)


@pytest.mark.unit
def test_a_shorter_log_is_requested_again_and_then_an_error(monkeypatch):
    monkeypatch.setattr("time.sleep", lambda _: None)
    start = to_json({A0: 5, A1: 0}, [ONE])
    late = Log(ONE, ends=lambda request: {A0: 2 if request < 3 else 6, A1: 0})
    assert from_json(reader(late).latestOffset(start, ReadAllAvailable())) == {A0: 6, A1: 0}
    cut = Log(ONE, ends={A0: 2, A1: 0})
    with pytest.raises(SourceError, match="a-0: the log ends at offset 2, before 5"):
        reader(cut).latestOffset(start, ReadAllAvailable())


@pytest.mark.unit
def test_a_shorter_log_is_requested_again_with_available_now(monkeypatch):
    """`split --streaming --every` starts such a query at each interval."""
    monkeypatch.setattr("time.sleep", lambda _: None)
    start = to_json({A0: 5, A1: 0}, [ONE])
    late = reader(Log(ONE, ends=lambda request: {A0: 2 if request < 3 else 6, A1: request}))
    late.prepareForTriggerAvailableNow()
    found = from_json(late.latestOffset(start, ReadAllAvailable()))
    assert found == {A0: 6, A1: 1}
    assert from_json(late.latestOffset(to_json(found, [ONE]), ReadAllAvailable())) == found
    cut = reader(Log(ONE, ends={A0: 2, A1: 0}))
    cut.prepareForTriggerAvailableNow()
    with pytest.raises(SourceError, match="a-0: the log ends at offset 2, before 5"):
        cut.latestOffset(start, ReadAllAvailable())


@pytest.mark.unit
def test_a_topic_that_was_deleted():
    log = Log(ONE, ends={A0: 5, A1: 5})
    start = to_json({A0: 0, A1: 0, B0: 3}, [ONE, TWO])
    with pytest.raises(SourceError, match="topic b was deleted; with failOnDeletedTopic=false"):
        reader(log).latestOffset(start, ReadAllAvailable())
    for lenient in ({"fails_on_loss": False}, {"fails_on_deletion": False}):
        found = reader(log, **lenient).latestOffset(start, ReadAllAvailable())
        assert from_json(found) == {A0: 5, A1: 5, B0: 3}


@pytest.mark.unit
def test_a_topic_that_is_not_subscribed_to_any_more_is_not_called_deleted():
    log = Log(ONE, ends={A0: 5, A1: 5})
    log.missing, log.subscribes = (lambda _: set()), (lambda name: name == "a")
    start = to_json({A0: 0, A1: 0, B0: 3}, [ONE, TWO])
    with pytest.raises(SourceError, match="topic b is in the checkpoint, and is not subscribed to"):
        reader(log, fails_on_deletion=False).latestOffset(start, ReadAllAvailable())


@pytest.mark.unit
@pytest.mark.parametrize("fails_on_deletion", [False, True])
def test_a_planned_micro_batch_does_not_read_a_topic_without_its_policies(fails_on_deletion):
    """They are those of the topics that are subscribed to."""
    log = Log(ONE, ends={A0: 5, A1: 5})
    log.missing, log.subscribes = (lambda _: set()), (lambda name: name == "a")
    start, end = to_json({A0: 5, A1: 5, B0: 3}, [ONE, TWO]), to_json({A0: 5, B0: 7}, [ONE, TWO])
    with pytest.raises(SourceError, match="topic b is in the checkpoint, and is not subscribed to"):
        reader(log, fails_on_deletion=fails_on_deletion).partitions(start, end)
    assert reader(log, fails_on_deletion=fails_on_deletion).partitions(start, start) == []


@pytest.mark.unit
def test_a_topic_that_a_broker_does_not_list_for_a_moment_keeps_its_position():
    log = Log(ONE, ends={A0: 5, A1: 5})
    log.missing = lambda _: set()
    start = to_json({A0: 0, A1: 0, B0: 3}, [ONE, TWO])
    found = reader(log, fails_on_deletion=False).latestOffset(start, ReadAllAvailable())
    assert from_json(found) == {A0: 5, A1: 5, B0: 3}


@pytest.mark.unit
@pytest.mark.parametrize("missing_for", [0, 3, 9])
def test_a_micro_batch_that_was_planned_is_read_without_a_deleted_topic(monkeypatch, missing_for):
    """A broker may not know a topic for a moment: it is not deleted then."""
    requests = []
    monkeypatch.setattr("time.sleep", lambda _: None)
    log = Log(ONE, TWO, ends={A0: 5, A1: 5, B0: 7})

    def missing(names):
        requests.append(names)
        return set(names) - {"a"} if len(requests) <= missing_for else set()

    log.missing = missing
    start, end = to_json({A0: 0, A1: 5, B0: 3}, [ONE, TWO]), to_json(log.ends, [ONE, TWO])
    tasks = reader(log, fails_on_deletion=False).partitions(start, end)
    read = {(found.topic, found.partition) for task in tasks for found in task.ranges}
    assert read == ({A0} if missing_for == 9 else {A0, B0})


def is_denied(_):
    raise ClusterError("Topic authorization failed")


@pytest.mark.unit
def test_a_topic_that_the_principal_may_not_describe_is_not_deleted(monkeypatch):
    """The end of its micro-batch would be committed, and its records be skipped."""
    monkeypatch.setattr("time.sleep", lambda _: None)
    log = Log(ONE, ends={A0: 5, A1: 5})
    log.missing = is_denied
    start, end = to_json({A0: 0, A1: 5, B0: 3}, [ONE, TWO]), to_json({A0: 5, B0: 7}, [ONE, TWO])
    with pytest.raises(ClusterError, match="authorization"):
        reader(log, fails_on_deletion=False).partitions(start, end)
    with pytest.raises(ClusterError, match="authorization"):
        reader(log, fails_on_deletion=False).latestOffset(start, ReadAllAvailable())


@pytest.mark.unit
@pytest.mark.parametrize("restarted", [False, True])
def test_the_position_in_a_topic_is_kept_before_pyspark_4_2(monkeypatch, restarted):
    """Spark does not say where a micro-batch starts: a topic that returns is not read again."""
    monkeypatch.setattr("time.sleep", lambda _: None)
    monkeypatch.setattr("penstock.spark.source.stream.BOUNDS_BATCHES", False)
    log = Log(ONE, TWO, ends={A0: 5, A1: 5, B0: 7})
    stream, begun = reader(log, fails_on_deletion=False), to_json({A0: 0, A1: 0, B0: 0}, [ONE, TWO])
    kept = stream.latestOffset()
    stream.partitions(begun, kept)
    if restarted:
        stream = reader(log, fails_on_deletion=False)
    log.described, log.ends = (ONE,), {A0: 6, A1: 5}
    log.missing = lambda _: set()
    end = stream.latestOffset()
    log.described, log.ends = (ONE, TWO), {A0: 6, A1: 5, B0: 7}
    if restarted:
        with pytest.raises(SourceError, match="topic b was not described when a micro-batch was"):
            stream.partitions(kept, end)
    else:
        [task] = stream.partitions(kept, end)
        assert [(found.topic, found.partition) for found in task.ranges] == [A0]
        assert from_json(end) == log.ends


@pytest.mark.unit
def test_a_deleted_topic_leaves_a_checkpoint_before_pyspark_4_2(monkeypatch):
    monkeypatch.setattr("time.sleep", lambda _: None)
    monkeypatch.setattr("penstock.spark.source.stream.BOUNDS_BATCHES", False)
    log = Log(ONE, ends={A0: 5, A1: 5})
    stream = reader(log, fails_on_deletion=False)
    end = stream.latestOffset()
    [task] = stream.partitions(to_json({A0: 0, A1: 5, B0: 7}, [ONE, TWO]), end)
    assert [(found.topic, found.partition) for found in task.ranges] == [A0]


@pytest.mark.unit
def test_the_first_micro_batch_is_read_without_a_topic_that_was_deleted_since(monkeypatch):
    """A stream that was interrupted in it begins again where its topics of now do."""
    monkeypatch.setattr("time.sleep", lambda _: None)
    log = Log(ONE, ends={A0: 5, A1: 5})
    start, end = to_json({A0: 0, A1: 5}, [ONE]), to_json({A0: 5, A1: 5, B0: 7}, [ONE, TWO])
    [task] = reader(log, fails_on_deletion=False).partitions(start, end)
    assert [(found.topic, found.partition) for found in task.ranges] == [A0]


def read_by(stream, start, end):
    """Return the offsets that the tasks of a micro-batch read, by partition."""
    found = [part for task in stream.partitions(start, end) for part in task.ranges]
    return {Partition(part.topic, part.partition): (part.first, part.end) for part in found}


@pytest.mark.unit
@pytest.mark.parametrize("option", [EARLIEST, LATEST])
def test_a_repeated_first_micro_batch_begins_where_it_was_planned(option):
    """Spark keeps only its end, and calls a new reader for the beginning of the stream."""
    log = Log(ONE, TWO, first=3, ends={A0: 5, A1: 3, B0: 9})
    log.options.start = option
    begun = dict.fromkeys(log.ends, 3) if option is EARLIEST else dict(log.ends)
    planned = reader(log).initialOffset()
    log.ends = {A0: 8, A1: 4, B0: 9}
    end = reader(log).latestOffset(planned, ReadAllAvailable())
    assert from_json(end) == log.ends
    log.first, ends, log.ends = 4, log.ends, {A0: 20, A1: 20, B0: 20}
    stream = reader(log)
    wanted = {of: (begun[of], ends[of]) for of in begun if begun[of] < ends[of]}
    assert read_by(stream, stream.initialOffset(), end) == wanted
    after = stream.latestOffset(end, ReadAllAvailable())
    assert read_by(stream, end, after) == {of: (ends[of], 20) for of in ends}
    assert after == to_json(log.ends, [ONE, TWO])


@pytest.mark.unit
def test_a_partition_that_is_new_in_the_first_micro_batch_keeps_its_beginning():
    """Such as all of them, where no topic matched the pattern at first."""
    log = Log(first=2, ends={})
    log.options.start = LATEST
    planned = reader(log).initialOffset()
    log.described, log.ends = (TWO,), {B0: 6}
    end = reader(log).latestOffset(planned, ReadAllAvailable())
    log.ends = {B0: 7}
    stream = reader(log)
    assert read_by(stream, stream.initialOffset(), end) == {B0: (2, 6)}


@pytest.mark.unit
def test_without_new_records_the_offset_of_a_stream_does_not_change():
    """Otherwise Spark would run an empty micro-batch."""
    log = Log(ONE, first=3, ends={A0: 5, A1: 4})
    log.options.start = EARLIEST
    stream = reader(log)
    start = stream.initialOffset()
    end = stream.latestOffset(start, ReadAllAvailable())
    assert json.dumps(stream.latestOffset(end, ReadAllAvailable())) == json.dumps(end)


def before_pyspark_4_2(monkeypatch):
    """Return a reader that begins at the first offsets, and its log."""
    monkeypatch.setattr("penstock.spark.source.stream.BOUNDS_BATCHES", False)
    log = Log(ONE, first=3, ends={A0: 5, A1: 4})
    log.options.start, log.options.batch_offsets = EARLIEST, None
    return reader(log), log


@pytest.mark.unit
def test_a_first_micro_batch_may_end_before_the_last_known_end_before_pyspark_4_2(monkeypatch):
    """Spark's wrapper for Trigger.AvailableNow keeps the first end, and looks for later ends."""
    stream, log = before_pyspark_4_2(monkeypatch)
    end = stream.latestOffset()
    start = stream.initialOffset()
    log.ends = {A0: 6, A1: 4}
    stream.latestOffset()
    assert read_by(stream, start, end) == {A0: (3, 5), A1: (3, 4)}


@pytest.mark.unit
def test_a_repeated_first_micro_batch_is_an_error_before_pyspark_4_2(monkeypatch):
    """Its end is all that the checkpoint has: nobody knows where it began."""
    stream, log = before_pyspark_4_2(monkeypatch)
    end = stream.latestOffset()
    assert read_by(stream, stream.initialOffset(), end) == {A0: (3, 5), A1: (3, 4)}
    repeated = reader(log)
    with pytest.raises(SourceError, match="the first micro-batch was interrupted"):
        repeated.partitions(repeated.initialOffset(), end)
    later = reader(log)
    log.ends = {A0: 6, A1: 4}
    assert read_by(later, end, later.latestOffset()) == {A0: (5, 6)}


@pytest.mark.unit
def test_another_topic_of_the_same_name():
    log = Log(Topic("a", UUID(int=9), (0, 1)), ends={A0: 5, A1: 5})
    with pytest.raises(SourceError, match="deleted and created again"):
        reader(log).latestOffset(to_json({A0: 0}, [ONE]), ReadAllAvailable())


@pytest.fixture
def stream(spark, kafka, tmp_path):
    """Runs a stream up to the current end; returns its micro-batches as lists of rows."""
    register(spark)

    def run(topic, plan=None, *, each=None, **options):
        batches = []

        def take(frame, _):
            batches.append(each(frame) if each else frame.collect())

        reader = spark.readStream.format("penstock").options(**options)
        reader = reader.option("kafka.bootstrap.servers", kafka.bootstrap_servers)
        if "subscribePattern" not in options:
            reader = reader.option("subscribe", topic)
        if plan is not None:
            reader = reader.option("plan", str(plan))
        writer = reader.load().writeStream.foreachBatch(take).trigger(availableNow=True)
        query = writer.option("checkpointLocation", str(tmp_path / "place")).start()
        try:
            assert query.awaitTermination(300)
        finally:
            query.stop()
        return batches

    return run


def values(batches):
    return sorted(int(row.value) for batch in batches for row in batch)


def numbered(start, end, partitions=2):
    return [{"value": b"%d" % n, "partition": n % partitions} for n in range(start, end)]


def test_micro_batches_are_bounded_and_continue_at_their_end(stream, produce, topic, configured):
    source, file = topic("in", 2), configured()
    produce(source, numbered(0, 100))
    start = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "30"}
    first = stream(source, file, **start)
    assert values(first) == list(range(100))
    assert max(map(len, first)) <= 32
    assert len(first) >= 4
    assert {row.verdict.outcome for batch in first for row in batch} == {"accepted"}
    assert values(stream(source, file, **start)) == []
    produce(source, numbered(100, 110))
    assert values(stream(source, file, **start)) == list(range(100, 110))


def test_a_new_stream_starts_at_the_end(stream, produce, topic):
    source = topic("in", 2)
    produce(source, numbered(0, 10))
    assert values(stream(source)) == []
    produce(source, numbered(10, 13))
    assert values(stream(source)) == [10, 11, 12]


def test_new_partitions_and_topics_are_read_from_their_beginning(
    stream, produce, topic, admin, wait
):
    source = topic("grows", 1)
    pattern = {"subscribePattern": f"{source}.*", "startingOffsets": "earliest"}
    produce(source, numbered(0, 5, 1))
    assert values(stream(None, **pattern)) == list(range(5))
    for future in admin.create_partitions([NewPartitions(source, 2)]).values():
        future.result(30)
    other = topic(f"{source}-other", 1)
    wait(lambda: len(admin.list_topics(source).topics[source].partitions) == 2)
    produce(source, [{"value": b"5", "partition": 1}])
    produce(other, [{"value": b"6"}])
    assert values(stream(None, **pattern)) == [5, 6]


def test_a_recreated_topic_ends_the_stream(stream, produce, topic, admin):
    from tests.conftest import create_topic, delete_topic

    source = topic("in")
    produce(source, numbered(0, 5, 1))
    stream(source, startingOffsets="earliest")
    delete_topic(admin, source)
    create_topic(admin, source)
    produce(source, numbered(0, 20, 1))
    with pytest.raises(Exception, match="was deleted and created again"):
        stream(source, startingOffsets="earliest")


def test_records_removed_between_two_runs(stream, produce, topic, admin):
    source = topic("in")
    produce(source, numbered(0, 5, 1))
    stream(source, startingOffsets="earliest")
    produce(source, numbered(5, 20, 1))
    for future in admin.delete_records([TopicPartition(source, 0, 12)]).values():
        future.result(30)
    with pytest.raises(Exception, match="the offsets from 5 up to 12 were removed"):
        stream(source)
    assert values(stream(source, failOnDataLoss="false")) == list(range(12, 20))


def test_a_repeated_first_micro_batch_does_not_skip_what_was_removed(stream, produce, topic, admin):
    source = topic("in")
    produce(source, numbered(0, 5, 1))

    def fails(_):
        raise RuntimeError("the first attempt")

    with pytest.raises(Exception, match="the first attempt"):
        stream(source, each=fails, startingOffsets="earliest")
    for future in admin.delete_records([TopicPartition(source, 0, 2)]).values():
        future.result(30)
    produce(source, numbered(5, 9, 1))
    with pytest.raises(Exception, match="the offsets from 0 up to 2 were removed"):
        stream(source, startingOffsets="earliest")
    rest = stream(source, startingOffsets="latest", failOnDataLoss="false")
    assert values(rest) == list(range(2, 9))


def test_split_in_foreach_batch(stream, produce, topic, plan):
    source, loaded = topic("in"), plan()
    produce(source, [{"value": b"bad"}, {"value": b"good"}, {"value": b"bad"}])

    def each(frame):
        accepted, rejected = split(frame, loaded)
        return accepted.count(), rejected.count()

    assert stream(source, each=each, startingOffsets="earliest") == [(1, 2)]


def test_a_stream_has_no_end(stream, topic):
    with pytest.raises(Exception, match="a stream has no endingOffsets"):
        stream(topic("in"), endingOffsets="latest")


@pytest.fixture
def wait():
    """Waits until something is true."""
    from tests.gateways import wait_until

    return lambda condition: wait_until(condition, 60, what="the cluster")
