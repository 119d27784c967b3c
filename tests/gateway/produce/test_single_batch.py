"""A request with a single batch takes few steps, to the same end as any other request."""

import asyncio
import random

import pytest

from penstock.engine.verdict import ACCEPTED, Outcome, PolicyVerdict, postponed, refused, replaced
from penstock.gateway.observing.metrics.counts import GatewayCounts
from penstock.gateway.produce.lookups.max_message_bytes import MaxMessageBytes
from penstock.gateway.produce.single_batch import SingleBatch
from penstock.gateway.sessions import routes
from penstock.kafka.wire.errors import REQUEST_TIMED_OUT
from penstock.policy import RetriableException
from tests.gateway.produce.inline import ID, Inline, Stored, talk_with
from tests.gateway.produce.intercepted import Intercepted, batch, codes, request
from tests.gateway.produce.planned import with_plan
from tests.gateway.sessions.talk import NO, Talk, answer, other, produce, produce_response
from tests.raw import parse_response, produce_request, produced, request_frame

LATER = postponed("v", RetriableException("not now"))
CHANGED = batch(b"w")


def waiting(talk):
    """The requests that are not sent yet."""
    return talk.session._pending.exchanges


def is_single(talk):
    [exchange] = waiting(talk)
    return isinstance(exchange, SingleBatch)


def counted(talk):
    return talk.counts.records_by_topic()


@pytest.mark.parametrize("acks", [0, 1, -1])
def test_an_accepted_batch_is_sent_as_it_is(acks):
    talk = Talk()
    sent = produce(1, "judged", acks=acks)
    talk.session.client_data(sent)
    assert is_single(talk)
    assert talk.session.waiting_bytes > len(sent)
    assert talk.broker.take() == b""

    talk.decide()

    assert talk.broker.take() == sent
    if acks:
        talk.session.upstream_data(produce_response(1, "judged"))
        assert talk.client.take() == produce_response(1, "judged")
    assert talk.session.held_bytes == 0


def test_the_topic_id_is_given_to_the_policies():
    talk = Talk()
    talk.topic_configs = Stored()
    talk.session.topics.put("judged", ID)
    given = []
    talk.policies = talk.policies._replace(submit=lambda batch, done: given.append(batch))
    talk.session.client_data(produce(1, "judged"))
    talk.session.client_data(
        request_frame(produce_request([(ID, [(0, b"records")])], version=13), 2)
    )
    assert [type(exchange) for exchange in waiting(talk)] == [SingleBatch, SingleBatch]
    assert [(of.plan.topic, of.topic_id, of.partition) for of in given] == [("judged", ID, 0)] * 2


def whole_request(talk):
    talk.topic_configs = Stored()
    talk.session.topics.put("judged", ID)
    talk.policies = talk.policies._replace(whole_request=True)
    return talk


@pytest.mark.parametrize(
    "talk",
    [
        Intercepted(),
        with_plan(Talk(), validation_policy="v", validators=()),  # it needs the topic's id
        with_plan(Talk(), interceptors=("i",)),
        with_plan(Talk(), validators=("v", "w"), policy_modes={"w": "observe"}),
        with_plan(Talk(), unusable="it is wrong"),
        whole_request(Talk()),
        talk_with(None, topic_configs=Stored()),  # the topic's id is not known
    ],
)
def test_a_batch_that_needs_more_takes_all_steps(talk):
    talk.session.client_data(produce(1, "judged"))
    assert not any(isinstance(exchange, SingleBatch) for exchange in waiting(talk))


@pytest.mark.parametrize(
    "partitions",
    [
        [("judged", [(0, b"x")]), ("free", [(0, b"x")])],
        [("free", [(0, b"x")]), ("judged", [(0, b"x")])],
        [("judged", [(0, b"x"), (1, b"x")])],
        [("judged", [(-1, b"x")])],
    ],
)
def test_other_requests_take_all_steps(partitions):
    talk = Talk()
    talk.session.client_data(request_frame(produce_request(partitions), 1))
    assert not any(isinstance(exchange, SingleBatch) for exchange in waiting(talk))


