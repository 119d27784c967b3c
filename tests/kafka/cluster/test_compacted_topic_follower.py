"""A compacted topic and its follower: records and writers that fail."""

import asyncio
import json
import threading
import time
from concurrent.futures import Future
from types import SimpleNamespace

import pytest
from structlog.testing import capture_logs

from penstock.gateway.produce.producer_state.all_producers import Producers
from penstock.gateway.produce.producer_state.cluster import ClusterStore
from penstock.gateway.produce.producer_state.records.encoding import ProducerKey
from penstock.kafka.client.connections.connection import PendingResponse
from penstock.kafka.client.connections.metadata import PartitionLeader
from penstock.kafka.client.errors import (
    BrokerUnreachableError,
    ClientError,
    TopicRecreatedError,
    TruncatedError,
    response_error,
)
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


class Leaders:
    """A connection to leaders that answer requests for the end, each with its own answer.

    An answer is an offset, an error code, an exception of the connection, or None for no answer.
    """

    def __init__(self, *answers):
        self.answers = list(answers)
        self.timeouts, self.refreshed, self.requests = [], [], []

    def leader(self, topic, partition, *, timeout_s):
        self.timeouts.append(timeout_s)
        return PartitionLeader(1, 0)

    def refresh(self, topic):
        self.refreshed.append(topic)

    def begin(self, node, request, *, has_deadline):
        future = Future()
        self.requests.append(future)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            future.set_exception(answer)
        elif answer is not None:
            future.set_result(answer)
        return PendingResponse(future)


@pytest.fixture
def topic(tmp_path):
    return CompactedTopic(
        {"bootstrap.servers": "127.0.0.1:1"}, "t", tmp_path / "f", key="k", otherwise="o"
    )


@pytest.fixture
def led_by(monkeypatch):
    """Sets what the leaders of the topic answer."""

    def read(answer, partition):
        if isinstance(answer, ClientError):
            raise answer
        return answer

    def lead(*answers):
        leaders = Leaders(*answers)
        monkeypatch.setattr(compacted_topic, "connect", lambda *_: leaders)
        return leaders

    monkeypatch.setattr(compacted_topic, "read_offset", read)
    monkeypatch.setattr(compacted_topic, "NEXT_LEADER_AFTER_S", 0.01)
    return lead


def test_an_unknown_end_does_not_mean_lost_records(topic, led_by):
    led_by(-1)
    with pytest.raises(CompactedTopicError, match="its end is not known"):
        topic.end(1.0)
    led_by(0, 7)
    assert [topic.end(1.0), topic.end(1.0)] == [0, 7]


def test_a_leader_that_has_gone_is_not_waited_for(topic, led_by):
    """The next leader is looked up; the first leader's response counts if it arrives."""
    leaders = led_by(None, None, 7)
    assert topic.end(60) == 7
    assert leaders.refreshed == ["t", "t"]
    assert [request.cancelled() for request in leaders.requests] == [True, True, False]


def test_an_end_is_waited_for_no_longer_than_the_caller_wants(topic, led_by):
    leaders = led_by(None)
    with pytest.raises(CompactedTopicError, match="t: no answer"):
        topic.end(0.5)
    assert 2 <= len(leaders.requests) <= 7


@pytest.mark.parametrize(
    ("error", "text", "refreshed"),
    [
        (BrokerUnreachableError("k:1 is away"), "t: k:1 is away", ["t"]),
        (response_error(29, "topic t"), "t: topic t: TOPIC_AUTHORIZATION_FAILED", []),
    ],
)
def test_an_error_of_the_leader(topic, led_by, error, text, refreshed):
    leaders = led_by(error)
    with pytest.raises(CompactedTopicError, match=text):
        topic.end(60)
    assert leaders.refreshed == refreshed


def test_an_end_is_not_requested_with_almost_no_time(topic, led_by):
    leaders = led_by(None)
    for left_s in (0.0, 0.0005, 0.05):
        with pytest.raises(CompactedTopicError, match="t: no answer"):
            topic.end(left_s)
    assert leaders.timeouts == []
    with pytest.raises(CompactedTopicError, match="t: no answer"):
        topic.end(0.5)
    assert min(leaders.timeouts) >= 0.1


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


