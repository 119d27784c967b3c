"""Batches of an idempotent producer do not overtake an earlier batch that has to be retried."""

from functools import partial

import pytest

from penstock.engine.verdict import postponed, refused
from penstock.gateway.produce import missing_batches
from penstock.gateway.produce.missing_batches import (
    KEPT_MAX,
    KEPT_S,
    REQUEST_INTERVAL_S,
    MissingBatches,
)
from penstock.gateway.produce.producer_state.records.encoding import ProducerKey
from penstock.kafka.records.header import BatchProducer
from penstock.kafka.wire.errors import REQUEST_TIMED_OUT
from penstock.kafka.wire.requests.producers import LastSequence
from penstock.policy import RetriableException
from tests.gateway.produce.inline import Inline, talk_with
from tests.gateway.produce.intercepted import array, framed, frames_of, word
from tests.gateway.sessions.talk import Talk, answer, produce_response
from tests.kafka.records.encoding import encode_batch, values
from tests.raw import parse_response, produce_request, produced, request_frame

LAST = 2**31 - 1
KEY = ProducerKey("orders", 3, 17, "User:a")
LATER = postponed("shop.Registry", RetriableException("the registry is away"))


def by(sequence, *, epoch=0, count=2):
    return BatchProducer(17, epoch, sequence, count, False)


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def kept(*responses, clock=None):
    batches = MissingBatches(clock or Clock())
    for batch, is_retriable in responses:
        batches.answered(KEY, batch, connection=1, is_retriable=is_retriable)
    return batches


def test_only_later_batches_of_the_producer_wait():
    batches = kept((by(4), True))
    assert batches
    assert batches.overtakes(KEY, by(6), connection=1)
    assert not batches.overtakes(KEY, by(4), connection=1)
    assert not batches.overtakes(KEY, by(2), connection=1)
    assert not batches.overtakes(KEY, by(6, epoch=1), connection=1)
    for other in ({"topic": "o"}, {"partition": 4}, {"producer_id": 18}, {"principal": "User:b"}):
        assert not batches.overtakes(KEY._replace(**other), by(6), connection=1)


def test_a_postponed_batch_counts_until_it_gets_another_response():
    batches = kept((by(4), True), (by(6), True), (by(4), True))
    assert batches.overtakes(KEY, by(6), connection=1)
    batches.answered(KEY, by(4), connection=1, is_retriable=False)
    assert not batches
    assert not batches.overtakes(KEY, by(6), connection=1)


@pytest.mark.parametrize(
    ("batch", "holds_it"),
    [
        (by(2), False),
        (by(3, count=1), False),
        (by(3), True),
        (by(4, count=0), True),
        (by(4), True),
        (by(5), False),
    ],
)
def test_only_a_batch_with_the_first_record_ends_the_wait(batch, holds_it):
    batches = kept((by(4), True), (batch, False))
    assert batches.overtakes(KEY, by(8), connection=1) is not holds_it


def test_the_response_to_another_batch_does_not_end_the_wait():
    batches = kept((by(4), True), (by(2), False), (by(6), False))
    assert batches.overtakes(KEY, by(6), connection=1)


def test_sequence_numbers_begin_again_after_the_largest():
    batches = kept((by(LAST - 1), True))
    assert batches.overtakes(KEY, by(0), connection=1)
    assert batches.overtakes(KEY, by(5), connection=1)
    assert not batches.overtakes(KEY, by(LAST - 3), connection=1)
    batches.answered(KEY, by(LAST - 1), connection=1, is_retriable=False)
    assert not batches


def test_a_newer_epoch_begins_again_and_an_older_epoch_has_no_effect():
    batches = kept((by(4, epoch=1), True), (by(0, epoch=0), True), (by(4, epoch=0), False))
    assert batches.overtakes(KEY, by(6, epoch=1), connection=1)
    batches.answered(KEY, by(0, epoch=2), connection=1, is_retriable=False)
    assert not batches


@pytest.mark.parametrize("batch", [BatchProducer(-1, -1, -1, 1, False), by(-1)])
def test_only_idempotent_producers_have_an_order(batch):
    assert not kept((batch, True))


def test_a_batch_that_is_not_retried_is_forgotten():
    clock = Clock()
    batches = kept((by(4), True), clock=clock)
    clock.now = KEPT_S - 1
    batches.answered(KEY, by(4), connection=1, is_retriable=True)
    clock.now = 2 * KEPT_S - 2
    assert batches.overtakes(KEY, by(6), connection=1)
    clock.now = 2 * KEPT_S
    assert not batches.overtakes(KEY, by(6), connection=1)
    assert not batches


