"""Converts the bytes of keys and values to the values that conditions read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

import orjson

from penstock.policies.json_schema.library import MAX_LEVELS, levels_of
from penstock.policies.json_schema.reasons import FLAWS
from penstock.policies.rules.errors import UnreadableError
from penstock.policies.rules.paths import only
from penstock.policies.rules.settings import Format

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from penstock.policies.rules.paths import Fields
    from penstock.policies.schema_policy.payloads.compiled import CompiledSchema, SchemaSource
    from penstock.policies.schema_policy.settings import SchemaFileName
    from penstock.policy import Header

REGISTRY: Final = "schema.registry.url"
_LEAST: Final = -(2.0**63)
_BEYOND: Final = 2.0**64


class Reader(Protocol):
    """Reads keys, or values.

    Attributes:
        message: The descriptor of the Protobuf message that is read; None for any other format.
    """

    message: Any

    def read(self, data: bytes, fields: Fields | None, headers: Sequence[Header]) -> Any:
        """Return what some bytes say.

        Args:
            fields: The required fields, as far as the format has fields.
            headers: Of the record, where a schema's id may be in a header.

        Raises:
            UnreadableError: They are of another format.
        """
        ...


def reader_of(kind: Format, configs: Mapping[str, str], folder: Path, *, is_key: bool) -> Reader:
    """Return the reader of a format.

    Args:
        configs: The configuration: of Avro and Protobuf, `schema.file` is read.
        folder: The configuration file's.
        is_key: Whether keys are read.

    Raises:
        ValueError: The schema is missing, or of another format.
    """
    if kind is Format.JSON:
        return _Plain(_json, has_fields=True)
    if kind is Format.STRING:
        return _Plain(_text)
    if kind is Format.BYTES:
        return _Plain(bytes)
    return _by_schema(kind, configs, folder, is_key=is_key)


class _Plain:
    """Implements `Reader` for bytes that need no schema."""

    message = None

    def __init__(self, reader: Callable[[bytes], Any], *, has_fields: bool = False) -> None:
        self._reader = reader
        self._has_fields = has_fields

    def read(self, data: bytes, fields: Fields | None, headers: Sequence[Header]) -> Any:
        del headers
        value = self._reader(data)
        return with_whole_numbers(only(value, fields)) if self._has_fields else value


def _json(data: bytes) -> Any:
    try:
        document = orjson.loads(data)
    except orjson.JSONDecodeError:
        raise UnreadableError("is not JSON") from None
    if data.count(b"[") + data.count(b"{") > MAX_LEVELS and levels_of(data, document) > MAX_LEVELS:
        raise UnreadableError(FLAWS["tooDeep"])
    return document


def with_whole_numbers(value: Any) -> Any:
    """Return a value of JSON with its whole numbers as integers, so far as they have 64 bits.

    `7.0` is the number `7`, of which CEL would make a double.

    Args:
        value: Its lists and objects are changed.
    """
    if isinstance(value, float):
        is_whole = value.is_integer() and _LEAST <= value < _BEYOND
        return int(value) if is_whole else value
    if isinstance(value, dict):
        for name, inner in value.items():
            if isinstance(inner, (float, dict, list)):
                value[name] = with_whole_numbers(inner)
    elif isinstance(value, list):
        for position, inner in enumerate(value):
            if isinstance(inner, (float, dict, list)):
                value[position] = with_whole_numbers(inner)
    return value


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise UnreadableError("is not UTF-8 text") from None


class _BySchema:
    """Implements `Reader` for payloads of a schema."""

    def __init__(
        self,
        name: str,
        compiled: CompiledSchema,
        convert: Callable[[Any], Any] | None,
        message: Any,
    ) -> None:
        self._name = name
        self._compiled_schema = compiled
        self._convert = convert
        self.message = message

    def read(self, data: bytes, fields: Fields | None, headers: Sequence[Header]) -> Any:
        del headers
        for _, reason in self._compiled_schema.objections((data,)):
            raise UnreadableError(f"does not fit schema {self._name}: {reason}")
        value = self._compiled_schema.decode(data)
        return value if self._convert is None else only(self._convert(value), fields)


def _by_schema(kind: Format, configs: Mapping[str, str], folder: Path, *, is_key: bool) -> Reader:
    from penstock.policies.schema_policy.payloads import compile_schema  # noqa: PLC0415 - an extra
    from penstock.policies.schema_policy.settings import FILE  # noqa: PLC0415

    if kind is Format.AVRO and FILE not in configs and REGISTRY in configs:
        from penstock.policies.rules.by_registry import ByRegistry  # noqa: PLC0415

        return ByRegistry.opened(configs, folder, is_key=is_key)
    name = _file(kind, configs, is_key=is_key)
    from penstock.policies.schema_policy.errors import InvalidSchemaError  # noqa: PLC0415
    from penstock.policies.schema_policy.files import read_source  # noqa: PLC0415

    source = read_source(folder, name)
    if source.schema_type != kind.name:
        raise ValueError(
            f"schema.file={name.name} is a schema of {source.schema_type}, not of {kind.name}"
        )
    try:
        compiled = compile_schema(source)
    except InvalidSchemaError as error:
        raise ValueError(f"schema.file={name.name}: {error}") from None
    if kind is Format.PROTOBUF:
        empty: Any = compiled.decode(b"")
        return _BySchema(name.name, compiled, None, empty.DESCRIPTOR)
    return _BySchema(name.name, compiled, _conversion(source, configs), None)


def _file(kind: Format, configs: Mapping[str, str], *, is_key: bool) -> SchemaFileName:
    from penstock.policies.schema_policy.settings import FILE, file_names  # noqa: PLC0415

    names = file_names(configs.get(FILE))
    if is_key not in names:
        example = "order.avsc" if kind is Format.AVRO else "order.proto#shop.Order"
        registry = f", or {REGISTRY}" if kind is Format.AVRO else ""
        raise ValueError(
            f"{'key.format' if is_key else 'format'}={kind.value} needs {FILE}, "
            f"like {FILE}={'key=' if is_key else ''}{example}{registry}"
        )
    return names[is_key]


def _conversion(source: SchemaSource, configs: Mapping[str, str]) -> Callable[[Any], Any]:
    from penstock.policies.rules.avro import conversion_of  # noqa: PLC0415 - an extra
    from penstock.policies.schema_policy.rules.options import RuleOptions  # noqa: PLC0415

    return conversion_of(source, logical_types=RuleOptions.read(configs).logical_types)
