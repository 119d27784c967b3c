"""`penstock check`: dead letter topics that a gateway would not write to, or not create."""

from pathlib import Path

import pytest

from penstock.cli.checks import dead_letter_names
from penstock.cli.checks.dead_letter_names import name_warnings
from penstock.configuration.file import read_configuration
from penstock.engine.plans.plan import Plan
from penstock.engine.verdict import ACCEPTED, refused
from tests.engine.plans import QUARANTINE

POLICY = {"create.topic.policy.class.name": "a.P"}


class Policies:
    """The worker with the `CreateTopicPolicy`: it refuses some names."""

    judged: list = []

    def __init__(self, configuration, *, tries_classes):
        assert not tries_classes
        Policies.judged = []

    async def start(self):
        pass

    async def close(self):
        pass

    async def creation(self, creation, _context):
        self.judged.append(creation)
        return refused(44, "not that", "a.P") if creation.topic.startswith("no") else ACCEPTED


@pytest.fixture
def warnings_of(monkeypatch):
    monkeypatch.setattr(dead_letter_names, "TopicPolicies", Policies)

    def check(properties, topics, own=None):
        file = {"upstream.bootstrap.servers": "a:9092", **properties}
        configuration = read_configuration(Path("/f.properties"), file)
        plan = Plan(configuration.policies)
        return list(name_warnings(configuration, plan, topics, own or {}))

    return check


def test_a_policy_judges_the_dead_letter_topics_that_do_not_exist(warnings_of):
    own = {"no": {}, "nothing": {}, "nothing.dead": {}, "yes": {}}
    [line] = warnings_of({**QUARANTINE, **POLICY}, {"no": 4, "nothing": 2, "yes": 3}, own)
    assert line == (
        "warning: errors.deadletterqueue.topic.name: a.P does not accept no.dead with 4 partitions "
        "and 3 replicas, so batches with bad records are refused: not that"
    )
    assert [creation[:4] for creation in Policies.judged] == [
        ("no.dead", 4, 3, None), ("yes.dead", 3, 3, None)
    ]  # fmt: skip
    assert Policies.judged[0].configs == {"max.message.bytes": str(1_048_588 + 65_536)}


def test_globs_whose_dead_letter_topics_have_no_name_yet_are_left_out(warnings_of):
    names = {"topics.n*.errors.deadletterqueue.topic.name": "no.${topic}",
             "topics.x*.errors.deadletterqueue.topic.name": "none"}  # fmt: skip
    found = warnings_of({**QUARANTINE, **POLICY, **names}, {"n*": 1, "x*": 1})
    assert ["none with 1 partitions" in line for line in found] == [True]


def test_topics_that_may_not_have_dead_letters_are_named(warnings_of):
    names = {"errors.deadletterqueue.topic.name": "_${topic}", "audit.topic": "_audit"}
    topics = dict.fromkeys(("audit", "a", "b"), 1)
    policies = {"policies": "first", "policies.first.type": "KeyRequired"}
    own = {"audit": {}, "a": {}, "b": {}, "_a": {"penstock.policies": "first"}, "_b": {}}
    found = warnings_of({**QUARANTINE, **policies, **names}, topics, own)
    refused = "batches with bad records are refused: errors.deadletterqueue.topic.name: "
    whys = ("_a, the dead letter topic of a, has its own policies (penstock.policies)",
            "the dead letter topic of audit would be _audit, the topic of audit.topic")  # fmt: skip
    assert found == [
        f"warning: topic {topic}: {refused}{why}; name another topic"
        for topic, why in zip(("a", "audit"), whys, strict=True)
    ]


def test_without_a_policy_no_topic_is_judged(warnings_of):
    assert warnings_of(QUARANTINE, {"no": 1}, {"no": {}}) == []
