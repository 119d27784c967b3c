"""A session without sockets: which bytes are sent to which side, in which order."""

import asyncio
import itertools

import pytest
from kio.static.primitive import i32

from penstock.engine.verdict import ACCEPTED
from penstock.gateway.produce.request import SLICE
from penstock.gateway.sessions.routes import route
from penstock.gateway.sessions.session import PENDING_MAX, UNANSWERED_MAX
from penstock.kafka.wire.errors import WireError
from penstock.kafka.wire.primitives import varint
from penstock.kafka.wire.requests.produce import ProduceRequest
from penstock.kafka.wire.schemas import load_request_schema
from penstock.policy import Record
from tests.gateway.sessions.talk import (
    LONG,
    NO,
    Answering,
    Talk,
    answer,
    large,
    other,
    produce,
    produce_response,
    turns_until,
)
from tests.kafka.records.encoding import encode_batch
from tests.raw import parse_response, produce_request, produced, request_frame


@pytest.mark.parametrize(("sent", "believed"), [(3, 3), (5000, 1000)])
def test_a_refusal_has_its_client_and_its_size(sent, believed):
    data = bytearray(encode_batch([Record(0, None, b"x")] * 3))
    data[57:61] = sent.to_bytes(4, "big")
    talk = Talk(peer="User:CN=client")
    request = produce_request([("judged", [(0, bytes(data))])])
    talk.session.client_data(request_frame(request, 1, "a client"))
    talk.decide(NO)

    (refusal,) = talk.refusals
    assert (refusal.topic, refusal.partition, refusal.verdict) == ("judged", 0, NO)
    assert (refusal.client_id, refusal.principal, refusal.address) == (
        "a client",
        "User:CN=client",
        "10.0.0.7",
    )
    assert (refusal.records, refusal.resource) == (believed, None)


def test_requests_after_a_held_request_wait_in_order():
    talk = Talk()
    first, second, third = produce(1, "judged"), other(2), produce(3, "free")
    talk.session.client_data(first + second + third)
    assert talk.broker.take() == b""
    talk.decide()
    assert talk.broker.take() == first + second + third
    assert talk.session.waiting_bytes == 0


def test_verdicts_may_arrive_in_another_order_than_requests():
    talk = Talk()
    first, second = produce(1, "judged"), produce(2, "judged")
    talk.session.client_data(first + second)
    talk.decide(which=1)
    assert talk.broker.take() == b""
    talk.decide()
    assert talk.broker.take() == first + second


def test_a_refusal_waits_for_earlier_responses():
    talk = Talk()
    talk.session.client_data(other(1) + produce(2, "judged") + other(3))
    talk.decide(NO)
    assert talk.broker.take() == other(1) + other(3)
    assert talk.client.take() == b""
    talk.session.upstream_data(answer(1))
    got = talk.client.take()
    assert got.startswith(answer(1))
    refusal = produced(parse_response(got[len(answer(1)) :], 0, 9))["judged", 0]
    assert (refusal.error_code, refusal.error_message) == (44, "no")
    talk.session.upstream_data(answer(3))
    assert talk.client.take() == answer(3)


def test_a_refused_partition_is_removed_and_merged_into_the_response():
    talk = Talk(judged=frozenset({"judged", "other"}))
    talk.session.client_data(produce(1, "judged", "free", "other"))
    talk.decide(NO)
    talk.decide()
    assert talk.broker.take() == produce(1, "free", "other")
    talk.session.upstream_data(produce_response(1, "free", "other"))
    partitions = produced(parse_response(talk.client.take(), 0, 9))
    assert [
        (topic, partition.error_code, partition.base_offset)
        for (topic, _), partition in partitions.items()
    ] == [
        ("judged", 44, -1),
        ("free", 0, 5),
        ("other", 0, 5),
    ]
    assert [refused.topic for refused in talk.refusals] == ["judged"]


