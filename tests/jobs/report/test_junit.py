"""An audit in CI: a test case for each policy, and one for the baseline."""

from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from penstock.jobs.report.baseline import compare
from penstock.jobs.report.junit import as_junit
from tests.jobs.report.samples import contract_of, records, report_of

BAD = (records(count=98), records(message="bad"), records(policy="q.Q", outcome="failed"))


def suite(report):
    return ET.fromstring(as_junit(report))


@pytest.mark.parametrize(
    ("some", "fail_over", "tests", "failures"),
    [
        (BAD, None, "2", "2"),
        (BAD, 0.01, "2", "2"),
        (BAD, 0.02, "2", "0"),
        ((records(count=9),), None, "1", "0"),
        ((records(outcome="dropped"),), None, "1", "0"),
        ((), 0.0, "1", "0"),
    ],
)
def test_policies_are_test_cases(some, fail_over, tests, failures):
    found = suite(report_of(*some, fail_over=fail_over))
    assert (found.get("tests"), found.get("failures")) == (tests, failures)
    assert len(found.findall(".//failure")) == int(failures)


def test_a_failure_has_the_reason():
    [failure, _] = suite(report_of(*BAD)).findall(".//failure")
    assert failure.get("message") == "1 of 100 records"
    assert failure.text == "1 records, error 87: bad"


def test_the_baseline_is_a_test_case():
    before = report_of(records(count=10))
    worse = report_of(*BAD, fail_over=1.0)
    for report, failures in ((worse, 1), (before, 0)):
        compared = compare(report, before, Path("last.json"))
        found = suite(report.model_copy(update={"baseline": compared}))
        assert found.findall("testcase")[-1].get("name") == "no worse than the baseline"
        assert len(found.findall(".//failure")) == int(found.get("failures")) == failures


def test_any_text_is_xml_and_bounded():
    texts = (f"\x00<&>\ud800 {n}" for n in range(500))
    report = report_of(*(records(message=text) for text in texts), source="\x01t")
    [failure] = suite(report).findall(".//failure")
    assert failure.text.count("\n") == 100
    assert failure.text.endswith("and 400 more reasons, in report.json")


def test_rules_of_contracts_are_test_cases():
    rules = (
        {"held": True},
        {"held": False},
        {"held": False, "is_error": False, "severity": "warning"},
        {"held": None, "why": "a rule of type sql is not judged"},
    )
    report = report_of(records()).model_copy(update={"contracts": (contract_of(*rules),)})
    found = suite(report)
    assert (found.get("tests"), found.get("failures")) == ("4", "1")
    names = [row.get("name") for row in found]
    assert names[1:] == [f"contract orders 1, o: o.a: rule {n}" for n in range(3)]
    [failure] = found.findall(".//failure")
    assert failure.get("message") == "1,000; must be 5"
