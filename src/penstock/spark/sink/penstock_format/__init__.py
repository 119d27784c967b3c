"""Writes with `format("penstock")`, batch and stream."""
