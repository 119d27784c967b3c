"""Finds every broker address in a response and replaces it, leaving all other bytes alone.

Which fields are addresses follows from Kafka's schemas (through `kio`): a structure with a
`host` and a `port` is one, and its node is named by the `node_id` or `broker_id` beside it or
around it. A response is walked only as far as its last address; the rest is not looked at.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from functools import cache
from struct import Struct, error
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from kio.index import load_response_schema
from kio.schema.index import api_key_map, schema_name_map
from kio.static.constants import EntityType

from penstock.wire.errors import WireError
from penstock.wire.primitives import (
    read_length,
    read_long_length,
    read_varint,
    skip_tags,
    string,
    varint,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from kio.static.protocol import Entity

    Replace = Callable[[int, str, int], tuple[str, int]]
    """From node id, host and port to the host and port that clients are told."""

_FIXED_SIZES: Final = {
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
_PORT_FORMATS: Final = {"int32": Struct(">i"), "uint16": Struct(">H")}
_NODE_NAMES: Final = ("node_id", "broker_id")


class Field(NamedTuple):
    """One field of a structure."""

    name: str
    kafka_type: str | None  # None for a structure
    structure: Structure | None
    array: bool
    tag: int | None


@dataclasses.dataclass(slots=True)
class Structure:
    """What stands behind what in a request or response, and which tags are known."""

    flexible: bool
    fields: tuple[Field, ...]
    tagged: dict[int, Field]
    is_address: bool
    addresses_within: bool
    """Whether it is an address or holds one, at any depth."""
    last: int
    """How many of its fields to walk until no address can follow; all where a tag has one."""


class _Edit(NamedTuple):
    start: int
    end: int
    replacement: bytes


@cache
def known_versions(api_key: int) -> range:
    """Give the versions of an API whose response schemas are known here."""
    versions = sorted(
        version
        for version, entities in schema_name_map[api_key_map[api_key]].items()
        if EntityType.response in entities
    )
    return range(versions[0], versions[-1] + 1)


@cache
def holds_addresses(api_key: int, version: int) -> bool:
    """Tell whether a response can hold a broker's address."""
    return structure_of(load_response_schema(api_key, version)).addresses_within


def replace_addresses(
    frame: bytes, api_key: int, version: int, replace: Replace
) -> list[bytes | memoryview]:
    """Replace every address in a response.

    Args:
        frame: The response, length included.
        api_key: The API it answers.
        version: The version it answers in.
        replace: Called for each address with its node's id; -1 stands for no node.

    Returns:
        Buffers that together are the new frame; the original alone if nothing changed.

    Raises:
        WireError: The response is not what its schema says.
    """
    schema = load_response_schema(api_key, version)
    edits: list[_Edit] = []
    try:
        position = 8
        if schema.__header_schema__.__flexible__:
            position = skip_tags(frame, position)
        _walk(structure_of(schema), frame, position, -1, replace, edits, outermost=True)
    except (IndexError, error, UnicodeDecodeError):
        raise WireError(
            f"a response to {api_key_map[api_key]} version {version} that cannot be read"
        ) from None
    if not edits:
        return [frame]
    return _apply(frame, edits)


def _walk(
    structure: Structure,
    frame: bytes,
    position: int,
    node: int,
    replace: Replace,
    edits: list[_Edit],
    *,
    outermost: bool = False,
) -> int:
    """Walk one structure; give the position after it (where its last address ended, outermost)."""
    flexible = structure.flexible
    host: tuple[int, int, str] | None = None
    for field in structure.fields[: structure.last] if outermost else structure.fields:
        start = position
        if field.structure is None:
            position = skip_field(field, frame, position, flexible)
            if field.name in _NODE_NAMES:
                node = int.from_bytes(frame[start:position], "big", signed=True)
            elif structure.is_address and field.name == "host":
                size = read_length(frame, start, flexible=flexible)[1]
                host = (start, position, frame[size:position].decode())
            elif structure.is_address and field.name == "port" and host is not None:
                _replace_one(field, frame, (start, position), host, node, replace, flexible, edits)
        else:
            position = _walk_field(field, frame, position, node, replace, edits, flexible)
    if not flexible or (outermost and structure.last < len(structure.fields)):
        return position
    count, position = read_varint(frame, position)
    for _ in range(count):
        tag, position = read_varint(frame, position)
        size_start = position
        size, position = read_varint(frame, position)
        known = structure.tagged.get(tag)
        if known is not None and _holds(known):
            inner: list[_Edit] = []
            _walk_field(known, frame, position, node, replace, inner, flexible)
            if inner:
                content = b"".join(_splice(frame, position, position + size, inner))
                edits.append(_Edit(size_start, position + size, varint(len(content)) + content))
        position += size
    if position > len(frame):
        raise IndexError
    return position


