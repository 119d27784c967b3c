"""`audit_rows`: shares by rule and by column, and samples by their labels."""

import inspect

import pytest

from penstock.configuration import ConfigurationError
from penstock.spark import audit_rows, load_plan, plan
from tests.spark.rows.orders import ORDERS, RULES

CONTRACT = """
apiVersion: v3.1.0
kind: DataContract
id: shop
version: 1.0.0
status: active
schema:
  - name: orders
    quality: [{type: library, metric: rowCount, mustBe: 5}]
    properties:
      - {name: id, logicalType: integer, required: true}
      - {name: currency, logicalType: string, quality: [
          {type: library, metric: duplicateValues, mustBe: 0}]}
"""


def test_shares_and_samples(spark, tmp_path):
    (tmp_path / "orders.yaml").write_text(CONTRACT)
    row_plan = plan(rules=RULES, contract=tmp_path / "orders.yaml")
    report = audit_rows(spark.sql(ORDERS).coalesce(1), row_plan, label="id", samples=2)
    assert (report.judged, report.accepted, report.refused, report.share) == (5, 1, 4, 0.8)
    assert [(r.policy, r.rule, r.count, r.share, r.samples) for r in report.rules] == [
        ("rules", "positive", 3, 0.6, ("0", "1")),
        ("rules", "known", 1, 0.2, ("2",)),
        ("contract", None, 0, 0.0, ()),
    ]
    assert [(c.column, c.count) for c in report.columns] == [("amount", 3), ("currency", 1)]
    [contract] = report.contracts
    assert [(rule.metric, rule.measured, rule.held) for rule in contract.rules] == [
        ("rowCount", 5, True), ("duplicateValues", 3, False),
    ]  # fmt: skip
    assert (report.about.is_topic, report.about.source) == (False, "a frame")


def test_rules_that_hold_are_in_the_report_with_their_modes(spark, topic_plan):
    """Of a file, those of the topic; of a policy, all that it has."""
    keys = {
        "type": "penstock.policies.Rules",
        "mode": "mark",
        "rules.a": "true",
        "rules.b": "false",
    }
    report = audit_rows(spark.range(2), topic_plan(**keys))
    assert [(r.policy, r.rule, r.mode, r.count) for r in report.rules] == [
        ("p", "b", "mark", 2), ("p", "a", "mark", 0),
    ]  # fmt: skip
    report = audit_rows(spark.range(0), plan(rules={"a": "true"}))
    assert [(r.rule, r.count, r.share) for r in report.rules] == [("a", 0, 0.0)]


@pytest.mark.parametrize(
    ("column", "label"),
    [
        ("unhex(repeat('ff', 4000))", "/" * 200),
        ("cast(unhex('ff61') AS string)", "\ufffda"),
        ("repeat('\u00e4', 100000)", "\u00e4" * 200),
        ("array(1, null)", "[1, null]"),
    ],
)
def test_labels_are_short_texts_whatever_the_column_has(spark, column, label):
    rows = spark.range(1).selectExpr("id", f"{column} AS name")
    report = audit_rows(rows, plan(rules={"none": "value.id > 0"}), label="NAME")
    assert [rule.samples for rule in report.rules] == [(label,)]


def test_wrong_arguments(spark):
    row_plan = plan(rules=RULES)
    with pytest.raises(ConfigurationError, match="label: there is no column b; the rows have id"):
        audit_rows(spark.range(1), row_plan, label="b")
    with pytest.raises(ConfigurationError, match="audit_rows: label: the name of a column"):
        audit_rows(spark.range(1), row_plan, label=5)
    with pytest.raises(ConfigurationError, match="audit_rows: samples must be a number, not -1"):
        audit_rows(spark.range(1), row_plan, samples=-1)
    with pytest.raises(ConfigurationError, match="a stream has no end"):
        audit_rows(spark.readStream.format("rate").load(), row_plan)


def test_the_signature():
    assert list(inspect.signature(audit_rows).parameters) == ["frame", "plan", "label", "samples"]


def test_an_error_offers_no_argument_that_audit_rows_lacks(spark, tmp_path):
    file = tmp_path / "p.properties"
    file.write_text("upstream.bootstrap.servers=none:1\nrecord.validator.classes=\n")
    with pytest.raises(ConfigurationError, match=r"says which the rows are of$"):
        audit_rows(spark.range(1), load_plan(file))
