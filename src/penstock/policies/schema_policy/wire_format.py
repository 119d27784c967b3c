"""Reads the schema id of a record, and finds the start of its payload.

An id is before the payload, or in a header of the record; a GUID, too:

| bytes                          | what they are                                            |
|--------------------------------|----------------------------------------------------------|
| `00`, 4 bytes big endian       | the id of a schema, a positive number                    |
| `01`, 16 bytes                 | the GUID of a schema                                     |

In a header (`__value_schema_id`, `__key_schema_id`) the same bytes are alone, except for
Protobuf: its message indexes follow the id wherever that is, and then the payload is the message
alone.

Source: Confluent's "Wire format", and the `SchemaId` of its Java and Python serializers.
"""

from __future__ import annotations

from enum import Enum
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple, cast
from uuid import UUID

from penstock.policies.schema_policy.message_indexes import MessageIndexError, read_indexes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.policy import Header

VALUE_HEADER: Final = "__value_schema_id"
KEY_HEADER: Final = "__key_schema_id"
_OF_AN_ID: Final = 5
_OF_A_GUID: Final = 17
_PREFIXES_KEPT: Final = 1000


class FramingError(ValueError):
    """A required id is missing. The text completes "the value ..." or "the key ..."."""


class SchemaIdLocation(Enum):
    """Where an id has to be: the values of `schema.id.location`."""

    ANY = "any"
    PREFIX = "prefix"
    HEADER = "header"


class SchemaIdHeader(Enum):
    """Which of several headers has the id: the values of `schema.id.header.position`."""

    LAST = "last"
    """As for Confluent's Java clients. Kafka Streams forwards headers, and adds its own."""
    FIRST = "first"
    """As for Confluent's Python client."""


class FramedId(NamedTuple):
    """The id of a record's schema, and its position.

    Attributes:
        schema: The schema's id, or its GUID in lower case with hyphens.
        start: The start of the payload in the key or value; 0 if the id is in a header.
        message_indexes: The bytes after the id in a header: the message indexes of Protobuf, which
            otherwise begin the payload. See `check_header`.
    """

    schema: int | str
    start: int
    message_indexes: bytes = b""

    def payload(self, data: bytes) -> bytes:
        """Return the bytes after the id; for Protobuf with its message indexes first."""
        return self.message_indexes + data[self.start :]


class Group(NamedTuple):
    """Records of a batch that say the same about their schema.

    Attributes:
        framed_id: What they say.
        positions: Where they are in the batch, ascending.
    """

    framed_id: FramedId
    positions: Sequence[int]


def find_id(
    data: bytes,
    headers: Sequence[Header],
    *,
    is_key: bool,
    location: SchemaIdLocation,
    header: SchemaIdHeader = SchemaIdHeader.LAST,
) -> FramedId:
    """Find the schema of one key or value.

    With `SchemaIdLocation.ANY` a header wins over a prefix. If the header that counts has no value,
    the id is not in a header.

    Args:
        data: The key or value.
        headers: The record's headers.
        is_key: Whether it is the key.
        location: Where the id has to be.
        header: Which of several headers counts.

    Raises:
        FramingError: It is missing, or is not an id of a registry.
    """
    if location is not SchemaIdLocation.PREFIX:
        name = header_name(is_key=is_key)
        values = [value for key, value in headers if key == name]
        value = values[0 if header is SchemaIdHeader.FIRST else -1] if values else None
        if value is not None:
            return _in_header(value, name)
        if location is SchemaIdLocation.HEADER:
            raise FramingError(f"has no schema id: there is no header {name}")
    return _read(data)


def groups_of(
    column: Sequence[bytes | None],
    headers: Sequence[Sequence[Header]],
    *,
    is_key: bool,
    location: SchemaIdLocation,
    header: SchemaIdHeader = SchemaIdHeader.LAST,
) -> tuple[list[Group], list[tuple[int, str]]]:
    """Find the schemas of all keys or values of a batch.

    Where all begin with the same id, as in most batches, this makes no object for a record.

    Args:
        column: The keys or values; None is in no group.
        headers: The headers of each record, in the same order.
        is_key: Whether these are keys.
        location: Where ids have to be.
        header: Which of several headers of a record counts.

    Returns:
        The groups in the order of their first records; and the positions that are in none, with
        the text of the `FramingError` for each.
    """
    if location is SchemaIdLocation.ANY and not (any(headers) and _have_id(headers, is_key=is_key)):
        location = SchemaIdLocation.PREFIX
    in_prefixes = location is SchemaIdLocation.PREFIX
    if in_prefixes:
        shared = _shared_id(column)
        if shared is not None:
            return [Group(shared, range(len(column)))], []
    positions: dict[FramedId, list[int]] = {}
    by_prefix: dict[bytes, list[int]] = {}
    objections: list[tuple[int, str]] = []
    for position, data in enumerate(column):
        if data is None:
            continue
        same = by_prefix.get(data[:_OF_AN_ID]) if in_prefixes else None
        if same is not None:
            same.append(position)
            continue
        try:
            framed = find_id(
                data,
                () if in_prefixes else headers[position],
                is_key=is_key,
                location=location,
                header=header,
            )
        except FramingError as error:
            objections.append((position, str(error)))
            continue
        group = positions.setdefault(framed, [])
        group.append(position)
        if framed.start == _OF_AN_ID:
            by_prefix[data[:_OF_AN_ID]] = group
    return [Group(*group) for group in positions.items()], objections


