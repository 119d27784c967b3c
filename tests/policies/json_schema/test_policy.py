"""`penstock.policies.JsonSchema` as users test a policy, and a batch at a time."""

import re
import sys
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from uuid import UUID

import pytest

from penstock.configuration import ConfigurationError, read_configuration
from penstock.engine.instances import PolicyInstances
from penstock.engine.plans.plan import Plan
from penstock.engine.plans.topic_plan import TopicPlan
from penstock.policies import JsonSchema
from penstock.policies.json_schema import check as checks
from penstock.policies.json_schema.library import LibraryCheck
from penstock.policy import InvalidRecordException, RecordProxy, TopicIdPartition, TopicMetadata
from penstock.policy.testing import judge
from tests.policies.json_schema.schemas import write

ORDER = {
    "type": "object",
    "required": ["id", "amount"],
    "properties": {"id": {"type": "string"}, "amount": {"type": "number", "exclusiveMinimum": 0}},
}
FITS = b'{"id": "a", "amount": 1}'
RECORDS = [
    (b'"k"', FITS),
    (b'"k"', b'{"id": "a", "amount": 0}'),
    (b"7", FITS),
    (b"7", b"{}"),
    (None, FITS),
    (b'"k"', None),
    (None, None),
    (b"k", b"\xff"),
    (b'"' + b"k" * 100 + b'"', FITS),
]


@dataclass
class Batch:
    """Columns, as from the engine."""

    keys: list
    values: list


@pytest.fixture
def folder(tmp_path):
    write(
        tmp_path, order=ORDER, key={"type": "string", "maxLength": 50}, slow={"pattern": "^(?!a)"}
    )
    return tmp_path


def policy(folder, schema=None, **configs):
    made = JsonSchema()
    made.use_folder(folder)
    keys = {f"json.schema.{key.replace('_', '.')}": value for key, value in configs.items()}
    made.configure(keys if schema is None else {**keys, "schema": schema})
    return made


def topic(text):
    return TopicMetadata(TopicIdPartition(UUID(int=1), "orders", 0), text)


def singly(judging, text):
    """The refusals of `validate`, record by record."""
    refused = []
    for position, (key, value) in enumerate(RECORDS):
        try:
            judging.validate(topic(text), RecordProxy((), key, value))
        except InvalidRecordException as raised:
            refused.append((position, raised.message))
    return refused


def together(judging, text):
    """The refusals of `validate_batch`."""
    keys, values = map(list, zip(*RECORDS, strict=True))
    return list(judging.validate_batch(topic(text), Batch(keys, values)))


def test_values_are_judged(folder):
    assert singly(policy(folder), "order.json") == [
        (1, "the value at /amount must be greater than 0"),
        (3, 'the value lacks the property "id"'),
        (7, "the value is not JSON, which is UTF-8"),
    ]


def test_keys_and_values_are_judged(folder):
    assert singly(policy(folder), "key=key.json,value=order.json") == [
        (1, "the value at /amount must be greater than 0"),
        (2, "the key must be of type string"),
        (3, "the key must be of type string"),
        (4, "the key is null"),
        (6, "the key is null"),
        (7, "the key is not JSON"),
        (8, "the key has more characters than 50"),
    ]


@pytest.mark.parametrize(
    "text", ["order.json", "key=key.json", "key=key.json,value=order.json", "slow.json"]
)
@pytest.mark.parametrize("null_values", ["accept", "refuse"])
@pytest.mark.parametrize("null_keys", ["accept", "refuse"])
def test_a_batch_is_judged_as_its_records_are(folder, text, null_values, null_keys):
    judging = policy(folder, null_values=null_values, null_keys=null_keys)

    refused = together(judging, text)

    assert refused == singly(judging, text)
    positions = {position for position, _ in refused}
    assert (5 in positions) == (null_values == "refuse" and text != "key=key.json")
    assert (4 in positions) == (null_keys == "refuse" and "key=" in text)


def test_the_engine_judges_by_it(folder):
    configs = {"json.schema.folder": str(folder)}
    good, bad = judge(JsonSchema, [FITS, "{}"], configs=configs, validation_policy="order.json")

    assert good.outcome == "accepted"
    assert (bad.code, bad.message) == (87, 'the value lacks the property "id"')


def test_is_bounded_is_true_only_for_bounded_schemas(folder):
    judging = policy(folder)

    assert judging.is_bounded("key=key.json,value=order.json")
    assert not judging.is_bounded("key=key.json,value=slow.json")
    assert not judging.is_bounded("missing.json")


def loaded(folder, **configs):
    """The policies of a file, as a worker loads them."""
    properties = {
        "upstream.bootstrap.servers": "none:1",
        "record.validation.policy.class.name": "penstock.policies.JsonSchema",
        **{key.replace("__", "*.").replace("_", "."): value for key, value in configs.items()},
    }
    configuration = read_configuration(folder / "penstock.properties", properties)
    return PolicyInstances(configuration.policies, Plan(configuration.policies).names)


