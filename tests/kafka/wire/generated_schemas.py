"""Writes the schemas that the protocol library lacks, from Kafka's own descriptions of messages.

`python -m tests.kafka.wire.generated_schemas` writes the modules of `penstock.kafka.wire.schemas`, in the form
of the library's: a class for each structure, its fields in the order of the protocol. The
descriptions are in Kafka's jar of its clients.
"""

import json
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, Final, NamedTuple

from penstock.kafka.artifacts import Artifacts, class_path
from penstock.kafka.wire import schemas
from penstock.kafka.wire.schemas import ADDED

FOLDER: Final = Path(schemas.__file__).parent
_COMMENT: Final = re.compile(r"^\s*//.*$|(?<=[,{\[])\s*//.*$", re.MULTILINE)
_WORD: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_TYPES: Final = {
    "bool": "bool",
    "int8": "i8",
    "int16": "i16",
    "int32": "i32",
    "int64": "i64",
    "uint16": "u16",
    "string": "str",
    "uuid": "uuid.UUID",
    "bytes": "bytes",
    "records": "bytes",
    "float64": "float",
}
_ALIASES: Final = {"topicName": "TopicName", "groupId": "GroupId", "brokerId": "BrokerId"}


class Field(NamedTuple):
    """A field of a structure in one version.

    Attributes:
        name: Its name, as the library writes it.
        kind: The type in Python of its value, or of a member of its array.
        kafka_type: The library's name of the type; None for a structure.
        is_array: Whether it is an array.
        is_nullable: Whether it may be null.
        tag: Its tag, or None.
        default: The default value in Python, or nothing.
    """

    name: str
    kind: str
    kafka_type: str | None
    is_array: bool
    is_nullable: bool
    tag: int | None
    default: str


@cache
def descriptions() -> Mapping[str, Mapping[str, Any]]:
    """Return Kafka's descriptions of requests and responses, by name."""
    for jar in class_path(Artifacts.KAFKA).split(":"):
        if Path(jar).name.startswith("kafka-clients-"):
            with zipfile.ZipFile(jar) as archive:
                return {
                    Path(name).stem: json.loads(_COMMENT.sub("", archive.read(name).decode()))
                    for name in archive.namelist()
                    if re.fullmatch(r"common/message/\w+(Request|Response)\.json", name)
                }
    raise AssertionError("Kafka's class path has no jar of its clients")


def versions(described: str | None) -> range:
    """Return the versions in Kafka's notation: `0-5`, `3+`, `4` or `none`."""
    if described is None or described == "none":
        return range(0)
    first, dash, last = described.rstrip("+").partition("-")
    if described.endswith("+"):
        return range(int(first), 2**15)
    return range(int(first), int(last if dash else first) + 1)


def module(name: str, version: int) -> str:
    """Return the text of the module with a request or response in one version."""
    message = descriptions()[name]
    if version not in versions(message["validVersions"]):
        raise ValueError(f"{name} has no version {version}")
    kind = message["type"]
    structures = dict(_structures(name, message, version))
    body = "\n\n".join(
        _class(structure, fields, message, version, is_message=structure == name)
        for structure, fields in structures.items()
    )
    about = f'"""{name} in version {version}, generated from Kafka\'s description of it."""'
    return f"{about}\n\n{_imports(body, kind, _header_version(message, version))}\n\n{body}"


def load(api_key: int, version: int, kind: str) -> Any:
    """Return the type of a request or response, made now.

    Args:
        api_key: The API.
        version: The version.
        kind: `request` or `response`.
    """
    (name,) = (
        name
        for name, of in descriptions().items()
        if of["apiKey"] == api_key and of["type"] == kind
    )
    made = ModuleType(f"{name}_{version}")
    exec(module(name, version), made.__dict__)
    return getattr(made, name)


def _structures(
    name: str, message: Mapping[str, Any], version: int
) -> Iterator[tuple[str, list[Field]]]:
    """Return the structures of a message, each after those that it uses."""
    common = {of["name"]: of["fields"] for of in message.get("commonStructs", ())}
    done = set()

    def of_structure(name: str, described: list[Any]) -> Iterator[tuple[str, list[Field]]]:
        done.add(name)
        fields = [of for of in described if version in versions(of["versions"])]
        for field in fields:
            inner = field["type"].removeprefix("[]")
            if inner not in _TYPES and inner not in done:
                yield from of_structure(inner, field.get("fields") or common[inner])
        yield name, [_field(field, version) for field in fields]

    return of_structure(name, message["fields"])


