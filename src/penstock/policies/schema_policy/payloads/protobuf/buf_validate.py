"""`buf/validate/validate.proto`, which declares the options of protovalidate."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

from penstock.policies.schema_policy.payloads.protobuf.serialized import descriptor_in

if TYPE_CHECKING:
    from penstock.policies.schema_policy.payloads.compiled import SchemaSource

NAME: Final = "buf/validate/validate.proto"


def is_missing(source: SchemaSource) -> bool:
    """Return whether a schema or a reference names the file, and no reference has it."""
    if NAME in source.references:
        return False
    return any(map(_names_it, (source.text, *source.references.values())))


def _names_it(text: str) -> bool:
    descriptor = descriptor_in(text)
    return NAME in text if descriptor is None else NAME.encode() in descriptor


@cache
def serialized() -> bytes | None:
    """Return a serialized `FileDescriptorProto` of the file, as protovalidate has it.

    Returns:
        None where protovalidate is not installed.
    """
    try:
        from protovalidate import ViolationPb  # noqa: PLC0415 - an extra, and slow to load
    except ImportError:
        return None
    return bytes(ViolationPb.desc().file.proto.to_binary())
