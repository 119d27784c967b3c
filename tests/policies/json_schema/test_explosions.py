"""Small schemas that mean a lot: their reasons would take gigabytes."""

import json
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from penstock.policies.json_schema.documents import SchemaError
from penstock.policies.json_schema.features import MAX_EXPLAINED, MAX_SCHEMAS
from tests.policies.json_schema.schemas import check

MEMORY = 2 * 2**30
CPU_S = 60


def doubling(levels: int, keyword: str = "anyOf", **beside: object) -> dict[str, object]:
    """A schema in which each level asks twice for the next one; 85 bytes a level."""
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


def judge(text: str) -> None:
    """Judge by a schema, as a process that may be lost; print what it says."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))
    with tempfile.TemporaryDirectory() as folder:
        try:
            made = check(Path(folder), json.loads(text))
        except SchemaError as error:
            print("schema", error)
        else:
            for value in ("1", '"text"', "{}"):
                print(made.objection(value.encode(), "value"))


@pytest.mark.system
@pytest.mark.parametrize("keyword", ["anyOf", "oneOf"])
@pytest.mark.parametrize("beside", [{}, RECURSIVE], ids=["", "recursive"])
@pytest.mark.parametrize("levels", [13, 20, 60])
def test_a_small_schema_does_not_end_the_process_that_reads_it(levels, keyword, beside):
    schema = json.dumps(doubling(levels, keyword, **beside))
    code = "import sys; from tests.policies.json_schema.test_explosions import judge; judge(sys.stdin.read())"
    ran = subprocess.run(
        [sys.executable, "-c", code],
        input=schema,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    if 2**levels > MAX_SCHEMAS:
        assert f"more than {MAX_SCHEMAS} schemas" in ran.stdout
    else:
        number, text, _ = ran.stdout.splitlines()
        assert number.startswith("the value does not fit; where is not said")
        assert (text == "None") == (keyword == "anyOf")


def test_reasons_are_given_as_long_as_they_are_few(tmp_path):
    few, many = check(tmp_path, doubling(9)), check(tmp_path, doubling(10))
    assert few.features.in_place <= MAX_EXPLAINED < many.features.in_place
    assert few.objection(b"1", "value") == "the value fits no schema of anyOf"
    assert many.objection(b"1", "value").startswith("the value does not fit; ")
    assert many.objection(b'"text"', "value") is None


def test_what_is_inside_is_another_value(tmp_path):
    schema = {"properties": {f"p{n}": {"anyOf": [{"type": "string"}] * 10} for n in range(500)}}
    made = check(tmp_path, schema)
    assert made.features.in_place <= 11
    assert "/p7" in made.objection(b'{"p7": 1}', "value")
