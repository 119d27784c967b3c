"""Topics of frameworks, by name, and whether they are meant."""

import re

import pytest

from penstock.configuration import ConfigurationError
from penstock.engine.plans.framework_topics import FrameworkTopic, is_named_by_framework
from tests.engine.plans import QUARANTINE, VALIDATED, plan_of

BY_NAME, IF_COMPACTED, NO = (
    FrameworkTopic.BY_NAME,
    FrameworkTopic.IF_COMPACTED,
    FrameworkTopic.NO,
)
STREAMS = "app-KSTREAM-AGGREGATE-STATE-STORE-0000000003-changelog"


@pytest.mark.parametrize(
    "topic",
    [
        STREAMS,
        "app-KSTREAM-AGGREGATE-STATE-STORE-0000000003-repartition",
        "connect-configs",
        "connect-offsets",
        "connect-status",
        "mm2-offset-syncs.B.internal",
        "mm2-configs.A.internal",
        "A.checkpoints.internal",
    ],
)
def test_names_of_frameworks(topic):
    assert is_named_by_framework(topic)


@pytest.mark.parametrize(
    "topic", ["orders", "changelog", "a-Changelog", "a-changelog-2", "Connect-a", "internal", "mm2"]
)
def test_other_names(topic):
    assert not is_named_by_framework(topic)


@pytest.mark.parametrize(
    "file",
    [
        QUARANTINE,
        {**VALIDATED, "topics.*.penstock.mode": "quarantine"},
        {**VALIDATED, "topics.*-changelog.penstock.mode": "quarantine"},
        {**QUARANTINE, "topics.other-changelog.penstock.mode": "enforce"},
    ],
)
def test_a_topic_that_only_a_wildcard_reaches_loses_no_records(file):
    plan = plan_of(file)
    assert plan.for_topic(STREAMS).framework == BY_NAME
    assert not plan.for_topic(STREAMS).losses
    if "topics.*-changelog.penstock.mode" not in file:
        assert plan.for_topic("orders").framework == IF_COMPACTED
        assert plan.for_topic("orders").losses


@pytest.mark.parametrize(
    "line", ["penstock.mode=quarantine", "errors.deadletterqueue.topic.name=changes.bad"]
)
def test_a_topic_that_the_file_names_is_meant(line):
    key, _, value = line.partition("=")
    plan = plan_of({**QUARANTINE, f"topics.{STREAMS}.{key}": value})
    assert plan.for_topic(STREAMS).framework == NO
    assert plan.for_topic(STREAMS).losses


@pytest.mark.parametrize(
    ("own", "framework"),
    [
        ({"penstock.mode": "quarantine"}, NO),
        ({"records.policy.enabled": "true"}, NO),
        ({"penstock.quarantine.max.ratio": "0.5"}, BY_NAME),
        ({"errors.deadletterqueue.topic.name": "${topic}.bad"}, BY_NAME),
    ],
)
def test_a_key_on_the_topic_that_is_about_policies_means_it(own, framework):
    assert plan_of(QUARANTINE).for_topic(STREAMS, own).framework == framework


def test_a_key_that_topics_may_not_have_means_nothing():
    plan = plan_of({**QUARANTINE, "topic.settings.keys.allowed": "penstock.quarantine.*"})
    assert plan.for_topic(STREAMS, {"penstock.mode": "quarantine"}).framework == BY_NAME


def test_the_file_may_allow_losses():
    plan = plan_of({**QUARANTINE, "penstock.quarantine.internal.topics": "true"})
    assert plan.for_topic(STREAMS).framework == NO
    with pytest.raises(ConfigurationError, match=r"penstock\.quarantine\.internal\.topics must be"):
        plan_of({"penstock.quarantine.internal.topics": "yes"})


def test_it_is_a_key_of_the_file_only():
    with pytest.raises(ConfigurationError, match=r"penstock\.quarantine\.internal\.topics"):
        plan_of({**QUARANTINE, "topics.a.penstock.quarantine.internal.topics": "true"})


def test_topics_of_interceptors_and_of_policies_in_quarantine():
    plan = plan_of(
        {
            "policies": "filled",
            "policies.filled.type": "penstock.policies.Required",
            "policies.filled.fields": "a",
            "policies.filled.mode": "quarantine",
            "topics.a*.penstock.policies": "filled",
        }
    )
    plan.set_interceptor_patterns([("a.I", re.compile("^b"))])
    found = {topic: plan.for_topic(topic).framework for topic in ("a", "a-changelog", "b")}
    assert found == {"a": IF_COMPACTED, "a-changelog": BY_NAME, "b": IF_COMPACTED}


@pytest.mark.parametrize("mode", ["enforce", "mark", "observe"])
def test_a_mode_that_loses_no_records_has_no_such_topics(mode):
    plan = plan_of({**VALIDATED, "penstock.mode": mode})
    assert plan.for_topic(STREAMS).framework == NO
