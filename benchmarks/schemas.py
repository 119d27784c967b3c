"""What judging by a schema costs, side by side: `PYTHONPATH=src python benchmarks/schemas.py`.

One process, nothing else: ns of CPU per record, the median of rounds in which all take turns, so
that a machine that grows slower or faster does so for all. A format's two lines are the measure and
what is measured by it, and the ratio of the two is what counts:

- Avro: fastavro making each value, plus a policy that only looks at it; and `objections`
- JSON: `penstock.policies.JsonSchema` by file; and `objections` of the same schema as a text, with
  the five bytes of the schema id cut off each value as it is judged

Bounded: less than a minute.
"""

import json
import statistics
import tempfile
import time
from collections.abc import Callable
from io import BytesIO
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

import fastavro
from rich.console import Console
from rich.table import Table

from penstock.policies import JsonSchema
from penstock.policies.schema_policy.payloads import compile_schema
from penstock.policies.schema_policy.payloads.compiled import SchemaSource
from penstock.policy import TopicIdPartition, TopicMetadata

ROUNDS = 21
RECORDS = 3_000
ID = b"\0\0\0\0\1"
PAYLOAD = itemgetter(slice(len(ID), None))
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


class Columns(NamedTuple):
    """The part of a batch that `JsonSchema` judges."""

    keys: list
    values: list


class Pair(NamedTuple):
    """A format: what is measured, and its measure; each judges all records once."""

    measure: str
    by: Callable[[], None]
    measured: str
    of: Callable[[], None]


def order(number):
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


def look(value):
    """What a policy does that only looks."""
    if value is None:
        raise ValueError


def avro():
    schema = fastavro.parse_schema(AVRO)
    values = []
    for number in range(RECORDS):
        out = BytesIO(ID)
        out.seek(len(ID))
        fastavro.schemaless_writer(out, schema, order(number))
        values.append(out.getvalue())
    compiled = compile_schema(SchemaSource("AVRO", json.dumps(AVRO)))

    def plain():
        for value in values:
            look(fastavro.schemaless_reader(BytesIO(value[5:]), schema, None))

    def ours():
        assert not list(compiled.objections(map(PAYLOAD, values)))

    return Pair("fastavro, and a look", plain, "Avro: objections", ours)


def json_schema(folder):
    values = [json.dumps(order(number)).encode() for number in range(RECORDS)]
    framed = [ID + value for value in values]
    (folder / "order.json").write_text(json.dumps(JSON))
    policy = JsonSchema()
    policy.use_folder(folder)
    policy.configure({})
    topic = TopicMetadata(TopicIdPartition(UUID(int=1), "orders", 0), "order.json")
    batch = Columns([None] * RECORDS, values)
    compiled = compile_schema(SchemaSource("JSON", json.dumps(JSON)))

    def by_file():
        assert not list(policy.validate_batch(topic, batch))

    def ours():
        assert not list(compiled.objections(map(PAYLOAD, framed)))

    return Pair("JsonSchema by file", by_file, "JSON: objections", ours)


def pairs(folder):
    """Every format; another one, like Protobuf, is one function more."""
    return [avro(), json_schema(folder)]


def main():
    table = Table("", "ns/record", "ratio")
    with tempfile.TemporaryDirectory() as folder:
        found = pairs(Path(folder))
        taken = {one: [] for pair in found for one in (pair.by, pair.of)}
        for _ in range(ROUNDS):
            for judging, rounds in taken.items():
                start = time.process_time_ns()
                judging()
                rounds.append((time.process_time_ns() - start) / RECORDS)
    for pair in found:
        base, own = statistics.median(taken[pair.by]), statistics.median(taken[pair.of])
        table.add_row(pair.measure, f"{base:,.0f}", "")
        table.add_row(pair.measured, f"{own:,.0f}", f"{own / base:.2f}")
    Console().print(table)


if __name__ == "__main__":
    main()
