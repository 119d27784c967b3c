"""Requests are forwarded at once if no worker has to judge their batches; others are judged."""

import uuid
from types import SimpleNamespace

import pytest

from penstock.engine.plans.topic_plan import TopicPlan
from penstock.gateway.produce.producer_state.all_producers import Producers
from penstock.gateway.produce.producer_state.arrivals import Arrival
from penstock.gateway.produce.producer_state.producer.numbers import Range
from penstock.gateway.produce.producer_state.records.encoding import ProducerKey
from penstock.gateway.sessions.routes import INCREMENTAL_ALTER_CONFIGS
from penstock.kafka.records.header import BatchProducer
from penstock.kafka.wire.names import NO_ID
from penstock.kafka.wire.schemas import load_request_schema
from tests.gateway.produce.inline import ID, Inline, Stored, observing, talk_with
from tests.gateway.sessions.talk import NO, answer, other, produce, produce_response
from tests.kafka.records.encoding import encode_batch, values
from tests.raw import parse_response, produce_request, produced, request_frame


def records(number):
    return b"records of %d" % number


def test_a_request_is_forwarded_at_once_and_its_response_unchanged():
    inline = Inline()
    talk = talk_with(inline)
    request = produce(1, "judged", "free", "other")

    talk.session.client_data(request)

    assert talk.broker.take() == request
    assert talk.verdicts == []
    assert inline.seen == [("judged", 9, records(1)), ("other", 9, records(1))]
    talk.session.upstream_data(produce_response(1, "judged", "free", "other"))
    assert talk.client.take() == produce_response(1, "judged", "free", "other")
    assert talk.session.held_bytes == 0


@pytest.mark.parametrize("size", [1, 7, 64])
def test_requests_may_arrive_in_any_pieces(size):
    talk = talk_with(Inline())
    sent = other(1) + produce(2, "judged") + produce(3, "free") + other(4)
    for start in range(0, len(sent), size):
        talk.session.client_data(sent[start : start + size])
    assert talk.broker.take() == sent


def test_a_request_with_a_batch_of_another_kind_is_judged_by_workers():
    talk = talk_with(Inline(records(1)))
    talk.session.client_data(produce(1, "judged", "other"))
    assert talk.broker.take() == b""
    talk.decide(NO)
    talk.decide()
    assert talk.broker.take() == produce(1, "other")


def test_topics_without_policies_need_no_inline_judge():
    talk = talk_with(None)
    talk.session.client_data(produce(1, "free") + produce(2, "free", "judged"))
    assert talk.broker.take() == produce(1, "free")
    talk.decide()
    assert talk.broker.take() == produce(2, "free", "judged")


def test_requests_stay_in_order():
    talk = talk_with(Inline(records(1)))
    first, second, third = produce(1, "judged"), produce(2, "judged"), other(3)
    talk.session.client_data(first + second + third)
    assert talk.broker.take() == b""
    talk.decide()
    assert talk.broker.take() == first + second + third
    assert talk.session.waiting_bytes == 0


def test_a_response_waits_for_the_response_to_an_earlier_refused_request():
    talk = talk_with(Inline(records(1)))
    talk.session.client_data(produce(1, "judged") + produce(2, "judged"))
    talk.decide(NO)
    assert talk.broker.take() == produce(2, "judged")
    refusal = talk.client.take()
    talk.session.upstream_data(produce_response(2, "judged"))
    assert refusal
    assert talk.client.take() == produce_response(2, "judged")


def test_requests_with_acks_0_wait_for_no_response():
    talk = talk_with(Inline())
    request = produce(1, "judged", acks=0)
    talk.session.client_data(request + other(2))
    assert talk.broker.take() == request + other(2)
    talk.session.upstream_data(answer(2))
    assert talk.client.take() == answer(2)


def one_partition(number, *, topic="judged", partition=0, acks=1):
    return request_frame(
        produce_request([(topic, [(partition, records(number))])], acks=acks), number
    )


@pytest.mark.parametrize(
    "request_",
    [one_partition(1, acks=2), one_partition(1, partition=-1), one_partition(1, topic="a b")],
    ids=["acks", "partition", "topic name"],
)
def test_invalid_batches_get_the_error_code_of_a_broker(request_):
    talk = talk_with(Inline())
    talk.session.client_data(request_)
    assert talk.broker.take() == b""
    assert talk.client.take()


