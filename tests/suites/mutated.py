"""Schemas of each format with rules, and records that are mutated at random, for what judges them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tests.policies.json_schema.mutations import HARD, mutated
from tests.policies.json_schema.pairs import DRAFTS, Pairs
from tests.policies.schema_policy.payloads.avro.schemas import LIST, TREE
from tests.policies.schema_policy.payloads.protobuf.files import EDITION, OLD, SHOP, inside
from tests.policies.schema_policy.payloads.protobuf.messages import check, damaged, filled
from tests.suites.avro_payloads import Payloads
from tests.suites.avro_schemas import schemas

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterator

MOST_BYTES: Final = 500_000
RULES: Final = (
    "size(message) >= 0",
    "message.a.all(x, message.a.exists(y, x == y))",
    "message.all(x, message.all(y, size(x) >= 0 || size(y) >= 0))",
    "message.a.map(x, message.a.map(y, x + y)).size() < 1000000",
    "message.a.matches('^(a|b|ab)*c$') || message.a.matches('(x+x+)+y')",
    "message.id.replace('a', 'aaaaaaaaaa').replace('a', 'aaaaaaaaaa').size() >= 0",
    "message.label.isEmail() || message.label.isUri() || message.label.isHostname()",
    "[1, 2, 3, 4, 5, 6, 7].all(x, [1, 2, 3, 4, 5, 6, 7].all(y, message.leaves.all(z, x * y > 0)))",
    "message.many.all(x, message.many.all(y, x.value + y.value >= 0))",
)
FIELD_RULES: Final = ("size(value) < 20", "value.matches('^(.*)*$')", "value.isEmail()")
OPEN: Final = {
    "type": "object",
    "properties": {"label": {"type": "string", "confluent:tags": ["PII"]}},
}
"""Takes what rules are to judge."""
TAGGED: Final = {"confluent:tags": ["PII"]}


class Kind(NamedTuple):
    """A schema, and what makes records for it.

    Attributes:
        schema_type: As a registry calls it.
        text: The schema.
        record: Makes a record without an id.
    """

    schema_type: str
    text: str
    record: Callable[[], bytes]


def kinds(chance: random.Random) -> Iterator[Kind]:
    """Yield schemas without an end: of JSON, Avro and Protobuf in turn."""
    avro = [LIST, TREE, *schemas()]
    while True:
        yield _json(chance)
        yield Kind("JSON", json.dumps(OPEN), lambda: large(chance))
        found = _avro(chance.choice(avro), chance)
        if found is not None:
            yield found
        yield _protobuf(chance)


def rule_set(chance: random.Random) -> dict[str, Any]:
    """Return some rules, of which each may be one that makes much of a record."""
    rules = [
        {"name": f"r{at}", "kind": "CONDITION", "mode": "WRITE", "type": "CEL", "expr": condition}
        for at, condition in enumerate(chance.sample(RULES, 2))
    ]
    field = {"name": "f", "kind": "CONDITION", "mode": "WRITE", "type": "CEL_FIELD"}
    return {"domainRules": [*rules, {**field, "expr": chance.choice(FIELD_RULES)}]}


def grown(data: bytes, chance: random.Random) -> bytes:
    """Return a record with a part of it many times over."""
    start, end = sorted(chance.randrange(len(data) + 1) for _ in range(2))
    part = data[start:end] or b"\0"
    times = chance.choice([1, 1, 1, 10, 1000, MOST_BYTES]) // len(part)
    return data[:end] + part * min(times, MOST_BYTES // len(part)) + data[end:]


def large(chance: random.Random) -> bytes:
    """Return an object whose parts are as large as chance has them."""
    most = chance.choice([1, 10, 100, 3000, 100_000])
    text = chance.choice(["x", "ab", "a.b@c.de", "http://", "\u00e4\U0001f600", "\\n"])
    value = {
        "a": chance.choice([["x"] * chance.randrange(most), text * chance.randrange(most), 1]),
        "id": "a" * chance.randrange(most),
        "label": text * chance.randrange(most),
        "leaves": list(range(chance.randrange(most))),
        "many": [{"value": number} for number in range(chance.randrange(most))],
    }
    for name in chance.sample(sorted(value), chance.randrange(3)):
        value[name] = chance.choice([[], "", {}, None, [[[]]]])
    return json.dumps(value).encode()


def _json(chance: random.Random) -> Kind:
    pairs = Pairs(chance.choice(sorted(DRAFTS)), chance.randrange(2**32))
    source = pairs.schema()
    schema = {**chance.choice(HARD), **TAGGED} if chance.random() < 0.5 else source
    return Kind("JSON", json.dumps(schema), lambda: mutated(pairs.text(source), chance))


def _avro(schema: Any, chance: random.Random) -> Kind | None:
    payloads = Payloads(schema, chance)
    try:
        payloads.right()
    except Exception:  # not all of fastavro's schemas are alone
        return None
    return Kind("AVRO", json.dumps(schema), lambda: grown(payloads.damaged(), chance))


def _protobuf(chance: random.Random) -> Kind:
    text, name, indexes = chance.choice(
        [
            (SHOP, "shop.Order", b"\2\2"),
            (SHOP, "shop.Event", b"\2\4"),
            (SHOP, "shop.Tree", b"\2\6"),
            (OLD, "old.Whole", b"\2\2"),
            (EDITION, "modern.Item", b"\0"),
        ]
    )
    judge = check(text, name)

    def record() -> bytes:
        message = filled(judge.new(), chance)
        data = grown(damaged(message.SerializePartialToString(), chance), chance)
        for _ in range(chance.choice([0, 0, 3, 60, 98])):
            data = inside(chance.choice([1, 3]), data)
        return indexes + data

    return Kind("PROTOBUF", text, record)
