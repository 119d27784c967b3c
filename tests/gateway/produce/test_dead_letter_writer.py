"""Dead letters on their way to brokers: deadlines, retries, bounds, without a cluster."""

import asyncio
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace

import pytest
from structlog.testing import capture_logs

from penstock.client.connections.metadata import Leader, TopicLeaders
from penstock.client.errors import BrokerUnreachableError
from penstock.gateway.produce import dead_letter_writer
from penstock.gateway.produce.dead_letter_writer import (
    DeadLetterTopic,
    DeadLetterWriter,
    LettersRefused,
)
from penstock.policy import Record
from penstock.wire.names import NO_ID
from tests.records.encoding import encode_batch, values

TO = DeadLetterTopic("orders.dead", "orders", 5, 3)
LETTERS = encode_batch([Record(1, None, b"a", ())]) + encode_batch([Record(1, None, b"b", ())])


class Connection:
    """Two partitions; answers as it is told, or never."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.sent = []
        self.refreshed = 0
        self.leaders = {0: Leader(1, 0), 1: Leader(2, 0)}
        self.asked = {}

    def known_leaders(self, topic):
        return self.leaders

    def begin_describe(self, topics):
        (topic,) = topics
        self.asked.setdefault(topic, []).append(asked := Future())
        return asked

    def refresh(self, topic):
        self.refreshed += 1

    async def exchange(self, node, request, *, channel):
        self.sent.append((node, request.body))
        answer = self.answers.pop(0) if self.answers else 0
        if isinstance(answer, Exception):
            raise answer
        if answer is None:
            await asyncio.get_running_loop().create_future()
        return answer


@pytest.fixture
def writer(monkeypatch):
    """Makes a writer with a connection whose answers are codes."""
    monkeypatch.setattr(
        dead_letter_writer,
        "read_response",
        lambda code: SimpleNamespace(get=lambda _: SimpleNamespace(code=code, text="", offset=0)),
    )
    monkeypatch.setattr(dead_letter_writer, "_PAUSE_S", 0.001)

    def make(*answers):
        made = DeadLetterWriter({}, Path("f"), asyncio.ensure_future)
        made._connection = Connection(*answers)
        return made, made._connection

    return make


async def until(condition):
    while not condition():
        await asyncio.sleep(0.001)


async def store(writer, letters=LETTERS):
    told = asyncio.get_running_loop().create_future()
    writer.store(TO, letters, told.set_result)
    return await asyncio.wait_for(told, 30)


async def test_each_batch_goes_to_its_partitions_leader(writer):
    made, connection = writer()
    assert await store(made) is None
    assert [node for node, _ in connection.sent] == [2, 2]  # partition 5 modulo 2
    assert (made.stored, made.waiting_bytes) == (2, 0)


async def test_what_may_pass_is_tried_again(writer):
    made, connection = writer(6, BrokerUnreachableError("gone"), 0, 19, 0)
    assert await store(made) is None
    assert len(connection.sent) == 5
    assert connection.refreshed == 3


@pytest.mark.parametrize(("code", "said"), [(29, "AUTHORIZATION"), (10, "raise it"), (87, "87")])
async def test_what_does_not_pass_is_told_at_once(writer, code, said):
    made, connection = writer(code)
    assert said in await store(made)
    assert len(connection.sent) == 1
    assert made.waiting_bytes == 0


async def test_a_broker_that_does_not_answer_is_given_up(writer, monkeypatch):
    monkeypatch.setattr(dead_letter_writer, "DEADLINE_S", 0.05)
    made, _ = writer(None)
    assert await store(made) == "it took too long"


async def test_what_waits_is_bounded(writer, monkeypatch):
    monkeypatch.setattr(dead_letter_writer, "WAITING_MAX_BYTES", len(LETTERS))
    made, _ = writer()
    first = asyncio.ensure_future(store(made))
    await asyncio.sleep(0)
    assert await store(made) == "too many dead letters wait"
    assert await first is None
    assert await store(made) is None


async def test_letters_that_wait_for_the_same_leaders_request_them_once(writer):
    made, connection = writer()
    connection.leaders = None
    stored = [asyncio.ensure_future(store(made)) for _ in range(20)]
    await until(lambda: connection.asked)
    (asked,) = connection.asked[TO.name]
    connection.leaders = {0: Leader(1, 0)}
    asked.set_result({TO.name: TopicLeaders(TO.name, 0, NO_ID, connection.leaders)})
    assert await asyncio.gather(*stored) == [None] * 20
    assert len(connection.asked[TO.name]) == 1


async def test_topics_whose_leaders_do_not_come_take_no_thread(writer):
    made, connection = writer()
    connection.leaders = None
    for number in range(100):
        made.store(TO._replace(name=f"{number}.dead"), LETTERS, lambda _: None)
    await until(lambda: connection.asked)
    assert await asyncio.wait_for(asyncio.to_thread(lambda: "there is a thread"), 30)


async def test_an_error_of_the_gateway_is_a_failure_too(writer):
    made, connection = writer()
    connection.leaders = {}
    assert await store(made) == "there was an error"
    assert made.waiting_bytes == 0


async def test_letters_that_are_too_large_together_are_stored_in_smaller_batches(writer):
    many = encode_batch(values(*[b"%d" % n for n in range(5)]))
    made, connection = writer(0, 10, 10, 0, 0, 18, 0, 0)
    assert await store(made, LETTERS[: len(LETTERS) // 2] + many) is None
    assert made.stored == 5
    bodies = [body for _, body in connection.sent]
    stored = [bodies[at] for at in (0, 3, 4, 6, 7)]
    found = [[n for n in range(5) if b"\x02k\x02%d\x00" % n in body] for body in stored]
    assert found == [[], [0], [1], [2], [3, 4]]


@pytest.mark.parametrize("code", [10, 18, 32, 44, 76, 87])
async def test_a_letter_that_its_topic_never_takes_is_refused(writer, code):
    made, connection = writer(0, code)
    failure = await store(made)
    assert isinstance(failure, LettersRefused)
    assert failure.startswith("topic orders.dead, partition 1: ")
    assert f"({code})" in failure
    assert len(connection.sent) == 2


async def test_missing_rights_may_be_repaired(writer):
    made, _ = writer(29)
    assert not isinstance(await store(made), LettersRefused)


@pytest.mark.parametrize(
    ("code", "answer"), [(10, "INVALID_RECORD (87)"), (29, "REQUEST_TIMED_OUT (7)")]
)
async def test_the_log_says_what_clients_get(writer, code, answer):
    made, _ = writer(code)
    with capture_logs() as logs:
        reason = await store(made)
    (line,) = [log for log in logs if log["event"] == "dead letters cannot be stored"]
    assert (line["answer"], line["reason"], line["topic"]) == (answer, reason, "orders")
