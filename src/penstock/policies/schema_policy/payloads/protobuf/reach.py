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
        merges: Where several payloads are read into one message, no unknown field of one is lost
            by what another holds: there are no required fields, no messages in oneofs or maps.
    """

    required: bool
    shallow: bool
    merges: bool


def reach_of(descriptor: Descriptor) -> Reach:
    """Return what a message type can hold."""
    inside: dict[str, dict[str, Descriptor]] = {}
    required, merges = False, True
    unseen = [descriptor]
    while unseen:
        message = unseen.pop()
        if message.full_name in inside:
            continue
        inside[message.full_name] = {
            one.message_type.full_name: one.message_type
            for one in fields_of(message)
            if one.message_type is not None
        }
        unseen.extend(inside[message.full_name].values())
        required = required or any(one.is_required for one in fields_of(message))
        merges = merges and _merges(message)
    return Reach(required, _is_shallow(descriptor.full_name, inside), merges and not required)


def fields_of(message: Descriptor) -> Iterator[FieldDescriptor]:
    """Return the fields of a message type, and the extensions of it that its pool knows."""
    yield from message.fields
    if message.is_extendable:
        yield from message.file.pool.FindAllExtensions(message)


def _merges(message: Descriptor) -> bool:
    if message.GetOptions().message_set_wire_format:
        return False
    if message.GetOptions().map_entry:
        return message.fields_by_name["value"].message_type is None
    # A oneof of one field is what `optional` of proto3 is.
    return not any(
        len(oneof.fields) > 1 and any(one.message_type is not None for one in oneof.fields)
        for oneof in message.oneofs
    )


def _is_shallow(top: str, inside: dict[str, dict[str, Descriptor]]) -> bool:
    level = {top}
    for _ in range(SHALLOW):
        if not level:
            return True
        level = {name for one in level for name in inside[one]}
    return not level