@pytest.mark.parametrize("size", [1, 7, 64])
def test_requests_may_arrive_in_any_pieces(size):
    talk = Talk()
    sent = other(1) + produce(2, "judged") + produce(3, "free") + other(4)
    for start in range(0, len(sent), size):
        talk.session.client_data(sent[start : start + size])
    talk.decide()
    assert talk.broker.take() == sent
    answers = answer(1) + produce_response(2, "judged") + produce_response(3, "free") + answer(4)
    for start in range(0, len(answers), size):
        talk.session.upstream_data(answers[start : start + size])
    assert talk.client.take() == answers


def test_a_refusal_with_acks_0_closes_the_connection_once_the_broker_has_the_rest():
    talk = Talk()
    before, refused_request, after = (
        produce(1, "free", acks=0),
        produce(2, "judged", acks=0),
        other(3),
    )
    talk.session.client_data(before + refused_request + after)
    talk.decide(NO)
    sent = talk.broker.take()
    assert sent.startswith(before)
    assert after not in sent
    barrier = sent[len(before) :]
    assert not talk.done
    talk.session.upstream_data(answer(int.from_bytes(barrier[8:12], "big")))
    assert talk.done
    assert talk.client.take() == b""


def test_a_refusal_with_acks_0_closes_the_connection_in_the_middle_of_the_next_request():
    talk = Talk()
    half = produce(2, "free", acks=0)
    talk.session.client_data(produce(1, "judged", acks=0) + half[:20])
    talk.decide(NO)
    talk.session.client_data(half[20:] + other(3))
    barrier = talk.broker.take()
    talk.session.upstream_data(answer(int.from_bytes(barrier[8:12], "big")))
    assert talk.done


def test_requests_of_a_client_that_disconnects_are_judged_and_never_forwarded_in_part():
    talk = Talk()
    whole, half = produce(1, "judged"), produce(2, "judged")[:-3]
    talk.session.client_data(whole + half)
    talk.session.client_disconnected()
    assert not talk.done
    talk.decide()
    assert talk.broker.take() == whole
    talk.session.upstream_data(produce_response(1, "judged"))
    assert talk.done


def test_a_session_that_ends_responds_to_requests_in_flight_and_accepts_no_new_request():
    talk = Talk()
    talk.session.client_data(other(1) + produce(2, "judged"))
    talk.session.end()
    talk.session.client_data(other(3))
    talk.session.upstream_data(answer(1))
    talk.decide(NO)
    assert other(3) not in talk.broker.take()
    assert talk.client.take().startswith(answer(1))
    assert talk.done


def test_without_policies_a_request_is_forwarded_before_it_is_complete():
    talk = Talk(judged=frozenset())
    sent = produce(1, "free")
    talk.session.client_data(sent[:-4])
    assert talk.broker.take() == sent[:-4]
    talk.session.client_data(sent[-4:])
    assert talk.broker.take() == sent[-4:]


def test_a_request_that_arrives_byte_by_byte_is_not_read_again_with_each_byte():
    talk = Talk(judged=frozenset())
    read = []

    def counting(api_key):
        row = route(api_key)
        return row._replace(read_acks=lambda start: read.append(len(start)) or row.read_acks(start))

    talk.session._route = counting
    sent = request_frame(produce_request([("free", [(0, b"x")])]), 1, client_id="c" * 5_000)
    for byte in sent:
        talk.session.client_data(bytes([byte]))
    assert talk.broker.take() == sent
    assert len(read) <= 12
    assert read == sorted(set(read))


