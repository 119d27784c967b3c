"""Records whose headers are odd."""

from tests.kafka.records.encoding import zigzag
from tests.kafka.records.wide import record


def odd_headers(*keys: bytes) -> bytes:
    """A record whose header keys are these bytes."""
    headers = b"".join(zigzag(len(key)) + key + b"\x02x" for key in keys)
    return record(b"\x00\x00\x00\x02k\x02v" + zigzag(len(keys)) + headers)