def test_a_topic_is_known_while_any_batch_for_it_has_to_be_retried():
    clock = Clock()
    batches = MissingBatches(clock)
    sent = [KEY, KEY._replace(partition=4), KEY._replace(principal="User:b")]
    for item in (*sent, sent[0]):
        batches.answered(item, by(4), connection=1, is_retriable=True)
    assert batches.has_topic("orders")
    assert not batches.has_topic("others")
    for item in sent:
        assert batches.has_topic("orders")
        batches.answered(item, by(4), connection=1, is_retriable=False)
    assert not batches.has_topic("orders")


def test_a_topic_is_known_as_long_as_its_last_batch_is_kept():
    clock = Clock()
    batches = MissingBatches(clock)
    batches.answered(KEY, by(4), connection=1, is_retriable=True)
    clock.now += KEPT_S - 1
    other = KEY._replace(partition=4)
    batches.answered(other, by(4), connection=1, is_retriable=True)
    clock.now += KEPT_S - 1
    assert KEY not in batches
    assert other in batches
    assert batches.has_topic("orders")
    clock.now += 1
    assert not batches.has_topic("orders")


def test_a_topic_whose_batches_were_evicted_is_not_known(monkeypatch):
    monkeypatch.setattr(missing_batches, "KEPT_MAX", 2)
    batches = MissingBatches(Clock())
    for topic in ("first", "second", "third"):
        key = KEY._replace(topic=topic)
        batches.answered(key, by(4), connection=1, is_retriable=True)
    known = [batches.has_topic(topic) for topic in ("first", "second", "third")]
    assert known == [False, True, True]


def test_the_last_sequence_is_requested_if_sequence_numbers_have_a_gap():
    batches = kept((by(4), True))
    assert not batches.may_be_past(KEY, by(6), connection=1), "sent before the response"
    batches.answered(KEY, by(6), connection=1, is_retriable=True)
    assert not batches.may_be_past(KEY, by(8), connection=1)
    assert batches.may_be_past(KEY, by(6), connection=1), "it is retried without the first batch"
    assert batches.may_be_past(KEY, by(10), connection=1), (
        "the batches between were sent through another gateway"
    )
    for other in (by(4), by(2), by(6, epoch=1)):
        assert not batches.may_be_past(KEY, other, connection=1), "it does not wait"
    assert not batches.may_be_past(KEY, by(6), connection=2)
    assert not batches.may_be_past(KEY._replace(partition=4), by(6), connection=1)


def test_the_last_sequence_is_not_requested_again_at_once():
    clock = Clock()
    batches = kept((by(4), True), (by(6), True), clock=clock)
    batches.on_last_sequence(KEY, LastSequence(0, 0, 3))
    batches.answered(KEY, by(4), connection=1, is_retriable=True)
    clock.now = REQUEST_INTERVAL_S / 2
    assert not batches.may_be_past(KEY, by(8), connection=1)
    clock.now = REQUEST_INTERVAL_S
    assert batches.may_be_past(KEY, by(8), connection=1)


@pytest.mark.parametrize(
    "last",
    [None, LastSequence(6), LastSequence(29), LastSequence(0), LastSequence(0, 1, -1),
     LastSequence(0, 1, 3), LastSequence(0, 1, 1), LastSequence(0, 0, 9)],
)  # fmt: skip
def test_batches_not_known_to_be_stored_come_first(last):
    batches = kept((by(4, epoch=1), True))
    batches.on_last_sequence(KEY, last)
    assert batches.overtakes(KEY, by(6, epoch=1), connection=1)
    assert not batches.overtakes(KEY, by(4, epoch=1), connection=1)


@pytest.mark.parametrize(
    ("first", "last", "following"), [(4, 5, 6), (4, 9, 10), (LAST - 1, LAST, 0), (LAST - 1, 3, 4)]
)
def test_the_batch_after_the_last_stored_batch_comes_first(first, last, following):
    batches = kept((by(first), True))
    batches.on_last_sequence(KEY, LastSequence(0, 0, last))
    assert not batches.overtakes(KEY, by(following), connection=1)
    assert batches.overtakes(KEY, by(following + 2), connection=1), "it would leave a gap"
    batches.answered(KEY, by(following), connection=1, is_retriable=False)
    assert not batches


