"""`matches` as Confluent's client for Java has it."""

import pytest

from penstock.policies.schema_policy.errors import InvalidSchemaError
from penstock.policies.schema_policy.rules.options import RegexEngine
from penstock.policies.schema_policy.rules.program import Language
from penstock.policies.schema_policy.rules.values import EvaluationError
from penstock.policies.schema_policy.rules.variables import Variables

LANGUAGE = Language(["message"])


def holds(text, value, engine=RegexEngine.PCRE):
    return LANGUAGE.compile(text, engine=engine).holds(Variables({"message": value}))


@pytest.mark.parametrize(
    ("pattern", "value", "expected"),
    [
        ("[0-9]+", "123", True),
        ("[0-9]+", "a123", False),
        ("[0-9]+", "123\n", False),
        ("a|b", "ab", False),
        ("^a$", "a", True),
        ("(?i)abc", "ABC", True),
        ("(?=.*[0-9])[a-z0-9]+", "abc1", True),
        ("(?=.*[0-9])[a-z0-9]+", "abc", False),
        ("(?!DROP).*", "DROP TABLE", False),
        (r"(\\w)\\1", "aa", True),
        (r"(\\w)\\1", "aab", False),
        ("(?<=a)b|ab", "ab", True),
    ],
)
def test_the_pattern_is_the_whole_text(pattern, value, expected):
    for text in (f"message.matches('{pattern}')", f"matches(message, '{pattern}')"):
        assert holds(text, value) is expected
    assert holds(f"[message].all(x, x.matches('{pattern}'))", value) is expected


def test_patterns_that_are_no_constants():
    assert holds("message.text.matches(message.pattern)", {"text": "ab", "pattern": "a"}) is False
    assert holds("message.text.matches(message.pattern)", {"text": "ab", "pattern": "a."}) is True
    with pytest.raises(EvaluationError, match="ends with an error"):
        holds("message.text.matches(message.pattern)", {"text": "ab", "pattern": "("})


def test_an_invalid_pattern_is_found_before_a_record_comes():
    with pytest.raises(InvalidSchemaError, match=r"not a regular expression$"):
        holds("message.matches('(?=')", "")


def test_patterns_of_re2_are_found_anywhere():
    assert holds("message.matches('[0-9]+')", "a123", RegexEngine.RE2) is True
    with pytest.raises(InvalidSchemaError, match=r"of RE2; cel\.regex\.engine=pcre supports more"):
        holds("message.matches('(?=a)')", "", RegexEngine.RE2)


def test_a_pattern_that_takes_too_long_has_no_result():
    with pytest.raises(EvaluationError):
        holds("!message.matches('(?:(x+x+)+(?=y)|z)*\\\\1q')", "x" * 60 + "yq")