@pytest.mark.parametrize(
    ("configs", "cached"),
    [
        ({}, None),
        ({"seen": ()}, ID),
        ({"unreadable": True}, ID),
        ({"topic": "judged"}, ID),
    ],
    ids=["id not known", "log not read", "unreadable configs", "the topic of the configs"],
)
def test_topics_whose_configs_are_not_known_are_not_forwarded_at_once(configs, cached):
    stored = Stored()
    for name, value in configs.items():
        setattr(stored, name, value)
    inline = Inline()
    talk = talk_with(inline, topic_configs=stored)
    if cached is not None:
        talk.session.topics.put("judged", cached)
    tasks = []
    talk.run = tasks.append

    talk.session.client_data(produce(1, "judged"))

    assert inline.seen == []
    assert produce(1, "judged") not in talk.broker.take()
    for task in tasks:
        task.close()


@pytest.mark.parametrize("with_id", [True, False])
def test_topics_whose_configs_are_known_are_forwarded_at_once(with_id):
    talk = talk_with(Inline(), topic_configs=Stored())
    talk.session.topics.put("judged", ID)
    request = produce(1, "judged")
    if with_id:
        body = produce_request([(ID, [(0, records(1))])], version=13, acks=1)
        request = request_frame(body, 1)
    talk.session.client_data(request)
    assert talk.broker.take() == request


def test_a_topic_that_cannot_be_judged_is_not_forwarded_at_once():
    inline = Inline()
    talk = talk_with(inline)
    talk.for_topic = lambda topic, own=None: TopicPlan(
        topic=topic, validators=("v",), unusable="no reader"
    )
    talk.session.client_data(produce(1, "judged"))
    assert (inline.seen, talk.broker.take()) == ([], b"")
    assert [refusal.topic for refusal in talk.refusals] == ["judged"]


def intercept(talk):
    talk.intercepts = lambda topic: topic == "judged"


def put_in_quarantine(talk):
    talk.dead_letters = SimpleNamespace(store=print)
    talk.for_topic = lambda topic, own=None: TopicPlan(
        topic=topic, validators=("v",), mode="quarantine" if topic == "judged" else "enforce"
    )


def drop_a_record(talk):
    key = ProducerKey("judged", 0, 7)
    talk.producers.decide(
        key,
        Arrival("judged", 0, 7),
        0,
        Range(0, 2),
        [1],
        b"",
        connection=1,
        callback=lambda _: None,
    )


def change_interceptors(talk):
    talk.producers.interceptors_changed(lambda topic: topic == "judged")


def change_settings(talk):
    talk.producers.settings_changed("judged")


def receive_a_batch(talk):
    talk.producers.arrivals.add(Arrival("judged", 0, 7), 0, 0)


def receive_a_batch_by_id(talk):
    talk.producers.arrivals.add(Arrival(ID, 0, 7), 0, 0)


MAY_CHANGE = [
    intercept,
    put_in_quarantine,
    drop_a_record,
    change_interceptors,
    change_settings,
    receive_a_batch,
]


def talk_with_producers(inline):
    talk = talk_with(inline, topic_configs=Stored(), keeps_decisions=True)
    talk.producers = Producers(now=lambda: 5.0, is_shared=True)
    for number, topic in enumerate(("judged", "free", "other"), 5):
        talk.session.topics.put(topic, uuid.UUID(int=number))
        talk.topic_configs.see([uuid.UUID(int=number)])
    return talk


@pytest.mark.parametrize("begin", MAY_CHANGE)
def test_requests_of_a_topic_whose_records_may_be_dropped_are_not_forwarded_at_once(begin):
    inline = Inline()
    talk = talk_with_producers(inline)
    begin(talk)
    talk.session.client_data(produce(1, "judged", "other"))
    assert (inline.seen, talk.broker.take()) == ([], b"")
    assert [topic for topic, *_ in talk.verdicts] == ["judged", "other"]


PLAIN = encode_batch(values(b"good"))
NUMBERED = encode_batch(values(b"good"), producer_id=7, producer_epoch=0, base_sequence=0)


def in_quarantine(*batches, acks=1):
    """Return a request with batches for a topic in quarantine, and for one that is enforced."""
    topics = [("judged", list(enumerate(batches))), ("other", [(0, NUMBERED)])]
    return request_frame(produce_request(topics, acks=acks), 1)


def quarantining(inline, **attributes):
    talk = talk_with_producers(inline)
    put_in_quarantine(talk)
    talk.intercepts = lambda topic: topic == "judged"
    talk.has_interceptors = talk.may_quarantine = True
    for name, value in attributes.items():
        setattr(talk, name, value)
    return talk


def of_no_state(talk):
    """Nothing was dropped."""