def test_if_the_broker_has_a_newer_epoch_batches_of_older_epochs_are_forwarded():
    batches = kept((by(4), True))
    batches.on_last_sequence(KEY, LastSequence(0, 1, 1))
    assert not batches
    batches.on_last_sequence(KEY, LastSequence(0, 1, 1))


@pytest.mark.thorough
def test_the_number_of_producers_is_bounded():
    batches = MissingBatches(Clock())
    for number in range(10_001):
        batches.answered(KEY._replace(producer_id=number), by(0), connection=1, is_retriable=True)
    assert not batches.overtakes(KEY._replace(producer_id=0), by(6), connection=1)
    assert batches.overtakes(KEY._replace(producer_id=1), by(6), connection=1)


# The requests of a connection


def sent(number, sequence, *topics, acks=-1, producer_id=17, crc=None):
    """A request with two records of an idempotent producer for partition 0 of each topic."""
    given = {} if crc is None else {"crc": crc}
    data = encode_batch(values(b"a", b"b"), producer_id=producer_id, producer_epoch=0,
                        base_sequence=sequence, **given)  # fmt: skip
    request = produce_request([(topic, [(0, data)]) for topic in topics], acks=acks)
    return request_frame(request, number)


def responses(talk):
    """The error codes and messages of the responses, by correlation id."""
    data, found = talk.client.take(), {}
    while data:
        size = int.from_bytes(data[:4], "big")
        number = int.from_bytes(data[4:8], "big")
        response = produced(parse_response(data[: 4 + size], 0, 9))
        found[number] = {key[0]: (result.error_code, result.error_message)
                         for key, result in response.items()}  # fmt: skip
        data = data[4 + size :]
    return found


@pytest.mark.parametrize("producer_id", [0, 17])
def test_batches_in_flight_after_a_postponed_batch_are_retried_in_order(producer_id):
    batch = partial(sent, producer_id=producer_id)
    talk = Talk()
    talk.session.client_data(batch(1, 0, "judged") + batch(2, 2, "judged") + batch(3, 4, "judged"))
    talk.decide(LATER)
    talk.decide()
    talk.decide()
    assert talk.broker.take() == b""
    found = responses(talk)
    assert found[1]["judged"] == (7, "the registry is away")
    assert [found[n]["judged"][0] for n in (2, 3)] == [7, 7]
    assert "must be retried first" in found[2]["judged"][1]

    talk.session.client_data(batch(4, 0, "judged") + batch(5, 2, "judged"))
    talk.decide()
    talk.decide()
    assert talk.broker.take() == batch(4, 0, "judged") + batch(5, 2, "judged")
    assert not talk.missing_batches


class WithLastSequences(Talk):
    """A session after a postponed first batch of two records, with requests to its broker."""

    def __init__(self, *topics):
        super().__init__(
            judged=frozenset(topics or ("judged",)), missing_batches=kept(clock=Clock())
        )
        self.session._supports_describe_producers = True
        self.number = 1
        self.session.client_data(sent(1, 0, *(topics or ("judged",))))
        while self.verdicts:
            self.decide(LATER)
        assert {code for code, _ in responses(self)[1].values()} == {7}

    def send(self, sequence, *topics):
        """Send a request that policies accept; return the forwarded request."""
        self.number += 1
        request = sent(self.number, sequence, *(topics or ("judged",)))
        self.session.client_data(request)
        while self.verdicts:
            self.decide()
        return request

    def codes(self):
        """The error codes of the last response, by topic."""
        return {topic: code for topic, (code, _) in responses(self)[self.number].items()}

    def requested_apis(self):
        """The API keys of the requests that the broker got."""
        self._requests = frames_of(self.broker.take())
        return [frame[5] for frame in self._requests]

    def respond(self, *, leader=0, code=0, last=None, epoch=0, topics=("judged",)):
        """Respond whether the broker leads, and with the producer's last sequence."""
        own, count = self._requests[0][8:12], len(topics)
        offsets = b"".join(
            word(len(topic)) + topic.encode() + array(bytes(4) + word(leader) + bytes(20))
            for topic in topics
        )
        self.session.upstream_data(framed(own + bytes(4) + count.to_bytes(4, "big") + offsets))
        producers = b""
        if last is not None:
            producers = (17).to_bytes(8, "big") + epoch.to_bytes(4, "big", signed=True)
            producers += last.to_bytes(4, "big") + bytes(20) + b"\0"
        partition = b"\2" + bytes(4) + word(code) + b"\0" + bytes([1 + bool(producers)])
        response = b"".join(
            bytes([len(topic) + 1]) + topic.encode() + partition + producers + bytes(2)
            for topic in topics
        )
        self.session.upstream_data(framed(own + bytes(5) + bytes([count + 1]) + response + b"\0"))


