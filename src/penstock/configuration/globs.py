"""Globs for names of topics: what they match, in words, and how two of them relate.

`*` is any characters, `?` is one, and `[...]` is one of some, as in `fnmatch`.
"""

from __future__ import annotations

import re
from collections import deque
from fnmatch import fnmatchcase
from functools import lru_cache
from itertools import groupby
from string import ascii_letters, digits
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

LEGAL: Final = frozenset(ascii_letters + digits + "._-")
"""The characters of topics' names."""
_NAME_MAX: Final = 249
_PART: Final = re.compile(r"\[!?\]?[^\]]*\]|.", re.DOTALL)
_ANY: Final = "*"
_ONE: Final = "?"
_WILDCARDS: Final = frozenset("*?[")
_MEANINGLESS: Final = {
    "^": "it matches the whole name, so ^ has no meaning",
    "$": "it matches the whole name, so $ has no meaning",
    "|": "write a line for each of the globs that | separates",
    "+": "* is any characters, and ? is one",
    "\\": "a . is a . without a \\",
    "(": "write a line for each glob",
    ")": "write a line for each glob",
}
"""What to write for what only regular expressions have."""
_SEVERAL: Final = frozenset(",{}")


class _Part(NamedTuple):
    """A part of a glob.

    Attributes:
        text: As it is written.
        characters: Those of which a name has one; None for any number of any characters.
    """

    text: str
    characters: frozenset[str] | None

    @property
    def is_literal(self) -> bool:
        return self.text[0] not in _WILDCARDS


@lru_cache(10_000)
def _parts(glob: str) -> tuple[_Part, ...]:
    return tuple(
        _Part(text, None if text == _ANY else _characters(text)) for text in _PART.findall(glob)
    )


@lru_cache(1000)
def _characters(part: str) -> frozenset[str]:
    return frozenset(character for character in LEGAL if fnmatchcase(character, part))


def is_glob(name: str) -> bool:
    """Return whether a topic's name in the file or an option is a glob.

    No topic's name has these characters.
    """
    return not _WILDCARDS.isdisjoint(name)


def check_glob(glob: str) -> str:
    """Return a glob, or the name of a topic.

    Raises:
        ValueError: It can match no topic, and is not a regular expression either; the text
            completes the sentence "<glob> ...".
    """
    parts = _parts(glob)
    if any(part.text in _SEVERAL for part in parts):
        raise ValueError(
            "is not one name or glob, and matches no topic: write a line for each (a list or braces"
            " have no meaning)"
        )
    for part in parts:
        if part.characters is not None and not part.characters and part.text not in _MEANINGLESS:
            hint = " without its ]" if part.text == "[" else ""
            raise ValueError(f"matches no topic: no topic's name has {part.text}{hint}")
    if sum(part.characters is not None for part in parts) > _NAME_MAX:
        raise ValueError(f"matches no topic: a name has {_NAME_MAX} characters at most")
    return glob


def meaningless_in(glob: str) -> str:
    """Return what only a regular expression has, with what to write instead; empty without it."""
    hints = {_MEANINGLESS[part.text]: None for part in _parts(glob) if part.text in _MEANINGLESS}
    if not hints:
        return ""
    return f"is a glob, not a regular expression, and matches no topic: {'; '.join(hints)}"


def in_words(glob: str) -> str:
    """Return which names a glob matches; empty for the name of a single topic."""
    if not is_glob(glob):
        return ""
    words = [*_words(_parts(glob))]
    match words:
        case ["any characters"]:
            return "all names"
        case [first, "any characters"] if first[0] == '"':
            return f"names that begin with {first}"
        case ["any characters", last] if last[0] == '"':
            return f"names that end with {last}"
        case ["any characters", middle, "any characters"] if middle[0] == '"':
            return f"names with {middle} in them"
    return f"names of {', then '.join(words)}"


