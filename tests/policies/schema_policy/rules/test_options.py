"""How rules are read."""

import pytest

from penstock.policies.schema_policy.rules.options import RegexEngine, RuleOptions


def test_defaults():
    assert RuleOptions.read({}) == RuleOptions(RegexEngine.RE2, logical_types=True)


def test_values():
    configs = {"cel.regex.engine": " PCRE ", "avro.use.logical.type.converters": "False"}
    assert RuleOptions.read(configs) == RuleOptions(RegexEngine.PCRE, logical_types=False)


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("cel.regex.engine", "java", "cel.regex.engine must be re2 or pcre, not java"),
        ("avro.use.logical.type.converters", "", "must be true or false, not nothing"),
    ],
)
def test_wrong_values(key, value, text):
    with pytest.raises(ValueError, match=text):
        RuleOptions.read({key: value})
