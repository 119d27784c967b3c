"""The structure of Kafka's requests and responses, from its schemas (by `kio`)."""

from __future__ import annotations

import dataclasses
import types
import typing
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from penstock.kafka.wire.primitives import read_length, read_long_length

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kio.static.protocol import Entity

FIXED_SIZES: Final = {
    "int8": 1,
    "bool": 1,
    "int16": 2,
    "uint16": 2,
    "error_code": 2,
    "int32": 4,
    "uint32": 4,
    "timedelta_i32": 4,
    "int64": 8,
    "timedelta_i64": 8,
    "datetime_i64": 8,
    "float64": 8,
    "uuid": 16,
}


class WireField(NamedTuple):
    """A field of a structure."""

    name: str
    kafka_type: str | None  # None for a structure
    structure: Structure | None
    array: bool
    nullable: bool
    tag: int | None

    def is_null_at(self, frame: bytes, position: int, *, flexible: bool) -> bool:
        """Whether there is a null where the field begins: of an array, a string, or bytes.

        Raises:
            IndexError: The frame ends before.
        """
        if not self.array and self.kafka_type in FIXED_SIZES:
            return False
        reader = read_long_length if self.array or self.kafka_type != "string" else read_length
        return reader(frame, position, flexible=flexible)[0] < 0


class FieldRun(NamedTuple):
    """Some fields of a structure: so many bytes, then optionally a field of another size."""

    size: int
    field: WireField | None
    is_string: bool


@dataclasses.dataclass(slots=True)
class Structure:
    """The order of the fields of a request or response, and the known tags."""

    kind: type[Entity]
    """The library's type."""
    flexible: bool
    fields: tuple[WireField, ...]
    tagged_fields: dict[int, WireField]
    is_address: bool
    addresses_within: bool
    """Whether it is an address or contains an address, at any depth."""
    runs: tuple[FieldRun, ...]
    """The same fields; adjacent fields of a fixed size are one step."""
    last: int
    """How many of its fields to walk until no address can follow; all if a tag has an address."""
    is_flat: bool
    """Whether no field is a structure: then it is walked in a bounded time."""
    has_arrays: bool
    """Whether a field is an array."""


@cache
def structure_of(entity: type[Entity]) -> Structure:
    """Read a structure out of a `kio` schema."""
    plain: list[WireField] = []
    tagged: dict[int, WireField] = {}
    for field in dataclasses.fields(entity):
        described = _field(field)
        if described.tag is None:
            plain.append(described)
        else:
            tagged[described.tag] = described
    names = {field.name for field in plain}
    is_address = {"host", "port"} <= names
    holding = [index for index, field in enumerate(plain) if holds_address(field)]
    tags_hold = any(holds_address(field) for field in tagged.values())
    return Structure(
        kind=entity,
        flexible=entity.__flexible__,
        fields=tuple(plain),
        tagged_fields=tagged,
        is_address=is_address,
        addresses_within=is_address or bool(holding) or tags_hold,
        runs=tuple(_runs(plain)),
        last=len(plain) if is_address or tags_hold or not holding else holding[-1] + 1,
        is_flat=all(field.structure is None for field in (*plain, *tagged.values())),
        has_arrays=any(field.array for field in plain),
    )


def _runs(fields: Iterable[WireField]) -> Iterator[FieldRun]:
    size = 0
    for field in fields:
        fixed = None if field.array else FIXED_SIZES.get(field.kafka_type or "")
        if fixed is None:
            yield FieldRun(size, field, not field.array and field.kafka_type == "string")
            size = 0
        else:
            size += fixed
    if size:
        yield FieldRun(size, None, False)


def holds_address(field: WireField) -> bool:
    """Whether a field is a structure with a broker's address in it."""
    return field.structure is not None and field.structure.addresses_within


def _field(field: dataclasses.Field[Any]) -> WireField:
    kind = field.type
    array = typing.get_origin(kind) is tuple
    nullable = isinstance(kind, types.UnionType)
    if array:
        kind = typing.get_args(kind)[0]
    elif isinstance(kind, types.UnionType):
        inner = [argument for argument in typing.get_args(kind) if argument is not types.NoneType]
        array = typing.get_origin(inner[0]) is tuple
        kind = typing.get_args(inner[0])[0] if array else inner[0]
    kafka_type = field.metadata.get("kafka_type")
    structure = None if kafka_type else structure_of(cast("type[Entity]", kind))
    return WireField(field.name, kafka_type, structure, array, nullable, field.metadata.get("tag"))


def skip_field(field: WireField, frame: bytes, position: int, flexible: bool) -> int:
    """Return the position after a field that is not a structure.

    Raises:
        IndexError: It does not end within the frame.
    """
    count = 1
    if field.array:
        count, position = read_long_length(frame, position, flexible=flexible)
    size = FIXED_SIZES.get(field.kafka_type or "")
    if size is not None:
        position += size * max(0, count)
    else:
        reader = read_length if field.kafka_type == "string" else read_long_length
        for _ in range(count):
            length, position = reader(frame, position, flexible=flexible)
            position += max(0, length)
    if position > len(frame):
        raise IndexError
    return position