@pytest.mark.parametrize("acks", [0, 1, -1])
@pytest.mark.parametrize(
    "begin", [of_no_state, drop_a_record, change_interceptors, change_settings, receive_a_batch]
)
def test_accepted_batches_without_producer_ids_are_forwarded_at_once_in_quarantine(begin, acks):
    inline = Inline()
    talk = quarantining(inline)
    begin(talk)
    request = in_quarantine(PLAIN, PLAIN, acks=acks)
    talk.session.client_data(request)
    assert talk.broker.take() == request
    assert (talk.verdicts, len(inline.seen)) == ([], 3)
    assert not talk.producers.topics.has("other")


@pytest.mark.parametrize("batches", [[NUMBERED], [PLAIN, NUMBERED], [PLAIN, b"x" * 60], [b""]])
def test_other_batches_take_all_steps_in_quarantine(batches):
    inline = Inline()
    talk = quarantining(inline)
    talk.session.client_data(in_quarantine(*batches))
    assert (inline.seen, talk.broker.take()) == ([], b"")
    assert len(talk.verdicts) == len(batches) + 1


def test_batches_in_quarantine_that_are_not_accepted_inline_take_all_steps():
    talk = quarantining(Inline(PLAIN))
    talk.session.client_data(in_quarantine(PLAIN))
    assert talk.broker.take() == b""
    assert [topic for topic, *_ in talk.verdicts] == ["judged", "other"]


def test_batches_in_quarantine_wait_until_decisions_are_kept():
    opened = []
    talk = quarantining(Inline(), keeps_decisions=False, open_decisions=lambda: opened.append(True))
    talk.session.client_data(request_frame(produce_request([("judged", [(0, PLAIN)])]), 1))
    assert (opened, talk.broker.take()) == ([True], b"")
    assert (
        parse_response(talk.client.take(), 0, 9).responses[0].partition_responses[0].error_code == 7
    )


def test_batches_count_in_quarantine_where_the_share_of_bad_records_is_limited():
    inline = Inline()
    talk = quarantining(inline)
    talk.for_topic = lambda topic, own=None: TopicPlan(
        topic=topic,
        validators=("v",),
        mode="quarantine",
        settings={"penstock.quarantine.max.ratio": "0.5"},
    )
    talk.session.client_data(in_quarantine(PLAIN))
    assert inline.seen == []


@pytest.mark.parametrize("begin", [*MAY_CHANGE, receive_a_batch_by_id])
def test_requests_of_other_topics_are_forwarded_at_once_if_a_topics_records_may_be_dropped(
    begin,
):
    talk = talk_with_producers(Inline())
    talk.has_interceptors = talk.may_quarantine = True
    begin(talk)
    talk.session.client_data(produce(1, "free", "other"))
    assert talk.broker.take() == produce(1, "free", "other")
    assert talk.verdicts == []


@pytest.mark.parametrize("begin", [*MAY_CHANGE, receive_a_batch_by_id])
def test_requests_by_id_of_a_topic_whose_records_may_be_dropped_are_not_forwarded_at_once(begin):
    talk = talk_with_producers(Inline())
    begin(talk)
    frame = request_frame(produce_request([(ID, [(0, records(1))])], version=13, acks=1), 1)
    talk.session.client_data(frame)
    assert talk.broker.take() == b""


def test_a_batch_without_policies_waits_while_an_earlier_batch_has_to_be_retried():
    talk = talk_with(Inline())
    batch = encode_batch(values(b"x"), producer_id=7, producer_epoch=0, base_sequence=5)
    key, before = ProducerKey("free", 0, 7, ""), BatchProducer(7, 0, 4, 1, False)
    talk.missing_batches.answered(key, before, talk.session.number, is_retriable=True)
    talk.session.client_data(request_frame(produce_request([("free", [(0, batch)])]), 1))
    assert talk.broker.take() == b""
    answers = produced(parse_response(talk.client.take(), 0, 9))
    assert answers["free", 0].error_code == 7


def test_with_rejection_scope_request_no_request_overtakes_the_decision_about_another():
    talk = talk_with_producers(Inline(records(1)))
    talk.policies = talk.policies._replace(whole_request=True)
    talk.session.client_data(produce(1, "judged"))
    talk.session.client_data(produce(2, "other"))
    assert [topic for topic, *_ in talk.verdicts] == ["judged", "other"]


def test_a_request_waits_for_an_earlier_request_that_may_change_policies():
    inline, tasks = Inline(), []
    talk = talk_with(inline, topic_configs=Stored(), run=tasks.append)
    talk.session.topics.put("judged", ID)
    schema = load_request_schema(INCREMENTAL_ALTER_CONFIGS, 1)
    alter = request_frame(schema(resources=(), validate_only=False), 1)
    talk.session.client_data(alter + produce(2, "judged"))
    assert (inline.seen, talk.broker.take()) == ([], b"")
    for task in tasks:
        task.close()