def _words(parts: Sequence[_Part]) -> Iterator[str]:
    for kind, group in groupby(parts, _kind):
        texts = [part.text for part in group]
        if kind == _ANY:
            yield "any characters"
        elif kind == _ONE:
            yield "one character" if len(texts) == 1 else f"{len(texts)} characters"
        elif kind:
            yield from map(_one_of, texts)
        else:
            yield f'"{"".join(texts)}"'


def _kind(part: _Part) -> str:
    return "" if part.is_literal or part.text == "[" else part.text[0]


def _one_of(part: str) -> str:
    content = part[1:-1]
    if content.startswith("!"):
        return f"a character other than {content[1:]}"
    return f"a character of {content}"


def covers(glob: str, other: str) -> bool:
    """Return whether a glob matches each name that another matches.

    True only if it is certain. Where no glob has `[...]`, False is certain, too.
    """
    start, end = _ends_of(glob)
    if not (other.startswith(start) and other.endswith(end)):
        return False
    names = [part.characters for part in _parts(other)]
    if all(characters is None for characters in names):
        names.append(LEGAL)  # no name is empty
    suffix_matches = [False] * len(names) + [True]
    for step in reversed(_covering(glob)):
        if isinstance(step, int):
            here = [any(suffix_matches[end:]) for end in _ends(names, step)]
        else:
            here = [
                characters is not None and characters <= step and follows
                for characters, follows in zip(names, suffix_matches[1:], strict=True)
            ]
            here.append(False)
        suffix_matches = here
    return suffix_matches[0]


@lru_cache(10_000)
def _ends_of(glob: str) -> tuple[str, str]:
    """Return the characters with which all names that a glob matches begin and end."""
    literal = re.split(r"[*?\[\]]", glob)
    return literal[0], literal[-1]


@lru_cache(10_000)
def _covering(glob: str) -> tuple[frozenset[str] | int, ...]:
    """Return the steps of a glob: a character of some, or at least so many of any."""
    steps: list[frozenset[str] | int] = []
    for is_run, group in groupby(_parts(glob), lambda part: part.text in {_ANY, _ONE}):
        parts = list(group)
        is_open = is_run and any(part.characters is None for part in parts)
        singles = [part.characters for part in parts if part.characters is not None]
        steps += [len(singles)] if is_open else singles
    return tuple(steps)


def _ends(names: Sequence[frozenset[str] | None], least: int) -> Iterator[int]:
    """Yield where each part's first end is that has at least so many characters before it."""
    for start in range(len(names) + 1):
        end, count = start, 0
        while count < least and end < len(names):
            count += names[end] is not None
            end += 1
        yield end if count == least else len(names) + 1


def shared_name(glob: str, other: str) -> str | None:
    """Return a name that two globs match; None if there is none."""
    starts = _ends_of(glob)[0], _ends_of(other)[0]
    if not (starts[0].startswith(starts[1]) or starts[1].startswith(starts[0])):
        return None
    first, second = _parts(glob), _parts(other)
    queue = deque([(0, 0, "")])
    seen_positions = {(0, 0)}
    while queue:
        index, other_index, name = queue.popleft()
        if index == len(first) and other_index == len(second):
            return name or "a"
        for step in _steps(first, second, index, other_index):
            if step[:2] not in seen_positions:
                seen_positions.add(step[:2])
                queue.append((step[0], step[1], name + step[2]))
    return None


def _steps(
    first: Sequence[_Part], second: Sequence[_Part], index: int, other_index: int
) -> Iterator[tuple[int, int, str]]:
    """Yield the positions that may follow in two globs, with the character between."""
    part = first[index] if index < len(first) else None
    part_of_other = second[other_index] if other_index < len(second) else None
    if part is not None and part.characters is None:
        yield index + 1, other_index, ""
    if part_of_other is not None and part_of_other.characters is None:
        yield index, other_index + 1, ""
    if part is None or part_of_other is None:
        return
    both = LEGAL if part.characters is None else part.characters
    both = both if part_of_other.characters is None else both & part_of_other.characters
    if both:
        yield (
            index + (part.characters is not None),
            other_index + (part_of_other.characters is not None),
            max(both),
        )
