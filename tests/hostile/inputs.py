"""Invalid requests of every API and version: wrong counts, lengths, nulls and tags."""

import random
import struct
import uuid
from functools import cache
from typing import NamedTuple

from penstock.gateway.sessions.routes import FETCH, ROUTES
from penstock.kafka.wire.primitives import read_length, read_long_length, read_varint, varint
from penstock.kafka.wire.structures import Structure, WireField, skip_field, structure_of
from tests.integration.samples import request_schema, sample
from tests.raw import request_frame

DECODED = frozenset(row.api_key for row in ROUTES) - {FETCH}
"""APIs of which the gateway reads more than the request header."""
ONLY_SHAPES = frozenset({19, 37, 44, 33, 45, 46, 57, 58, 64})
"""APIs in which a random number might change the cluster: only counts and lengths change."""
HEAD_BYTES = 14
_WRONG_NUMBERS = (-2, -1, 0, 1, 2, 127, 128, 1_000, 2**16, 2**20, 2**31 - 1)


class Spot(NamedTuple):
    """The position and encoding of a count or a length."""

    start: int
    end: int
    kind: str


class Base(NamedTuple):
    """A valid request, and the positions of its counts and lengths."""

    api_key: int
    version: int
    frame: bytes
    spots: tuple[Spot, ...]


@cache
def base(api_key: int, version: int, topic_id: uuid.UUID) -> Base:
    """Write a small request; its topics are those of `sample`."""
    return base_of(request_frame(sample(api_key, version, topic_id), 77))


def base_of(frame: bytes) -> Base:
    """Find the positions of counts and lengths of a request."""
    api_key, version = struct.unpack_from(">hh", frame, 4)
    schema = request_schema(api_key, version)
    size = read_length(frame, 12, flexible=False)[0]
    position = HEAD_BYTES + max(0, size)
    spots = [Spot(12, 14, "int16")]
    if schema.__flexible__:
        spots.append(Spot(position, position + 1, "varint"))
        assert frame[position] == 0, "a tag in the head"
        position += 1
    _walk(structure_of(schema), frame, position, spots)
    return Base(api_key, version, frame, tuple(spots))


def _walk(structure: Structure, data: bytes, position: int, spots: list[Spot]) -> int:
    for field in structure.fields:
        position = _walk_field(field, data, position, structure.flexible, spots)
    if structure.flexible:
        spots.append(Spot(position, position + 1, "varint"))
        count, position = read_varint(data, position)
        for _ in range(count):
            _, position = read_varint(data, position)
            start = position
            size, position = read_varint(data, position)
            spots.append(Spot(start, position, "varint"))
            position += size
    return position


def _walk_field(
    field: WireField, data: bytes, position: int, flexible: bool, spots: list[Spot]
) -> int:
    start = position
    if field.array or field.kafka_type in {"string", "bytes", "records"}:
        is_short = field.kafka_type == "string" and not field.array
        read = read_length if is_short else read_long_length
        count, after = read(data, position, flexible=flexible)
        kind = "varint" if flexible else ("int16" if is_short else "int32")
        spots.append(Spot(start, after, kind))
    if field.structure is None:
        return skip_field(field, data, position, flexible)
    if field.array:
        for _ in range(count):
            after = _walk(field.structure, data, after, spots)
        return after
    if field.nullable:
        spots.append(Spot(position, position + 1, "int8"))
        position += 1
        if data[position - 1] == 0xFF:
            return position
    return _walk(field.structure, data, position, spots)


def mutated(chance: random.Random, bases: list[Base]) -> tuple[Base, bytes]:
    """Choose a request, and change it at one to three positions."""
    is_decoded = chance.random() < 0.8
    chosen = chance.choice([base for base in bases if (base.api_key in DECODED) == is_decoded])
    data = bytearray(chosen.frame)
    for _ in range(chance.randint(1, 3)):
        if chance.random() < 0.7 or chosen.api_key in ONLY_SHAPES:
            _wrong_number(chance, data, chance.choice(chosen.spots))
        else:
            _scribble(chance, data)
    if chance.random() < 0.95:
        data[:4] = struct.pack(">i", len(data) - 4)
    else:
        data[:4] = struct.pack(">i", chance.choice([0, 7, 8, 9, 2**31 - 1, -1, len(data), 2**20]))
    return chosen, bytes(data)


def with_wrong_number(of: Base, spot: Spot, value: int) -> bytes:
    """Return a request with another number at a position."""
    data = bytearray(of.frame)
    data[spot.start : spot.end] = _announced(spot, value)
    data[:4] = struct.pack(">i", len(data) - 4)
    return bytes(data)


def _wrong_number(chance: random.Random, data: bytearray, spot: Spot) -> None:
    written = _announced(spot, chance.choice(_WRONG_NUMBERS))
    if spot.kind == "varint" and chance.random() < 0.1:
        written = b"\xff" * 6
    data[spot.start : spot.end] = written


def _announced(spot: Spot, value: int) -> bytes:
    if spot.kind == "varint":
        return varint((value + 1) & 0xFFFFFFFF)
    if spot.kind == "int8":
        return bytes([value & 0xFF])
    if spot.kind == "int16":
        return struct.pack(">h", max(-(2**15), min(2**15 - 1, value)))
    return struct.pack(">i", value)


def _scribble(chance: random.Random, data: bytearray) -> None:
    at = chance.randrange(HEAD_BYTES, len(data) + 1)
    kind = chance.randrange(4)
    if kind == 0:
        data[at : at + 1] = bytes([chance.randrange(256)])
    elif kind == 1:
        del data[at : at + chance.randint(1, 8)]
    elif kind == 2:
        data[at:at] = chance.randbytes(chance.randint(1, 8))
    else:
        data[at : at + 4] = chance.choice([b"\xff" * 4, bytes(4), b"\x7f\xff\xff\xff"])
