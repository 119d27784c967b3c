"""Schemas and contracts that are pickled with their content judge without their files."""

import json
import pickle
import shutil

import pytest

from penstock.policies import DataContract, JsonSchema
from penstock.policies.given import GivenContract, GivenSchema
from penstock.policy.testing import judge

pytestmark = pytest.mark.unit
SCHEMA = {"properties": {"amount": {"type": "number", "minimum": 0}}}
CONTRACT = """
apiVersion: v3.1.0
kind: DataContract
id: orders
version: 1.0.0
status: active
schema:
  - name: orders
    properties:
      - {name: id, logicalType: integer, required: true}
"""
VALUES = [b'{"amount": 1}', b'{"amount": -1}', b'{"amount": "1"}', b"{", b'{"a": {"b": 1}}', None]


def texts(policy, **configs):
    return [verdict.message for verdict in judge(policy, VALUES, **configs)]


def test_a_mapping_judges_as_its_file(tmp_path):
    (tmp_path / "s.json").write_text(json.dumps(SCHEMA))
    configs = {"schema": "s.json", "json.schema.folder": str(tmp_path)}
    expected = texts(JsonSchema, configs=configs)
    policy = pickle.loads(pickle.dumps(GivenSchema.of(SCHEMA)))
    assert texts(policy) == expected
    assert [text is None for text in expected] == [True, False, False, False, True, True]


def test_a_file_is_sent_with_those_that_it_refers_to(tmp_path):
    folder = tmp_path / "schemas"
    folder.mkdir()
    (folder / "order.json").write_text('{"properties": {"amount": {"$ref": "parts/amount.json"}}}')
    (folder / "parts").mkdir()
    (folder / "parts" / "amount.json").write_text('{"$ref": "number.json#/$defs/positive"}')
    (folder / "parts" / "number.json").write_text(
        '{"$id": "https://example.com/number", "$defs": {"positive": {"minimum": 0}}}'
    )
    data = pickle.dumps(GivenSchema.of(folder / "order.json"))
    shutil.rmtree(folder)
    assert [text is None for text in texts(pickle.loads(data))] == [
        True, False, True, False, True, True
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"type": 5}, "not a valid schema"),
        ({"$ref": "other.json"}, "name a file instead"),
        ({"const": float("nan")}, "not JSON"),
        ({"const": {1, 2}}, "not JSON"),
    ],
)
def test_errors_of_schemas(schema, text):
    with pytest.raises(ValueError, match=text):
        GivenSchema.of(schema)


def test_a_missing_file(tmp_path):
    with pytest.raises(ValueError, match=r"no.json: the folder of schemas does not have this file"):
        GivenSchema.of(tmp_path / "no.json")


def test_a_contract_judges_as_its_file(tmp_path):
    file = tmp_path / "orders.yaml"
    file.write_text(CONTRACT)
    values = [json.dumps(value).encode() for value in ({"id": 1}, {"id": "x"}, {})] + [b"{"]
    expected = judge(DataContract, values, configs={"contract": str(file)})
    data = pickle.dumps(GivenContract.of(file))
    file.unlink()
    found = judge(pickle.loads(data), values)
    assert [verdict.message for verdict in found] == [verdict.message for verdict in expected]
    assert [verdict.outcome for verdict in found] == ["accepted", *["refused"] * 3]


def test_errors_of_contracts(tmp_path):
    with pytest.raises(ValueError, match=r"no.yaml cannot be read: No such file"):
        GivenContract.of(tmp_path / "no.yaml")
    (tmp_path / "x.yaml").write_text("kind: other")
    with pytest.raises(ValueError, match=r"x\.yaml"):
        GivenContract.of(tmp_path / "x.yaml")
