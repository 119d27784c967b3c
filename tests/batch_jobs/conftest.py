"""Batches are read by both implementations, where there are two."""

import pytest

from penstock.batch_jobs import outgoing_records
from tests.records.conftest import reading

__all__ = ["reading"]


@pytest.fixture
def nothing_is_buffered(monkeypatch):
    """Takes every batch for a large one."""
    monkeypatch.setattr(outgoing_records, "SMALL_BYTES", 0)
