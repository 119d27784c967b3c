"""Which topics, and for how long, have interceptors that count as changed."""

import weakref

import pytest

from penstock.gateway.produce.producer_state.doubts import DOUBTED_S, Doubts


class Clock:
    now = 1.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def doubts(clock):
    return Doubts(clock)


def test_a_change_affects_its_topics_until_no_earlier_batch_is_retried(doubts, clock):
    assert not doubts
    doubts.add(lambda topic: topic.startswith("orders"))
    assert doubts.affect("orders-1")
    assert not doubts.affect("payments")
    clock.now += DOUBTED_S - 1
    assert doubts.affect("orders-1")
    clock.now += 1
    assert not doubts.affect("orders-1")
    doubts.expire()
    assert not doubts


def test_a_change_of_a_topics_settings_affects_only_that_topic(doubts, clock):
    doubts.add_topic("orders")
    assert doubts.affect("orders")
    assert not doubts.affect("orders-1")
    clock.now += DOUBTED_S
    assert not doubts.affect("orders")
    doubts.expire()
    assert not doubts


def test_each_change_is_another_generation(doubts):
    doubts.add(lambda _: False)
    doubts.add_topic("orders")
    assert doubts.generation == 2


def test_no_change_of_many_changes_is_forgotten(doubts):
    doubts.add(lambda topic: topic == "orders")
    for _ in range(100):
        doubts.add(lambda _: False)
    assert doubts.affect("orders")
    assert not doubts.affect("payments")


def test_changes_expire_in_their_time_however_many_follow(doubts, clock):
    """Each keeps the policies before it in memory."""

    def policies(topic):
        return topic == "orders"

    doubts.add(policies)
    ended = weakref.ref(policies)
    del policies
    for _ in range(100):
        clock.now += DOUBTED_S / 40
        doubts.add(lambda _: False)
        doubts.expire()
    assert ended() is None
    assert not doubts.affect("orders")


def test_the_announcements_of_thousands_of_stopped_gateways_are_processed(doubts):
    """A gateway that starts reads all records of the topic."""
    doubts.add(lambda topic: topic == "orders")
    for _ in range(20_000):
        doubts.add(lambda _: False)
    assert doubts.affect("orders")
    assert not doubts.affect("payments")


def test_a_topic_is_compared_with_each_change_once(doubts, clock):
    compared = []
    doubts.add(lambda topic: compared.append(topic) or True)
    for _ in range(3):
        assert doubts.affect("orders")
    assert compared == ["orders"]
    doubts.add_topic("payments")
    assert doubts.affect("payments")
    clock.now += DOUBTED_S
    assert not doubts.affect("orders")


def test_a_change_of_interceptors_differs_from_a_change_of_settings(doubts, clock):
    doubts.add_topic("orders")
    assert not doubts.are_of_interceptors
    doubts.add(lambda _: False)
    assert doubts.are_of_interceptors
    clock.now += DOUBTED_S
    assert not doubts.are_of_interceptors
