"""How long tests wait for processes of Spark: so long that only what hangs meets the limit.

A machine at load takes many times as long as one at rest, so no such limit says that a test is slow.
"""

from typing import Final

import pytest

HANGS_S: Final = 1800
"""A process that has not ended by then, and a condition that is not met, hangs."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give tests that start Spark as processes the time for several of these waits."""
    for item in items:
        if item.get_closest_marker("spark_processes"):
            item.add_marker(pytest.mark.timeout(2 * HANGS_S))
