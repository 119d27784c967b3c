"""`judge_topic` and `judge_configs`: the verdicts of the gateway, without one."""

import re
from io import StringIO
from pathlib import Path

import javaproperties
import pytest

from penstock.configuration import ConfigurationError
from penstock.policies import ConfigRules, TopicRules
from penstock.policy import (
    AlterConfigPolicy,
    CreateTopicPolicy,
    CreateTopicPolicyWithContext,
    PolicyViolationException,
)
from penstock.policy.testing import judge_configs, judge_topic

RULES = {"topic.rules.partitions.max": "10", "topic.rules.retention.ms.max": "1000"}


class Quota(CreateTopicPolicyWithContext):
    """The example of docs/topics.md."""

    def validate(self, request, context):
        team = request.topic.split(".")[0]
        used = sum(
            topic.num_partitions
            for name, topic in context.topics.items()
            if name.startswith(f"{team}.") and name != request.topic
        )
        count = request.num_partitions or len(request.replicas_assignments)
        if used + count > 100:
            raise PolicyViolationException(f"team {team} has {used} of its 100 partitions")


class Everything(CreateTopicPolicy):
    seen = []

    def validate(self, request):
        self.seen.append(request)


class Named(AlterConfigPolicy):
    def validate(self, request):
        if request.configs.get("retention.ms", "") is None:
            raise PolicyViolationException(f"{request.resource.name} needs retention.ms")


def test_a_topic():
    assert judge_topic(TopicRules, "a", num_partitions=10, configs=RULES).outcome == "accepted"
    refused = judge_topic(TopicRules, "a", num_partitions=11, configs=RULES)
    assert (refused.outcome, refused.code) == ("refused", 44)
    assert "at most 10" in refused.message


def test_the_rules_of_the_guide_refuse_its_topic_with_its_text():
    guide = (Path(__file__).parents[2] / "docs" / "topics.md").read_text()
    rules = javaproperties.load(
        StringIO(re.search(r"```properties\n(.*?)```", guide, re.DOTALL)[1])
    )
    text = re.search(r"Error while executing topic command : (.*)", guide)[1]
    refused = judge_topic(
        TopicRules, "shop.returns", num_partitions=50, replication_factor=3, configs=rules
    )
    assert refused.message == text


def test_with_assignments_the_counts_are_none():
    judge_topic(Everything, "a", replicas_assignments={0: [1, 2]}, topic_configs={"k": "v"})
    assert Everything.seen[-1] == ("a", None, None, {0: (1, 2)}, {"k": "v"})


def test_a_quota():
    topics = {"a.1": (60, 3), "a.2": (30, 3), "b.1": (90, 3)}
    assert judge_topic(Quota, "a.3", num_partitions=10, topics=topics).outcome == "accepted"
    refused = judge_topic(Quota, "a.3", num_partitions=11, topics=topics)
    assert refused.message == "team a has 90 of its 100 partitions"


def test_configs():
    refused = judge_configs(ConfigRules, {"retention.ms": "1001"}, configs=RULES)
    assert (refused.outcome, refused.code) == ("refused", 44)
    assert judge_configs(Named, {"retention.ms": None}).message == "test needs retention.ms"
    assert judge_configs(Named, {"cleanup.policy": "delete"}).outcome == "accepted"


class HasADefault:
    """As policies of records may have it."""

    def validate(self, request, context=None):
        raise PolicyViolationException(str(context and context.principal))


class OptionalOfItsOwn:
    def validate(self, request, strictness="high"):
        raise PolicyViolationException(strictness)


class ByName:
    def validate(self, request, *, context=None):
        """Would let everything pass, since the context has no client."""


def test_a_context_with_a_default_is_a_context():
    verdict = judge_topic(HasADefault, "orders", principal="User:alice")
    assert verdict.message == "User:alice"
    assert judge_configs(HasADefault, {}, principal="User:alice").message == "User:alice"


def test_another_parameter_with_a_default_is_not_a_context():
    assert judge_topic(OptionalOfItsOwn, "orders", principal="User:alice").message == "high"


def test_a_context_that_could_not_be_given_is_refused_at_start():
    with pytest.raises(ConfigurationError, match="must take a request, or a request and a context"):
        judge_topic(ByName, "orders", principal="User:alice")
