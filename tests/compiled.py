"""Keep the tests compiled, outside of the tree, for all targets.

To compile 700 files takes each process of pytest-xdist longer than to collect them. What tests
import or write later is left to Python.
"""

import sys
from collections.abc import Generator

import pytest

from penstock.kafka.artifacts import cache_folder


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect tests with what an earlier run has compiled."""
    before, sys.pycache_prefix = sys.pycache_prefix, str(cache_folder() / "pycache")
    try:
        return (yield)
    finally:
        sys.pycache_prefix = before
