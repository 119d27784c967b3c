"""Payloads judged by the schema that wrote them: Avro, JSON and Protobuf."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final, cast

from penstock.policies.schema_policy.errors import InvalidSchemaError

if TYPE_CHECKING:
    from penstock.policies.schema_policy.payloads.compiled import CompiledSchema, SchemaSource

MAX_BYTES: Final = 8 * 1024 * 1024
"""The size of the largest schema that is compiled, with all that it refers to."""
_COMPILERS: Final = {
    "AVRO": ("avro.compile", "compile_avro"),
    "JSON": ("json", "compile_json"),
    "PROTOBUF": ("protobuf.compile", "compile_protobuf"),
}


def compile_schema(
    source: SchemaSource, *, unknown_fields: bool = False, formats: bool = False
) -> CompiledSchema:
    """Compile a schema, with the packages of its type alone.

    Args:
        unknown_fields: Whether Protobuf messages may have fields that the schema does not have.
        formats: Whether `format` of JSON Schemas is judged.

    Raises:
        InvalidSchemaError: It cannot be used: it is wrong, too large or of an unknown type.
        ValueError: A package is missing; the text explains how to install it.
    """
    if source.schema_type not in _COMPILERS:
        raise InvalidSchemaError(
            f"the schema's type is not supported: it must be one of {', '.join(_COMPILERS)}"
        )
    texts = (source.text, *source.references, *source.references.values())
    if sum(map(len, texts)) > MAX_BYTES or sum(map(_bytes, texts)) > MAX_BYTES:
        raise InvalidSchemaError(f"the schema with its references is larger than {MAX_BYTES} bytes")
    module, function = _COMPILERS[source.schema_type]
    try:
        compiler = getattr(import_module(f"{__name__}.{module}"), function)
    except ModuleNotFoundError as error:
        raise ValueError(
            f"there is no module {error.name}: pip install 'penstock-kafka[schemas]'"
        ) from None
    if source.schema_type == "PROTOBUF":
        return cast("CompiledSchema", compiler(source, allow_unknown_fields=unknown_fields))
    if source.schema_type == "JSON":
        return cast("CompiledSchema", compiler(source, formats=formats))
    return cast("CompiledSchema", compiler(source))


def _bytes(text: str) -> int:
    return len(text.encode(errors="surrogatepass"))