def header_name(*, is_key: bool) -> str:
    """Return the name of the header that may have an id."""
    return KEY_HEADER if is_key else VALUE_HEADER


def start_of(schema: int) -> bytes:
    """Return the first bytes of a key or value with an id before the payload."""
    return b"\0" + schema.to_bytes(4)


def shared_start(column: Sequence[bytes | None]) -> bytes | None:
    """Return what all keys or values of a batch begin with, as many bytes as an id has.

    Returns:
        None if they differ, any is null, or there are none. Fewer bytes if the data has no more.
    """
    values = cast("Sequence[bytes]", column)
    try:
        # Of bytes that are ordered, all begin as the first and the last of them do.
        first, last = min(values)[:_OF_AN_ID], max(values)[:_OF_AN_ID]
    except (TypeError, ValueError):  # a null; or nothing
        return None
    return first if first == last else None


def check_header(framed: FramedId, schema_type: str) -> None:
    """Check the bytes after an id in a header, once the type of its schema is known.

    Args:
        framed: What `find_id` found; where the id is a prefix, there is nothing to check.
        schema_type: `AVRO`, `PROTOBUF` or `JSON`.

    Raises:
        FramingError: Nothing may follow and something does; or it has to be Protobuf's message
            indexes, and is not exactly those.
    """
    if framed.start:
        return
    if schema_type == "PROTOBUF":
        if not _are_indexes(framed.message_indexes):
            raise FramingError(
                "has a header with its schema id that does not end with Protobuf's message indexes"
            )
    elif framed.message_indexes:
        raise FramingError(
            f"has {len(framed.message_indexes)} bytes too many in the header with its schema id"
        )


def _have_id(headers: Sequence[Sequence[Header]], *, is_key: bool) -> bool:
    name = header_name(is_key=is_key)
    return any(header.key == name for some in headers for header in some)


def _in_header(value: bytes, name: str) -> FramedId:
    try:
        framed = _read(value)
    except FramingError as error:
        raise FramingError(f"has a header {name} that {error}") from None
    return FramedId(framed.schema, 0, value[framed.start :])


def _read(data: bytes) -> FramedId:
    """Read an id at the start of bytes; `start` is where it ends."""
    if not data:
        raise FramingError("is empty, without a schema id")
    if data[0] not in {0, 1}:
        # The byte is the record's, and stays out of the text.
        raise FramingError("does not begin with a schema id (its first byte is neither 0 nor 1)")
    needed = _OF_A_GUID if data[0] else _OF_AN_ID
    if len(data) < needed:
        kind = "GUID of a schema" if data[0] else "schema id"
        raise FramingError(f"is {_bytes(len(data))} long, too short for a {kind} ({needed} bytes)")
    if data[0]:
        return FramedId(str(UUID(bytes=data[1:_OF_A_GUID])), _OF_A_GUID)
    schema = int.from_bytes(data[1:_OF_AN_ID], signed=True)
    if schema <= 0:
        raise FramingError(f"begins with the schema id {schema}; ids are positive")
    return FramedId(schema, _OF_AN_ID)


_remembered: Final = lru_cache(_PREFIXES_KEPT)(_read)


def _bytes(count: int) -> str:
    return "1 byte" if count == 1 else f"{count} bytes"


def _shared_id(column: Sequence[bytes | None]) -> FramedId | None:
    """Return the id that all begin with; None where there is no such, or only perhaps."""
    start = shared_start(column)
    if start is None or start[:1] != b"\0":
        return None
    try:
        return _remembered(start)
    except FramingError:
        return None


def _are_indexes(data: bytes) -> bool:
    try:
        return read_indexes(data)[1] == len(data)
    except MessageIndexError:
        return False
