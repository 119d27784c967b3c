"""Rules of contracts about all records of a topic: parts of sums, and their results."""

import json
import time
from itertools import islice

import pytest
import yaml

from penstock.jobs.contracts import contracts_of
from penstock.jobs.data_sets import DataSetSums, Measuring, RuleKey, RuleSum, decode, encode
from penstock.jobs.evaluation import Evaluator
from penstock.jobs.plan import load_plan

NOW_MS = 1_700_000_000_000


@pytest.fixture
def promises():
    """The promise of the contract about all of its records."""
    return []


@pytest.fixture
def evaluator(tmp_path, promises):
    """The policies of a file with a contract for topics orders-*."""
    contract = {
        "kind": "DataContract", "apiVersion": "v3.1.0", "id": "orders", "name": "orders", "version": "1",
        "status": "active",
        "schema": [{
            "name": "order",
            "properties": [
                {"name": "id", "unique": True},
                {"name": "note", "quality": [{"metric": "nullValues", "mustBeLessThan": 50, "unit": "percent",
                                              "severity": "warning"}]},
            ],
            "quality": [{"metric": "rowCount", "mustBeGreaterThan": 2}, {"type": "sql", "name": "total", "query": "SELECT 1", "mustBe": 0}],
        }],
        "slaProperties": promises,
    }  # fmt: skip
    (tmp_path / "orders.yaml").write_text(yaml.safe_dump(contract))
    file = tmp_path / "gateway.properties"
    file.write_text(
        "upstream.bootstrap.servers=127.0.0.1:1\npolicies=c\n"
        "policies.c.type=penstock.policies.DataContract\npolicies.c.contract=orders.yaml\n"
        "topics.orders-*.penstock.policies=c\n"
    )
    made = Evaluator(load_plan(file))
    yield made
    made.close()


def measured(evaluator, parts, topics=("orders-1",)):
    """Return the rules of each contract as `place name: measured held`."""
    with DataSetSums() as sums:
        for part in parts:
            sums.add(part)
        found = contracts_of(evaluator, topics, sums.totals(), NOW_MS)
    return {
        contract.topic: [f"{rule.title} {rule.measured} {rule.held}" for rule in contract.rules]
        for contract in found
    }


def values(*rows):
    return [None if row is None else json.dumps(row).encode() for row in rows]


def test_sums_of_parts_are_those_of_the_whole(evaluator):
    rows = [{"id": n % 700, "note": None if n % 3 else "x"} for n in range(1000)]
    whole, halves = Measuring(evaluator), [Measuring(evaluator), Measuring(evaluator)]
    assert whole.add("orders-1", values(*rows), [0] * 1000) is None
    for number, half in enumerate(halves):
        half.add("orders-1", values(*rows[number::2]), [0] * 500)
    expected = {
        "orders-1": [
            "order: rowCount 1000.0 True",
            "order.id: unique 300.0 False",
            "order.note: nullValues 66.6 False",
            "order: total None None",
        ]
    }
    assert expected == measured(evaluator, [whole.rest()])
    assert expected == measured(evaluator, [half.rest() for half in halves])


def test_tombstones_are_not_rows_and_invalid_json_has_no_properties(evaluator):
    measuring = Measuring(evaluator)
    measuring.add("orders-1", [None, b"{", b'{"id": 1, "note": "x"}', b'{"id": 1}'], [0, 0, 0, 0])
    assert measured(evaluator, [measuring.rest()])["orders-1"][:3] == [
        "order: rowCount 3.0 True",
        "order.id: unique 1.0 False",
        "order.note: nullValues 66.66666666666667 False",
    ]


def test_topics_are_measured_separately_also_without_records(evaluator):
    measuring = Measuring(evaluator)
    measuring.add("orders-1", values({"id": 1}), [0])
    measuring.add("orders-2", values({"id": 1}), [0])
    measuring.add("payments", values({"id": 1}), [0])
    found = measured(evaluator, [measuring.rest()], ["orders-3", "payments"])
    assert {topic: rules[:2] for topic, rules in found.items()} == {
        "orders-1": ["order: rowCount 1.0 False", "order.id: unique 0.0 True"],
        "orders-2": ["order: rowCount 1.0 False", "order.id: unique 0.0 True"],
        "orders-3": ["order: rowCount 0.0 False", "order.id: unique 0.0 True"],
    }


@pytest.mark.parametrize("promises", [[{"property": "freshness", "value": 1, "unit": "d"}]])
def test_a_record_from_the_far_future_does_not_make_a_topic_fresh(evaluator):
    measuring = Measuring(evaluator)
    now_ms = time.time_ns() // 1_000_000
    measuring.add("orders-1", values({"id": 1}, {"id": 2}), [1000, now_ms + 86_400_000])
    (found,) = (row for row in decode(measuring.rest()) if row.latest is not None)
    assert found.latest == 1000


def test_many_values_are_given_in_several_parts(evaluator):
    measuring, parts = Measuring(evaluator), []
    numbers = iter(range(50_000))
    while chunk := list(islice(numbers, 1000)):
        parts.append(
            measuring.add(
                "orders-1", values(*({"id": number} for number in chunk)), [0] * len(chunk)
            )
        )
    parts.append(measuring.rest())
    assert sum(part is not None for part in parts) == 3
    assert measured(evaluator, parts)["orders-1"][:2] == [
        "order: rowCount 50000.0 True",
        "order.id: unique 0.0 True",
    ]


def test_no_content_of_a_record_is_in_the_sums(evaluator):
    measuring = Measuring(evaluator)
    measuring.add("orders-1", values({"id": "SECRET-4111", "note": "SECRET"}), [0])
    assert b"SECRET" not in measuring.rest()


def test_rules_with_severity_warning_break_no_contract(evaluator):
    measuring = Measuring(evaluator)
    measuring.add("orders-1", values({"id": 1}, {"id": 2}, {"id": 3}), [0] * 3)
    with DataSetSums() as sums:
        sums.add(measuring.rest())
        (contract,) = contracts_of(evaluator, ["orders-1"], sums.totals(), NOW_MS)
    assert [rule.held for rule in contract.rules] == [True, True, False, None]
    assert contract.broken == ()
    assert contract.contract == "contract orders 1, order"
    assert contract.rules[2].shown == "100; must be less than 50 %"
    (empty,) = contracts_of(evaluator, ["orders-1"], {}, NOW_MS)
    assert empty.rules[2].shown == "not judged: there are no values to take a share of"
    assert contract.rules[3].shown == "not judged: a rule of type sql is not judged"


def test_rows_are_the_same_as_bytes():
    rows = [RuleSum("t", "p", 0, "", 1, 0, None), RuleSum("t", "p", 1, "ab", 1, 0, 5)]
    assert list(decode(encode(rows))) == rows
    assert rows[1].key == RuleKey("t", "p", 1)
