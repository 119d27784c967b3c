"""A mark for tests of what only the native extension does."""

import pytest

from penstock.records.implementation import choose

NATIVE_ONLY = pytest.mark.skipif(
    choose().stored_batches is None, reason="in Python, batches are read before they are merged"
)
