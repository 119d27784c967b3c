"""Batches that are large when they are decompressed."""

from tests.kafka.records.encoding import encode_batch, zigzag


def bomb(count: int, *, rising: bool) -> bytes:
    """Write a batch of many records in few bytes; their offset deltas rise, or are all 0."""
    records = (b"\0\0" + zigzag(n if rising else 0) + b"\x01\x01\0" for n in range(count))
    body = b"".join(zigzag(len(record)) + record for record in records)
    return encode_batch([], codec="zstd", body=body, count=count, last_offset_delta=count - 1)
