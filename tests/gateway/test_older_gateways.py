"""Histories in which a gateway of an older version shares the state of producers with newer gateways.

The older gateway does not announce its interceptors, writes no record that fences, and counts
each record (`producer_state.fences`).
"""

from dataclasses import replace
from itertools import count

import pytest

from penstock.gateway.produce.producer_state.all_producers import Producers
from penstock.gateway.produce.producer_state.broker_queries import BrokerQueries
from penstock.gateway.produce.producer_state.producer import record_state
from penstock.gateway.produce.producer_state.records import kept
from penstock.gateway.produce.producer_state.records.fences import Fences, Head
from penstock.gateway.produce.producer_state.written_decisions import WrittenDecisions
from tests.gateway.model import gateway_model
from tests.gateway.model.histories import World
from tests.gateway.model.history_features import features_of

SEEDS = range(100)
LOSES = 967


class OlderFences(Fences):
    """All records count."""

    __slots__ = ()

    def is_void(self, head: Head) -> bool:
        return False


class CountedCalls:
    """Counts the calls of an object's public methods that are not finished."""

    calls = 0
    """The depth of nested calls of all of these objects."""

    def __getattribute__(self, name):
        found = super().__getattribute__(name)
        if name.startswith("_") or not callable(found):
            return found

        def call(*arguments, **options):
            CountedCalls.calls += 1
            try:
                return found(*arguments, **options)
            finally:
                CountedCalls.calls -= 1

        return call


class OlderQueries(CountedCalls, BrokerQueries):
    """Queries of a gateway that does not know fences."""


class OlderDecisions(WrittenDecisions):
    """Decisions of a gateway that does not know fences."""

    def fence(self, *arguments, **options):
        return False


class OlderProducers(CountedCalls, Producers):
    """Producers of a gateway that does not know fences."""

    def __init__(self, **options):
        super().__init__(**options)
        self.queries.__class__ = OlderQueries
        self._written.__class__ = OlderDecisions

    def interceptors_changed(self, affects):
        pass


@pytest.fixture
def world(monkeypatch):
    """Creates histories in which every other gateway is older."""

    def fences():
        return OlderFences() if CountedCalls.calls else Fences()

    monkeypatch.setattr(record_state, "Fences", fences)
    monkeypatch.setattr(kept, "Fences", fences)

    def make(seed, *, switches):
        numbers = count()

        def producers(**options):
            return (Producers if next(numbers) % 2 else OlderProducers)(**options)

        monkeypatch.setattr(gateway_model, "Producers", producers)
        made = World(
            seed, features=replace(features_of(seed), switches=switches, rolls_out=switches)
        )
        for gateway in made.gateways:
            gateway.producers.interceptors_changed(lambda _: True)
        return made

    return make


@pytest.mark.thorough
def test_with_the_same_interceptors_no_record_is_lost(world):
    played = 0
    for seed in SEEDS:
        made = world(seed, switches=False)
        if made.shared and made.steady:
            made.walk()
            played += 1
    assert played > len(SEEDS) // 4


def test_while_interceptors_change_a_record_can_be_lost(world):
    """docs/operations.md says to upgrade first. A newer version would detect the change."""
    with pytest.raises(AssertionError, match="lost"):
        world(LOSES, switches=True).walk()
