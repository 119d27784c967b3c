"""Batches are read by both implementations, where there are two."""

from tests.records.conftest import reading

__all__ = ["reading"]
