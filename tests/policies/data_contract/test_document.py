"""A contract's file: what its words are."""

import json
from pathlib import Path

import pytest

from penstock.policies.data_contract.document import read_contract

NODE = json.loads((Path(__file__).parent / "yaml_values.json").read_text())
"""The output of `run_yaml.mjs`."""
KINDS = {bool: "boolean", int: "int", float: "float", str: "string", type(None): "null"}
HEAD = "{apiVersion: v3.1.0, kind: DataContract, id: c, version: 1.0.0, status: active, "


def enumerated(folder, text):
    """Return the values that a contract lists."""
    schema = f"schema: [{{name: o, properties: [{{name: a, enum: {text}}}]}}]}}"
    (folder / "c.yaml").write_text(HEAD + schema)
    return read_contract(folder, "c.yaml").objects["o"]["properties"][0]["enum"]


def test_words_are_read_as_yaml_1_2_has_them(tmp_path):
    words = list(NODE)
    values = enumerated(tmp_path, "[" + ", ".join(words) + "]")
    assert len(values) == len(words) == 1500
    for word, value in zip(words, values, strict=True):
        kind, text = NODE[word]
        assert KINDS[type(value)] == kind, word
        if kind == "float":
            assert value == float(text), word
        elif kind in {"int", "string"}:
            assert str(value) == text, word


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("[DE, NO, SE]", ["DE", "NO", "SE"]),
        ("[08:30:00, 2024-01-01, 1_000, 0o17, 017]", ["08:30:00", "2024-01-01", "1_000", 15, 17]),
        ("[-.INF, .inf]", [float("-inf"), float("inf")]),
        ("[!!str 1, !!int 0x1f, null, ~]", ["1", 31, None, None]),
        ("['no', \"true\"]", ["no", "true"]),
    ],
)
def test_plain_words_dates_and_numbers(tmp_path, text, values):
    assert enumerated(tmp_path, text) == values


def test_a_mapping_may_be_merged(tmp_path):
    text = HEAD + (
        "description: {purpose: &p p}, schema: [&o {name: o, properties: []}, "
        "{<<: *o, name: other}]}"
    )
    (tmp_path / "c.yaml").write_text(text)
    assert read_contract(tmp_path, "c.yaml").objects["other"] == {"name": "other", "properties": []}
