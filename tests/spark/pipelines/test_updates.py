"""Updates of a pipeline whose expectations have changed since the update before."""

import sys
from pathlib import Path
from types import SimpleNamespace

import pyspark
import pytest
from pyspark.errors import AnalysisException

from penstock import pipelines as dp
from penstock.spark.pipelines import updates
from penstock.spark.pipelines.expectations import (
    COLUMNS,
    counted,
    kept,
    quarantined,
    with_checks,
)
from penstock.spark.pipelines.updates import (
    check_written_directly,
    check_written_from,
    current_update,
)
from tests.spark.pipelines.projects import HEAD, Project, ids

COMMAND = str(Path(pyspark.__file__).parent / "pipelines" / "cli.py")
TOGETHER = "--full-refresh orders,orders_judged,bad"


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Sets the arguments of Spark's command, and the tables of earlier updates with columns."""
    spec = "name: p\nstorage: file:///s\ncatalog: c\ndatabase: d\nlibraries: []\n"
    (tmp_path / "spark-pipeline.yml").write_text(spec)
    monkeypatch.chdir(tmp_path)

    def with_tables(*arguments, **tables):
        catalog = SimpleNamespace(
            tableExists=lambda name: name.removeprefix("c.d.") in tables,
            listColumns=lambda name: [
                SimpleNamespace(name=column) for column in tables[name.removeprefix("c.d.")]
            ],
        )
        session = SimpleNamespace(active=lambda: SimpleNamespace(catalog=catalog))
        monkeypatch.setattr(updates, "SparkSession", session)
        monkeypatch.setattr(sys, "argv", [COMMAND, "run", *arguments])

    return with_tables


def check_from():
    check_written_from("orders_judged", "orders", ["bad"])


def test_the_arguments_of_the_command(run, tmp_path):
    run("--spec", "spark-pipeline.yml", "--full-refresh", "a, b", "--full-refresh", "db.c")
    assert current_update() == (("a", "b", "db.c"), "c", "d")
    run("--full-refresh-all")
    assert current_update().refreshes("any")
    run("--refresh", "a")
    assert not current_update().refreshes("a")


def test_another_program_has_no_update(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["pytest", "--full-refresh-all"])
    assert current_update() is None
    check_from()
    check_written_directly("orders", "orders_judged")


def test_a_table_that_was_written_without_its_table_of_all_rows_is_refused(run):
    run(orders=["id"])
    with pytest.raises(ValueError, match=f"orders: .* all rows .*: run once with {TOGETHER}"):
        check_from()
    for arguments in (["--full-refresh-all"], TOGETHER.replace("bad", "D.Bad").split()):
        run(*arguments, orders=["id"])
        check_from()
    for tables in ({}, {"orders": ["id"], "orders_judged": list(COLUMNS)}):
        run(**tables)
        check_from()


@pytest.mark.parametrize("some", ["orders", "orders_judged", "orders,`orders_judged`", "bad"])
def test_tables_of_the_same_rows_are_refreshed_together(run, some):
    run("--full-refresh", some, orders=["id"], orders_judged=list(COLUMNS))
    with pytest.raises(ValueError, match=f"have the rows of one query: run with {TOGETHER}"):
        check_from()


def test_a_table_that_was_written_from_its_table_of_all_rows_is_refused_without(run):
    def check():
        check_written_directly("orders", "orders_judged")

    run(orders=["id"], orders_judged=list(COLUMNS))
    with pytest.raises(ValueError, match="--full-refresh orders, then drop orders_judged"):
        check()
    run("--full-refresh", "orders", orders=["id"], orders_judged=list(COLUMNS))
    check()
    run(orders=["id"], orders_judged=["id", "verdict"])
    check()  # a table of the user's


def test_names_are_those_of_the_project(run, monkeypatch):
    run()
    names = []

    def exists(name):
        names.append(name)
        raise AnalysisException("no such database")

    session = SimpleNamespace(catalog=SimpleNamespace(tableExists=exists))
    monkeypatch.setattr(updates, "SparkSession", SimpleNamespace(active=lambda: session))
    for name in ("orders", "e.orders", "e.`the.orders`", "f.e.orders"):
        assert current_update().columns(name) is None
    assert names == ["c.d.orders", "c.e.orders", "c.e.`the.orders`", "f.e.orders"]


