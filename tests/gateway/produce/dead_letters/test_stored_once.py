"""Dead letters are stored once, whatever becomes of the responses to their batches."""

import asyncio
import random
from concurrent.futures import Future

import pytest
from structlog.testing import capture_logs

from penstock.gateway.produce.dead_letters import partition_letters
from penstock.gateway.produce.dead_letters.failures import LettersRefused
from penstock.kafka.client.connections.metadata import PartitionLeader
from tests.gateway.produce.dead_letters.letter_log import TO, letter, store, until

NOT_LEADER, TIMED_OUT, TOO_LARGE, TOO_FEW, AFTER_APPEND, DENIED, REFUSED = 6, 7, 10, 19, 20, 29, 87
UNKNOWN = "unknown"


@pytest.mark.parametrize(
    "fault", ["lost", "unsaid", NOT_LEADER, -NOT_LEADER, -TIMED_OUT, TOO_FEW, -AFTER_APPEND]
)
async def test_a_batch_is_stored_once_though_its_first_attempt_failed(writer, fault):
    made, log = writer(None, fault, fault)
    for value in (b"a", b"b", b"c"):
        assert await store(made, letter(value)) is None
    assert log.partitions[0].values == [b"a", b"b", b"c"]
    assert log.producers == 1
    assert [(sent.epoch, sent.base_sequence) for sent in log.partitions[0].headers] == [
        (0, 0), (0, 1), (0, 2),
    ]  # fmt: skip
    assert made.waiting_bytes == 0


async def test_the_letters_behind_wait_until_it_is_known_whether_a_batch_is_stored(writer):
    made, log = writer("unsaid", "lost", "unsaid")
    stored = [store(made, letter(b"%d" % number, b"more")) for number in range(10)]
    assert await asyncio.gather(*stored) == [None] * 10
    values = log.partitions[0].values
    assert values == [value for number in range(10) for value in (b"%d" % number, b"more")]


async def test_a_batch_goes_to_the_new_leader_as_it_was(writer):
    made, log = writer("unsaid")
    log.pending = asyncio.get_running_loop().create_future()
    first = asyncio.ensure_future(store(made, letter(b"a")))
    await until(lambda: log.requests)
    second = asyncio.ensure_future(store(made, letter(b"b")))
    await asyncio.sleep(0)
    log.leaders = {0: PartitionLeader(9, 1), 1: PartitionLeader(2, 0)}
    third = asyncio.ensure_future(store(made, letter(b"c")))
    await asyncio.sleep(0.01)
    assert log.requests == 1
    log.pending.set_result(None)
    assert await asyncio.gather(first, second, third) == [None] * 3
    assert log.partitions[0].values == [b"a", b"b", b"c"]


async def test_a_partition_without_a_leader_is_sent_the_same_batch_later(writer):
    made, log = writer("unsaid")
    log.pending = asyncio.get_running_loop().create_future()
    first = asyncio.ensure_future(store(made, letter(b"a")))
    await until(lambda: log.requests)
    leaders, log.leaders = log.leaders, {0: PartitionLeader(-1, 0), 1: PartitionLeader(2, 0)}
    log.pending.set_result(None)
    await asyncio.sleep(0.01)
    assert not first.done()
    log.leaders = leaders
    assert await first is None
    assert log.partitions[0].values == [b"a"]


async def test_a_topic_that_was_created_again_with_fewer_partitions_gets_the_batch(writer):
    made, log = writer("unsaid")
    log.pending = asyncio.get_running_loop().create_future()
    first = asyncio.ensure_future(store(made, letter(b"a"), key=1, to=TO._replace(partition=1)))
    await until(lambda: log.requests)
    log.leaders = {0: PartitionLeader(1, 0)}
    log.pending.set_result(None)
    assert await first is None
    assert log.partitions[0].values == [b"a"]


# A client that retries its own batch


async def test_a_retry_of_a_client_waits_for_the_letters_of_its_first_attempt(writer, monkeypatch):
    made, log = writer("unsaid")
    log.pending = asyncio.get_running_loop().create_future()
    monkeypatch.setattr(partition_letters, "DEADLINE_S", 0.02)
    assert await store(made, letter(b"a"), key=1) == "it took too long"
    assert made.waiting_bytes, "it counts as long as it is held"
    monkeypatch.setattr(partition_letters, "DEADLINE_S", 30.0)
    again = asyncio.ensure_future(store(made, letter(b"a"), key=1))
    await asyncio.sleep(0)
    log.pending.set_result(None)
    assert await again is None
    assert log.partitions[0].values == [b"a"]
    assert made.waiting_bytes == 0


