"""Responses of brokers are held within bounds, and processed in slices."""

import asyncio
import datetime
from types import SimpleNamespace

import pytest

from penstock.configuration.topic_keys import DEAD_LETTER_TOPIC
from penstock.engine.topic_configs.definitions import config_keys
from penstock.gateway.context.turns import Turns
from penstock.gateway.sessions.routes import route
from penstock.gateway.sessions.session import COLLECTED_MAX_BYTES
from penstock.kafka.wire.errors import WireError
from penstock.kafka.wire.primitives import varint
from penstock.kafka.wire.schemas import load_request_schema
from tests.gateway.loops import Loop, find_coordinators, numbered
from tests.gateway.sessions.talk import answer, other, produce
from tests.kafka.wire.config_answers import request as describe
from tests.kafka.wire.config_answers import response as described
from tests.kafka.wire.entities import coordinators, written
from tests.kafka.wire.share_fetches import response, small_partitions
from tests.raw import parse_response, request_frame

SOME_TIME = datetime.timedelta(0)


def test_a_long_response_is_changed_in_slices_and_later_responses_wait():
    talk = Loop()
    talk.session.client_data(find_coordinators(1) + other(2) + find_coordinators(3))
    long = numbered(coordinators(10_000, brokers=2), 1)
    short = numbered(coordinators(2), 3)
    talk.session.upstream_data(long + answer(2) + short)
    assert talk.session.is_answering
    assert talk.client.data == b""
    assert talk.session.answer_bytes >= 2 * len(long)
    turns = 0
    while talk.calls:
        talk.turn()
        turns += 1
    assert turns > 8
    assert not talk.session.is_answering
    talk.session.upstream_data(b"")
    while talk.calls:
        talk.turn()
    talk.session.upstream_data(b"")
    got = talk.client.take()
    size = int.from_bytes(got[:4], "big") + 4
    found = parse_response(got[:size], 10, 4).coordinators
    assert {row.host for row in found} == {"gateway"}
    assert len(found) == 10_000
    assert got[size:].startswith(answer(2))
    assert got.count(b"gateway") == 10_002
    assert talk.session.held_bytes == 0


def test_a_response_counts_by_its_received_bytes_and_not_by_its_announced_size():
    talk = Loop()
    talk.session.client_data(find_coordinators(1))
    head = (2**26).to_bytes(4, "big") + (1).to_bytes(4, "big")
    talk.session.upstream_data(head)
    assert talk.session.answer_bytes < 100
    assert talk.session.missing_answer_bytes == 2**26 - 4
    talk.session.upstream_data(bytes(100_000))
    assert 100_000 <= talk.session.answer_bytes < 101_000
    assert talk.session.held_bytes > 100_000
    talk.session.closed()
    assert talk.session.held_bytes < 10_000


def test_the_size_of_a_collected_response_is_limited():
    talk = Loop()
    talk.session.client_data(find_coordinators(1) + other(2))
    head = (COLLECTED_MAX_BYTES + 1).to_bytes(4, "big") + (1).to_bytes(4, "big")
    with pytest.raises(WireError, match="most"):
        talk.session.upstream_data(head)


def test_a_streamed_response_may_be_larger():
    talk = Loop()
    talk.session.client_data(other(1))
    data = (COLLECTED_MAX_BYTES + 1).to_bytes(4, "big") + (1).to_bytes(4, "big") + bytes(9)
    talk.session.upstream_data(data)
    assert talk.client.take() == data


def test_work_on_a_response_ends_with_its_connection():
    talk = Loop()
    talk.session.client_data(find_coordinators(1))
    talk.session.upstream_data(numbered(coordinators(10_000), 1))
    talk.session.closed()
    while talk.calls:
        talk.turn()
    assert talk.client.data == b""
    assert not talk.session.is_answering


def test_an_unreadable_response_closes_the_connection():
    talk = Loop()
    talk.session.client_data(find_coordinators(1))
    frame = numbered(coordinators(10_000), 1)
    body = frame[4:-1000]
    talk.session.upstream_data(len(body).to_bytes(4, "big") + body)
    while talk.calls:
        talk.turn()
    assert talk.done


def share_fetch(number):
    return request_frame(
        load_request_schema(78, 1)(
            group_id="g", member_id="m", share_session_epoch=0, max_wait=SOME_TIME, min_bytes=1,
            max_bytes=1, max_records=1, batch_size=1, topics=(), forgotten_topics_data=(),
        ),
        number,
    )  # fmt: skip


