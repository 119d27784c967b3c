"""Timestamps in rules."""

import pytest

from penstock.policies.schema_policy.rules.program import Language
from penstock.policies.schema_policy.rules.values import EvaluationError
from penstock.policies.schema_policy.rules.variables import Variables

LANGUAGE = Language(["message"])


def holds(text, value=None):
    return LANGUAGE.compile(text).holds(Variables({"message": value}))


@pytest.mark.parametrize(
    "text",
    [
        "timestamp.of(message, 'seconds') == timestamp('1970-01-01T00:01:30Z')",
        "timestamp.of(90000, 'millis') == timestamp('1970-01-01T00:01:30Z')",
        "timestamp.of(90000001, 'micros') == timestamp('1970-01-01T00:01:30.000001Z')",
        "timestamp.of(90000000001, 'nanos') == timestamp('1970-01-01T00:01:30.000000001Z')",
        "timestamp.of(-1, 'millis') == timestamp('1969-12-31T23:59:59.999Z')",
        "timestamp.of('1970-01-01T01:01:30+01:00') == timestamp.of(message, 'seconds')",
        "timestamp.of(timestamp(90)) == timestamp(message)",
        "timestamp(message, 0) == timestamp(90) && timestamp( 90000 , 3 ) == timestamp(90)",
        "timestamp(\n90000000,\n6) == timestamp(90)",
        "now > timestamp(message, 9)",
    ],
)
def test_functions(text):
    assert holds(text, 90) is True


@pytest.mark.parametrize(
    "text",
    [
        "timestamp.of(message, 'hours') == now",
        "timestamp.of(message) == now",
        "timestamp.of('2026-01-01T00:00:00') == now",
        "timestamp.of(9223372036854775807, 'seconds') == now",
        "timestamp(message, 4) == now",
    ],
)
def test_expressions_without_a_result(text):
    with pytest.raises(EvaluationError):
        holds(text, 90)


@pytest.mark.parametrize("behind", ["\0zz", "x", "\n", "[Europe/Berlin]"])
def test_a_text_is_nothing_but_a_timestamp(behind):
    rule = "timestamp.of(message) == timestamp('2020-01-01T00:00:00Z')"
    assert holds(rule, "2020-01-01T00:00:00Z") is True
    with pytest.raises(EvaluationError):
        holds(rule, f"2020-01-01T00:00:00Z{behind}")
