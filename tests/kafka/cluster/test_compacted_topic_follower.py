"""A compacted topic and its follower: records and writers that fail."""

import asyncio
import gc
import json
import threading
import time
import weakref
from concurrent.futures import Future
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, KafkaException
from structlog.testing import capture_logs

from penstock.gateway.produce.producer_state.all_producers import Producers
from penstock.gateway.produce.producer_state.cluster import ClusterStore
from penstock.gateway.produce.producer_state.records.encoding import ProducerKey
from penstock.kafka.cluster import compacted_topic
from penstock.kafka.cluster.compacted_topic import CompactedTopic, CompactedTopicError, LogRecord
from penstock.kafka.cluster.compacted_topic_follower import LogFollower


class Topic:
    topic = "t"

    def __init__(self, last):
        self.last = last

    def end(self, timeout_s):
        return self.last


async def test_a_record_that_cannot_be_taken_does_not_hold_back_all_new_producers():
    state = Producers(now=lambda: 0.0, is_shared=True)
    store = ClusterStore.__new__(ClusterStore)
    store.topic, store._take = "t", state.restore
    follower = LogFollower(Topic(2), store._read)
    follower._loop = asyncio.get_running_loop()
    key = ProducerKey("t", 0, 7).encode()
    good = {
        "version": 2,
        "writer": "a",
        "epoch": 0,
        "next": 5,
        "removed": 0,
        "topic_id": None,
        "batches": [],
        "first": None,
    }
    follower._take(LogRecord(1, key, json.dumps(good).encode()))
    follower._take(LogRecord(2, key, json.dumps({**good, "epoch": "0"}).encode()))
    await follower.read_to_end(60)


async def test_records_are_read_ahead_of_the_event_loop():
    seen = []
    follower = LogFollower(Topic(3), seen.append, ahead=lambda record: seen.append(record.key))
    follower._loop = asyncio.get_running_loop()
    first, second = LogRecord(1, b"a", b"v"), LogRecord(2, b"b", b"v")
    thread = threading.Thread(
        target=follower._read_in_thread, args=([first, second, LogRecord(3, ends=True)],)
    )
    thread.start()
    thread.join()  # the event loop has had no turn
    assert seen == [b"a", b"b"]
    await follower.read_to_end(60)
    assert seen == [b"a", b"b", first, second]


class Ends(Topic):
    """Returns other ends one after the other, and the last end permanently."""

    def __init__(self, *ends):
        super().__init__(None)
        self.ends = list(ends)

    def end(self, timeout_s):
        return self.ends.pop(0) if len(self.ends) > 1 else self.ends[0]


def follower_at(position, topic):
    follower = LogFollower(topic, lambda record: None)
    follower._loop = asyncio.get_running_loop()
    follower._take(LogRecord(position, b"k", b"v"))
    return follower


async def test_the_end_is_requested_again_from_a_leader_that_does_not_know_it_yet():
    """A broker that has just started may answer before it knows that another broker leads."""
    await follower_at(5, Ends(3, 3, 5)).read_to_end(60)


async def test_a_topic_that_has_lost_records():
    with pytest.raises(CompactedTopicError, match=r"t has lost records .*ends at 3, .* up to 5"):
        await follower_at(5, Ends(3)).read_to_end(1)


class TestWhenRead:
    """Callbacks for when a record has been read."""

    async def test_it_is_called_when_the_record_before_the_position_has_been_taken(self):
        results, follower = [], follower_at(5, Ends(7))
        follower.when_read(7, 60, results.append)
        follower._take(LogRecord(6, b"k", b"v"))
        await asyncio.sleep(0)
        assert results == []
        follower._take(LogRecord(7, b"k", b"v"))
        await asyncio.sleep(0)
        assert results == [None]

    async def test_there_is_no_wait_for_records_that_have_been_read(self):
        results = []
        follower_at(5, Ends(5)).when_read(5, 60, results.append)
        assert results == [None]

    async def test_it_fails_if_the_topic_cannot_be_read(self):
        result = asyncio.get_running_loop().create_future()
        follower_at(5, Ends(7)).when_read(7, 0.01, result.set_result)
        assert await result == "t could not be read in time"


class Offsets:
    """An admin client that returns offsets in sequence; librdkafka has -1001 for none."""

    def __init__(self, *offsets):
        self.offsets = list(offsets)

    def list_offsets(self, wanted, request_timeout):
        [partition] = wanted
        future = Future()
        future.set_result(SimpleNamespace(offset=self.offsets.pop(0)))
        return {partition: future}


@pytest.fixture
def topic(tmp_path):
    return CompactedTopic(
        {"bootstrap.servers": "127.0.0.1:1"}, tmp_path, "t", tmp_path / "f", key="k", otherwise="o"
    )


