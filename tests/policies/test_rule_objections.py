"""Built-in policies say which of their rules object to a record that they refuse, all of them."""

import json
from pathlib import Path
from uuid import UUID

import pytest

from penstock.engine.columns import columns_of
from penstock.engine.interceptors.policy_batch import PolicyBatch
from penstock.policies import DataContract, JsonSchema, Required, Rules
from penstock.policies.rule_objections import RuleObjection
from penstock.policy import ClientContext, Record, TopicIdPartition, TopicMetadata

pytestmark = pytest.mark.unit
TOPIC = TopicMetadata(TopicIdPartition(UUID(int=1), "orders", 0), "", {})
SCHEMA = {
    "type": "object",
    "required": ["id", "customer"],
    "additionalProperties": False,
    "properties": {
        "id": {"type": "integer"},
        "customer": {"type": "object", "required": ["email"]},
        "lines": {"type": "array", "items": {"properties": {"price": {"minimum": 0}}}},
    },
}
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
      - {name: state, logicalType: string, quality: [
          {type: library, metric: invalidValues, mustBe: 0, arguments: {validValues: [new, paid]}}]}
"""


def objections(policy, *values, **record):
    records = [
        Record(
            -1, record.get("key"), value if isinstance(value, bytes) else json.dumps(value).encode()
        )
        for value in values
    ]
    return list(policy.objections_of_rules(TOPIC, PolicyBatch(columns_of(records))))


def configured(cls, folder=None, **configs):
    policy = cls()
    if folder is not None:
        policy.use_folder(folder)
    policy.configure({key.replace("__", "."): value for key, value in configs.items()})
    return policy


def test_rules():
    policy = configured(
        Rules,
        rules__positive="value.amount > 0",
        rules__known="value.currency in ['EUR'] && value.amount < 10",
        rules__keyed="key != null",
    )
    assert objections(policy, {"amount": -1, "currency": "USD"}, {"amount": 1}, key=b"k") == [
        RuleObjection(0, "positive", 'rule "positive" failed: value.amount > 0', ("amount",)),
        RuleObjection(
            0, "known",
            "rule \"known\" failed: value.currency in ['EUR'] && value.amount < 10",
            ("amount", "currency"),
        ),
        RuleObjection(
            1, "known",
            'rule "known" has no result: a field or key that it reads is not there: '
            "value.currency in ['EUR'] && value.amount < 10",
            ("amount", "currency"),
        ),
    ]  # fmt: skip
    assert [objection.rule for objection in objections(policy, b"{")] == [
        "positive", "known", "keyed",
    ]  # fmt: skip


@pytest.mark.parametrize("nulls", ["accept", "refuse"])
def test_verdicts_of_rules_are_the_first_objections(nulls):
    policy = configured(
        Rules,
        rules__positive="value.amount > 0",
        rules__small="double(value.amount) < 10.0",
        rules__keyed="key.startsWith('k')",
        null__values=nulls,
    )
    deep = b'{"amount":' + b"[" * 900 + b"]" * 900 + b"}"
    values = [b'{"amount":%d}' % amount for amount in (-1, 5, 50)] + [b"{", None, b"{}", deep]
    records = [Record(-1, key, value) for value in values for key in (b"k", b"x", None)]
    batch = PolicyBatch(columns_of(records))
    first_texts = {}
    for objection in policy.objections_of_rules(TOPIC, batch):
        first_texts.setdefault(objection.position, objection.message)
    assert list(first_texts.items()) == policy.validate_batch(TOPIC, batch, ClientContext())
    assert policy.judges_by_rules


def test_policies_that_judge_more_than_rules_say_so():
    class Own(Rules):
        def validate_batch(self, topic, batch, context):
            return ()

    batches = configured(Rules, rules__few="count < 5", rules__few__scope="batch")
    assert not batches.judges_by_rules
    assert not configured(Own, rules__positive="value.amount > 0").judges_by_rules


def test_rules_of_a_record_without_a_value():
    policy = configured(Rules, rules__positive="value.amount > 0", null__values="refuse")
    batch = PolicyBatch(columns_of([Record(-1, None, None)]))
    assert list(policy.objections_of_rules(TOPIC, batch)) == [
        RuleObjection(0, None, "the value is null")
    ]


def test_json_schema(tmp_path):
    (tmp_path / "order.json").write_text(json.dumps(SCHEMA))
    policy = configured(JsonSchema, tmp_path, schema="order.json")
    bad = {"id": "x", "lines": [{"price": 1}, {"price": -1}, {"price": -2}], "secret": 1}
    assert sorted(objections(policy, bad)) == [
        RuleObjection(
            0, "additionalProperties", "the value has a property that the schema does not allow"
        ),
        RuleObjection(
            0, "customer: required", 'the value lacks the property "customer"', ("customer",)
        ),
        RuleObjection(0, "id: type", "the value at /id must be of type integer", ("id",)),
        RuleObjection(
            0,
            "lines[].price: minimum",
            "the value at /lines/1/price must be at least 0",
            ("lines",),
        ),
        RuleObjection(
            0,
            "lines[].price: minimum",
            "the value at /lines/2/price must be at least 0",
            ("lines",),
        ),
    ]
    assert objections(policy, {"id": 1, "customer": {}}) == [
        RuleObjection(
            0, "customer.email: required",
            'the value at /customer lacks the property "email"', ("customer",),
        )
    ]  # fmt: skip
    assert objections(policy, {"id": 1, "customer": {"email": 1}}, b"{", [1]) == [
        RuleObjection(2, "type", "the value must be of type object")
    ]


def test_names_of_the_producer_are_not_in_rules(tmp_path):
    schema = {"additionalProperties": {"type": "string"}}
    (tmp_path / "order.json").write_text(json.dumps(schema))
    policy = configured(JsonSchema, tmp_path, schema="order.json")
    assert objections(policy, {"secret": 1}) == [
        RuleObjection(0, "*: type", "the value at /* must be of type string")
    ]


def test_data_contract(tmp_path):
    (tmp_path / "orders.yaml").write_text(CONTRACT)
    policy = configured(DataContract, tmp_path, contract="orders.yaml")
    found = objections(policy, {"id": 1, "state": "new"}, {"state": "gone"})
    assert [(o.position, o.rule, o.fields) for o in found] == [
        (1, "id: required", ("id",)),
        (1, "state: enum", ("state",)),
    ]
    assert found[0].message == ('contract orders 1.0.0, orders: the value lacks the property "id"')


def test_required():
    policy = configured(Required, fields="id,customer.email,lines[*].sku")
    assert objections(policy, {"id": None, "lines": [{}]}, b"{") == [
        RuleObjection(0, "id", "field id of the value is null", ("id",)),
        RuleObjection(
            0, "customer.email", "field customer.email of the value is missing", ("customer",)
        ),
        RuleObjection(0, "lines[*].sku", "field lines[*].sku of the value is missing", ("lines",)),
    ]


@pytest.mark.parametrize("name", ["anyOf", "oneOf"])
def test_reasons_take_no_more_work_than_a_bound(tmp_path, name):
    """A schema whose reasons would take long leaves only that of the verdict."""
    schema = {"$defs": {"a": {name: [{"items": {"$ref": "#/$defs/a"}}, {"items": {"$ref": "#/$defs/a"}}]}},
              "allOf": [{"$ref": "#/$defs/a"}, {"type": "object"}]}  # fmt: skip
    path = Path(tmp_path / "deep.json")
    path.write_text(json.dumps(schema))
    policy = configured(JsonSchema, tmp_path, schema="deep.json")
    assert len(objections(policy, b"[" * 100 + b"]" * 100)) <= 1
