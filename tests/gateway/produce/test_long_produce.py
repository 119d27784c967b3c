"""Long Produce requests are processed in slices, and still in order."""

import asyncio
import contextlib
from collections import Counter
from itertools import pairwise

import pytest

from penstock.engine.verdict import ACCEPTED, refused
from penstock.gateway.produce import forwarded_at_once
from penstock.gateway.produce import partition as partitions
from penstock.gateway.produce import request as requests
from penstock.gateway.produce.missing_batches import MissingBatches
from penstock.gateway.produce.producer_state.all_producers import Producers
from penstock.gateway.produce.producer_state.arrivals import Arrivals
from penstock.gateway.produce.request import SLICE
from penstock.kafka.wire.primitives import varint
from penstock.kafka.wire.requests.produce import ENTRIES_MAX, ProduceRequest
from penstock.kafka.wire.requests.produce_response import ProduceResponse
from penstock.kafka.wire.requests.topics import NamedTopic
from tests.gateway.produce.inline import ID, Stored
from tests.gateway.produce.intercepted import Intercepted
from tests.gateway.sessions.talk import Answering, answer, produce_response, turns_until
from tests.kafka.records.encoding import encode_batch, values
from tests.raw import parse_response, produce_request, produced, request_frame

TOPICS = tuple(f"topic-{number}" for number in range(2_000))
LATER = refused(7, "later", "v")
NO = refused(44, "no", "v")


class Judged(Answering):
    """A conversation about long requests."""

    def __init__(self):
        super().__init__()
        self.judged = frozenset(TOPICS)
        self.session._requests.max_bytes = 10**7
        self.session._supports_describe_producers = False


class LongIntercepted(Intercepted, Judged):
    """The same with interceptors."""

    def __init__(self):
        super().__init__()
        self.producers = Producers(now=lambda: 0.0)


def request(number, topics=TOPICS, first=0):
    batch = encode_batch(values(b"x"), producer_id=5, producer_epoch=0, base_sequence=first)
    return request_frame(produce_request([(topic, [(0, batch)]) for topic in topics]), number)


def long_response(topics):
    """A broker's response about many topics, from a repeated part."""
    head, tail = len(answer(1, b"")) + 2, 5
    bodies = [produce_response(1, topic)[head:-tail] for topic in topics]
    return answer(1, b"\x00" + varint(len(topics) + 1) + b"".join(bodies) + bytes(tail))


@pytest.fixture
def most_in_a_turn(monkeypatch):
    """Counts calls in each turn of the event loop; returns the largest count of each."""
    calls: Counter = Counter()
    turn = 0

    def count(owner, name):
        called = getattr(owner, name)

        def counting(*arguments, **options):
            calls[name, turn] += 1
            return called(*arguments, **options)

        monkeypatch.setattr(owner, name, counting)

    count(requests, "is_topic_name")
    count(forwarded_at_once, "is_topic_name")
    count(forwarded_at_once, "is_topic_name")
    count(partitions, "read_producer")
    count(MissingBatches, "answered")
    count(ProduceResponse, "partition_response")
    count(Arrivals, "add")
    for name in ("find", "decide", "on_response", "refuse"):
        count(Producers, name)

    async def turns():
        nonlocal turn
        while True:
            turn += 1
            await asyncio.sleep(0)

    @contextlib.asynccontextmanager
    async def counted():
        task = asyncio.ensure_future(turns())
        most: dict[str, int] = {}
        try:
            yield most
        finally:
            task.cancel()
            for (name, _), times in calls.items():
                most[name] = max(times, most.get(name, 0))

    return counted


async def judged(talk, frame, verdict):
    """Send a request, and judge its batches."""
    talk.session.client_data(frame)
    await turns_until(lambda: len(talk.verdicts) == len(TOPICS))
    for *_, done in talk.verdicts:
        done(verdict)
    talk.verdicts.clear()


@pytest.mark.parametrize("make", [Judged, LongIntercepted])
async def test_an_accepted_request(make, most_in_a_turn):
    talk = make()
    async with most_in_a_turn() as most:
        await judged(talk, request(1), ACCEPTED)
        await turns_until(lambda: talk.broker.data)
        assert len(ProduceRequest(talk.broker.take()).topics) == len(TOPICS)
        talk.session.upstream_data(long_response(TOPICS))
        await turns_until(lambda: talk.client.data)
    found = produced(parse_response(talk.client.take(), 0, 9))
    assert [batch.base_offset for batch in found.values()] == [5] * len(TOPICS)
    assert most.keys() >= {"is_topic_name"} | (
        {"add", "decide", "on_response"} if make is LongIntercepted else set()
    )
    assert max(most.values()) <= 2 * SLICE, most
    assert talk.session.held_bytes == 0


