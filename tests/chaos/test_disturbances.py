"""The disturbances and producers of the rounds of `make chaos`, and the dropped records."""

import random
import time
from collections import Counter

import pytest

from tests.chaos.disturbances import (
    MILD,
    SPECIAL,
    chosen,
    connections,
    kill_broker,
    kill_gateway,
    leaders,
    reloads,
    state_leader,
    state_writes,
    stop_broker,
    stop_gateway,
    workers,
)
from tests.chaos.many_producers import TRANSACTION
from tests.chaos.modes import ENFORCE, MARK, QUARANTINE
from tests.chaos.producers import kinds
from tests.chaos.world import POLICIES, Way

ROUNDS = 50


@pytest.mark.parametrize("first_seed", [0, 440_000, 700_000])
def test_fifty_rounds_have_every_disturbance(first_seed):
    happened = Counter(
        disturbance
        for seed in range(first_seed, first_seed + ROUNDS)
        for disturbance in chosen(random.Random(seed), mild=False)
    )
    assert set(happened) == {
        stop_broker, kill_broker, stop_gateway, kill_gateway, leaders, connections,
        state_leader, state_writes, reloads, workers,
    }  # fmt: skip
    assert min(happened.values()) >= 10


def test_a_mild_round_has_no_disturbance_that_makes_clients_store_twice():
    for seed in range(ROUNDS):
        found = chosen(random.Random(seed), mild=True)
        assert leaders in found
        assert not {kill_broker, *SPECIAL} & set(found)
        assert set(found) <= {leaders, *MILD}


@pytest.mark.parametrize("client", ["librdkafka", "Java", "franz-go"])
def test_each_client_has_every_kind_through_gateways(client, monkeypatch):
    monkeypatch.setattr("tests.chaos.producers.has_go", lambda: True)
    through = {
        (producer.kind, producer.mode)
        for producer in kinds("x")
        if (producer.client, producer.way) == (client, Way.GATEWAYS)
    }
    assert through >= {("idempotent", ""), ("transactional", ""), ("idempotent", QUARANTINE),
                       ("idempotent", MARK), ("idempotent", ENFORCE)}  # fmt: skip


def test_some_transactions_lose_every_record_and_others_a_part(monkeypatch):
    monkeypatch.setattr(time, "sleep", lambda _: None)
    names: dict = {}
    exec(POLICIES, names)
    interceptor = names["AThird"]()

    def is_dropped(number):
        try:
            interceptor.process_record(None, b"%d" % number, "t", 0, ())
        except names["ProduceRequestInterceptorSkipRecordException"]:
            return True
        return False

    dropped = [
        sum(map(is_dropped, range(first, first + TRANSACTION)))
        for first in range(0, 70 * TRANSACTION, TRANSACTION)
    ]
    assert dropped.count(TRANSACTION) == 10
    assert all(0 < count for count in dropped)
