"""Rules of a contract about all records of a topic: the measured and the required values."""

import json

import pytest
import yaml

from penstock.policies import DataContract
from penstock.policies.data_contract.data_set import Totals

NOW_MS = 1_700_000_000_000


def contract(tmp_path, properties, quality=(), promises=()):
    """Return the rules of a contract about topic `t`."""
    written = {"name": "o", "properties": list(properties), "quality": list(quality)}
    document = {"kind": "DataContract", "apiVersion": "v3.1.0", "id": "c", "name": "c", "version": "1", "status": "active",
                "schema": [written], "slaProperties": list(promises)}  # fmt: skip
    path = tmp_path / "c.yaml"
    path.write_text(yaml.safe_dump(document))
    policy = DataContract()
    policy.configure({"contract": str(path)})
    return policy.data_set_rules("t")


def measured(rule, rows, timestamp=NOW_MS):
    """Return the measurement of a rule on records, and whether it is met."""
    totals, digests = Totals(), set()
    for row in rows:
        given = rule.look(row, timestamp, NOW_MS)
        latest = [instant for instant in (totals.latest, given.latest) if instant is not None]
        digests.update(given.digests)
        totals = Totals(totals.total + given.total, totals.bad + given.bad, len(digests),
                        max(latest, default=None))  # fmt: skip
    found = rule.measured(totals, NOW_MS)
    return found, rule.holds(found)


def of_property(tmp_path, rule, **prop):
    (found,) = contract(tmp_path, [{"name": "a", "quality": [rule], **prop}]).rules
    return found


def rows(*values):
    return [{"a": value} for value in values]


@pytest.mark.parametrize(
    ("rule", "values", "expected"),
    [
        ({"metric": "nullValues", "mustBeLessThan": 2}, [1, None, 2], (1, True)),
        ({"metric": "nullValues", "mustBeLessThan": 2}, [None, None], (2, False)),
        ({"metric": "nullValues", "mustBeLessOrEqualTo": 50, "unit": "percent"}, [None, 1], (50.0, True)),
        ({"metric": "nullValues", "mustBeLessThan": 50, "unit": "percent"}, [None, 1], (50.0, False)),
        ({"metric": "nullValues", "mustBeLessThan": 1, "unit": "percent"}, [], (None, None)),
        ({"metric": "nullValues", "mustBeLessThan": 2}, [], (0, True)),
        ({"metric": "missingValues", "mustBe": 2, "arguments": {"missingValues": ["", "-"]}}, ["", "x", None], (2, True)),
        ({"metric": "invalidValues", "mustBeBetween": [1, 2], "arguments": {"validValues": ["x"]}}, ["x", "y", None], (1, True)),
        ({"metric": "invalidValues", "mustNotBe": 1, "arguments": {"pattern": "^x+$"}}, ["xx", "y"], (1, False)),
        ({"metric": "invalidValues", "mustBe": 1, "arguments": {"pattern": r"^[^/\0]+$"}}, ["a", "/"], (1, True)),
        ({"metric": "duplicateValues", "mustBe": 0}, ["x", "y", "x", "x", None, None], (2, False)),
        ({"metric": "duplicateValues", "mustBe": 0}, [1, 1.5, "1", None], (0, True)),
        ({"metric": "duplicateValues", "mustBe": 0}, [1, 1.0], (1, False)),
        ({"metric": "duplicateValues", "mustBeLessThan": 30, "unit": "%"}, [1, 1, 2, 3], (25.0, True)),
        ({"metric": "duplicateValues", "mustNotBeBetween": [2, 3]}, [1, 1, 1], (2, False)),
        ({"metric": "duplicateValues", "mustNotBeBetween": [1, 5]}, [{"b": 1, "c": 2}, {"c": 2, "b": 1}], (1, False)),
    ],
)  # fmt: skip
def test_the_measurements_of_a_property(tmp_path, rule, values, expected):
    assert expected == measured(of_property(tmp_path, rule), rows(*values))


def test_a_pattern_with_look_ahead_is_measured_as_each_record_is_judged(tmp_path):
    rule = {"metric": "invalidValues", "mustBeLessThan": 3, "arguments": {"pattern": "^(?!x)a"}}
    assert measured(of_property(tmp_path, rule), rows("a", "xa", None)) == (1, True)


def test_only_objects_have_properties(tmp_path):
    rule = of_property(tmp_path, {"metric": "nullValues", "mustBe": 3, "unit": "rows"})
    assert measured(rule, [None, [1], {}, {"a": 0}]) == (3, True)