@pytest.mark.parametrize("offset", [-1001, -1])
def test_an_unknown_end_does_not_mean_lost_records(topic, offset):
    topic._admin = Offsets(offset)
    with pytest.raises(CompactedTopicError, match="its end is not known"):
        topic.end(1.0)
    topic._admin = Offsets(0, 7)
    assert [topic.end(1.0), topic.end(1.0)] == [0, 7]


class NeverAnswers(Offsets):
    """An admin client whose leader has gone: librdkafka waits for it."""

    def list_offsets(self, wanted, request_timeout):
        return {partition: Future() for partition in wanted}


def test_a_leader_that_has_gone_is_not_waited_for(topic, monkeypatch):
    """Another client finds the next leader; the first leader's response counts if it arrives."""
    clients = [NeverAnswers(), Offsets(7)]
    monkeypatch.setattr(compacted_topic, "NEXT_CLIENT_AFTER_S", 0.01)
    monkeypatch.setattr(compacted_topic, "admin_client", lambda _: clients.pop(0))
    topic._admin = NeverAnswers()
    assert topic.end(60) == 7
    assert not clients


def test_an_end_is_waited_for_no_longer_than_the_caller_wants(topic, monkeypatch):
    made = []
    monkeypatch.setattr(compacted_topic, "NEXT_CLIENT_AFTER_S", 0.01)
    monkeypatch.setattr(compacted_topic, "admin_client", lambda _: made.append(1) or NeverAnswers())
    topic._admin = NeverAnswers()
    with pytest.raises(CompactedTopicError, match="t: no answer"):
        topic.end(0.5)
    assert 1 <= len(made) <= 6


class Refuses(Offsets):
    """An admin client whose leader answers with an error."""

    def list_offsets(self, wanted, request_timeout):
        [partition] = wanted
        future = Future()
        future.set_exception(KafkaException(KafkaError(KafkaError.NOT_LEADER_FOR_PARTITION)))
        return {partition: future}


async def test_clients_are_freed_at_once_in_the_thread_that_used_them(topic, monkeypatch):
    """A client has threads and connections, and blocks until they have ended."""
    freed_in, errors, made = [], [], []

    def client(kind):
        made.append(kind)
        client = kind()
        weakref.finalize(client, lambda: freed_in.append(threading.get_ident()))
        return client

    def next_client(_):
        return client(NeverAnswers if len(made) % 2 == 0 else Refuses)

    monkeypatch.setattr(compacted_topic, "NEXT_CLIENT_AFTER_S", 0.01)
    monkeypatch.setattr(compacted_topic, "admin_client", next_client)
    topic._admin = next_client(None)
    gc.disable()
    try:
        for _ in range(3):
            with pytest.raises(CompactedTopicError, match="Not leader") as error:
                await asyncio.to_thread(topic.end, 60)
            errors.append(error)
        assert len(made) >= 6
        assert len(freed_in) == len(made) - 1  # the last client is for the next call
        assert threading.get_ident() not in freed_in
    finally:
        gc.enable()


class RecordsTimeouts(NeverAnswers):
    """An admin client that records the time it has for each request."""

    def __init__(self, timeouts):
        super().__init__()
        self.timeouts = timeouts

    def list_offsets(self, wanted, request_timeout):
        self.timeouts.append(request_timeout)
        return super().list_offsets(wanted, request_timeout)


def test_an_end_is_not_requested_with_almost_no_time(topic, monkeypatch):
    """Such a request may abort the process."""
    timeouts = []
    monkeypatch.setattr(compacted_topic, "NEXT_CLIENT_AFTER_S", 0.01)
    monkeypatch.setattr(compacted_topic, "admin_client", lambda _: RecordsTimeouts(timeouts))
    topic._admin = RecordsTimeouts(timeouts)
    for left_s in (0.0, 0.0005, 0.05):
        with pytest.raises(CompactedTopicError, match="t: no answer"):
            topic.end(left_s)
    assert timeouts == []
    with pytest.raises(CompactedTopicError, match="t: no answer"):
        topic.end(0.5)
    assert min(timeouts) >= 0.1


class RefusesAtOnce(Topic):
    """Has no end, and records the time it has for each request."""

    def __init__(self):
        super().__init__(None)
        self.timeouts = []

    def end(self, timeout_s):
        self.timeouts.append(timeout_s)
        raise CompactedTopicError("t: no leader")


async def test_a_read_does_not_request_the_end_with_almost_no_time():
    topic = RefusesAtOnce()
    with pytest.raises(CompactedTopicError, match="t could not be read in time"):
        await follower_at(5, topic).read_to_end(0.05)
    assert topic.timeouts == []
    with pytest.raises(CompactedTopicError, match="t: no leader"):
        await follower_at(5, topic).read_to_end(1)
    assert min(topic.timeouts) >= 0.1


