"""What `penstock check` says of globs that are equally long: the alphabet decides between them."""

from __future__ import annotations

from collections import defaultdict
from itertools import combinations, product
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
    for line in defaults:
        alike[line.key, len(line.glob)].append(line)
    for (key, _), lines in alike.items():
        globs = [line for line in lines if is_glob(line.glob)]
        names = [line for line in lines if not is_glob(line.glob)]
        for pair in (*combinations(globs, 2), *product(globs, names)):
            first, second = sorted(pair)
            if first.value == second.value or first.glob == second.glob:
                continue
            name = shared_name(first.glob, second.glob)
            if name is not None:
                yield (
                    f"topics.{first.glob}.{key} and topics.{second.glob}.{key} are equally long: "
                    f"for topics that both match, such as {name}, the alphabetically first holds, "
                    f"{first.glob}"
                )
