"""Expectations in pipelines that Spark's command runs."""

import pytest

from tests.spark.pipelines.projects import HEAD, Project, ids

pytestmark = pytest.mark.spark_processes

ORDERS = """
@dp.table(comment="Orders", partition_cols=["id"])
@dp.expect("small", "amount < 100")
@dp.expect_or_drop("positive", "amount > 0")
@dp.expect_all_or_drop({"known": "id IS NOT NULL"})
def orders():
    return spark.readStream.table("raw")

@dp.materialized_view
@dp.expect("large", "amount >= 100")
@dp.expect_or_fail("whole", "id IS NOT NULL")
def large():
    return spark.read.table("orders").where("amount > 50")

@dp.temporary_view
@dp.expect_all_or_drop({"tiny": "amount < 10"})
def tiny():
    return spark.read.table("orders")

@dp.materialized_view
def seen():
    return spark.read.table("tiny")
"""


@pytest.fixture
def project(tmp_path):
    return Project(tmp_path / "project")


def counts(project, spark, name):
    return {
        row["expectation"]: (row["action"], row["passed"], row["failed"])
        for row in project.table(spark, f"{name}_expectations")
    }


def test_rows_are_kept_dropped_and_counted(project, spark):
    project.define(HEAD + ORDERS)
    project.add(
        {"id": 1, "amount": 5},
        {"id": 2, "amount": 500},
        {"id": 3, "amount": -1},
        {"id": 4},
        {"amount": 7},
    )
    project.update()
    assert ids(project, spark, "orders") == [1, 2]
    assert set(project.table(spark, "orders")[0]) == {"id", "amount"}
    assert counts(project, spark, "orders") == {
        "small": ("keep", 3, 2),
        "positive": ("drop", 3, 2),
        "known": ("drop", 4, 1),
    }
    assert ids(project, spark, "large") == [2]
    assert counts(project, spark, "large") == {"large": ("keep", 1, 0), "whole": ("fail", 1, 0)}
    assert ids(project, spark, "seen") == [1]

    project.add({"id": 6, "amount": 60}, {"id": 7, "amount": -7})
    project.update()
    assert ids(project, spark, "orders") == [1, 2, 6], "each row once"
    assert counts(project, spark, "orders")["positive"] == ("drop", 4, 3)
    assert counts(project, spark, "large") == {"large": ("keep", 1, 1), "whole": ("fail", 2, 0)}

    project.update("--full-refresh-all")
    assert ids(project, spark, "orders") == [1, 2, 6]
    assert counts(project, spark, "orders")["positive"] == ("drop", 4, 3)


# A single flow: without a table format, Spark keeps the files of only one flow of an update.
FLOWS = """
dp.create_streaming_table(
    "merged",
    expect_all={"small": "amount < 100"},
    expect_all_or_drop={"positive": "amount > 0"},
    expect_all_or_fail={"known": "id IS NOT NULL"},
)

@dp.append_flow(target="merged", name="all")
def flow():
    return spark.readStream.table("raw")
"""


def test_a_flow_into_a_table_with_expectations(project, spark):
    project.define(HEAD + FLOWS)
    project.add({"id": 1, "amount": 5}, {"id": 2, "amount": -5}, {"id": 4, "amount": 500})
    project.update()
    assert ids(project, spark, "merged") == [1, 4]
    assert counts(project, spark, "merged") == {
        "small": ("keep", 2, 1),
        "positive": ("drop", 2, 1),
        "known": ("fail", 3, 0),
    }

    project.add({"id": 5, "amount": 6}, {"amount": 1})
    done = project.run()
    assert done.returncode != 0
    assert "a row of merged fails the expectation 'known'" in done.stdout + done.stderr
    assert ids(project, spark, "merged") == [1, 4]


