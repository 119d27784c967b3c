"""Signals that come before a command handles them: while modules are imported.

Process 1 of a container would never see them: the system discards signals for it that have no
handler yet.
"""

from __future__ import annotations

import os
import signal
import threading
from typing import TYPE_CHECKING, Any, Final, NoReturn

if TYPE_CHECKING:
    from types import FrameType

_ENDING: Final = (signal.SIGTERM, signal.SIGINT)
_before: dict[int, Any] = {}
_received: list[int] = []
_INIT: Final = 1
_BY_SIGNAL: Final = 128
"""Added to a signal's number, this is the exit code that a shell reports."""


def keep() -> None:
    """Keep signals from now on, also those that came while they were blocked."""
    for number in (*_ENDING, signal.SIGHUP):
        if not is_ignored(number):
            _before[number] = signal.getsignal(number)
            signal.signal(number, _keep)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (*_ENDING, signal.SIGHUP))


def is_ignored(number: int) -> bool:
    """Return whether a signal is ignored, as SIGHUP is by a program that nohup has started."""
    return signal.getsignal(number) is signal.SIG_IGN


def _keep(number: int, _: FrameType | None) -> None:
    _received.append(number)


def interrupt(*, at_hang_up: bool = False) -> None:
    """Raise KeyboardInterrupt at a signal to end, from now on, or now if it came before.

    Until a service has an event loop with handlers.

    Args:
        at_hang_up: Whether SIGHUP is to end the process, too: its terminal was closed. Otherwise
            it has no effect: what it would read again is about to be read.

    Raises:
        KeyboardInterrupt: The process is to end.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    ending = {*_ENDING}
    if at_hang_up and not is_ignored(signal.SIGHUP):
        ending.add(signal.SIGHUP)
    for number in ending:
        signal.signal(number, _interrupt)
    if not ending.isdisjoint(_received):
        raise KeyboardInterrupt


def _interrupt(*_: object) -> NoReturn:
    raise KeyboardInterrupt


def release() -> None:
    """Let signals do what they do without a handler, and what came before do it now.

    Process 1 ends by SIGTERM, too.
    """
    for number, handler in _before.items():
        is_init = os.getpid() == _INIT and handler is signal.SIG_DFL
        signal.signal(number, _end if is_init else handler)
    _before.clear()
    for number in _received:
        os.kill(os.getpid(), number)
    _received.clear()


def _end(number: int, _: FrameType | None) -> NoReturn:
    raise SystemExit(_BY_SIGNAL + number)
