"""The writer of dead letters: deadlines, retries, bounds, without a cluster."""

import asyncio
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from uuid import UUID

import pytest
from structlog.testing import capture_logs

from penstock.gateway.produce.dead_letters import partition_letters, pending_letters, requests
from penstock.gateway.produce.dead_letters import writer as dead_letter_writer
from penstock.gateway.produce.dead_letters.dead_letter_topic import DeadLetterTopic
from penstock.gateway.produce.dead_letters.failures import LettersRefused
from penstock.gateway.produce.dead_letters.writer import DeadLetterWriter
from penstock.kafka.client.connections.metadata import NO_NODE, PartitionLeader, TopicLeaders
from penstock.kafka.client.errors import BrokerUnreachableError
from penstock.kafka.records.stored_batch import read_stored_batch
from penstock.kafka.wire.names import NO_ID
from penstock.kafka.wire.primitives import read_varint
from penstock.policy import Record
from tests.gateway.produce.dead_letters.letter_log import INIT_PRODUCER_ID, producer_id_response
from tests.gateway.produce.dead_letters.names import Gateway, any_names
from tests.kafka.records.encoding import encode_batch, values

TO = DeadLetterTopic("orders.dead", "orders", 5, 3)
LETTERS = encode_batch([Record(1, None, b"a", ())]) + encode_batch([Record(1, None, b"b", ())])


SLOW = object()


