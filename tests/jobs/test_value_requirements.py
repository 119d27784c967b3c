"""What policies of a topic ask of values."""

import pytest

from penstock.jobs.plan import load_plan
from penstock.jobs.value_requirements import value_requirements
from tests.gateways import write_configuration

RULES = {
    "policies": "a",
    "policies.a.type": "penstock.policies.Rules",
    "policies.a.rules.b": "value.x > 0",
    "topics.orders.penstock.policies": "a",
}
OWN = """
from penstock.policy import ProduceRequestInterceptor, RecordValidationPolicy
from penstock.policies import Rules
made = []
class Own(RecordValidationPolicy):
    def __init__(self): made.append(self)
    def validate(self, topic, record): pass
class OfRules(Rules): pass
class Changes(ProduceRequestInterceptor):
    def interceptor_topic_pattern(self): return "orders"
    def process_record(self, key, value, topic, partition, headers): return None
"""


@pytest.fixture
def requirements_of(tmp_path):
    (tmp_path / "asking.py").write_text(OWN)

    def of_topic(properties, topic="orders"):
        plan = load_plan(write_configuration(tmp_path, "none:1", 9192, {**RULES, **properties}))
        return [
            (each.policy, each.mode, each.requirement.where)
            for each in value_requirements(plan, topic)
        ]

    return of_topic


def test_rules_of_a_topic(requirements_of):
    assert requirements_of({}) == [("a", "enforce", "rules.b")]
    assert requirements_of({"policies.a.mode": "observe"}) == [("a", "observe", "rules.b")]
    assert requirements_of({"topics.orders.penstock.mode": "mark"}) == [("a", "mark", "rules.b")]
    assert requirements_of({}, topic="others") == []


def test_values_of_another_format_have_no_columns(requirements_of):
    assert (
        requirements_of({"policies.a.format": "string", "policies.a.rules.b": "value != ''"}) == []
    )


def test_rules_over_batches_are_no_requirements_of_a_value(requirements_of):
    assert (
        requirements_of({"policies.a.rules.b": "count < 5", "policies.a.rules.b.scope": "batch"})
        == []
    )


def test_no_code_of_a_user_is_run(requirements_of, tmp_path):
    with_own = {
        "policies": "a,own,rules",
        "policies.own.type": "asking.Own",
        "policies.rules.type": "asking.OfRules",
        "policies.rules.rules.c": "value.y > 0",
        "topics.orders.penstock.policies": "own,a,rules",
    }
    plan = load_plan(write_configuration(tmp_path, "none:1", 9192, {**RULES, **with_own}))
    import asking

    asking.made.clear()
    assert [each.requirement.where for each in value_requirements(plan, "orders")] == ["rules.b"]
    assert asking.made == []


def test_interceptors_may_add_what_is_missing(requirements_of):
    changed = {"policies": "a,change", "policies.change.type": "asking.Changes"}
    assert requirements_of({**changed, "topics.orders.penstock.policies": "change,a"}) == []
    assert requirements_of({**changed, "topics.orders.penstock.policies": "a"}) == [
        ("a", "enforce", "rules.b")
    ]
