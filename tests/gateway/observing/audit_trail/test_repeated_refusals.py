"""Refusals of waiting clients are counted together, each once, in bounded memory."""

from collections import Counter
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.engine.verdict import failed, refused
from penstock.gateway.observing.audit_trail import repeated_refusals
from penstock.gateway.observing.audit_trail.record import NAME_MAX_BYTES
from penstock.gateway.observing.audit_trail.repeated_refusals import EVERY_S, RepeatedRefusals
from penstock.gateway.refusal_log import Refused

NEW = Refused("new", None, "shop", refused(44, "no", "a.T"), principal="User:a", address="10.0.0.7")
OTHERS = [
    NEW,
    replace(NEW, topic="newer"),
    replace(NEW, client_id="web"),
    replace(NEW, client_id=None),
    replace(NEW, principal="User:b"),
    replace(NEW, principal=None),
    replace(NEW, address="10.0.0.8"),
    replace(NEW, verdict=refused(44, "no", "a.U")),
    replace(NEW, verdict=failed("a.T", "raised")),
]


@pytest.mark.thorough
@settings(max_examples=1000, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(OTHERS), st.integers(0, 90)),
        max_size=60,
    )
)
def test_each_refusal_is_in_one_record_and_there_is_one_record_a_minute(steps):
    """A step is a refusal, and the seconds until it."""
    repeated, now_s = RepeatedRefusals(), 0.0
    written, counted = Counter(), Counter()
    at: dict[Refused, list[float]] = {}

    def write(refusal, count):
        written[refusal] += count
        at.setdefault(refusal, []).append(now_s)

    for refusal, wait_s in steps:
        end_s = now_s + wait_s
        while (due_s := repeated.due_s) is not None and due_s <= end_s:
            now_s = due_s
            for found in repeated.take_due(now_s):
                write(found.last, found.count)
        now_s = end_s
        counted[refusal] += 1
        if not repeated.put(refusal, now_s, now_s):
            write(refusal, 1)
    assert all(
        later - earlier >= EVERY_S for times in at.values() for earlier, later in pairwise(times)
    )
    for found in repeated.take_all():
        write(found.last, found.count)
    assert written == counted


def test_a_message_with_a_number_does_not_make_another_record():
    repeated = RepeatedRefusals()
    for number in range(5):
        repeated.put(replace(NEW, verdict=refused(44, f"no {number}", "a.T")), 0, number)
    (found,) = repeated.take_all()
    assert (found.count, found.at_s, found.last.verdict.message) == (4, 4, "no 4")


def test_names_that_clients_choose_take_bounded_memory(monkeypatch):
    monkeypatch.setattr(repeated_refusals, "KEPT_MAX", 10)
    repeated = RepeatedRefusals()
    kept = [replace(NEW, client_id=f"{number}-" + "x" * 30_000) for number in range(20)]
    assert not any(repeated.put(refusal, 0, 0) for refusal in kept)
    assert [repeated.put(refusal, 1, 1) for refusal in kept] == [True] * 10 + [False] * 10
    assert {len(found.last.client_id) for found in repeated.take_all()} == {NAME_MAX_BYTES}


def test_a_client_that_stopped_is_forgotten():
    repeated = RepeatedRefusals()
    assert not repeated.put(NEW, 0, 0)
    assert list(repeated.take_due(EVERY_S)) == []
    assert repeated.due_s is None
    assert not repeated.put(NEW, EVERY_S, EVERY_S)