def test_a_batch_stored_through_another_gateway_is_found_at_the_broker():
    """The leader moved to another broker and back, and the connection stayed open."""
    talk = WithLastSequences()
    later = talk.send(4)
    assert talk.requested_apis() == [2, 61], "ListOffsets comes first"
    talk.respond(last=3)
    assert talk.broker.take() == later
    assert not talk.missing_batches


def test_for_retries_without_the_first_batch_the_last_sequence_is_requested():
    talk = WithLastSequences()
    talk.send(2)
    assert talk.requested_apis() == [], "it was in flight behind the first batch"
    assert talk.codes() == {"judged": 7}
    later = talk.send(2)
    assert talk.requested_apis() == [2, 61]
    talk.respond(last=1)
    assert talk.broker.take() == later


def test_no_batch_is_stored_after_a_gap():
    talk = WithLastSequences()
    talk.send(4)
    assert talk.requested_apis() == [2, 61]
    talk.respond(last=1)
    assert talk.broker.take() == b""
    assert talk.codes() == {"judged": 7}
    requests = [talk.send(2), talk.send(4)]
    assert talk.broker.take() == b"".join(requests)
    assert not talk.missing_batches


@pytest.mark.parametrize(
    ("response", "code"),
    [({}, 7), ({"last": 5, "epoch": -1}, 7), ({"leader": 6, "last": 3}, 6), ({"code": 29}, 7),
     ({"code": 3}, 3)],
)  # fmt: skip
def test_for_many_early_batches_the_last_sequence_is_requested_once(response, code):
    talk = WithLastSequences()
    talk.send(4)
    assert talk.requested_apis() == [2, 61]
    talk.respond(**response)
    assert talk.codes() == {"judged": code}
    for number in range(100):
        talk.send(8 + 4 * number)
        assert talk.broker.take() == b""
        assert talk.codes() == {"judged": 7}
    talk.missing_batches._clock.now += REQUEST_INTERVAL_S
    talk.send(4)
    assert talk.requested_apis() == [2, 61]


def test_later_batches_wait_for_the_broker_and_stay_in_order():
    talk = WithLastSequences()
    requests = [talk.send(4), talk.send(6)]
    assert talk.requested_apis() == [2, 61], "one lookup"
    assert talk.client.take() == b""
    talk.respond(last=3)
    assert talk.broker.take() == b"".join(requests)


def test_last_sequences_of_all_partitions_are_in_a_single_request():
    talk = WithLastSequences("judged", "other")
    later = talk.send(4, "judged", "other")
    assert talk.requested_apis() == [2, 61]
    talk.respond(last=3, topics=("judged", "other"))
    assert talk.broker.take() == later


def test_for_the_retry_of_the_first_batch_no_last_sequence_is_requested():
    talk = WithLastSequences()
    requests = [talk.send(0), talk.send(2), talk.send(4)]
    assert talk.broker.take() == b"".join(requests)


def test_an_older_broker_gets_no_request_for_last_sequences():
    talk = WithLastSequences()
    talk.session._supports_describe_producers = None
    talk.send(4)
    (question,) = frames_of(talk.broker.take())
    assert question[5] == 18
    none = question[8:12] + bytes(2) + bytes(4)
    talk.session.upstream_data(framed(none))
    assert talk.codes() == {"judged": 7}
    talk.missing_batches._clock.now += REQUEST_INTERVAL_S
    talk.send(4)
    assert talk.broker.take() == b""
    assert talk.codes() == {"judged": 7}


def test_batches_of_a_client_that_disconnects_meanwhile_are_not_stored():
    talk = WithLastSequences()
    talk.send(4)
    assert talk.requested_apis() == [2, 61]
    talk.session.closed()
    assert talk.broker.take() == b""


def test_the_first_batch_of_a_later_connection_has_no_response_yet():
    """The batch before it was retried through another gateway."""
    before = Talk()
    before.session.client_data(sent(1, 0, "judged"))
    before.decide(LATER)
    before.session.closed()
    talk = Talk(missing_batches=before.missing_batches)

    talk.session.client_data(sent(2, 2, "judged"))
    talk.decide()

    assert talk.broker.take() == sent(2, 2, "judged")
    assert not talk.missing_batches


