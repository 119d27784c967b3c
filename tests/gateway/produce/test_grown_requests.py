"""A request whose batches grew is still a request that a broker accepts."""

import pytest

from penstock.engine.verdict import replaced
from penstock.gateway.produce.lookups.max_message_bytes import MaxMessageBytes
from penstock.kafka.error_codes import MESSAGE_TOO_LARGE
from penstock.kafka.wire.errors import REQUEST_TIMED_OUT
from penstock.kafka.wire.requests.produce import ProduceRequest
from tests.gateway.produce.intercepted import Intercepted, batch
from tests.gateway.sessions.talk import produce_response
from tests.raw import parse_response, produce_request, produced, request_frame


def sent_partitions(data, request_max_bytes):
    """The partitions of the request that the broker got; none if it got none."""
    if not data:
        return []
    assert int.from_bytes(data[:4], "big") == len(data) - 4 <= request_max_bytes
    [topic] = ProduceRequest(data).topics
    return [partition.number for partition in topic.partitions]


def codes(talk):
    return {
        partition: answer.error_code
        for (_, partition), answer in produced(parse_response(talk.client.take(), 0, 9)).items()
    }


def produce(talk, grown, *, number=1, partitions=(0, 1), first=0):
    """Send a request, and enlarge each of its batches to somewhat more than so many bytes."""
    batches = [(index, batch(b"v", first=first)) for index in partitions]
    talk.session.client_data(request_frame(produce_request([("judged", batches)]), number))
    for _, size in zip(partitions, grown, strict=True):
        talk.decide(replaced(batch(b"x" * size, first=first), []))


@pytest.fixture
def talk():
    found = Intercepted()
    found.max_message_bytes = MaxMessageBytes()
    found.max_message_bytes.put("judged", 100_000)
    return found


@pytest.mark.parametrize(
    ("grown", "sent"),
    [
        ((3_000, 3_000), [0, 1]),
        ((6_000, 6_000), [0]),
        ((6_000, 3_000), [0, 1]),
        ((10_000, 3_000), [1]),
        ((10_000, 10_000), []),
    ],
)
def test_a_grown_request_is_within_socket_request_max_bytes(talk, grown, sent):
    produce(talk, grown)
    assert sent_partitions(talk.broker.take(), talk.request_max_bytes) == sent


@pytest.mark.parametrize("slack", range(-8, 9))
def test_the_limit_is_not_exceeded_by_a_byte(talk, slack):
    produce(talk, (4_000, 5_800 + slack))
    sent_partitions(talk.broker.take(), talk.request_max_bytes)


def test_a_batch_that_does_not_fit_is_sent_when_it_is_retried(talk):
    produce(talk, (6_000, 6_000))
    assert sent_partitions(talk.broker.take(), talk.request_max_bytes) == [0]
    talk.session.upstream_data(produce_response(1, "judged"))
    assert codes(talk) == {0: 0, 1: REQUEST_TIMED_OUT}
    produce(talk, (6_000,), number=2, partitions=(1,))
    assert sent_partitions(talk.broker.take(), talk.request_max_bytes) == [1]


def test_a_batch_that_fits_in_no_request_gets_the_reason(talk):
    produce(talk, (10_000,), partitions=(0,))
    assert not talk.broker.take()
    [answer] = produced(parse_response(talk.client.take(), 0, 9)).values()
    assert answer.error_code == MESSAGE_TOO_LARGE
    assert "10000 bytes of socket.request.max.bytes" in answer.error_message


def test_a_request_that_is_stored_as_a_whole_is_refused_as_a_whole(talk):
    talk.policies = talk.policies._replace(whole_request=True)
    produce(talk, (6_000, 6_000))
    assert not talk.broker.take()
    assert codes(talk) == {0: MESSAGE_TOO_LARGE, 1: MESSAGE_TOO_LARGE}
