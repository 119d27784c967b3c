"""Payloads judged by a .proto file.

- `Any` is judged as a message: a type's URL and bytes, whose content is not judged.
- Numbers that an enum of proto3 does not have are valid values; an enum of proto2 is closed,
  and a number that it does not have is an unknown field.
- Of a field that may have one value and comes twice, the last counts, and messages are merged, as
  in every implementation of Protobuf.
- Strings of proto2 need not be UTF-8; to read such a string from what `decode` returns raises a
  UnicodeDecodeError, whose text shows a byte.
- Unknown fields are searched in the bytes: also in values that a later field replaces.
- Memory: upb's memory for one payload, or for `_CHUNK_BYTES` of payloads, at a time, merged into
  one message: packed numbers take at most eight times their bytes, messages next to nothing. Types
  with required fields, and `decode`, take a message as it is: an empty one in a repeated field is
  two bytes on the wire, and in memory the size of its type. Where there is not enough, upb refuses
  the payload.
"""

from __future__ import annotations

from itertools import islice, repeat
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from google.protobuf.message import DecodeError, EncodeError, Message

from penstock.policies.explanations import Explanations
from penstock.policies.schema_policy.message_indexes import (
    MessageIndexError,
    read_indexes,
)
from penstock.policies.schema_policy.payloads.protobuf.check import MessageCheck

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from google.protobuf.descriptor import Descriptor
    from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto
    from google.protobuf.descriptor_pool import DescriptorPool

_FIRST: Final = b"\x00"
_CHUNK: Final = 256
_CHUNK_BYTES: Final = 2**20
_MAX_CHECKS: Final = 1000
_MAX_TRIED: Final = 20
"""How many messages of a file are tried for a payload without message indexes."""
_BYTES_PER_MS: Final = 10_000
"""How many bytes of a payload are read as so many messages in a millisecond, at least."""


