"""Read the results of policies that judge columns: nothing passes by mistake."""

from __future__ import annotations

from operator import index
from typing import TYPE_CHECKING, Any

from penstock.engine.plans.loading import PolicyMistakeError

if TYPE_CHECKING:
    from collections.abc import Iterator


class AnswerError(PolicyMistakeError):
    """A policy returned a result that its interface does not allow."""


def read_objections(answer: Any, count: int) -> dict[int, str | None]:
    """Read what `validate_batch` returned.

    Args:
        answer: An iterable of positions and messages, which may raise anything.
        count: The number of records in the batch.

    Returns:
        The first message by position.

    Raises:
        AnswerError: It has another type.
    """
    messages: dict[int, str | None] = {}
    for position, message in _pairs(answer, count, "validate_batch", "a message"):
        if message is not None and not isinstance(message, str):
            raise AnswerError(
                f"validate_batch() returned {type(message).__name__} as the message for position "
                f"{position}; it must be a str or None"
            )
        messages.setdefault(position, message if message is None else str(message))
    return messages


def read_results(answer: Any, count: int) -> dict[int, Any]:
    """Read what `process_batch` returned.

    Args:
        answer: An iterable of positions and results, which may raise anything.
        count: The number of records in the batch.

    Returns:
        The results by position, unchanged.

    Raises:
        AnswerError: It has another type, or has a position twice.
    """
    results: dict[int, Any] = {}
    for position, result in _pairs(answer, count, "process_batch", "a result"):
        if position in results:
            raise AnswerError(f"process_batch() returned two results for position {position}")
        results[position] = result
    return results


def _pairs(answer: Any, count: int, method: str, second: str) -> Iterator[tuple[int, Any]]:
    if not hasattr(answer, "__iter__"):
        raise AnswerError(
            f"{method}() returned {type(answer).__name__}; it must return an iterable, which can "
            "be empty"
        )
    for entry in answer:
        if isinstance(entry, (str, bytes)) or not hasattr(entry, "__len__") or len(entry) != 2:
            raise AnswerError(
                f"{method}() returned {type(entry).__name__}; it must return pairs of a position "
                f"and {second}"
            )
        position, other = entry
        yield _position(position, count, method), other


def _position(value: Any, count: int, method: str) -> int:
    """Return a position as int: NumPy's integers are welcome, truth values are not."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise AnswerError(
            f"{method}() returned {type(value).__name__} as a position; it must be an int"
        )
    position = index(value)
    if not 0 <= position < count:
        raise AnswerError(f"{method}() returned position {position} in a batch of {count} records")
    return position


def returned_error(value: object, refusal: type[Exception]) -> AnswerError:
    """Return the error of a `validate` that returns a value: it may have meant a refusal.

    Args:
        value: What it returned.
        refusal: What the method raises to refuse.
    """
    name = value.__name__ if isinstance(value, type) else type(value).__name__
    return AnswerError(
        f"validate() returned {name}; it must return None, and raise {refusal.__name__} to refuse"
    )
