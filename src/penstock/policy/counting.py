"""Counts what policies do, for the metrics of the gateway."""

from __future__ import annotations

from threading import Lock
from typing import Final

EVENTS_MAX: Final = 100
"""More kinds of events of one process are counted together, as ``(other)``."""
OTHER: Final = "(other)"
_TEXT_MAX: Final = 100
_lock = Lock()
_kinds: set[tuple[str, str]] = set()
_counted: dict[tuple[str, str], int] = {}


def count_event(event: str, result: str = "", amount: int = 1) -> None:
    """Count something that a policy does, such as a look-up.

    In a gateway it is seen at ``metrics.listener`` as
    ``penstock_policy_events_total{event="...",result="..."}``, summed over all workers; elsewhere
    (on Spark, in ``penstock check``) nobody looks at it. It may be called from any thread, and
    takes less than a microsecond. What a worker has counted reaches the gateway with its next
    verdict.

    Args:
        event: What happens, in words of which there are few: never a part of a record. Longer
            texts than 100 characters are cut.
        result: How it ended, likewise.
        amount: How often.

    Raises:
        ValueError: `amount` is negative.
    """
    if amount < 0:
        raise ValueError(f"amount={amount}: events are not taken back")
    kind = event[:_TEXT_MAX], result[:_TEXT_MAX]
    with _lock:
        if kind not in _kinds:
            if len(_kinds) >= EVENTS_MAX:
                kind = OTHER, ""
            else:
                _kinds.add(kind)
        _counted[kind] = _counted.get(kind, 0) + amount


def take_events() -> list[tuple[str, str, int]]:
    """Return what was counted since the last call: event, result, how often. For the engine."""
    if not _counted:
        return []
    with _lock:
        taken = [(*kind, amount) for kind, amount in _counted.items()]
        _counted.clear()
    return taken
