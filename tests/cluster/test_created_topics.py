"""How many brokers have the records of Penstock's own topics."""

from concurrent.futures import Future
from types import SimpleNamespace

import pytest

from penstock.cluster.created_topics import Replicas


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
def test_state_outlives_the_loss_of_a_broker_where_there_are_three(brokers, replicas):
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
