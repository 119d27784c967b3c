"""Regular expressions for names of topics."""

import re
from random import Random

import pytest

from penstock.policies import DropRecords, TopicRules
from penstock.policies.topic_patterns import compile_pattern

OTHER_DIALECTS = ["[[:lower:]]+", "[a-z&&[^q]]+", "[a-z--q]+", "[a-z||0-9]", "[[a]b]", "[a~~b]"]


@pytest.mark.parametrize("pattern", OTHER_DIALECTS)
def test_sets_of_other_dialects_are_an_error(pattern):
    with pytest.raises(ValueError, match=r"write the characters, like \[a-z\]"):
        compile_pattern(pattern)
    rules = {"topic.rules.name.pattern": pattern}
    with pytest.raises(ValueError, match=r"name\.pattern must be a regular expression"):
        TopicRules().configure(rules)
    with pytest.raises(ValueError, match="topics must be a regular expression"):
        DropRecords().configure({"headers": "test", "topics": pattern})


def test_a_pattern_that_was_compiled_before_is_refused_too():
    with pytest.warns(FutureWarning):
        re.compile("[[:upper:]]+")
    with pytest.raises(ValueError, match="write the characters"):
        compile_pattern("[[:upper:]]+")


@pytest.mark.parametrize("pattern", ["[a-z]+", r"[\[a]", "[a&b]", "[-a]", "orders|payments", ""])
def test_patterns_of_python_are_accepted(pattern):
    assert compile_pattern(pattern) == re.compile(pattern)


@pytest.mark.parametrize("pattern", ["[a", "(", r"\p{Lower}", "a{99999999999}", "*"])
def test_no_pattern_is_an_error_with_its_reason(pattern):
    with pytest.raises(ValueError, match=r"."):
        compile_pattern(pattern)


def test_generated_sets_match_their_own_characters_or_are_refused():
    random = Random(52)
    for _ in range(1000):
        characters = "".join(random.choices("ab[&|~c", k=random.randint(1, 5)))
        try:
            pattern = compile_pattern(f"[{characters}]")
        except ValueError:
            assert re.search(r"^\[|\[:|&&|\|\||~~", characters), characters
        else:
            assert all(pattern.fullmatch(character) for character in characters)
            assert not re.search(r"&&|\|\||~~", characters[1:]), characters
