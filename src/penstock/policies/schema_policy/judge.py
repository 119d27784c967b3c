"""Judges the keys or the values of one topic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from penstock.policies.schema_policy.payloads.compiled import CompiledSchema
    from penstock.policy import Header

    Column = Sequence[bytes | None]
    Headers = Sequence[Sequence[Header]]


class Judge(Protocol):
    """What judges one side of a topic's records: their keys, or their values."""

    @property
    def reads_headers(self) -> bool:
        """Whether an id may be in a header."""
        ...

    def prepare(self, column: Column, headers: Headers) -> None:
        """Look up what is needed to judge these.

        Raises:
            RetriableException: It cannot be looked up now.
        """
        ...

    def objections(self, column: Column, headers: Headers) -> Iterable[tuple[int, str]]:
        """Give the positions of what is refused, each with a message.

        Args:
            column: Keys or values. Nulls are passed over.
            headers: Of the same records; empty unless `reads_headers`.

        Raises:
            RetriableException: What is needed cannot be looked up now.
        """
        ...

    def describe(self) -> Iterable[str]:
        """Give lines that say what is judged by.

        Raises:
            RetriableException: It cannot be looked up now.
        """
        ...


def side_of(*, is_key: bool) -> str:
    """Return what is judged, as messages call it."""
    return "key" if is_key else "value"


class FileJudge:
    """Judges by a schema that is in a file: the whole of a value is the payload."""

    reads_headers = False

    def __init__(self, compiled: CompiledSchema, name: str, *, is_key: bool) -> None:
        self._compiled = compiled
        side = side_of(is_key=is_key)
        self._describes = f"{side}: {name}"
        self._begins = f"the {side} does not fit schema {name}: "

    def describe(self) -> Iterable[str]:
        """Return what `Judge.describe` says."""
        return (self._describes,)

    def prepare(self, column: Column, headers: Headers) -> None:
        """Do nothing: all is there."""

    def objections(self, column: Column, headers: Headers) -> Iterable[tuple[int, str]]:
        """Yield what `Judge.objections` says."""
        del headers
        positions = [index for index, data in enumerate(column) if data is not None]
        payloads = [data for data in column if data is not None]
        for index, message in self._compiled.objections(payloads):
            yield positions[index], self._begins + message
