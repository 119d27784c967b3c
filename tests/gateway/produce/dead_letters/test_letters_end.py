"""Dead letters that a broker does not store: when they end, and what they leave to others."""

import asyncio
from concurrent.futures import Future

import pytest
from structlog.testing import capture_logs

from penstock.gateway.produce.dead_letters import (
    late_letters,
    numbers,
    partition_letters,
    pending_letters,
)
from penstock.gateway.produce.dead_letters.failures import LettersRefused
from penstock.kafka.client.errors import BrokerUnreachableError, ConnectionLostError
from penstock.kafka.wire.errors import UNKNOWN_SERVER_ERROR
from penstock.kafka.wire.producer_ids import ProducerIdAndEpoch
from tests.gateway.produce.dead_letters.letter_log import TO, letter, store, until

OTHER = TO._replace(partition=1)
TOO_LARGE, TOO_FEW, DENIED, OTHER_SEQUENCE = 10, 19, 29, 45
LOST = BrokerUnreachableError("lost")
MANY = 1_000_000


def doubles(logs):
    return [line for line in logs if line["event"] == "dead letters may be stored twice"]


# Without a producer id


async def test_letters_without_numbers_end_at_their_deadline(writer, monkeypatch):
    monkeypatch.setattr(partition_letters, "DEADLINE_S", 0.05)
    made, log = writer(*[TOO_FEW] * MANY)
    log.refused = 31
    assert "NOT_ENOUGH_REPLICAS" in await store(made, letter(b"a"), key=1)
    assert made.waiting_bytes == 0


async def test_letters_without_numbers_are_not_sent_again_after_a_timeout(writer, monkeypatch):
    monkeypatch.setattr(partition_letters, "DEADLINE_S", 0.05)
    made, log = writer()
    log.refused = 31
    log.pending = asyncio.get_running_loop().create_future()
    assert await store(made, letter(b"a"), key=1) == "it took too long"
    await asyncio.sleep(0)
    assert made.waiting_bytes == 0
    log.pending.set_result(None)
    monkeypatch.setattr(partition_letters, "DEADLINE_S", 30.0)
    assert await store(made, letter(b"b"), key=2) is None
    assert log.partitions[0].values == [b"a", b"b"]


async def test_letters_for_which_there_was_no_producer_id_were_never_sent(writer, monkeypatch):
    monkeypatch.setattr(partition_letters, "DEADLINE_S", 0.05)
    made, log = writer()

    def unreachable(_):
        (failed := Future()).set_exception(LOST)
        return failed

    log.begin_with_any = unreachable
    assert await store(made, letter(b"a"), key=1) is not None
    assert (made.waiting_bytes, log.requests) == (0, 0)


async def test_a_silent_broker_does_not_delay_the_letters_of_others(writer):
    made, log = writer()
    exchange = log.exchange

    async def silent(node, request, *, channel):
        if node == 1:
            await asyncio.get_running_loop().create_future()
        return await exchange(node, request, channel=channel)

    log.exchange = silent
    stuck = asyncio.ensure_future(store(made, letter(b"a"), key=1))
    assert await asyncio.wait_for(store(made, letter(b"b"), 2, OTHER), 5) is None
    assert not stuck.done()
    assert log.producers == 1


async def test_letters_that_need_a_producer_id_share_a_request(writer):
    made, log = writer()
    requests = []
    begin = log.begin_with_any

    def pending(request):
        requests.append(Future())
        return requests[-1]

    log.begin_with_any = pending
    stored = [asyncio.ensure_future(store(made, letter(b"a"), to=to)) for to in (TO, OTHER)]
    await until(lambda: requests)
    await asyncio.sleep(0.01)
    (request,) = requests
    request.set_result(begin(numbers.raw_request(numbers.PRODUCER_ID_REQUEST)).result())
    assert await asyncio.gather(*stored) == [None, None]


@pytest.mark.parametrize("code", [31, 47, 48, 90])
async def test_whatever_refuses_a_producer_id_letters_have_no_numbers(writer, code):
    made, log = writer()
    log.refused = code
    assert await store(made, letter(b"a")) is None
    assert [sent.producer_id for sent in log.partitions[0].headers] == [-1]


