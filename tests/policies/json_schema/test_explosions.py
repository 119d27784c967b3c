"""Small schemas that mean a lot: their reasons would take gigabytes."""

import json
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from penstock.policies.explanations import MOST, NO_REASON
from penstock.policies.json_schema.documents import SchemaError
from penstock.policies.json_schema.work import MAX_EXPLAINED, MAX_SCHEMAS
from tests.policies.json_schema.schemas import IMPLEMENTATIONS, check

MEMORY = 2 * 2**30
CPU_S = 60


def doubling(levels: int, keyword: str = "anyOf", **beside: object) -> dict[str, object]:
    """A schema in which each level refers twice to the next level; 85 bytes a level."""
    parts: dict[str, object] = {
        f"l{n}": {keyword: [{"$ref": f"#/definitions/l{n + 1}"}] * 2} for n in range(levels)
    }
    parts[f"l{levels}"] = {"type": "string"}
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "definitions": parts,
        "allOf": [{"$ref": "#/definitions/l0"}],
        **beside,
    }


RECURSIVE = {"properties": {"a": {"$ref": "#"}}}


def judge(text: str, implementation: str) -> None:
    """Judge by a schema, in a process that may be lost; print the result."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))
    with tempfile.TemporaryDirectory() as folder:
        try:
            made = check(Path(folder), json.loads(text), implementation=implementation)
        except SchemaError as error:
            print("schema", error)
        else:
            for value in ("1", '"text"', "{}"):
                print(made.objection(value.encode()))


@pytest.mark.cases(6)
@pytest.mark.system
@pytest.mark.parametrize("keyword", ["anyOf", "oneOf"])
@pytest.mark.parametrize("beside", [{}, RECURSIVE], ids=["", "recursive"])
@pytest.mark.parametrize("levels", [13, 20, 60])
def test_a_small_schema_does_not_end_the_process_that_reads_it(
    levels, keyword, beside, implementation
):
    schema = json.dumps(doubling(levels, keyword, **beside))
    code = (
        "import sys; from tests.policies.json_schema.test_explosions import judge; "
        "judge(sys.stdin.read(), sys.argv[1])"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code, implementation],
        input=schema,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    if implementation == "library" and 2**levels > MAX_SCHEMAS:
        assert f"more than {MAX_SCHEMAS} schemas" in ran.stdout
        return
    number, text, _ = ran.stdout.splitlines()
    reason = NO_REASON if implementation == "library" else f"schema of {keyword}"
    assert reason in number or f"exactly one {reason}" in number
    assert (text == "None") == (keyword == "anyOf")


def test_a_deep_schema_does_not_end_the_process_either(tmp_path, implementation):
    for levels in (100, 1000, 100_000):
        for text in ('{"items":' * levels + "{}" + "}" * levels,
                     '{"anyOf":[' * levels + "{}" + "]}" * levels):  # fmt: skip
            if levels == 100:
                made = check(tmp_path, text, implementation=implementation)
                assert made.objection(b"[[1]]") is None
            else:
                with pytest.raises(SchemaError):
                    check(tmp_path, text, implementation=implementation)


def test_reasons_are_given_as_long_as_they_are_few(tmp_path):
    few = check(tmp_path, doubling(9), implementation="library")
    many = check(tmp_path, doubling(10), implementation="library")
    assert few.check.work.in_place <= MAX_EXPLAINED < many.check.work.in_place
    assert few.objection(b"1") == "the value fits no schema of anyOf"
    assert many.objection(b"1") == f"the value {NO_REASON}"
    assert many.objection(b'"text"') is None


def test_an_inner_value_is_another_value(tmp_path):
    schema = {"properties": {f"p{n}": {"anyOf": [{"type": "string"}] * 10} for n in range(500)}}
    made = check(tmp_path, schema, implementation="library")
    assert made.check.work.in_place <= 11
    assert "/p7" in made.objection(b'{"p7": 1}')


RECURSIVE_ANY = {"anyOf": [{"type": "integer"}, {"type": "array", "items": {"$ref": "#"}}]}


def grown(levels: int, width: int) -> bytes:
    """An array of arrays and so on, at the end of which a value does not fit."""
    row = ",".join(["[1,2,3]"] * width)
    return ("[" * levels + row + ',"x"' + "]" * levels).encode()


def test_an_explanation_is_bounded(tmp_path, implementation):
    """A reason for each of these texts, of 197 KB that deflate to 1.3 KB, would take seconds."""
    judged = check(tmp_path, RECURSIVE_ANY, implementation=implementation)
    texts = [grown(100, 24_000)] * 20
    reason = {"library": NO_REASON, "native": "fits no schema of anyOf"}[implementation]
    assert list(judged.check.refused(texts)) == [(at, reason) for at in range(20)]


def test_a_hundred_refusals_of_a_batch_are_explained_if_that_takes_work(tmp_path):
    judged = check(tmp_path, {"anyOf": [{"type": "integer"}]}, implementation="library")
    texts = [text for _, text in judged.check.refused([b'"x"'] * 150)]
    assert texts == ["fits no schema of anyOf"] * MOST + [NO_REASON] * 50
    judged = check(tmp_path, {"type": "integer"}, implementation="library")
    texts = [text for _, text in judged.check.refused([b'"x"'] * 150)]
    assert texts == ["must be of type integer"] * 150


@pytest.mark.skipif("native" not in IMPLEMENTATIONS, reason="native/ is not built")
def test_a_text_that_takes_too_much_work_is_refused(tmp_path):
    """Alternatives without an end, none of which is remembered: earlier values count."""
    inner = {"oneOf": [{"$ref": f"#/$defs/{n}"} for n in range(8)]}
    branches = {str(n): {"properties": {"a": inner, f"p{n}": {}}} for n in range(8)}
    schema = {"$defs": branches, "anyOf": [inner] * 8, "unevaluatedProperties": False}
    many = {"$defs": {"e": {"enum": [[n] for n in range(3000)]}}, "items": {"$ref": "#/$defs/e"}}
    judged = check(tmp_path, many, implementation="native")
    reason = judged.objection(b"[" + b"[2999]," * 200_000 + b"1]")
    assert reason == "the value takes too much work to judge by its schema"
    judged = check(tmp_path, schema, implementation="native")
    assert judged.objection(b'{"b":1}') == "the value fits no schema of anyOf"


BACK = r"(.*)(.*)(.*)\1x\2|forbidden"
"""A pattern that goes back more often than it may, in a text of forty letters."""
LONG = b"a" * 40 + b"forbidden"


@pytest.mark.skipif("native" not in IMPLEMENTATIONS, reason="native/ is not built")
@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"pattern": BACK}, b'"%s"' % LONG),
        ({"not": {"pattern": BACK}}, b'"%s"' % LONG),
        ({"if": {"pattern": BACK}, "then": False}, b'"%s"' % LONG),
        ({"patternProperties": {BACK: False}}, b'{"%s": 1}' % LONG),
    ],
)
def test_a_pattern_that_is_given_up_lets_nothing_pass(tmp_path, schema, text):
    judged = check(tmp_path, schema, implementation="native")
    assert judged.objection(text) == "the value takes too much work to judge by its schema"
    assert not judged.check.all_fit([text])


def test_the_library_agrees(tmp_path):
    judged = check(tmp_path, {"pattern": r"^(?=.*a)(\w+\s?)*\1$"}, implementation="library")
    reason = judged.objection(b'"' + b"a" * 40 + b'!"')
    assert reason == "the value takes too much work to judge by its schema"


MANY = json.dumps({f"k{n}": 0 for n in range(80_000)}).encode()


@pytest.mark.skipif("native" not in IMPLEMENTATIONS, reason="native/ is not built")
@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"allOf": [{"properties": {"zz": True}}] * 2000}, MANY),
        ({"allOf": [{"not": {"const": "x"}}] * 2000}, b'"' + b"\\u0041" * 160_000 + b'"'),
        ({"allOf": [{"minLength": 500_000}] * 2000}, ('"' + "é" * 500_000 + '"').encode()),
    ],
    ids=["properties", "escapes", "characters"],
)
def test_the_values_that_a_keyword_reads_count(tmp_path, schema, text):
    judged = check(tmp_path, schema, implementation="native")
    assert not judged.check.all_fit([text])  # it gives up; without counting it would continue
