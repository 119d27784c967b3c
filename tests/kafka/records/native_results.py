"""The results of the native decoder for records."""

import random
from typing import Any


def results_of(records: Any) -> tuple[object, ...]:
    """Return the bytes after prefixes, and which headers exist; read before there are columns."""
    fresh = [records.keys_after(b""), records.values_after(b""), records.has_header("h")]
    fields = [field for field in (*records.keys[:1], *records.values[:1]) if field]
    prefixes = {b"k", b"x" * 99, *(field[:size] for field in fields for size in (1, 2, len(field)))}
    names = {"", "\ufffd", *(record.key for some in records.headers for record in some)}
    return (
        fresh,
        [(records.keys_after(prefix), records.values_after(prefix)) for prefix in sorted(prefixes)],
        {name: records.has_header(name) for name in names},
    )


def number(chance: random.Random, value: int, bits: int = 32) -> bytes:
    """A varint: as it should be, padded, or with bits that a reader might lose."""
    raw = ((value << 1) ^ (value >> 63)) & (2**bits - 1)
    size = 1
    kind = chance.random()
    if kind > 0.93:
        raw |= chance.choice([1, 2, 3, 7, 1 << 31]) << 32
        size = chance.choice([1, 5, 6, 10])
    elif kind > 0.85:
        size = chance.randrange(2, 12)
    result = bytearray()
    while raw > 0x7F or len(result) < size - 1:
        result.append(raw & 0x7F | 0x80)
        raw >>= 7
    result.append(raw)
    return bytes(result[:12])


def field(chance: random.Random) -> bytes:
    size = chance.choice([-1, -1, 0, 1, 3, -2, -(2**31)])
    return number(chance, size) + b"x" * max(0, size)


def header(chance: random.Random, keys: bytes) -> bytes:
    size = chance.choice([0, 1, 2])
    return number(chance, size) + chance.choice(keys).to_bytes() * size + field(chance)


def record(chance: random.Random, position: int, keys: bytes = b"hh\xff") -> bytes:
    """Return a record with numbers of `number`, and headers whose keys have some bytes."""
    headers = chance.choice([0, 0, 0, 1, 2])
    body = chance.choice(b"\x00\x00\x00\x00\x01\x7f\x80").to_bytes()
    body += number(chance, chance.choice([0, 5, -5, 2**62, -(2**63), 2**63 - 1]), 64)
    body += number(chance, position) + field(chance) + field(chance) + number(chance, headers)
    body += b"".join(header(chance, keys) for _ in range(headers))
    return number(chance, len(body)) + body
