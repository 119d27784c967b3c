"""Tags of fields: `metadata.tags` of a registered schema, whose keys are patterns of names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from penstock.policies.schema_policy.errors import InvalidSchemaError

if TYPE_CHECKING:
    from collections.abc import Mapping

_PATTERNS_MOST: Final = 10_000
_PATTERN_LONGEST: Final = 1_000


class TagPatterns(NamedTuple):
    """The tags of `metadata.tags` for the fields whose full names match.

    `?` is one character but a dot, `*` any number of such, `**` any number of any. The full
    name of an Avro field is its record's full name, a dot and its name; of a Protobuf field the
    same; of a JSON property its path from `$`.
    Source: `metadata` of Confluent's data contracts, `WildcardMatcher` of its clients.

    Attributes:
        exact: Tags by full name, of the patterns without any wildcard.
    """

    exact: Mapping[str, frozenset[str]]
    wildcards: tuple[tuple[str, frozenset[str]], ...]

    def of(self, full_name: str) -> frozenset[str]:
        """Return the tags of a field."""
        tags = self.exact.get(full_name, frozenset())
        for pattern, pattern_tags in self.wildcards:
            if not pattern_tags <= tags and matches(full_name, pattern):
                tags |= pattern_tags
        return tags


def read_patterns(metadata: Mapping[str, Any]) -> TagPatterns:
    """Read `metadata.tags`.

    Raises:
        InvalidSchemaError: It is not `{pattern: [tag]}`, or there are too many or too long entries.
    """
    declared = metadata.get("tags") or {}
    if not isinstance(declared, dict) or len(declared) > _PATTERNS_MOST:
        raise InvalidSchemaError(f"metadata.tags is not a map of at most {_PATTERNS_MOST} patterns")
    exact: dict[str, frozenset[str]] = {}
    wildcards = []
    for pattern, tags in declared.items():
        if len(pattern) > _PATTERN_LONGEST:
            raise InvalidSchemaError(
                f"a pattern of metadata.tags has more than {_PATTERN_LONGEST} characters"
            )
        if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
            raise InvalidSchemaError("a pattern of metadata.tags has no list of tags")
        if "*" in pattern or "?" in pattern:
            wildcards.append((pattern, frozenset(tags)))
        else:
            exact[pattern] = frozenset(tags)
    return TagPatterns(exact, tuple(wildcards))


def matches(name: str, pattern: str) -> bool:
    """Return whether a pattern matches a complete name.

    The positions that may have been reached are followed through the pattern together, so the
    work is at most the product of the two lengths.
    """
    pattern = pattern.replace("**.*", "**")
    reached = {0}
    position = 0
    while position < len(pattern) and reached:
        step = pattern[position]
        position += 1
        if step == "*":
            if pattern.startswith("*", position):
                position += 1
                reached = set(range(min(reached), len(name) + 1))
            else:
                reached = _within_part(name, reached)
        elif step == "?":
            reached = {end + 1 for end in reached if end < len(name) and name[end] != "."}
        else:
            reached = {end + 1 for end in reached if end < len(name) and name[end] == step}
    return len(name) in reached


def _within_part(name: str, reached: set[int]) -> set[int]:
    ends = set()
    for start in reached:
        end = start
        while end not in ends:
            ends.add(end)
            if end == len(name) or name[end] == ".":
                break
            end += 1
    return ends
