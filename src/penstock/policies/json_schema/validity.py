"""Whether a document is a schema of its draft, by the metaschema."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import jsonschema_rs

from penstock.policies.json_schema.documents import SchemaError

if TYPE_CHECKING:
    from penstock.policies.json_schema.documents import SchemaDocuments

_MAX_MESSAGE: Final = 300


def check_schema(files: SchemaDocuments, schema: Any, uri: str | None = None) -> None:
    """Look whether a document is a schema.

    Args:
        files: The documents that it belongs to.
        uri: Its URI if a `$ref` leads to it; None for the root schema.

    Raises:
        SchemaError: It is invalid.
    """
    if not isinstance(schema, dict):
        return
    try:
        jsonschema_rs.meta.validate(schema)
    except (ValueError, RecursionError) as error:
        if uri is not None:
            raise files.refused(uri, f"it {about(error)}") from None
        between = " " if isinstance(error, jsonschema_rs.ValidationError) else ": "
        raise SchemaError(f"{files.names}{between}{about(error)}") from None


def about(error: BaseException) -> str:
    """Return the text about an error of the library, to follow the name of a schema."""
    if not isinstance(error, jsonschema_rs.ValidationError):
        return _cut(str(error))
    place = "".join(f"/{step}" for step in error.instance_path)
    return f"is not a valid schema at {place or 'its root'}: {_cut(error.message)}"


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_MESSAGE else f"{text[:_MAX_MESSAGE]}..."
