"""CEL's own conformance tests, with a column instead of their first literal. Run by `make suites`."""

import json
import re
from decimal import Decimal

import pyarrow as pa
import pytest

from penstock.policies import Rules
from penstock.spark.rows.columns.schema_judge import SchemaJudge
from tests.suites.cel_spec import specification

pytestmark = pytest.mark.suites

_LITERAL = r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?|'[^'\\]*'|\"[^\"\\]*\"|true|false|null"
_CASE = re.compile(rf"(?:dyn\((?P<dyn>{_LITERAL})\)|(?P<own>{_LITERAL}))(?P<rest>(?: |\.[a-z]).*)")
_JUDGED_LEAST = 250


def arrays(literal):
    """Yield columns of each type that have the value of a literal."""
    text = literal.replace("'", '"') if literal.startswith("'") else literal
    value = json.loads(text)
    if value is None or isinstance(value, (bool, str)):
        yield pa.array([value], None if value is not None else pa.string())
        return
    if isinstance(value, float) or abs(value) <= 2**53:
        yield pa.array([float(value)])
    if isinstance(value, int) and -(2**63) <= value < 2**63:
        yield pa.array([value])
    for kind in (pa.decimal128(12, 2), pa.decimal128(38, 10)):
        try:
            yield pa.array([Decimal(text)], kind)
        except pa.ArrowInvalid:
            continue


def is_certain(condition, array):
    """Return whether a condition is certainly true of a column; None if it needs CEL."""
    rules = Rules()
    rules.configure({"rules.r": condition})
    schema = rules.column_schema("rows", "")
    if isinstance(schema, str):
        return None
    rows = pa.StructArray.from_arrays([array], ["x"])
    return SchemaJudge(schema, keeps_nulls=True).fits(rows)[0].as_py()


def verdicts():
    """Yield each case that columns judge, whether it is certain, and whether it is expected."""
    for case in specification().cases():
        found = _CASE.fullmatch(case.test.expr)
        if found is None or case.test.value.WhichOneof("kind") != "bool_value":
            continue
        condition = f"value.x{found['rest']}"
        expected = case.test.value.bool_value
        for array in arrays(found["dyn"] or found["own"]):
            for text, outcome in ((condition, expected), (f"!({condition})", not expected)):
                try:
                    certain = is_certain(text, array)
                except ValueError:  # no condition of a policy
                    continue
                if certain is not None:
                    yield f"{case.name}: {text} of {array.type}", certain, outcome


def test_columns_give_the_results_of_the_specification():
    all_verdicts = list(verdicts())
    wrong = [name for name, certain, expected in all_verdicts if certain and not expected]
    assert not wrong
    known = sum(certain for _, certain, _ in all_verdicts)
    print(f"CEL in columns: {known} true of {len(all_verdicts)}")
    assert known >= _JUDGED_LEAST
