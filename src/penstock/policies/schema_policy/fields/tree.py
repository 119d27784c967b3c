"""The fields of a schema as a graph, the same for Avro, JSON Schema and Protobuf."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

PRIMITIVE: Final = frozenset(
    {"INT", "LONG", "FLOAT", "DOUBLE", "BOOLEAN", "NULL", "STRING", "BYTES"}
)
"""Types of Confluent's `FieldType` that are primitive: CEL_FIELD rules are evaluated over these."""


class InlineRule(NamedTuple):
    """A check that a schema declares inline: `confluent:rules`, `(confluent.field_meta).rules`.

    Source: Confluent's `ValidationRule`. Its `sql` is for other programs.
    """

    name: str
    doc: str
    expr: str


@dataclass(eq=False, slots=True)
class Node:
    """A part of a schema. Recursive schemas are cycles of nodes.

    Attributes:
        type_name: The name in Confluent's `FieldType`.
        name: Avro's full name of a record, enum or fixed.
        fields: Of a record, message or object.
        items: Of an array.
        values: Of a map, or of the properties that are not declared.
        alternatives: Branches of a union; `allOf`, `anyOf`, `oneOf`, `$ref`.
        every: Whether all alternatives hold that fit, not the first of them only.
        nullable: Whether null is valid here.
        rules: Checks of the record, message or object.
        zero: The value that means no value if null is not allowed, for Avro's enums and fixed.
        fits: Whether a value may belong to this part; distinguishes alternatives.
        logical: Of Avro: the declaration of a type that names a logical type.
    """

    type_name: str = "NULL"
    name: str = ""
    fields: list[Field] = field(default_factory=list)
    items: Node | None = None
    values: Node | None = None
    alternatives: list[Node] = field(default_factory=list)
    every: bool = False
    nullable: bool = False
    rules: tuple[InlineRule, ...] = ()
    zero: str | bytes | None = None
    fits: Callable[[Any], bool] = lambda _value: True
    logical: Mapping[str, Any] | None = None

    @property
    def is_leaf(self) -> bool:
        """Whether nothing is below."""
        return not (self.fields or self.items or self.values or self.alternatives)

    def below(self) -> Iterator[Node]:
        """Yield the nodes directly below."""
        for inner in self.fields:
            yield inner.node
        if self.items is not None:
            yield self.items
        if self.values is not None:
            yield self.values
        yield from self.alternatives

    def alternatives_of(self, value: Any) -> Iterator[Node]:
        """Yield the alternatives that a value may be one of.

        fastavro returns a name and a value where the value alone would not show the branch.
        """
        if isinstance(value, tuple) and len(value) == 2:
            yield from (branch for branch in self.alternatives if branch.name == value[0])
            return
        for alternative in self.alternatives:
            if alternative.fits(value):
                yield alternative
                if not self.every:
                    return


@dataclass(eq=False, slots=True)
class Field:
    """A field of a record, message or object.

    Attributes:
        full_name: Its name in patterns of `metadata.tags` and in rules: `com.acme.User.ssn`,
            `$.address.zip`.
        tags: Inline tags, and those of `metadata.tags`.
        rules: Checks of its value.
        descriptor: Protobuf's descriptor of it.
        is_value: Whether it is the value itself: no declared property, but with its own tags.
    """

    name: str
    full_name: str
    node: Node
    tags: frozenset[str] = frozenset()
    rules: tuple[InlineRule, ...] = ()
    descriptor: Any = None
    is_value: bool = False


def reachable(root: Node) -> list[Node]:
    """Return all nodes of a graph."""
    nodes = {id(root): root}
    pending_nodes = [root]
    while pending_nodes:
        for node in pending_nodes.pop().below():
            if id(node) not in nodes:
                nodes[id(node)] = node
                pending_nodes.append(node)
    return list(nodes.values())


def leading_to(
    nodes: Iterable[Node],
    wanted_field: Callable[[Field], bool],
    wanted_node: Callable[[Node], bool] = lambda _node: False,
) -> frozenset[int]:
    """Return the identities of nodes that lead to selected parts; the others can be skipped.

    Args:
        nodes: All nodes of a graph.
        wanted_field: Whether a field is selected.
        wanted_node: Whether a record, message or object itself is selected.
    """
    above: dict[int, list[Node]] = {}
    pending_nodes = []
    identities = set()
    for node in nodes:
        for inner in node.below():
            above.setdefault(id(inner), []).append(node)
        if wanted_node(node) or any(wanted_field(inner) for inner in node.fields):
            identities.add(id(node))
            pending_nodes.append(node)
    while pending_nodes:
        for node in above.get(id(pending_nodes.pop()), ()):
            if id(node) not in identities:
                identities.add(id(node))
                pending_nodes.append(node)
    return frozenset(identities)


def read_inline_rules(declared: Any) -> tuple[InlineRule, ...]:
    """Read the rules under `confluent:rules`; other entries are ignored, as Confluent's does."""
    if not isinstance(declared, list):
        return ()
    return tuple(
        InlineRule(_text(entry.get("name")), _text(entry.get("doc")), _text(entry.get("expr")))
        for entry in declared
        if isinstance(entry, dict)
    )


def read_inline_tags(declared: Any) -> frozenset[str]:
    """Read the tags under `confluent:tags`."""
    if isinstance(declared, str):
        return frozenset((declared,))
    if not isinstance(declared, list):
        return frozenset()
    return frozenset(tag for tag in declared if isinstance(tag, str))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
