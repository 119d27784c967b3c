"""Avro whose schema is in a registry: each key or value names it by its id.

Which subject the schema is under is for `SchemaPolicy` to judge.
"""

from __future__ import annotations

from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from cachetools import LRUCache

from penstock.policies.decoded import readers
from penstock.policies.rules.avro import conversion_of
from penstock.policies.rules.errors import UnreadableError
from penstock.policies.rules.paths import only
from penstock.policies.schema_policy.compiled_schemas import CompiledSchemas
from penstock.policies.schema_policy.encrypted import as_it_arrives
from penstock.policies.schema_policy.errors import InvalidSchemaError
from penstock.policies.schema_policy.packages import OF_SCHEMAS, check_packages
from penstock.policies.schema_policy.payloads import compile_schema
from penstock.policies.schema_policy.registry.errors import UnknownSchemaError
from penstock.policies.schema_policy.rules.options import RuleOptions
from penstock.policies.schema_policy.wire_format import (
    FramingError,
    SchemaIdLocation,
    check_header,
    find_id,
    groups_of,
)
from penstock.policy import RetriableException, UndecidableException

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, MutableMapping, Sequence
    from pathlib import Path

    from penstock.policies.decoded.readers import ValueReader
    from penstock.policies.rules.paths import Fields
    from penstock.policies.schema_policy.payloads.compiled import CompiledSchema
    from penstock.policies.schema_policy.registry.cache import Registry
    from penstock.policy import Header

_KEPT: Final = 1000
_SHARE: Final = 0.4
"""The share of the deadline for preparing that the look-ups for keys, and for values, may take."""


class _Schema(NamedTuple):
    compiled_schema: CompiledSchema
    convert: Callable[[Any], Any]


class ByRegistry:
    """Implements `Reader`; the registry is queried in `prepare`."""

    message = None

    def __init__(
        self, registry: Registry, *, is_key: bool, logical_types: bool, look_up_s: float
    ) -> None:
        """Look nothing up yet.

        Args:
            registry: Has the schemas.
            is_key: Whether keys are read.
            logical_types: Whether timestamps and decimals are such.
            look_up_s: How long the look-ups for a batch may take, in seconds.
        """
        self._registry = registry
        self._is_key = is_key
        self._logical_types = logical_types
        self._look_up_s = look_up_s
        self._schemas: MutableMapping[int | str, _Schema] = LRUCache(_KEPT)

    @classmethod
    def opened(cls, configs: Mapping[str, str], folder: Path, *, is_key: bool) -> ByRegistry:
        """Return a reader for the registry of a configuration; no request is sent yet.

        Raises:
            ValueError: A key is wrong, or a package is missing.
        """
        check_packages(OF_SCHEMAS, "schemas")
        from penstock.policies.schema_policy.registry.opening import open_registry  # noqa: PLC0415
        from penstock.policies.schema_policy.registry.settings import (  # noqa: PLC0415
            RegistrySettings,
        )

        settings = RegistrySettings.from_configs(configs, folder)
        if settings is None:
            raise ValueError("schema.registry.url must be set")
        return cls(
            open_registry(settings),
            is_key=is_key,
            logical_types=RuleOptions.read(configs).logical_types,
            look_up_s=int(configs.get("policy.preparation.timeout.ms", 10_000)) / 1000 * _SHARE,
        )

    def prepare(
        self, topic: str, column: Sequence[bytes | None], headers: Sequence[Sequence[Header]]
    ) -> None:
        """Look up and compile the schemas of a batch.

        Raises:
            RetriableException: The registry does not answer now.
        """
        self._registry.allow(self._look_up_s)
        self._registry.use_share_of(topic)
        groups, _ = groups_of(column, headers, is_key=self._is_key, location=SchemaIdLocation.ANY)
        for group in groups:
            # It is reported for the records that have it, when they are read.
            with suppress(UnreadableError, UndecidableException):
                self._schema(group.framed_id.schema)

    def read(self, data: bytes, fields: Fields | None, headers: Sequence[Header]) -> Any:
        """Return the value of a payload by the registry's schema; see `Reader.read`.

        Raises:
            UnreadableError: There is no id, the registry does not know it, its schema is not an
                Avro schema, or the payload does not fit.
            RetriableException: The registry does not answer now, or the schema cannot be used.
        """
        try:
            framed = find_id(data, headers, is_key=self._is_key, location=SchemaIdLocation.ANY)
            schema = self._schema(framed.schema)
            check_header(framed, "AVRO")
        except FramingError as error:
            raise UnreadableError(str(error)) from None
        payload = framed.payload(data)
        for _, reason in schema.compiled_schema.objections((payload,)):
            raise UnreadableError(f"does not fit {_named(framed.schema)}: {reason}")
        return only(schema.convert(schema.compiled_schema.decode(payload)), fields)

    def value_reader(self) -> ValueReader:
        """Return the reader of whole values, which is the same for all topics."""
        return self._value_reader

    @cached_property
    def _value_reader(self) -> ValueReader:
        decoders = readers.Decoders(self._registry, CompiledSchemas(self._registry))
        return readers.ByRegistry(decoders, look_up_s=self._look_up_s)

    def close(self) -> None:
        """Close the connections to the registry."""
        self._registry.close()

    def _schema(self, known_as: int | str) -> _Schema:
        schema = self._schemas.get(known_as)
        if schema is None:
            schema = self._schemas[known_as] = self._made(known_as)
        return schema

    def _made(self, known_as: int | str) -> _Schema:
        try:
            registered = self._registry.schema(known_as)
        except UnknownSchemaError:
            raise UnreadableError(
                f"has {_named(known_as)}, which the registry does not know"
            ) from None
        if registered.schema_type != "AVRO":
            raise UnreadableError(
                f"has {_named(known_as)}, which has the type {registered.schema_type}, not AVRO"
            )
        try:
            source = self._registry.source(registered)
            compiled = compile_schema(as_it_arrives(registered, source))
            return _Schema(compiled, conversion_of(source, logical_types=self._logical_types))
        except InvalidSchemaError as error:
            raise UndecidableException(f"{_named(known_as)} cannot be used: {error}") from None
        except OSError as error:
            raise RetriableException(f"a schema cannot be compiled now: {error}") from None


def _named(schema: int | str) -> str:
    return f"schema id {schema}" if isinstance(schema, int) else f"schema {schema}"
