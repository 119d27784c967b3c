"""A closed session ends without Python's collector, which a gateway runs seldom."""

import gc
import weakref

import pytest

from tests.gateway.sessions.talk import (
    LONG,
    Talk,
    answer,
    other,
    produce,
    produce_response,
    turns_until,
)


@pytest.fixture(autouse=True)
def no_collection():
    """The collector is off: what ends here ends without it."""
    gc.disable()
    yield
    gc.enable()


def _nothing(_):
    """Close the session of a client that has sent nothing."""


def _answered(talk):
    talk.session.client_data(other(1))
    talk.session.upstream_data(answer(1))


def _unanswered(talk):
    talk.session.client_data(other(1) + produce(2, "free"))


def _judged(talk):
    talk.session.client_data(produce(1, "judged"))
    talk.decide()
    talk.session.upstream_data(produce_response(1, "judged"))


def _waiting(talk):
    talk.session.client_data(produce(1, "judged") + other(2))
    talk.verdicts.clear()


def _incomplete(talk):
    talk.session.client_data(produce(1, "judged")[:-3])


def _long(talk):
    talk.session._requests.max_bytes = 10**6
    talk.session.client_data(produce(1, *LONG))
    assert talk.session.is_suspended


@pytest.mark.parametrize(
    "talked", [_nothing, _answered, _unanswered, _judged, _waiting, _incomplete, _long]
)
async def test_a_closed_session_is_freed(talked):
    talk = Talk()
    talked(talk)
    talk.session.closed()
    ended = weakref.ref(talk.session)
    talk.session = None
    await turns_until(lambda: not talk.turns._waiting)
    assert ended() is None
