"""Results as OpenLineage and datacontract-cli have them."""

import datetime as dt
import json
from uuid import UUID

import pytest

from penstock.configuration import ConfigurationError
from penstock.jobs.report.document import FRAME, About, Report, RuleEntry, TopicEntry
from penstock.jobs.report.results import as_datacontract, as_openlineage
from tests.jobs.report.samples import contract_of, records, report_of

pytestmark = pytest.mark.unit
CONTRACT = contract_of(
    {"held": True, "place": "orders", "limit": "must be 5", "measured": 5},
    {"held": False, "place": "orders.item.sku", "severity": "warning", "is_error": False},
    {"held": None, "why": "no values", "metric": None},
)
ROWS = Report(
    judged=5,
    refused=3,
    share=0.6,
    topics=(TopicEntry(topic="rows", judged=5, share=0.6),),
    rules=(
        RuleEntry(policy="rules", rule="a", mode="enforce", count=3, share=0.6, samples=("7",)),
        RuleEntry(policy="soft", rule=None, mode="mark", count=1, share=0.2),
        RuleEntry(policy="rules", rule="b", mode="enforce", count=0, share=0.0),
    ),
    contracts=(CONTRACT,),
    about=About(source="table:t", is_topic=False, is_rows=True, file="f", fingerprint="x",
                seconds=2.5, written="2026-01-02T03:04:05+00:00"),
)  # fmt: skip
EXPECTATIONS = [
    {"expectation": "dated", "action": "keep", "passed": 1, "failed": 2},
    {"expectation": "positive", "action": "drop", "passed": 3, "failed": 0},
]


def test_rules_are_assertions_of_openlineage():
    facet = as_openlineage(ROWS)["dataQualityAssertions"]
    assert facet["_producer"].startswith("https://pypi.org/project/penstock-kafka/")
    assert facet["_schemaURL"].startswith("https://openlineage.io/spec/facets/1-1-0/DataQuality")
    a, soft, b, count, sku = facet["assertions"]
    assert a == {"assertion": "rule", "name": "table:t/rules/a", "success": False, "severity": "error",
                 "expected": "0", "actual": "3"}  # fmt: skip
    assert (soft["name"], soft["success"], soft["severity"]) == ("table:t/soft", False, "warn")
    assert (b["name"], b["success"]) == ("table:t/rules/b", True)
    assert (count["assertion"], count["actual"], "column" in count) == ("rowCount", "5", False)
    assert (sku["column"], sku["severity"], sku["success"]) == ("item.sku", "warn", False)


def test_rules_are_checks_of_datacontract_cli():
    run = json.loads(json.dumps(as_datacontract(ROWS)))
    assert UUID(run["runId"]).version == 4
    begin, end = (dt.datetime.fromisoformat(run[f"timestamp{at}"]) for at in ("Start", "End"))
    assert (end - begin, end.year) == (dt.timedelta(seconds=2.5), 2026)
    assert (run["result"], run["logs"]) == ("failed", [])
    assert [check["result"] for check in run["checks"]] == [
        "failed", "warning", "passed", "passed", "warning", "unknown",
    ]  # fmt: skip
    a, *_, unknown = run["checks"]
    assert a == {
        "key": "table:t/rules/a", "name": "rules.a", "category": "quality", "type": "rule",
        "model": "table:t", "engine": "penstock", "result": "failed", "reason": "3 of 5",
        "diagnostics": {"rows": 5, "failed_rows": 3, "samples": ["7"]},
    }  # fmt: skip
    assert (unknown["reason"], "diagnostics" in unknown) == ("not judged: no values", False)


def test_expectations_have_the_same_forms():
    dated, positive = as_openlineage(EXPECTATIONS)["dataQualityAssertions"]["assertions"]
    assert dated == {"assertion": "expectation", "name": "dated", "success": False,
                     "severity": "warn", "expected": "0", "actual": "2"}  # fmt: skip
    assert (positive["success"], positive["severity"]) == (True, "error")
    run = as_datacontract(iter(EXPECTATIONS))
    assert [check["result"] for check in run["checks"]] == ["warning", "passed"]
    assert run["checks"][0]["reason"] == "2 of 3"
    assert run["result"] == "warning"
    assert as_datacontract([])["result"] == "unknown"


def test_the_table_of_expectations_can_be_named():
    run = as_datacontract(EXPECTATIONS, table="orders")
    checks = [(check["key"], check["name"], check["model"]) for check in run["checks"]]
    assert checks == [
        ("orders/dated", "dated", "orders"),
        ("orders/positive", "positive", "orders"),
    ]
    facet = as_openlineage(EXPECTATIONS, table="orders")["dataQualityAssertions"]
    assert facet["assertions"][0]["name"] == "orders/dated"


def test_policies_are_the_rules_of_records():
    report = report_of(records(count=9), records(message="bad"))
    every, assertion = as_openlineage(report)["dataQualityAssertions"]["assertions"]
    assert (every["name"], every["success"], every["actual"]) == ("t/every record", False, "1")
    assert (assertion["name"], assertion["actual"]) == ("t/p.P", "1")
    _, check = as_datacontract(report)["checks"]
    assert (check["type"], check["model"], check["reason"]) == ("policy", "t", "1 of 10")


def test_records_without_a_refusal_pass():
    report = report_of(records(count=9), records("u", count=4), source="t,u")
    run = as_datacontract(report)
    assert run["result"] == "passed"
    assert [(check["key"], check["diagnostics"]) for check in run["checks"]] == [
        ("t/every record", {"rows": 9, "failed_rows": 0}),
        ("u/every record", {"rows": 4, "failed_rows": 0}),
    ]


def test_no_two_results_have_the_same_key():
    twice = contract_of({"name": "rowCount"}, {"name": "rowCount"})
    report = report_of(records(message="bad"), records("u", message="bad"), source="t,u")
    run = as_datacontract(report.model_copy(update={"contracts": (twice,)}))
    keys = [check["key"] for check in run["checks"]]
    assert keys[2:] == ["t/p.P", "u/p.P", "t/c/o.a: rowCount", "t/c/o.a: rowCount#2"]


def test_a_frame_is_named_by_its_topic():
    about = ROWS.about.model_copy(update={"source": FRAME})
    frame = ROWS.model_copy(update={"about": about})
    assert as_datacontract(frame)["checks"][0]["key"] == "rows/rules/a"
    assert as_datacontract(frame, table="orders")["checks"][0]["key"] == "orders/rules/a"


def test_results_are_not_a_frame():
    class Frame:
        def collect(self):
            raise AssertionError

    for function in (as_openlineage, as_datacontract):
        with pytest.raises(
            ConfigurationError, match="pass a report of audit_rows or audit, or the"
        ):
            function(Frame())
        with pytest.raises(ConfigurationError, match="table of expectations, not str"):
            function("orders")
