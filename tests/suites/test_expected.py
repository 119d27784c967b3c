"""The differences that are known."""

from pathlib import Path

import pytest

from tests.suites.expected import Expected, compare, reasons

GUIDE = (Path(__file__).parents[2] / "docs" / "measured.md").read_text("utf-8")


@pytest.mark.parametrize(
    "suite", ["json_schema", "buf-validate", "cel-spec", "avro", "protobuf", "confluent-rules"]
)
def test_the_guide_leads_to_the_reasons_of_the_differences(suite):
    assert reasons(suite)
    assert all(reasons(suite).values())
    assert "(../tests/suites/expected.toml)" in GUIDE


def test_unexpected_and_missing_differences():
    rows = [Expected(("a/*", "b"), "why"), Expected(("c/*/d",), "why")]
    found = {"a/1": "x", "b": "y", "c/2": "z"}
    assert compare(found, rows) == (["c/2: z"], ["c/*/d"])
    assert compare({"a/1": "x", "b": "y", "c/[x]/d": "z"}, rows) == ([], [])