@pytest.mark.parametrize(
    ("quality", "expected"),
    [
        ({"metric": "rowCount", "mustBeGreaterOrEqualTo": 3}, (2, False)),
        ({"rule": "rowCount", "mustBeBetween": [1, 2]}, (2, True)),
        ({"metric": "duplicateValues", "mustBe": 0, "arguments": {"properties": ["a", "b"]}}, (0, True)),
        ({"metric": "duplicateValues", "mustBe": 0, "arguments": {"properties": ["a"]}}, (1, False)),
    ],
)  # fmt: skip
def test_the_measurements_of_an_object(tmp_path, quality, expected):
    (rule,) = contract(tmp_path, [{"name": "a"}, {"name": "b"}], [quality]).rules
    assert expected == measured(rule, [{"a": 1, "b": 1}, {"a": 1, "b": 2}])


def test_keys_and_unique_properties_come_once(tmp_path):
    found = contract(
        tmp_path,
        [{"name": "a", "primaryKey": True}, {"name": "b", "primaryKey": True}, {"name": "c", "unique": True}],
    ).rules  # fmt: skip
    assert [(rule.place, rule.name, rule.limit) for rule in found] == [
        ("o", "primaryKey a, b", "must be 0"),
        ("o.c", "unique", "must be 0"),
    ]
    values = [{"a": 1, "b": 1, "c": 1}, {"a": 1, "b": 2, "c": 1}]
    assert [measured(rule, values)[1] for rule in found] == [True, False]


def test_properties_within_others_are_measured_too(tmp_path):
    rule = {"metric": "nullValues", "mustBeLessThan": 2}
    inner = {"name": "b", "quality": [rule]}
    found = contract(
        tmp_path,
        [
            {"name": "a", "logicalType": "object", "properties": [inner]},
            {"name": "l", "logicalType": "array", "items": {"logicalType": "object", "properties": [inner]}},
            {"name": "m", "logicalType": "map", "map": {"key": {}, "value": {"logicalType": "string", "quality": [rule]}}},
        ],
    ).rules  # fmt: skip
    assert [rule.place for rule in found] == ["o.a.b", "o.l[*].b", "o.m[*]"]
    value = {"a": {}, "l": [{"b": 1}, {}, {"b": None}], "m": {"x": None, "y": "z"}}
    assert [measured(rule, [value])[0] for rule in found] == [1, 2, 1]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["2023-11-14T21:13:20Z", "2023-11-10T00:00:00Z"], (1.0, True)),
        (["2023-11-14T18:13:20", "no time", 5, None], (4.0, False)),
        (["2023-11-14T23:00:00Z"], (0.0, True)),
        (["2023-11-14T18:13:20", "9999-12-31T00:00:00Z"], (4.0, False)),
        (["9999-12-31T00:00:00Z"], (None, False)),
        (["no time"], (None, False)),
        ([], (None, False)),
    ],
)
def test_how_fresh_a_property_is(tmp_path, values, expected):
    promise = {"property": "latency", "value": 3, "unit": "h", "element": "o.a"}
    (rule,) = contract(tmp_path, [{"name": "a"}], promises=[promise]).rules
    assert (rule.place, rule.name, rule.limit) == ("o.a", "latency", "must be at most 3 h")
    assert expected == measured(rule, rows(*values))


def test_how_fresh_a_topic_is_by_its_timestamps(tmp_path):
    promise = {"property": "freshness", "value": 2, "unit": "days"}
    (rule,) = contract(tmp_path, [{"name": "a"}], promises=[promise]).rules
    assert measured(rule, [{}], NOW_MS - 86_400_000) == (1.0, True)
    assert measured(rule, [{}], -1) == (None, False)
    assert measured(rule, [{}], NOW_MS + 3_600_000) == (0.0, True)
    assert measured(rule, [{}], NOW_MS + 3_600_001) == (None, False)


@pytest.mark.parametrize(
    ("unit", "expected"),
    [("s", 7200.0), ("Seconds", 7200.0), ("m", 120.0), ("mins", 120.0), ("hrs", 2.0), ("D", 0.083)],
)
def test_units_of_time_are_read_as_they_are_written(tmp_path, unit, expected):
    promise = {"property": "freshness", "value": 1, "unit": unit}
    (rule,) = contract(tmp_path, [{"name": "a"}], promises=[promise]).rules
    assert measured(rule, [{}], NOW_MS - 7_200_000)[0] == expected


