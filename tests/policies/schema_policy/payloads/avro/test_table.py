"""A schema as nodes: types that are one step, and the bound of visited nodes for a payload."""

import json
import time

import pytest

from penstock.policies.schema_policy.payloads.avro.parse import parse
from penstock.policies.schema_policy.payloads.avro.table import (
    CHAIN,
    LONG,
    MAX_PATH,
    RECORD,
    STEP,
    UNION,
    TypeNode,
    flatten,
)
from penstock.policies.schema_policy.payloads.avro.types import MAX_LEVELS
from tests.policies.schema_policy.payloads.avro.chains import COSTLY, chain, record
from tests.policies.schema_policy.payloads.avro.schemas import LIST, compiled, objection
from tests.policies.schema_policy.payloads.avro.walk import Walker, _PayloadWalk


def nodes(schema):
    return flatten(parse(json.dumps(schema), {}))


def test_a_type_of_fixed_size_is_one_step():
    pair = record("Pair", x="double", y=record("F", z="float", n="null"))
    assert nodes({"type": "array", "items": pair})[1] == TypeNode(STEP, 12, (), ())


def test_a_record_has_the_fields_that_may_take_bytes():
    assert nodes(record("R", a="null", b="long", c="double")) == [
        TypeNode(RECORD, 0, (1, 2), ("b", "c")),
        TypeNode(LONG, 0, (), ()),
        TypeNode(STEP, 8, (), ()),
    ]


def test_records_that_contain_only_each_other_are_one_node():
    flat = nodes(chain(5, record("Last", x="long", y="long")))
    assert flat[0] == TypeNode(CHAIN, 5, (1, 2), ("f0",))
    assert (flat[1].kind, flat[1].names) == (RECORD, ("x", "y"))
    assert objection(chain(5, record("Last", x="long", y="long")), b"\0") == (
        "Avro: ends before the field f0.f1.f2.f3.f4.y does"
    )


def test_a_record_that_leads_back_to_itself_has_no_end():
    circle = record("A", b=record("B", c=record("C", a="A")))
    assert [node.number for node in nodes(circle)] == [MAX_LEVELS + 1] * 3
    names = ".".join("bca"[at % 3] for at in range(MAX_LEVELS))
    assert objection(circle, b"") == (
        f"Avro: the field ...{names[-MAX_PATH:]} is inside more than 127 records, arrays and maps"
    )
    # One that leads into the circle, and is not in it.
    assert "is inside more than 127" in objection(record("X", a=circle), b"")


@pytest.mark.parametrize("levels", range(MAX_LEVELS - 5, MAX_LEVELS))
def test_levels_of_a_chain_count_one_by_one(levels):
    """Around it are a record and an array, and it ends with a record."""
    schema = record("Top", list={"type": "array", "items": "R0"})
    reason = objection(schema, b"\2\0\0", chain=chain(levels, "N"), list=LIST)
    assert (reason is not None) == (levels + 3 > MAX_LEVELS)
    assert reason is None or reason.endswith("is inside more than 127 records, arrays and maps")


def test_names_are_shown_without_control_characters():
    (flat, *_) = nodes(record("R", **{"a\n\x1b[31m": "long", "b" * 999: "long"}))
    assert flat.names == ("a??[31m", "b" * (MAX_PATH + 1))


def test_a_union_of_named_types_names_their_nodes():
    assert nodes(LIST)[:2] == [TypeNode(RECORD, 0, (1,), ("n",)), TypeNode(UNION, 0, (2, 0), ())]


@pytest.mark.parametrize(("item", "references", "data"), COSTLY.values(), ids=COSTLY.keys())
def test_no_payload_has_more_nodes_visited_than_it_has_bytes(item, references, data, monkeypatch):
    schema = {"type": "array", "items": item}
    count = 40_000 // len(data)
    payload = written_count(count) + data * count + b"\0"
    visited, read = [], _PayloadWalk.read
    monkeypatch.setattr(_PayloadWalk, "read", lambda *given: visited.append(1) or read(*given))
    texts = {name: json.dumps(reference) for name, reference in references.items()}
    walker = Walker(flatten(parse(json.dumps(schema), texts)))

    assert list(walker.objections([payload])) == []
    assert len(visited) <= 3 * len(payload) + 200


@pytest.mark.parametrize(("item", "references", "data"), COSTLY.values(), ids=COSTLY.keys())
def test_a_large_payload_is_judged_and_explained_in_little_time(
    item, references, data, implementation
):
    """A MB took 65 seconds; the bound is that of ten records here, as a slow machine may run this."""
    schema = {"type": "array", "items": item}
    count = (1_000_000 if implementation == "1" else 20_000) // len(data)
    payload = written_count(count) + data * count
    ready = compiled(schema, **references)

    began = time.thread_time()
    (reason,) = ready.objections([payload])

    assert time.thread_time() - began < 0.5
    assert reason[1] == "Avro: ends before the value does"


def written_count(number):
    left, data = 2 * number, bytearray()
    while left > 127:
        data.append(left & 127 | 128)
        left >>= 7
    return bytes((*data, left))
