"""A schema that is given as an object, or with all of its files, is pickled and judges without."""

import json
import pickle
import shutil

import pytest

from penstock.policies import JsonSchema
from penstock.policies.json_schema.given import GivenSchema
from penstock.policy.testing import judge

pytestmark = pytest.mark.unit
SCHEMA = {"properties": {"amount": {"type": "number", "minimum": 0}}}
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
def test_errors(schema, text):
    with pytest.raises(ValueError, match=text):
        GivenSchema.of(schema)


def test_a_missing_file(tmp_path):
    with pytest.raises(ValueError, match=r"no.json: the folder of schemas does not have this file"):
        GivenSchema.of(tmp_path / "no.json")
