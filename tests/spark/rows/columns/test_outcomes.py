"""What conditions can come to: each outcome that CEL has for some value is among them."""

import itertools
import json
from uuid import UUID

import pytest

from penstock.engine.columns import Columns
from penstock.engine.interceptors.policy_batch import PolicyBatch
from penstock.policies.rules.policy import Rules
from penstock.policies.schema_policy.rules.checked import Collection, Constant
from penstock.policy import ClientContext, TopicIdPartition, TopicMetadata
from penstock.spark.rows.columns.outcomes import Outcomes, outcomes_of

ATOMS = ["value.there", "value.gone == 1", "has(value.gone)", "has(value.there)", "true", "false",
         "value.number == 'x'", "value.number != 'x'", "value.number in ['x']", "value.number < 'x'",
         "value.gone.all(x, x > 0)", "has(value.gone.inner)", "[value.gone] == [1]",
         "has(value.gone) ? value.gone == 1 : value.there"]  # fmt: skip
MADE = ["!({0})", "({0}) && ({1})", "({0}) || ({1})", "({0}) ? ({1}) : ({2})", "[{0}] == [{1}]"]


class Parts:
    """A value has `there`, true or false or null, and `number`, but not `gone`."""

    def is_missing(self, path):
        return "gone" in path

    def is_misfit(self, call):
        return call.arguments[-1] in (Constant("x"), Collection((Constant("x"),)))


def compiled(condition):
    policy = Rules()
    policy.configure({"rules.a": f"({condition}) || value.unread == 1"})
    return policy


def outcomes(condition):
    [requirement] = compiled(condition).value_requirements("t", "")
    return outcomes_of(requirement.condition.arguments[0], Parts())


def holds(condition, value):
    policy = compiled(condition)
    topic = TopicMetadata(TopicIdPartition(UUID(int=0), "t", 0), {})
    columns = Columns(1, [0], [None], [json.dumps(value).encode()], [()])
    return not list(policy.validate_batch(topic, PolicyBatch(columns), ClientContext()))


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("value.there", Outcomes.ANY),
        ("value.gone == 1", Outcomes.NONE),
        ("has(value.gone)", Outcomes.FALSE),
        ("has(value.gone.inner)", Outcomes.NONE),
        ("!has(value.gone) || value.gone == 1", Outcomes.TRUE),
        ("value.there && value.gone == 1", Outcomes.FALSE),
        ("value.there || value.gone == 1", Outcomes.TRUE),
        ("topic != 't' || value.gone == 1", Outcomes.TRUE),
        ("topic == 't' ? value.gone == 1 : true", Outcomes.TRUE),
        ("value.gone == 1 ? true : true", Outcomes.NONE),
        ("!(value.gone == 1)", Outcomes.NONE),
        ("value.list.all(x, x == value.gone)", Outcomes.ANY),
        ("value.gone.exists(x, x > 0)", Outcomes.NONE),
        ("size([value.gone]) == 1", Outcomes.NONE),
        ("value.number != 'x'", Outcomes.TRUE),
        ("!(value.number in ['x'])", Outcomes.TRUE),
        ("value.number < 'x'", Outcomes.NONE),
    ],
)
def test_outcomes(condition, expected):
    assert outcomes(condition) == expected


def test_a_condition_that_cel_judges_true_may_be_true():
    """For each condition of one operator, and some of two, over all values."""
    conditions = [*ATOMS]
    for template, *parts in itertools.product(MADE, ATOMS, ATOMS[:3]):
        conditions.append(template.format(*parts, ATOMS[0]))
    conditions += [f"!({condition})" for condition in conditions[:60]]
    values = [{"there": there, "number": 1} for there in (True, False, None)]
    for condition in conditions:
        if any(holds(condition, value) for value in values):
            assert Outcomes.TRUE in outcomes(condition), condition
