"""What one process of `make test` runs: a file; and of Spark's tests half of the files.

A Spark session takes ten seconds to start, and is fast after its first minute: two processes have
one, and run all the tests that share it.
"""

from pathlib import Path

import pytest

from tests.order import TESTS, rank

SESSIONS = 2
"""How many processes have a Spark session."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Group the tests, for `--dist=loadgroup`."""
    on_spark = {item.path for item in items if "spark" in getattr(item, "fixturenames", ())}
    sessions = {
        path: f"Spark {number % SESSIONS}" for number, path in enumerate(_longest_first(on_spark))
    }
    for item in items:
        group = sessions.get(item.path) or str(item.path.relative_to(TESTS))
        item.add_marker(pytest.mark.xdist_group(group))


def _longest_first(paths: set[Path]) -> list[Path]:
    return sorted(paths, key=lambda path: (rank(path), path))
