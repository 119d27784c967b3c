"""Batches behind a batch to which the broker responds with a retriable error while they are held."""

import pytest

from penstock.engine.verdict import refused, replaced
from penstock.gateway.produce.retried_batches import batches_for, merged, read_retried
from penstock.gateway.sessions.session import Session
from penstock.kafka.records.header import BatchProducer
from penstock.kafka.wire.errors import RETRIABLE
from penstock.kafka.wire.frames import LENGTH_BYTES
from penstock.kafka.wire.requests.produce import read_request
from penstock.kafka.wire.slices import finish
from tests.gateway.admin.talk import broker_frame
from tests.gateway.loops import Loop
from tests.gateway.model.order_histories import OrderWorld
from tests.gateway.produce.inline import Inline
from tests.gateway.produce.intercepted import frames_of
from tests.gateway.produce.retried import NOT_LEADER, batch, codes, responded, sent
from tests.gateway.sessions.talk import Talk, answer
from tests.raw import produce_request, request_frame

VERSIONS = (3, 5, 8, 9, 10, 12)
"""Of requests that name topics."""


def in_flight(talk, *requests):
    """Have requests judged and sent, so that the broker's responses are missing."""
    for request in requests:
        talk.session.client_data(request)
        while talk.verdicts:
            talk.decide()
        assert talk.broker.take() == request


@pytest.mark.parametrize("version", VERSIONS)
def test_a_held_batch_is_retried_behind_a_batch_that_the_broker_has_retried(version):
    talk = Talk()
    talk.session._supports_describe_producers = False
    in_flight(talk, sent(1, 0, version=version))
    talk.session.client_data(sent(2, 2, version=version) + sent(3, 4, version=version))
    response = responded(1, {"judged": NOT_LEADER}, version=version)
    talk.session.upstream_data(response)
    assert talk.client.take() == response, "it passes unchanged, before any verdict"
    talk.decide()
    talk.decide()
    assert talk.broker.take() == b""
    assert codes(talk, version) == {2: {"judged": 7}, 3: {"judged": 7}}

    talk.session.client_data(sent(4, 4, version=version))
    talk.decide()
    assert talk.broker.take() == b"", "it is behind those"
    retries = [sent(number, 2 * number - 10, version=version) for number in (5, 6, 7)]
    in_flight(talk, *retries)
    assert not talk.missing_batches


@pytest.mark.parametrize("code", sorted({*RETRIABLE, 0, 45, 59, 87}))
def test_only_retriable_errors_of_the_broker_count(code):
    talk = Talk()
    in_flight(talk, sent(1, 0))
    talk.session.client_data(sent(2, 2))
    talk.session.upstream_data(responded(1, {"judged": code}))
    talk.decide()
    assert (talk.broker.take() == b"") == (code in RETRIABLE)


@pytest.mark.parametrize(
    "later",
    [sent(2, 0), sent(2, 2, producer_id=18), sent(2, 0, epoch=1), sent(2, 2, partition=1),
     sent(2, -1, producer_id=-1), sent(2, 2, "other")],
    ids=["a retry", "producer", "epoch", "partition", "not idempotent", "topic"],
)  # fmt: skip
def test_only_batches_behind_it_are_retried(later):
    talk = Talk(judged=frozenset({"judged", "other"}))
    in_flight(talk, sent(1, 0))
    talk.session.client_data(later)
    talk.session.upstream_data(responded(1, {"judged": NOT_LEADER}))
    talk.decide()
    assert talk.broker.take() == later


def test_a_retry_passes_while_batches_behind_it_are_in_flight():
    talk = Talk()
    in_flight(talk, sent(1, 0), sent(2, 2))
    talk.session.upstream_data(responded(1, {"judged": NOT_LEADER}))
    retry = sent(3, 0)
    talk.session.client_data(retry)
    talk.session.upstream_data(responded(2, {"judged": NOT_LEADER}))
    talk.decide()
    assert talk.broker.take() == retry


