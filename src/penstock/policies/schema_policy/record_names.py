"""The full name of a record's type, which subjects may contain.

Source: what Confluent's `RecordNameStrategy` takes: the full name of an Avro type or of a Protobuf
message, the title of a JSON Schema.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from penstock.policies.schema_policy.payloads.avro.parse import full_name

if TYPE_CHECKING:
    from penstock.policies.schema_policy.registered import RegisteredSchema


def record_name(schema: RegisteredSchema) -> str | None:
    """Return the name of the type that an Avro or JSON schema describes.

    Returns:
        The name; None if it has none, and for Protobuf, where each payload identifies its
        message.
    """
    if schema.schema_type == "PROTOBUF":
        return None
    try:
        content = json.loads(schema.text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(content, dict):
        return None
    if schema.schema_type == "JSON":
        return _text(content.get("title"))
    return full_name(content, "") or None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