@pytest.mark.parametrize("size", [1, 1_000, 60_000])
def test_a_tagged_field_of_30_megabytes_is_neither_held_nor_read_again_with_each_piece(size):
    talk = Talk(judged=frozenset())
    read = []

    def counting(api_key):
        row = route(api_key)
        return row._replace(read_acks=lambda start: read.append(len(start)) or row.read_acks(start))

    talk.session._route = counting
    field_bytes = 30 * 2**20
    header = request_frame(produce_request([], version=9), 1)[4:]
    tags_at = 2 + 2 + 4 + 2 + len("raw")
    tags = varint(1) + varint(0) + varint(field_bytes)
    sent = header[:tags_at] + tags
    talk.session._requests.max_bytes = 2 * field_bytes
    talk.session.client_data((len(header) + len(tags) + field_bytes).to_bytes(4, "big") + sent)
    pieces = 0
    with pytest.raises(WireError, match="start cannot be read"):
        while pieces * size < field_bytes:
            pieces += 1
            talk.session.client_data(bytes(size))
    assert talk.session.waiting_bytes < 512 * 1024
    assert len(read) <= 20
    assert sum(read) < 2**20
    assert not talk.broker.data


@pytest.mark.parametrize(
    "response",
    [answer(2), b"\x00\x00\x00\x00", b"\xff\xff\xff\xff1234"],
    ids=["of another request", "empty", "of negative length"],
)
def test_an_invalid_response_closes_the_connection(response):
    talk = Talk()
    talk.session.client_data(other(1))
    with pytest.raises(WireError):
        talk.session.upstream_data(response + b"12345678")


@pytest.mark.parametrize("acks", [2, -2, 0x7FFF])
def test_invalid_acks_get_an_error_code_and_no_batch_is_judged(acks):
    talk = Talk()
    talk.session.client_data(produce(1, "judged", "free", acks=acks))
    assert not talk.verdicts
    assert not talk.broker.take()
    answers = produced(parse_response(talk.client.take(), 0, 9))
    assert {place: answer.error_code for place, answer in answers.items()} == {
        ("judged", 0): 21,
        ("free", 0): 21,
    }


async def test_batches_after_a_handled_request_are_judged_once_its_handler_has_ended():
    talk = Answering()
    before, topic, after, last = produce(1, "judged"), other(2), produce(3, "judged"), other(4)
    talk.session.client_data(before + topic + after + last)
    await asyncio.sleep(0)
    assert len(talk.verdicts) == 1
    assert not talk.answered, "the earlier batch has not been sent yet"
    talk.decide()
    await asyncio.sleep(0)
    assert talk.broker.take() == before

    talk.answered[0].set_result(None)
    for _ in range(3):
        await asyncio.sleep(0)
    assert len(talk.verdicts) == 1, "the next batch is judged now"
    assert len(talk.answered) == 1, "the last request waits"
    talk.decide()
    for _ in range(3):
        await asyncio.sleep(0)
    talk.answered[1].set_result(None)
    for _ in range(3):
        await asyncio.sleep(0)
    talk.session.upstream_data(produce_response(1, "judged") + produce_response(3, "judged"))
    numbers = [1, 2, 3, 4]
    data = talk.client.take()
    for number in numbers:
        size = 4 + int.from_bytes(data[:4], "big")
        assert int.from_bytes(data[4:8], "big") == number
        data = data[size:]
    assert not data


async def test_a_handler_ends_with_its_connection():
    talk = Answering()
    talk.session.client_data(other(1) + produce(2, "judged"))
    await asyncio.sleep(0)
    talk.session.closed()
    await asyncio.sleep(0)
    assert talk.answered[0].cancelled()
    assert not talk.verdicts


async def test_the_batches_of_a_large_request_are_submitted_in_slices():
    talk = Answering()
    talk.session._requests.max_bytes = 10**6
    partitions = 10 * SLICE + 3
    talk.session.client_data(large(partitions))
    submitted = [len(talk.verdicts)]
    while submitted[-1] < partitions:
        await asyncio.sleep(0)
        submitted.append(len(talk.verdicts))
    steps = [after - before for before, after in itertools.pairwise([0, *submitted])]
    assert max(steps) <= SLICE
    for number, (*_, done) in enumerate(talk.verdicts):
        done(NO if number % 2 else ACCEPTED)
    while not talk.broker.data:
        await asyncio.sleep(0)
    [sent] = ProduceRequest(talk.broker.take()).topics
    assert [partition.number for partition in sent.partitions] == list(range(0, partitions, 2))


