"""Reads stored batches of a partition, of every format."""
