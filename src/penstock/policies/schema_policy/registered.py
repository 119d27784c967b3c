"""What a schema registry says about one schema."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


class SchemaReference(NamedTuple):
    """A schema that another one uses.

    Attributes:
        name: How the other one calls it.
        subject: Where it is registered.
        version: Its version there.
    """

    name: str
    subject: str
    version: int


class RegisteredSchema(NamedTuple):
    """A schema as a registry gives it; immutable.

    Attributes:
        schema_type: `AVRO`, `PROTOBUF` or `JSON`. A registry leaves `AVRO` out.
        text: The schema itself.
        references: What it refers to.
        schema_id: Its number, if the registry gave one.
        guid: Its GUID, if the registry gave one.
        metadata: `tags` (lists of tags by path) and `properties`.
        rule_set: `domainRules` and `migrationRules`.
    """

    schema_type: str
    text: str
    references: tuple[SchemaReference, ...] = ()
    schema_id: int | None = None
    guid: str | None = None
    metadata: Mapping[str, Any] = _NOTHING
    rule_set: Mapping[str, Any] = _NOTHING