async def test_batches_of_a_partition_are_submitted_in_order():
    talk = Answering()
    talk.session._requests.max_bytes = 10**6
    partitions = 3 * SLICE
    small = produce_request([("judged", [(partitions - 1, b"behind")])])
    talk.session.client_data(large(partitions) + request_frame(small, 2))
    while len(talk.verdicts) <= partitions:
        await asyncio.sleep(0)
    of_last = [data for _, partition, data, _ in talk.verdicts if partition == partitions - 1]
    assert of_last == [b"", b"behind"]


async def test_slices_of_large_requests_of_several_clients_alternate():
    talks = [Answering() for _ in range(8)]
    for talk in talks:
        talk.turns = talks[0].turns
        talk.session._requests.max_bytes = 10**6
        talk.session.client_data(large(4 * SLICE))

    def submitted():
        return sum(len(talk.verdicts) for talk in talks)

    seen = [submitted()]
    while seen[-1] < 8 * 4 * SLICE:
        await asyncio.sleep(0)
        seen.append(submitted())
    first, *others = (after - before for before, after in itertools.pairwise(seen))
    assert first <= 8 * SLICE
    assert max(others) <= 2 * SLICE


def long_talk(*frames):
    """Send requests, the first of which is long; return the session while it is read."""
    talk = Answering()
    talk.judged = frozenset(LONG)
    talk.session._requests.max_bytes = 10**6
    talk.session.client_data(b"".join(frames))
    assert talk.session.is_suspended
    assert talk.session.held_bytes >= len(frames[0])
    assert not talk.verdicts
    return talk


async def test_a_long_request_is_processed_in_slices_and_later_requests_wait():
    behind = produce_response(2, "free")
    talk = long_talk(produce(1, *LONG), produce(2, "free"))
    assert await turns_until(lambda: len(talk.verdicts) == len(LONG)) >= len(LONG) // 500 + 20
    assert not talk.session.is_suspended
    talk.session.client_data(b"")
    for *_, done in talk.verdicts:
        done(NO)
    await turns_until(lambda: talk.broker.data)
    talk.session.upstream_data(behind)
    assert talk.session.is_answering
    assert not talk.client.data
    assert await turns_until(lambda: talk.client.data) >= len(LONG) // 500
    talk.session.upstream_data(b"")
    got = talk.client.take()
    assert got.endswith(behind)
    found = produced(parse_response(got[: -len(behind)], 0, 9))
    assert {result.error_code for result in found.values()} == {44}
    assert [name for name, _ in found] == list(LONG)
    assert talk.session.held_bytes == 0


async def test_a_long_request_of_a_disconnected_client_is_still_read_and_judged():
    talk = long_talk(produce(1, *LONG, acks=0))
    talk.session.client_disconnected()
    assert not talk.done
    await turns_until(lambda: len(talk.verdicts) == len(LONG))
    for *_, done in talk.verdicts:
        done(ACCEPTED)
    await turns_until(lambda: talk.broker.data)
    assert talk.broker.take().startswith(produce(1, *LONG, acks=0))


async def test_reading_stops_when_the_connection_closes_while_a_long_request_is_read():
    talk = long_talk(produce(1, *LONG))
    talk.session.closed()
    assert talk.session.held_bytes == 0
    for _ in range(50):
        await asyncio.sleep(0)
    assert not talk.verdicts


async def test_an_unreadable_long_request_closes_the_connection():
    frame = produce(1, *LONG)
    talk = long_talk(frame[:-1] + b"\xff")
    await turns_until(lambda: talk.done)


async def test_slices_of_a_request_end_when_its_client_disconnects():
    talk = Answering()
    talk.session._requests.max_bytes = 10**6
    talk.session.client_data(large(10 * SLICE))
    await asyncio.sleep(0)
    talk.session.closed()
    submitted = len(talk.verdicts)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert len(talk.verdicts) == submitted < 10 * SLICE


