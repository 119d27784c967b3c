"""A schema, as a registry describes it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping


class SchemaReference(NamedTuple):
    """A schema that another schema refers to.

    Attributes:
        name: What the schema calls it.
        subject: Where the registry has it.
        version: Which one of the subject.
    """

    name: str
    subject: str
    version: int


class RegisteredSchema(NamedTuple):
    """A schema, as a registry describes it; immutable.

    Attributes:
        schema_type: `AVRO`, `PROTOBUF` or `JSON`; a registry leaves `AVRO` out.
        references: The schemas that it refers to itself.
        schema_id: Its id, where that is known.
        guid: Its GUID, if the registry has GUIDs.
        metadata: As from the registry: `tags` (`{path: [tag]}`) and `properties`.
        rule_set: `domainRules` and `migrationRules`, as from the registry.
        context: The registry's context that it was found in; empty for that of the URL.
    """

    schema_type: str
    text: str
    references: tuple[SchemaReference, ...] = ()
    schema_id: int | None = None
    guid: str | None = None
    metadata: Mapping[str, Any] = {}
    rule_set: Mapping[str, Any] = {}
    context: str = ""
