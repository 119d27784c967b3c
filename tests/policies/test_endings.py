"""A policy ends with the last reference to it: gateways seldom run Python's collector."""

import gc
import json
import weakref

import pytest

from penstock.policies import DataContract, JsonSchema, SchemaPolicy

SCHEMA = {"type": "object", "required": ["id"]}
CONTRACT = """\
apiVersion: v3.1.0
kind: DataContract
id: orders
status: active
version: 1.0.0
schema:
  - name: orders
    properties:
      - {name: id, logicalType: string, required: true}
"""


@pytest.fixture(autouse=True)
def no_collection():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


CONFIGS = {"confluent.value.schema.validation": "true", "schema.file": "order.json"}


@pytest.mark.parametrize(
    ("policy", "keys", "prepare"),
    [
        (JsonSchema, {}, lambda policy: policy.prepare_validation_policy("value=order.json")),
        (
            DataContract,
            {"contract": "orders.yaml"},
            lambda policy: policy.prepare_topic("orders", {}),
        ),
        (SchemaPolicy, {}, lambda policy: policy.prepare_topic("orders", CONFIGS)),
    ],
)
def test_a_policy_that_has_read_a_schema(tmp_path, policy, keys, prepare):
    (tmp_path / "order.json").write_text(json.dumps(SCHEMA))
    (tmp_path / "orders.yaml").write_text(CONTRACT)
    instance = policy()
    instance.use_folder(tmp_path)
    instance.configure({"json.schema.folder": ".", **keys})
    prepare(instance)
    ended = weakref.ref(instance)
    del instance
    assert ended() is None
