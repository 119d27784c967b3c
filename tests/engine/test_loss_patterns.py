"""Patterns for topics that may lose records: as exact as the plans of the topics."""

import re
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from penstock.configuration.file import read_configuration
from penstock.engine.plans.plan import Plan
from tests.engine.plans import VALIDATED, plan_of

TOPICS = [
    *(f"{first}-{second}" for first in "abc" for second in "abc"),
    "a",
    "q",
    "a.b",
    "a-b\n",
    "",
    "a-changelog",
    "connect-a",
    "mm2-a.internal",
]
NAMED = {
    "policies": "enforced,set-aside,by-topic,drops",
    "policies.enforced.type": "penstock.policies.Required",
    "policies.enforced.fields": "f",
    "policies.enforced.mode": "enforce",
    "policies.set-aside.type": "penstock.policies.Required",
    "policies.set-aside.fields": "f",
    "policies.set-aside.mode": "quarantine",
    "policies.by-topic.type": "penstock.policies.Required",
    "policies.by-topic.fields": "f",
    "policies.drops.type": "penstock.policies.DropRecords",
    "policies.drops.fields": "f",
}
GLOBS = st.sampled_from(
    ["*", "a*", "?-a", "*-b", "a-*", "a-b", "[ab]-?", "b-a", "a.b", "connect-a"]
)
LINES = st.one_of(
    st.tuples(st.just("penstock.mode"), st.sampled_from(["quarantine", "enforce", "observe"])),
    st.tuples(
        st.just("penstock.policies"),
        st.sampled_from(
            ["", "enforced", "set-aside", "by-topic,enforced", "drops", "drops,by-topic"]
        ),
    ),
    st.tuples(st.just("records.policy.class.name"), st.just("a.B")),
    st.tuples(st.just("records.policy.enabled"), st.sampled_from(["true", "false"])),
    st.tuples(st.just("record.validation.policy"), st.just("a.json")),
    st.tuples(st.just("confluent.value.schema.validation"), st.sampled_from(["true", "false"])),
)
CLASSES = st.fixed_dictionaries(
    {},
    optional={
        "record.validator.classes": st.just("a.V"),
        "penstock.mode": st.sampled_from(["quarantine", "observe"]),
        "penstock.quarantine.internal.topics": st.sampled_from(["true", "false"]),
    },
)


def is_announced(plan, topic):
    return any(re.search(pattern, topic) for pattern in plan.intercepted_topics)


@given(
    lines=st.lists(st.tuples(GLOBS, LINES), max_size=6),
    classes=CLASSES,
    validates=st.sampled_from([None, "penstock.policies.SchemaPolicy"]),
    patterns=st.lists(
        st.sampled_from([("drops", "^a|-c$"), ("drops", ""), ("a.I", "b$"), ("a.I", "^a|q")]),
        max_size=2,
    ),
)
def test_a_pattern_matches_the_topics_that_may_lose_records(lines, classes, validates, patterns):
    file = {"upstream.bootstrap.servers": "a:9092", **NAMED, **classes}
    if validates:
        file["record.validation.policy.class.name"] = validates
        file["schema.registry.url"] = "http://127.0.0.1:1"
    for glob, (key, value) in lines:
        if validates or not key.startswith(("confluent.", "record.validation.")):
            file[f"topics.{glob}.{key}"] = value
    plan = Plan(read_configuration(Path("/f.properties"), file).policies)
    plan.set_interceptor_patterns([(name, re.compile(found)) for name, found in patterns])
    for topic in TOPICS:
        of_topic = plan.for_topic(topic)
        assert is_announced(plan, topic) == bool(of_topic and of_topic.losses), topic


def test_a_pattern_for_one_topic_in_quarantine_is_about_no_other():
    plan = plan_of(
        {
            "record.validation.policy.class.name": "penstock.policies.JsonSchema",
            "topics.*.record.validation.policy": "a.json",
            "topics.q-*.penstock.mode": "quarantine",
        }
    )
    assert is_announced(plan, "q-1")
    assert not is_announced(plan, "orders")


def test_a_longer_glob_takes_topics_out_of_a_shorter_one():
    plan = plan_of(
        {
            **VALIDATED,
            "penstock.mode": "quarantine",
            "topics.pay*.penstock.mode": "enforce",
            "topics.pay-late*.penstock.mode": "quarantine",
        }
    )
    assert [is_announced(plan, topic) for topic in ("orders", "payments", "pay-later")] == [
        True, False, True,
    ]  # fmt: skip


def test_an_interceptor_that_only_observes_drops_nothing():
    plan = plan_of({**VALIDATED, "penstock.mode": "observe", "topics.a*.penstock.mode": "mark"})
    plan.set_interceptor_patterns([("a.I", re.compile("b", re.IGNORECASE))])
    assert [is_announced(plan, topic) for topic in ("b", "ab")] == [False, True]


def test_many_patterns_have_a_size_that_a_record_has_room_for():
    of_team = {
        f"topics.team-{number:03}-{part}.penstock.mode": mode
        for number in range(100)
        for part, mode in (("*", "quarantine"), ("public-*", "enforce"))
    }
    plan = plan_of({**VALIDATED, **of_team})
    assert is_announced(plan, "team-021-a")
    assert not is_announced(plan, "team-021-public-a")
    assert sum(map(len, plan.intercepted_topics)) < 30_000


def test_patterns_can_be_read_by_every_version_of_python():
    plan = plan_of({**VALIDATED, "topics.a*b?.penstock.mode": "quarantine"})
    assert all(pattern.count(r"\Z") for pattern in plan.intercepted_topics)
    assert not any(r"\z" in pattern for pattern in plan.intercepted_topics)
