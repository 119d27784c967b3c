"""Partitions whose batches a schedule has."""

PLACES = [("t", number) for number in range(10)]
