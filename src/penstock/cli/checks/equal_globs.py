"""What `penstock check` says of globs that are equally long: the alphabet decides between them."""

from __future__ import annotations

from collections import defaultdict
from itertools import combinations
from typing import TYPE_CHECKING

from penstock.configuration.globs import is_glob, shared_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from penstock.configuration import TopicDefault


def equal_globs(defaults: Iterable[TopicDefault]) -> Iterator[str]:
    """Yield a warning for each pair of lines between which the alphabet decides.

    Args:
        defaults: The lines `topics.<glob>.<key>`, and those for all topics.
    """
    alike: dict[tuple[str, int], list[TopicDefault]] = defaultdict(list)
    for line in sorted(defaults):
        alike[line.key, len(line.glob)].append(line)
    for (key, _), lines in alike.items():
        for first, second in combinations(lines, 2):
            if first.value == second.value or not (is_glob(first.glob) or is_glob(second.glob)):
                continue
            name = shared_name(first.glob, second.glob)
            if name is not None and first.glob != second.glob:
                yield (
                    f"topics.{first.glob}.{key} and topics.{second.glob}.{key} are equally long: "
                    f"for topics that both match, such as {name}, the alphabetically first holds, "
                    f"{first.glob}"
                )