def test_requests_with_acks_0_of_disconnected_clients_share_a_turn():
    talk = Talk()
    talk.session.client_data(produce(1, "judged", acks=0))
    talk.session.client_disconnected()
    number = talk.session.number
    assert (talk.withdrawn, talk.left) == ([number], [(number, 0)])
    talk.decide()
    assert talk.broker.take().startswith(produce(1, "judged", acks=0))
    talk.session.closed()
    assert talk.withdrawn == [number, (number, 0)]


def test_waiting_batches_of_a_disconnected_client_are_withdrawn():
    talk = Talk()
    talk.session.client_data(produce(1, "judged"))
    talk.session.closed()
    assert talk.withdrawn == [talk.session.number, (talk.session.number, 0)]
    talk.decide(NO)
    assert talk.refusals == []
    assert not talk.broker.data


def test_if_a_partition_is_named_twice_its_last_batch_counts():
    """As at a broker: it stores the last batch, and responds once."""
    talk = Talk(judged=frozenset({"judged", "other"}))
    batches = [("judged", [(0, b"first")]), ("other", [(0, b"x"), (0, b"y")])]
    twice = produce_request([*batches, ("judged", [(0, b"last")])])
    once = produce_request([("other", [(0, b"y")]), ("judged", [(0, b"last")])])
    talk.session.client_data(request_frame(twice, 1))
    assert [(topic, data) for topic, _, data, _ in talk.verdicts] == [
        ("other", b"y"),
        ("judged", b"last"),
    ]
    talk.decide()
    talk.decide()
    assert talk.broker.take() == request_frame(once, 1)
    assert talk.session.waiting_bytes == 0


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "n" * 250, "ä"])
def test_an_invalid_topic_gets_an_error_code_and_is_not_cached(name):
    requested = []
    talk = Talk()
    talk.for_topic = lambda topic, own=None: requested.append(topic)
    talk.session.client_data(produce(1, "judged", name))
    assert name not in requested
    assert talk.broker.take() == produce(1, "judged")
    talk.session.upstream_data(produce_response(1, "judged"))
    results = produced(parse_response(talk.client.take(), 0, 9))
    assert results[name, 0].error_code == 3
    assert results["judged", 0].error_code == 0


def test_the_number_of_requests_that_wait_for_a_verdict_is_limited():
    talk = Talk()
    requests = [produce(number, "judged") for number in range(1, 301)]
    talk.session.client_data(b"".join(requests))
    assert len(talk.verdicts) == PENDING_MAX
    assert talk.session.is_suspended
    sent = b""
    for number in itertools.count(1):
        if not talk.verdicts:
            break
        talk.decide()
        sent += talk.broker.take()
        talk.session.upstream_data(produce_response(number, "judged"))
        if not talk.session.is_suspended:
            talk.session.client_data(b"")  # as the connection does
        assert len(talk.verdicts) <= PENDING_MAX
    assert sent == b"".join(requests)


def unknown_versions(number):
    """An ApiVersions request of a version that no broker serves: the gateway responds."""
    frame = bytearray(request_frame(load_request_schema(18, 0)(), number))
    frame[6:8] = (100).to_bytes(2, "big")
    return bytes(frame)


def test_a_connection_with_many_requests_without_a_response_is_paused():
    """After a request with a late response of the broker, own responses wait, too."""
    talk = Talk()
    later = b"".join(unknown_versions(number) for number in range(2, 2_000))
    talk.session.client_data(other(1) + later)
    assert talk.session.is_suspended
    assert talk.session.held_bytes > UNANSWERED_MAX * 400
    answered = 0
    talk.session.upstream_data(answer(1))
    for _ in range(20):
        talk.session.client_data(b"")
        answered += len(talk.client.take())
    assert answered > 1_998 * 10
    assert not talk.session.is_suspended
    assert talk.session.held_bytes == 0


