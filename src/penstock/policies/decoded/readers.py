"""Reads values by the schemas by which a policy judges them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from cachetools import LRUCache

from penstock.policies.decoded.errors import NotDecodedError
from penstock.policies.decoded.json_texts import read_json
from penstock.policies.decoded.wanted import ALL
from penstock.policies.schema_policy.files import compile_file, read_source
from penstock.policies.schema_policy.registry.errors import UnknownSchemaError
from penstock.policies.schema_policy.wire_format import (
    FramingError,
    SchemaIdHeader,
    SchemaIdLocation,
    check_header,
    find_id,
)

if TYPE_CHECKING:
    from collections.abc import Callable, MutableMapping, Sequence
    from pathlib import Path

    from penstock.policies.decoded.wanted import Wanted
    from penstock.policies.schema_policy.compiled_schemas import CompiledSchemas
    from penstock.policies.schema_policy.payloads.compiled import CompiledSchema, SchemaSource
    from penstock.policies.schema_policy.registry.cache import Registry
    from penstock.policies.schema_policy.settings import SchemaFileName
    from penstock.policy import Header

    Decode = Callable[[bytes, Wanted], Any]

_KEPT: Final = 1000
"""How many decoders of a registry's schemas are kept for all topics."""


class ValueReader(Protocol):
    """Reads the values of a topic.

    Attributes:
        reads_headers: Whether the id of a schema may be in a header.
    """

    reads_headers: bool

    def read(self, value: bytes, headers: Sequence[Header], selection: Wanted = ALL) -> Any:
        """Return a value as Python's objects.

        Args:
            headers: The record's headers.
            selection: The fields that are needed; those that cost nothing may also be there.

        Raises:
            NotDecodedError: It is not of its schema, or has none.
            RetriableException: The schema cannot be looked up now.
        """


def decoder_of(source: SchemaSource, compiled: CompiledSchema) -> Decode:
    """Return the function that decodes payloads of a schema.

    Args:
        compiled: The same, compiled.
    """
    if source.schema_type == "JSON":
        return _read_json
    plain = _plain(source)

    def decode(payload: bytes, selection: Wanted) -> Any:
        try:
            return plain(compiled.decode(payload), selection)
        except NotDecodedError:
            raise
        except ValueError:
            reasons = "".join(f": {reason}" for _, reason in compiled.objections((payload,)))
            raise NotDecodedError(f"does not fit its schema{reasons}") from None

    return decode


def _read_json(payload: bytes, selection: Wanted) -> Any:
    """Return the value of a JSON text; unlike `CompiledSchema.decode`, with exact numbers."""
    del selection
    return read_json(payload)


def _plain(source: SchemaSource) -> Callable[[Any, Wanted], Any]:
    if source.schema_type == "AVRO":
        from penstock.policies.decoded.avro import plain_values  # noqa: PLC0415 - an extra

        convert = plain_values(source)
        return lambda value, _: convert(value)
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

    def read(self, value: bytes, headers: Sequence[Header], selection: Wanted = ALL) -> Any:
        """Return a value; see `ValueReader.read`."""
        del headers
        return self._decode(value, selection)


class _Decoder(NamedTuple):
    schema_type: str
    decode: Decode


class Decoders:
    """Decoders by the schemas of a registry, for all topics of a policy."""

    def __init__(self, registry: Registry, schemas: CompiledSchemas) -> None:
        """Look nothing up yet.

        Args:
            registry: Has the schemas.
            schemas: Compiles them.
        """
        self.registry = registry
        self._schemas = schemas
        self._decoders: MutableMapping[int | str, _Decoder] = LRUCache(_KEPT)

    def of(self, known_as: int | str) -> _Decoder:
        """Return the decoder of a schema.

        Args:
            known_as: Its id or GUID.

        Raises:
            NotDecodedError: The registry does not know it, or it cannot be used.
            RetriableException: It cannot be looked up now.
        """
        decoder = self._decoders.get(known_as)
        if decoder is None:
            decoder = self._decoders[known_as] = self._made(known_as)
        return decoder

    def _made(self, known_as: int | str) -> _Decoder:
        named = f"schema {'id ' if isinstance(known_as, int) else ''}{known_as}"
        try:
            registered = self.registry.schema(known_as)
        except UnknownSchemaError:
            raise NotDecodedError(f"has {named}, which the registry does not know") from None
        compiled = self._schemas.of(registered, known_as)
        if compiled.schema is None:
            raise NotDecodedError(f"has {named}, which cannot be used: {compiled.problem}")
        decode = decoder_of(self.registry.source(registered), compiled.schema)
        return _Decoder(registered.schema_type, decode)


class ByRegistry:
    """Implements `ValueReader` for the schemas of a registry."""

    def __init__(
        self,
        decoders: Decoders,
        location: SchemaIdLocation = SchemaIdLocation.ANY,
        header: SchemaIdHeader = SchemaIdHeader.LAST,
        *,
        look_up_s: float,
    ) -> None:
        """Look nothing up yet.

        Args:
            decoders: Those of the policy.
            location: Where ids are.
            header: Which of several headers has the id.
            look_up_s: How long the look-ups for a schema may take, in seconds.
        """
        self._decoders = decoders
        self._location = location
        self._header = header
        self._look_up_s = look_up_s
        self.reads_headers = location is not SchemaIdLocation.PREFIX

    def read(self, value: bytes, headers: Sequence[Header], selection: Wanted = ALL) -> Any:
        """Return a value; see `ValueReader.read`."""
        try:
            framed = find_id(
                value, headers, is_key=False, location=self._location, header=self._header
            )
            self._decoders.registry.allow(self._look_up_s)
            decoder = self._decoders.of(framed.schema)
            check_header(framed, decoder.schema_type)
        except FramingError as error:
            raise NotDecodedError(str(error)) from None
        return decoder.decode(framed.payload(value), selection)