def test_a_later_connection_has_its_own_order():
    before = Talk()
    before.session.client_data(sent(1, 0, "judged") + sent(2, 2, "judged"))
    talk = Talk(missing_batches=before.missing_batches)
    talk.session.client_data(sent(3, 0, "judged") + sent(4, 2, "judged"))
    talk.decide(LATER)
    talk.decide()
    before.decide()
    before.decide()
    assert [found["judged"][0] for found in responses(talk).values()] == [7, 7]
    assert before.broker.take() == sent(1, 0, "judged") + sent(2, 2, "judged")

    before, talk = Talk(), Talk()
    talk.missing_batches = before.missing_batches
    before.session.client_data(sent(1, 0, "judged") + sent(2, 2, "judged"))
    talk.session.client_data(sent(3, 0, "judged"))
    before.decide(which=1)
    talk.decide(LATER)
    before.decide(LATER)
    assert before.broker.take() == b"", (
        "the second batch waits for the first batch of both sessions"
    )


def test_a_batch_postponed_again_on_a_later_connection_is_the_first_from_then_on():
    before = Talk()
    before.session.client_data(sent(1, 0, "judged"))
    before.decide(LATER)
    talk = Talk(missing_batches=before.missing_batches)
    talk.session.client_data(sent(2, 2, "judged") + sent(3, 4, "judged"))
    talk.decide(LATER)
    talk.decide()
    assert talk.broker.take() == b""
    talk.session.client_data(sent(4, 2, "judged") + sent(5, 4, "judged"))
    talk.decide()
    talk.decide()
    assert talk.broker.take() == sent(4, 2, "judged") + sent(5, 4, "judged")
    assert not talk.missing_batches


def test_only_the_partition_of_a_postponed_batch_waits():
    talk = Talk(judged=frozenset({"judged", "other"}))
    talk.session.client_data(sent(1, 0, "judged", "other") + sent(2, 2, "judged", "other"))
    for verdict in ((LATER,), (), (), ()):
        talk.decide(*verdict)
    assert talk.broker.take() == sent(1, 0, "other") + sent(2, 2, "other")
    talk.session.upstream_data(produce_response(1, "other") + produce_response(2, "other"))
    found = responses(talk)
    assert {number: {t: code for t, (code, _) in of.items()} for number, of in found.items()} == {
        1: {"judged": 7, "other": 0}, 2: {"judged": 7, "other": 0}
    }  # fmt: skip


def test_after_a_final_error_the_broker_decides_about_the_gap():
    talk = Talk()
    talk.session.client_data(sent(1, 0, "judged") + sent(2, 2, "judged"))
    talk.decide(refused(87, "no", "v"))
    talk.decide()
    assert talk.broker.take() == sent(2, 2, "judged")


def test_producers_without_sequence_numbers_do_not_wait():
    talk = Talk()
    talk.session.client_data(sent(1, -1, "judged", producer_id=-1))
    talk.session.client_data(sent(2, -1, "judged", producer_id=-1))
    talk.decide(LATER)
    talk.decide()
    assert talk.broker.take() == sent(2, -1, "judged", producer_id=-1)


def test_the_sequence_number_of_a_damaged_batch_delays_no_batch():
    talk = Talk()
    talk.session.client_data(sent(1, 0, "judged", crc=1))
    talk.decide(LATER)
    assert not talk.missing_batches


def test_with_acks_0_the_connection_is_closed():
    talk = Talk()
    talk.session.client_data(sent(1, 0, "judged", acks=0))
    talk.decide(LATER)
    barrier = talk.broker.take()  # all that is sent: what came before is stored when it is answered
    assert sent(1, 0, "judged", acks=0) not in barrier
    talk.session.upstream_data(answer(int.from_bytes(barrier[8:12], "big")))
    assert talk.done
    assert not talk.missing_batches


def test_a_request_that_is_refused_as_a_whole_is_retried_as_a_whole():
    talk = Talk(judged=frozenset({"judged", "other"}))
    talk.policies = talk.policies._replace(whole_request=True)
    talk.session.client_data(sent(1, 0, "judged", "other") + sent(2, 2, "other"))
    for verdict in ((LATER,), (), ()):
        talk.decide(*verdict)
    assert talk.broker.take() == b""
    found = responses(talk)
    assert found[1]["other"][0] == found[1]["judged"][0] == found[2]["other"][0] == 7


