"""What rules of a data contract cost a record.

Prints microseconds of CPU for each record, the least of several rounds: of decoding it with
fastavro, orjson or protobuf, and of its rules on top. `python benchmarks/rules.py [ROUNDS]`.
"""

import json
import sys
from io import BytesIO
from time import process_time

import fastavro
import orjson
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from penstock.policies.schema_policy.payloads.compiled import SchemaSource
from penstock.policies.schema_policy.registered import RegisteredSchema
from penstock.policies.schema_policy.rules.rules import compile_rules

RECORDS = 2000
ITEMS = 5
VALUE = {
    "id": 4711,
    "ssn": "123-45-6789",
    "email": "someone@example.com",
    "currency": "EUR",
    "items": [{"sku": f"article-{n}", "price": 10.5 + n, "count": n + 1} for n in range(ITEMS)],
    **{f"filler{n}": "x" * 20 for n in range(10)},
}
WHOLE = "message.id > 0 && size(message.ssn) == 11"
EMAIL = "message.email.isEmail()"
PATTERN = "message.ssn.matches('^[0-9]{3}-[0-9]{2}-[0-9]{4}$')"
LOOP = "message.items.all(item, item.price > 0.0 && item.count > 0)"
FIELD = "size(value) == 11"


def rule(expression, **more):
    return {
        "name": "r",
        "kind": "CONDITION",
        "mode": "WRITE",
        "type": "CEL",
        "expr": expression,
        **more,
    }


RULES = {
    "two comparisons": [rule(WHOLE)],
    "a function": [rule(EMAIL)],
    "a pattern": [rule(PATTERN)],
    f"a loop of {ITEMS}": [rule(LOOP)],
    "one tagged field": [rule(FIELD, type="CEL_FIELD", tags=["PII"])],
    "all five": [
        rule(WHOLE),
        rule(EMAIL),
        rule(PATTERN),
        rule(LOOP),
        rule(FIELD, type="CEL_FIELD", tags=["PII"]),
    ],
}


def avro():
    def field(name, value):
        kind = "long" if isinstance(value, int) else "string"
        tags = {"confluent:tags": ["PII"]} if name == "ssn" else {}
        return {"name": name, "type": kind, **tags}

    item = {
        "type": "record",
        "name": "Item",
        "fields": [
            {"name": "sku", "type": "string"},
            {"name": "price", "type": "double"},
            {"name": "count", "type": "int"},
        ],
    }
    schema = {
        "type": "record",
        "name": "Order",
        "fields": [
            {"name": "items", "type": {"type": "array", "items": item}},
            *(field(name, value) for name, value in VALUE.items() if name != "items"),
        ],
    }
    out = BytesIO()
    fastavro.schemaless_writer(out, schema, VALUE)
    parsed = fastavro.parse_schema(json.loads(json.dumps(schema)))
    payload = out.getvalue()
    return json.dumps(schema), lambda: fastavro.schemaless_reader(BytesIO(payload), parsed)


def json_schema():
    schema = {
        "type": "object",
        "properties": {"ssn": {"type": "string", "confluent:tags": ["PII"]}},
    }
    payload = orjson.dumps(VALUE)
    return json.dumps(schema), lambda: orjson.loads(payload)


def protobuf():
    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="shop.proto", package="shop", syntax="proto3")
    item = file.message_type.add(name="Item")
    for number, (name, kind) in enumerate(
        (("sku", kinds.TYPE_STRING), ("price", kinds.TYPE_DOUBLE), ("count", kinds.TYPE_INT32)), 1
    ):
        item.field.add(name=name, number=number, type=kind, label=1)
    order = file.message_type.add(name="Order")
    for number, (name, value) in enumerate(VALUE.items(), 1):
        made = order.field.add(name=name, number=number, label=1)
        if name == "items":
            made.type, made.label, made.type_name = kinds.TYPE_MESSAGE, 3, ".shop.Item"
        else:
            made.type = kinds.TYPE_INT64 if isinstance(value, int) else kinds.TYPE_STRING
        if name == "ssn":
            made.options.MergeFromString(b"\x82\x44\x05\x1a\x03PII")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    of = message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))
    payload = of(**VALUE).SerializeToString()

    class Compiled:
        def decode(self, data):
            return of.FromString(data[1:])

    return Compiled(), lambda: of.FromString(payload)


def least(rounds, work):
    best = float("inf")
    for _ in range(rounds):
        begin = process_time()
        for _ in range(RECORDS):
            work()
        best = min(best, process_time() - begin)
    return best / RECORDS * 1e6


def main(rounds):
    for kind, make in (("AVRO", avro), ("JSON", json_schema), ("PROTOBUF", protobuf)):
        schema, decode = make()
        text = schema if isinstance(schema, str) else ""
        print(f"{kind:9} {'decoding alone':18} {least(rounds, decode):7.1f} us")
        for name, rules in RULES.items():
            registered = RegisteredSchema(kind, text, rule_set={"domainRules": rules})
            compiled = compile_rules(registered, schema, SchemaSource(kind, text))
            value = decode()
            assert compiled.objection(value, topic="t", is_key=False) is None, name
            cost = least(
                rounds,
                lambda compiled=compiled, value=value: compiled.objection(
                    value, topic="t", is_key=False
                ),
            )
            print(f"{kind:9} {name:18} {cost:7.1f} us")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
