"""Thousands of damaged and grown records: none is judged or explained beyond its time limit.

CPU time is measured, and for a record that took too long the least of several runs, because of
other work of the machine. Bounded: about a minute.
"""

import random
import time
from collections import Counter
from typing import NamedTuple

import pytest

from penstock.policies.explanations import Explanations
from tests.policies.schema_policy.payloads.avro.chains import COSTLY as COSTLY_AVRO
from tests.policies.schema_policy.payloads.avro.schemas import LIST, TREE, compiled
from tests.policies.schema_policy.payloads.protobuf.files import (
    DELIMITED,
    EDITION,
    OLD,
    SHOP,
    inside,
)
from tests.policies.schema_policy.payloads.protobuf.messages import REQUIRED, check, damaged, filled
from tests.suites.avro_payloads import Payloads
from tests.suites.avro_schemas import schemas

pytestmark = pytest.mark.suites
RECORDS = 3_000
MOST_BYTES = 500_000
EXPLAINED_S = 0.05
PER_BYTE_S = 1e-6
"""What a verdict may take besides: upb makes a message of two bytes, as large as its type."""


class Slowest(NamedTuple):
    seconds: float = 0.0
    what: str = ""


def grown(data, chance):
    """A record with a part of it many times over."""
    start, end = sorted(chance.randrange(len(data) + 1) for _ in range(2))
    part = data[start:end] or b"\0"
    times = chance.choice([10, 1000, MOST_BYTES]) // len(part)
    return data[:end] + part * min(times, MOST_BYTES // len(part)) + data[end:]


def timed(call):
    """What a call returns, and its seconds."""
    least, result = 9.0, None
    for _ in range(3):
        began = time.thread_time()
        result = call()
        least = min(least, time.thread_time() - began)
        if least < EXPLAINED_S:
            break
    return result, least


def test_avro(suites_seed):
    chance = random.Random(suites_seed)
    made = [(LIST, {}), (TREE, {})]
    made += [({"type": "array", "items": item}, more) for item, more, _ in COSTLY_AVRO.values()]
    made += [(schema, {}) for schema in schemas()]
    ready = []
    for schema, references in made:
        try:
            payloads = Payloads([schema, *references.values()], chance)
            payloads._schema = schema
            payloads.right()
            ready.append((schema, compiled(schema, **references), payloads))
        except Exception:  # as the suite of Avro
            continue
    counted, slowest = Counter(), Slowest()
    for number in range(RECORDS):
        schema, judge, payloads = ready[number % len(ready)]
        payload = grown(payloads.damaged(), chance)
        objection, seconds = timed(lambda: list(judge.objections([payload])))  # noqa: B023
        counted["refused" if objection else "fits"] += 1
        slowest = max(slowest, Slowest(seconds, f"{len(payload):,} bytes of {schema}"[:200]))
    print(f"\nAvro, seed {suites_seed}: {dict(counted)}, slowest {slowest}")
    assert counted["refused"] > RECORDS / 2
    assert slowest.seconds < EXPLAINED_S


TYPES = [
    (SHOP, "shop.Order"),
    (SHOP, "shop.Event"),
    (SHOP, "shop.Tree"),
    (OLD, "old.Whole"),
    (EDITION, "modern.Item"),
    (DELIMITED, "groups.Whole"),
    (f"syntax = 'proto2'; message A {{ repeated B b = 1; }} message B {{ {REQUIRED} }}", "A"),
]


@pytest.mark.parametrize("unknown", [False, True])
def test_protobuf(suites_seed, unknown):
    chance = random.Random(suites_seed)
    judges = [check(text, name, unknown=unknown) for text, name in TYPES]
    counted, explaining, judging = Counter(), Slowest(), Slowest()
    for number in range(RECORDS):
        judge = judges[number % len(judges)]
        data = damaged(filled(judge.new(), chance).SerializePartialToString(), chance)
        data = grown(data, chance)
        for _ in range(chance.choice([0, 0, 3, 60, 98])):
            data = inside(chance.choice([1, 3]), data)
        what = f"{len(data):,} bytes of {judge.descriptor.full_name}"
        objection, seconds = timed(lambda: judge.refusal(data))  # noqa: B023
        counted["refused" if objection else "fits"] += 1
        judging = max(judging, Slowest(seconds - PER_BYTE_S * len(data), what))
        if objection:
            why, seconds = timed(lambda: judge.explanation(data))  # noqa: B023
            counted["explained"] += why.text is not None
            explaining = max(explaining, Slowest(seconds, what))
    print(f"\nProtobuf, seed {suites_seed}: {dict(counted)}, slowest to explain {explaining}, to "
          f"judge {judging} more than {PER_BYTE_S * 1e6} s a MB")  # fmt: skip
    assert counted["explained"] > RECORDS / 20
    assert explaining.seconds < EXPLAINED_S
    assert judging.seconds < EXPLAINED_S


def test_a_batch_whose_reasons_are_slow_to_build(suites_seed):
    """As many records as a batch may have, each with the longest explanation."""
    judge = check(SHOP, "shop.Order")
    data = inside(3, b"") * 50_000 + b"\x48\x01"
    explanations, began = Explanations(), time.thread_time()
    for _ in range(200):
        judge.objection(data, explanations)
    assert time.thread_time() - began < 0.3