def _walk_field(
    field: Field,
    frame: bytes,
    position: int,
    node: int,
    replace: Replace,
    edits: list[_Edit],
    flexible: bool,
) -> int:
    assert field.structure is not None
    count = 1
    if field.array:
        count, position = read_long_length(frame, position, flexible=flexible)
    for _ in range(count):
        position = _walk(field.structure, frame, position, node, replace, edits)
    return position


def _replace_one(
    port_field: Field,
    frame: bytes,
    port_at: tuple[int, int],
    host: tuple[int, int, str],
    node: int,
    replace: Replace,
    flexible: bool,
    edits: list[_Edit],
) -> None:
    host_start, host_end, old_host = host
    port_format = _PORT_FORMATS[port_field.kafka_type or ""]
    (old_port,) = port_format.unpack_from(frame, port_at[0])
    new = replace(node, old_host, old_port)
    if new != (old_host, old_port):
        edits.append(_Edit(host_start, host_end, string(new[0], flexible=flexible)))
        edits.append(_Edit(*port_at, port_format.pack(new[1])))


def skip_field(field: Field, frame: bytes, position: int, flexible: bool) -> int:
    count = 1
    if field.array:
        count, position = read_long_length(frame, position, flexible=flexible)
    size = _FIXED_SIZES.get(field.kafka_type or "")
    if size is not None:
        position += size * max(0, count)
    else:
        read = read_length if field.kafka_type == "string" else read_long_length
        for _ in range(count):
            length, position = read(frame, position, flexible=flexible)
            position += max(0, length)
    if position > len(frame):
        raise IndexError
    return position


def _apply(frame: bytes, edits: list[_Edit]) -> list[bytes | memoryview]:
    parts = _splice(frame, 4, len(frame), edits)
    return [sum(map(len, parts)).to_bytes(4, "big"), *parts]


def _splice(frame: bytes, start: int, end: int, edits: list[_Edit]) -> list[bytes | memoryview]:
    view = memoryview(frame)
    parts: list[bytes | memoryview] = []
    for edit in edits:
        parts += (view[start : edit.start], edit.replacement)
        start = edit.end
    parts.append(view[start:end])
    return parts


@cache
def structure_of(entity: type[Entity]) -> Structure:
    """Read a structure out of a `kio` schema."""
    plain: list[Field] = []
    tagged: dict[int, Field] = {}
    for field in dataclasses.fields(entity):
        one = _field(field)
        if one.tag is None:
            plain.append(one)
        else:
            tagged[one.tag] = one
    names = {field.name for field in plain}
    is_address = {"host", "port"} <= names
    holding = [index for index, field in enumerate(plain) if _holds(field)]
    tags_hold = any(_holds(field) for field in tagged.values())
    return Structure(
        flexible=entity.__flexible__,
        fields=tuple(plain),
        tagged=tagged,
        is_address=is_address,
        addresses_within=is_address or bool(holding) or tags_hold,
        last=len(plain) if is_address or tags_hold or not holding else holding[-1] + 1,
    )


def _holds(field: Field) -> bool:
    return field.structure is not None and field.structure.addresses_within


def _field(field: dataclasses.Field[Any]) -> Field:
    kind = field.type
    array = typing.get_origin(kind) is tuple
    if array:
        kind = typing.get_args(kind)[0]
    elif isinstance(kind, types.UnionType):
        inner = [one for one in typing.get_args(kind) if one is not types.NoneType]
        array = typing.get_origin(inner[0]) is tuple
        kind = typing.get_args(inner[0])[0] if array else inner[0]
    kafka_type = field.metadata.get("kafka_type")
    structure = None if kafka_type else structure_of(cast("type[Entity]", kind))
    return Field(field.name, kafka_type, structure, array, field.metadata.get("tag"))
