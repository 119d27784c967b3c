"""The lane's action for each API, from the routing table."""

import pytest

from penstock.gateway.lane.table import Action, compiled
from penstock.gateway.sessions.routes import ROUTES, VERSIONS
from tests.gateway.sessions.talk import Talk

NONE = frozenset()


def actions(**attributes):
    judged = attributes.pop("judged", NONE)
    talk = Talk(judged=judged)
    for name, value in attributes.items():
        setattr(talk, name, value)
    return {
        api_key: {first + position: Action(row) for position, row in enumerate(each)}
        for api_key, first, each in compiled(talk)
    }


def test_every_api_has_a_row_with_all_its_versions():
    found = actions()
    assert set(found) == {row.api_key for row in ROUTES}
    for api_key, (first, last) in VERSIONS.items():
        assert list(found[api_key]) == list(range(first, last + 1))


def test_streamed_apis_are_forwarded_natively_and_changed_apis_are_not():
    found = actions()
    by_key = {api_key: set(each.values()) for api_key, each in found.items()}
    forwarded = {key for key, each in by_key.items() if each == {Action.FORWARD}}
    assert forwarded == {1, 19, 20, 21, 26, 32, 33, 37, 44, 88}
    assert by_key[0] == {Action.MAY_HAVE_NO_RESPONSE}
    assert by_key[3] == by_key[17] == by_key[18] == by_key[36] == by_key[78] == {Action.PYTHON}


def test_if_topics_have_policies_produce_requests_are_read():
    found = actions(judged=frozenset({"judged"}))
    assert {found[0][version] for version in range(3, 14)} == {Action.KNOWN}
    assert {found[0][version] for version in range(3)} == {Action.PYTHON}


@pytest.mark.parametrize(
    "attribute",
    [
        {"has_interceptors": True},
        {"may_quarantine": True},
        {"producers": True},
        {"keeps_decisions": True},
        {"shared_producers": object()},
        {"shared_producers": object(), "judged": NONE},
    ],
)
def test_if_records_of_some_topics_may_be_dropped_produce_requests_are_read(attribute):
    found = actions(**{"judged": frozenset({"judged"}), **attribute})
    assert {found[0][version] for version in range(3, 14)} == {Action.KNOWN}
    assert {found[0][version] for version in range(3)} == {Action.PYTHON}


def test_if_requests_are_refused_as_a_whole_no_produce_request_is_forwarded():
    talk = Talk(judged=frozenset({"judged"}))
    talk.policies = talk.policies._replace(whole_request=True)
    (produce,) = (each for api_key, _, each in compiled(talk) if api_key == 0)
    assert set(produce) == {Action.PYTHON}


def test_end_txn_is_held_if_a_record_may_be_dropped_at_the_next_moment():
    assert actions(judged=frozenset({"judged"}))[26][5] is Action.PYTHON
    assert actions(judged=frozenset({"judged"}))[26][4] is Action.FORWARD
