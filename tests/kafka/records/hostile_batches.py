"""Batches as no client writes them: odd framings, and bytes changed at each level; checksums fit."""

import struct
from random import Random

import crc32c

from penstock.kafka.records.header import CRC_FROM
from penstock.policy import Header, Record
from tests.kafka.records.encoding import NOW, encode_batch, encode_record
from tests.kafka.records.framings import FRAMINGS

_TIMES = (NOW, NOW + 5, -1, 0, -(2**62), 2**62, 2**63 - 1, -(2**63))
_FIELDS = (
    (0, ">q"), (8, ">i"), (12, ">i"), (16, ">b"), (21, ">h"), (23, ">i"), (27, ">q"), (35, ">q"),
    (43, ">q"), (51, ">h"), (53, ">i"), (57, ">i"),
)  # fmt: skip
"""Where the fields of a header are, and their formats; without the checksum."""


def _field(chance: Random, most: int) -> bytes | None:
    if chance.random() < 0.2:
        return None
    size = chance.choice((0, 1, 20, most))
    return chance.randbytes(size) if chance.random() < 0.3 else (b"some words " * size)[:size]


def _some_records(chance: Random) -> list[Record]:
    count = chance.choice((1, 1, 2, 3, 20))
    most = chance.choice((60, 60, 300, 300, 70_000, 200_000) if count < 4 else (60, 9_000))
    if chance.random() < 0.8:
        most = min(most, 300)
    base = chance.choice((NOW, NOW, NOW, *_TIMES))
    return [
        Record(
            base if chance.random() < 0.5 else chance.choice(_TIMES),
            _field(chance, 20),
            _field(chance, most),
            tuple(
                Header(chance.choice(("", "a", "schlüssel")), _field(chance, 9))
                for _ in range(chance.choice((0, 0, 0, 1, 3)))
            ),
        )
        for _ in range(count)
    ]


def _section(records: list[Record]) -> bytes:
    """The records with timestamps that wrap around, as 64 bits do."""
    base = records[0].timestamp
    return b"".join(
        encode_record(record._replace(timestamp=_wrapped(record.timestamp - base)), delta, 0)
        for delta, record in enumerate(records)
    )


def _wrapped(number: int) -> int:
    return (number + 2**63) % 2**64 - 2**63


def damaged(data: bytes, chance: Random) -> bytes:
    """Change, remove, insert, repeat or append bytes, many of them in the fields of a format."""
    changed = bytearray(data)
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        at = chance.randrange(len(changed) + 1)
        near = chance.random()
        if near < 0.4:
            at = min(at % 24, len(changed))
        elif near < 0.5:
            at = max(0, len(changed) - at % 12)
        kind = chance.randrange(6)
        if kind == 0 and at < len(changed):
            changed[at] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))
        elif kind == 1 and at < len(changed):
            changed[at] ^= 1 << chance.randrange(8)
        elif kind == 2:
            del changed[at : at + chance.choice((1, 2, 4, 8))]
        elif kind == 3:
            changed[at:at] = chance.choice(
                (chance.randbytes(chance.randrange(1, 9)), bytes(4), b"\0")
            )
        elif kind == 4:
            del changed[chance.randrange(len(changed) + 1) :]
        else:
            changed += chance.choice(
                (b"\0", bytes(4), data, chance.randbytes(chance.randrange(1, 30)))
            )
    return bytes(changed)


def _with_other_field(batch: bytes, chance: Random) -> bytes:
    """The batch with one field of its header changed, often by little."""
    at, kind = chance.choice(_FIELDS)
    bits = struct.calcsize(kind) * 8
    (given,) = struct.unpack_from(kind, batch, at)
    largest = 2 ** (bits - 1) - 1
    number = chance.choice((
        given ^ 1 << chance.randrange(bits - 1), given + 1, given - 1, 0, -1, largest, -largest - 1,
    ))  # fmt: skip
    changed = bytearray(batch)
    struct.pack_into(kind, changed, at, max(-largest - 1, min(number, largest)))
    changed[17:21] = crc32c.crc32c(changed[CRC_FROM:]).to_bytes(4, "big")
    return bytes(changed)


def hostile_batch(chance: Random) -> bytes:
    """A batch with a right checksum, of which a part may be wrong."""
    records = _some_records(chance)
    section = _section(records)
    level = chance.random()
    if level < 0.2:
        section = damaged(section, chance)
    codec = (
        chance.choice((0, 1, 2, 3, 3, 3, 4, 4)) if level < 0.3 else chance.choice((1, 2, 3, 3, 4))
    )
    payload = chance.choice(FRAMINGS[codec])(section, chance)
    if level > 0.45:
        payload = damaged(payload, chance)
    batch = encode_batch(records, codec=codec, payload=payload)
    if 0.3 < level < 0.35:
        batch = _with_other_field(batch, chance)
    return batch