def test_a_batch_behind_batches_that_are_still_to_be_submitted_takes_all_steps():
    async def run():
        talk = Talk()
        talk.session.submitting = asyncio.get_running_loop().create_future()
        talk.run = asyncio.get_running_loop().create_task
        talk.session.client_data(produce(1, "judged"))
        await asyncio.sleep(0)
        assert talk.verdicts == []
        talk.session.submitting.set_result(None)

    asyncio.run(run())


def test_a_refused_batch_gets_its_response_and_is_reported():
    talk = Talk(peer="User:CN=client")
    talk.session.client_data(request_frame(produce_request([("judged", [(3, b"x")])]), 1, "c"))
    assert is_single(talk)
    talk.decide(NO)
    assert talk.broker.take() == b""
    [response] = produced(parse_response(talk.client.take(), 0, 9)).items()
    assert (response[0], response[1].error_code) == (("judged", 3), 44)
    [refusal] = talk.refusals
    assert (refusal.topic, refusal.partition, refusal.verdict) == ("judged", 3, NO)
    assert (refusal.client_id, refusal.principal) == ("c", "User:CN=client")


def test_a_refusal_with_acks_0_closes_the_connection():
    talk = Talk()
    talk.session.client_data(produce(1, "judged", acks=0))
    talk.decide(NO)
    barrier = talk.broker.take()
    talk.session.upstream_data(answer(int.from_bytes(barrier[8:12], "big")))
    assert talk.done


def test_a_batch_behind_a_batch_that_is_to_be_retried_is_to_be_retried():
    talk = Talk()
    talk.session._supports_describe_producers = False
    first, second = request(1, batch(b"a", first=0)), request(2, batch(b"b", first=1))
    talk.session.client_data(first + second)
    talk.decide(which=1)
    talk.decide(LATER)
    assert codes(talk) == [REQUEST_TIMED_OUT, REQUEST_TIMED_OUT]
    assert talk.broker.take() == b""
    talk.session.client_data(request(3, batch(b"a", first=0)) + request(4, batch(b"b", first=1)))
    talk.decide()
    talk.decide()
    assert talk.broker.take() == request(3, batch(b"a", first=0)) + request(4, batch(b"b", first=1))
    assert not talk.missing_batches


def test_records_are_counted_once_also_of_a_batch_that_then_takes_all_steps():
    talk = Talk()
    talk.counts = talk.session._counts = GatewayCounts(records_max=1_000)
    talk.session._answered = talk.counts.answered
    talk.session._supports_describe_producers = False
    talk.session.client_data(request(1, batch(b"a", b"b")))
    talk.decide()
    assert counted(talk) == {"judged": {"accepted": 2}}
    talk.session.client_data(request(2, batch(b"c", first=2)) + request(3, batch(b"d", first=3)))
    talk.decide(which=1)
    talk.decide(refused(7, "later", "v"))
    assert counted(talk) == {"judged": {"accepted": 3, "refused": 1}}


def test_the_policies_that_a_request_came_to_judge_it_to_its_end():
    talk = Talk()
    before = talk.policies
    talk.session.client_data(produce(1, "judged"))
    talk.policies = before._replace(cancel=lambda _: None)
    [exchange] = waiting(talk)
    assert exchange.policies is before
    talk.decide(NO)
    assert exchange.policies is before


@pytest.mark.parametrize("verdict", [ACCEPTED, NO])
def test_a_verdict_about_a_request_of_a_closed_connection_is_ignored(verdict):
    talk = Talk()
    talk.session.client_data(produce(1, "judged"))
    talk.session.closed()
    talk.decide(verdict)
    assert (talk.broker.take(), talk.client.take(), talk.refusals) == (b"", b"", [])


