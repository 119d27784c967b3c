"""JSON judged by JSON Schema, as the policy `penstock.policies.JsonSchema` judges it.

`$ref` leads to the schema's references by their names, and nowhere else. Without `$schema`, or by
an unknown one, a schema is of draft 7, as for Confluent's serializer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import orjson

from penstock.policies.json_schema.check import compile_check
from penstock.policies.json_schema.documents import SchemaError
from penstock.policies.json_schema.texts import SchemaTexts
from penstock.policies.schema_policy.errors import InvalidSchemaError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from penstock.policies.json_schema.check import Check
    from penstock.policies.schema_policy.payloads.compiled import SchemaSource

MAX_REFERENCES: Final = 1000
"""How many schemas a schema may refer to, all in all."""
_MAX_MESSAGE: Final = 500


class JsonPayloads:
    """Judges JSON texts by a JSON Schema."""

    def __init__(self, check: Check) -> None:
        self._check = check

    def objections(
        self, payloads: Sequence[bytes | memoryview], start: int = 0
    ) -> Iterable[tuple[int, str]]:
        """Return the position of each payload that does not fit, with the reason and the place."""
        return self._check.refused(payloads, start)

    def decode(self, payload: bytes) -> object:
        """Return the value of a payload that fits.

        Raises:
            ValueError: It is not JSON.
        """
        try:
            return orjson.loads(payload)
        except orjson.JSONDecodeError:
            raise ValueError("the payload is not JSON") from None

    def encode(self, value: object) -> bytes:
        """Return a value as JSON.

        Raises:
            ValueError: It cannot be JSON.
        """
        try:
            return orjson.dumps(value)
        except TypeError:
            raise ValueError("the value cannot be written as JSON") from None


def compile_json(source: SchemaSource, *, formats: bool = False) -> JsonPayloads:
    """Compile a JSON Schema.

    Args:
        formats: Whether `format` is judged.

    Raises:
        InvalidSchemaError: It is not a JSON Schema, refers to too many or missing schemas, or
            cannot be used for another reason.
    """
    if len(source.references) > MAX_REFERENCES:
        raise InvalidSchemaError(f"the schema has more than {MAX_REFERENCES} references")
    try:
        check = compile_check(SchemaTexts(source.text, source.references), formats=formats)
    except SchemaError as error:
        text = str(error)
        raise InvalidSchemaError(
            text if len(text) <= _MAX_MESSAGE else f"{text[:_MAX_MESSAGE]}..."
        ) from None
    return JsonPayloads(check)