async def test_after_the_last_epoch_letters_can_be_sent_without_numbers(writer):
    made, log = writer()
    assert await store(made, letter(b"a")) is None
    numbers = made._partitions[TO.name, 0].numbers
    numbers.begin(ProducerIdAndEpoch(1001, 2**15 - 1))
    log.faults, log.refused = [OTHER_SEQUENCE], 31
    assert await store(made, letter(b"b")) is None
    assert [sent.producer_id for sent in log.partitions[0].headers] == [1001, -1]


# Memory


async def test_letters_that_no_client_waits_for_leave_memory_for_others(writer, monkeypatch):
    monkeypatch.setattr(partition_letters, "DEADLINE_S", 0.05)
    monkeypatch.setattr(pending_letters, "WAITING_MAX_BYTES", 4 * len(letter(b"a")))
    made, log = writer()
    log.breaks = {b"stuck": LOST}
    stuck = [store(made, letter(b"stuck"), number) for number in range(3)]
    assert None not in await asyncio.gather(*stuck)
    assert made.waiting_bytes
    monkeypatch.setattr(partition_letters, "DEADLINE_S", 30.0)
    stored = [store(made, letter(b"a"), 10 + number, OTHER) for number in range(4)]
    assert await asyncio.gather(*stored) == [None] * 4


async def test_letters_that_no_client_waits_for_are_bounded(writer, monkeypatch):
    monkeypatch.setattr(partition_letters, "DEADLINE_S", 0.05)
    monkeypatch.setattr(late_letters, "LATE_MAX_BYTES", len(letter(b"a")))
    made, log = writer()
    log.breaks = {b"a": TOO_FEW}
    with capture_logs() as logs:
        for to in (TO, OTHER):
            assert await store(made, letter(b"a"), 1, to) is not None
    assert made.waiting_bytes == len(letter(b"a"))
    assert [line["reason"] for line in doubles(logs)] == ["too many dead letters wait"]
    log.breaks.clear()
    await until(lambda: not made.waiting_bytes)


async def test_letters_that_are_over_hold_no_memory(writer, monkeypatch):
    made, log = writer(*[TOO_FEW] * MANY)
    stuck = asyncio.ensure_future(store(made, letter(b"stuck"), key=0))
    await until(lambda: log.requests)
    early = asyncio.ensure_future(store(made, letter(b"early"), key=1))
    await asyncio.sleep(0)
    monkeypatch.setattr(partition_letters, "DEADLINE_S", 0.01)
    assert await store(made, letter(b"over"), key=2) == "it took too long"
    waiting = made._partitions[TO.name, 0].waiting
    assert sum(letters.size for letters in waiting) == len(letter(b"early"))
    log.faults.clear()
    assert await asyncio.gather(stuck, early) == [None, None]
    assert log.partitions[0].values == [b"stuck", b"early"]


# A batch that breaks its requests


@pytest.mark.parametrize("how", ["unknown", "lost"])
async def test_a_batch_that_always_breaks_its_request_lets_others_through(writer, how):
    made, log = writer()
    log.breaks = {
        b"poison": UNKNOWN_SERVER_ERROR if how == "unknown" else ConnectionLostError("lost")
    }
    log.leaders = dict.fromkeys(log.leaders, log.leaders[0])
    with capture_logs() as logs:
        poison = asyncio.ensure_future(store(made, letter(b"poison"), key=0))
        await until(lambda: log.requests > 20)
        assert not poison.done(), "nothing waits behind it"
        stored = [store(made, letter(b"%d" % n), n, (TO, OTHER)[n % 2]) for n in range(1, 9)]
        assert await asyncio.gather(*stored) == [None] * 8
    assert await poison is not None
    assert log.partitions[0].values == [b"2", b"4", b"6", b"8"]
    assert log.partitions[1].values == [b"1", b"3", b"5", b"7"]
    assert len(doubles(logs)) == 1


