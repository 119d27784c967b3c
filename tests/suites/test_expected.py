"""What is expected to differ stands in the docs."""

from pathlib import Path

import pytest

from tests.suites.expected import table


@pytest.mark.parametrize("suite", ["json_schema"])
def test_the_docs_show_what_differs(suite):
    text = (Path(__file__).parents[2] / "docs" / "schemas.md").read_text()
    _, _, rest = text.partition(f"<!-- of tests/suites/expected.toml: {suite} -->\n")

    assert rest.partition("\n<!-- end -->")[0] == table(suite)