NESTED = [
    {"name": "x.y", "physicalName": "p"},
    {"name": "x", "logicalType": "object", "physicalName": "q", "properties": [{"name": "t", "physicalName": "ts"}]},
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "path"),
    [("x.y", ("p",)), ("p", ("p",)), ("x.t", ("q", "ts")), ("q.ts", ("q", "ts")), ("x", ("q",))],
)
def test_properties_are_found_by_either_name(tmp_path, name, path):
    quality = {"metric": "duplicateValues", "mustBe": 0, "arguments": {"properties": [name]}}
    promise = {"property": "freshness", "value": 1, "unit": "d", "element": f"o.{name}"}
    found = contract(tmp_path, NESTED, [quality], [promise])
    assert [rule.paths for rule in found.rules] == [(path,), (path,)]


@pytest.mark.parametrize("name", ["nope", "x.nope", "x.t.nope", "y", ""])
def test_a_property_that_is_not_there_is_named(tmp_path, name):
    quality = {"metric": "duplicateValues", "mustBe": 0, "arguments": {"properties": ["x", name]}}
    promise = {"property": "freshness", "value": 1, "unit": "d", "element": f"o.{name}"}
    found = contract(tmp_path, NESTED, [quality], [promise])
    assert found.rules == ()
    assert [rule.why for rule in found.not_judged] == [f"there is no property {name}"] * 2


@pytest.mark.parametrize(
    ("prop", "quality", "promises", "message"),
    [
        ({}, [{"type": "sql", "name": "n", "query": "SELECT 1"}], (), "o: n: a rule of type sql is not judged"),
        ({"quality": [{"type": "text", "name": "n"}]}, (), (), "o.a: n: a rule of type text is not judged"),
        ({}, [{"metric": "rowCount", "mustBe": "x"}], (), "o: rowCount: mustBe must have a number"),
        ({}, [{"metric": "nullValues", "mustBe": 1}], (), "o: nullValues: nullValues is not about an object"),
        ({}, [{"metric": "duplicateValues", "mustBe": 1}], (), "duplicateValues of an object needs arguments.properties"),
        ({"quality": [{"metric": "rowCount", "mustBe": 1}]}, (), (), "o.a: rowCount: rowCount is not about a property"),
        ({"quality": [{"metric": "invalidValues", "mustBe": 1, "arguments": {"pattern": "("}}]}, (), (), 'at /pattern: "(" is not a "regex"'),
        ({"quality": [{"metric": "invalidValues", "mustBe": 1, "arguments": {"validValues": [2**70]}}]}, (), (), "o.a: invalidValues: its arguments cannot be compared with values: "),
        ({"quality": [{"metric": "missingValues", "mustBe": 1, "arguments": {"missingValues": [{}]}}]}, (), (), "o.a: missingValues: missingValues of rule missingValues must be a list of values"),
        ({}, (), [{"property": "retention", "value": 1, "unit": "d"}], "o: retention: no promise but freshness and latency"),
        ({}, (), [{"property": "latency", "value": "x", "unit": "d"}], "o: latency: it has no number with a unit of time"),
        ({}, (), [{"property": "latency", "value": 1, "unit": "moons"}], "o: latency: it has no number with a unit of time"),
        ({}, (), [{"property": "latency", "value": 4, "unit": "ms"}], "o: latency: it has no number with a unit of time"),
        ({}, (), [{"property": "latency", "value": 4, "unit": "M"}], "o: latency: it has no number with a unit of time"),
        ({}, (), [{"property": "latency", "value": 4}], "o: latency: it has no number with a unit of time"),
    ],
)  # fmt: skip
def test_rules_that_cannot_be_measured_are_named(tmp_path, prop, quality, promises, message):
    found = contract(tmp_path, [{"name": "a", **prop}], quality, promises)
    assert found.rules == ()
    (only,) = found.not_judged
    assert message in str(only)


def test_rules_about_single_records_are_not_measured(tmp_path):
    rule = {"metric": "nullValues", "mustBe": 0}
    assert contract(tmp_path, [{"name": "a", "quality": [rule]}])[1:] == ((), ())


@pytest.mark.parametrize(
    ("severity", "is_error"), [("error", True), ("warning", False), ("Info", False)]
)
def test_a_rule_of_less_severity_is_reported_alone(tmp_path, severity, is_error):
    rule = {"metric": "nullValues", "mustBe": 1, "severity": severity}
    assert of_property(tmp_path, rule).is_error == is_error


def test_rules_are_the_same_in_each_process(tmp_path):
    rule = of_property(
        tmp_path, {"metric": "invalidValues", "mustBe": 1, "arguments": {"validValues": ["é"]}}
    )
    assert json.loads(rule.schema) == {"enum": ["é", None]}