def test_only_the_partition_of_the_error_is_retried():
    talk = Talk(judged=frozenset({"judged", "other"}))
    in_flight(talk, sent(1, 0, "judged", "other"))
    talk.session.client_data(sent(2, 2, "judged", "other"))
    talk.session.upstream_data(responded(1, {"judged": NOT_LEADER, "other": 0}))
    talk.decide()
    talk.decide()
    (forwarded,) = frames_of(talk.broker.take())
    assert [topic.name for topic in read_request(forwarded).topics] == ["other"]
    talk.session.upstream_data(responded(2, {"other": 0}))
    assert codes(talk)[2] == {"judged": 7, "other": 0}


def test_a_request_whose_scope_is_the_request_is_retried_as_a_whole():
    talk = Talk(judged=frozenset({"judged", "other"}))
    talk.policies = talk.policies._replace(whole_request=True)
    in_flight(talk, sent(1, 0, "judged", "other"))
    talk.session.client_data(sent(2, 2, "judged", "other"))
    talk.session.upstream_data(responded(1, {"judged": NOT_LEADER, "other": 0}))
    talk.decide()
    talk.decide()
    assert talk.broker.take() == b""
    assert codes(talk)[2] == {"judged": 7, "other": 7}


def test_the_batch_of_a_request_that_was_forwarded_at_once_counts_too():
    """It is not kept which batches it had, so all of the partition may be behind it."""
    talk = Talk()
    first = sent(1, 0)
    talk.policies = talk.policies._replace(inline=Inline(batch(2)))
    talk.session.client_data(first)
    assert talk.broker.take() == first
    talk.session.client_data(sent(2, 2))
    talk.session.upstream_data(responded(1, {"judged": NOT_LEADER}))
    talk.decide()
    assert talk.broker.take() == b""
    assert codes(talk)[2] == {"judged": 7}


def test_a_batch_without_policies_behind_a_held_request_waits_for_the_decision():
    talk = Talk()
    first, held, behind = sent(1, 0, "free"), sent(2, 0), sent(3, 2, "free")
    talk.session.client_data(first)
    assert talk.broker.take() == first
    talk.session.client_data(held + behind)
    talk.session.upstream_data(responded(1, {"free": NOT_LEADER}))
    talk.decide()
    assert talk.broker.take() == held
    talk.session.upstream_data(responded(2, {"judged": 0}))
    assert codes(talk)[3] == {"free": 7}


def test_a_batch_in_flight_already_is_the_brokers():
    talk = Talk()
    in_flight(talk, sent(1, 0), sent(2, 2))
    for number in (1, 2):
        talk.session.upstream_data(responded(number, {"judged": NOT_LEADER}))
    assert codes(talk) == {1: {"judged": NOT_LEADER}, 2: {"judged": NOT_LEADER}}
    assert not talk.missing_batches


def test_without_a_response_nothing_is_retried():
    talk = Talk()
    in_flight(talk, sent(1, 0))
    later = sent(2, 2, acks=0)
    talk.session.client_data(later)
    talk.session.upstream_data(responded(1, {"judged": NOT_LEADER}))
    talk.decide()
    assert talk.broker.take() == later


def test_a_batch_that_is_refused_is_refused():
    talk = Talk()
    in_flight(talk, sent(1, 0))
    talk.session.client_data(sent(2, 2) + sent(3, 4))
    talk.session.upstream_data(responded(1, {"judged": NOT_LEADER}))
    talk.decide(refused(87, "no", "v"))
    talk.decide()
    assert codes(talk) == {1: {"judged": NOT_LEADER}, 2: {"judged": 87}, 3: {"judged": 7}}


def test_a_batch_that_policies_replace_is_retried():
    talk = Talk()
    in_flight(talk, sent(1, 0))
    talk.session.client_data(sent(2, 2))
    talk.session.upstream_data(responded(1, {"judged": NOT_LEADER}))
    talk.decide(replaced(batch(2), []))
    assert talk.broker.take() == b""
    assert codes(talk)[2] == {"judged": 7}


def test_a_producer_that_gives_the_first_batch_up_goes_on_with_the_next():
    talk = Talk()
    in_flight(talk, sent(1, 0))
    talk.session.client_data(sent(2, 2))
    talk.session.upstream_data(responded(1, {"judged": NOT_LEADER}))
    talk.decide()
    in_flight(talk, sent(3, 2), sent(4, 4))


