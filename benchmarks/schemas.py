"""Measures judging by a schema next to a reference for each format: `make bench-schemas`.

In a single process: nanoseconds of CPU per record, medians of rounds in which all take turns, so
that changes of the machine's speed affect all variants; and the median of the rounds' ratios, which
is the result. Bounded: about a minute.

`penstock.policies.SchemaPolicy` as the gateway's workers and the raw jobs call it (`Chain.judge`
over a batch that is decoded already, of 1 MB and of 16 KB), by schema ids that a registry on this
machine knows. Its measures are policies over the same batches:

- JSON: `penstock.policies.JsonSchema` by the same schema in a file; values have no ids there
- Avro: a `validate_batch` that cuts the id off each value, has fastavro read it, and looks
- Protobuf: the same with ParseFromString of upb, which looks for no unknown fields

`schemas.py compiled` measures compiled schemas without policies, next to the same calls in a loop;
`schemas.py keywords` JSON Schemas with a further keyword, next to jsonschema-rs over orjson.
"""

import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import fastavro
import jsonschema_rs
import orjson
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.kafka.records.encoding import encode_batch, values  # noqa: E402
from tests.policies.schema_policy.fake_registry import FakeRegistry  # noqa: E402

from penstock.configuration import load_configuration  # noqa: E402
from penstock.engine.chain import Chain  # noqa: E402
from penstock.engine.instances import VALIDATION, PolicyInstances  # noqa: E402
from penstock.engine.plans.plan import Plan  # noqa: E402
from penstock.engine.plans.topic_plan import TopicPlan  # noqa: E402
from penstock.engine.stored_columns import StoredColumns  # noqa: E402
from penstock.engine.verdict import ACCEPTED  # noqa: E402
from penstock.kafka.records.batch import read_batch  # noqa: E402
from penstock.policies.schema_policy.payloads import compile_schema  # noqa: E402
from penstock.policies.schema_policy.payloads.compiled import SchemaSource  # noqa: E402
from penstock.policy import RecordIntrospectionHints, RecordValidationPolicy  # noqa: E402

