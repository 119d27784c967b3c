"""Avro's binary encoding, judged to its very end."""
