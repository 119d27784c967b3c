"""A compacted topic at a real broker: the producer fails, and writes get no response."""

import asyncio
import threading
import uuid
from contextlib import contextmanager

import pytest
from confluent_kafka import KafkaError, KafkaException

from penstock.kafka.cluster.compacted_topic import CompactedTopic
from penstock.kafka.cluster.compacted_topic_follower import LogFollower
from penstock.kafka.cluster.compacted_topic_writer import CompactedTopicWriter
from tests.faults import REQUEST, Proxy
from tests.refusals import PRODUCE, Rule

OUT_OF_ORDER = Rule(45)


@pytest.fixture(scope="module")
def proxy(kafka):
    with Proxy(kafka.bootstrap_servers) as running:
        yield running


@contextmanager
def written_to(topic):
    """A writer and the thread of its results, with the callbacks that wait for a write."""
    writer = CompactedTopicWriter(topic, {"bootstrap.servers": "127.0.0.1:1", "log_level": 0})
    stopped = threading.Event()
    thread = threading.Thread(target=writer.run, args=(stopped,), daemon=True)
    thread.start()
    yield writer, thread
    stopped.set()
    thread.join(60)
    assert not thread.is_alive()


def follower_of(proxy, tmp_path):
    topic = CompactedTopic(
        {"bootstrap.servers": proxy.address},
        tmp_path,
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


def test_any_error_of_a_poll_leaves_the_thread_alive(monkeypatch):
    monkeypatch.setattr("penstock.kafka.cluster.compacted_topic_writer.MESSAGE_TIMEOUT_MS", 1_000)
    with written_to("t") as (writer, thread):
        failed = threading.Event()

        class Fatal:
            """A producer in the state after a fatal error, without a callback for it."""

            def poll(self, _timeout_s):
                failed.set()
                raise KafkaException(KafkaError(KafkaError._FATAL))

            def produce(self, *_args, **_options):
                raise KafkaException(KafkaError(KafkaError._FATAL))

            def purge(self):
                pass

            def __len__(self):
                return 0

        before = writer._producer
        writer._producer = Fatal()
        assert failed.wait(60)
        ended = threading.Event()
        writer.append([(b"k", b"v")], lambda _, failure: ended.set() if failure else None)
        assert thread.is_alive()
        assert ended.wait(60), "it has a result: there is no broker"
        assert writer._producer is not before


class Failed:
    """A producer with records in flight, after a fatal error that was not reported yet."""

    def __init__(self):
        self.held, self.is_reported, self.is_purged = [], False, False

    def produce(self, *_args, on_delivery):
        if self.held:
            raise KafkaException(KafkaError(KafkaError._FATAL))
        self.held.append(on_delivery)

    def poll(self, _timeout_s):
        if not self.is_reported:  # as librdkafka does it: the error comes before the results
            self.is_reported = True
            raise KafkaException(KafkaError(KafkaError._FATAL))
        while self.is_purged and self.held:
            self.held.pop()(KafkaError(KafkaError._PURGE_INFLIGHT), None)

    def flush(self, timeout_s):
        self.poll(timeout_s)

    def purge(self):
        self.is_purged = True

    def __len__(self):
        return len(self.held)


def failed_writer():
    """A writer with a record that waits for its result at a producer that has failed."""
    writer = CompactedTopicWriter("t", {"bootstrap.servers": "127.0.0.1:1", "log_level": 0})
    writer._producer = Failed()
    ended = threading.Event()
    writer.append([(b"k", b"v")], lambda _, failure: ended.set() if failure else None)
    return writer, ended


def test_the_records_of_a_replaced_producer_fail_at_once():
    """Though the next write finds out about the fatal error before the thread of the results."""
    writer, ended = failed_writer()
    writer.append([(b"k", b"v")], lambda *_: None)
    stopped = threading.Event()
    thread = threading.Thread(target=writer.run, args=(stopped,), daemon=True)
    thread.start()
    assert ended.wait(60)
    stopped.set()
    thread.join(60)


def test_the_end_is_not_kept_up_by_a_producer_that_has_failed():
    writer, ended = failed_writer()
    writer.close(5)
    assert ended.is_set()


def test_a_gateway_that_uses_the_topic_itself_is_named_as_the_cause():
    writer = CompactedTopicWriter("t", {"bootstrap.servers": "127.0.0.1:1", "log_level": 0})
    writer._producer = Failed()
    failures = []
    writer.append([(b"k", b"v")], lambda _, failure: failures.append(failure))
    writer._producer.held.pop()(KafkaError(KafkaError.TOPIC_EXCEPTION), None)
    assert "gateway that uses this topic" in failures[0]
