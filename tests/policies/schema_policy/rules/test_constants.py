"""Constants that never have a result, in conditions: an error at start."""

import random

import pytest

from penstock.policies import Rules
from penstock.policies.schema_policy.errors import InvalidSchemaError
from penstock.policies.schema_policy.rules.program import Language
from penstock.policies.schema_policy.rules.values import EvaluationError
from penstock.policies.schema_policy.rules.variables import Variables


def why_not(expression):
    """Return the error at start, without its frame; empty if there is none."""
    try:
        Rules().configure({"rules.r": expression})
    except ValueError as error:
        text = str(error).removeprefix("rules.r: its condition ")
        return text.partition("; it may read")[0]
    return ""


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ('timestamp > now - duration("7d")', 'has duration("7d"), which never has a result: its units'),
        ('timestamp > timestamp("2024-01-01")', 'has timestamp("2024-01-01"), which never has a'),
        ('value.l.all(x, x.t > duration("P1D"))', 'has duration("P1D"), which never has a result'),
        ('has(value.a) && value.a > int("abc")', 'has int("abc"), which never has a result'),
        ("value.a > 1 / 0", "has 1 / 0, which never has a result"),
        ("value.a in [1, 2 % 0]", "has 2 % 0, which never has a result"),
        ("value.a > [1, 2][2]", "has [1, 2][2], which never has a result"),
        ('value.a > {"a": 1}.b', "has {…}.b, which never has a result"),
        ('value.s == "abc".substring(9)', 'has "abc".substring(9), which never has a result'),
        ('decimal(value.s) == decimal("x")', 'has decimal("x"), which never has a result'),
        ('timestamp.getHours("Europe/Berln") > 5', 'has timestamp.getHours("Europe/Berln"), which'),
        ('timestamp.of(value.t, "milis") > now', 'has timestamp.of(value.t, "milis"), which never'),
        ('"%s %q".format([value.a]) == ""', 'has "%s %q".format([value.a]), which never has a result'),
        ('value.s.matches("(?=a)")', "has a pattern that is not a regular expression of RE2; it has"),
    ],
)  # fmt: skip
def test_a_constant_without_a_result_is_an_error_at_start(expression, message):
    assert why_not(expression).startswith(message)


@pytest.mark.parametrize(
    "expression",
    [
        'timestamp > now - duration("168h")',
        'timestamp > timestamp("2024-01-01T00:00:00Z")',
        'timestamp.getHours("Europe/Berlin") > 5 && timestamp.getHours() > 5',
        'timestamp.of(value.t, "millis") > now',
        '"%s %.2f%%".format([value.a, 1.5]) == ""',
        "value.a + 1.5 * 2 > 9223372036854775807 + 1",
        "math.ceil(1) < value.a",
        "type(value.a) == int",
        'value.a in {"a": 1} && value.a > {"a": 1}.a',
        'value.s.matches("^a")',
    ],
)
def test_other_constants_are_taken(expression):
    assert why_not(expression) == ""


def test_durations_as_they_are_refused_for_each_record():
    """Any text of a duration is an error at start if, and only if, no record has a result."""
    numbers = random.Random(7)
    language = Language(("value", "text"), of_file=True)
    program = language.compile("value.a < 1 || duration(text) > duration('0s')")
    seen = {True: 0, False: 0}
    for _ in range(1000):
        parts = [f"{numbers.choice(['', '-', '1', '7', '1.5', '.5'])}{unit}" for unit in numbers.choices(
            ["h", "m", "s", "ms", "us", "ns", "d", "w", "", " ", "H"], [9, 9, 9, 2, 2, 2, 1, 1, 1, 1, 1],
            k=numbers.randint(1, 3))]  # fmt: skip
        text = "".join(parts)
        try:
            program.holds(Variables({"value": {"a": 1}, "text": text}))
            works = True
        except EvaluationError:
            works = False
        try:
            language.compile(f'value.a < 1 || duration("{text}") > duration("0s")')
            is_taken = True
        except InvalidSchemaError:
            is_taken = False
        assert is_taken == works, text
        seen[works] += 1
    assert min(seen.values()) > 100


def test_rules_of_a_registry_are_taken_as_they_are():
    program = Language(("value",)).compile('value.a > 1 || now > now - duration("7d")')
    assert program.holds(Variables({"value": {"a": 2}})) is True