def test_a_response_that_cannot_be_read_passes_unchanged():
    talk = Talk()
    in_flight(talk, sent(1, 0))
    later = sent(2, 2)
    talk.session.client_data(later)
    talk.session.upstream_data(answer(1))
    assert talk.client.take() == answer(1)
    talk.decide()
    assert talk.broker.take() == later


def test_a_response_is_not_read_while_nothing_is_held():
    talk = Talk()
    in_flight(talk, sent(1, 0))
    response = responded(1, {"judged": NOT_LEADER})
    for position in range(len(response)):
        talk.session.upstream_data(response[position : position + 1])
        assert bool(talk.client.take()) or position < 8, "it is streamed"


def test_a_batch_that_was_received_before_the_response_follows_it():
    """As a connection that native threads give back because of the response."""
    talk = Talk()
    in_flight(talk, sent(1, 0))
    talk.policies = talk.policies._replace(inline=Inline())
    talk.session.has_received_more = True
    talk.session.upstream_data(responded(1, {"judged": NOT_LEADER}))
    talk.session.has_received_more = False
    assert not talk.session.can_leave
    talk.session.client_data(sent(2, 2))
    talk.decide()
    assert talk.broker.take() == b""
    assert codes(talk)[2] == {"judged": 7}


class Large(Loop):
    """A session that takes large requests."""

    request_max_bytes = 1_000_000

    def turns_end(self):
        while self.calls:
            self.turn()


@pytest.mark.parametrize("held", [1, 2])
def test_a_batch_is_not_sent_while_a_long_response_is_read(held):
    talk = Large()
    later = [sent(2 + number, 2 + 2 * number) for number in range(held)]
    talk.policies = talk.policies._replace(inline=Inline(batch(2)))
    batches = [(number, batch(0)) for number in range(900)]
    talk.session.client_data(request_frame(produce_request([("judged", batches)]), 1))
    talk.turns_end()
    assert talk.broker.take()
    talk.session.client_data(b"".join(later))
    partitions = [
        {"index": number, "error_code": NOT_LEADER * (number == 0)} for number in range(900)
    ]
    response = [{"name": "judged", "partition_responses": partitions}]
    talk.session.upstream_data(broker_frame(0, 9, 1, responses=response))
    for _ in range(held):
        talk.decide()
    assert talk.session.is_answering
    assert talk.broker.take() == talk.client.take() == b""
    talk.turns_end()
    assert talk.broker.take() == b""
    assert {number: found["judged"] for number, found in codes(talk).items() if number > 1} == {
        2 + number: 7 for number in range(held)
    }


@pytest.mark.parametrize("part", range(3))
def test_no_batch_of_a_held_producer_is_out_of_order(part):
    for seed in range(50 * part, 50 * part + 50):
        OrderWorld(seed).walk()


def test_without_it_batches_are_out_of_order(monkeypatch):
    monkeypatch.setattr(Session, "_follow", lambda *_: None)
    with pytest.raises(AssertionError):
        for seed in range(100):
            OrderWorld(seed).walk()


def test_the_partitions_with_a_retriable_error_are_read_from_each_version():
    for version in VERSIONS:
        frame = responded(1, {"a": 0, "b": NOT_LEADER, "c": 45}, version=version)
        size = 1 if version >= 9 else 2
        key = (2 if version >= 9 else 1).to_bytes(size, "big") + b"b"
        assert finish(read_retried(frame, version)) == [(key, 0)]
        assert finish(read_retried(frame[:LENGTH_BYTES], version)) == ()


def test_the_batches_of_a_request_are_found_by_topic_and_partition():
    request = read_request(sent(1, 4, "a", "b"))
    place = request.topics[1].key, 0
    assert finish(batches_for(request, [place, (b"c", 0)])) == {
        place: BatchProducer(17, 0, 4, 2, False), (b"c", 0): None
    }  # fmt: skip


def test_the_first_batch_of_several_that_are_retried_counts():
    first, second = BatchProducer(17, 0, 4, 2, False), BatchProducer(17, 0, 6, 2, False)
    place = (b"a", 0)
    assert merged({}, {place: first}) == {place: first}
    assert merged({place: first}, {place: second}) == {place: first}
    for other in (second._replace(producer_id=18), second._replace(epoch=1), None):
        assert merged({place: first}, {place: other}) == {place: None}
    assert merged({place: None}, {place: second}) == {place: None}
