"""Batches that are stored according to their leader alone.

A leader also counts records that its replicas do not have yet, and that may be lost with it.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from penstock.gateway.produce.producer_state.producer.numbers import distance

REPLICATED_AFTER_S: Final = 30.0
"""By then a leader has given up replicas that lag (`replica.lag.time.max.ms`)."""
UNSETTLED_MAX: Final = 32
"""The most unsettled batches of a producer; clients have at most five in flight (KIP-98)."""


class _Claim(NamedTuple):
    """What a leader says of a batch: that it has stored it.

    Attributes:
        start: Since when it says so, in seconds.
        last: It has the batch as long as it has this sequence number, which is the broker's.
    """

    start: float
    last: int


class StoredAtLeader:
    """The batches of a producer that got a retriable error here, and that its leader has."""

    __slots__ = ("_claims",)

    def __init__(self) -> None:
        """Know none."""
        self._claims: dict[int, _Claim] = {}  # by first sequence number

    def __len__(self) -> int:
        return len(self._claims)

    def __contains__(self, first: int) -> bool:
        return first in self._claims

    def add(self, first: int, last: int, now: float) -> None:
        """Add a batch; if it is known, its time does not begin again.

        Args:
            first: Its first sequence number.
            last: The broker's sequence number up to which its leader has all batches.
            now: The time in seconds.
        """
        self._claims.setdefault(first, _Claim(now, last))
        # Where there are more than any client has in flight, all count as the first.
        if len(self._claims) > UNSETTLED_MAX:
            start = max(claim.start for claim in self._claims.values())
            self._claims = {next(iter(self._claims)): _Claim(start, last)}

    def remove(self, first: int) -> None:
        """Remove a batch, which has to be retried."""
        self._claims.pop(first, None)

    def remove_before(self, number: int) -> None:
        """Remove the batches before a sequence number."""
        if self._claims:
            self._claims = {
                first: claim
                for first, claim in self._claims.items()
                if distance(first, number) <= 0
            }

    def on_last_sequence(self, last_sequence: int | None, now: float) -> None:
        """Apply the last sequence number that the leader has stored now.

        If it has lost a batch that it had, only from now on it can be right about that batch. That
        it lacks later batches says nothing: they may not have been sent to it.

        Args:
            last_sequence: Its last sequence number; None if it has none.
            now: The time in seconds.
        """
        for first, claim in self._claims.items():
            if last_sequence is None or distance(last_sequence, claim.last) > 0:
                self._claims[first] = claim._replace(start=now)

    def are_replicated_before(self, number: int, now: float) -> bool:
        """Whether those before a sequence number are certain not to be lost with the leader."""
        return not any(
            distance(first, number) > 0 and claim.start > now - REPLICATED_AFTER_S
            for first, claim in self._claims.items()
        )

    def is_replicated(self, first: int, now: float) -> bool:
        """Whether a batch is certain not to be lost with the leader."""
        claim = self._claims.get(first)
        return claim is not None and claim.start <= now - REPLICATED_AFTER_S
