"""Penstock's own topics: how many brokers have their records, and their configs."""

from concurrent.futures import Future
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, KafkaException

from penstock.kafka.cluster.created_topics import Replicas, configs_of


class Admin:
    """A client of a cluster with so many brokers."""

    def __init__(self, brokers: int) -> None:
        self._brokers = brokers

    def describe_cluster(self, *, request_timeout: float) -> Future:
        found: Future = Future()
        found.set_result(SimpleNamespace(nodes=list(range(self._brokers))))
        return found


@pytest.mark.parametrize(
    ("brokers", "replicas"), [(1, (1, 1)), (2, (2, 1)), (3, (3, 2)), (9, (3, 2))]
)
def test_state_outlives_the_loss_of_one_of_three_brokers(brokers, replicas):
    assert Replicas.of(Admin(brokers), 1.0) == replicas


@pytest.mark.parametrize(
    ("has", "wanted", "are_fewer"),
    [
        ((1, 1), (3, 2), True),
        ((3, 1), (3, 2), True),
        ((2, 2), (3, 2), True),
        ((3, 2), (3, 2), False),
        ((5, 3), (3, 2), False),
        ((1, 1), (1, 1), False),
    ],
)
def test_fewer_replicas_are_noticed(has, wanted, are_fewer):
    assert Replicas(*has).are_fewer_than(Replicas(*wanted)) is are_fewer


class Describing:
    """A client whose answer about a topic's configs is given."""

    def __init__(self, answer) -> None:
        self._answer = answer

    def describe_configs(self, resources, *, request_timeout: float):
        [resource] = resources
        assert resource.name == "a"
        found: Future = Future()
        if isinstance(self._answer, KafkaException):
            found.set_exception(self._answer)
        else:
            found.set_result(self._answer)
        return {resource: found}


def test_configs_are_texts():
    entries = {"cleanup.policy": SimpleNamespace(value="compact"), "x": SimpleNamespace(value=None)}
    assert configs_of(Describing(entries), "a", 1.0) == {"cleanup.policy": "compact", "x": ""}


def test_configs_that_may_not_be_described_are_not_known():
    denied = KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED))
    assert configs_of(Describing(denied), "a", 1.0) is None


def test_another_error_is_raised():
    error = KafkaException(KafkaError(KafkaError._TIMED_OUT))
    with pytest.raises(KafkaException):
        configs_of(Describing(error), "a", 1.0)