@pytest.mark.parametrize(("producer", "is_behind"), [(0, True), (17, True), (18, False)])
def test_a_batch_after_a_postponed_batch_of_its_producer_is_not_forwarded_at_once(
    producer, is_behind
):
    talk = talk_with(Inline())
    postponed_id = producer if is_behind else producer + 1
    first = BatchProducer(postponed_id, 0, 0, 2, False)
    talk.missing_batches.answered(
        ProducerKey("judged", 0, postponed_id, ""), first, 1, is_retriable=True
    )
    request = sent(1, 2, "judged", producer_id=producer)
    talk.session.client_data(request)
    assert (talk.broker.take() == request) != is_behind


@pytest.mark.parametrize("idempotent", [True, False])
def test_a_small_batch_is_not_forwarded_at_once_while_an_earlier_batch_is_judged(idempotent):
    talk = Talk()
    talk.session._supports_describe_producers = False
    talk.policies = talk.policies._replace(inline=Inline(_data(0)))
    number = {} if idempotent else {"producer_id": -1}
    talk.session.client_data(sent(1, 0, "judged"))
    talk.session.client_data(sent(2, 2, "judged", **number))
    assert len(talk.verdicts) == (2 if idempotent else 1)
    talk.decide(LATER)
    if idempotent:
        talk.decide()
    assert talk.broker.take() == (b"" if idempotent else sent(2, 2, "judged", producer_id=-1))
    assert responses(talk)[1]["judged"][0] == REQUEST_TIMED_OUT

    talk.session.client_data(sent(3, 2, "judged"))
    assert len(talk.verdicts) == 1, "its producer has to retry another batch first"
    talk.decide()
    assert talk.broker.take() == b""
    talk.session.client_data(sent(4, 2, "judged", producer_id=18))
    assert talk.verdicts == []
    assert talk.broker.take() == sent(4, 2, "judged", producer_id=18)


def _data(sequence):
    return encode_batch(
        values(b"a", b"b"), producer_id=17, producer_epoch=0, base_sequence=sequence
    )


def by_principal(batches, principal, count, topic="orders"):
    """Postpone batches of a number of producers of a principal."""
    sent = [ProducerKey(topic, 0, number, principal) for number in range(count)]
    for item in sent:
        batches.answered(item, by(4), connection=1, is_retriable=True)
    return sent


@pytest.mark.thorough
@pytest.mark.parametrize("greedy", ["User:greedy", "User:ANONYMOUS", ""])
def test_batches_of_a_principal_evict_only_its_own_batches(greedy):
    batches = MissingBatches(Clock())
    few = by_principal(batches, "User:few", 100)
    many = by_principal(batches, greedy, KEPT_MAX + 1000)
    later = by_principal(batches, "User:later", 100)
    assert all(batch in batches for batch in (*few, *later))
    kept = [batch in batches for batch in many]
    assert kept == [False] * (len(many) - (KEPT_MAX - 200)) + [True] * (KEPT_MAX - 200)
    assert len(batches) == KEPT_MAX


@pytest.mark.thorough
def test_many_principals_share_the_capacity():
    batches = MissingBatches(Clock())
    sent = [by_principal(batches, f"User:{number}", 100) for number in range(KEPT_MAX // 100 + 50)]
    assert len(batches) == KEPT_MAX
    counts = [sum(item in batches for item in some) for some in sent]
    assert min(counts) >= KEPT_MAX // len(sent) - 1
    assert counts[-1] == 100 or max(counts) - min(counts) <= 100


@pytest.mark.thorough
def test_batches_with_a_response_and_old_batches_are_evicted_first():
    clock = Clock()
    batches = MissingBatches(clock)
    first = by_principal(batches, "User:a", KEPT_MAX)
    for batch in first:
        batches.answered(batch, by(4), connection=1, is_retriable=False)
    assert not batches
    by_principal(batches, "User:a", KEPT_MAX)
    clock.now += KEPT_S
    assert len(batches) == 0
    (new,) = by_principal(batches, "User:b", 1)
    assert new in batches
    assert len(batches) == 1


def test_a_batch_for_an_invalid_partition_does_not_have_to_be_retried():
    talk = Talk(judged=frozenset({"orders"}))
    data = encode_batch(values(b"a", b"b"), producer_id=17, producer_epoch=0, base_sequence=0)
    talk.session.client_data(request_frame(produce_request([("orders", [(-1, data)])], acks=-1), 1))
    assert talk.client.take()
    assert not talk.missing_batches
