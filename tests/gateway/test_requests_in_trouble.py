"""Requests in trouble: damaged, abandoned, forbidden, refused as a whole, or before a read."""

import asyncio
import time
from uuid import UUID

from penstock.engine.plans.topic_plan import TopicPlan
from penstock.engine.verdict import refused, replaced
from penstock.gateway.produce.idempotence import Idempotence
from penstock.gateway.produce.producer_state.all_producers import Producers
from penstock.gateway.produce.producer_state.producer.batch import Stored
from penstock.kafka.cluster.compacted_topic import CompactedTopicError
from tests.gateway.produce.intercepted import (
    Intercepted,
    WithLastSequences,
    batch,
    codes,
    observe_from_now_on,
    pipelined,
    refused_response,
    request,
    two_partitions,
)
from tests.gateway.sessions.talk import produce_response
from tests.kafka.records.encoding import encode_batch, values
from tests.raw import parse_response, produce_request, produced, request_frame


class Shared:
    """The shared log; reads end as the test says."""

    topic = "__penstock_producer_state"

    def __init__(self, *outcomes):
        self.outcomes = list(outcomes)
        self.reads = 0

    async def read_to_end(self):
        self.reads += 1
        await asyncio.sleep(0)
        if self.outcomes and not self.outcomes.pop(0):
            raise CompactedTopicError("away")


class InCluster(WithLastSequences):
    def __init__(self, *outcomes):
        super().__init__()
        self.producers = Producers(now=time.time, keep=self._keep, is_shared=True)
        self.shared_producers = Shared(*outcomes)

    def _keep(self, key, record, done):
        self.producers.restore(key, record, time.time())
        done(None)

    def run(self, coroutine):
        return asyncio.ensure_future(coroutine)


async def settle():
    for _ in range(10):
        await asyncio.sleep(0)


async def test_a_batch_does_not_overtake_a_batch_before_whose_decision_the_log_was_not_read():
    """Request 1 gets 7 (the log was unreadable); request 2, a moment later, must not be stored."""
    talk = InCluster(False, True)
    talk.session.client_data(request(1, batch(b"a")) + request(2, batch(b"b", first=1)))
    await settle()
    while talk.verdicts:
        talk.decide()
    await settle()
    if talk.broker.data:
        talk.respond_with_last_sequence()  # the broker knows nothing of the producer
        await settle()
    assert batch(b"b", first=1) not in talk.broker.data


async def test_topics_without_interceptors_do_not_wait_for_the_log_with_topic_ids():
    topic_id = UUID(int=77)
    talk = InCluster(True, True, True, True)
    talk.judged = frozenset({"other"})  # interceptors are for another topic
    talk.session.topics.put("free", topic_id)
    for n in (1, 2, 3):
        frame = request_frame(
            produce_request([(topic_id, [(0, batch(b"a", first=n - 1))])], version=13), n
        )
        talk.session.client_data(frame)
        await settle()
    assert talk.shared_producers.reads == 0


async def test_topics_without_interceptors_continue_while_the_log_is_unavailable():
    topic_id = UUID(int=77)
    talk = InCluster(False)
    talk.judged = frozenset({"other"})
    talk.session.topics.put("free", topic_id)
    frame = request_frame(produce_request([(topic_id, [(0, batch(b"a"))])], version=13), 1)
    talk.session.client_data(frame)
    await settle()
    assert talk.broker.data == frame


def test_sequence_numbers_of_a_damaged_header_are_not_used():
    """The base sequence of a batch was damaged in transit: 65 became 1. The retry is correct."""
    talk = pipelined(None, first=64)
    talk.session.upstream_data(produce_response(65, "judged"))
    codes(talk)
    talk.broker.take()
    data = bytearray(batch(b"v", first=65))
    data[56] ^= 0x40
    talk.session.client_data(request(2, bytes(data)))
    talk.decide(refused(2, "corrupt", ""))
    assert codes(talk) == [2]
    reported = []
    for n in range(3, 8):
        talk.session.client_data(request(n, batch(b"v", first=65)))
        while talk.verdicts:
            talk.decide()
        if talk.broker.take():
            talk.session.upstream_data(produce_response(n, "judged"))
        reported += codes(talk)
    assert reported[-1] == 0, reported


