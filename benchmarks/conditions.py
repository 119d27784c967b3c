"""Measures `Rules` next to `JsonSchema` on the same records.

Prints nanoseconds of CPU for each record of a batch, the least of several rounds, and the ratio to
`JsonSchema`: in a worker (`Chain.judge`) and where batches are received (`all_fit`). The records
are the orders of `make bench`, the schema is `order.schema.json`, and three conditions are about
three of its fields. `python benchmarks/conditions.py [ROUNDS]`.
"""

import sys
from pathlib import Path
from time import process_time
from uuid import UUID

from penstock.configuration import read_configuration
from penstock.engine.chain import Chain
from penstock.engine.columns import columns_of
from penstock.engine.instances import VALIDATION, PolicyInstances
from penstock.engine.plans.topic_plan import TopicPlan
from penstock.policies import DataContract, JsonSchema, Required, Rules
from penstock.policy import Record

RECORDS = 1000
HERE = Path(__file__).parent / "gateway"
THREE = {
    "rules.customer": "value.customer >= 1",
    "rules.currency": 'value.currency in ["EUR", "USD", "GBP"]',
    "rules.amount": "value.amount > 0",
}
CONTRACT = """\
{"apiVersion": "v3.1.0", "kind": "DataContract", "id": "orders", "version": "1",
 "status": "active", "schema": [{"name": "orders", "properties": [
 {"name": "id", "logicalType": "string", "required": true, "logicalTypeOptions": {"minLength": 1}},
 {"name": "customer", "logicalType": "integer", "required": true,
  "logicalTypeOptions": {"minimum": 1}},
 {"name": "currency", "logicalType": "string", "required": true,
  "enum": [{"value": "EUR"}, {"value": "USD"}, {"value": "GBP"}]},
 {"name": "amount", "logicalType": "number", "required": true,
  "logicalTypeOptions": {"exclusiveMinimum": 0}}]}]}
"""
CASES = {
    "JsonSchema": (JsonSchema, {"schema": "order.schema.json"}),
    "Rules, three conditions": (Rules, THREE),
    "Rules, with one that CEL judges": (
        Rules,
        {**THREE, "rules.more": "value.amount * 2.0 > 0.0"},
    ),
    "Rules, three that CEL judges": (
        Rules,
        {name: rule.replace("value.", "dyn(value).") for name, rule in THREE.items()},
    ),
    "Required, four fields": (Required, {"fields": "id,customer,currency,amount"}),
    "DataContract": (DataContract, {"contract": "order.odcs.yaml"}),
}


def orders():
    order = b'{"id": "%010d", "customer": %d, "currency": "EUR", "amount": 9.5, "note": "%s"}'
    for i in range(RECORDS):
        value = order % (i, i + 10_000, b"n" * 45)
        yield Record(1_700_000_000_000 + i, b"%016d" % i, value)


def chain_of(cls, configs, folder):
    name = f"penstock.policies.{cls.__name__}"
    properties = {"upstream.bootstrap.servers": "none:1", **configs}
    # Keys of a policy with a name are given as they are: none of them is one of the file's.
    configuration = read_configuration(folder / "bench.properties", properties).policies
    instances = PolicyInstances(configuration, {VALIDATION: (name,)})
    text = configs.get("schema", "")
    plan = TopicPlan(topic="orders", validation_policy=name, validation_setting=text)
    return Chain(plan, instances), instances.validation, text


def nanoseconds(work, rounds):
    best = float("inf")
    for _ in range(rounds):
        began = process_time()
        work()
        best = min(best, process_time() - began)
    return best / RECORDS * 1e9


def main():
    import shutil
    import tempfile

    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 50
    columns = columns_of(list(orders()))
    first = {}
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        shutil.copy(HERE / "order.schema.json", folder)
        (folder / "order.odcs.yaml").write_text(CONTRACT)
        print(f"{'ns of CPU for a record':<34}{'worker':>8}{'':>7}{'inline':>8}")
        for name, (cls, configs) in CASES.items():
            chain, policy, text = chain_of(cls, configs, folder)
            topic_id = UUID(int=1)
            ways = {"worker": lambda chain=chain, i=topic_id: chain.judge(0, i, columns)}
            if policy.is_bounded(text):
                assert policy.all_fit(text, columns)
                ways["inline"] = lambda policy=policy, text=text: policy.all_fit(text, columns)
            shown = ""
            for way in ("worker", "inline"):
                if way not in ways:
                    shown += f"{'-':>8}"
                    continue
                found = nanoseconds(ways[way], rounds)
                first.setdefault(way, found)
                shown += f"{found:8.0f}{found / first[way]:6.2f}x"
            print(f"{name:<34}{shown}")


if __name__ == "__main__":
    main()
