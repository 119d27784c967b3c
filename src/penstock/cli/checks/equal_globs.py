"""What `penstock check` says of globs that are equally long: the alphabet decides between them."""

from __future__ import annotations

from collections import defaultdict
from itertools import chain, combinations, islice, product
from typing import TYPE_CHECKING, Final

from penstock.configuration.globs import is_glob, shared_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from penstock.configuration import TopicDefault


_NAMED_MAX: Final = 20


def equal_globs(defaults: Iterable[TopicDefault]) -> list[str]:
    """Return a warning for each pair of lines between which the alphabet decides, up to a limit.

    Args:
        defaults: The lines `topics.<glob>.<key>`, and those for all topics.
    """
    pairs = list(islice(_pairs(defaults), _NAMED_MAX + 1))
    warnings = [
        f"topics.{first.glob}.{first.key} and topics.{second.glob}.{second.key} are equally long: "
        f"for topics that both match, such as {name}, the alphabetically first holds, {first.glob}"
        for first, second, name in pairs[:_NAMED_MAX]
    ]
    if pairs[_NAMED_MAX:]:
        warnings.append("there are more pairs of globs that are equally long")
    return warnings


def _pairs(defaults: Iterable[TopicDefault]) -> Iterator[tuple[TopicDefault, TopicDefault, str]]:
    """Yield two lines, the alphabetically first one first, and a name that both match."""
    alike: dict[tuple[str, int], list[TopicDefault]] = defaultdict(list)
    for line in defaults:
        alike[line.key, len(line.glob)].append(line)
    for lines in alike.values():
        globs = [line for line in lines if is_glob(line.glob)]
        names = [line for line in lines if not is_glob(line.glob)]
        for pair in chain(combinations(globs, 2), product(globs, names)):
            if pair[0].value == pair[1].value or pair[0].glob == pair[1].glob:
                continue
            name = shared_name(pair[0].glob, pair[1].glob)
            if name is not None:
                yield min(pair), max(pair), name