async def test_a_retry_after_letters_were_stored_late_succeeds_at_once(writer, monkeypatch):
    made, log = writer()
    log.pending = asyncio.get_running_loop().create_future()
    monkeypatch.setattr(partition_letters, "DEADLINE_S", 0.02)
    assert await store(made, letter(b"a") + letter(b"b"), key=1) == "it took too long"
    monkeypatch.setattr(partition_letters, "DEADLINE_S", 30.0)
    log.pending.set_result(None)
    await until(lambda: not made.waiting_bytes)
    assert log.partitions[0].values == [b"a", b"b"], "a batch that was begun is completed"
    for _ in range(2):
        assert await store(made, letter(b"a") + letter(b"b"), key=1) is None
    assert await store(made, letter(b"a"), key=2) is None
    assert log.partitions[0].values == [b"a", b"b", b"a"]


async def test_an_early_retry_waits_beside_the_first_attempt(writer):
    made, log = writer()
    log.pending = asyncio.get_running_loop().create_future()
    first = asyncio.ensure_future(store(made, letter(b"a"), key=1))
    await until(lambda: log.requests)
    second = asyncio.ensure_future(store(made, letter(b"a"), key=1))
    await asyncio.sleep(0)
    log.pending.set_result(None)
    assert await asyncio.gather(first, second) == [None, None]
    assert log.partitions[0].values == [b"a"]


async def test_letters_that_were_never_sent_are_given_up_at_their_deadline(writer, monkeypatch):
    made, log = writer()
    leaders, log.leaders = log.leaders, None
    monkeypatch.setattr(partition_letters, "DEADLINE_S", 0.02)
    log.begin_describe = lambda _: Future()
    assert await store(made, letter(b"a"), key=1) == "it took too long"
    assert made.waiting_bytes == 0
    monkeypatch.setattr(partition_letters, "DEADLINE_S", 30.0)
    log.leaders = leaders
    assert await store(made, letter(b"a"), key=1) is None
    assert log.partitions[0].values == [b"a"]


async def test_a_batch_without_a_result_is_given_up_in_the_end(writer, monkeypatch):
    """Its numbers are never those of another batch: the broker would take it for a copy."""
    monkeypatch.setattr(partition_letters, "RETRIED_S", 0.02)
    monkeypatch.setattr(partition_letters, "DEADLINE_S", 0.02)
    made, log = writer(*["unsaid"] * 3, *["lost"] * 10_000)
    assert await store(made, letter(b"a"), key=1) is not None
    await until(lambda: not made.waiting_bytes)
    assert log.faults, "it was not stored after all"
    monkeypatch.setattr(partition_letters, "DEADLINE_S", 30.0)
    log.faults.clear()
    assert await store(made, letter(b"b"), key=2) is None
    assert log.partitions[0].values == [b"a", b"b"]


# Refusals, and brokers with other numbers


@pytest.mark.parametrize("code", [REFUSED, TOO_LARGE, DENIED])
async def test_the_numbers_of_a_refused_batch_are_those_of_the_next(writer, code):
    made, log = writer(None, code)
    assert await store(made, letter(b"a")) is None
    assert await store(made, letter(b"b")) is not None
    assert await store(made, letter(b"c")) is None
    assert log.partitions[0].values == [b"a", b"c"]
    assert [sent.base_sequence for sent in log.partitions[0].headers] == [0, 1]


@pytest.mark.parametrize("code", [REFUSED, TOO_LARGE])
async def test_a_refused_batch_that_may_be_stored_keeps_its_numbers(writer, code):
    """A broker would take another batch with the same numbers for it, and not store it."""
    made, log = writer("unsaid", code)
    assert isinstance(await store(made, letter(b"a")), LettersRefused)
    assert await store(made, letter(b"b")) is None
    assert log.partitions[0].values == [b"a", b"b"]
    assert [sent.epoch for sent in log.partitions[0].headers] == [0, 1]


async def test_missing_rights_after_a_lost_response_leave_the_batch_as_it_was(writer):
    made, log = writer("unsaid", DENIED, DENIED)
    assert await store(made, letter(b"a")) is None
    assert log.partitions[0].values == [b"a"]


