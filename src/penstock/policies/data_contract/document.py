"""A contract's file: its content, and the object that describes a topic.

Source: Open Data Contract Standard 3.x, https://bitol-io.github.io/open-data-contract-standard/
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

import yaml

from penstock.policies.data_contract.errors import ContractError
from penstock.policies.data_contract.variables import FIRST_VERSION, resolved

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

MAX_BYTES: Final = 4 * 1024 * 1024
_KIND: Final = "DataContract"
_NODES_MOST: Final = 1_000_000
_VERSION: Final = re.compile(r"v(3\.[012])(?:\.\d+)?")
_MERGE: Final = "tag:yaml.org,2002:merge"


class Contract(NamedTuple):
    """The content of a contract.

    Attributes:
        title: Its name and version, for messages.
        objects: The objects of its schema, as they are written, by their names.
        promises: Its promises about all records together, such as freshness: `slaProperties`.
        version: The version of the standard that it names, such as `3.1`.
    """

    title: str
    objects: Mapping[str, Mapping[str, Any]]
    promises: Sequence[Mapping[str, Any]]
    version: str
    document: Mapping[str, Any]

    def object_of(self, topic: str) -> str | None:
        """Return the name of a topic's object, if an object is known for it.

        It is the object whose `physicalName` is the topic, or else whose name is, or else the only
        object.
        """
        physical = (
            name for name, entry in self.objects.items() if entry.get("physicalName") == topic
        )
        object_name = next(physical, None)
        if object_name is None and topic in self.objects:
            object_name = topic
        if object_name is None and len(self.objects) == 1:
            object_name = next(iter(self.objects))
        return object_name


def read_contract(folder: Path, name: str) -> Contract:
    """Read a contract.

    Args:
        folder: The folder of the configuration file.
        name: A path below it, or an absolute path.

    Raises:
        ContractError: It is missing, or is not a contract.
    """
    return contract_of(name, read_file(folder / name, name))


def contract_of(name: str, data: bytes) -> Contract:
    """Return the contract in a file.

    Args:
        name: The file, for messages.
        data: The content, as it is read.

    Raises:
        ContractError: It is not a contract.
    """
    return _contract(name, _parsed(name, data))


def read_file(path: Path, name: str) -> bytes:
    """Return the content of a contract's file.

    Raises:
        ContractError: It cannot be read, or is too large.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ContractError(f"{name} cannot be read: {reason}") from None
    if len(data) > MAX_BYTES:
        raise ContractError(f"{name} is larger than {MAX_BYTES} bytes")
    return data


class _Loader(yaml.SafeLoader):  # type: ignore[misc]
    """Reads YAML 1.2 (its core schema): PyYAML reads 1.1, to which `NO` is false.

    Refuses a mapping that has a key twice: the last would take the others' place in silence.
    Refuses mappings that take others' keys by the million: each level of `<<` may multiply them.
    """

    yaml_implicit_resolvers: ClassVar[dict[str, list[tuple[str, re.Pattern[str]]]]] = {}
    _node_count = 0

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        # Here, not where mappings are made: what `<<` names is by then among the keys.
        node = super().compose_mapping_node(anchor)
        keys = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode) or key.tag == _MERGE:
                continue
            if (key.tag, key.value) in keys:
                raise yaml.constructor.ConstructorError(
                    None, None, f"{key.value} occurs twice in a mapping", key.start_mark
                )
            keys.add((key.tag, key.value))
        return node

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        for key, value in list(node.value):
            if key.tag != _MERGE:
                continue
            for other in value.value if isinstance(value, yaml.SequenceNode) else (value,):
                if isinstance(other, yaml.MappingNode):
                    self.flatten_mapping(other)
                    self._node_count += len(other.value)
                if self._node_count > _NODES_MOST:
                    raise yaml.constructor.ConstructorError(
                        None,
                        None,
                        f"mappings take more than {_NODES_MOST} keys of others by <<",
                        key.start_mark,
                    )
        super().flatten_mapping(node)


def _integer(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> int:
    text = loader.construct_scalar(node)
    return int(text, 0) if text[:2] in {"0o", "0x"} else int(text)


def _number(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> float:
    return float(
        loader.construct_scalar(node).lower().replace(".inf", "inf").replace(".nan", "nan")
    )


for _tag, _words, _first in (
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", list("-+0123456789")),
    ("float", r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", list("-+.0123456789")),
    ("float", r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)", list("-+.")),
    ("merge", r"<<", ["<"]),
):
    _Loader.add_implicit_resolver(
        f"tag:yaml.org,2002:{_tag}", re.compile(rf"(?:{_words})\Z"), _first
    )
_Loader.add_constructor("tag:yaml.org,2002:int", _integer)
_Loader.add_constructor("tag:yaml.org,2002:float", _number)


def _parsed(name: str, data: bytes) -> Any:
    try:
        document = yaml.load(data, Loader=_Loader)  # noqa: S506 - a SafeLoader
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f" at line {mark.line + 1}" if mark is not None else ""
        raise ContractError(f"{name} is not YAML{where}: {error.problem}") from None
    except (yaml.YAMLError, ValueError, RecursionError, AttributeError):  # a tag of another value
        raise ContractError(f"{name} is not YAML, or is nested too deeply") from None
    if _is_too_large(document):  # an alias repeats all that it names, each time
        raise ContractError(f"{name} has more than {_NODES_MOST} values, its aliases replaced")
    return document


def _is_too_large(document: Any) -> bool:
    count = 0
    nodes = [document]
    while nodes and count <= _NODES_MOST:
        node = nodes.pop()
        count += 1
        if isinstance(node, dict):
            nodes.extend(node.values())
        elif isinstance(node, list):
            nodes.extend(node)
    return count > _NODES_MOST


def _contract(name: str, document: Any) -> Contract:
    if not isinstance(document, dict) or document.get("kind") != _KIND:
        raise ContractError(f"{name} is not an ODCS contract: it has no kind: {_KIND}")
    api_version = str(document.get("apiVersion", ""))
    match = _VERSION.fullmatch(api_version)
    if match is None:
        raise ContractError(
            f"{name}: apiVersion must be one of ODCS 3.0, 3.1 and 3.2, such as v3.1.0, "
            f"not {api_version!r}"
        )
    if match[1] >= FIRST_VERSION:
        document = resolved(document)
    objects: dict[str, Mapping[str, Any]] = {}
    for entry in listed(document, "schema", name):
        title = entry.get("name")
        if not isinstance(title, str) or not title:
            raise ContractError(f"{name}: an object of schema has no name")
        if title in objects:
            raise ContractError(f"{name}: schema has two objects with the name {title}")
        objects[title] = entry
    if not objects:
        raise ContractError(f"{name}: schema has no object")
    called = document.get("name") or document.get("id") or name
    title = " ".join(str(part) for part in (called, document.get("version")) if part is not None)
    agreed = listed(document, "slaProperties", name)
    return Contract(title[:100], objects, agreed, match[1], document)


def listed(parent: Mapping[str, Any], key: str, where: str) -> list[Mapping[str, Any]]:
    """Return the mappings that a key lists; none where it is not there.

    Raises:
        ContractError: The list has entries of another type.
    """
    entries = parent.get(key)
    if entries is None:
        return []
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise ContractError(f"{where}: {key} must be a list of mappings")
    return entries
