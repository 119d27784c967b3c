"""States of an exchange: only transitions of the table are taken."""

import itertools

import pytest

from penstock.gateway.context.exchange import TRANSITIONS, ExchangeState, Streamed

FINAL = {ExchangeState.COMPLETED}


def streamed(state=ExchangeState.RECEIVING):
    exchange = Streamed(api_key=1, version=4, correlation_id=7)
    exchange.state = state
    return exchange


def test_every_state_has_its_row():
    assert TRANSITIONS.keys() == set(ExchangeState)


@pytest.mark.parametrize(("before", "after"), list(itertools.product(ExchangeState, ExchangeState)))
def test_only_the_transitions_of_the_table_are_taken(before, after):
    exchange = streamed(before)
    if after in TRANSITIONS[before]:
        exchange.transition_to(after)
        assert exchange.state is after
    else:
        with pytest.raises(AssertionError, match=f"{before.name} to {after.name}"):
            exchange.transition_to(after)
        assert exchange.state is before


def test_every_state_can_be_reached_and_left():
    reached = set().union(*TRANSITIONS.values())
    assert reached == set(ExchangeState) - {ExchangeState.RECEIVING}
    assert {state for state, following in TRANSITIONS.items() if not following} == FINAL


@pytest.mark.parametrize("state", set(ExchangeState) - FINAL)
def test_every_exchange_without_a_response_can_be_abandoned(state):
    exchange = streamed(state)
    exchange.cancel()
    assert exchange.state is ExchangeState.CANCELLED


def test_an_exchange_with_a_response_stays_in_its_state():
    exchange = streamed(ExchangeState.COMPLETED)
    exchange.cancel()
    assert exchange.state is ExchangeState.COMPLETED


def test_pieces_of_a_response_wait_until_they_are_sent():
    exchange = streamed()
    exchange.pieces += [b"some", b"bytes"]
    assert exchange.waiting_bytes == 9
    assert exchange.outgoing() == [b"some", b"bytes"]
    assert exchange.waiting_bytes == 0


def test_a_request_whose_response_is_known_is_not_forwarded():
    exchange = streamed()
    exchange.response = [b"response"]
    assert exchange.outgoing() is None
    assert exchange.local_response() == [b"response"]