KEPT = """
@dp.table
@dp.expect("positive", "amount > 0")
def orders():
    return spark.readStream.table("raw")
"""
DROPPED = """
@dp.table
@dp.expect("small", "amount < 100")
@dp.expect_or_drop("positive", "amount > 0")
def orders():
    return spark.readStream.table("raw")
"""
CHANGED = """
@dp.table
@dp.expect_or_drop("small", "amount < 100")
@dp.expect_or_drop("above_zero", "amount > 0")
@dp.expect_or_quarantine(dp.cel("value.id > 0"), into="bad")
def orders():
    return spark.readStream.table("raw")
"""


def expectations(*decorators):
    """Return the expectations of decorators, in their order."""
    query = rows
    for decorator in reversed(decorators):
        query = decorator(query)
    return query.expectations


def rows():
    raise AssertionError("nothing calls it")


def test_rows_of_two_updates_with_other_expectations(spark):
    before = expectations(
        dp.expect("small", "amount < 100"), dp.expect_or_drop("positive", "amount > 0")
    )
    after = expectations(
        dp.expect_or_drop("small", "amount < 100"),
        dp.expect_or_drop("above_zero", "amount > 0"),
        dp.expect_or_quarantine(dp.cel("value.id > 0"), into="bad"),
    )
    old = spark.sql("SELECT * FROM VALUES (1, 5), (2, -5), (3, 500) AS t (id, amount)")
    new = spark.sql("SELECT * FROM VALUES (4, -4), (5, 900), (0, 6) AS t (id, amount)")
    all_rows = with_checks(old, before, "orders").union(with_checks(new, after, "orders")).cache()
    assert tuple(all_rows.columns) == COLUMNS
    assert sorted(row.id for row in kept(all_rows).collect()) == [1, 3]
    [bad] = quarantined(all_rows, after[-1]).collect()
    assert (bad.id, bad.amount, bad.verdict.outcome) == (0, 6, "refused")
    assert sorted(tuple(row) for row in counted(all_rows, after).collect()) == [
        ("above_zero", "drop", 2, 1),
        ("bad", "quarantine", 2, 1),
        ("positive", "drop", 2, 1),
        ("small", "drop", 2, 1),
        ("small", "keep", 2, 1),
    ]
    nothing = counted(all_rows.where("false"), after).collect()
    assert {(row.passed, row.failed) for row in nothing} == {(0, 0)}
    assert len(nothing) == len(after)
    assert counted(all_rows, after).columns == ["expectation", "action", "passed", "failed"]


def counts(project, spark, name):
    rows = project.table(spark, f"{name}_expectations")
    return sorted((r["expectation"], r["action"], r["passed"], r["failed"]) for r in rows)


@pytest.mark.spark_processes
def test_rows_count_for_the_expectations_that_judged_them(tmp_path, spark):
    project = Project(tmp_path / "project")
    project.define(HEAD + KEPT)
    project.add({"id": 1, "amount": 5}, {"id": 2, "amount": -5})
    project.update()

    project.define(HEAD + DROPPED)
    refused = project.run()
    assert refused.returncode != 0
    advice = "run once with --full-refresh orders,orders_judged"
    assert advice in refused.stdout + refused.stderr
    project.update("--full-refresh", "orders,orders_judged")
    assert ids(project, spark, "orders") == [1]

    project.define(HEAD + CHANGED)
    project.add({"id": 4, "amount": -4}, {"id": 5, "amount": 900}, {"id": 0, "amount": 6})
    project.update()
    assert ids(project, spark, "orders") == [1], "those of earlier updates stay"
    assert ids(project, spark, "bad") == [0]
    assert counts(project, spark, "orders") == [
        ("above_zero", "drop", 2, 1),
        ("bad", "quarantine", 2, 1),
        ("positive", "drop", 1, 1),
        ("small", "drop", 2, 1),
        ("small", "keep", 2, 0),
    ]
