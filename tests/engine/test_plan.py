"""The mode of a topic: whether its policies enforce or observe (`penstock.mode`)."""

import re

import pytest

from penstock.configuration import ConfigurationError
from penstock.engine.plans.plan import KeyOrigin, Setting
from penstock.engine.plans.topic_plan import TopicPlan
from tests.engine.plans import QUARANTINE, VALIDATED, plan_of


def test_policies_enforce_by_default():
    assert plan_of(VALIDATED).for_topic("orders").mode == "enforce"


@pytest.mark.parametrize(
    ("modes", "observed"),
    [
        ({"penstock.mode": "observe"}, {"orders", "pii-a", "pii-new-a"}),
        ({"topics.*.penstock.mode": " OBSERVE "}, {"orders", "pii-a", "pii-new-a"}),
        ({"topics.pii-*.penstock.mode": "observe"}, {"pii-a", "pii-new-a"}),
        ({"penstock.mode": "observe", "topics.pii-*.penstock.mode": "enforce"}, {"orders"}),
        (
            {"topics.pii-*.penstock.mode": "enforce", "topics.pii-new-*.penstock.mode": "observe"},
            {"pii-new-a"},
        ),
    ],
)
def test_a_mode_holds_for_all_topics_or_those_of_a_pattern(modes, observed):
    plan = plan_of({**VALIDATED, **modes})

    topics = ("orders", "pii-a", "pii-new-a")
    assert {topic for topic in topics if plan.for_topic(topic).waited_for is None} == observed
    assert {topic for topic in topics if plan.observes_topic(topic)} == observed


def test_the_value_on_the_topic_wins():
    plan = plan_of({**VALIDATED, "penstock.mode": "observe"})

    assert plan.for_topic("t", {"penstock.mode": "enforce"}).mode == "enforce"
    assert plan_of(VALIDATED).for_topic("t", {"penstock.mode": "observe"}).mode == "observe"


def test_the_policies_of_topics_and_configs_depend_on_the_file():
    everything = plan_of({**VALIDATED, "penstock.mode": "observe"})
    pattern = plan_of({**VALIDATED, "topics.*.penstock.mode": "observe"})

    assert everything.observes_others
    assert not pattern.observes_others
    assert pattern.observes_topic("t")


def test_a_mode_alone_judges_nothing():
    plan = plan_of({"penstock.mode": "observe"})

    assert plan.is_empty
    assert plan.for_topic("t") is None
    assert plan.for_topic("t", {"penstock.mode": "observe"}) is None


def test_a_mode_needs_no_topic_of_settings():
    assert not plan_of({**VALIDATED, "penstock.mode": "observe"}).allows_topic_settings


@pytest.mark.parametrize("key", ["penstock.mode", "topics.a.penstock.mode"])
def test_another_mode_is_an_error(key):
    with pytest.raises(
        ConfigurationError, match="must be one of enforce, quarantine, mark, observe; it is 'off'"
    ):
        plan_of({key: "off"})


def test_a_plan_comes_to_workers_with_its_mode():
    plan = plan_of({**VALIDATED, "penstock.mode": "observe"}).for_topic("t")

    assert TopicPlan.decode(plan.encoded) == plan
    assert TopicPlan.decode(plan.encoded).mode == "observe"


def test_settings_know_their_origin():
    plan = plan_of(
        {
            **VALIDATED,
            "record.validation.policy.class.name": "penstock.policies.JsonSchema",
            "penstock.mode": "observe",
            "topics.*.records.policy.enabled": "false",
            "topics.pii-*.records.policy.enabled": "true",
            "topics.pii-*.record.validation.policy": "pii.json",
        }
    )
    own = {"record.validation.policy": "own.json"}

    assert plan.settings_and_origins("orders") == [
        Setting("penstock.mode", "observe", KeyOrigin.FILE),
        Setting("records.policy.enabled", "false", KeyOrigin.PATTERN, "*"),
    ]
    assert plan.settings_and_origins("pii-a", own) == [
        Setting("penstock.mode", "observe", KeyOrigin.FILE),
        Setting("record.validation.policy", "own.json", KeyOrigin.TOPIC),
        Setting("records.policy.enabled", "true", KeyOrigin.PATTERN, "pii-*"),
    ]


def test_a_line_for_every_topic_has_a_glob():
    both = plan_of({**VALIDATED, "penstock.mode": "observe", "topics.*.penstock.mode": "enforce"})
    assert both.settings_and_origins("t") == [
        Setting("penstock.mode", "enforce", KeyOrigin.PATTERN, "*")
    ]


def test_the_topics_whose_records_may_not_be_stored_have_patterns():
    plan = plan_of({**VALIDATED, "topics.pay*.penstock.mode": "quarantine"})
    plan.set_interceptor_patterns(
        [("a.I", re.compile("^orders")), ("a.J", re.compile("^a", re.IGNORECASE))]
    )
    topics = ("orders", "my-orders", "payments", "orders-changelog")
    assert [
        [bool(re.search(pattern, topic)) for topic in topics] for pattern in plan.intercepted_topics
    ] == [
        [True, False, False, False],
        [True, True, True, False],
        [False, False, True, False],
    ]


def test_no_records_are_lost_without_interceptors_and_quarantine():
    assert plan_of({**VALIDATED, "penstock.mode": "mark"}).intercepted_topics == []


@pytest.mark.parametrize(
    ("properties", "may_lose"),
    [
        ({"topics.pay*.penstock.mode": "quarantine"}, True),
        ({"produce.request.interceptors": "a.I"}, True),
        ({"topic.settings.keys.allowed": "errors.*"}, False),
        ({"topic.settings.keys.allowed": "penstock.mode"}, True),
        ({"topic.settings.keys.allowed": ""}, False),
    ],
)
def test_it_is_known_before_interceptors_are_loaded_whether_records_may_be_lost(
    properties, may_lose
):
    plan = plan_of({**VALIDATED, **properties})
    assert plan.may_lose_records(topics_have_settings=True) == may_lose
    of_topics = "topic.settings.keys.allowed" in properties
    assert plan.may_lose_records(topics_have_settings=False) == (may_lose and not of_topics)


def test_keys_that_topics_may_not_have_are_left_out():
    plan = plan_of(
        {**VALIDATED, "topic.settings.keys.allowed": "errors.*", "penstock.mode": "mark"}
    )
    name = "errors.deadletterqueue.topic.name"
    assert plan.merged("t", {name: "elsewhere", "penstock.mode": "observe"}) == plan.settings("t")
    assert plan.merged("t", {name: "${topic}.dead"})[name] == "${topic}.dead"


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("errors.deadletterqueue.topic.name", "${topic}", "with other characters"),
        ("errors.deadletterqueue.topic.name", "a b", "with other characters"),
        ("errors.deadletterqueue.topic.name", "__dead", "not beginning with __"),
        ("errors.deadletterqueue.topic.name", "${tpic}.dead", "with other characters"),
        ("errors.deadletterqueue.topic.replication.factor", "0", "a whole number from 1 to 32767"),
        ("errors.deadletterqueue.context.headers.enable", "yes", "one of true, false"),
        ("penstock.quarantine.max.ratio", "1.5", "a number from 0.0 to 1.0"),
        ("penstock.quarantine.max.ratio", "nan", "a number from 0.0 to 1.0"),
        ("produce.rejection.reasons", "first", "must be one of records, batch; it is 'first'"),
    ],
)
def test_errors_about_values_name_the_valid_values(key, value, expected):
    with pytest.raises(ConfigurationError, match=expected):
        plan_of({**QUARANTINE, key: value})