class ProtobufSchema:
    """Judges, reads and writes payloads of a .proto file."""

    def __init__(
        self,
        pool: DescriptorPool,
        merging_pool: DescriptorPool,
        file: FileDescriptorProto,
        message: Descriptor | None,
        *,
        allow_unknown_fields: bool,
    ) -> None:
        """Remember where types are.

        Args:
            pool: All types.
            merging_pool: The same files as `merging.py` makes them.
            file: The file that message indexes are about.
            message: The type of all messages, where payloads have no message indexes.
            allow_unknown_fields: Whether unknown fields are allowed.
        """
        self._pool, self._merging_pool = pool, merging_pool
        self._file = file
        self._allows_unknown = allow_unknown_fields
        self._checks: dict[str, MessageCheck] = {}
        self._by_prefix: dict[bytes, tuple[MessageCheck, ...]] = {}
        self._prefixes: dict[str, bytes] = {}
        self._only: tuple[MessageCheck, ...] | None = None
        if message is not None:
            self._only = (self._check(message),)
        elif file.message_type:
            self._split(_FIRST)  # made while compiling, not while the first payload is judged

    def objections(
        self, payloads: Sequence[bytes | memoryview], start: int = 0
    ) -> list[tuple[int, str]]:
        """Return the positions of payloads that do not fit, ascending, each with the reason."""
        refused = self._objections(payloads, start)
        return refused if self._only is not None else self._read_as(refused, payloads, start)

    def _objections(
        self, payloads: Sequence[bytes | memoryview], start: int
    ) -> list[tuple[int, str]]:
        alike = self._alike(payloads, start)
        if alike is not None:
            return _judged(*alike, payloads)
        if start:
            payloads = [payload[start:] for payload in payloads]
        return self._each(payloads)

    def _alike(
        self, payloads: Sequence[bytes | memoryview], start: int
    ) -> tuple[tuple[MessageCheck, ...], int] | None:
        """Return how to judge all, and where each message starts; None where they differ.

        Payloads of a topic have the same message indexes, mostly, and no such prefix is the
        beginning of another.
        """
        if self._only is not None:
            return self._only, start
        first = payloads[0] if payloads else b""
        try:
            checks, message = self._split(bytes(first[start:]))
        except MessageIndexError:
            return None
        end = len(first) - len(message)
        try:
            are_alike = all(map(bytes.startswith, payloads, repeat(first[:end])))  # type: ignore[arg-type]
        except TypeError:  # a memoryview
            return None
        return (checks, end) if are_alike else None

    def _each(self, payloads: Sequence[bytes | memoryview]) -> list[tuple[int, str]]:
        refused: list[tuple[int, str]] = []
        chunks: dict[tuple[MessageCheck, ...], _Chunk] = {}
        explanations = Explanations()
        # Payloads of a topic begin alike, mostly; no prefix is the beginning of another.
        last, size = b"", 0
        last_checks: tuple[MessageCheck, ...] | None = None
        for position, payload in enumerate(payloads):
            message = payload
            if self._only is not None:
                checks = self._only
            elif last_checks is not None and payload[:size] == last:
                checks, message = last_checks, payload[size:]
            else:
                try:
                    checks, message = self._split(bytes(payload))
                except MessageIndexError as error:
                    refused.append((position, f"Protobuf: {error}"))
                    continue
                size = len(payload) - len(message)
                last, last_checks = bytes(payload[:size]), checks
            chunk = chunks.get(checks)
            if chunk is None:
                chunk = chunks[checks] = _Chunk(checks, explanations)
            chunk.add(position, message, refused)
        for chunk in chunks.values():
            chunk.judge(refused)
        refused.sort()
        return refused

    def _read_as(
        self,
        refused: list[tuple[int, str]],
        payloads: Sequence[bytes | memoryview],
        start: int,
    ) -> list[tuple[int, str]]:
        """Return reasons that also name the message that the indexes of a payload mean."""
        explanations = Explanations()
        return [
            (position, text + self._reading(bytes(payloads[position][start:]), text))
            if explanations.take(len(payloads[position]) / _BYTES_PER_MS)
            else (position, text)
            for position, text in refused
        ]

    def _reading(self, payload: bytes, text: str) -> str:
        """Return which message was read, and which it is if the indexes are not as they must be.

        Some clients write them in reverse, or none: see docs/built-in.md. None of these begins a
        message, whose first byte is at least 8; so if a message begins here, there are none.
        """
        try:
            indexes, end = read_indexes(payload)
        except MessageIndexError:
            indexes, end = (), 0
        all_messages = list(islice(_all_levels(self.messages), _MAX_TRIED))
        names = [descriptor.full_name for descriptor in self._found(indexes)]
        is_clear = not names or names[0] in text or len(all_messages) == 1
        was_read = "" if is_clear else f"; it was read as {' or '.join(names)}"
        for descriptor in self._found(indexes[::-1]):
            name = descriptor.full_name
            if name not in names and self._check(descriptor).refusal(payload[end:]) is None:
                return f"{was_read}; it fits {name}, whose message indexes are the reverse"
        for descriptor in all_messages if payload else ():
            if self._check(descriptor).refusal(payload) is None:
                return f"{was_read}; without message indexes, it fits {descriptor.full_name}"
        return was_read

    def decode(self, payload: bytes) -> Message:
        """Return the message of a payload that fits.

        Raises:
            ValueError: The payload does not fit.
        """
        checks, message = self._split(payload) if self._only is None else (self._only, payload)
        check = checks[0]
        if len(checks) > 1:
            check = next((choice for choice in checks if choice.refusal(message) is None), check)
        try:
            decoded: Message = check.new.FromString(message)
        except DecodeError:
            raise ValueError("the payload is not a message of the schema") from None
        if self._only is None:
            self._prefixes[check.descriptor.full_name] = payload[: len(payload) - len(message)]
        return decoded

    def encode(self, value: object) -> bytes:
        """Return the payload of a message that `decode` returned, with its message indexes.

        Raises:
            ValueError: It is not a message that `decode` returned, or lacks a required field.
        """
        name = value.DESCRIPTOR.full_name if isinstance(value, Message) else None
        prefix = b"" if self._only is not None else self._prefixes.get(name or "")
        if not isinstance(value, Message) or prefix is None:
            raise ValueError("the value is not a message of the schema")
        try:
            return prefix + bytes(value.SerializeToString())
        except EncodeError:
            raise ValueError("the value lacks a field that the schema requires") from None

    @property
    def messages(self) -> list[Descriptor]:
        """The types that payloads may have: the given type, or those of the file."""
        if self._only is not None:
            return [self._only[0].descriptor]
        return list(self._pool.FindFileByName(self._file.name).message_types_by_name.values())

    def message_name(self, payload: bytes) -> str | None:
        """Return the full name of the message that a payload's indexes mean; None for none."""
        if self._only is not None:
            return str(self._only[0].descriptor.full_name)
        try:
            checks, _ = self._split(payload)
        except MessageIndexError:
            return None
        return str(checks[0].descriptor.full_name)

    def _split(self, payload: bytes) -> tuple[tuple[MessageCheck, ...], bytes]:
        indexes, start = read_indexes(payload)
        prefix = payload[:start]
        checks = self._by_prefix.get(prefix)
        if checks is None:
            checks = tuple(self._check(descriptor) for descriptor in self._types(indexes))
            if len(self._by_prefix) >= _MAX_CHECKS:  # a number can be written in several ways
                self._by_prefix.clear()
            self._by_prefix[prefix] = checks
        return checks, payload[start:]

    def _types(self, indexes: tuple[int, ...]) -> list[Descriptor]:
        """Return the types that message indexes mean: at least one of them."""
        message_types = self._found(indexes)
        if not message_types:
            raise MessageIndexError("has message indexes of no message in the schema")
        return message_types

    def _found(self, indexes: tuple[int, ...]) -> list[Descriptor]:
        """Return the types that message indexes mean; none if no message is there.

        What a map consists of is a nested type to protoc, and so to Confluent's clients that take
        positions from descriptors (Python, Go, .NET); in the text, where Java's client counts, it
        is not there. Where both are types, a payload may be of either.
        """
        names: list[str] = []
        for maps in (False, True) if indexes else ():
            name = self._name(indexes, maps=maps)
            if name is not None and name not in names:
                names.append(name)
        return [self._pool.FindMessageTypeByName(name) for name in names]

    def _name(self, indexes: tuple[int, ...], *, maps: bool) -> str | None:
        messages: Sequence[DescriptorProto] = self._file.message_type
        name = self._file.package
        for index in indexes:
            if not maps:
                messages = [message for message in messages if not message.options.map_entry]
            if index >= len(messages):
                return None
            message = messages[index]
            name = f"{name}.{message.name}" if name else message.name
            messages = message.nested_type
        return None if message.options.map_entry else name

    def _check(self, message: Descriptor) -> MessageCheck:
        check = self._checks.get(message.full_name)
        if check is None:
            check = MessageCheck(
                message, self._pool, self._merging_pool, allow_unknown_fields=self._allows_unknown
            )
            self._checks[message.full_name] = check
        return check


