"""How child processes have ended."""

from __future__ import annotations

import signal


def keep_ends() -> None:
    """Let the system keep how child processes end, until they are waited for.

    It does not for a program that ignores SIGCHLD, and a program that is started inherits that:
    a worker that the system has killed would look like one that its policy has ended.
    """
    if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
