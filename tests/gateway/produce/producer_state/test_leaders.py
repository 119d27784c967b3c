"""Whether a batch that a partition leader does not have is stored on no replica."""

import pytest

from penstock.gateway.produce.producer_state.all_producers import Producers
from penstock.gateway.produce.producer_state.leaders import (
    SETTLED_AFTER_S,
    Leaders,
    leaders_of,
)
from penstock.gateway.produce.producer_state.producer.batch import Stored
from penstock.gateway.produce.producer_state.producer.numbers import Range
from penstock.gateway.produce.producer_state.producer.stored_at_leader import REPLICATED_AFTER_S
from penstock.kafka.wire.errors import NOT_LEADER_OR_FOLLOWER, REQUEST_TIMED_OUT
from penstock.kafka.wire.requests.leaders import Leader
from tests.gateway.listed_topics import ListedTopics
from tests.gateway.model.broker_model import BrokerModel
from tests.gateway.produce.producer_state.shared_topic import ARRIVAL, KEY, Topic

NEW, SETTLED = Leader(5, has_committed=False), Leader(5, has_committed=True)


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


def test_a_leader_is_trusted_once_its_replicas_have_a_record_of_its_epoch():
    assert Leaders(Clock()).are_final("t", 0, SETTLED)


def test_a_leader_without_commits_is_trusted_once_others_have_fetched_or_are_out_of_sync():
    clock = Clock()
    leaders = Leaders(clock)
    assert not leaders.are_final("t", 0, NEW)
    clock.now += SETTLED_AFTER_S - 1
    assert not leaders.are_final("t", 0, NEW)
    clock.now += 1
    assert leaders.are_final("t", 0, NEW)
    assert not leaders.are_final("t", 1, NEW), "another partition"


def test_a_leader_that_was_first_seen_long_ago_is_trusted_at_once():
    clock = Clock()
    leaders = Leaders(clock)
    leaders.see("t", 0, NEW.epoch)
    clock.now += SETTLED_AFTER_S - 1
    leaders.see("t", 0, NEW.epoch)
    assert not leaders.are_final("t", 0, NEW)
    clock.now += 1
    assert leaders.are_final("t", 0, NEW)


def test_the_leaders_seen_first_are_forgotten_first(monkeypatch):
    monkeypatch.setattr("penstock.gateway.produce.producer_state.leaders.PARTITIONS_MAX", 2)
    clock = Clock()
    leaders = Leaders(clock)
    for partition in range(3):
        leaders.see("t", partition, NEW.epoch)
    clock.now += SETTLED_AFTER_S
    assert [leaders.are_final("t", partition, NEW) for partition in (2, 1, 0)] == [
        True,
        True,
        False,
    ]


def test_the_time_begins_again_with_the_next_leader():
    clock = Clock()
    leaders = Leaders(clock)
    leaders.are_final("t", 0, NEW)
    clock.now += SETTLED_AFTER_S
    assert not leaders.are_final("t", 0, Leader(6, has_committed=False))


def test_a_late_response_of_a_former_leader_does_not_begin_the_time_again():
    clock = Clock()
    leaders = Leaders(clock)
    leaders.are_final("t", 0, NEW)
    clock.now += SETTLED_AFTER_S
    leaders.see("t", 0, NEW.epoch - 1)
    assert leaders.are_final("t", 0, NEW)


def test_the_time_begins_again_with_a_topic_that_is_created_again():
    clock = Clock()
    leaders = Leaders(clock)
    leaders.are_final("t", 0, NEW)
    clock.now += SETTLED_AFTER_S
    assert not leaders.are_final("t", 0, Leader(NEW.epoch - 1, has_committed=False))


class TestBeforeABatchLosesRecords:
    """Another gateway may have sent it as a whole, before interceptors changed."""

    def gateway(self, *, changed=True):
        gateway = Topic().gateway()
        gateway.store(0, 10, (0,))
        if changed:
            gateway.producers.interceptors_changed(lambda name: name == "t")
        return gateway

    def can_decide(self, gateway, *, dropped=(0,), last=8, leader=NEW, first=10):
        return gateway.producers.queries.on_last_sequence(
            KEY, ARRIVAL, 0, Range(first, 3), last, dropped, connection=2, leader=leader
        )

    def test_a_batch_waits_until_no_former_leader_can_have_it(self):
        gateway = self.gateway()
        assert not self.can_decide(gateway)
        assert self.can_decide(gateway, leader=SETTLED)
        assert gateway.decide(10, 3, (0,)).broker_first == 9

    def test_a_batch_waits_no_longer_than_replicas_may_lag(self):
        gateway = self.gateway()
        assert not self.can_decide(gateway)
        gateway.now += SETTLED_AFTER_S
        assert self.can_decide(gateway)

    def test_a_batch_does_not_wait_for_a_leader_that_led_at_the_change(self):
        gateway = self.gateway()
        gateway.producers.queries.see_leaders({(KEY.topic, KEY.partition): NEW.epoch})
        gateway.now += SETTLED_AFTER_S
        assert self.can_decide(gateway)

    def test_a_batch_waits_if_the_leader_does_not_know_its_producer(self):
        assert not self.can_decide(self.gateway(), last=None)

    def test_a_batch_that_stays_whole_does_not_wait(self):
        assert self.can_decide(self.gateway(), dropped=())

    def test_a_batch_that_the_leader_has_does_not_wait(self):
        assert self.can_decide(self.gateway(), last=11)

    def test_a_batch_that_was_decided_here_does_not_wait(self):
        gateway = self.gateway()
        gateway.decide(10, 3, (0,))
        assert self.can_decide(gateway)

    def test_a_batch_waits_without_shared_state_too(self):
        """The same gateway may have sent it as a whole, without storing a record of it."""
        now = [100.0]
        producers = Producers(now=lambda: now[0])
        producers.interceptors_changed(lambda name: name == "t")

        def can_decide():
            return producers.queries.on_last_sequence(
                KEY, ARRIVAL, 0, Range(10, 3), 9, (0,), connection=2, leader=NEW
            )

        assert not can_decide()
        now[0] += SETTLED_AFTER_S
        assert can_decide()

    def test_a_batch_does_not_wait_without_a_change(self):
        assert self.can_decide(self.gateway(changed=False))

    def test_a_waiting_batch_changes_no_state(self):
        """Later batches wait for it, and it is decided as if for the first time."""
        gateway = self.gateway()
        assert not self.can_decide(gateway, first=10)
        gateway.defer(10, 3)
        assert gateway.decide(13, 1) == 7
        assert self.can_decide(gateway, leader=SETTLED)
        assert gateway.decide(10, 3, (0,)).broker_first == 9