class _Chunk:
    """Messages of the same type that are judged together."""

    def __init__(self, checks: tuple[MessageCheck, ...], explanations: Explanations) -> None:
        self._checks = checks
        self._positions: list[int] = []
        self._messages: list[bytes | memoryview] = []
        self._size = 0
        self._explanations = explanations

    def add(
        self, position: int, message: bytes | memoryview, refused: list[tuple[int, str]]
    ) -> None:
        """Gather a message; judge all of them where they are enough."""
        self._positions.append(position)
        self._messages.append(message)
        self._size += len(message)
        if len(self._messages) >= _CHUNK or self._size >= _CHUNK_BYTES:
            self.judge(refused)

    def judge(self, refused: list[tuple[int, str]]) -> None:
        """Judge the gathered payloads."""
        if self._messages and not self._checks[0].all_fit(self._messages):
            for position, message in zip(self._positions, self._messages, strict=True):
                objection = _objection(self._checks, bytes(message), self._explanations)
                if objection is not None:
                    refused.append((position, f"Protobuf: {objection}"))
        self._positions.clear()
        self._messages.clear()
        self._size = 0


def _all_levels(messages: Iterable[Descriptor]) -> Iterator[Descriptor]:
    """Yield messages, then those that are declared within them, and so on."""
    level = list(messages)
    while level:
        yield from level
        nested = (message for outer in level for message in outer.nested_types)
        level = [message for message in nested if not message.GetOptions().map_entry]


def _judged(
    checks: tuple[MessageCheck, ...], start: int, payloads: Sequence[bytes | memoryview]
) -> list[tuple[int, str]]:
    """Judge messages that start at the same place; there are copies of a chunk at a time."""
    refused: list[tuple[int, str]] = []
    explanations = Explanations()
    largest = max(map(len, payloads), default=0)
    count = max(1, min(_CHUNK, _CHUNK_BYTES // max(1, largest)))
    cut: Any = itemgetter(slice(start, None))
    for first in range(0, len(payloads), count):
        messages = list(map(cut, payloads[first : first + count]))
        if not checks[0].all_fit(messages):
            for position, message in enumerate(messages, first):
                objection = _objection(checks, bytes(message), explanations)
                if objection is not None:
                    refused.append((position, f"Protobuf: {objection}"))
    return refused


def _objection(
    checks: tuple[MessageCheck, ...], message: bytes, explanations: Explanations
) -> str | None:
    objections: list[str] = []
    for check in checks:
        objection = check.objection(message, explanations)
        if objection is None:
            return None
        objections.append(objection)
    return "; or, as other clients count messages, ".join(objections)
