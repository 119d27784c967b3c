"""Stored records and responses when topics, gateways or state change: a broker as a model."""

import pytest

from penstock.gateway.produce.producer_state.arrivals import Arrival
from penstock.gateway.produce.producer_state.producer.batch import Batch, Stored
from penstock.gateway.produce.producer_state.producer.numbers import Range
from penstock.gateway.produce.producer_state.records.encoding import ProducerKey
from tests.gateway.model.broker_model import BrokerModel
from tests.gateway.produce.producer_state.numbering import KEY, Gateway

PRODUCER = KEY.producer_id
UNKNOWN_PRODUCER = 59
TIMED_OUT = 7


class Partition:
    """A broker's partition behind a gateway, or behind several that share their state."""

    def __init__(self, *gateways, can_request=True):
        self.broker = BrokerModel()
        self.gateways = gateways
        self.can_request = can_request
        self.acknowledged = set()

    def store(self, first, count):
        """Store a batch of a producer that no gateway has seen."""
        self.broker.append(PRODUCER, 0, first, [first + i for i in range(count)])
        self.broker.replicate(1)

    def produce(self, first, dropped=(), *, count=1, through=0):
        """Send a batch through a gateway, as its handlers do; return the response."""
        code = self._produce(self.gateways[through], first, dropped, count)
        if not code:
            self.acknowledged |= {first + i for i in range(count)} - {first + i for i in dropped}
        return code

    def _produce(self, gateway, first, dropped, count):
        numbers = Range(first, count)
        for other in self.gateways:
            if other is not gateway:
                gateway.reads(other)
        if gateway.needs_last_sequence(first, count, dropped):
            if self.can_request:
                if not gateway.learn_last_sequence(
                    first, count, self.broker.last_sequence(PRODUCER, 0), dropped,
                    leader=self.broker.as_leader(),
                ):  # fmt: skip
                    return TIMED_OUT
            elif not gateway.producers.queries.without_last_sequence(
                KEY, Arrival(*KEY[:3]), 0, numbers, dropped
            ):
                return UNKNOWN_PRODUCER
        batch = gateway.decide(first, count, dropped)
        if isinstance(batch, int):
            return batch
        if batch.is_done:
            return gateway.acknowledge(batch)
        if code := gateway.send(batch):
            return code
        left_out = () if batch is gateway.whole else dropped
        records = [first + i for i in range(count) if i not in left_out]
        done = self.broker.append(PRODUCER, 0, batch.broker_first, records)
        self.broker.replicate(1)
        return gateway.answered(batch, done.code)

    @property
    def lost(self):
        return self.acknowledged - set(self.broker.log)


@pytest.fixture(params=[False, True], ids=["one gateway", "cluster"])
def is_shared(request):
    return request.param


class TestSwitchedOn:
    """A topic gets an interceptor while responses to its producers are lost."""

    @pytest.fixture
    def partition(self, is_shared):
        partition = Partition(Gateway(is_shared=is_shared))
        for first in (0, 2, 4, 6):
            partition.store(first, 2)
        return partition

    @pytest.mark.parametrize("dropped", [(), (0,), (0, 1)])
    def test_stored_batches_are_not_sent_into_a_gap(self, partition, dropped):
        assert partition.produce(4, count=2) == 0
        assert partition.produce(6, dropped, count=2) == 0
        assert [partition.produce(n, count=2) for n in (8, 10, 12)] == [0, 0, 0]
        assert partition.lost == set()

    def test_no_batch_is_dropped_as_a_whole_if_the_last_sequence_cannot_be_requested(
        self, partition
    ):
        partition.can_request = False
        responses = [partition.produce(4, (0, 1), count=2), partition.produce(6, count=2)]
        assert responses[0] == UNKNOWN_PRODUCER
        assert partition.lost == set()

    def test_six_stored_batches_show_that_no_later_batch_is_stored(self, partition):
        partition.can_request = False
        assert [partition.produce(n) for n in range(8, 14)] == [0] * 6
        assert partition.produce(14, (0,)) == 0
        assert partition.produce(15) == 0
        assert partition.lost == set()


