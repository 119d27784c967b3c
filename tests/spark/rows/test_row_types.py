"""Rows are checked in workers, where nothing may look at the columns of their frame."""

import pyarrow as pa
import pytest
from pyspark.sql import functions

from penstock.configuration import ConfigurationError
from penstock.spark import plan
from penstock.spark.rows.batches import verdicts
from penstock.spark.rows.judged import judge_rows, verdict_on
from penstock.spark.rows.row_types import TypesCheck
from penstock.spark.rows.values import VALUE

ROW = pa.struct(
    [
        ("id", pa.int32()),
        ("at", pa.timestamp("us", "UTC")),
        ("local", pa.timestamp("us")),
        ("day", pa.date32()),
        ("inner", pa.struct([("name", pa.string())])),
        ("tags", pa.map_(pa.string(), pa.string())),
    ]
)


def checked(rules, kind=ROW):
    row_plan = plan(rules={"a": rules})
    check = TypesCheck("the expectation 'x'", row_plan.demands)
    values, types = pa.array(['{"id": 1}'], pa.string()), pa.nulls(1, pa.list_(kind))
    return list(verdicts(row_plan, [VALUE, "types"], check)(iter([(values, types)])))


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        ("value.idd > 0", "rules.a reads value.idd, but there is no column idd, did you mean id?"),
        ("value.id == 'x'", "rules.a: value.id is INT, and is compared with a text"),
        ("value.inner.nam == 'x'", "there is no field nam in value.inner, did you mean name?"),
        ("timestamp(value.local) < now", "value.local is TIMESTAMP_NTZ, without a zone"),
        ("timestamp(value.day) < now", "value.day is DATE, without a zone"),
    ],
)
def test_a_type_that_no_row_can_have_is_an_error(rule, text):
    with pytest.raises(ConfigurationError, match="the expectation 'x': ") as caught:
        checked(rule)
    assert text in str(caught.value)


@pytest.mark.parametrize(
    "rule", ["value.id > 0", "timestamp(value.at) < now", "value.tags.x == ''"]
)
def test_other_rows_are_judged(rule):
    [verdict] = checked(rule)
    assert len(verdict) == 1


def test_a_type_that_pyspark_does_not_know_says_nothing():
    [verdict] = checked("value.x > 0", pa.struct([("odd", pa.month_day_nano_interval())]))
    assert verdict.to_pylist()[0]["outcome"] == "refused"


def test_rows_in_sparks_workers(spark, monkeypatch):
    monkeypatch.setattr("penstock.spark.rows.judged._is_known", lambda _: False)
    rows = spark.sql(
        "SELECT 1 id, date'2026-01-31' day, parse_json('1') any, interval 1 day AS span, "
        "named_struct('a', 1) s, array(1) l, map('a', 1) m, X'00' b, 'k' k"
    )
    good = plan(rules={"a": "value.id == 1 && value.s.a == 1"})
    assert judge_rows(rows, good, key="k").first().verdict.outcome == "accepted"
    bad = plan(rules={"typo": "value.s.aa == 1", "key": "value.k == 'k'"})
    with pytest.raises(Exception, match=r"judge_rows: rules.typo reads .*; also rules.key"):
        judge_rows(rows, bad, key="k").collect()
    verdict = verdict_on(functions.struct("*"), bad, "orders: the check 'c'")
    with pytest.raises(Exception, match=r"orders: the check 'c': rules.typo reads v"):
        rows.select(verdict).collect()
