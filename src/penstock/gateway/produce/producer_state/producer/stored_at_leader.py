"""Batches that are stored according to their leader alone.

A leader also counts records that its replicas do not have yet, and that may be lost with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.gateway.produce.producer_state.producer.numbers import distance

if TYPE_CHECKING:
    from collections.abc import Iterable

REPLICATED_AFTER_S: Final = 30.0
"""By then a leader has given up replicas that lag (`replica.lag.time.max.ms`)."""
UNSETTLED_MAX: Final = 32
"""The most unsettled batches of a producer; clients have at most five in flight (KIP-98)."""


class StoredAtLeader:
    """The batches of a producer that got a retriable error here, and that its leader has."""

    __slots__ = ("_since",)

    def __init__(self) -> None:
        """Know none."""
        self._since: dict[int, float] = {}  # by first sequence number

    def __len__(self) -> int:
        return len(self._since)

    def __contains__(self, first: int) -> bool:
        return first in self._since

    def add(self, first_numbers: Iterable[int], now: float) -> None:
        """Add batches.

        Args:
            first_numbers: Their first sequence numbers.
            now: The time in seconds.
        """
        for first in first_numbers:
            self._since.setdefault(first, now)
        # Where there are more than any client has in flight, all count as the first.
        if len(self._since) > UNSETTLED_MAX:
            self._since = {next(iter(self._since)): max(self._since.values())}

    def remove(self, first: int) -> None:
        """Remove a batch, which has to be retried."""
        self._since.pop(first, None)

    def remove_before(self, number: int) -> None:
        """Remove the batches before a sequence number."""
        if self._since:
            self._since = {
                first: start for first, start in self._since.items() if distance(first, number) <= 0
            }

    def begin_again(self, now: float) -> None:
        """Record that the leader may have lost records: only from now on it can be right."""
        self._since = dict.fromkeys(self._since, now)

    def are_replicated_before(self, number: int, now: float) -> bool:
        """Whether those before a sequence number are certain not to be lost with the leader."""
        return not any(
            distance(first, number) > 0 and start > now - REPLICATED_AFTER_S
            for first, start in self._since.items()
        )

    def is_replicated(self, first: int, now: float) -> bool:
        """Whether a batch is certain not to be lost with the leader."""
        return self._since.get(first, now) <= now - REPLICATED_AFTER_S
