"""What may differ has a reason, which users can read."""

from pathlib import Path

import pytest

from tests.suites.expected import reasons

DOCUMENT = (Path(__file__).parents[2] / "docs" / "schemas.md").read_text()


@pytest.mark.parametrize(("suite", "title"), [("avro", "Avro"), ("protobuf", "Protobuf")])
def test_docs_show_each_difference_with_its_reason(suite, title):
    rows = {f"| {title} | `{one}` | {reason} |" for one, reason in reasons(suite).items()}
    shown = {line for line in DOCUMENT.splitlines() if line.startswith(f"| {title} | `")}
    assert rows == shown
