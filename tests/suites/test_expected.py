"""The differences that are known."""

from pathlib import Path

import pytest

from tests.suites.expected import Expected, compare, expected, reasons

GUIDE = (Path(__file__).parents[2] / "docs" / "measured.md").read_text("utf-8").splitlines()


def test_the_guide_shows_each_difference_of_rules_with_its_reason():
    rows = expected("confluent-rules")
    assert rows
    for row in rows:
        cases = ", ".join(f"`{case}`" for case in row.cases)
        assert f"| {cases} | {row.reason} |" in GUIDE


@pytest.mark.parametrize("suite", ["json_schema", "buf-validate", "cel-spec", "avro", "protobuf"])
def test_the_guide_leads_to_the_reasons_of_the_other_differences(suite):
    assert all(reasons(suite).values())
    assert "(../tests/suites/expected.toml)" in "\n".join(GUIDE)


def test_what_is_not_known_and_what_is_not_found():
    rows = [Expected(("a/*", "b"), "why"), Expected(("c/*/d",), "why")]
    found = {"a/1": "x", "b": "y", "c/2": "z"}
    assert compare(found, rows) == (["c/2: z"], ["c/*/d"])
    assert compare({"a/1": "x", "b": "y", "c/[x]/d": "z"}, rows) == ([], [])