def test_a_batch_with_a_damaged_header_is_not_a_known_batch():
    """3 became 1, and 1 is stored: the client would get a success for an unstored batch."""
    talk = pipelined(*[None] * 3)
    for n in (1, 2, 3):
        talk.session.upstream_data(produce_response(n, "judged"))
    codes(talk)
    talk.broker.take()
    data = bytearray(batch(b"new", first=3))
    data[56] ^= 0x02
    talk.session.client_data(request(4, bytes(data)))
    while talk.verdicts:
        talk.decide(refused(2, "corrupt", ""))
    assert codes(talk) == [2]


def test_a_damaged_epoch_does_not_fence_the_producer():
    talk = pipelined(None)
    talk.session.upstream_data(produce_response(1, "judged"))
    codes(talk)
    talk.broker.take()
    data = bytearray(batch(b"v", first=1))
    data[51] ^= 0x01  # epoch 0 -> 256
    talk.session.client_data(request(2, bytes(data)))
    talk.decide(refused(2, "corrupt", ""))
    codes(talk)
    talk.session.client_data(request(3, batch(b"v", first=1)))
    while talk.verdicts:
        talk.decide()
    if talk.broker.data:
        talk.session.upstream_data(produce_response(3, "judged"))
    assert codes(talk) == [0]


def test_a_client_without_write_rights_does_not_fence_the_producer_of_another_client():
    talk = pipelined(None)
    talk.session.upstream_data(produce_response(1, "judged"))
    codes(talk)
    other = Intercepted(talk.producers)
    other.session.client_data(request(1, batch(b"x", epoch=30_000)))
    other.decide()
    other.session.upstream_data(refused_response(1, 29))
    assert codes(other) == [29]
    talk.session.client_data(request(2, batch(b"v", first=1)))
    while talk.verdicts:
        talk.decide()
    talk.broker.take()
    if not talk.client.data:
        talk.session.upstream_data(produce_response(2, "judged"))
    assert codes(talk) == [0]


class Mixed(Intercepted):
    """A topic has an interceptor, the other topic only a validator."""

    def intercepts(self, topic):
        return topic == "judged"

    def for_topic(self, topic, own=None):
        if topic == "judged":
            return TopicPlan(topic=topic, interceptors=("i",))
        return TopicPlan(topic=topic, validators=("v",))


def test_scope_request_refuses_topics_without_interceptors_too():
    talk = Mixed()
    talk.policies = talk.policies._replace(whole_request=True)
    pipelined(None, None, talk=talk)
    talk.session.upstream_data(produce_response(1, "judged") + refused_response(2, 6))
    codes(talk)
    talk.broker.take()
    frame = request_frame(
        produce_request([("judged", [(0, batch(b"c", first=2))]), ("free", [(0, batch(b"d"))])]), 3
    )
    talk.session.client_data(frame)
    while talk.verdicts:
        talk.decide()
    assert talk.broker.take() == b"", "one partition is to be retried, the other is stored"


def test_scope_request_sends_no_batch_if_a_decision_is_not_stored():
    talk = Intercepted()
    late = []
    talk.producers = Producers(now=time.time, keep=lambda k, r, d: late.append(d))
    talk.policies = talk.policies._replace(whole_request=True)
    talk.session.client_data(two_partitions(1, batch(b"a", b"b"), batch(b"c")))
    talk.decide(replaced(batch(b"a"), [1]))
    talk.decide()
    late[0]("not written")
    assert talk.broker.take() == b"", "partition 0 gets error 7, partition 1 is stored"


def test_scope_request_returns_no_error_for_stored_batches():
    talk = Intercepted()
    talk.policies = talk.policies._replace(whole_request=True)
    talk.session.client_data(two_partitions(1, batch(b"a"), batch(b"b")))
    talk.decide()
    talk.decide()
    producers = talk.producers
    for key, producer in producers._in_use.items():
        for stored in producer.batches:
            producers.on_response(key, 0, stored, 0, Stored(1))
    again = Intercepted(producers)
    again.policies = again.policies._replace(whole_request=True)
    again.session.client_data(two_partitions(1, batch(b"a"), batch(b"new", first=1)))
    while again.verdicts:
        again.decide(refused(87, "no", "v"))
    answers = produced(parse_response(again.client.take(), 0, 9))
    assert {i: a.error_code for (_, i), a in answers.items()} == {0: 0, 1: 87}


