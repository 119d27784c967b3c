"""The mode of a topic: whether its policies enforce or observe (`penstock.mode`)."""

import re
from pathlib import Path

import pytest

from penstock.configuration import ConfigurationError
from penstock.configuration.file import read_configuration
from penstock.engine.plan import Origin, Plan, Setting, TopicPlan

VALIDATED = {"record.validator.classes": "a.V"}


def plan_of(properties):
    file = {"upstream.bootstrap.servers": "a:9092", **properties}
    return Plan(read_configuration(Path("/f.properties"), file).policies)


def test_policies_enforce_unless_told_otherwise():
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
    assert {one for one in topics if plan.for_topic(one).waited_for is None} == observed
    assert {one for one in topics if plan.observes_topic(one)} == observed


def test_what_is_set_on_the_topic_wins():
    plan = plan_of({**VALIDATED, "penstock.mode": "observe"})

    assert plan.for_topic("t", {"penstock.mode": "enforce"}).mode == "enforce"
    assert plan_of(VALIDATED).for_topic("t", {"penstock.mode": "observe"}).mode == "observe"


def test_what_judges_topics_and_configs_goes_by_the_file():
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


def test_a_mode_asks_for_no_topic_of_settings():
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


def test_settings_say_where_they_were_set():
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
        Setting("penstock.mode", "observe", Origin.FILE),
        Setting("records.policy.enabled", "false", Origin.PATTERN, "*"),
    ]
    assert plan.settings_and_origins("pii-a", own) == [
        Setting("penstock.mode", "observe", Origin.FILE),
        Setting("record.validation.policy", "own.json", Origin.TOPIC),
        Setting("records.policy.enabled", "true", Origin.PATTERN, "pii-*"),
    ]


def test_a_line_for_every_topic_is_not_taken_for_one_without():
    both = plan_of({**VALIDATED, "penstock.mode": "observe", "topics.*.penstock.mode": "enforce"})
    assert both.settings_and_origins("t") == [
        Setting("penstock.mode", "enforce", Origin.PATTERN, "*")
    ]


BOTH = {**VALIDATED, "record.validator.classes": "a.V,a.W"}


def test_policies_that_only_observe_are_told_from_those_that_are_waited_for():
    plan = plan_of({**BOTH, "penstock.mode": "mark"})
    plan.set_policy_modes({"a.V": "observe"})
    found = plan.for_topic("t")

    assert found.observed.policies == ("a.V",)
    assert found.waited_for.policies == ("a.W", *found.policies[2:])
    assert found.waited_for.judging_modes == ("mark",)
    assert found.judging_modes == ("mark", "observe")


def test_the_strictest_mode_comes_first_and_interceptors_go_by_the_topics():
    plan = plan_of({**BOTH, "penstock.mode": "observe"})
    plan.set_interceptor_patterns([("a.I", re.compile("."))])
    plan.set_policy_modes({"a.W": "enforce", "a.V": "mark"})
    found = plan.for_topic("t")

    assert found.judging_modes[:2] == ("enforce", "mark")
    assert found.waited_for.policies == ("a.V", "a.W")
    assert found.observed.interceptors == ("a.I",)
    assert TopicPlan.decode(found.waited_for.encoded) == found.waited_for


def test_without_modes_of_their_own_there_is_one_plan():
    for mode in ("enforce", "mark"):
        found = plan_of({**BOTH, "penstock.mode": mode}).for_topic("t")
        assert found.waited_for is found
        assert found.observed is None
    found = plan_of({**BOTH, "penstock.mode": "observe"}).for_topic("t")
    assert (found.waited_for, found.observed) == (None, found)


def test_a_mode_that_there_is_not_is_an_error():
    with pytest.raises(ConfigurationError, match=r"mode of a.V must be one of .*mark"):
        plan_of(VALIDATED).set_policy_modes({"a.V": "shout"})
    with pytest.raises(ConfigurationError, match=r"penstock.mode must be one of enforce, .*mark"):
        plan_of({**VALIDATED, "penstock.mode": "shout"})


QUARANTINE = {**VALIDATED, "penstock.mode": "quarantine"}


def test_a_dead_letter_topic_has_the_name_of_its_topic_in_it():
    found = plan_of(QUARANTINE).for_topic("orders")
    assert (found.quarantines, found.dead_letter_topic) == (True, "orders.dead")
    assert (found.dead_letter_replicas, found.dead_letters_have_context) == (3, True)
    assert found.quarantine_max_ratio == 1.0

    file = {**QUARANTINE, "errors.deadletterqueue.topic.name": "dlq.${topic}.x",
            "topics.ab.errors.deadletterqueue.topic.name": "bad",
            "errors.deadletterqueue.topic.replication.factor": "1",
            "errors.deadletterqueue.context.headers.enable": "false"}  # fmt: skip
    plan = plan_of(file)
    found = plan.for_topic("orders")
    assert (found.dead_letter_topic, found.dead_letter_replicas) == ("dlq.orders.x", 1)
    assert not found.dead_letters_have_context
    assert plan.for_topic("ab").dead_letter_topic == "bad"
    for name, expected in (("${topic}-x", "orders-x"), ("bad", "bad"), ("any", "dlq.orders.x")):
        own = {"errors.deadletterqueue.topic.name": name}
        assert plan.for_topic("orders", own).dead_letter_topic == expected


def test_a_dead_letter_topic_is_not_judged_in_this_mode():
    plan = plan_of({**QUARANTINE, "topics.b.errors.deadletterqueue.topic.name": "bad"})
    for name in ("orders.dead", "bad"):
        assert plan.for_topic(name).waited_for is None, name
        assert not plan.for_topic(name).quarantines
    assert plan.for_topic(".dead").quarantines
    enforced = plan_of({**QUARANTINE, "topics.*.dead.penstock.mode": "enforce"})
    assert enforced.for_topic("orders.dead").waited_for is not None
    elsewhere = plan_of({**VALIDATED, "topics.a.penstock.mode": "quarantine",
                         "topics.*.dead.penstock.mode": "quarantine"})  # fmt: skip
    assert elsewhere.for_topic("a.dead").waited_for is None
    assert not plan_of(VALIDATED).for_topic("a.dead").holds_dead_letters


def test_what_may_not_be_set_on_a_topic_is_left_out():
    plan = plan_of(
        {**VALIDATED, "topic.settings.keys.allowed": "errors.*", "penstock.mode": "mark"}
    )
    name = "errors.deadletterqueue.topic.name"
    assert plan.merged("t", {name: "elsewhere", "penstock.mode": "observe"}) == plan.settings("t")
    assert plan.merged("t", {name: "${topic}.x"})[name] == "${topic}.x"


def test_a_topic_that_would_be_its_own_dead_letter_topic_is_an_error():
    own = {"topics.a.penstock.mode": "quarantine",
           "topics.a.errors.deadletterqueue.topic.name": "a"}  # fmt: skip
    with pytest.raises(ConfigurationError, match="dead letter topic of a would be a itself"):
        plan_of({**VALIDATED, **own})
    named = {**VALIDATED, "errors.deadletterqueue.topic.name": "t"}
    found = plan_of(named).for_topic("t", {"penstock.mode": "quarantine"})
    assert "would be t itself" in found.unusable
    assert "characters" in plan_of(QUARANTINE).for_topic("t" * 246).unusable
    assert not plan_of(QUARANTINE).for_topic("t" * 244).unusable


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
    ],
)
def test_wrong_values_say_what_would_be_right(key, value, expected):
    with pytest.raises(ConfigurationError, match=expected):
        plan_of({**QUARANTINE, key: value})
