"""The topics that are known before records arrive."""

from dataclasses import replace
from uuid import UUID

import pytest
from structlog.testing import capture_logs

from penstock.configuration.topic_keys import TopicDefault
from penstock.engine.plans.plan import Plan
from penstock.engine.topic_configs.index import UnreadableTopicConfigsError
from penstock.gateway.admin.known_topics import KNOWN_MAX, validated_topics
from penstock.gateway.admin.topic_configs import TopicConfigs
from tests.engine.chains import CONFIGURATION
from tests.gateway.listed_topics import ListedTopics

KEY = "record.validation.policy"


def plan(*globs):
    defaults = tuple(TopicDefault(glob, KEY, "x") for glob in globs)
    return Plan(
        replace(CONFIGURATION, record_validation_policy_class_name="P", topic_defaults=defaults)
    )


class Own(TopicConfigs):
    """Topics whose names begin with `own` have their own keys."""

    def names(self, topic):
        return topic.startswith("own")

    def of(self, topic, topic_id):
        assert topic_id == UUID(int=len(topic))
        if topic == "own-unreadable":
            raise UnreadableTopicConfigsError("?")
        return {} if topic == "own-nothing" else {KEY: topic}


async def found(plan, *names):
    return [topic.topic for topic in await validated_topics(plan, Own(), ListedTopics(*names))]


async def test_the_order_is_topics_of_the_file_then_with_configs_then_matched_by_a_glob():
    names = ("a-1", "b", "own-2", "own-1", "own-nothing", "own-unreadable", "__consumer_offsets")
    assert await found(plan("orders", "a-*", "own-unr*"), *names) == [
        "orders", "own-1", "own-2", "a-1",
    ]  # fmt: skip


async def test_settings_of_a_topic_are_in_its_plan():
    (only,) = await validated_topics(plan(), Own(), ListedTopics("own-1", "b"))
    assert (only.validation_policy, only.validation_setting) == ("P", "own-1")


async def test_the_number_of_known_topics_is_bounded():
    names = [f"t{number}" for number in range(KNOWN_MAX + 10)]
    assert await found(plan("orders", "*"), *names) == ["orders", *sorted(names)[: KNOWN_MAX - 1]]


async def test_if_the_cluster_does_not_respond_topics_of_the_file_are_known():
    with capture_logs() as logged:
        assert await found(plan("orders", "a-*"), "away") == ["orders"]
    assert [event["event"] for event in logged] == ["the cluster's topics are not known"]


@pytest.mark.parametrize("names", [(), ("b",)])
async def test_there_may_be_no_known_topics(names):
    assert await found(plan("a-*"), *names) == []
