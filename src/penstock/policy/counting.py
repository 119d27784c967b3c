"""Counts events of policies, for the metrics of the gateway."""

from __future__ import annotations

from threading import Lock
from typing import Final

EVENTS_MAX: Final = 100
"""The maximum of kinds of events in a process. Later kinds count as ``(other)``."""
OTHER: Final = "(other)"
_TEXT_MAX: Final = 100
_lock = Lock()
_kinds: set[tuple[str, str]] = set()
_counted: dict[tuple[str, str], int] = {}


def count_event(event: str, result: str = "", amount: int = 1) -> None:
    """Count an event of a policy, such as a look-up.

    The gateway's metrics have ``penstock_policy_events_total{event="...",result="..."}``, summed
    over all workers. A worker sends its counts with its next verdict. On Spark and in ``penstock
    check``, counts have no effect. Any thread can call this. It takes less than a microsecond.

    Args:
        event: The kind of event, from a small set of texts, never a part of a record. It is cut at
            100 characters.
        result: How the event ended, from a small set of texts.
        amount: The number of events.

    Raises:
        ValueError: `amount` is negative.
    """
    if amount < 0:
        raise ValueError(f"amount={amount}: it must be 0 or more")
    kind = event[:_TEXT_MAX], result[:_TEXT_MAX]
    with _lock:
        if kind not in _kinds:
            if len(_kinds) >= EVENTS_MAX:
                kind = OTHER, ""
            else:
                _kinds.add(kind)
        _counted[kind] = _counted.get(kind, 0) + amount


def take_events() -> list[tuple[str, str, int]]:
    """Return the counts since the last call: event, result, amount. For the engine."""
    if not _counted:
        return []
    with _lock:
        counts = [(*kind, amount) for kind, amount in _counted.items()]
        _counted.clear()
    return counts