@pytest.mark.parametrize("make", [Judged, LongIntercepted])
@pytest.mark.parametrize("verdict", [LATER, NO])
async def test_a_refused_request(make, verdict, most_in_a_turn):
    talk = make()
    async with most_in_a_turn() as most:
        await judged(talk, request(1), verdict)
        await turns_until(lambda: talk.client.data)
    found = produced(parse_response(talk.client.take(), 0, 9))
    assert {result.error_code for result in found.values()} == {verdict.code}
    assert not talk.broker.data
    assert bool(len(talk.missing_batches)) == (verdict is LATER and make is Judged)
    assert max(most.values()) <= 2 * SLICE, most


async def test_50_000_partitions_in_0_3_megabytes_are_refused_in_slices():
    count = ENTRIES_MAX - 1  # a topic is an entry, too
    frame = request_frame(produce_request([(TOPICS[0], [(0, None)])]), 1)
    [topic] = ProduceRequest(frame).topics
    [partition] = topic.partitions
    entries = b"".join(n.to_bytes(4, "big") + bytes(2) for n in range(count))
    start = partition.start - len(varint(2))
    body = frame[4:start] + varint(count + 1) + entries + frame[partition.end :]
    assert len(body) < 310_000

    talk, submitted = Judged(), [0]
    talk.session.client_data(len(body).to_bytes(4, "big") + body)
    while submitted[-1] < count:
        await asyncio.sleep(0)
        submitted.append(len(talk.verdicts))
    assert max(now - before for before, now in pairwise(submitted)) <= 2 * SLICE
    for *_, done in talk.verdicts:
        done(NO)
    turns = 0
    while not talk.client.data:
        await asyncio.sleep(0)
        turns += 1
    assert turns >= count // 5_000, "the response is written in slices"
    found = produced(parse_response(talk.client.take(), 0, 9))
    assert len(found) == count
    assert {result.error_code for result in found.values()} == {NO.code}
    assert not talk.broker.data
    assert talk.session.held_bytes == 0


async def test_half_of_a_request_is_refused_in_slices():
    talk = Judged()
    talk.session.client_data(request(1))
    await turns_until(lambda: len(talk.verdicts) == len(TOPICS))
    for number, (*_, done) in enumerate(talk.verdicts):
        done(NO if number % 2 else ACCEPTED)
    await turns_until(lambda: talk.broker.data)
    assert [topic.name for topic in ProduceRequest(talk.broker.take()).topics] == [*TOPICS[::2]]
    talk.session.upstream_data(long_response(TOPICS[::2]))
    await turns_until(lambda: talk.client.data)
    found = produced(parse_response(talk.client.take(), 0, 9))
    assert [result.error_code for result in found.values()] == [0, 44] * (len(TOPICS) // 2)


@pytest.mark.parametrize("make", [Judged, LongIntercepted])
async def test_a_later_request_is_decided_after_a_long_request(make):
    talk = make()
    behind = request(2, TOPICS[-1:], first=1)
    talk.session.client_data(request(1) + behind)
    await turns_until(lambda: len(talk.verdicts) == len(TOPICS))
    talk.session.client_data(b"")
    await turns_until(lambda: len(talk.verdicts) == len(TOPICS) + 1)
    assert [topic for topic, *_ in talk.verdicts] == [*TOPICS, TOPICS[-1]]
    talk.verdicts.pop()[3](ACCEPTED)
    assert not talk.broker.data
    for *_, done in talk.verdicts:
        done(ACCEPTED)
    await turns_until(lambda: talk.broker.data)
    assert talk.broker.take() == request(1) + behind


async def test_an_earlier_request_does_not_wait_for_a_long_request():
    """The topic of the first request has to be looked up: its batch is still submitted."""
    talk = Judged()
    talk.topic_configs = Stored()
    talk.session.client_data(request(1, TOPICS[:1]) + request(2))
    await turns_until(lambda: len(talk.session._pending.exchanges) == 2)
    assert not talk.verdicts
    talk.session._pending.exchanges[0]._steps.lookup._on_names([NamedTopic(0, TOPICS[0], ID)])
    assert [topic for topic, *_ in talk.verdicts] == [TOPICS[0]]


async def test_a_connection_that_closes_at_any_time_leaves_no_state():
    for turns in range(0, 150, 11):
        talk = LongIntercepted()
        talk.session.client_data(request(1))
        for _ in range(turns):
            await asyncio.sleep(0)
            while talk.verdicts and len(talk.verdicts) % SLICE == 0:
                talk.verdicts.pop()[3](ACCEPTED)
        talk.session.closed()
        sent = len(talk.broker.data)
        for _ in range(60):
            await asyncio.sleep(0)
        assert not talk.producers.arrivals
        assert len(talk.broker.data) == sent
        assert talk.session.submitting is None or talk.session.submitting.done()
