"""Payloads put through a function that C calls for one after the other, as long as it says yes."""

from __future__ import annotations

from operator import length_hint
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

Payload = TypeVar("Payload")


def not_accepted(
    payloads: Sequence[Payload], verdicts: Callable[[Iterator[Payload]], Iterator[bool]]
) -> Iterator[int]:
    """Yield the positions of payloads that a fast way does not accept.

    Args:
        payloads: A list or a tuple, whose iterators know how much is left. Each is judged once.
        verdicts: Gives what the fast way says of each, one after the other. To raise an exception
            means no as well.
    """
    left = iter(payloads)
    while True:
        try:
            if all(verdicts(left)):
                return
        except Exception:  # noqa: S110 - no answer: the slow way has one
            pass
        yield len(payloads) - length_hint(left) - 1