class TestTopicDeleted:
    """A topic is deleted and created again, and its producers continue in their epochs."""

    def test_producers_continue_through_a_gateway_that_starts_again(self):
        gateway = Gateway()
        partition = Partition(gateway)
        for n in range(5):
            partition.produce(n, (0,) if n in {1, 2} else ())
        partition.broker, partition.acknowledged = BrokerModel(), set()
        for n in range(5, 12):
            partition.produce(n)
        restarted = Gateway()
        restarted.producers.restore(*gateway.records[-1], 0.0)
        partition.gateways = (restarted,)
        for n in range(12, 15):
            partition.produce(n)
        assert partition.lost == set()

    def test_producers_continue_through_gateways_with_shared_state(self):
        partition = Partition(Gateway(is_shared=True), Gateway(is_shared=True))
        for n in range(5):
            partition.produce(n, (0,) if n in {1, 2} else ())
        partition.produce(5, through=1)
        partition.broker, partition.acknowledged = BrokerModel(), set()
        for n in range(6, 12):
            partition.produce(n)
        for n in range(12, 15):
            partition.produce(n, through=1)
        assert partition.lost == set()


def other_producers(gateway, count):
    """Store a batch of each of several other producers."""
    for producer in range(1_000, 1_000 + count):
        key = ProducerKey("t", 0, producer)
        batch = gateway.producers.decide(
            key, Arrival(*key[:3]), 0, Range(0, 1), (), b"x", connection=9, callback=lambda _: None
        ).batch
        gateway.producers.send(key, 0, batch)
        gateway.producers.on_response(key, 0, batch, 0, Stored(1))


class TestManyProducers:
    """More producers than are remembered."""

    def test_producers_that_lost_no_records_are_forgotten_first(self):
        gateway = Gateway(producers_max=10)
        gateway.now = 1.0
        partition = Partition(gateway)
        for n in range(4):
            partition.produce(n, (0,) if n == 1 else ())
        other_producers(gateway, 9)
        other_producers(gateway, 30)
        assert partition.produce(4) == 0
        assert partition.lost == set()

    def test_producers_whose_batch_has_to_be_retried_are_forgotten_last(self):
        """Otherwise batches that were sent after that batch would be stored before it."""
        gateway = Gateway(producers_max=10)
        partition = Partition(gateway)
        gateway.producers.defer(KEY, Arrival(*KEY[:3]), 0, Range(0, 1))
        other_producers(gateway, 30)
        assert partition.produce(1, (0,), count=2) == TIMED_OUT
        assert [partition.produce(n, count=n + 1) for n in (0, 1)] == [0, 0]

    def test_producers_whose_batch_may_have_to_be_retried_are_forgotten_last(self):
        gateway = Gateway(producers_max=10)
        sent = gateway.decide(0, 2, (0,))
        gateway.producers.send(KEY, 0, sent)
        other_producers(gateway, 30)
        assert gateway.producers.find(KEY, 0, Range(0, 2)) is sent

    def test_other_producers_are_read_again(self):
        kept = {}
        gateway = Gateway(producers_max=10, look_up=kept.get)
        gateway.now = 1.0
        gateway.producers._writer._keep = lambda key, record, done: (
            kept.update({key: (record, 1.0)}),
            done(None),
        )
        partition = Partition(gateway)
        for n in range(4):
            partition.produce(n, (0,) if n == 1 else ())
        for producer in range(1_000, 1_030):
            gateway.producers.decide(
                ProducerKey("t", 0, producer), Arrival("t", 0, producer), 0, Range(0, 2), (0,),
                b"x", connection=9, callback=lambda _: None,
            )  # fmt: skip
        assert KEY not in gateway.producers._in_use
        assert partition.produce(4) == 0
        assert partition.lost == set()


def test_a_batch_stored_before_a_restart_and_judged_differently_after_it():
    """Its lost records are no longer known, but that the broker has it is known."""
    gateway = Gateway()
    partition = Partition(gateway)
    partition.produce(0, (1, 2, 3), count=10)
    gateway.decide(10, 2, (0,))
    after = Gateway()
    after.producers.restore(*gateway.records[-1], 0.0)
    partition.gateways = (after,)
    assert partition.produce(0, (), count=10) == 0
    assert after.producers.find(KEY, 0, Range(10, 2)) is not None