@pytest.mark.parametrize("verdict", [ACCEPTED, NO])
def test_an_error_of_the_gateway_closes_the_connection(verdict, monkeypatch):
    talk = Talk()

    def fail(*_):
        raise RuntimeError("an error")

    talk.session.client_data(produce(1, "judged"))
    monkeypatch.setattr(talk.session, "advance", fail)
    talk.decide(verdict)
    assert talk.done


def made_verdicts():
    changed = replaced(CHANGED, [])
    accepted = PolicyVerdict(outcome=Outcome.ACCEPTED)  # equal, but not the same object
    return [ACCEPTED, ACCEPTED, NO, LATER, changed, accepted]


def history(seed, monkeypatch, *, single):
    """Everything that both sides get in a random connection life."""
    if not single:
        monkeypatch.setattr(routes, "single_batch", lambda *_: None)
    numbers = random.Random(seed)
    talk = talk_with(Inline() if numbers.random() < 0.1 else None)
    talk.counts = talk.session._counts = GatewayCounts(records_max=1_000)
    talk.session._answered = talk.counts.answered
    talk.session._supports_describe_producers = False
    talk.max_message_bytes = MaxMessageBytes()
    talk.max_message_bytes.put("judged", 10_000)
    verdicts = made_verdicts()
    number, sequence, to_answer, got = 0, 0, [], []

    def talk_to_broker():
        sent = talk.broker.take()
        got.append(("broker", sent))
        while sent:
            end = 4 + int.from_bytes(sent[:4], "big")
            key, of = int.from_bytes(sent[4:6], "big"), int.from_bytes(sent[8:12], "big")
            to_answer.append(answer(of) if key else produce_response(of, "judged"))
            sent = sent[end:]

    for _ in range(numbers.randrange(3, 25)):
        step = numbers.random()
        if step < 0.5:
            number += 1
            kind = numbers.random()
            if kind < 0.7:
                repeats = numbers.random() < 0.4
                frame = request(number, batch(b"v", first=max(0, sequence - repeats)))
                sequence += not repeats
            else:
                frame = other(number) if kind < 0.85 else produce(number, "judged", "free")
            talk.session.client_data(frame)
        elif step < 0.85 and talk.verdicts:
            talk.decide(numbers.choice(verdicts), which=numbers.randrange(len(talk.verdicts)))
        elif to_answer:
            talk.session.upstream_data(to_answer.pop(0))
        talk_to_broker()
        got.append(("client", talk.client.take()))
        got.append((talk.session.held_bytes, talk.session.waiting_bytes, len(waiting(talk))))
    got.append((counted(talk), len(talk.refusals), len(talk.missing_batches), talk.done))
    talk.session.closed()
    return got


@pytest.mark.parametrize("seed", range(300))
def test_it_comes_to_the_same_end_as_with_all_steps(seed, monkeypatch):
    fast = history(seed, monkeypatch, single=True)
    assert fast == history(seed, monkeypatch, single=False)


class KnownTopics:
    """Receives the topics that native threads may know."""

    def __init__(self):
        self.known = []

    def passed(self, topics, judged_topics, names):
        self.known += [topic.name for topic in topics]

    def accepts(self, plan, version, data):
        return False


@pytest.mark.parametrize("topics", [["judged"], ["judged", "other"]])
@pytest.mark.parametrize(("size", "is_known"), [(100, False), (100_000, True)])
def test_the_topics_of_large_batches_are_known_when_workers_have_accepted_them(
    topics, size, is_known
):
    data = bytes(size)
    talk = talk_with(Inline(data), request_max_bytes=1_000_000)
    talk.__post_init__()
    talk.policies = talk.policies._replace(inline=Inline(data))
    talk.lane = KnownTopics()
    talk.session.client_data(
        request_frame(produce_request([(topic, [(0, data)]) for topic in topics]), 1)
    )
    talk.decide(NO if len(topics) == 1 else ACCEPTED)
    if len(topics) == 1:
        assert talk.lane.known == []  # a batch that is refused says nothing about the next one
        talk.session.client_data(request_frame(produce_request([("judged", [(0, data)])]), 2))
    talk.decide()
    assert talk.lane.known == (topics if is_known else [])
