"""Metadata, offsets and compacted topics of a cluster, for the principal of `upstream.*`."""
