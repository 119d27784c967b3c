"""Time limits for processes of Spark: only processes that hang exceed them.

A busy machine takes many times as long as an idle machine, so these limits do not detect slow tests.
"""

from typing import Final

import pytest

HANGS_S: Final = 1800
"""A process that has not ended by then, and a condition that does not hold by then, hangs."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give tests that start Spark as processes the time for several of these waits."""
    for item in items:
        if item.get_closest_marker("spark_processes"):
            item.add_marker(pytest.mark.timeout(2 * HANGS_S))