class Connection:
    """Two partitions; responds as the test says, or never."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.sent = []
        self.refreshed = 0
        self.refused = 0
        self.leaders = {0: PartitionLeader(1, 0), 1: PartitionLeader(2, 0)}
        self.lookups = {}

    def known_leaders(self, topic):
        return self.leaders

    def begin_describe(self, topics):
        (topic,) = topics
        self.lookups.setdefault(topic, []).append(lookup := Future())
        return lookup

    def refresh(self, topic):
        self.refreshed += 1

    def begin_with_any(self, request):
        assert request.api_key == INIT_PRODUCER_ID
        (response := Future()).set_result(producer_id_response(code=self.refused))
        return response

    async def exchange(self, node, request, *, channel):
        self.sent.append((node, request.body))
        answer = self.answers.pop(0) if self.answers else 0
        if isinstance(answer, Exception):
            raise answer
        if answer is None:
            await asyncio.get_running_loop().create_future()
        return await asyncio.shield(self.slow) if answer is SLOW else answer


@pytest.fixture
def writer(monkeypatch):
    """Returns a writer with a connection that responds with error codes."""
    monkeypatch.setattr(
        requests,
        "read_response",
        lambda code: SimpleNamespace(get=lambda _: SimpleNamespace(code=code, text="", offset=0)),
    )
    monkeypatch.setattr(partition_letters, "_PAUSE_S", 0.001)

    def make(*answers, names=None, **options):
        made = DeadLetterWriter(
            {}, Path("f"), asyncio.ensure_future, names or any_names(), **options
        )
        made._connection = Connection(*answers)
        return made, made._connection

    return make


async def until(condition):
    while not condition():
        await asyncio.sleep(0.001)


async def store(writer, letters=LETTERS, to=TO):
    failures = asyncio.get_running_loop().create_future()
    writer.store(to, letters, failures.set_result)
    return await asyncio.wait_for(failures, 30)


async def test_each_batch_goes_to_its_partitions_leader(writer):
    made, connection = writer()
    assert await store(made) is None
    assert [node for node, _ in connection.sent] == [2, 2]  # partition 5 modulo 2
    assert (made.stored, made.waiting_bytes) == (2, 0)


async def test_letters_are_refused_whose_topic_may_not_have_them(writer):
    made, connection = writer(
        names=Gateway(**{"topics__orders.dead__penstock__policies": "first"}).names
    )
    failure = await store(made)
    assert isinstance(failure, LettersRefused)
    assert "orders.dead, the dead letter topic of orders, has its own policies" in failure
    assert made.refusal(TO) == failure
    assert (connection.sent, made.waiting_bytes) == ([], 0)


async def test_letters_wait_until_the_keys_of_their_topic_are_known(writer):
    gateway = Gateway()
    gateway.topic_configs.set(TO.name, UUID(int=1), **{"penstock.policies": "first"})
    made, connection = writer(names=gateway.names)
    storing = asyncio.ensure_future(store(made))
    await until(lambda: TO.name in connection.lookups)
    assert connection.sent == []
    found = TopicLeaders(TO.name, 0, UUID(int=1), connection.leaders)
    connection.lookups[TO.name][0].set_result({TO.name: found})
    failure = await storing
    assert isinstance(failure, LettersRefused)
    assert "has its own policies (penstock.policies)" in failure
    assert connection.sent == []


async def test_letters_are_retried_after_retriable_errors(writer):
    made, connection = writer(6, BrokerUnreachableError("gone"), 0, 19, 0)
    assert await store(made) is None
    assert len(connection.sent) == 5
    assert connection.refreshed == 3


@pytest.mark.parametrize(("code", "message"), [(29, "AUTHORIZATION"), (10, "raise it"), (87, "87")])
async def test_other_errors_end_letters_at_once(writer, code, message):
    made, connection = writer(code)
    assert message in await store(made)
    assert len(connection.sent) == 1
    assert made.waiting_bytes == 0


async def test_letters_fail_at_their_deadline_if_a_broker_does_not_respond(writer, monkeypatch):
    monkeypatch.setattr(partition_letters, "DEADLINE_S", 0.05)
    made, _ = writer(None)
    assert await store(made) == "it took too long"


async def test_waiting_letters_are_bounded(writer, monkeypatch):
    monkeypatch.setattr(pending_letters, "WAITING_MAX_BYTES", len(LETTERS))
    made, _ = writer()
    first = asyncio.ensure_future(store(made))
    await asyncio.sleep(0)
    assert await store(made) == "too many dead letters wait"
    assert await first is None
    assert await store(made) is None


async def test_letters_that_wait_for_the_same_leaders_send_a_single_request(writer):
    made, connection = writer()
    connection.leaders = None
    stored = [asyncio.ensure_future(store(made)) for _ in range(20)]
    await until(lambda: connection.lookups)
    (lookup,) = connection.lookups[TO.name]
    connection.leaders = {0: PartitionLeader(1, 0)}
    lookup.set_result({TO.name: TopicLeaders(TO.name, 0, NO_ID, connection.leaders)})
    assert await asyncio.gather(*stored) == [None] * 20
    assert len(connection.lookups[TO.name]) == 1


async def test_a_partition_without_a_leader_delays_only_its_own_letters(writer):
    made, connection = writer()
    leaders = {0: PartitionLeader(NO_NODE, 1), 1: PartitionLeader(2, 0)}
    described = {TO.name: TopicLeaders(TO.name, 0, NO_ID, leaders)}
    connection.leaders = None

    def describe(_):
        connection.leaders = described[TO.name].leaders
        (found := Future()).set_result(described)
        return found

    connection.begin_describe = describe
    waiting = asyncio.ensure_future(store(made, ONE, TO._replace(partition=0)))
    assert await store(made, ONE, TO._replace(partition=1)) is None
    assert [node for node, _ in connection.sent] == [2]
    assert not waiting.done()
    found = {**leaders, 0: PartitionLeader(3, 2)}
    described[TO.name] = TopicLeaders(TO.name, 0, NO_ID, found)
    assert await waiting is None
    assert [node for node, _ in connection.sent] == [2, 3]


async def test_topics_without_leaders_occupy_no_thread(writer):
    made, connection = writer()
    connection.leaders = None
    for number in range(100):
        made.store(TO._replace(name=f"{number}.dead"), LETTERS, lambda _: None)
    await until(lambda: connection.lookups)
    assert await asyncio.wait_for(asyncio.to_thread(lambda: "there is a thread"), 30)


async def test_an_error_of_the_gateway_is_a_failure_too(writer):
    made, connection = writer()
    connection.leaders = {}
    assert await store(made) == "there was an error"
    assert made.waiting_bytes == 0


async def test_a_batch_of_letters_that_is_too_large_is_stored_in_smaller_batches(writer):
    many = encode_batch(values(*[b"%d" % n for n in range(5)]))
    made, connection = writer(0, 10, 10, 0, 0, 18, 0, 0)
    assert await store(made, LETTERS[: len(LETTERS) // 2] + many) is None
    assert made.stored == 5
    bodies = [body for _, body in connection.sent]
    stored = [bodies[at] for at in (0, 3, 4, 6, 7)]
    found = [[n for n in range(5) if b"\x02k\x02%d\x00" % n in body] for body in stored]
    assert found == [[], [0], [1], [2], [3, 4]]


@pytest.mark.parametrize("code", [10, 18, 32, 44, 76, 87])
async def test_a_letter_that_its_topic_never_accepts_is_refused(writer, code):
    made, connection = writer(0, code)
    failure = await store(made)
    assert isinstance(failure, LettersRefused)
    assert failure.startswith("topic orders.dead, partition 1: ")
    assert f"({code})" in failure
    assert len(connection.sent) == 2


async def test_missing_rights_do_not_refuse_letters_permanently(writer):
    made, _ = writer(29)
    assert not isinstance(await store(made), LettersRefused)


@pytest.mark.parametrize(
    ("code", "answer"), [(10, "INVALID_RECORD (87)"), (29, "REQUEST_TIMED_OUT (7)")]
)
async def test_the_log_has_the_errors_of_clients(writer, code, answer):
    made, _ = writer(code)
    with capture_logs() as logs:
        reason = await store(made)
    (line,) = [log for log in logs if log["event"] == "dead letters cannot be stored"]
    assert (line["answer"], line["reason"], line["topic"]) == (answer, reason, "orders")


ONE = LETTERS[: len(LETTERS) // 2]


def letter(value):
    return encode_batch([Record(1, None, value, ())])


def batch_of(body):
    """Read the batch of a Produce request to a single partition."""
    name = TO.name.encode()
    size, start = read_varint(body, body.index(name) + len(name) + 1 + 4)
    return read_stored_batch(body[start : start + size - 1], max_decompressed_bytes=2**20)


async def test_letters_of_several_connections_share_a_request(writer):
    made, connection = writer()
    connection.leaders = {number: PartitionLeader(1, 0) for number in range(3)}
    to = [TO._replace(partition=number) for number in range(3)]
    failures = []
    for place in to:
        made.store(place, ONE, failures.append)
    await until(lambda: len(failures) == 3)
    assert failures == [None] * 3
    ((_, body),) = connection.sent
    assert body.count(ONE[61:]) == 3
    assert (made.stored, made.waiting_bytes) == (3, 0)


async def test_letters_of_a_partition_that_wait_for_a_response_are_sent_as_one_batch(writer):
    made, connection = writer(SLOW)
    connection.slow = asyncio.get_running_loop().create_future()
    first = asyncio.ensure_future(store(made, ONE))
    await until(lambda: connection.sent)
    letters = [letter(b"%d" % number) for number in range(30)]
    behind = [asyncio.ensure_future(store(made, some)) for some in letters]
    await asyncio.sleep(0)
    connection.slow.set_result(0)
    assert await asyncio.gather(first, *behind) == [None] * 31
    assert len(connection.sent) == 2
    joined = batch_of(connection.sent[1][1])
    assert [bytes(value) for value in joined.records.values] == [b"%d" % n for n in range(30)]
    assert (made.stored, made.waiting_bytes) == (31, 0)


@pytest.mark.parametrize("code", [10, 87])
async def test_only_the_letter_that_is_refused_fails_among_joined_letters(writer, code):
    made, connection = writer(SLOW, code, 0, code, 0)
    connection.slow = asyncio.get_running_loop().create_future()
    first = asyncio.ensure_future(store(made, ONE))
    await until(lambda: connection.sent)
    behind = [asyncio.ensure_future(store(made, letter(value))) for value in (b"a", b"b", b"c")]
    await asyncio.sleep(0)
    connection.slow.set_result(0)
    assert await first is None
    a, b, c = await asyncio.gather(*behind)
    assert (a, c) == (None, None)
    assert isinstance(b, LettersRefused)
    assert len(connection.sent) == 5


async def test_each_partition_of_a_request_has_its_own_result(writer, monkeypatch):
    made, connection = writer()
    connection.leaders = {number: PartitionLeader(1, 0) for number in range(3)}
    codes = iter([{0: 0, 1: 44, 2: 6}, {2: 0}])
    monkeypatch.setattr(
        requests,
        "read_response",
        lambda _: {
            (TO.name, number): SimpleNamespace(code=code, text="", offset=0)
            for number, code in next(codes).items()
        },
    )
    stores = [store(made, ONE, TO._replace(partition=number)) for number in range(3)]
    accepted, refused, again = await asyncio.gather(*stores)
    assert (accepted, again) == (None, None)
    assert isinstance(refused, LettersRefused)
    assert len(connection.sent) == 2


async def test_a_slow_request_delays_only_its_own_partitions(writer, monkeypatch):
    monkeypatch.setattr(dead_letter_writer, "_SLOW_S", 0.001)
    made, connection = writer(None, 0)
    connection.leaders = {number: PartitionLeader(1, 0) for number in range(2)}
    slow = asyncio.ensure_future(store(made, ONE, TO._replace(partition=0)))
    await until(lambda: connection.sent)
    behind = asyncio.ensure_future(store(made, ONE, TO._replace(partition=0)))
    assert await store(made, ONE, TO._replace(partition=1)) is None
    assert len(connection.sent) == 2
    assert not slow.done()
    assert not behind.done()


async def test_letters_before_their_deadline_outlive_expired_letters_of_their_request(
    writer, monkeypatch
):
    made, connection = writer(SLOW)
    connection.leaders = {number: PartitionLeader(1, 0) for number in range(3)}
    connection.slow = asyncio.get_running_loop().create_future()
    failures = []

    def begin(partition, time_s):
        monkeypatch.setattr(partition_letters, "DEADLINE_S", time_s)
        to = TO._replace(partition=partition)
        made.store(to, ONE, lambda failure: failures.append((partition, failure)))

    begin(0, 0.02)
    begin(1, 30.0)
    await until(lambda: failures)
    assert failures == [(0, "it took too long")]
    connection.slow.set_result(0)
    await until(lambda: len(failures) == 2)
    assert failures[1:] == [(1, None)]
    assert len(connection.sent) == 1, "nothing is sent again"
    assert (made.waiting_bytes, made.stored) == (0, 2)


async def test_expired_letters_are_not_sent(writer, monkeypatch):
    monkeypatch.setattr(partition_letters, "DEADLINE_S", 0.2)
    made, connection = writer(SLOW, clock=lambda: 0.0)
    connection.slow = asyncio.get_running_loop().create_future()
    assert await asyncio.gather(store(made, ONE), store(made, ONE)) == ["it took too long"] * 2
    connection.slow.set_result(0)
    monkeypatch.setattr(partition_letters, "DEADLINE_S", 30.0)
    assert await store(made, ONE) is None
    assert len(connection.sent) == 2
    assert made.waiting_bytes == 0


async def test_waiting_letters_are_sent_to_a_new_leader(writer):
    made, connection = writer(SLOW)
    connection.leaders = {0: PartitionLeader(1, 0)}
    connection.slow = asyncio.get_running_loop().create_future()
    stored = [asyncio.ensure_future(store(made, ONE))]
    await until(lambda: connection.sent)
    stored.append(asyncio.ensure_future(store(made, ONE)))
    await asyncio.sleep(0)
    connection.leaders = {0: PartitionLeader(7, 1)}
    connection.slow.set_result(0)
    assert await asyncio.gather(*stored) == [None, None]
    assert [node for node, _ in connection.sent] == [1, 7]


async def test_an_error_in_a_callback_does_not_affect_other_results(writer):
    made, connection = writer()
    connection.leaders = {number: PartitionLeader(1, 0) for number in range(3)}
    failures = []

    def fail(_):
        raise ZeroDivisionError

    made.store(TO._replace(partition=0), ONE, failures.append)
    made.store(TO._replace(partition=1), ONE, fail)
    made.store(TO._replace(partition=2), ONE, failures.append)
    await until(lambda: len(failures) == 2)
    assert failures == [None, None]
    assert made.waiting_bytes == 0
    assert await store(made) is None


async def test_a_lost_request_is_retried_for_all_its_letters(writer):
    made, connection = writer(BrokerUnreachableError("gone"))
    connection.leaders = {number: PartitionLeader(1, 0) for number in range(5)}
    stores = [store(made, LETTERS, TO._replace(partition=number % 5)) for number in range(20)]
    assert await asyncio.gather(*stores) == [None] * 20
    assert (made.stored, made.waiting_bytes) == (40, 0)


async def test_a_broker_reports_before_the_deadline_which_partitions_wait_for_replicas(
    writer, monkeypatch
):
    made, connection = writer()
    assert await store(made, ONE) is None
    timeout_ms = int.from_bytes(connection.sent[0][1][3:7], "big")
    assert 7_000 < timeout_ms < 1000 * partition_letters.DEADLINE_S - 1000


async def test_without_numbers_letters_that_replicas_do_not_have_in_time_are_not_retried(writer):
    made, connection = writer(7)
    connection.refused = 31
    failure = await store(made, ONE)
    assert "REQUEST_TIMED_OUT (7)" in failure
    assert not isinstance(failure, LettersRefused)
    assert len(connection.sent) == 1
