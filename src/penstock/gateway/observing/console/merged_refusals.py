"""The refusals of several gateways: a row for each reason, as if one gateway had seen all.

What changed is merged again, and nothing else: every refusal of this gateway may change a row.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from penstock.gateway.observing.console.merging import merge_rows, reason_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    Reason = tuple[Any, ...]
    Row = Mapping[str, Any]

ROWS_SHOWN_MAX: Final = 600
"""As many as the page keeps; the latest."""


class MergedRefusals:
    """The rows by reason, each with a number that it keeps."""

    def __init__(self) -> None:
        self._rows: dict[Reason, dict[str, Row]] = {}
        self._numbers: dict[Reason, int] = {}
        self._last_number = 0
        self._changed: dict[Reason, None] = {}
        self._others: dict[str, int] = {}
        self._without_room = 0

    @property
    def others(self) -> int:
        """How many refusals have no row: in their gateways, or here."""
        return sum(self._others.values()) + self._without_room

    def put(self, name: str, rows: Iterable[Row], others: int) -> None:
        """Take rows of a gateway that changed.

        Args:
            name: The gateway's.
            rows: Those of them that it has now.
            others: How many of its refusals have no row.
        """
        self._others[name] = others
        for row in rows:
            reason = reason_of(row)
            parts = self._rows.get(reason)
            if parts is None:
                self._last_number += 1
                self._numbers[reason] = self._last_number
                parts = self._rows[reason] = {}
            if parts.get(name) != row:
                parts[name] = row
                self._changed[reason] = None

    def replace(self, name: str, rows: Iterable[Row], others: int) -> None:
        """Take all rows of a gateway; those that it no longer has are forgotten."""
        rows_by_reason = {reason_of(row): row for row in rows}
        for reason, parts in list(self._rows.items()):
            if name in parts and reason not in rows_by_reason:
                del parts[name]
                if not parts:
                    del self._rows[reason], self._numbers[reason]
                    self._changed.pop(reason, None)
        self.put(name, rows_by_reason.values(), others)

    def count_of(self, name: str) -> int:
        """Return how many rows a gateway has."""
        return sum(name in parts for parts in self._rows.values())

    def take_changed(self, rows_max: int) -> list[dict[str, Any]]:
        """Return rows that changed since they were last returned, those that were seen last last.

        Args:
            rows_max: The most rows; the others are returned by the next call.
        """
        reasons = list(islice(self._changed, rows_max))
        changed_rows = [self._merged(reason) for reason in reasons]
        for reason in reasons:
            del self._changed[reason]
        return sorted(changed_rows, key=lambda row: row["last"])

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows, those that were seen last first."""
        rows = sorted(map(self._merged, self._rows), key=lambda row: row["last"], reverse=True)
        self._without_room = sum(row["count"] for row in rows[ROWS_SHOWN_MAX:])
        return rows[:ROWS_SHOWN_MAX]

    def _merged(self, reason: Reason) -> dict[str, Any]:
        return {**merge_rows(list(self._rows[reason].values())), "id": self._numbers[reason]}