def _field(described: Mapping[str, Any], version: int) -> Field:
    inner = described["type"].removeprefix("[]")
    is_array = inner != described["type"]
    name = _WORD.sub("_", described["name"]).lower()
    kind, kafka_type = _TYPES.get(inner, inner), inner if inner in _TYPES else None
    kind = _ALIASES.get(described.get("entityType", ""), kind)
    if (name, inner) == ("error_code", "int16"):
        kind, kafka_type = "ErrorCode", "error_code"
    elif inner == "int32" and name.endswith("_ms"):
        name, kind, kafka_type = name.removesuffix("_ms"), "i32Timedelta", "timedelta_i32"
    is_nullable = (
        version in versions(described.get("nullableVersions")) or described["type"] == "uuid"
    )
    tag = described.get("tag") if version in versions(described.get("taggedVersions")) else None
    default = "()" if is_array and (kafka_type or tag is not None) and not is_nullable else ""
    if "default" in described and not is_array:
        default = _default(described["default"], kind)
    return Field(name, kind, kafka_type, is_array, is_nullable, tag, default)


def _default(value: object, kind: str) -> str:
    text = str(value)
    if text == "null":
        return "None"
    if kind == "bool":
        return text.capitalize()
    if kind == "i32Timedelta":
        return f"i32Timedelta.parse(dt.timedelta(milliseconds={text}))"
    return repr(text) if kind == "str" else f"{kind}({text})"


def _header_version(message: Mapping[str, Any], version: int) -> int:
    """Return the version of the header: 1 more with tagged fields, but for ApiVersions."""
    is_flexible = version in versions(message["flexibleVersions"])
    if message["type"] == "request":
        return 1 + is_flexible
    return 0 if message["name"] == "ApiVersionsResponse" else int(is_flexible)


def _class(
    name: str, fields: list[Field], message: Mapping[str, Any], version: int, *, is_message: bool
) -> str:
    header = f"{message['type'].capitalize()}Header"
    lines = [
        "@dataclass(frozen=True, slots=True, kw_only=True)",
        f"class {name}:",
        f'    """{"A message" if is_message else "A structure"} of the protocol."""',
        "",
        f"    __type__: ClassVar = EntityType.{message['type'] if is_message else 'nested'}",
        f"    __version__: ClassVar[i16] = i16({version})",
        f"    __flexible__: ClassVar[bool] = {version in versions(message['flexibleVersions'])}",
        f"    __api_key__: ClassVar[i16] = i16({message['apiKey']})",
        f"    __header_schema__: ClassVar[type[{header}]] = {header}",
        *map(_line, fields),
    ]
    return "\n".join(lines) + "\n"


def _line(of: Field) -> str:
    kind = f"tuple[{of.kind}, ...]" if of.is_array else of.kind
    metadata = {"kafka_type": of.kafka_type, "tag": of.tag}
    given = {key: value for key, value in metadata.items() if value is not None}
    arguments = [f"metadata={given!r}"] if given else []
    arguments += [f"default={of.default}"] if of.default else []
    value = f" = field({', '.join(arguments)})" if arguments else ""
    return f"    {of.name}: {kind}{' | None' if of.is_nullable else ''}{value}"


def _imports(body: str, kind: str, header_version: int) -> str:
    found = set(re.findall(r"\bi32Timedelta\b|\b[iu]\d+\b", body))
    names = sorted(found, key=lambda name: (name[0], int(re.sub(r"\D", "", name)), name))
    aliases = sorted(alias for alias in _ALIASES.values() if re.search(rf"\b{alias}\b", body))
    lines = [
        "import datetime as dt" if "dt." in body else "",
        "import uuid" if "uuid." in body else "",
        "from dataclasses import dataclass, field",
        "from typing import ClassVar",
        "",
        "from kio.schema.errors import ErrorCode" if "ErrorCode" in body else "",
        f"from kio.schema.{kind}_header.v{header_version}.header import {kind.capitalize()}Header",
        f"from kio.schema.types import {', '.join(aliases)}" if aliases else "",
        "from kio.static.constants import EntityType",
        f"from kio.static.primitive import {', '.join(names)}",
    ]
    return "\n".join(line for number, line in enumerate(lines) if line or number == 4)


def formatted(text: str) -> str:
    """Return a module as the formatter writes it."""
    ruff = Path(sys.executable).with_name("ruff")
    command = [str(ruff), "format", "--stdin-filename", str(FOLDER / "generated.py"), "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


def generated() -> dict[str, str]:
    """Return the texts of all modules, by the names of their files."""
    return {
        f"{name}_v{version}_{kind}.py": formatted(module(f"{_camel(name)}{kind.title()}", version))
        for name, version in ADDED.values()
        for kind in ("request", "response")
    }


def _camel(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))


def main() -> None:
    """Write the modules."""
    for name, text in generated().items():
        (FOLDER / name).write_text(text)


if __name__ == "__main__":
    main()
