"""Reads with `format("penstock")`, batch and stream."""
