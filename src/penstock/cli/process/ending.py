"""How long commands end: the first signal requests it, the second ends them at once."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from typing import Self

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


class EndRequest:
    """Whether the process was requested to end, by SIGTERM or SIGINT, inside a `with` block."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self._handlers: dict[int, Any] = {}

    def __enter__(self) -> Self:
        self._handlers = {number: signal.getsignal(number) for number in _SIGNALS}
        self.listen()
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)

    def listen(self) -> None:
        """Listen again, where other code may have set handlers."""
        for number in _SIGNALS:
            signal.signal(number, self._end)

    def is_set(self) -> bool:
        """Return whether the end was requested."""
        return self._event.is_set()

    def wait(self, seconds: float) -> bool:
        """Wait for a number of seconds, or until the end is requested; return whether it was."""
        return self._event.wait(seconds)

    def _end(self, *_: object) -> None:
        """Take a signal.

        Raises:
            KeyboardInterrupt: It is the second signal.
        """
        if self._event.is_set():
            raise KeyboardInterrupt
        self._event.set()
        # It may have no reader, be closed, or be what the signal has interrupted.
        with contextlib.suppress(OSError, ValueError, RuntimeError):
            print("ending", file=sys.stderr, flush=True)
