"""Replaces every broker address in a response, without changing any other bytes.

Kafka's schemas (from `kio`) say which fields are addresses: a structure with a `host` and a `port`
is one, and its node id is the `node_id` or `broker_id` next to it, or in the structure around it. A
response is parsed only up to its last address.
"""

from __future__ import annotations

from functools import cache
from struct import Struct, error
from typing import TYPE_CHECKING, Final, NamedTuple

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
from penstock.wire.structures import Field, Structure, holds_address, skip_field, structure_of

if TYPE_CHECKING:
    from collections.abc import Callable

    Replace = Callable[[int, str, int], tuple[str, int]]
    """Returns the host and port for clients, by node id, host and port of the broker."""

_PORT_FORMATS: Final = {"int32": Struct(">i"), "uint16": Struct(">H")}
_NODE_NAMES: Final = ("node_id", "broker_id")


class _Edit(NamedTuple):
    start: int
    end: int
    replacement: bytes


@cache
def known_versions(api_key: int) -> range:
    """Return the versions of an API whose response schemas are known here."""
    versions = sorted(
        version
        for version, entities in schema_name_map[api_key_map[api_key]].items()
        if EntityType.response in entities
    )
    return range(versions[0], versions[-1] + 1)


@cache
def holds_addresses(api_key: int, version: int) -> bool:
    """Return whether a response can hold a broker's address."""
    return structure_of(load_response_schema(api_key, version)).addresses_within


@cache
def _schema(api_key: int, version: int) -> tuple[Structure, bool]:
    """Return what a response is made of, and whether its header may have tagged fields."""
    schema = load_response_schema(api_key, version)
    return structure_of(schema), schema.__header_schema__.__flexible__


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
    structure, flexible = _schema(api_key, version)
    edits: list[_Edit] = []
    try:
        position = 8
        if flexible:
            position = skip_tags(frame, position)
        _walk(structure, frame, position, -1, replace, edits, outermost=True)
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
    return _walk_tagged(structure, frame, position, node, replace, edits)


def _walk_tagged(
    structure: Structure,
    frame: bytes,
    position: int,
    node: int,
    replace: Replace,
    edits: list[_Edit],
) -> int:
    """Walk the tagged fields of a structure; return the position after them."""
    count, position = read_varint(frame, position)
    for _ in range(count):
        tag, position = read_varint(frame, position)
        size_start = position
        size, position = read_varint(frame, position)
        known = structure.tagged.get(tag)
        if known is not None and holds_address(known):
            inner: list[_Edit] = []
            _walk_field(known, frame, position, node, replace, inner, flexible=True)
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