def test_no_batch_is_judged_inline_if_a_topic_has_a_policy_of_a_user():
    inline = Inline()
    talk = talk_with(inline, judged=frozenset({"judged", "of a user"}))
    talk.session.client_data(produce(1, "judged", "of a user"))
    assert (inline.seen, talk.broker.take()) == ([], b"")


@pytest.mark.parametrize("judged", [frozenset(), frozenset({"judged"})])
def test_clients_cannot_produce_to_the_state_topic(judged):
    talk = talk_with(Inline(), shared_producers=SimpleNamespace(topic="free"))
    talk.judged = judged
    talk.session.client_data(produce(1, "free"))
    answers = produced(parse_response(talk.client.take(), 0, 9))
    assert (talk.broker.take(), answers["free", 0].error_code) == (b"", 17)


def test_clients_cannot_produce_to_the_audit_topic():
    talk = talk_with(Inline(), audit_topic="free")
    talk.session.client_data(produce(1, "free"))
    answers = produced(parse_response(talk.client.take(), 0, 9))
    assert (talk.broker.take(), answers["free", 0].error_code) == (b"", 17)


def test_with_rejection_scope_request_topics_have_to_be_known():
    inline = Inline()
    talk = talk_with(inline)
    talk.policies = talk.policies._replace(whole_request=True)
    talk.session.client_data(produce(1, "judged"))
    assert inline.seen == []


def test_a_half_received_request_is_forwarded_before_the_session_ends():
    talk = talk_with(Inline())
    request = produce(1, "judged", acks=0)
    talk.session.client_data(request[:20])
    talk.session.end()
    talk.session.client_data(request[20:])
    sent = talk.broker.take()
    assert sent.startswith(request)
    barrier = sent[len(request) :]
    talk.session.upstream_data(answer(int.from_bytes(barrier[8:12], "big")))
    assert talk.done


def test_a_request_is_forwarded_even_if_its_client_has_disconnected():
    talk = talk_with(Inline())
    talk.session.client_data(produce(1, "judged"))
    talk.session.client_disconnected()
    assert not talk.session.serves_client_only
    talk.session.upstream_data(produce_response(1, "judged"))
    assert talk.done


def test_topic_ids_are_not_needed_without_stored_configs():
    talk = talk_with(Inline())
    assert talk.topic_configs.of("judged", NO_ID) == {}
    talk.session.client_data(produce(1, "judged"))
    assert talk.broker.take() == produce(1, "judged")


@pytest.mark.parametrize("acks", [0, 1, -1])
def test_a_batch_of_an_observed_topic_is_forwarded_at_once_and_judged_in_the_background(acks):
    talk, observed = observing(None, "watched")
    request = produce(1, "watched", "free", acks=acks)
    talk.session.client_data(request)

    assert talk.broker.take() == request
    assert observed.taken == [("watched", 0, records(1))]
    assert talk.verdicts == []
    assert talk.session.waiting_bytes == 0


def test_an_observed_topic_next_to_an_accepted_topic_is_forwarded_at_once():
    talk, observed = observing(Inline(), "watched")
    request = produce(1, "judged", "watched")
    talk.session.client_data(request)

    assert talk.broker.take() == request
    assert observed.taken == [("watched", 0, records(1))]


def test_an_observed_topic_next_to_a_refused_topic_is_stored_and_judged_once():
    talk, observed = observing(Inline(records(1)), "watched")
    talk.session.client_data(produce(1, "judged", "watched"))
    assert observed.taken == [("watched", 0, records(1))]
    talk.decide(NO)

    assert talk.broker.take() == produce(1, "watched")
    assert observed.taken == [("watched", 0, records(1))]
    assert talk.refusals


def test_an_observed_topic_keeps_the_order_of_requests():
    talk, _ = observing(Inline(records(1)), "watched")
    talk.session.client_data(produce(1, "judged") + produce(2, "watched"))
    assert talk.broker.take() == b""
    talk.decide()
    assert talk.broker.take() == produce(1, "judged") + produce(2, "watched")


def test_an_observing_policy_that_needs_the_topic_id_gets_it():
    talk, observed = observing(None)
    plan = TopicPlan(topic="watched", validation_policy="v", mode="observe")
    talk.for_topic = lambda topic, own=None: plan
    talk.session.client_data(produce(1, "watched"))
    assert observed.taken == []
    talk.session.topics.put("watched", ID)
    talk.session.client_data(produce(2, "watched"))
    assert talk.broker.take()  # the question for the id
    assert observed.taken == [("watched", 0, records(2))]
