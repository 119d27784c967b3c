"""The differences that are known."""

from pathlib import Path

import pytest

from tests.suites.expected import Expected, compare, expected, guide_table, reasons

GUIDE = (Path(__file__).parents[2] / "docs" / "measured.md").read_text("utf-8").splitlines()


@pytest.mark.parametrize("suite", ["confluent-rules", "buf-validate"])
def test_the_guide_shows_each_difference_of_rules_with_its_reason(suite):
    rows = expected(suite)
    assert rows
    for row in rows:
        cases = ", ".join(f"`{case}`" for case in row.cases)
        assert f"| {cases} | {row.reason} |" in GUIDE


@pytest.mark.parametrize("suite", ["cel-spec", "avro", "protobuf"])
def test_the_guide_leads_to_the_reasons_of_the_other_differences(suite):
    assert all(reasons(suite).values())
    assert "(../tests/suites/expected.toml)" in "\n".join(GUIDE)


def test_the_guide_shows_the_differences_of_implementations():
    _, _, rest = "\n".join(GUIDE).partition("<!-- of tests/suites/expected.toml: json_schema -->\n")
    assert rest.partition("\n<!-- end -->")[0] == guide_table("json_schema")


def test_what_is_not_known_and_what_is_not_found():
    rows = [Expected(("a/*", "b"), "why"), Expected(("c/*/d",), "why")]
    found = {"a/1": "x", "b": "y", "c/2": "z"}
    assert compare(found, rows) == (["c/2: z"], ["c/*/d"])
    assert compare({"a/1": "x", "b": "y", "c/[x]/d": "z"}, rows) == ([], [])
