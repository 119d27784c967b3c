"""Processes that a worker has started, also those that have left its process group.

What imports classes of users is a worker here, too (see `bounded`). The processes are
recognised by an environment variable, which child processes inherit, and, where this process adopts
orphans, by being its children: of those that it did not start itself, all were left behind by
policies. On Linux; elsewhere only the process group ends with a worker.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import time
import uuid
from pathlib import Path
from typing import Final, NamedTuple

VARIABLE: Final = "PENSTOCK_WORKER"
_PROCESSES: Final = Path("/proc")
_PR_SET_CHILD_SUBREAPER: Final = 36
_PASSES: Final = 50
_PASS_S: Final = 0.02
"""A killed process may have started another process, which is found when it has ended."""

_live: dict[str, int | None] = {}
"""The process ids of workers by marker; None while a worker is being started."""
_adopts = False


def new_marker() -> str:
    """Return a value of the variable that is unique to a worker, which is about to be started."""
    marker = uuid.uuid4().hex
    _live[marker] = None
    return marker


def started(marker: str, pid: int) -> None:
    """Record the process id of a worker."""
    _live[marker] = pid


def ended(marker: str) -> None:
    """Record that a worker has ended, or was not started."""
    _live.pop(marker, None)


def adopt_orphans() -> bool:
    """Become the parent of processes whose parent has ended, instead of init.

    Then `kill_descendants` also finds those that run with another environment, and `reap_orphans`
    has to be called now and then. To be called once, by a process whose own children, but for
    workers, stay in its session.

    Returns:
        Whether it is possible here.
    """
    global _adopts  # noqa: PLW0603 - the system knows it for the process
    if sys.platform == "linux":
        _adopts = bool(ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)
    return _adopts


def reap_orphans() -> None:
    """Let adopted processes that have ended disappear."""
    while True:
        try:
            child = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return
        if child is None or not _is_adopted(child.si_pid):
            return  # a child of this process, which is waited for elsewhere
        with contextlib.suppress(ChildProcessError):
            os.waitpid(child.si_pid, os.WNOHANG)


def kill_descendants(marker: str) -> int:
    """Kill the processes that a worker has left running, and return their number.

    For adopted processes without the variable, the worker that started them is unknown: all of
    them are killed.

    Args:
        marker: The worker's value of the variable.
    """
    killed: set[int] = set()
    for number in range(_PASSES):
        if number:
            time.sleep(_PASS_S)
        pids = [pid for pid in _processes() if _is_left(pid, marker)]
        for pid in pids:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
                killed.add(pid)
        if not pids and not (_adopts and None in _live.values()):
            break
    return len(killed)


def _processes() -> list[int]:
    return [int(entry.name) for entry in _PROCESSES.glob("[0-9]*")]


class _Stat(NamedTuple):
    """Fields of /proc/PID/stat."""

    state: str
    parent: int
    session: int


def _stat(pid: int) -> _Stat | None:
    try:
        text = (_PROCESSES / str(pid) / "stat").read_bytes()
    except OSError:  # it has just ended
        return None
    state, parent, _, session = text[text.rindex(b")") + 1 :].split()[:4]
    return _Stat(state.decode(), int(parent), int(session))


def _is_left(pid: int, marker: str) -> bool:
    """Return whether a process was started by a worker, and by no other existing worker."""
    try:
        variables = (_PROCESSES / str(pid) / "environ").read_bytes().split(b"\0")
    except OSError:  # it has just ended, or belongs to another user
        return False
    if f"{VARIABLE}={marker}".encode() in variables:
        return True
    others = list(_live)
    if not _adopts or any(f"{VARIABLE}={other}".encode() in variables for other in others):
        return False
    stat = _stat(pid)
    return stat is not None and stat.state != "Z" and _is_adopted(pid, stat)


def _is_adopted(pid: int, stat: _Stat | None = None) -> bool:
    """Return whether a process is a child of this process, and was started by another process.

    Workers are in separate sessions, and nothing that they start can enter this session.
    """
    stat = stat or _stat(pid)
    if stat is None or stat.parent != os.getpid() or stat.session == os.getsid(0):
        return False
    pids = list(_live.values())
    return pid not in pids and None not in pids