async def test_an_unknown_error_leaves_open_whether_a_batch_is_stored(writer):
    made, log = writer(UNKNOWN)
    assert await store(made, letter(b"a")) is None
    assert log.partitions[0].values == [b"a"]


async def test_a_leader_that_lost_batches_gets_those_that_follow(writer):
    made, log = writer()
    for value in (b"a", b"b"):
        assert await store(made, letter(value)) is None
    log.partitions[0].forget()
    for value in (b"c", b"d"):
        assert await store(made, letter(value)) is None
    assert log.partitions[0].values == [b"a", b"c", b"d"]
    assert await store(made, letter(b"e"), to=TO._replace(partition=1)) is None
    assert [sent.epoch for sent in log.partitions[1].headers] == [0]
    assert log.producers == 1


async def test_a_batch_that_may_be_doubled_is_reported(writer):
    made, log = writer()
    assert await store(made, letter(b"a")) is None
    log.faults = ["unsaid"]
    append = log.partitions[0].append

    def append_and_forget(data):
        code = append(data)
        log.partitions[0]._last.clear()
        log.partitions[0]._last.append((-9, -9))
        log.partitions[0].append = append
        return code

    log.partitions[0].append = append_and_forget
    with capture_logs() as logs:
        assert await store(made, letter(b"b")) is None
    assert log.partitions[0].values == [b"a", b"b", b"b"]
    assert [line["event"] for line in logs] == ["dead letters may be stored twice"]


# Without a producer id


async def test_without_a_producer_id_letters_have_no_numbers(writer):
    made, log = writer("unsaid", -TIMED_OUT)
    log.refused = 31
    with capture_logs() as logs:
        assert await store(made, letter(b"a"), key=1) == (
            "topic orders.dead, partition 0: REQUEST_TIMED_OUT (7)"
        )
        assert await store(made, letter(b"b"), key=2) is None
    assert log.partitions[0].values == [b"a", b"a", b"b"]
    assert {sent.producer_id for sent in log.partitions[0].headers} == {-1}
    assert log.producers == 1, "it is not requested for each batch"
    (warning,) = [line for line in logs if line["event"] == "dead letters may be stored twice"]
    assert "CLUSTER_AUTHORIZATION_FAILED (31)" in warning["reason"]


async def test_a_producer_id_that_is_not_there_yet_is_waited_for(writer):
    made, log = writer()
    log.refused = 14
    waiting = asyncio.ensure_future(store(made, letter(b"a")))
    await until(lambda: log.producers > 2)
    log.refused = 0
    assert await waiting is None
    (sent,) = log.partitions[0].headers
    assert sent.producer_id > 0


# Random faults


@pytest.mark.parametrize("seed", range(40))
async def test_no_letter_is_lost_or_doubled_under_random_faults(writer, monkeypatch, seed):
    chance = random.Random(seed)
    monkeypatch.setattr(partition_letters, "DEADLINE_S", 0.004)
    made, log = writer()
    kinds = [None, None, "lost", "unsaid", NOT_LEADER, -NOT_LEADER, -TIMED_OUT, -AFTER_APPEND]
    log.faults = [chance.choice(kinds) for _ in range(150)]
    for partition in log.partitions.values():
        partition.refuses = lambda value: value.endswith(b"7")

    async def client(number):
        """Retry a batch until its letters are stored, or refused for good."""
        to = TO._replace(partition=number % 2)
        values = [b"%d-%d" % (part, number) for part in range(chance.choice((1, 1, 3)))]
        letters = b"".join(letter(value) for value in values)
        while (failure := await store(made, letters, number, to)) is not None:
            if isinstance(failure, LettersRefused):
                return [value for value in values if not value.endswith(b"7")]
            await asyncio.sleep(chance.choice((0, 0.001, 0.01)))
        return values

    expected = []
    for start in range(0, 60, 6):
        if chance.random() < 0.5:
            log.leaders = {number: PartitionLeader(chance.randrange(3), 0) for number in (0, 1)}
        expected += await asyncio.gather(*map(client, range(start, start + 6)))
    await until(lambda: not made.waiting_bytes)
    found = log.partitions[0].values + log.partitions[1].values
    assert sorted(found) == sorted(value for values in expected for value in values)
