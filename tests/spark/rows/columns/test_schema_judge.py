"""Columns are judged as their texts are, or not at all."""

import decimal
import json
import random

import pyarrow as pa
import pytest

from penstock.policies.json_schema.column_schema import ColumnSchema
from penstock.policies.json_schema.made import compile_made
from penstock.spark.rows.columns.row_texts import row_texts
from penstock.spark.rows.columns.schema_judge import SchemaJudge
from tests.spark.rows.columns import random_columns

pytestmark = pytest.mark.unit


def judge(schema, *, draft=2020, formats=False, keeps_nulls=True, longest=float("inf")):
    column_schema = ColumnSchema(schema, draft, formats, None, longest)
    return SchemaJudge(column_schema, keeps_nulls=keeps_nulls)


def refused_texts(schema, array, *, keeps_nulls):
    """Return the positions of rows that the evaluator of texts refuses; None without a schema."""
    texts = row_texts(array, keeps_nulls=keeps_nulls).to_pylist()
    try:
        check = compile_made(schema)
    except ValueError:
        return None
    return {position for position, _ in check.refused([text.encode() for text in texts])}


def compare(cases, seed):
    """Judge random columns in both ways; return the numbers of rows, of fits and of known fits."""
    rng = random.Random(seed)
    rows = fits = known = 0
    for _ in range(cases):
        array, schema = random_columns.columns(rng), random_columns.schema(rng)
        keeps_nulls = rng.random() < 0.6
        refused = refused_texts(schema, array, keeps_nulls=keeps_nulls)
        if refused is None:
            continue
        own = judge(schema, keeps_nulls=keeps_nulls).fits(array).to_pylist()
        opposite = {"not": {**schema, "$defs": {}}, "$defs": schema["$defs"]}
        others = judge(opposite, keeps_nulls=keeps_nulls).fits(array).to_pylist()
        for position in range(len(array)):
            about = (json.dumps(schema), array[position].as_py(), keeps_nulls)
            assert not (own[position] and position in refused), about
            assert not (others[position] and position not in refused), about
        rows += len(array)
        fits += len(array) - len(refused)
        known += sum(own)
    return rows, fits, known


def test_random_columns_never_get_another_verdict_than_their_texts():
    _, fits, known = compare(60, seed=3)
    assert known > fits * 0.9


@pytest.mark.thorough
@pytest.mark.parametrize("schemas", [1000, pytest.param(5000, marks=pytest.mark.slow)])
def test_rows_never_get_another_verdict_than_their_texts(schemas):
    rows, fits, known = compare(schemas, seed=11)
    assert rows > 20 * schemas
    assert known > fits * 0.9


ROWS = pa.array([{"a": 1, "t": "x"}, {"a": None, "t": "é" * 9}])


@pytest.mark.parametrize(
    ("schema", "draft", "formats"),
    [
        ({"properties": {"t": {"pattern": "(?=x)"}}}, 2020, False),
        ({"properties": {"t": {"pattern": "."}}}, 2020, False),
        ({"properties": {"t": {"format": "email"}}}, 2020, True),
        ({"properties": {"a": {"const": 1}}}, 4, False),
        ({"properties": {"a": {"unknown": 1}}}, 2020, False),
        ({"$ref": "other.json"}, 2020, False),
        ({"properties": {"a": {"$id": "x"}}}, 2020, False),
        ({"minProperties": 1}, 2020, False),
        ({"properties": {"a": {"enum": list(range(9000))}}}, 2020, False),
    ],
)
def test_keywords_without_a_verdict(schema, draft, formats):
    own = judge(schema, draft=draft, formats=formats)
    assert not own.knows(ROWS.slice(0, 1))
    assert own.fits(ROWS).to_pylist() == [False, False]


def test_keywords_beside_a_reference_count_since_draft_2019():
    schema = {"properties": {"a": {"$ref": "#/definitions/any", "type": "null"}},
              "definitions": {"any": {}}}  # fmt: skip
    assert judge(schema, draft=7).fits(ROWS).to_pylist() == [True, True]
    assert judge(schema, draft=2020).fits(ROWS).to_pylist() == [False, True]


def test_formats_that_are_not_judged_and_notes_say_nothing():
    schema = {"$id": "https://a.b/c", "title": "x", "properties": {"t": {"format": "email"}}}
    assert judge(schema).knows(ROWS.slice(0, 1))
    assert judge(schema).fits(ROWS).to_pylist() == [True, True]


def test_long_texts_are_not_judged():
    assert judge(True, longest=1000).fits(ROWS).to_pylist() == [True, True]
    assert judge(True, longest=50).fits(ROWS).to_pylist() == [False, False]


def test_items_that_take_many_steps_are_not_judged():
    rows = pa.array([{"l": [1, 2]}])
    assert judge({"properties": {"l": {"items": {"enum": [1, 2]}}}}).fits(rows).to_pylist() == [
        True
    ]
    schema = {"properties": {"l": {"items": {"enum": list(range(100))}}}}
    assert judge(schema).fits(rows).to_pylist() == [False]


LONG = pa.array([decimal.Decimal("9007199254740993.00")], pa.decimal128(20, 2))
EMBEDDED = {
    "properties": {"a": {"$ref": "#/$defs/s/properties/b"}},
    "$defs": {
        "s": {"$id": "http://x/s", "properties": {"b": {"$ref": "#/$defs/c"}},
              "$defs": {"c": {"type": "number"}}},
        "c": {},
    },
}  # fmt: skip
MANY = {
    "allOf": [
        {"properties": {"a": {"items": {"allOf": [{"minimum": -i - j} for j in range(14)]}}}}
        for i in range(4)
    ]
}


@pytest.mark.parametrize(
    ("schema", "column"),
    [
        ({"properties": {"a": {"minimum": 2**53 + 1}}}, LONG),
        ({"properties": {"a": {"const": 2**53 + 1}}}, LONG),
        (EMBEDDED, pa.array(["x"])),
        (MANY, pa.array([[1] * 5000] * 300)),
    ],
)
def test_columns_whose_text_is_refused_do_not_fit(schema, column):
    rows = pa.StructArray.from_arrays([column], ["a"])
    assert refused_texts(schema, rows, keeps_nulls=True)
    assert not any(judge(schema).fits(rows).to_pylist())


def test_the_decimal_context_of_a_process_does_not_matter():
    rows = pa.StructArray.from_arrays([pa.array([1234561, 1234564])], ["a"])
    with decimal.localcontext(prec=3):
        fits = judge({"properties": {"a": {"minimum": 1234564}}}).fits(rows)
    assert fits.to_pylist() == [False, True]


def test_a_chain_of_references_ends_soon():
    chain = {str(n): {"allOf": [{"$ref": f"#/$defs/{n + 1}"}] * 2} for n in range(60)}
    schema = {"properties": {"a": {"$ref": "#/$defs/0"}}, "$defs": {**chain, "60": {}}}
    rows = pa.StructArray.from_arrays([pa.array([1])], ["a"])
    assert judge(schema).fits(rows).to_pylist() == [False]


def test_keys_of_either_kind_of_string_are_escaped():
    for kind in (pa.string(), pa.large_string()):
        column = pa.array([[('a"b', 1)]], pa.map_(kind, pa.int64()))
        rows = pa.StructArray.from_arrays([column], ["m"])
        assert row_texts(rows, keeps_nulls=True).to_pylist() == ['{"m":{"a\\"b":1}}']