class Waits(Topic):
    """Gets a request for its end in a thread, and never knows it."""

    def __init__(self):
        super().__init__(None)
        self.requests = 0

    def end(self, timeout_s):
        self.requests += 1
        time.sleep(timeout_s)
        raise CompactedTopicError("t: no answer")


async def test_a_read_is_shared_by_all_callers():
    topic = Waits()
    follower = follower_at(5, topic)
    reads = [asyncio.create_task(follower.read_to_end(1.5))]
    await until(lambda: topic.requests == 1)
    reads += [asyncio.create_task(follower.read_to_end(0.2)) for _ in range(2)]
    done, _ = await asyncio.wait(reads)
    assert {type(read.exception()) for read in done} == {CompactedTopicError}
    await follower._read_task
    assert topic.requests == 1


async def until(is_so):
    while not is_so():
        await asyncio.sleep(0.01)


class Held(Topic):
    """Returns its end when a test allows it."""

    def __init__(self, last):
        super().__init__(last)
        self.requests = 0
        self.may_answer = threading.Event()

    def end(self, timeout_s):
        self.requests += 1
        assert self.may_answer.wait(60)
        return self.last


@pytest.fixture
async def held():
    """A follower of a topic whose end is being requested by one caller, and that caller's task."""
    topic = Held(5)
    follower = follower_at(5, topic)
    first = asyncio.create_task(follower.read_to_end(60))
    await until(lambda: topic.requests == 1)
    yield SimpleNamespace(topic=topic, follower=follower, first=first)
    topic.may_answer.set()
    await first


async def test_a_caller_times_out_while_the_read_of_others_continues(held):
    second = asyncio.create_task(held.follower.read_to_end(0.1))
    done, _ = await asyncio.wait([second], timeout=30)
    assert done
    assert isinstance(second.exception(), CompactedTopicError)
    assert not held.first.done()


async def test_a_read_is_not_late_because_the_caller_that_queued_first_has_given_up(held):
    second = asyncio.create_task(held.follower.read_to_end(0.1))
    third, fourth = (asyncio.create_task(held.follower.read_to_end(60)) for _ in range(2))
    await asyncio.wait([second])
    held.topic.may_answer.set()
    await asyncio.wait([third, fourth])
    assert isinstance(second.exception(), CompactedTopicError)
    assert [third.exception(), fourth.exception()] == [None, None]
    assert held.topic.requests == 2


async def test_an_unexpected_failure_fails_one_read_and_not_the_next():
    follower = follower_at(5, Ends("no offset", 5))
    reads = [asyncio.create_task(follower.read_to_end(60)) for _ in range(2)]
    await asyncio.wait(reads)
    assert {type(read.exception()) for read in reads} == {CompactedTopicError}
    await follower.read_to_end(60)


class Ensures:
    """A topic's check that fails with errors, in sequence, and then succeeds."""

    def __init__(self, *errors):
        self.errors = list(errors)

    def __call__(self, deadline):
        if self.errors:
            raise self.errors.pop(0)


def failure(code):
    return KafkaException(KafkaError(code))


def opened(topic, monkeypatch, *errors, timeout_s=60.0):
    ensure = Ensures(*errors)
    monkeypatch.setattr(topic, "_ensure", ensure)
    monkeypatch.setattr(topic, "_read_all", lambda _: ["read"])
    with capture_logs() as logs:
        assert topic.open(timeout_s) == ["read"]
    assert not ensure.errors
    return logs


def test_a_start_waits_while_brokers_are_slow_or_start(topic, monkeypatch):
    logs = opened(
        topic, monkeypatch, failure(KafkaError._TRANSPORT), TimeoutError(),
        failure(KafkaError.LEADER_NOT_AVAILABLE), failure(KafkaError._TIMED_OUT),
    )  # fmt: skip
    [line] = [line for line in logs if line["event"] == "waiting for a topic with state"]
    assert line["topic"] == "t"
    assert "transport failure" in line["reason"].lower()


@pytest.mark.parametrize(
    "code", [KafkaError.INVALID_REPLICATION_FACTOR, KafkaError.POLICY_VIOLATION]
)
def test_a_start_does_not_wait_for_a_permanent_error(topic, monkeypatch, code):
    with pytest.raises(CompactedTopicError, match=r"f: k: t: "):
        opened(topic, monkeypatch, failure(code))


@pytest.mark.parametrize("error", [failure(KafkaError._TRANSPORT), TimeoutError()])
def test_a_start_gives_up_in_the_end(topic, monkeypatch, error):
    with pytest.raises(CompactedTopicError, match=r"f: k: t: "):
        opened(topic, monkeypatch, error, timeout_s=0.0)
