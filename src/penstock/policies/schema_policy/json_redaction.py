"""JSON texts with the fields of some tags replaced, and every other byte as it was."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from penstock.policies.json_places import JsonPlaces, Way, replace, write
from penstock.policies.schema_policy.redaction import Redaction

if TYPE_CHECKING:
    from penstock.policies.json_places import Place
    from penstock.policies.schema_policy.fields.tree import Node


class JsonRedaction:
    """Replaces the values of fields with given tags, as `Redaction` does.

    All branches of a schema apply to a value. A property that occurs several times is replaced each
    time.
    """

    def __init__(self, root: Node, tags: frozenset[str], replacement: str) -> None:
        """Set the fields.

        Args:
            root: The fields of the schema, as they are read for redaction.
            tags: Fields with any of these are replaced.
            replacement: The replacement of strings.
        """
        self._tags = tags
        self._redaction = Redaction(root, tags, replacement)
        self._nodes: list[Node] = []
        self._ways: dict[int, Way] = {}
        self._places = JsonPlaces(self._way(root))

    def apply(self, payload: bytes) -> bytes:
        """Return a payload with the fields replaced.

        Raises:
            ValueError: It is not JSON.
            RecursionError: It has thousands of levels.
        """
        text = payload.decode()
        places = self._places.find(text)
        return replace(text, places, self._replacement_of).encode() if places else payload

    def _replacement_of(self, text: str, place: Place) -> str:
        value = _DECODER.decode(text)
        if value is None:
            return text
        for number in place.paths:
            value = self._redaction.replace(self._nodes[number], value)
        return write(value)

    def _way(self, root: Node) -> Way:
        """Return the way from a value that a node and all its branches are about."""
        if id(root) in self._ways:
            return self._ways[id(root)]
        way = self._ways[id(root)] = Way()
        ends: list[int] = []
        fields: dict[str, list[Way]] = {}
        otherwise: list[Way] = []
        items: list[Way] = []
        queue, passed = [root], set[int]()
        while queue:
            node = queue.pop(0)
            if id(node) in passed or not self._redaction.leads_on(node):
                continue
            passed.add(id(node))
            queue += node.alternatives
            items += map(self._way, filter(None, (node.items,)))
            otherwise += map(self._way, filter(None, (node.values,)))
            for field in node.fields:
                is_tagged = not self._tags.isdisjoint(field.tags)
                if not field.is_value:
                    below = self._end(field.node) if is_tagged else self._way(field.node)
                    fields.setdefault(field.name, []).append(below)
                elif is_tagged:
                    ends.append(self._number(field.node))
                else:
                    queue.append(field.node)
        way.lead(ends, fields, otherwise, items)
        return way

    def _end(self, node: Node) -> Way:
        way = Way()
        way.lead((self._number(node),))
        return way

    def _number(self, node: Node) -> int:
        self._nodes.append(node)
        return len(self._nodes) - 1


_DECODER: Final = json.JSONDecoder(parse_int=lambda _: 0, parse_float=lambda _: 0.0)
"""Numbers are replaced whatever they are."""
