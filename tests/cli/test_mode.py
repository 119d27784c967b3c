"""What `check` says of the mode of a topic or of a glob."""

import pytest

from penstock.cli.checks.mode import mode_of
from tests.engine.plans import QUARANTINE, VALIDATED, plan_of

OBSERVED = ", observed: nothing is refused"
MODE = "penstock.mode"


def of_topic(properties, topic="t"):
    plan = plan_of(properties)
    return mode_of(plan, topic, plan.for_topic(topic))


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        (VALIDATED, ""),
        ({**VALIDATED, MODE: "observe"}, OBSERVED),
        ({**VALIDATED, "topics.t.penstock.mode": "observe"}, OBSERVED),
        ({**VALIDATED, "topics.u.penstock.mode": "observe"}, ""),
        (
            {**VALIDATED, MODE: "mark"},
            ", marked: bad records are stored, with headers that say why",
        ),
        (QUARANTINE, ", in quarantine: bad records go to t.dead"),
        (
            {**QUARANTINE, "errors.deadletterqueue.topic.name": "bad.${topic}"},
            ", in quarantine: bad records go to bad.t",
        ),
    ],
)
def test_a_topic(properties, words):
    assert of_topic(properties) == words


def test_a_topic_of_dead_letters_is_not_judged():
    assert of_topic(QUARANTINE, "t.dead") == ", not judged: it holds dead letters"


@pytest.mark.parametrize(
    ("mode", "words"),
    [
        ("quarantine", ", in quarantine: bad records go to t.dead"),
        ("mark", ", marked: bad records are stored, with headers that say why"),
    ],
)
def test_a_policy_with_a_mode_of_its_own_beside_observed_policies(mode, words):
    properties = {
        **VALIDATED, MODE: "observe", "policies": "p", "policies.p.type": "KeyRequired",
        "policies.p.mode": mode, "topics.t.penstock.policies": "p",
    }  # fmt: skip
    assert of_topic(properties) == f", observed, but for policies with a mode of their own{words}"


@pytest.mark.parametrize(("mode", "words"), [("observe", OBSERVED), ("enforce", "")])
def test_a_glob_without_policies_of_records(mode, words):
    plan = plan_of({"topics.a-*.penstock.mode": mode})
    assert mode_of(plan, "a-*", None) == words
    assert mode_of(plan, "b-*", None) == ""
