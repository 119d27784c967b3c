"""The reference in docs/ equals that of the code."""

from pathlib import Path

from penstock.configuration.reference import reference


def test_the_reference_is_the_codes():
    file = Path(__file__).parents[2] / "docs" / "configuration.md"
    assert file.read_text() == reference(), "run `make docs`"
