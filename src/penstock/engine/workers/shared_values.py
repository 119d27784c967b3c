"""The values that the workers of a gateway share, also after reloads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.policy.sharing import SharedStore

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Values = Sequence[tuple[str, bytes]]


class SharedValues:
    """Keeps values by name, and sends new values to the workers."""

    def __init__(self) -> None:
        self._values = SharedStore()
        self._listeners: set[Callable[[Values, object], None]] = set()

    def listen(self, listener: Callable[[Values, object], None]) -> None:
        """Call a listener with each new value, and the worker that shared it."""
        self._listeners.add(listener)

    def leave(self, listener: Callable[[Values, object], None]) -> None:
        """Undo `listen`."""
        self._listeners.discard(listener)

    def put(self, values: Values, worker: object) -> None:
        """Keep values; send only new values.

        Args:
            values: Names and values.
            worker: The worker that has shared them, and knows them.
        """
        new = [(name, value) for name, value in values if self._values.get(name) != value]
        for name, value in new:
            self._values[name] = value
        if new:
            for listener in tuple(self._listeners):
                listener(new, worker)

    def all(self) -> Values:
        """Return all of them, those that were shared last at the end."""
        return tuple(self._values.items())