ROUNDS = 31
SIZES = {"1 MB": 1 << 20, "16 KB": 1 << 14}
LEAST_RECORDS = 3_000
"""The least number of records in a measurement: as many batches as that takes."""
TOPIC_ID = UUID(int=1)
AVRO = {
    "type": "record",
    "name": "shop.Order",
    "fields": [
        {"name": "id", "type": "string"},
        {"name": "customer", "type": "long"},
        {"name": "amount", "type": "double"},
        {"name": "at", "type": "long"},
        {"name": "note", "type": ["null", "string"]},
        {"name": "status", "type": {"type": "enum", "name": "Status", "symbols": ["NEW", "SENT"]}},
        {"name": "paid", "type": "boolean"},
        {"name": "lines", "type": {"type": "array", "items": {
            "type": "record", "name": "Line", "fields": [
                {"name": "article", "type": "string"}, {"name": "count", "type": "int"}]}}},
    ],
}  # fmt: skip
JSON = {
    "type": "object",
    "required": ["id", "customer", "amount", "at", "status", "paid", "lines"],
    "properties": {
        "id": {"type": "string", "minLength": 1},
        "customer": {"type": "integer"},
        "amount": {"type": "number", "exclusiveMinimum": 0},
        "at": {"type": "integer"},
        "note": {"type": ["null", "string"]},
        "status": {"enum": ["NEW", "SENT"]},
        "paid": {"type": "boolean"},
        "lines": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["article", "count"],
                "properties": {"article": {"type": "string"}, "count": {"type": "integer"}},
            },
        },
    },
}
KEYWORDS: dict[str, dict[str, Any]] = {
    "none more": {},
    "$ref": {"properties": {"id": {"$ref": "#/$defs/id"}}, "$defs": {"id": {"type": "string"}}},
    "allOf": {"allOf": [{"required": ["id"]}, {"required": ["at"]}]},
    "anyOf": {"anyOf": [{"required": ["nothing"]}, {"required": ["id"]}]},
    "oneOf": {"oneOf": [{"required": ["nothing"]}, {"required": ["id"]}]},
    "not": {"not": {"required": ["nothing"]}},
    "if": {"if": {"required": ["note"]}, "then": {"minProperties": 8}},
    "pattern": {"properties": {"id": {"pattern": "^order-[0-9]+$"}}},
    "patternProperties": {"patternProperties": {"^i": {"type": "string"}}},
    "additionalProperties": {"additionalProperties": False},
    "propertyNames": {"propertyNames": {"maxLength": 8}},
    "dependentRequired": {"dependentRequired": {"note": ["id"]}},
    "uniqueItems": {"properties": {"lines": {"uniqueItems": True}}},
    "contains": {"properties": {"lines": {"contains": {"type": "object"}, "minContains": 0}}},
    "multipleOf": {"properties": {"customer": {"multipleOf": 10}}},
    "unevaluatedProperties": {"unevaluatedProperties": False},
}
"""What each keyword adds to the schema of `JSON`; of `properties` only those that are named."""
PROTOBUF = """
syntax = "proto3";
package shop;
message Flat { string id = 1; int64 at = 2; string customer = 3; double x = 4; bool paid = 5; }
message Address { string street = 1; string zip = 2; int32 number = 3; }
message Line { string sku = 1; int32 quantity = 2; double price = 3; }
message Order {
  string id = 1; int64 at = 2; string customer = 3; Address address = 4; repeated Line lines = 5;
  repeated int32 codes = 6; map<string, string> labels = 7; bool paid = 8;
}
message Choice { string id = 1; oneof what { Order order = 2; Address address = 3; } }
message Tree { string name = 1; repeated Tree children = 2; }
"""
PROTOBUF_ORDER = {
    "customer": "customer of the shop",
    "address": {"street": "Main street", "zip": "12345", "number": 7},
    "lines": [{"sku": f"sku-{line}", "quantity": line + 1, "price": 9.99} for line in range(3)],
    "codes": [1, 2, 3],
    "labels": {"channel": "web"},
    "paid": True,
}
INDEXES = {"Flat": b"\x00", "Order": b"\x02\x06", "Choice": b"\x02\x08", "Tree": b"\x02\x0a"}
"""Protobuf's message indexes, which are before each message."""


class Case(NamedTuple):
    """One kind of payloads.

    Attributes:
        name: What it is called in the tables.
        schema_type: As a registry calls it.
        text: The schema.
        payload: Makes what follows the id, for a number.
        measure: What the measure is called.
        plain: Makes a value of a payload; None where `JsonSchema` is the measure.
        skipped: How many bytes before a payload `plain` does not want.
    """

    name: str
    schema_type: str
    text: str
    payload: Callable[[int], bytes]
    measure: str
    plain: Callable[[bytes], Any] | None = None
    skipped: int = 0


def order(number: int) -> dict[str, Any]:
    return {
        "id": f"order-{number:010}",
        "customer": number * 1000,
        "amount": (number + 1) / 3,
        "at": 1_700_000_000_000 + number,
        "note": "n" * 60 if number % 2 else None,
        "status": "SENT",
        "paid": True,
        "lines": [{"article": f"article-{line}", "count": line} for line in range(number % 4)],
    }


def protobuf_fields(name: str, number: int) -> dict[str, Any]:
    shared = {"id": f"order-{number}", "at": number}
    if name == "Flat":
        return {**shared, "customer": "customer", "x": 2.5, "paid": True}
    if name == "Order":
        return {**shared, **PROTOBUF_ORDER}
    if name == "Choice":
        return {"id": f"order-{number}", "order": {**shared, **PROTOBUF_ORDER}}
    return {"name": f"{number}", "children": [{"name": "a"}, {"children": [{"name": "b"}]}]}


def avro() -> Case:
    schema = fastavro.parse_schema(AVRO)

    def payload(number: int) -> bytes:
        out = BytesIO()
        fastavro.schemaless_writer(out, schema, order(number))
        return out.getvalue()

    def plain(data: bytes) -> Any:
        return fastavro.schemaless_reader(BytesIO(data), schema, None)

    return Case("Avro", "AVRO", json.dumps(AVRO), payload, "fastavro", plain)


