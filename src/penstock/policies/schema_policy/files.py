"""Schemas in files: `schema.file` of a topic.

| file              | schema      | refers to other files by                      |
|-------------------|-------------|-----------------------------------------------|
| `*.avsc`          | Avro        | nothing: it has all its types itself          |
| `*.proto#MESSAGE` | Protobuf    | `import`, from the configuration file's folder |
| any other         | JSON Schema | `$ref`, from the configuration file's folder  |
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

from penstock.policies.schema_policy.errors import InvalidSchemaError
from penstock.policies.schema_policy.payloads import compile_schema
from penstock.policies.schema_policy.payloads.compiled import SchemaSource
from penstock.policies.schema_policy.registered import RegisteredSchema
from penstock.policies.schema_policy.rules.rules import compile_rules
from penstock.policies.schema_policy.settings import FILE
from penstock.policy import RetriableException

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from penstock.policies.schema_policy.payloads.compiled import CompiledSchema
    from penstock.policies.schema_policy.rules.options import RuleOptions
    from penstock.policies.schema_policy.rules.rules import SchemaRules
    from penstock.policies.schema_policy.settings import SchemaFileName

_MAX_BYTES: Final = 8 << 20
_MAX_FILES: Final = 1000
_IMPORT: Final = re.compile(r'^[^\S\n]*+import\s++(?:public\s+|weak\s+)?"([^"\n]+)"', re.MULTILINE)
_SCHEME: Final = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*:")


def compile_file(
    folder: Path, file: SchemaFileName, *, unknown_fields: bool = False, formats: bool = False
) -> CompiledSchema:
    """Compile the schema of a file.

    Args:
        folder: The configuration file's: no file outside it is read.
        file: Which one.
        unknown_fields: Whether Protobuf messages may have fields that the schema does not have.
        formats: Whether `format` of a JSON Schema is judged.

    Raises:
        ValueError: It is missing, or cannot be used; the text names `schema.file`.
        RetriableException: protoc cannot be run.
    """
    source = read_source(folder, file)
    try:
        return compile_schema(source, unknown_fields=unknown_fields, formats=formats)
    except InvalidSchemaError as error:
        raise ValueError(f"{FILE}={file.name}: {error}") from None
    except OSError as error:
        raise RetriableException(f"{file.name} cannot be compiled now: {error}") from None


def compile_file_rules(
    folder: Path, file: SchemaFileName, compiled: CompiledSchema, options: RuleOptions
) -> SchemaRules:
    """Compile the rules within the schema of a file.

    Args:
        folder: The configuration file's: no file outside it is read.
        file: Which one.
        compiled: The same schema, compiled.
        options: How rules are read.

    Raises:
        ValueError: A rule cannot be used; the text names `schema.file`.
    """
    source = read_source(folder, file)
    registered = RegisteredSchema(source.schema_type, source.text)
    try:
        return compile_rules(registered, compiled, source, options)
    except InvalidSchemaError as error:
        raise ValueError(f"{FILE}={file.name}: {error}") from None


def read_source(folder: Path, file: SchemaFileName) -> SchemaSource:
    """Read the schema of a file, and those that it refers to.

    Args:
        folder: The configuration file's: no file outside it is read.
        file: Which one.

    Raises:
        ValueError: It is missing, or cannot be used; the text names `schema.file`.
    """
    kind = _kind(file.name)
    if (kind == "PROTOBUF") != (file.message is not None):
        raise ValueError(
            f"{FILE}={file.name} must be followed by #MESSAGE, the full name of its message"
            if file.message is None
            else f"{FILE}={file.name}#{file.message}: only a .proto has messages"
        )
    try:
        text = _read(folder, file.name)
        return SchemaSource(kind, text, _references(folder, file.name, text, kind), file.message)
    except InvalidSchemaError as error:
        raise ValueError(f"{FILE}={file.name}: {error}") from None


def _kind(name: str) -> str:
    return {"avsc": "AVRO", "proto": "PROTOBUF"}.get(name.rpartition(".")[2].lower(), "JSON")


def _read(folder: Path, name: str) -> str:
    try:
        path = (folder / name).resolve()
    except (ValueError, OSError, RuntimeError):
        raise InvalidSchemaError("is not the name of a file") from None
    if not path.is_relative_to(folder.resolve()):
        raise InvalidSchemaError(f"{name} is outside the configuration file's folder {folder}")
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise InvalidSchemaError(f"{path} cannot be read: {error.strerror}") from None
    if len(data) > _MAX_BYTES:
        raise InvalidSchemaError(f"{path} is larger than {_MAX_BYTES} bytes")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise InvalidSchemaError(f"{path} is not UTF-8 text") from None


def _references(folder: Path, name: str, text: str, kind: str) -> dict[str, str]:
    """Read the files that a schema refers to, and those that they refer to."""
    texts: dict[str, str] = {}
    size = len(text)
    names = {"PROTOBUF": _imports, "JSON": _refs}.get(kind)
    pending_files = [] if names is None else list(names(text, name))
    while pending_files and names is not None:
        file = pending_files.pop()
        if file in texts or not _is_file(folder / file):
            continue  # a file that is not there is the compiler's to find: it knows the standard's
        if len(texts) == _MAX_FILES:
            raise InvalidSchemaError(f"{name} refers to more than {_MAX_FILES} files")
        texts[file] = _read(folder, file)
        size += len(texts[file])
        if size > _MAX_BYTES:
            raise InvalidSchemaError(
                f"{name} and its references are larger than {_MAX_BYTES} bytes"
            )
        pending_files += names(texts[file], file)
    return texts


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (ValueError, OSError):  # no name that a file can have
        return False


def _imports(text: str, name: str) -> Iterable[str]:
    del name
    return _IMPORT.findall(text)


def _refs(text: str, name: str) -> Iterable[str]:
    try:
        schema = json.loads(text)
    except (ValueError, RecursionError):
        raise InvalidSchemaError(f"{name} is not JSON") from None
    return {ref for ref in _ref_values(schema) if ref and not _SCHEME.match(ref)}


def _ref_values(schema: Any) -> Iterable[str]:
    """Yield the file of each `$ref`; empty for a reference within the same file."""
    nodes = [schema]
    while nodes:
        node = nodes.pop()
        if isinstance(node, dict):
            ref = node.get("$ref")
            if isinstance(ref, str):
                yield ref.partition("#")[0]
            nodes += node.values()
        elif isinstance(node, list):
            nodes += node