async def test_letters_joined_with_one_that_breaks_requests_are_sent_alone(writer):
    made, log = writer()
    log.breaks = {b"poison": UNKNOWN_SERVER_ERROR}
    log.pending = asyncio.get_running_loop().create_future()
    first = asyncio.ensure_future(store(made, letter(b"0")))
    await until(lambda: log.requests)
    values = [b"1", b"poison", b"2"]
    behind = [asyncio.ensure_future(store(made, letter(value), value)) for value in values]
    await asyncio.sleep(0)
    log.pending.set_result(None)
    assert await first is None
    before, poison, after = await asyncio.gather(*behind)
    assert (before, after) == (None, None)
    assert "UNKNOWN_SERVER_ERROR" in poison
    assert log.partitions[0].values == [b"0", b"1", b"2"]


async def test_a_broker_that_is_away_does_not_end_a_batch(writer):
    made, log = writer(*["lost"] * 100)
    stored = [asyncio.ensure_future(store(made, letter(b"0"), key=0))]
    await until(lambda: log.requests)
    stored.append(asyncio.ensure_future(store(made, letter(b"1"), key=1)))
    assert await asyncio.gather(*stored) == [None, None]
    assert log.partitions[0].values == [b"0", b"1"]


# Letters that may be doubled are reported


async def test_letters_of_which_only_some_are_stored_are_reported(writer):
    made, _ = writer(None, DENIED)
    with capture_logs() as logs:
        assert await store(made, letter(b"a") + letter(b"b"), key=1) is not None
    assert len(doubles(logs)) == 1


async def test_letters_that_are_given_up_in_the_end_are_reported(writer, monkeypatch):
    monkeypatch.setattr(partition_letters, "RETRIED_S", 0.2)
    monkeypatch.setattr(partition_letters, "DEADLINE_S", 0.02)
    made, _ = writer("unsaid", *["lost"] * MANY)
    with capture_logs() as logs:
        assert await store(made, letter(b"a"), key=1) is not None
        await until(lambda: not made.waiting_bytes)
    assert len(doubles(logs)) == 1


async def test_letters_that_may_be_stored_and_are_halved_are_reported(writer):
    made, log = writer("unsaid", TOO_LARGE)
    with capture_logs() as logs:
        assert await store(made, letter(b"a", b"b"), key=1) is None
    assert log.partitions[0].values == [b"a", b"b", b"a", b"b"]
    assert len(doubles(logs)) == 1


async def test_a_letter_that_is_refused_at_once_is_not_reported(writer):
    made, _ = writer(TOO_LARGE)
    with capture_logs() as logs:
        assert isinstance(await store(made, letter(b"a"), key=1), LettersRefused)
    assert not doubles(logs)


async def test_a_retry_finds_its_letters_after_a_change_of_replicas(writer, monkeypatch):
    made, log = writer()
    log.pending = asyncio.get_running_loop().create_future()
    monkeypatch.setattr(partition_letters, "DEADLINE_S", 0.02)
    assert await store(made, letter(b"a"), key=1) is not None
    monkeypatch.setattr(partition_letters, "DEADLINE_S", 30.0)
    again = asyncio.ensure_future(store(made, letter(b"a"), 1, TO._replace(replicas=1)))
    await asyncio.sleep(0)
    log.pending.set_result(None)
    assert await again is None
    assert log.partitions[0].values == [b"a"]


async def test_the_line_is_not_repeated_for_each_attempt(writer):
    made, _ = writer("unsaid", *[OTHER_SEQUENCE] * 50)
    with capture_logs() as logs:
        assert await store(made, letter(b"a"), key=1) is None
    assert len(doubles(logs)) == 1


async def test_each_time_that_the_cluster_refuses_a_producer_id_is_reported(writer, monkeypatch):
    monkeypatch.setattr(numbers, "_AGAIN_AFTER_S", 0.0)
    made, log = writer()
    with capture_logs() as logs:
        for refused in (31, 31, 0, 31, 31):
            log.refused = refused
            made._producers.forget()
            made._partitions.clear()
            assert await store(made, letter(b"a")) is None
    assert len(doubles(logs)) == 2
