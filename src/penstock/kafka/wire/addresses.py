"""Replaces every broker address in a response, without changing any other bytes.

Kafka's schemas (from `kio`) define which fields are addresses: a structure with a `host` and a
`port`, and its node id is the `node_id` or `broker_id` next to it, or in the structure around it. A
response is parsed only up to its last address.

A client can make a broker send millions of addresses. So a response is walked in slices, and memory
is proportional to its bytes (`SplicedFrame`): nothing is kept for each address.
"""

from __future__ import annotations

from functools import cache
from struct import Struct, error
from typing import TYPE_CHECKING, Final

from penstock.kafka.wire.errors import WireError
from penstock.kafka.wire.frames import body_of_response
from penstock.kafka.wire.primitives import (
    TAGGED_FIELDS_MAX,
    read_length,
    read_long_length,
    read_varint,
    skip_tags,
    string,
    varint,
)
from penstock.kafka.wire.schemas import API_NAMES, load_response_schema
from penstock.kafka.wire.spliced import SplicedFrame, framed
from penstock.kafka.wire.structures import (
    FIXED_SIZES,
    Structure,
    WireField,
    holds_address,
    skip_field,
    structure_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    Walked = Generator[None, None, int]
    """A walk through a part of a response; returns the position after it."""
    Replace = Callable[[int, str, int], tuple[str, int]]
    """Returns the host and port for clients, by node id, host and port of the broker."""

_PORT_FORMATS: Final = {"int32": Struct(">i"), "uint16": Struct(">H")}
_NODE_NAMES: Final = ("node_id", "broker_id")
SLICE_STEPS: Final = 1000
"""How many structures are walked before others have their turn: a millisecond or two."""
_NODE_BYTES: Final = 4
_UNSEEN: Final = (b"", b"")
_REPLACED_MAX: Final = 10_000
"""More different addresses are in no true response."""


@cache
def holds_addresses(api_key: int, version: int) -> bool:
    """Return whether a response can hold a broker's address."""
    return structure_of(load_response_schema(api_key, version)).addresses_within


@cache
def _schema(api_key: int, version: int) -> tuple[Structure, bool]:
    """Return the structure of a response, and whether its header may have tagged fields."""
    schema = load_response_schema(api_key, version)
    return structure_of(schema), schema.__header_schema__.__flexible__


def replace_in_slices(
    frame: bytes, api_key: int, version: int, replace: Replace
) -> Generator[None, None, list[bytes | memoryview]]:
    """Replace every address in a response, in slices.

    Args:
        frame: The response, length included.
        api_key: The API it answers.
        version: The version it answers in.
        replace: Called for each different address with its node's id; -1 means no node.

    Yields:
        After each slice.

    Returns:
        Buffers that together are the new frame; the original alone if nothing changed.

    Raises:
        WireError: The response does not follow its schema.
    """
    structure, flexible = _schema(api_key, version)
    walk = _ResponseWalk(frame, replace)
    try:
        yield from walk.response(structure, body_of_response(frame, flexible=flexible))
    except (IndexError, error, UnicodeDecodeError):
        raise WireError(
            f"a response to {API_NAMES[api_key]} version {version} that cannot be read"
        ) from None
    if not walk.output.is_changed:
        return [frame]
    return framed(walk.output.finish(len(frame)))


class _ResponseWalk:
    """A walk through one response, which yields after each slice.

    A step is a structure. Arrays of flat structures, which may be long, are walked without a
    generator for each.
    """

    def __init__(self, frame: bytes, replace: Replace) -> None:
        self._frame = frame
        self._end = len(frame)
        self._replace = replace
        self._replacements: dict[tuple[int, bytes, int], tuple[str, int] | None] = {}
        self._steps_left = SLICE_STEPS
        self.output = SplicedFrame(frame, 4)

    def response(self, structure: Structure, position: int) -> Walked:
        """Walk a response up to its last address."""
        if structure.is_flat:
            return self._flat(structure, position, -1)
        is_cut = structure.last < len(structure.fields)
        return (yield from self._structure(structure, position, -1, is_cut=is_cut))

    def _structure(
        self, structure: Structure, position: int, node: int, *, is_cut: bool = False
    ) -> Walked:
        """Walk a structure; return the position after it, or after its last address."""
        fields = structure.fields[: structure.last] if is_cut else structure.fields
        flexible = structure.flexible
        for field in fields:
            if field.structure is None:
                start = position
                position = skip_field(field, self._frame, position, flexible)
                if field.name in _NODE_NAMES:
                    node = int.from_bytes(self._frame[start:position], "big", signed=True)
            else:
                position = yield from self._field(field, position, node, flexible=flexible)
        if not flexible or is_cut:
            return position
        return (yield from self._tagged(structure, position, node))

    def _field(self, field: WireField, position: int, node: int, *, flexible: bool) -> Walked:
        structure = field.structure
        assert structure is not None
        count = 1
        if field.array:
            count, position = read_long_length(self._frame, position, flexible=flexible)
        if structure.is_address and [step[0] for step in _plan(structure)[:2]] == [_STRING, _NODE]:
            return (yield from self._named(structure, count, position))
        for _ in range(count):
            if structure.is_flat:
                position = self._flat(structure, position, node)
            else:
                position = yield from self._structure(structure, position, node)
            if position > self._end:
                raise IndexError
            self._steps_left -= 1
            if self._steps_left <= 0:
                self._steps_left = SLICE_STEPS
                yield
        return position

    def _named(self, structure: Structure, count: int, position: int) -> Walked:
        """Walk an array of names with addresses (coordinators); return the position after it.

        It can be long, and there are only a few brokers: the bytes behind a name have mostly
        been seen, and is not read again.
        """
        frame, end, around = self._frame, self._end, self.output
        rewrites: dict[bytes, tuple[bytes, bytes]] = {}
        for first in range(0, count, SLICE_STEPS):
            start, result = position, bytearray()
            for _ in range(min(SLICE_STEPS, count - first)):
                behind = position + (frame[position] or 1)
                old, new = rewrites.get(frame[behind : behind + _NODE_BYTES], _UNSEEN)
                if old and frame[position] < 0x80 and frame.startswith(old, behind):
                    result += frame[position:behind]
                    result += new
                    position = behind + len(old)
                    continue
                self.output = SplicedFrame(frame, position)
                behind, position = position, self._flat(structure, position, -1)
                if position > end:
                    raise IndexError
                rewritten = b"".join(self.output.finish(position))
                result += rewritten
                if frame[behind] < 0x80 and len(rewrites) < _REPLACED_MAX:
                    name = frame[behind] or 1
                    old, new = frame[behind + name : position], rewritten[name:]
                    rewrites[old[:_NODE_BYTES]] = old, new
            around.replace(start, position, bytes(result))
            yield
        self.output = around
        return position

    def _tagged(self, structure: Structure, position: int, node: int) -> Walked:
        """Walk the tagged fields of a structure; return the position after them."""
        count, position = read_varint(self._frame, position)
        if count > TAGGED_FIELDS_MAX:
            raise WireError(f"a structure with more than {TAGGED_FIELDS_MAX} tagged fields")
        for _ in range(count):
            self._steps_left -= 1
            tag, position = read_varint(self._frame, position)
            size_start = position
            size, position = read_varint(self._frame, position)
            field = structure.tagged_fields.get(tag)
            if field is not None and holds_address(field):
                yield from self._tag(field, size_start, position, position + size, node)
            position += size
        if position > self._end:
            raise IndexError
        return position

    def _tag(self, field: WireField, size_start: int, start: int, end: int, node: int) -> Walked:
        """Walk a tagged field with addresses: its size changes with them."""
        around, self.output = self.output, SplicedFrame(self._frame, start)
        position = yield from self._field(field, start, node, flexible=True)
        inner, self.output = self.output, around
        if inner.is_changed:
            content = b"".join(inner.finish(end))
            around.replace(size_start, end, varint(len(content)) + content)
        return position

    def _flat(self, structure: Structure, position: int, node: int) -> int:
        """Walk a structure without structures in it; return the position after it."""
        frame, flexible = self._frame, structure.flexible
        host_start = host_end = 0
        for step, size, field in _plan(structure):
            if step == _FIXED:
                position += size
            elif step == _STRING and frame[position] < 0x80:
                position += frame[position] or 1
            elif step == _NODE:
                node = int.from_bytes(frame[position : position + size], "big", signed=True)
                position += size
            elif step == _PORT:
                host = host_start, host_end
                self._address(field, host, position, node, flexible=flexible)
                position += size
            else:
                start = position
                position = skip_field(field, frame, position, flexible)
                if step == _HOST:
                    host_start, host_end = start, position
        if not flexible:
            return position
        if not frame[position]:
            return position + 1
        self._steps_left -= read_varint(frame, position)[0]
        return skip_tags(frame, position)

    def _address(
        self, field: WireField, host: tuple[int, int], port_at: int, node: int, *, flexible: bool
    ) -> None:
        """Replace an address whose host and port have been found."""
        start, end = host
        port_format = _PORT_FORMATS[field.kafka_type or ""]
        (port,) = port_format.unpack_from(self._frame, port_at)
        address = node, self._frame[start:end], port
        if address in self._replacements:
            new = self._replacements[address]
        else:
            size = read_length(self._frame, start, flexible=flexible)[1]
            text = self._frame[size:end].decode()
            replacement = self._replace(node, text, port)
            new = replacement if replacement != (text, port) else None
            if len(self._replacements) < _REPLACED_MAX:
                self._replacements[address] = new
        if new is not None:
            self.output.replace(start, end, string(new[0], flexible=flexible))
            self.output.replace(port_at, port_at + port_format.size, port_format.pack(new[1]))


_FIXED, _STRING, _NODE, _PORT, _HOST, _OTHER = range(6)
"""How a field of a flat structure is passed; a `_STRING` is a string in the compact form."""
_plans: dict[int, tuple[tuple[int, int, WireField], ...]] = {}


def _plan(structure: Structure) -> tuple[tuple[int, int, WireField], ...]:
    """Return how the fields of a flat structure are passed."""
    plan = _plans.get(id(structure))  # structures are made once for each schema, and kept
    if plan is None:
        plan = _plans[id(structure)] = tuple(_step(structure, field) for field in structure.fields)
    return plan


def _step(structure: Structure, field: WireField) -> tuple[int, int, WireField]:
    size = 0 if field.array else FIXED_SIZES.get(field.kafka_type or "", 0)
    if size and field.name in _NODE_NAMES:
        return _NODE, size, field
    if structure.is_address and field.name == "port":
        return _PORT, size, field
    if size:
        return _FIXED, size, field
    if structure.is_address and field.name == "host":
        return _HOST, 0, field
    if field.kafka_type == "string" and structure.flexible and not field.array:
        return _STRING, 0, field
    return _OTHER, 0, field
