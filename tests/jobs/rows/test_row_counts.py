"""Counts of judged rows: added, encoded, merged, and as a report."""

import json
from pathlib import Path

import jsonschema_rs
import pytest

from penstock.engine.all_objections import AllVerdicts, NamedObjection, same_for_all
from penstock.engine.verdict import failed, refused_record
from penstock.jobs.report.document import About, as_json
from penstock.jobs.rows.row_counts import LABEL_MAX, RowCounts, RuleKey

pytestmark = pytest.mark.unit
SCHEMA = json.loads((Path(__file__).parents[3] / "docs" / "report.schema.json").read_text())
ABOUT = About(source="a frame", is_topic=False, file="plan", fingerprint="f")


def of(policy, rule, *fields, mode="enforce"):
    return NamedObjection(policy, rule, 87, f"{rule} failed", mode, fields)


JUDGED = AllVerdicts(
    [(1, refused_record("a failed", "rules")), (3, refused_record("b failed", "rules"))],
    {
        1: [
            of("rules", "a", "amount"),
            of("rules", "b", "amount", "id"),
            of("rules", "a", "amount"),
        ],
        2: [of("soft", "c", "amount", mode="observe")],
        3: [of("rules", "b", "amount", "id"), of("Orders", None)],
    },
)


def counted():
    counts = RowCounts(2)
    counts.add("t", 4, JUDGED, ["one", "two", None, "x" * 500])
    return counts


def test_rows_are_counted_by_rule_and_column_whatever_else_objects():
    report = counted().report("t", ABOUT)
    assert (report.judged, report.accepted, report.refused, report.share) == (4, 2, 2, 0.5)
    assert [(r.policy, r.rule, r.mode, r.count, r.share, r.samples) for r in report.rules] == [
        ("rules", "b", "enforce", 2, 0.5, ("two", "x" * LABEL_MAX)),
        ("Orders", None, "enforce", 1, 0.25, ("x" * LABEL_MAX,)),
        ("rules", "a", "enforce", 1, 0.25, ("two",)),
        ("soft", "c", "observe", 1, 0.25, (None,)),
    ]
    assert [(c.column, c.count, c.share) for c in report.columns] == [
        ("amount", 2, 0.5), ("id", 2, 0.5),
    ]  # fmt: skip
    assert [(r.message, r.count, r.outcome) for r in report.reasons] == [
        ("a failed", 1, "refused"), ("b failed", 1, "refused"),
    ]  # fmt: skip
    assert [(p.policy, p.count, p.turned_away) for p in report.policies] == [("rules", 2, 2)]


def test_counts_are_the_same_after_their_way_and_add_up():
    data = counted().encode()
    assert RowCounts.decode(data) == counted()
    total = RowCounts.merged([data, data, RowCounts(2).encode()], 2)
    report = total.report("t", ABOUT)
    assert (report.judged, report.refused, report.rules[0].count) == (8, 4, 4)
    assert report.rules[0].samples == ("two", "x" * LABEL_MAX)
    assert report.rules[2].samples == ("two", "two")
    assert report.columns[0].count == 4


def test_no_labels_and_no_rows():
    counts = RowCounts(10)
    counts.add("t", 4, JUDGED, None)
    assert all(rule.samples == () for rule in counts.report("t", ABOUT).rules)
    empty = RowCounts(10).report("t", ABOUT)
    assert (empty.judged, empty.share, empty.rules, empty.columns) == (0, 0.0, (), ())


def test_failures_are_counted():
    counts = RowCounts(1)
    counts.add("t", 2, same_for_all(2, failed("P", "failed")), ["a", "b"])
    report = counts.report("t", ABOUT)
    assert (report.failed, report.rules[0].count, report.rules[0].samples) == (2, 2, ("a",))


def test_the_report_fits_its_schema():
    document = json.loads(as_json(counted().report("t", ABOUT)))
    jsonschema_rs.validator_for(SCHEMA).validate(document)
    assert set(document) <= set(SCHEMA["properties"])


def test_rules_that_object_to_no_row_are_last():
    rules = [
        RuleKey("rules", "a", "enforce"),
        RuleKey("rules", "z", "enforce"),
        RuleKey("rules", None, "enforce"),
        RuleKey("other", None, "mark"),
    ]
    report = counted().report("t", ABOUT, rules)
    jsonschema_rs.validator_for(SCHEMA).validate(json.loads(as_json(report)))
    assert [(r.policy, r.rule, r.mode, r.count, r.share) for r in report.rules[4:]] == [
        ("other", None, "mark", 0, 0.0), ("rules", "z", "enforce", 0, 0.0),
    ]  # fmt: skip
    empty = RowCounts(0).report("t", ABOUT, rules[:1])
    assert [(r.rule, r.share) for r in empty.rules] == [("a", 0.0)]
