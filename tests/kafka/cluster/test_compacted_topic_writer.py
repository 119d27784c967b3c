"""A compacted topic at a real broker: the producer fails, and writes get no response."""

import asyncio
import threading
import time
import uuid

import pytest
from kio.schema.errors import ErrorCode
from structlog.testing import capture_logs

from penstock.kafka.client.errors import BrokerUnreachableError
from penstock.kafka.cluster import compacted_topic, compacted_topic_writer
from penstock.kafka.cluster.compacted_topic import CompactedTopic
from penstock.kafka.cluster.compacted_topic_follower import LogFollower
from penstock.kafka.cluster.compacted_topic_writer import CompactedTopicWriter
from penstock.kafka.records.stored_batch import read_stored_batch
from tests.faults import REQUEST, Proxy
from tests.kafka.client.scripted import DUPLICATE, LOST, ScriptedConnection, records_of
from tests.kafka.client.scripted import PRODUCE as PRODUCE_API
from tests.refusals import PRODUCE, Rule

OUT_OF_ORDER = Rule(45)


@pytest.fixture(scope="module")
def proxy(kafka):
    with Proxy(kafka.bootstrap_servers) as running:
        yield running


def follower_of(proxy, tmp_path):
    topic = CompactedTopic(
        {"bootstrap.servers": proxy.address},
        f"state-{uuid.uuid4().hex[:8]}",
        tmp_path / "file",
        key="k",
        otherwise="o",
    )
    read = []
    return LogFollower(topic, lambda record: read.append((record.key, record.value))), read


async def write(follower, key, value):
    """Return the error of a write, or None."""
    ended = asyncio.get_running_loop().create_future()
    follower.write([(key, value)], lambda _, failure: ended.set_result(failure))
    return await asyncio.wait_for(ended, 60)


async def test_after_a_fatal_error_another_producer_writes(proxy, tmp_path):
    follower, read = follower_of(proxy, tmp_path)
    await follower.start(60)
    try:
        assert await write(follower, b"a", b"1") is None
        proxy.refuse(b"fatal", OUT_OF_ORDER).open()
        assert await write(follower, b"b", b"fatal") is not None
        for number in range(20):
            assert await write(follower, b"c", b"%d" % number) is None
        await follower.read_to_end(60)
        assert read == [(b"a", b"1"), *((b"c", b"%d" % number) for number in range(20))]
    finally:
        proxy.forget()
        await follower.close()


async def test_a_write_without_an_answer_fails_in_time(proxy, tmp_path, monkeypatch):
    """A deleted key shows as a probe that writes work again, without another write."""
    monkeypatch.setattr("penstock.kafka.cluster.compacted_topic_follower.WRITE_TIMEOUT_S", 0.5)
    follower, _ = follower_of(proxy, tmp_path)
    await follower.start(60)
    gate = proxy.gate(PRODUCE, REQUEST)
    try:
        for _ in range(2):
            assert "not written within" in (await write(follower, b"a", b"1") or "")
        assert follower.writes.late >= 2
        assert follower.topic in follower.writes.trouble
        proxy.open_all(deliver=True)
        async with asyncio.timeout(60):
            while follower.writes.trouble:
                await asyncio.sleep(0.05)
        assert follower.writes.written >= 1
    finally:
        gate.open()
        await follower.close()


@pytest.fixture
def broker():
    return ScriptedConnection(backoff_s=0.0, max_backoff_s=0.0)


@pytest.fixture
def writer(broker):
    return CompactedTopicWriter("t", broker)


def written(writer, *values):
    """Write records, each by itself, with one turn of the thread; return the results."""
    results = []
    for value in values:
        writer.append([(b"k", value)], lambda *result: results.append(result))
    writer._write_next(0)
    return results


def test_records_that_wait_are_written_together(writer, broker):
    broker.offset = 7
    assert written(writer, b"1", b"2", None) == [(8, None), (9, None), (10, None)]
    [batch] = broker.logs["t", 0].batches
    records = read_stored_batch(batch, max_decompressed_bytes=10_000).records
    assert (list(records.keys), list(records.values)) == ([b"k"] * 3, [b"1", b"2", None])
    assert min(records.timestamps) > 0