@pytest.mark.parametrize(("kept", "dropped"), [((1,), (0, 1, 2)), ((1, 2), (0, 1)), ((1,), (0,))])
def test_a_batch_stored_before_the_state_was_lost_and_judged_differently_after_it(kept, dropped):
    """Later batches would get numbers that the broker has: it would take them for retries."""
    partition = Partition(Gateway())
    partition.broker.append(PRODUCER, 0, 0, kept)
    partition.broker.replicate(1)
    assert partition.produce(0, dropped, count=3) == UNKNOWN_PRODUCER
    assert partition.produce(3, (4,), count=2) == UNKNOWN_PRODUCER
    assert partition.broker.log == [*kept]


def test_a_batch_stored_before_the_state_was_lost_and_judged_as_before_after_it():
    partition = Partition(Gateway())
    partition.broker.append(PRODUCER, 0, 0, [1, 2])
    partition.broker.replicate(1)
    assert partition.produce(0, (0,), count=3) == 0
    assert partition.produce(3, (1,), count=2) == 0
    assert partition.lost == set()


@pytest.mark.parametrize("first_attempt", [Range(0, 1), Range(0, 5)])
def test_a_late_response_to_an_attempt_delays_no_batch(is_shared, first_attempt):
    """The client continued long ago, on another connection, and perhaps in smaller batches."""
    gateway = Gateway(is_shared=is_shared)
    partition = Partition(gateway)
    for n in range(12):
        assert partition.produce(n) == 0
    gateway.producers.defer(KEY, Arrival(*KEY[:3]), 0, first_attempt)
    assert [partition.produce(n) for n in range(12, 20)] == [0] * 8


def restarted(gateway, now):
    """Return a gateway that starts with the last record of another."""
    after = Gateway(is_shared=gateway.is_shared)
    after.producers.restore(*gateway.records[-1], gateway.now)
    after.now = now
    return after


def test_a_producer_that_only_lost_records_for_a_day_continues(is_shared):
    """Its last stored batch is not retried, although the broker has forgotten it by now."""
    gateway = Gateway(is_shared=is_shared)
    partition = Partition(gateway)
    assert partition.produce(0, (1,), count=2) == 0
    for hours in range(25):
        partition.gateways = (gateway := restarted(gateway, hours * 3600.0),)
        assert partition.produce(2 + hours, (0,)) == 0
    partition.broker.forget(PRODUCER)
    partition.gateways = (restarted(gateway, 25 * 3600.0),)
    assert partition.produce(27, (1,), count=2) == 0
    assert partition.lost == set()


def test_a_producer_continues_after_a_day_through_gateways_that_restart():
    """A record says how old it is, not how old its batches are."""
    first = Gateway(is_shared=True)
    partition = Partition(first)
    assert partition.produce(0, (1,), count=2) == 0
    partition.broker.forget(PRODUCER)
    second = restarted(first, 86_401.0)
    second.producers.interceptors_changed(lambda _: True)
    assert isinstance(second.decide(2, 2), Batch)
    third = restarted(second, 86_402.0)
    partition.gateways = (third,)
    assert partition.produce(2, (1,), count=2) == 0
    assert partition.lost == set()


def test_few_records_are_written_again_at_a_time():
    gateway = Gateway()
    gateway.now = 1.0
    for number in range(1_000):
        key, arrival = ProducerKey("t", 0, number), Arrival("t", 0, number)
        gateway.producers.decide(
            key, arrival, 0, Range(0, 2), (0,), b"x", connection=1, callback=lambda _: None
        )
    gateway.now += 43_300.0
    for number in range(1_000):
        key, arrival = ProducerKey("t", 0, number), Arrival("t", 0, number)
        gateway.producers.decide(
            key, arrival, 0, Range(2, 1), (), b"x", connection=1, callback=lambda _: None
        )
    gateway.records.clear()
    written = []
    for _ in range(6):
        gateway.producers.expire()
        written.append(len(gateway.records))
    assert written[0] <= 200
    assert written[-2:] == [1_000, 1_000]
