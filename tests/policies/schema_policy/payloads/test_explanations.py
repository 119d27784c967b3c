"""So many records of a batch are explained, for so long, and no more."""

from itertools import count

from penstock.policies.schema_policy.payloads.explanations import (
    MAX_RECORDS,
    MAX_SECONDS,
    PayloadExplanations,
)
from tests.policies.schema_policy.payloads.protobuf.files import SHOP, inside, schema


def test_so_many_are_explained():
    explanations = PayloadExplanations(clock=lambda: 7.0)
    found = [explanations.explain(lambda: "why") for _ in range(MAX_RECORDS + 5)]
    assert found == ["why"] * MAX_RECORDS + [None] * 5


def test_nothing_is_explained_when_the_time_is_spent():
    ticks = count()
    explanations = PayloadExplanations(clock=lambda: next(ticks) * MAX_SECONDS / 2.5)
    assert [explanations.explain(lambda: "why") for _ in range(5)] == ["why"] * 3 + [None] * 2


def test_all_are_judged_and_the_first_explained():
    payloads = [b"\0" + inside(9, b"x")] * (MAX_RECORDS + 50) + [b"\0"]
    # The first message of the file.
    refused = schema(SHOP).objections([payload.replace(b"\0", b"\2\2", 1) for payload in payloads])
    unknown = "Protobuf: unknown field 9 in shop.Order"
    assert [position for position, _ in refused] == list(range(MAX_RECORDS + 50))
    assert [text for _, text in refused[:MAX_RECORDS]] == [unknown] * MAX_RECORDS
    assert {text for _, text in refused[MAX_RECORDS:]} == {"Protobuf: has an unknown field"}