AWAY = BrokerUnreachableError("k:1 cannot be reached")
NO_LEADER = response_error(5, "topic t")


def opened(topic, monkeypatch, *errors, timeout_s=60.0):
    ensure = Ensures(*errors)
    monkeypatch.setattr(topic, "_ensure", ensure)
    monkeypatch.setattr(topic, "_read_all", lambda _: ["read"])
    monkeypatch.setattr(compacted_topic, "connect", lambda *_: None)
    with capture_logs() as logs:
        assert topic.open(timeout_s) == ["read"]
    assert not ensure.errors
    return logs


def test_a_start_waits_while_brokers_are_slow_or_start(topic, monkeypatch):
    logs = opened(topic, monkeypatch, AWAY, NO_LEADER)
    [line] = [line for line in logs if line["event"] == "waiting for a topic with state"]
    assert line["topic"] == "t"
    assert line["reason"] == str(AWAY)


@pytest.mark.parametrize("code", [38, 44])
def test_a_start_does_not_wait_for_a_permanent_error(topic, monkeypatch, code):
    with pytest.raises(CompactedTopicError, match=r"f: k: t: "):
        opened(topic, monkeypatch, response_error(code, "topic t"))


@pytest.mark.parametrize("error", [AWAY, NO_LEADER])
def test_a_start_gives_up_in_the_end(topic, monkeypatch, error):
    with pytest.raises(CompactedTopicError, match=r"f: k: t: "):
        opened(topic, monkeypatch, error, timeout_s=0.0)


class Polls:
    """A reader that returns positions, or raises errors, in sequence; then it stops the topic."""

    def __init__(self, topic, *steps):
        self._topic, self._steps, self.position = topic, list(steps), 0

    def poll(self):
        if not self._steps:
            self._topic._stop_event.set()
            return []
        step = self._steps.pop(0)
        if isinstance(step, Exception):
            raise step
        self.position = step
        return []

    def close(self):
        pass


def followed(topic, monkeypatch, *readers, take=None):
    """Return what is passed on of some readers, and the warnings."""
    records, warnings, left = [], [], list(readers)
    monkeypatch.setattr(compacted_topic, "_RETRY_FOLLOWING_AFTER_S", 0.0)
    monkeypatch.setattr(compacted_topic, "_MAX_BACKOFF_S", 0.0)
    monkeypatch.setattr(topic, "_new_reader", lambda: left.pop(0))
    topic._reader = topic._new_reader()
    topic._follow(take or records.extend, warnings.append)
    assert not left
    return records, warnings


def test_a_position_without_a_record_is_passed_on(topic, monkeypatch):
    records, warnings = followed(topic, monkeypatch, Polls(topic, 5, 5, 7))
    assert records == [LogRecord(5, ends=True), LogRecord(7, ends=True)]
    assert warnings == []


def test_the_same_reader_continues_after_an_error(topic, monkeypatch):
    records, warnings = followed(topic, monkeypatch, Polls(topic, 5, AWAY, 7))
    assert [record.position for record in records] == [5, 7]
    assert warnings == [str(AWAY)]


@pytest.mark.parametrize("error", [TruncatedError("cut"), TopicRecreatedError("another topic")])
def test_a_log_that_is_another_is_read_from_its_beginning(topic, monkeypatch, error):
    records, warnings = followed(topic, monkeypatch, Polls(topic, 5, error), Polls(topic, 2))
    assert [record.position for record in records] == [5, 2]
    assert warnings == [str(error)]


def test_records_that_could_not_be_taken_are_read_again(topic, monkeypatch):
    taken = []

    def take(records):
        taken.extend(records)
        if len(taken) == 1:
            raise ValueError

    with capture_logs() as logs:
        followed(topic, monkeypatch, Polls(topic, 5), Polls(topic, 5), take=take)
    assert [record.position for record in taken] == [5, 5]
    assert [line["event"] for line in logs] == ["a topic cannot be read"]