def protobuf(name: str) -> Case:
    indexes = INDEXES[name]
    new = type(compile_schema(SchemaSource("PROTOBUF", PROTOBUF)).decode(indexes))

    def payload(number: int) -> bytes:
        return indexes + new(**protobuf_fields(name, number)).SerializeToString()

    def plain(data: bytes) -> Any:
        message = new()
        message.ParseFromString(data)
        return message

    return Case(f"Protobuf: {name}", "PROTOBUF", PROTOBUF, payload, "upb", plain, len(indexes))


def cases() -> Iterator[Case]:
    yield Case(
        "JSON",
        "JSON",
        json.dumps(JSON),
        lambda number: json.dumps(order(number)).encode(),
        "JsonSchema",
    )
    yield avro()
    yield from map(protobuf, INDEXES)


def check_present(value: Any) -> None:
    """What a policy does that only looks."""
    if value is None:
        raise ValueError


def plain_policy(read: Callable[[bytes], Any], start: int) -> type[RecordValidationPolicy]:
    """A policy that reads each value and looks at it."""

    class Plain(RecordValidationPolicy):
        def get_hints(self):
            return RecordIntrospectionHints(access_headers=False, access_key_bytes=0)

        def validate_batch(self, topic, batch):
            for value in batch.values:
                check_present(read(value[start:]))
            return ()

    return Plain


def configured(folder: Path, policy: str, settings: str) -> Chain:
    """The chain of a topic with one of Penstock's policies."""
    file = folder / "penstock.properties"
    file.write_text(
        "upstream.bootstrap.servers=127.0.0.1:1\nlisteners=PLAINTEXT://127.0.0.1:2\n"
        f"record.validation.policy.class.name=penstock.policies.{policy}\n{settings}\n"
    )
    configuration = load_configuration(file).policies
    plan = Plan(configuration)
    return Chain(plan.for_topic("orders"), PolicyInstances(configuration, plan.names))


def of_class(folder: Path, policy: type[RecordValidationPolicy]) -> Chain:
    """The chain of a topic with a policy that is given as a class."""
    file = folder / "penstock.properties"
    file.write_text("upstream.bootstrap.servers=127.0.0.1:1\nlisteners=PLAINTEXT://127.0.0.1:2\n")
    name = policy.__name__
    instances = PolicyInstances(
        load_configuration(file).policies, {VALIDATION: [name]}, factories={name: policy}
    )
    return Chain(TopicPlan(topic="orders", validation_policy=name), instances)


def chains(case: Case, folder: Path, registry: FakeRegistry) -> tuple[Chain, Chain]:
    """The measure's, and `SchemaPolicy`'s."""
    if case.plain is None:
        (folder / "order.json").write_text(case.text)
        setting = "topics.orders.record.validation.policy=order.json"
        by = configured(folder, "JsonSchema", setting)
    else:
        by = of_class(folder, plain_policy(case.plain, 5 + case.skipped))
    settings = (
        f"schema.registry.url={registry.url}\ntopics.orders.confluent.value.schema.validation=true"
    )
    return by, configured(folder, "SchemaPolicy", settings)


def judging(chain: Chain, data: Sequence[bytes]) -> int:
    """The CPU time in which batches are judged that are decoded already; they fit."""
    batches = [
        StoredColumns(read_batch(batch, api_version=9, max_decompressed_bytes=1 << 24).records)
        for batch in data
    ]
    began = time.thread_time_ns()
    verdicts = [chain.judge(0, TOPIC_ID, columns) for columns in batches]
    took = time.thread_time_ns() - began
    assert verdicts == [ACCEPTED] * len(batches), verdicts
    return took


