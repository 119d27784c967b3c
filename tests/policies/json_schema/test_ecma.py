"""Regular expressions of ECMA 262 in schemas: found where Node.js finds them."""

import json
from pathlib import Path

import pytest

from penstock.policies import HeaderRequired
from penstock.policies.json_schema.documents import SchemaError
from penstock.policies.json_schema.ecma import translated
from penstock.policies.json_schema.made import DRAFT
from penstock.policies.json_schema.texts import SchemaTexts
from penstock.policy.testing import judge
from tests.policies.json_schema.schemas import check, compiled

NODE = json.loads((Path(__file__).parent / "ecma_verdicts.json").read_text())
"""The output of `run_ecma.mjs`."""


def test_each_is_found_where_node_finds_it(implementation):
    values = [json.dumps(text).encode() for text in NODE["texts"]]
    unknown = []
    for pattern, verdict in NODE["verdicts"].items():
        files = SchemaTexts(json.dumps({"$schema": DRAFT, "pattern": pattern}), {})
        try:
            refused = dict(compiled(files, implementation).refused(values))
        except SchemaError:
            unknown.append(pattern)
            continue
        found = "".join(str(int(place not in refused)) for place in range(len(values)))
        assert found == verdict, pattern
    # The library does not look back over a repeated reference.
    assert len(NODE["verdicts"]) == 1500
    assert all("(?<" in pattern and r"\k" in pattern for pattern in unknown)
    assert len(unknown) == (0 if implementation == "native" else 4)


@pytest.mark.parametrize(
    ("pattern", "good", "bad"),
    [
        (r"^[^/\0]+$", "a", "a/b"),
        (r"^[^/\0]+$", "a b", "a\0"),
        ("^[^]$", "\n", ""),
        (r"^\0$", "\0", "0"),
        (r"^[\b]$", "\b", "b"),
        (r"^(?<y>a)\k<y>$", "aa", "a"),
        (r"^\uD83D\uDE00$", "😀", "😁"),
        (r"^(?=.)\d$", "1", "٣"),
        (r"\bb", "éb", "ab"),
        (r"^[a&&b]$", "&", "c"),
        (r"^[^\ud800-\udfff]$", "é", ""),
        (r"^\cA$", "\1", "A"),
    ],
)
def test_patterns_that_engines_read_otherwise(tmp_path, implementation, pattern, good, bad):
    judged = check(tmp_path, {"pattern": pattern}, implementation=implementation)
    assert judged.objection(json.dumps(good).encode()) is None
    shown = json.dumps(pattern, ensure_ascii=False)
    assert judged.objection(json.dumps(bad).encode()) == f"the value must match {shown}"


@pytest.mark.parametrize("pattern", ["(", "*a", "[z-a]", r"\h", r"\8", "a{2,1}", r"\k<n>", "(?>a)"])
def test_an_error_shows_the_pattern_as_written(tmp_path, implementation, pattern):
    with pytest.raises(SchemaError) as error:
        check(tmp_path, {"pattern": f"[^]|{pattern}"}, implementation=implementation)
    assert json.dumps(f"[^]|{pattern}")[:-1] in str(error.value)


@pytest.mark.parametrize("pattern", [r"\A", "[[:alpha:]]", "(?i)a", r"\_", "{", r"(?<$n>a)\1|\8"])
def test_a_pattern_that_is_not_valid_with_the_flag_u_stays(pattern):
    assert translated(pattern, is_native=True) == pattern


def test_patterns_are_translated_wherever_they_stand(tmp_path, implementation):
    schema = {
        "properties": {"pattern": {"$ref": "#/x-types/pattern"}, "enum": {"pattern": "^[^]$"}},
        "patternProperties": {r"^[\b]": {"const": "[^]"}},
        "x-types": {"pattern": {"pattern": r"^\0$"}},
        "propertyNames": {"anyOf": [{"pattern": "^[a-z]+$"}, {"pattern": r"[\b]"}]},
    }
    judged = check(tmp_path, schema, implementation=implementation)
    for value in ({"pattern": "\0"}, {"enum": "\n"}, {"\bx": "[^]"}):
        assert judged.objection(json.dumps(value).encode()) is None
    for value in ({"pattern": "0"}, {"enum": ""}, {"\bx": "x"}, {"X": 1}):
        assert judged.objection(json.dumps(value).encode()) is not None


def test_a_pattern_of_a_header_is_of_ecma_262():
    configs = {"headers": "trace", "headers.trace.pattern": r"^[^\0]+$"}
    found = judge(
        HeaderRequired,
        [{"headers": {"trace": value}} for value in (b"a", b"a\0")],
        topic="t",
        configs=configs,
    )
    assert [verdict.message is None for verdict in found] == [True, False]


def test_a_pattern_of_a_header_may_have_the_end_of_a_word():
    configs = {"headers": "trace", "headers.trace.pattern": r"\bb"}
    records = [{"headers": {"trace": value.encode()}} for value in ("éb", "ab")]
    found = judge(HeaderRequired, records, topic="t", configs=configs)
    assert [verdict.message is None for verdict in found] == [True, False]


@pytest.mark.parametrize(
    "pattern",
    [
        r"\1" + "0" * 5000,
        "a{" + "1" * 5000 + "}",
        r"\u{" + "0" * 5000 + "41}",
        "[" * 100_000,
        "(" * 100_000,
        r"(a)" * 10_000 + r"\k<n>",
        "(?<n>",
        "\\",
        "[\\",
        r"[a-",
    ],
)
def test_hostile_patterns_stay_as_they_are(pattern):
    assert translated(pattern, is_native=True) == pattern


def test_a_long_pattern_is_translated_in_time_that_grows_with_it():
    assert translated(r"\0" * 20_000, is_native=True) == r"\u{0}" * 20_000
