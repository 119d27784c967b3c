"""docs/tables.md works as it says: its blocks are run, its tables are those of the code."""

import datetime as dt
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from penstock import pipelines
from penstock.engine.columns import columns_of
from penstock.jobs.evaluation import Evaluator
from penstock.policy import Record
from penstock.spark import plan
from penstock.spark.pipelines.datasets import COUNTS, JUDGED
from penstock.spark.pipelines.expectations import COLUMNS
from tests.limits import HANGS_S

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "tables.md").read_text()
EXAMPLE = ROOT / "examples" / "pipelines"
TEXTS = re.findall(r"```(\w*)\n(.*?)```", PAGE, re.DOTALL)
BLOCKS = [text for kind, text in TEXTS if kind == "python"]
SESSION = "SparkSession.builder.config(map=SETTINGS).getOrCreate()"
PLOTS = """
def plot(data, kind, x, y):
    print(kind, sorted(zip(data[x], data[y])))
"""
BEFORE = "import pandas\npandas.set_option('plotting.backend', 'plots')\n"
AFTER = """
print(good.columns, bad.columns)
print(sorted(row.id for row in spark.read.parquet("orders_good").collect()))
"""


def cells(heading):
    """Return the cells of the rows of the first table below a heading."""
    _, _, after = PAGE.partition(f"\n## {heading}\n")
    [table, *_] = re.findall(r"\n\|[-|]+\|\n((?:\|.+\n)+)", after)
    return [
        [cell.strip().replace(r"\|", "|") for cell in re.split(r"(?<!\\)\|", row)[1:-1]]
        for row in table.splitlines()
    ]


def code(text):
    return re.findall(r"`([^`]+)`", text)


@pytest.mark.spark_processes
@pytest.mark.parametrize(
    "session", [SESSION, 'SparkSession.builder.remote("local[2]").getOrCreate()']
)
def test_from_zero_to_counts(session, tmp_path):
    (tmp_path / "plots.py").write_text(PLOTS)
    first, second, *_ = BLOCKS
    assert SESSION in first
    [printed] = [text for kind, text in TEXTS if not kind and text.startswith("positive")]
    for _ in range(2):  # a second process finds what the first has written
        done = subprocess.run(
            [sys.executable, "-c", BEFORE + first.replace(SESSION, session) + second + AFTER],
            env={**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
            cwd=tmp_path, capture_output=True, text=True, timeout=HANGS_S, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-3000:]
        assert done.stdout == printed + (
            "bar [('known', 1), ('positive', 2)]\n"
            "['id', 'amount', 'currency'] ['id', 'amount', 'currency', 'verdict']\n"
            "[1]\n"
        )


def test_the_pipeline_is_the_example():
    [block] = [block for block in BLOCKS if "dp.table" in block]
    example = (EXAMPLE / "transformations" / "orders.py").read_text()
    lines = [line for line in block.splitlines() if line and "import" not in line]
    added = [line for line in lines if line.startswith("@dp.expect")]
    assert len(added) == 3
    assert all(line in example for line in added)
    [command] = re.findall(r"`(spark-pipelines run .+?)`", PAGE)
    assert f"# {command}\n" in (EXAMPLE / "spark-pipeline.yml").read_text()


def test_the_tables_of_a_pipeline():
    names = [code(name)[0] for name, _ in cells("In a pipeline")]
    assert names == ["orders", "orders_quarantine", f"orders{COUNTS}", f"orders{JUDGED}"]
    assert set(COLUMNS) == set(code(cells("In a pipeline")[-1][1]))


def test_names_of_databricks_are_here():
    names = {name for _, here in cells("Coming from Lakeflow expectations") for name in code(here)}
    theirs = [
        code(name)
        for name, here in cells("Coming from Lakeflow expectations")
        if here == "the same"
    ]
    assert {name for row in theirs for name in row} < set(pipelines.__all__)
    assert "expect_or_quarantine" in names


NOW = dt.datetime.now(dt.UTC)
CASES = {
    "is_not_null": {None: False, "": True},
    "is_not_null_and_not_empty": {None: False, "": False, "x": True},
    "is_not_null_and_not_empty_array": {None: False, (): False, (1,): True},
    "is_not_empty": {None: True, "": False, "x": True},
    "is_in_list": {None: True, "a": True, "z": False},
    "is_not_null_and_is_in_list": {None: False, "a": True, "z": False},
    "is_not_less_than": {None: True, 1: True, 0.5: False},
    "is_not_greater_than": {None: True, 1: True, 1.5: False},
    "is_in_range": {None: True, 1: True, 10: True, 0: False, 10.5: False},
    "is_not_in_range": {None: True, 1: False, 10: False, 0: True, 10.5: True},
    "regex_match": {None: True, "b": True, "bB": False},
    "is_valid_timestamp": {
        None: True,
        "1899-01-31T00:00:00Z": True,
        "2026-01-31T00:00:00Z": True,
        "2026-01-32": False,
    },
    "is_not_in_future": {
        None: True,
        (NOW - dt.timedelta(hours=1)).isoformat(): True,
        (NOW + dt.timedelta(hours=1)).isoformat(): False,
    },
    "is_not_older_than_n_days": {
        None: True,
        (NOW - dt.timedelta(days=6)).isoformat(): True,
        (NOW - dt.timedelta(days=8)).isoformat(): False,
    },
    "is_valid_ipv4_address": {None: True, "10.0.0.1": True, "10.0.0": False},
}


def rules_of_checks():
    """Return the condition for each check of DQX that the page names."""
    rules = {}
    for checks, conditions in cells("Coming from DQX"):
        all_conditions = [
            text for text in code(conditions) if text.startswith(("value.", "size(", "timestamp("))
        ]
        if all_conditions:
            names = code(checks)
            if "a Python class" in conditions:
                names = names[: len(all_conditions)]
            if len(all_conditions) == 1:
                all_conditions *= len(names)
            rules |= dict(zip(names, all_conditions, strict=True))
    return rules


@pytest.mark.parametrize("check", CASES)
def test_conditions_say_what_checks_of_dqx_say(check):
    values = list(CASES[check])
    assert judged(rules_of_checks()[check], [{"x": value} for value in values]) == [
        CASES[check][value] for value in values
    ]


def test_a_check_with_a_filter():
    [rule] = [code(rule)[0] for name, rule in cells("Coming from DQX") if "filter" in code(name)]
    values = [{"kind": "sale", "x": 0}, {"kind": "sale", "x": 1}, {"kind": "gift", "x": 0}]
    assert judged(rule, values) == [False, True, True]


def test_each_condition_of_the_page_is_tested():
    untested = rules_of_checks().keys() - CASES.keys()
    assert untested == {"is_not_equal_to", "is_valid_date"}, "as the check beside them"


def judged(rule, values):
    """Return whether each value is accepted."""
    row_plan = plan(rules={"rule": rule})
    records = columns_of([Record(-1, None, json.dumps(value).encode()) for value in values])
    evaluator = Evaluator(row_plan.records)
    refused = dict(evaluator.judge_by_all("rows", 0, records).verdicts)
    evaluator.close()
    return [row not in refused for row in range(len(values))]


def test_the_rules_about_null_and_dates():
    [dates] = re.findall(r"compare `(.+?)`", PAGE)
    assert judged(dates, [{"day": "2026-02-01"}, {"day": "2026-01-30"}]) == [True, False]
    [nulls] = re.findall(r"refuses the row\. `(.+?)`", PAGE)
    assert judged(nulls, [{"note": None}, {"note": "x"}, {"note": ""}]) == [True, True, False]