def encoded(payloads: Sequence[bytes], size: int) -> list[bytes]:
    """Batches of about a size, of so many records that they can be measured."""
    count = max(1, size // (sum(map(len, payloads)) // len(payloads)))
    batches = max(1, LEAST_RECORDS // count)
    return [encode_batch(values(*(payloads[at % len(payloads)] for at in range(count))))] * batches


def row(name: str, taken: Sequence[tuple[int, int]], count: int) -> list[str]:
    by, own = zip(*taken, strict=True)
    ratio = statistics.median(policy_ns / measure for measure, policy_ns in taken)
    return [
        name,
        f"{statistics.median(by) / count:,.0f}",
        f"{statistics.median(own) / count:,.0f}",
        f"{ratio:.2f}",
    ]


def whole_policy(rounds: int) -> Table:
    """`SchemaPolicy` next to the references, batch by batch."""
    table = Table("ns per record", "its measure", "SchemaPolicy", "ratio")
    with tempfile.TemporaryDirectory() as name, FakeRegistry() as registry:
        for case in cases():
            folder = Path(name)
            number = registry.register("orders-value", case.text, case.schema_type)
            framed = b"\0" + number.to_bytes(4)
            by, own = chains(case, folder, registry)
            payloads = [case.payload(at) for at in range(LEAST_RECORDS)]
            with_id = [framed + payload for payload in payloads]
            for size, length in SIZES.items():
                own_data = encoded(with_id, length)
                # Where the measure takes values without ids, the records are as many.
                by_data = own_data if case.plain else encoded(payloads, length)
                counts = [sum(_count(schema) for schema in data) for data in (by_data, own_data)]
                taken = [
                    (judging(by, by_data) * counts[1] // counts[0], judging(own, own_data))
                    for _ in range(rounds)
                ]
                title = f"{case.name}, {size}: {case.measure}"
                table.add_row(*row(title, taken, counts[1]))
    return table


def _count(batch: bytes) -> int:
    return int.from_bytes(batch[57:61])  # the header's number of records


def compiled_alone(rounds: int) -> Table:
    """Compiled schemas, without a policy around them."""
    table = Table("ns per record", "plain calls", "compiled", "ratio")
    for case in cases():
        if case.plain is None:
            continue
        plain, skipped = case.plain, case.skipped
        payloads = [case.payload(at) for at in range(LEAST_RECORDS)]
        messages = [payload[skipped:] for payload in payloads]
        compiled = compile_schema(SchemaSource(case.schema_type, case.text))
        taken = []
        for _ in range(rounds):
            start = time.thread_time_ns()
            for message in messages:
                check_present(plain(message))
            between = time.thread_time_ns()
            refused = list(compiled.objections(payloads))
            taken.append((between - start, time.thread_time_ns() - between))
            assert not refused
        table.add_row(*row(f"{case.name}: {case.measure}", taken, len(payloads)))
    return table


def with_keyword(more: dict[str, Any]) -> dict[str, Any]:
    """The schema of `JSON` with something more."""
    properties = dict(JSON["properties"])
    for name, schema in more.get("properties", {}).items():
        properties[name] = {**properties[name], **schema}
    draft = "https://json-schema.org/draft/2020-12/schema"
    return {**JSON, **more, "$schema": draft, "properties": properties}


def keywords(rounds: int) -> Table:
    """JSON Schemas by keyword, without a policy around them."""
    table = Table("ns per record", "jsonschema-rs", "compiled", "ratio")
    payloads = [json.dumps(order(number)).encode() for number in range(LEAST_RECORDS)]
    for name, more in KEYWORDS.items():
        schema = with_keyword(more)
        is_valid = jsonschema_rs.validator_for(schema).is_valid
        compiled = compile_schema(SchemaSource("JSON", json.dumps(schema)))
        taken = []
        for _ in range(rounds):
            start = time.thread_time_ns()
            fit = all(is_valid(orjson.loads(payload)) for payload in payloads)
            between = time.thread_time_ns()
            refused = list(compiled.objections(payloads))
            taken.append((between - start, time.thread_time_ns() - between))
            assert fit, name
            assert not refused, name
        table.add_row(*row(name, taken, len(payloads)))
    return table


TABLES: dict[str, Callable[[int], Table]] = {
    "policy": whole_policy,
    "compiled": compiled_alone,
    "keywords": keywords,
}

if __name__ == "__main__":
    for name in sys.argv[1:] or TABLES:
        Console().print(TABLES[name](ROUNDS))
