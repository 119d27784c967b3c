"""Avro schemas, ready to judge payloads; fastavro makes values of those that fit."""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING, Any

import fastavro

from penstock.policies.schema_policy.errors import InvalidSchemaError
from penstock.policies.schema_policy.payloads.avro.generate import generate
from penstock.policies.schema_policy.payloads.avro.parse import parse
from penstock.policies.schema_policy.payloads.avro.walk import objection

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from penstock.policies.schema_policy.payloads.avro.types import AvroType
    from penstock.policies.schema_policy.payloads.compiled import SchemaSource


class AvroSchema:
    """Judges payloads by the Avro schema that wrote them.

    A payload fits if its bytes are those of the schema's types. What a logical type says beyond
    is not judged, as the specification has readers ignore a logical type that they cannot use.
    """

    def __init__(self, root: AvroType) -> None:
        self._root = root
        self._fits = generate(root) or _no_answer
        self._fastavro: Any = None

    def objections(self, payloads: Sequence[bytes | memoryview]) -> Iterator[tuple[int, str]]:
        """Yield the position of each payload that does not fit, with what is wrong and where."""
        fits = self._fits
        for position, given in enumerate(payloads):
            payload = given if type(given) is bytes else bytes(given)
            try:
                if fits(payload):
                    continue
            except Exception:  # noqa: S110 - no answer: the slow way has one
                pass
            text = objection(self._root, payload)
            if text is not None:
                yield position, text

    def decode(self, payload: bytes) -> object:
        """Return fastavro's value of a payload that fits.

        Logical types are left as what they are made of: a date is a number. Where a union has
        several named types, a value of one of them is a pair: the type's full name, and the
        value; so `encode` knows it again.

        Raises:
            InvalidSchemaError: fastavro does not take the schema.
            ValueError: The payload does not fit.
        """
        if any(self.objections((payload,))):
            raise ValueError("the payload does not fit its schema")
        return fastavro.schemaless_reader(
            BytesIO(payload),
            self._schema,
            None,
            return_named_type=True,
            return_named_type_override=True,
        )

    def encode(self, value: object) -> bytes:
        """Return the payload of a value of the kind that `decode` returns.

        Of a union's branches the first one that the value fits is written, double before float.

        Raises:
            InvalidSchemaError: fastavro does not take the schema.
            ValueError: The value does not fit the schema.
        """
        out = BytesIO()
        try:
            fastavro.schemaless_writer(out, self._schema, value, strict=True)
        except InvalidSchemaError:
            raise
        except Exception:
            # Of many kinds, with the value in their texts.
            raise ValueError("the value does not fit its schema") from None
        return out.getvalue()

    @property
    def _schema(self) -> Any:
        """The schema as fastavro wants it, without what does not count."""
        if self._fastavro is None:
            try:
                self._fastavro = fastavro.parse_schema(_described(self._root, set()))
            except Exception as error:
                raise InvalidSchemaError(
                    f"fastavro does not take the schema: {type(error).__name__}"
                ) from None
        return self._fastavro


def compile_avro(source: SchemaSource) -> AvroSchema:
    """Compile an Avro schema.

    Raises:
        InvalidSchemaError: It is not one, refers to what is not there, or is too large.
    """
    return AvroSchema(parse(source.text, dict(source.references)))


def _no_answer(_: bytes) -> bool:
    return False


def _described(schema: AvroType, defined: set[str]) -> Any:
    """Return a type as JSON, each named type where it is used first."""
    if schema.is_named:
        if schema.name in defined:
            return schema.name
        defined.add(schema.name)
    described: dict[str, Any] = {"type": schema.kind}
    if schema.kind == "union":
        return [_described(branch, defined) for branch in schema.inner]
    if schema.kind == "array":
        described["items"] = _described(schema.inner[0], defined)
    elif schema.kind == "map":
        described["values"] = _described(schema.inner[0], defined)
    elif schema.kind == "record":
        fields = zip(schema.names, schema.inner, strict=True)
        described["fields"] = [
            {"name": name, "type": _described(inner, defined)} for name, inner in fields
        ]
    elif schema.kind == "enum":
        described["symbols"] = list(schema.names)
    elif schema.kind == "fixed":
        described["size"] = schema.size
    else:
        return schema.kind
    # Without a namespace, the names inside would be looked up in the one around.
    return described | {"name": schema.name, "namespace": ""} if schema.is_named else described