def test_strip_does_not_repair_the_checksum_of_a_damaged_batch():
    talk = Intercepted()
    talk.session.client_data(request(1, batch(b"a", b"b")))
    talk.decide(replaced(batch(b"a"), [1]))  # translate: the topic is remembered
    later = Intercepted(talk.producers)
    later.judged = frozenset()  # SIGHUP: no interceptors, strip
    later.policies = later.policies._replace(idempotence=Idempotence.STRIP)
    data = bytearray(batch(b"c", first=2))
    data[-2] ^= 1
    frame = request(1, bytes(data))
    later.session.client_data(frame)
    assert later.broker.take() == frame, "its checksum is not corrected"


def test_acks_0_delayed_batches_are_not_stored():
    talk = pipelined(None, None)
    talk.session.upstream_data(produce_response(1, "judged") + refused_response(2, 6))
    codes(talk)
    talk.broker.take()
    # number 1 waits for its retry; number 2 was decided before that, and is held at its turn
    again = Intercepted(talk.producers)
    frame = request_frame(produce_request([("judged", [(0, batch(b"v", first=2))])], acks=0), 1)
    again.session.client_data(frame)
    while again.verdicts:
        again.decide()
    assert b"judged" not in again.broker.data
    states = [b.state.name for _, p in talk.producers._in_use.items() for b in p.batches]
    assert "STORED" not in states[1:], states


def test_an_abandoned_request_registers_no_batches_again():
    topic_id = UUID(int=5)
    talk = Intercepted()
    bad = request_frame(produce_request([("judged", [(0, encode_batch(values(b"x")))])], acks=0), 1)
    frame = request_frame(produce_request([(topic_id, [(0, batch(b"a"))])], version=13), 2)
    talk.session.client_data(bad + frame)
    talk.broker.take()
    question = talk.session._expected[0]
    talk.decide(refused(87, "no", "v"))  # acks=0: breaks off, what is pending is abandoned
    assert not talk.producers.arrivals
    lookup = question.on_response.__self__
    talk.session.topics.put("judged", topic_id)
    lookup._on_topics_resolved()  # what `_on_topics` does with the broker's response
    assert not talk.producers.arrivals, "permanently: later batches get error 7"


def test_an_error_of_the_gateway_in_a_verdict_closes_the_connection():
    talk = Intercepted()
    talk.session.client_data(request(1, batch(b"a")))
    talk.producers.decide = None  # any error of the gateway
    talk.decide()
    assert talk.done, "its client waits until its own timeout"


class Settings:
    """Settings of topics, whose first read fails."""

    topic = "__settings"
    are_stored = True

    def __init__(self, *outcomes):
        self.outcomes = list(outcomes)

    def changed_at(self, name):
        return 0.0

    def unknown(self, ids):
        return list(ids)

    async def read_to_end(self):
        await asyncio.sleep(0)
        if not self.outcomes.pop(0):
            raise CompactedTopicError("away")

    def see(self, ids):
        pass

    def of(self, name, topic_id):
        return {}


async def test_a_batch_does_not_overtake_a_batch_whose_topic_settings_were_not_read():
    talk = InCluster()
    talk.shared_producers = None
    talk.producers = Producers(now=time.time)
    talk.topic_configs = Settings(False, True)
    talk.session.topics.put("judged", UUID(int=3))
    talk.session.client_data(request(1, batch(b"a")) + request(2, batch(b"b", first=1)))
    await settle()
    while talk.verdicts:
        talk.decide()
    assert batch(b"b", first=1) not in talk.broker.data


async def test_topics_that_are_only_observed_do_not_wait_for_the_log():
    talk = InCluster(True, False, False)
    observe_from_now_on(talk)
    for n in (1, 2, 3):
        talk.session.client_data(request(n, batch(b"a", first=n - 1)))
        await settle()
        assert batch(b"a", first=n - 1) in talk.broker.take()
        talk.session.upstream_data(produce_response(n, "judged"))
        assert codes(talk) == [0]
    assert talk.shared_producers.reads == 0


async def test_a_batch_that_may_only_be_observed_waits_for_its_topic_settings_and_the_log():
    """The file sets observe; the topic's own settings, which are not read yet, may differ."""
    talk = InCluster(True)
    observe_from_now_on(talk)
    talk.topic_configs = Settings(True)
    talk.session.topics.put("judged", UUID(int=3))
    talk.session.client_data(request(1, batch(b"a")))
    await settle()
    assert talk.shared_producers.reads == 1