def test_the_result_of_several_records_comes_with_the_last(writer, broker, monkeypatch):
    monkeypatch.setattr(compacted_topic_writer, "_BATCH_BYTES", 1)
    results = []
    writer.append([(b"a", b"1"), (b"b", b"2")], lambda *result: results.append(result))
    writer._write_next(0)
    assert results == []
    writer._write_next(0)
    assert results == [(1, None)]
    assert len(broker.logs["t", 0].batches) == 2


def test_a_lost_connection_is_no_failure(writer, broker):
    broker.script[PRODUCE_API] = [LOST, LOST]
    assert written(writer, b"1") == [(1, None)]
    assert records_of(broker.logs["t", 0]) == 1


@pytest.mark.parametrize(
    "code", [ErrorCode.out_of_order_sequence_number, ErrorCode.policy_violation]
)
def test_after_a_refusal_another_producer_writes(writer, broker, code):
    broker.script[PRODUCE_API] = [code]
    with capture_logs() as logs:
        [(end, failure)] = written(writer, b"1")
    assert (end, code.name.upper() in failure) == (0, True)
    assert [line["event"] for line in logs] == ["a producer is replaced"]
    assert written(writer, b"2") == [(1, None)]
    assert broker.epoch == 2


def test_a_record_without_a_broker_fails_in_time(writer, broker, monkeypatch):
    monkeypatch.setattr(compacted_topic_writer, "MESSAGE_TIMEOUT_S", 0.05)
    broker.leaders = [BrokerUnreachableError("k:1 is away")] * 1_000_000
    [(_, failure)] = written(writer, b"1")
    assert "k:1 is away" in failure


def test_a_leader_without_a_response_is_given_up(writer, broker, monkeypatch):
    """The next producer neither takes the same connection nor the same leader."""
    monkeypatch.setattr(compacted_topic_writer, "MESSAGE_TIMEOUT_S", 0.05)
    broker.is_silent = True
    [(end, failure)] = written(writer, b"1")
    assert (end, "not stored within" in failure) == (0, True)
    assert [request.is_abandoned for request in broker.pending] == [True]
    assert broker.refreshed == ["t"]
    broker.is_silent = False
    assert written(writer, b"2") == [(1, None)]
    assert [request.is_abandoned for request in broker.pending] == [True, False]


def test_a_record_that_has_waited_for_too_long_is_not_sent(writer, broker, monkeypatch):
    monkeypatch.setattr(compacted_topic_writer, "MESSAGE_TIMEOUT_S", -1.0)
    [(_, failure)] = written(writer, b"1")
    assert failure.startswith("not stored within")
    assert broker.sent_requests == []


def append_at(writer, values, *, seconds_ago):
    """Append records whose time has begun earlier; return where their results come."""
    results = []
    with pytest.MonkeyPatch.context() as patched:
        timeout_s = compacted_topic_writer.MESSAGE_TIMEOUT_S - seconds_ago
        patched.setattr(compacted_topic_writer, "MESSAGE_TIMEOUT_S", timeout_s)
        for value in values:
            writer.append([(b"k", value)], lambda *result: results.append(result))
    return results


def test_only_records_that_have_waited_for_too_long_are_late(writer, broker):
    late_results = append_at(writer, [b"1", b"2"], seconds_ago=10.0)
    results = written(writer, b"3", b"4")
    assert [failure.startswith("not stored within") for _, failure in late_results] == [True, True]
    assert results == [(1, None), (2, None)]
    assert records_of(broker.logs["t", 0]) == 2


def test_a_batch_has_as_much_time_as_its_newest_record(writer, broker):
    """A record that is nearly late would take those that were written with it along."""
    broker.script[PRODUCE_API] = [LOST]
    broker.settings = broker.settings._replace(backoff_s=0.7, max_backoff_s=0.7)
    old_results = append_at(writer, [b"1"], seconds_ago=9.5)
    assert written(writer, b"2") == [(2, None)]
    assert old_results == [(1, None)]