WIRE = """
import json

from penstock.policy import InvalidRecordException
from penstock.spark import plan

class Even:
    def validate(self, topic, record):
        if json.loads(record.value)["id"] % 2:
            raise InvalidRecordException("odd")

@dp.table
@dp.expect("even", Even)
@dp.expect_or_drop("positive", dp.cel("value.amount > 0"))
@dp.expect_or_drop("small", "amount < 1000")
@dp.expect_or_fail("numbered", plan(schema={"required": ["id"]}))
@dp.expect_or_quarantine(plan(rules={"round": "value.amount % 10 == 0"}), into="odd_amounts")
def orders():
    return spark.readStream.table("raw")
"""


def test_rules_of_the_wire_judge_rows_and_quarantine_them(project, spark):
    project.define(HEAD + WIRE)
    project.add(
        {"id": 1, "amount": 10},
        {"id": 2, "amount": -10},
        {"id": 3, "amount": 7},
        {"id": 4, "amount": 2000},
        {"id": 6},
    )
    project.update()
    assert ids(project, spark, "orders") == [1]
    assert set(project.table(spark, "orders")[0]) == {"id", "amount"}
    bad = sorted(project.table(spark, "odd_amounts"), key=lambda row: row["id"])
    assert [(row["id"], row["amount"]) for row in bad] == [(3, 7), (6, None)]
    assert {row["verdict"]["outcome"] for row in bad} == {"refused"}
    assert bad[0]["verdict"]["objections"][0]["rule"] == "round"
    assert counts(project, spark, "orders") == {
        "even": ("keep", 3, 2),
        "positive": ("drop", 3, 2),
        "small": ("drop", 3, 2),
        "numbered": ("fail", 5, 0),
        "odd_amounts": ("quarantine", 3, 2),
    }

    project.add({"id": 8, "amount": 20})
    project.update()
    assert ids(project, spark, "orders") == [1, 8], "each row once"
    assert len(project.table(spark, "odd_amounts")) == 2


FUNCTIONS = """
from penstock.spark import apply, judge, judge_rows, load_plan, plan

POSITIVE = plan(rules={"positive": "value.amount > 0"})
VALUE = "binary(to_json(struct(*))) value"

def records():
    return spark.readStream.table("raw").selectExpr("id", VALUE, "0 partition", "1 verdict")

@dp.table
@dp.expect("read", dp.cel("value.verdict == 'x'"))
def named():
    return spark.readStream.table("raw").selectExpr("id", "'x' verdict", "1 row", "2 failed")

@dp.table
def rows():
    return judge_rows(spark.readStream.table("raw"), POSITIVE)

@dp.table
def records_judged():
    return judge(records(), POSITIVE.records, topic="rows")

@dp.table
def records_applied():
    return apply(records(), POSITIVE.records, topic="rows")
"""


def test_an_update_judges_the_rows_that_it_writes(project, spark):
    """With `withColumn` in a query function, it would read tables before it has written them."""
    project.define(HEAD + FUNCTIONS)
    for number in range(1, 4):
        project.add({"id": number, "amount": number - 2})
        project.update()
        for name in ("rows", "records_judged", "records_applied"):
            outcomes = {row["id"]: row["verdict"]["outcome"] for row in project.table(spark, name)}
            all_outcomes = {1: "refused", 2: "refused", 3: "accepted"}
            assert outcomes == {id_: all_outcomes[id_] for id_ in range(1, number + 1)}
    assert counts(project, spark, "named") == {"read": ("keep", 3, 0)}, "the table's own columns"


MISTAKEN = """
@dp.table
@dp.expect("any", "id IS NOT NULL")
@dp.expect_or_drop("positive", dp.cel("value.ammount >= 0"))
def orders():
    return spark.readStream.table("raw")
"""


def test_a_rule_of_the_wire_that_no_row_can_meet_is_an_error(project):
    """Where the update runs: a query function must not look at columns."""
    project.define(HEAD + MISTAKEN)
    project.add({"id": 1, "amount": 5})
    done = project.run()
    assert done.returncode != 0
    expected = (
        "orders: the expectation 'positive': rules.positive reads value.ammount, but there is"
    )
    assert f"{expected} no column ammount, did you mean amount?" in done.stdout + done.stderr
