"""Refusals that a waiting client gets again and again: one record a minute, with their count.

A client that waits for a topic requests it several times a second. The first refusal is written at
once. Those after it are counted, for each topic, client and policy, and written with the last.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.engine.verdict import bounded
from penstock.gateway.observing.audit_trail.record import NAME_MAX_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.gateway.refusal_log import Refused

EVERY_S: Final = 60.0
KEPT_MAX: Final = 1000
"""As many topics and clients are counted; the refusals of all others are written at once."""


class _Key(NamedTuple):
    """The fields by which refusals are counted together."""

    topic: str
    principal: str | None
    client_id: str | None
    address: str | None
    policy: str
    outcome: str
    code: int


@dataclass(frozen=True, slots=True)
class RepeatedRefusal:
    """Refusals that are written as one record.

    Attributes:
        count: How many they are.
        at_s: When the last was, in seconds since the epoch.
    """

    last: Refused
    count: int
    at_s: float


@dataclass(slots=True)
class _Counted:
    """The refusals since the last record."""

    due_s: float
    found: RepeatedRefusal | None = None


class RepeatedRefusals:
    """The refusals since their last records. It is not safe for threads."""

    def __init__(self) -> None:
        self._counted: dict[_Key, _Counted] = {}
        """By the time at which they are due."""

    def put(self, refused: Refused, now_s: float, at_s: float) -> bool:
        """Count a refusal; return False if it is to be written at once instead.

        Args:
            now_s: The monotonic time in seconds.
            at_s: The time in seconds since the epoch.
        """
        refused = _bounded(refused)
        key = _key_of(refused)
        counter = self._counted.get(key)
        if counter is None:
            if len(self._counted) < KEPT_MAX:
                self._counted[key] = _Counted(now_s + EVERY_S)
            return False
        count = 1 if counter.found is None else counter.found.count + 1
        counter.found = RepeatedRefusal(refused, count, at_s)
        return True

    @property
    def due_s(self) -> float | None:
        """The monotonic time from which `take_due` has something to do; None for never."""
        return next((counter.due_s for counter in self._counted.values()), None)

    def take_due(self, now_s: float) -> Iterator[RepeatedRefusal]:
        """Return the counts of a minute that is over, and begin the next; forget who stopped."""
        while (due_s := self.due_s) is not None and due_s <= now_s:
            key, counter = next(iter(self._counted.items()))
            del self._counted[key]
            if counter.found is not None:
                self._counted[key] = _Counted(now_s + EVERY_S)
                yield counter.found

    def take_all(self) -> Iterator[RepeatedRefusal]:
        """Return all counts, at the end."""
        for counter in self._counted.values():
            if counter.found is not None:
                yield counter.found
        self._counted.clear()


def _bounded(refused: Refused) -> Refused:
    """Return a refusal whose names are no longer than in its record: clients choose them."""
    return replace(
        refused,
        topic=bounded(refused.topic, NAME_MAX_BYTES) or "",
        client_id=bounded(refused.client_id, NAME_MAX_BYTES),
        principal=bounded(refused.principal, NAME_MAX_BYTES),
    )


def _key_of(refused: Refused) -> _Key:
    verdict = refused.verdict
    return _Key(
        refused.topic,
        refused.principal,
        refused.client_id,
        refused.address,
        verdict.policy,
        verdict.outcome.value,
        verdict.code,
    )
