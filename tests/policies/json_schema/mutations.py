"""Records that are mutated at random, judged by schemas that make much of little.

    python -m tests.policies.json_schema.mutations [COUNT] [SEED]

Each judgement, with its reason, has to stay within `RECORD_S`, and a batch of such records within
`BATCH_S`: what would take longer would have a worker killed. `COUNT` records; an hour of them is
about 20 million.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.policies.json_schema.pairs import DRAFTS, Pairs
from tests.policies.json_schema.schemas import check

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.policies.json_schema.schemas import Judged

RECORD_S = 0.05
BATCH_S = 0.25
IN_A_BATCH = 200
REF = {"$ref": "#"}
HARD: list[Any] = [
    {"anyOf": [{"type": "integer"}, {"type": "array", "items": REF}]},
    {"anyOf": [{"properties": {"a": REF}, "items": REF}, {"properties": {"a": REF}, "items": REF}]},
    {"oneOf": [{"type": "array", "items": REF}, {"type": "object", "additionalProperties": REF}, {"enum": [1, "a"]}]},
    {"allOf": [{"items": REF, "additionalProperties": REF}] * 4, "uniqueItems": True},
    {"not": {"not": {"items": REF, "contains": REF, "additionalProperties": REF}}},
    {"$dynamicAnchor": "n", "items": {"$dynamicRef": "#n"}, "unevaluatedProperties": {"$dynamicRef": "#n"}, "anyOf": [{"properties": {"a": REF}}, {"properties": {"b": REF}}]},
    {"patternProperties": {"^(a|b)*$": REF, "(?=a)": REF}, "additionalProperties": REF, "items": {"anyOf": [REF, {"pattern": "^(?!(x+x+)+y)"}]}},
    {"propertyNames": {"pattern": "(a?){20}a{20}"}, "if": {"minItems": 2}, "then": {"items": REF}, "else": {"additionalProperties": REF}},
]  # fmt: skip
PIECES = [
    b"[",
    b"]",
    b"{",
    b"}",
    b",",
    b":",
    b'"a"',
    b'"a":',
    b"1",
    b"-",
    b"e9",
    b"\\",
    b'"',
    b"x" * 30,
]


def mutated(text: bytes, chance: random.Random) -> bytes:
    """Return a text with some of its parts repeated, nested, replaced or cut."""
    for _ in range(chance.randrange(4)):
        at = chance.randrange(len(text) + 1)
        end = min(len(text), at + chance.choice((1, 3, 20, 200)))
        kind = chance.randrange(6)
        if kind == 0:
            text = text[:at] + text[at:end] * chance.choice((2, 10, 500)) + text[end:]
        elif kind == 1:
            depth = chance.choice((1, 30, 120))
            begins, ends = chance.choice(((b"[", b"]"), (b'{"a":', b"}"), (b"[1,", b"]")))
            text = begins * depth + text + ends * depth
        elif kind == 2:
            text = text[:at] + chance.choice(PIECES) + text[end:]
        elif kind == 3:
            text = b"[" + b",".join([text] * chance.choice((2, 20, 200))) + b"]"
        elif kind == 4:
            text = text[:at] + text[end:]
        else:
            text = b'{"a":' + text + b',"b":' + text + b"}"
        text = text[:200_000]
    return text


def judges(folder: Path, chance: random.Random) -> Iterator[tuple[Judged, Pairs, Any]]:
    """Yield schemas without an end: hard schemas, and those of `pairs.py`."""
    while True:
        draft = chance.choice(sorted(DRAFTS))
        pairs = Pairs(draft, chance.randrange(2**32))
        schema = chance.choice(HARD) if chance.random() < 0.5 else pairs.schema()
        (folder / "other.json").write_text(
            json.dumps({"definitions": {}, "$defs": {}} | pairs.schema())
        )
        try:
            yield check(folder, schema), pairs, schema
        except Exception as error:
            if type(error).__name__ != "SchemaError":
                raise


def run(count: int, seed: int) -> tuple[int, float, float]:
    """Judge records; return how many were refused, and the longest record and batch in seconds."""
    chance = random.Random(seed)
    refused, longest, longest_batch, done = 0, 0.0, 0.0, 0
    with tempfile.TemporaryDirectory() as name:
        for judged, pairs, schema in judges(Path(name), chance):
            source = pairs.schema() if schema in HARD else schema
            texts = [mutated(pairs.text(source), chance) for _ in range(IN_A_BATCH)]
            began = time.thread_time()
            found = list(judged.check.refused(texts))
            longest_batch = max(longest_batch, took := time.thread_time() - began)
            refused += len(found)
            assert took < BATCH_S + len(b"".join(texts)) / 5e7, (schema, took)
            for text in chance.sample(texts, 5):
                began = time.thread_time()
                judged.objection(text)
                longest = max(longest, took := time.thread_time() - began)
                assert took < RECORD_S, (schema, text[:200], took)
            done += len(texts)
            if done >= count:
                return refused, longest, longest_batch
    raise AssertionError


if __name__ == "__main__":
    number = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    start = int(sys.argv[2]) if len(sys.argv) > 2 else int(time.time())
    no, record, batch = run(number, start)
    print(
        f"seed {start}: {number} records, {no} refused; at most {record * 1000:.1f} ms a record, {batch * 1000:.0f} ms a batch of {IN_A_BATCH}"
    )