def test_any_error_leaves_the_thread_alive(writer, broker, monkeypatch):
    def fail(*_):
        raise MemoryError

    ended, stopped = threading.Event(), threading.Event()
    thread = threading.Thread(target=writer.run, args=(stopped,), daemon=True)
    with monkeypatch.context() as patched, capture_logs() as logs:
        patched.setattr(compacted_topic_writer, "own_batch", fail)
        thread.start()
        writer.append([(b"k", b"v")], lambda _, failure: ended.set() if failure else None)
        assert ended.wait(60)
    assert [line["event"] for line in logs] == ["writing to a topic fails"]
    ended.clear()
    writer.append([(b"k", b"v")], lambda _, failure: None if failure else ended.set())
    assert ended.wait(60)
    stopped.set()
    thread.join(60)
    assert not thread.is_alive()


def test_a_callback_that_raises_leaves_the_others_their_results(writer):
    def fail(*_):
        raise ValueError

    writer.append([(b"k", b"1")], fail)
    with capture_logs() as logs:
        assert written(writer, b"2") == [(2, None)]
    assert [line["event"] for line in logs] == ["a result of writing to a topic is not taken"]


def test_a_record_whose_offset_is_not_known_has_failed(writer, broker):
    """To read up to an unknown end would take no time, and the record could be missing."""
    broker.script[PRODUCE_API] = [DUPLICATE]
    [(end, failure)] = written(writer, b"1")
    assert end == 0
    assert "has not responded with the offset" in failure


def test_records_that_wait_are_written_at_the_end(writer, broker):
    results = []
    writer.append([(b"k", b"v")], lambda *result: results.append(result))
    writer.close(60)
    assert results == [(1, None)]


def test_the_last_records_have_only_the_time_to_close(writer, broker):
    broker.is_silent = True
    results = []
    writer.append([(b"k", b"v")], lambda *result: results.append(result))
    began = time.monotonic()
    writer.close(0.1)
    assert time.monotonic() - began < 5
    [(_, failure)] = results
    assert "not stored within" in failure


def closing_topic(broker, writer, monkeypatch, tmp_path):
    """A topic whose writer is at work on a batch without a response; nothing is read."""
    monkeypatch.setattr(compacted_topic, "_JOIN_S", 0.05)
    monkeypatch.setattr(compacted_topic, "_LAST_WRITES_S", 0.05)
    topic = CompactedTopic(
        {"bootstrap.servers": "k:1"}, "t", tmp_path / "file", key="k", otherwise="o"
    )
    monkeypatch.setattr(topic, "_follow", lambda *_: None)
    topic._writer = writer
    topic.follow(lambda _: None, lambda _: None)
    return topic


def test_a_topic_that_is_closed_writes_nothing_beside_its_thread(
    writer, broker, monkeypatch, tmp_path
):
    """A pipeline is used by one thread at a time, or results would belong to other batches."""
    monkeypatch.setattr(compacted_topic_writer, "MESSAGE_TIMEOUT_S", 0.5)
    broker.is_silent = True
    topic = closing_topic(broker, writer, monkeypatch, tmp_path)
    topic.append([(b"k", b"1")], lambda *_: None)
    while not broker.pending:
        time.sleep(0.005)
    topic.append([(b"k", b"2")], lambda *_: None)
    topic.close()
    assert topic._writing_thread.is_alive()
    assert len(writer._unsent_records) == 1
    assert len(broker.pending) == 1
    topic._writing_thread.join(60)


def test_a_topic_that_is_closed_writes_what_its_thread_has_left(
    writer, broker, monkeypatch, tmp_path
):
    topic = closing_topic(broker, writer, monkeypatch, tmp_path)
    topic._stop_event.set()
    topic._writing_thread.join(60)
    results = []
    topic.append([(b"k", b"1")], lambda *result: results.append(result))
    topic.close()
    assert results == [(1, None)]


def test_a_gateway_that_uses_the_topic_itself_is_named_as_the_cause(writer, broker):
    broker.script[PRODUCE_API] = [ErrorCode.invalid_topic_exception]
    [(_, failure)] = written(writer, b"1")
    assert "gateway that uses this topic" in failure
