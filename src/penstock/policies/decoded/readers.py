"""Reads values by the schemas by which a policy judges them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

from cachetools import LRUCache

from penstock.policies.decoded.errors import NotDecodedError
from penstock.policies.decoded.json_texts import read_json
from penstock.policies.schema_policy.files import compile_file, read_source
from penstock.policies.schema_policy.registry.errors import UnknownSchemaError
from penstock.policies.schema_policy.wire_format import FramingError, SchemaIdLocation, find_id

if TYPE_CHECKING:
    from collections.abc import Callable, MutableMapping, Sequence
    from pathlib import Path

    from penstock.policies.schema_policy.compiled_schemas import CompiledSchemas
    from penstock.policies.schema_policy.payloads.compiled import CompiledSchema, SchemaSource
    from penstock.policies.schema_policy.registry.cache import Registry
    from penstock.policies.schema_policy.settings import SchemaFileName
    from penstock.policy import Header

    Decode = Callable[[bytes], Any]

_KEPT: Final = 1000


class ValueReader(Protocol):
    """Reads the values of a topic.

    Attributes:
        reads_headers: Whether the id of a schema may be in a header.
    """

    reads_headers: bool

    def read(self, value: bytes, headers: Sequence[Header]) -> Any:
        """Return a value as Python's objects.

        Raises:
            NotDecodedError: It is not of its schema, or has none.
            RetriableException: The schema cannot be looked up now.
        """


def decoder_of(source: SchemaSource, compiled: CompiledSchema) -> Decode:
    """Return the function that decodes payloads of a schema.

    Args:
        source: The schema.
        compiled: The same, compiled.
    """
    if source.schema_type == "JSON":
        return read_json  # unlike `compiled.decode`, with exact numbers
    plain = _plain(source)

    def decode(payload: bytes) -> Any:
        try:
            return plain(compiled.decode(payload))
        except NotDecodedError:
            raise
        except ValueError:
            reasons = "".join(f": {reason}" for _, reason in compiled.objections((payload,)))
            raise NotDecodedError(f"does not fit its schema{reasons}") from None

    return decode


def _plain(source: SchemaSource) -> Callable[[Any], Any]:
    if source.schema_type == "AVRO":
        from penstock.policies.decoded.avro import plain_values  # noqa: PLC0415 - an extra

        return plain_values(source)
    from penstock.policies.decoded.protobuf import plain_message  # noqa: PLC0415 - an extra

    return plain_message


def file_reader(folder: Path, file: SchemaFileName, *, unknown_fields: bool = False) -> ByFile:
    """Return the reader of values of a file's schema.

    Args:
        folder: The configuration file's.
        file: The schema's file.
        unknown_fields: Whether Protobuf messages may have fields that the schema does not have.

    Raises:
        ValueError: It is missing, or cannot be used.
    """
    compiled = compile_file(folder, file, unknown_fields=unknown_fields)
    return ByFile(decoder_of(read_source(folder, file), compiled))


class ByFile:
    """Implements `ValueReader` for the schema of a file."""

    reads_headers = False

    def __init__(self, decode: Decode) -> None:
        self._decode = decode

    def read(self, value: bytes, headers: Sequence[Header]) -> Any:
        """Return a value; see `ValueReader.read`."""
        del headers
        return self._decode(value)


class ByRegistry:
    """Implements `ValueReader` for the schemas of a registry."""

    def __init__(
        self,
        registry: Registry,
        schemas: CompiledSchemas,
        location: SchemaIdLocation = SchemaIdLocation.ANY,
        *,
        look_up_s: float,
    ) -> None:
        """Look nothing up yet.

        Args:
            registry: Has the schemas.
            schemas: Compiles them.
            location: Where ids are.
            look_up_s: How long the look-ups for a schema may take, in seconds.
        """
        self._registry = registry
        self._schemas = schemas
        self._location = location
        self._look_up_s = look_up_s
        self.reads_headers = location is not SchemaIdLocation.PREFIX
        self._decoders: MutableMapping[int | str, Decode] = LRUCache(_KEPT)

    def read(self, value: bytes, headers: Sequence[Header]) -> Any:
        """Return a value; see `ValueReader.read`."""
        try:
            framed = find_id(value, headers, is_key=False, location=self._location)
        except FramingError as error:
            raise NotDecodedError(str(error)) from None
        decode = self._decoders.get(framed.schema)
        if decode is None:
            decode = self._decoders[framed.schema] = self._decoder(framed.schema)
        return decode(framed.payload(value))

    def _decoder(self, known_as: int | str) -> Decode:
        named = f"schema {'id ' if isinstance(known_as, int) else ''}{known_as}"
        self._registry.allow(self._look_up_s)
        try:
            registered = self._registry.schema(known_as)
        except UnknownSchemaError:
            raise NotDecodedError(f"has {named}, which the registry does not know") from None
        compiled = self._schemas.of(registered, known_as)
        if compiled.schema is None:
            raise NotDecodedError(f"has {named}, which cannot be used: {compiled.problem}")
        return decoder_of(self._registry.source(registered), compiled.schema)
