"""Tagged fields that the protocol library does not know (KIP-482): a client may send them.

The library refuses to read past one. A broker ignores them, and so do we where a request is read;
a request that goes on unchanged keeps them.
"""

from __future__ import annotations

from struct import error
from typing import TYPE_CHECKING

from penstock.wire.addresses import Structure, skip_field, structure_of
from penstock.wire.errors import WireError
from penstock.wire.primitives import read_long_length, read_varint, varint

if TYPE_CHECKING:
    from kio.static.protocol import Entity


def without_unknown_tags(data: bytes, position: int, kind: type[Entity]) -> bytes:
    """Give the structure that begins at a position, without tagged fields that are unknown.

    Raises:
        WireError: It is not what its schema says.
    """
    parts: list[bytes] = []
    try:
        end = _copy(structure_of(kind), data, position, parts)
    except (IndexError, error):
        raise WireError("a request that cannot be read") from None
    if end != len(data):
        raise WireError("a request with something behind its end")
    return b"".join(parts)


def _copy(structure: Structure, data: bytes, position: int, parts: list[bytes]) -> int:
    for field in structure.fields:
        start = position
        if field.structure is None:
            position = skip_field(field, data, position, structure.flexible)
            parts.append(data[start:position])
            continue
        count = 1
        if field.array:
            count, position = read_long_length(data, position, flexible=structure.flexible)
            parts.append(data[start:position])
        for _ in range(count):
            position = _copy(field.structure, data, position, parts)
    if not structure.flexible:
        return position
    count, position = read_varint(data, position)
    known = []
    for _ in range(count):
        start = position
        tag, position = read_varint(data, position)
        size, position = read_varint(data, position)
        position += size
        if position > len(data):
            raise IndexError
        if tag in structure.tagged:
            known.append(data[start:position])
    parts += [varint(len(known)), *known]
    return position
