"""What built-in policies say to judges of columns."""

from uuid import UUID

import pytest

from penstock.engine.columns import columns_of
from penstock.engine.interceptors.policy_batch import PolicyBatch
from penstock.policies import DataContract, JsonSchema, Required, Rules
from penstock.policies.json_schema.column_schema import names_read
from penstock.policy import Record, TopicIdPartition, TopicMetadata

pytestmark = pytest.mark.unit
TOPIC = TopicMetadata(TopicIdPartition(UUID(int=1), "orders", 0), "any.json", {})
CONTRACT = """
apiVersion: v3.0.2
kind: DataContract
id: orders
version: 1.0.0
status: active
schema: [{name: orders, properties: [{name: id, logicalType: integer, required: true}]}]
"""


@pytest.mark.parametrize(
    ("schema", "names"),
    [
        (True, set()),
        ({"properties": {"a": {"properties": {"b": {}}}}, "required": ["c"], "title": "t"}, {"a", "c"}),
        ({"anyOf": [{"required": ["a"]}, False], "not": {"properties": {"b": {}}}}, {"a", "b"}),
        ({"if": True, "then": {"required": ["a"]}, "else": {"required": ["b"]}}, {"a", "b"}),
        ({"properties": {"a": {}}, "additionalProperties": False}, None),
        ({"allOf": [{"minProperties": 1}]}, None),
        ({"$ref": "#/$defs/a"}, None),
        ({"const": {"a": 1}}, None),
    ],
)  # fmt: skip
def test_names_that_are_read(schema, names):
    assert names_read(schema) == (names if names is None else frozenset(names))


def of_policy(policy, configs, text=""):
    policy.configure(configs)
    return policy.column_schema("orders", text)


def test_rules():
    found = of_policy(Rules(), {"rules.a": "value.a > 0", "rules.b": "has(value.b)"})
    assert found.fields == {"a", "b"}
    assert 0 < found.longest < float("inf")
    mixed = of_policy(Rules(), {"rules.a": "value.a > 0", "rules.b": "value.b.all(x, x > 0)"})
    assert mixed == "CEL judges b"


def test_rules_that_look_at_all_of_a_value_read_all_of_it():
    found = of_policy(Rules(), {"rules.a": "value.a > 0 || size(value) == 2"})
    assert found.fields is None


def test_required_fields():
    assert of_policy(Required(), {"fields": "id,customer.email"}).fields == {"id", "customer"}


def test_schemas_and_contracts(tmp_path):
    (tmp_path / "value.json").write_text('{"properties": {"a": {}}}')
    (tmp_path / "orders.yaml").write_text(CONTRACT)
    policy = JsonSchema()
    policy.use_folder(tmp_path)
    assert of_policy(policy, {}, "value.json").fields == {"a"}
    text = "key=value.json,value=value.json"
    assert policy.column_schema("orders", text) == "it judges more than values"
    (tmp_path / "meta.json").write_text('{"$ref": "https://json-schema.org/draft/2020-12/schema"}')
    assert policy.column_schema("orders", "meta.json") == "its schema refers to a metaschema"
    contract = DataContract()
    contract.use_folder(tmp_path)
    assert of_policy(contract, {"contract": "orders.yaml"}).fields == {"id"}


def test_schemas_whose_reasons_depend_on_the_size_of_a_text_read_all_of_it(tmp_path):
    """Of a text of some MB, not all reasons why it fits none of the alternatives are gathered."""
    (tmp_path / "any.json").write_text('{"properties": {"a": {"anyOf": [{"minimum": 0}, false]}}}')
    policy = JsonSchema()
    policy.use_folder(tmp_path)
    assert of_policy(policy, {}, "any.json").fields is None
    texts = [b'{"a": -1, "b": "%s"}' % (b"x" * size) for size in (1, 5_000_000)]
    records = columns_of([Record(-1, None, text) for text in texts])
    found = policy.objections_of_rules(TOPIC, PolicyBatch(records))
    assert [objection.position for objection in found] == [0]
