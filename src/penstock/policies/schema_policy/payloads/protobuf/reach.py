"""What a message type can hold at any depth, which decides how its payloads can be judged fast."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from google.protobuf.descriptor import Descriptor, FieldDescriptor

SHALLOW: Final = 50
"""Levels of messages that upb's DiscardUnknownFields reaches for certain: it stops at 64."""


class Reach(NamedTuple):
    """What can be in a message.

    Attributes:
        required: A field that is required.
        shallow: Messages inside messages go at most `SHALLOW` levels deep.
    """

    required: bool
    shallow: bool


def reach_of(descriptor: Descriptor) -> Reach:
    """Return the types that a message type can contain."""
    inside: dict[str, dict[str, Descriptor]] = {}
    required = False
    unseen = [descriptor]
    while unseen:
        message = unseen.pop()
        if message.full_name in inside:
            continue
        inside[message.full_name] = {
            field.message_type.full_name: field.message_type
            for field in fields_of(message)
            if field.message_type is not None
        }
        unseen.extend(inside[message.full_name].values())
        required = required or any(field.is_required for field in fields_of(message))
    return Reach(required, _is_shallow(descriptor.full_name, inside))


def fields_of(message: Descriptor) -> Iterator[FieldDescriptor]:
    """Return the fields of a message type, and the extensions of it that its pool knows."""
    yield from message.fields
    if message.is_extendable:
        yield from message.file.pool.FindAllExtensions(message)


def _is_shallow(top: str, inside: dict[str, dict[str, Descriptor]]) -> bool:
    level = {top}
    for _ in range(SHALLOW):
        if not level:
            return True
        level = {name for outer in level for name in inside[outer]}
    return not level
