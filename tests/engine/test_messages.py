"""Messages between the gateway and a worker: each is read as it was written."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.admin_policies import AdminContext, ConfigAlteration, TopicCreation
from penstock.engine.plans.topic_plan import TopicPlan
from penstock.engine.verdict import ACCEPTED
from penstock.engine.workers import messages
from penstock.engine.workers.messages import (
    PREFIX,
    JudgeConfigAlteration,
    JudgeTopicCreation,
    Ready,
    TopicsLoaded,
    TryRecordsPolicy,
    TryTopic,
)
from penstock.policy import ClientContext

CONTEXT = AdminContext("User:alice", "client", {"payments": (6, 3)})


def body_of(message, kind):
    """Return the body of a message; its head has its length and kind."""
    length, found = PREFIX.unpack_from(message)
    assert (length, found) == (len(message) - PREFIX.size + 1, kind)
    return message[PREFIX.size :]


@pytest.mark.parametrize(
    "request_",
    [
        JudgeTopicCreation(TopicCreation("t", 6, 3, None, {"a": "b"}), CONTEXT),
        JudgeTopicCreation(TopicCreation("t", None, None, {"0": [1, 2]}, {}), AdminContext()),
        JudgeConfigAlteration(ConfigAlteration("TOPIC", "t", {"a": None, "b": "1"}), CONTEXT),
        JudgeConfigAlteration(ConfigAlteration("TOPIC", "t", {"a": None}, ("a",)), CONTEXT),
        TryRecordsPolicy("a.P"),
        TryTopic(TopicPlan(topic="t", named=("first", "second")).encoded.decode()),
    ],
    ids=lambda request: type(request).__name__,
)
def test_a_request_about_a_topic(request_):
    body = body_of(messages.judge_admin(2**40, request_), messages.JUDGE_ADMIN)
    attempt, found = messages.read_judge_admin(body)
    assert attempt == 2**40
    assert type(found) is type(request_)
    assert _plain(found) == _plain(request_)
    if isinstance(found, JudgeTopicCreation | JudgeConfigAlteration):
        assert type(found[0]) is type(request_[0])
        assert isinstance(found.context, AdminContext)


def _plain(value):
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    return [_plain(part) for part in value] if isinstance(value, tuple | list) else value


@given(st.sets(st.integers(0, 2**31 - 1), max_size=20), st.data())
def test_positions_that_were_dropped_before(dropped, data):
    quarantined = data.draw(st.sets(st.sampled_from(sorted(dropped)))) if dropped else set()
    written = messages.positions_before(sorted(dropped), quarantined)
    assert messages.read_positions_before(written) == (sorted(dropped), sorted(quarantined))
    plain = messages.positions(sorted(dropped))
    assert list(messages.read_positions(memoryview(plain))) == sorted(dropped)


@given(st.text(max_size=9), st.text(max_size=9), st.booleans(), st.integers(0, 2**40))
def test_small_messages(name, text, is_set, number):
    body = body_of(messages.records_class(name, takes_client=is_set), messages.RECORDS_CLASS)
    assert messages.read_records_class(body) == (name, is_set)
    counted = [(name, text, number), (text, name, 1)]
    assert messages.read_events(body_of(messages.events(counted), messages.EVENTS)) == counted
    loaded = TopicsLoaded(number, number + 1, text)
    body = body_of(messages.topics_loaded(loaded), messages.TOPICS_LOADED)
    assert messages.read_topics_loaded(body) == loaded


def test_topics_to_be_loaded():
    plans = [TopicPlan(topic="t", validators=("a.V",)), TopicPlan(topic="u", records_policy="b.P")]
    body = body_of(messages.load_topics(plans), messages.LOAD_TOPICS)
    assert messages.read_load_topics(body) == plans


@pytest.mark.parametrize(
    "flags", [(True, False, False), (False, True, False), (False, False, True)]
)
def test_a_worker_that_is_ready(flags):
    needs_context, loads_topics, drops_records = flags
    patterns = [("a.I", re.compile("^t", re.IGNORECASE)), ("b.I", re.compile(""))]
    sent = messages.ready(
        patterns,
        needs_context=needs_context,
        loads_topics=loads_topics,
        takes_client=["b.P", "a.P"],
        drops_records=drops_records,
    )
    found = messages.read_ready(body_of(sent, messages.READY))
    expected = Ready(
        patterns, needs_context, loads_topics, frozenset({"a.P", "b.P"}), drops_records
    )
    assert found == expected


def test_a_client_is_decoded_or_unknown():
    context = ClientContext(*[f"text {number}" for number in range(len(ClientContext._fields))])
    assert messages.read_client(messages.client(context)) == context
    assert messages.read_client(b"") == ClientContext()


@pytest.mark.parametrize(("took_s", "expected"), [(0.25, 0.25), (1e9, (2**32 - 1) / 1e6)])
def test_an_accepted_batch(took_s, expected):
    body = body_of(messages.verdict(9, ACCEPTED, took_s), messages.VERDICT)
    attempt, found, took = messages.read_verdict(body)
    assert (attempt, took) == (9, expected)
    assert found is ACCEPTED