def test_schemas_are_read_at_start(folder):
    instances = loaded(folder, topics_orders__record_validation_policy="order.json")

    assert list(instances.validation.validate_batch(topic("order.json"), Batch([], [FITS]))) == []


@pytest.mark.parametrize(
    ("configs", "message"),
    [
        (
            {"topics_orders__record_validation_policy": "none.json"},
            "topics.orders*.record.validation.policy=none.json: none.json: the folder of schemas does not have this file",
        ),
        (
            {"topics_orders__record_validation_policy": "a=b"},
            "topics.orders*.record.validation.policy=a=b: must name a schema file, like order",
        ),
        (
            {"json_schema_formats": "on"},
            "penstock.policies.JsonSchema: json.schema.formats must",
        ),
        ({"json_schema_folder": "none"}, "none is not a folder"),
    ],
)  # fmt: skip
def test_errors_appear_at_start(folder, configs, message):
    with pytest.raises(ConfigurationError) as raised:
        loaded(folder, **configs)

    assert f"{folder / 'penstock.properties'}: " in str(raised.value)
    assert message in str(raised.value)


def test_the_schema_key_wins_over_the_text_of_a_topic(folder):
    for text in ("", "something else"):
        judging = policy(folder, schema="key=key.json,value=order.json")
        judging.prepare_validation_policy(text)
        assert singly(judging, text) == singly(policy(folder), "key=key.json,value=order.json")
        assert judging.is_bounded(text) == policy(folder).is_bounded(
            "key=key.json,value=order.json"
        )


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ("none.json", "schema=none.json: none.json: the folder of schemas does not have this file"),
        ("values=order.json", "schema=values=order.json: must name a schema file"),
        ("../order.json", "schema=../order.json: ../order.json is outside the folder"),
    ],
)
def test_a_wrong_schema_key_appears_at_start(folder, schema, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        policy(folder, schema=schema)


def test_a_missing_package_is_named_at_start(folder, monkeypatch):
    for name in [name for name in sys.modules if name.startswith("penstock.policies.json_schema.")]:
        if name.rpartition(".")[2] not in {"policy", "settings", "files", "documents", "dialects"}:
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "jsonschema_rs", None)

    with pytest.raises(ConfigurationError, match=r"install penstock-kafka\[json-schema\]"):
        loaded(folder)


def test_the_example_of_a_class_refuses_the_same(monkeypatch):
    """`examples/policies/json_schema.py`, on the orders of the demo."""
    examples = Path(__file__).parents[3] / "examples"
    monkeypatch.syspath_prepend(str(examples / "policies"))
    monkeypatch.syspath_prepend(str(examples / "demo"))
    orders = import_module("orders").make_orders(500, bad_share=0.5, seed=3)
    configs = {"json.schema.folder": str(examples / "demo")}

    def refused(cls):
        records = [order.value for order in orders]
        verdicts = judge(cls, records, configs=configs, validation_policy="order.schema.json")
        return [verdict.code for verdict in verdicts]

    built_in = refused(JsonSchema)
    assert built_in == refused(import_module("json_schema").JsonSchema)
    assert built_in == [87 if order.bad not in {"", "no key"} else 0 for order in orders]


def test_a_text_that_a_topic_is_to_have_is_tried(folder):
    instances = loaded(folder)
    name = "penstock.policies.JsonSchema"

    def tried(text):
        plan = TopicPlan(topic="t", validation_policy=name, validation_setting=text)
        return instances.try_topic(plan)

    assert tried("order.json") is None
    assert tried("../x.json") == "../x.json is outside the folder of schemas"


def test_a_refusal_without_a_reason_is_the_same_refusal(folder, monkeypatch):
    """The library explains the first 100 of a batch: to be judged alone changes the text alone."""
    monkeypatch.setattr(checks, "compile_check", LibraryCheck)
    write(folder, branches={"anyOf": [{"type": "integer"}]})
    configs = {"json.schema.folder": str(folder)}
    verdicts = judge(JsonSchema, [b'"x"'] * 150, configs=configs, validation_policy="branches.json")

    assert [verdict.code for verdict in verdicts] == [87] * 150
    assert {verdict.message for verdict in verdicts} == {
        "the value fits no schema of anyOf",
        "the value does not fit the schema",
    }


@pytest.mark.parametrize("before", [{}, {"null_values": "accept", "null_keys": "accept"}])
def test_a_policy_with_a_name_refuses_nulls_by_keys_without_the_prefix(folder, before):
    text = "key=key.json,value=order.json"
    keys = {f"json.schema.{key.replace('_', '.')}": value for key, value in before.items()}
    made = JsonSchema()
    made.use_folder(folder)
    made.configure({**keys, "schema": text, "null.values": "refuse", "null.keys": "refuse"})
    refused = {position for position, _ in singly(made, "")}
    assert refused >= {4, 5, 6}
    made.configure({**keys, "schema": text, "null.values": "accept", "null.keys": "accept"})
    assert not {position for position, _ in singly(made, "")} & {4, 5, 6}
