"""Rows of types that JSON, Avro and Protobuf all have, and these rows as records of each."""

import io
import json
import random
from pathlib import Path
from typing import Any, Final

import fastavro
from google.protobuf import message_factory

from penstock.engine.columns import columns_of
from penstock.jobs.evaluation import Evaluator
from penstock.policies.rules.formats import reader_of
from penstock.policies.rules.settings import Format
from penstock.policy import Record
from penstock.spark import RecordPlan, judge_rows, load_plan, plan
from tests.spark.rows.generated import some_of

COLUMNS: Final = ("id", "count", "ratio", "ok", "name", "customer", "tags", "counts")
TYPES: Final = (
    "id bigint, count int, ratio double, ok boolean, name string, "
    "customer struct<email: string, age: int>, tags array<string>, counts map<string, bigint>"
)
_CUSTOMER: Final = ("email", "age")
_ABSENT: Final = {Format.AVRO: "value.customer == null", Format.PROTOBUF: "!has(value.customer)"}
"""Where there is no customer: Protobuf has no null, and a row is compared without nulls."""


def rules_of(kind: Format) -> dict[str, str]:
    """Return the conditions for rows and for records of a format."""
    absent = _ABSENT[kind]
    return {
        "positive": "value.id > 0 && value.count + 1 < 50",
        "ratio": "value.ratio >= -1.5 && value.ratio * 2.0 < 1e200",
        "ok": "value.ok",
        "known": "value.name in ['EUR', 'ü\\u2028'] && value.name.matches('^[^U]')",
        "adult": f"{absent} || value.customer.age >= 18",
        "mail": f"{absent} || value.customer.email.contains('@')",
        "tagged": "size(value.tags) < 4 && value.tags.all(tag, tag != 'x')",
        "counted": "!('a' in value.counts) || value.counts['a'] != 3",
    }


def _nullable(kind: Any) -> list[Any]:
    return ["null", kind]


AVRO: Final = {
    "type": "record", "name": "Order", "fields": [
        {"name": "id", "type": _nullable("long")},
        {"name": "count", "type": _nullable("int")},
        {"name": "ratio", "type": _nullable("double")},
        {"name": "ok", "type": _nullable("boolean")},
        {"name": "name", "type": _nullable("string")},
        {"name": "customer", "type": _nullable({"type": "record", "name": "Customer", "fields": [
            {"name": "email", "type": _nullable("string")},
            {"name": "age", "type": _nullable("int")},
        ]})},
        {"name": "tags", "type": _nullable({"type": "array", "items": _nullable("string")})},
        {"name": "counts", "type": _nullable({"type": "map", "values": _nullable("long")})},
    ],
}  # fmt: skip
PROTOBUF: Final = """
syntax = "proto3";
message Order {
  int64 id = 1; int32 count = 2; double ratio = 3; bool ok = 4; string name = 5;
  Customer customer = 6; repeated string tags = 7; map<string, int64> counts = 8;
}
message Customer { string email = 1; int32 age = 2; }
"""
FILES: Final = {
    Format.AVRO: ("order.avsc", json.dumps(AVRO)),
    Format.PROTOBUF: ("order.proto#Order", PROTOBUF),
}


def rows(count: int, seed: int, kind: Format) -> list[tuple[Any, ...]]:
    """Return generated rows; Protobuf has no null but for messages."""
    rng = random.Random(seed)
    some = some_of(rng, 0.04 if kind is Format.AVRO else 0.0)
    return [
        (
            some(lambda number=number: rng.choice([number, -number, 2**63 - 1, -(2**63)])),
            some(lambda: rng.randint(-5, 60)),
            some(lambda: rng.choice([0.1, -1.5, -7.0, 3.0, 1e300, 1e-300, 2.0**60])),
            some(lambda: rng.random() < 0.9),
            some(lambda: rng.choice([*["EUR"] * 8, "USD", "", "ü\u2028"])),
            some_of(rng, 0.1)(
                lambda: (some(lambda: rng.choice(["a@b", "none"])), some(lambda: rng.randint(9, 60)))
            ),
            some(lambda: [some(lambda: rng.choice("wxyz")) for _ in range(rng.randint(0, 4))]),
            some(lambda: {key: some(lambda: rng.randint(0, 4)) for key in rng.sample("abc", 2)}),
        )
        for number in range(count)
    ]  # fmt: skip


def same_as_records(spark: Any, folder: Path, count: int, seed: int, kind: Format) -> None:
    """Compare the verdicts on rows with those on records that have the same values."""
    file, text = FILES[kind]
    (folder / file.partition("#")[0]).write_text(text)
    generated = rows(count, seed, kind)
    nulls = "null" if kind is Format.AVRO else "missing"
    row_plan = plan(rules=rules_of(kind), nulls=nulls)
    judged = judge_rows(spark.createDataFrame(generated, TYPES).coalesce(1), row_plan)
    found = [_of_row(row.verdict) for row in judged.select("verdict").collect()]
    evaluator = Evaluator(_plan(folder, kind))
    records = columns_of([Record(-1, None, value) for value in _encoded(generated, kind, folder)])
    wire = evaluator.judge_by_all("rows", 0, records)
    evaluator.close()
    refused = dict(wire.verdicts)
    expected = [
        (
            "accepted" if number not in refused else refused[number].outcome.value,
            {objection.rule for objection in wire.objections.get(number, ())},
        )
        for number in range(count)
    ]
    different = [
        (row, by_row, by_record)
        for row, by_row, by_record in zip(generated, found, expected, strict=True)
        if by_row != by_record
    ]
    assert not different, (seed, len(different), different[:3])
    assert {rule for _, rules in found for rule in rules} == set(rules_of(kind))
    assert 0 < len(refused) < count


def _of_row(verdict: Any) -> tuple[str, set[str]]:
    return verdict.outcome, {objection.rule for objection in verdict.objections}


def _plan(folder: Path, kind: Format) -> RecordPlan:
    """Load the rules for records of a format."""
    keys = {f"rules.{name}": condition for name, condition in rules_of(kind).items()}
    keys |= {"format": kind.value, "schema.file": FILES[kind][0]}
    lines = [f"policies.p.{key}={value}".replace("\\", "\\\\") for key, value in keys.items()]
    file = folder / f"{kind.value}.properties"
    head = ["policies=p", "policies.p.type=penstock.policies.Rules", "topics.*.penstock.policies=p"]
    file.write_text("\n".join([*head, *lines]) + "\n", encoding="utf-8")
    return load_plan(file, topic="rows")


def _encoded(generated: list[tuple[Any, ...]], kind: Format, folder: Path) -> list[bytes]:
    values = [dict(zip(COLUMNS, row, strict=True)) for row in generated]
    for value in values:
        if value["customer"] is not None:
            value["customer"] = dict(zip(_CUSTOMER, value["customer"], strict=True))
    if kind is Format.AVRO:
        schema = fastavro.parse_schema(AVRO)
        return [_avro(schema, value) for value in values]
    reader = reader_of(kind, {"schema.file": FILES[kind][0]}, folder, is_key=False)
    message = message_factory.GetMessageClass(reader.message)
    return [message(**value).SerializeToString() for value in values]


def _avro(schema: Any, value: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, schema, value)
    return out.getvalue()