def test_held_responses_count_as_held_memory():
    talk = Talk()
    talk.addresses = Addresses()
    talk.session.client_data(
        request_frame(
            load_request_schema(3, 9)(
                topics=None,
                allow_auto_topic_creation=False,
                include_cluster_authorized_operations=False,
                include_topic_authorized_operations=False,
            ),
            1,
        )
    )
    talk.session.upstream_data((2**20).to_bytes(4, "big") + (1).to_bytes(4, "big") + bytes(500_000))
    assert talk.session.held_bytes > 500_000


class Addresses:
    """The addresses of a cluster, which no session requests here."""

    def __getattr__(self, name):
        return lambda *_: None


def test_the_responses_for_a_lost_client_are_awaited_only_if_they_are_needed():
    talk = Talk()
    talk.session.client_data(other(1))
    talk.session.client_disconnected()
    assert talk.session.serves_client_only
    judged = Talk()
    judged.session.client_data(produce(1, "judged"))
    judged.decide()
    judged.session.client_disconnected()
    assert not judged.session.serves_client_only


def test_bytes_streamed_after_a_verdict_are_counted_too():
    talk = Talk()
    requests = [produce(1, "judged"), *(other(number) for number in range(2, 200))]
    talk.session.client_data(b"".join(requests))
    assert talk.session.is_suspended
    assert talk.session.waiting_bytes < sum(map(len, requests[: PENDING_MAX + 1])) + 1_000
    talk.decide()
    talk.session.client_data(b"")
    assert talk.broker.take() == b"".join(requests)


def naming(cluster_id, node):
    """Return an ApiVersions request of a client that meant a broker (KIP-1242)."""
    request = load_request_schema(18, 5)(
        client_software_name="app",
        client_software_version="1",
        cluster_id=cluster_id,
        node_id=i32(node),
    )
    return request_frame(request, 9)


@pytest.mark.parametrize(
    ("node", "meant"),
    [
        (3, (None, -1)),
        (3, ("cluster", 3)),
        (3, ("cluster", -1)),
        (3, (None, 4)),
        (None, (None, -1)),
    ],
)
def test_the_broker_judges_a_client_that_reached_it(node, meant):
    """A request that names only one of both is invalid, as the broker says."""
    talk = Talk(node=node)
    talk.session.client_data(naming(*meant))
    assert talk.broker.take() == naming(*meant)
    talk.session.upstream_data(no_apis(9))
    assert parse_response(talk.client.take(), 18, 5).error_code == 0


@pytest.mark.parametrize(
    ("node", "meant"),
    [(3, ("cluster", 4)), (3, ("other", 3)), (None, ("cluster", 3)), (0, ("cluster", 2**31 - 1))],
)
def test_a_client_that_meant_another_broker_has_to_bootstrap_again(node, meant):
    talk = Talk(node=node)
    talk.session.client_data(naming(*meant))
    assert talk.broker.take() == b""
    assert parse_response(talk.client.take(), 18, 5).error_code == 129
    talk.session.client_data(other(1))
    assert talk.broker.take() == other(1), "it stays connected, as at a broker"


def test_the_cluster_is_left_to_the_broker_until_its_id_is_known():
    talk = Talk(node=3, cluster_id="")
    talk.session.client_data(naming("any", 3))
    assert talk.broker.take() == naming("any", 3)


def test_a_request_that_meant_a_broker_and_ends_too_early_closes_the_connection():
    talk = Talk(node=3)
    frame = naming("cluster", 3)[4:-3]
    with pytest.raises(WireError, match="ApiVersions that cannot be read"):
        talk.session.client_data(len(frame).to_bytes(4, "big") + frame)


def no_apis(correlation_id):
    """Return a broker's response to ApiVersions without any."""
    body = correlation_id.to_bytes(4, "big") + b"\x00\x00\x01" + bytes(4) + b"\x00"
    return len(body).to_bytes(4, "big") + body
