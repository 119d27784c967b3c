"""Batches are read by both implementations, if both are installed."""

import pytest

from penstock.jobs.batches import outgoing_records
from tests.kafka.records.conftest import reading

__all__ = ["reading"]


@pytest.fixture
def nothing_is_buffered(monkeypatch):
    """Treats every batch as a large batch."""
    monkeypatch.setattr(outgoing_records, "SMALL_BYTES", 0)
