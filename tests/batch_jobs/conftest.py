"""Batches are read by both implementations, where there are two."""

import pytest

from penstock.batch_jobs import kept
from tests.records.conftest import reading

__all__ = ["reading"]


@pytest.fixture
def nothing_is_gathered(monkeypatch):
    """Takes every batch for a large one."""
    monkeypatch.setattr(kept, "SMALL_BYTES", 0)