def test_share_fetch_is_streamed_without_addresses():
    talk = Loop()
    talk.session.client_data(share_fetch(7) + other(8))
    frame = written(response(1, records=bytes(2**20)))
    passed = b""
    for start in range(0, len(frame), 2**16):
        talk.session.upstream_data(frame[start : start + 2**16])
        assert talk.session.answer_bytes < 1000
        passed += talk.client.take()
        assert len(passed) == min(start + 2**16, len(frame))
    assert b"broker-" not in passed
    talk.session.upstream_data(answer(8))
    assert talk.client.take() == answer(8)


def test_share_fetch_of_many_partitions_is_read_in_slices():
    talk = Loop()
    talk.session.client_data(share_fetch(7) + other(8))
    frame = numbered(small_partitions(10_000), 7)
    data, got = frame + answer(8), b""
    for start in range(0, len(data), 100_000):
        talk.session.upstream_data(data[start : start + 100_000])
    turns = 0
    while talk.calls or talk.session.answer_bytes:
        if talk.calls:
            talk.turn()
            turns += 1
        else:
            talk.session.upstream_data(b"")  # as the connection does
    got = talk.client.take()
    assert got == data
    assert turns > 15


def test_cached_topic_names_count_as_held_memory_and_are_forgotten():
    talk = Loop()
    for number in range(500):
        talk.session.topics.put(f"topic-{number}", number)
    assert talk.session.held_bytes > 100_000
    talk.session.forget_topics()
    assert talk.session.held_bytes == 0
    assert talk.session.topics.topic_id("topic-1") is None


def test_names_are_not_forgotten_while_a_request_needs_them():
    talk = Loop()
    talk.session.topics.put("judged", 1)
    talk.session.client_data(produce(1, "judged"))
    talk.session.forget_topics()
    assert talk.session.topics.name(1) == "judged"


@pytest.mark.parametrize("size", [12, 40, -1, None])
def test_a_request_that_began_before_the_first_policy_is_not_forwarded_further(size):
    talk = Loop(judged=frozenset())
    talk.session.client_data(produce(1, "judged")[:size])
    assert not talk.session.policies_changed()
    talk.judged = frozenset({"judged"})
    assert talk.session.policies_changed() == (size is not None)


def test_requests_without_records_are_forwarded_when_policies_are_loaded():
    talk = Loop(judged=frozenset())
    talk.session.client_data(other(1)[:-1])
    talk.judged = frozenset({"judged"})
    assert not talk.session.policies_changed()
    assert route(16).hold(talk, 4) is None


class Handling(Loop):
    """A gateway with topic level keys, whose handlers run on the event loop."""

    topic_configs = SimpleNamespace(
        are_stored=True, names=lambda _topic: False, changed_at=lambda _topic: 0.0
    )

    def __post_init__(self):
        super().__post_init__()
        self.turns = Turns(asyncio.get_running_loop().call_soon)
        self.tasks = set()

    def run(self, coroutine):
        task = asyncio.ensure_future(coroutine)
        self.tasks.add(task)
        return task

    def settings(self, _topic):
        return {}

    def allows_key(self, _name):
        return True


def test_memory_that_a_handler_holds_counts_until_its_response_is_sent():
    names = [f"c{number}" for number in range(50)]
    once = written(described(4, (2, "t", 0, names)))
    head, result = once[8:13], once[14:-1]
    body = (3).to_bytes(4, "big") + head + varint(501) + result * 500 + b"\0"
    frame = len(body).to_bytes(4, "big") + body

    async def run():
        talk = Handling(judged=frozenset())
        request = describe(4, *[(2, "t", None)] * 500)
        sent = request.frame[:8] + (3).to_bytes(4, "big") + request.frame[12:]
        talk.session.client_data(other(2) + sent)
        while not talk.broker.data.endswith(request.frame[12:]):
            await asyncio.sleep(0)
        before = talk.session.held_bytes
        talk.session.upstream_data(answer(2) + frame)
        assert talk.client.take() == answer(2)
        assert talk.session.held_bytes >= before + len(frame) - 1000
        turns = 0
        while not talk.client.data:
            assert not talk.done
            await asyncio.sleep(0)
            turns += 1
        assert turns > 5
        found = parse_response(talk.client.take(), 32, 4).results
        assert len(found) == 500
        ours = [config.name for config in found[0].configs[50:]]
        assert ours == [key for key in config_keys() if key != DEAD_LETTER_TOPIC]
        assert all([config.name for config in result.configs[50:]] == ours for result in found)
        assert talk.session.held_bytes == 0

    asyncio.run(run())