class TestALeaderThatReturns:
    """A gateway sent a batch as a whole; its leader was replaced before replicas had it."""

    @pytest.fixture
    def broker(self):
        broker = BrokerModel()
        broker.append(7, 0, 0, [*range(1, 10)])
        broker.replicate(1)
        return broker

    @pytest.fixture
    def other(self, broker):
        """Another gateway, whose interceptors have changed since."""
        topic = Topic()
        sender, other = topic.gateway(), topic.gateway()
        sender.store(0, 10, (0,))
        batch = sender.decide(10, 3)
        sender.producers.send(KEY, 0, batch)
        broker.append(7, 0, batch.broker_first, [10, 11, 12])
        broker.move(returns=True)
        sender.producers.on_response(KEY, 0, batch, NOT_LEADER_OR_FOLLOWER, Stored())
        other.producers.interceptors_changed(lambda _: True)
        return other.read()

    def can_decide(self, other, broker):
        return other.producers.queries.on_last_sequence(
            KEY, ARRIVAL, 0, Range(10, 3), broker.last_sequence(7, 0), (0,),
            connection=2, leader=broker.as_leader(),
        )  # fmt: skip

    def test_a_batch_that_a_former_leader_still_has_stays_whole(self, other, broker):
        assert not self.can_decide(other, broker)
        broker.move(returns=True)
        assert self.can_decide(other, broker)
        again = other.decide(10, 3, (0,))
        assert (again.broker_first, again.dropped_count) == (9, 0)
        assert broker.append(7, 0, 9, [10, 11, 12]).code != 45
        broker.replicate(2)
        assert broker.log == [*range(1, 13)]

    def test_a_batch_that_is_lost_with_its_leader_is_decided_again(self, other, broker):
        assert not self.can_decide(other, broker)
        broker.append(8, 0, 0, [99])  # of another producer
        broker.replicate(1)
        assert self.can_decide(other, broker)
        assert other.decide(10, 3, (0,)).dropped_count == 1
        broker.move(returns=True)
        assert broker.append(7, 0, 9, [11, 12]).code is None

    @pytest.fixture
    def changed(self, broker):
        """A gateway that sent a batch which interceptors changed, and did not store its bytes."""
        gateway = Topic().gateway()
        gateway.store(0, 10, (0,))
        batch = gateway.decide(10, 3)
        batch.is_changed = True
        gateway.producers.send(KEY, 0, batch)
        broker.append(7, 0, batch.broker_first, [10, 11, 12])
        broker.move(returns=True)
        gateway.producers.on_response(KEY, 0, batch, NOT_LEADER_OR_FOLLOWER, Stored())
        batch.data = None
        gateway.producers.interceptors_changed(lambda _: True)
        return gateway

    def test_a_changed_batch_that_a_former_leader_still_has_stays_changed(self, changed, broker):
        assert not self.can_decide(changed, broker)
        broker.move(returns=True)
        assert self.can_decide(changed, broker)
        assert changed.decide(10, 3, (0,)) == REQUEST_TIMED_OUT, (
            "the leader may still lose the batch"
        )
        changed.now += REPLICATED_AFTER_S
        assert self.can_decide(changed, broker)
        stored = changed.decide(10, 3, (0,))
        assert (stored.dropped_count, changed.producers.acknowledge(KEY, 0, stored)) == (0, 0)

    def test_a_changed_batch_that_is_lost_with_its_leader_is_decided_again(self, changed, broker):
        assert not self.can_decide(changed, broker)
        broker.append(8, 0, 0, [99])  # of another producer
        broker.replicate(1)
        assert self.can_decide(changed, broker)
        assert changed.decide(10, 3, (0,)).dropped_count == 1
        broker.move(returns=True)
        assert broker.append(7, 0, 9, [11, 12]).code is None


async def leaders(*names, wants=lambda topic: topic.startswith("own"), most=10):
    return await leaders_of(ListedTopics(*names), wants, most)


async def test_leaders_of_the_selected_topics_are_found():
    assert await leaders("a", "own-1", "own-2") == {("own-1", 0): 7, ("own-2", 0): 7}
    assert await leaders("away") == {}


async def test_the_number_of_leaders_is_bounded():
    assert await leaders("own-1", "own-2", "own-3", most=2) == {("own-1", 0): 7, ("own-2", 0): 7}
