"""Standard error, and standard output of services and workers: nobody waits for their readers.

A thread writes them. It may wait or fail; no other write does. The queue is bounded. Lines that are
lost are counted, and the output itself reports how many, as soon as it can be written again.
"""

from __future__ import annotations

import atexit
import io
import os
import select
import sys
import threading
import time
import weakref
from collections import deque
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

HELD_MAX_BYTES: Final = 2**20
"""The limit of the queue; each text counts with `TEXT_BYTES` more than its own."""
TEXT_BYTES: Final = 100
BEGUN_MAX: Final = 64 * 1024
"""A line that is so long is written before its end, in characters."""
END_S: Final = 1.0
"""How long the end of the process waits for what is in the queue."""
_REPORT_EVERY_S: Final = 1.0
_NULL: Final = {0: os.O_RDONLY, 1: os.O_WRONLY, 2: os.O_RDONLY}
"""How /dev/null stands for a missing stream. Writing to standard error then fails, as it does
where the stream is closed, and is counted."""


class QueuedOutput(io.TextIOBase):
    """Text for a file descriptor.

    Attributes:
        lines_lost: How many lines were not written, and will not be.
        lost_line: Returns the line that reports how many were lost.
    """

    def __init__(
        self,
        descriptor: int,
        *,
        directly: bool = False,
        held_max_bytes: int = HELD_MAX_BYTES,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Begin; the thread is started by the first line.

        Args:
            descriptor: Where to write; it stays open.
            directly: Whether it is not blocking: what there is room for is written at once, so that
                it is there if the process dies. Otherwise all waits for the thread.
            held_max_bytes: The most that may wait.
            clock: Returns the monotonic time in seconds.
        """
        self.lines_lost = 0
        self.lost_line: Callable[[int], str] = "... {} lines were lost".format
        self._descriptor = descriptor
        self._directly = directly
        self._held_max_bytes = held_max_bytes
        self._clock = clock
        self._unreported = 0
        self._reported_at = float("-inf")
        self._is_torn = False
        self._ends = self._is_closed = False
        self.begin()
        _all.add(self)

    def begin(self) -> None:
        """Begin with an empty queue, and without a thread: also after a fork, in the child."""
        self._begun = threading.local()
        # An RLock inside: a signal handler may write while its thread does.
        self._changed = threading.Condition()
        self._queue: deque[bytes] = deque()
        self._held_bytes = 0
        self._is_idle = True
        self._thread: threading.Thread | None = None

    @property
    def buffer(self) -> _Bytes:
        """The same for bytes."""
        return _Bytes(self)

    def reconfigure(self, **_: object) -> None:
        """Stay as it is; standard streams have this method."""

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """The encoding of all text."""
        return "utf-8"

    @property
    def errors(self) -> str:  # type: ignore[override]
        """What becomes of characters that cannot be encoded."""
        return "backslashreplace"

    def fileno(self) -> int:
        """Return the file descriptor, for processes that inherit it."""
        return self._descriptor

    def isatty(self) -> bool:
        """Return whether a person reads it."""
        return os.isatty(self._descriptor)

    def writable(self) -> bool:
        """Return that it takes text."""
        return True

    def write(self, text: str) -> int:
        """Queue lines; the beginning of a line waits for its end. Never blocks, never raises."""
        rest = self._without_lost(text)
        complete, newline, beginning = rest.rpartition("\n")
        prefix = getattr(self._begun, "text", "")
        if newline:
            self._put_text(prefix + complete + newline)
            prefix = ""
        self._begun.text = prefix + beginning
        if len(self._begun.text) > BEGUN_MAX:
            self.flush()
        return len(text)

    def _without_lost(self, text: str) -> str:
        """Return text without the rest of a line whose beginning is lost."""
        if not getattr(self._begun, "is_lost", False):
            return text
        _, newline, rest = text.partition("\n")
        if newline:
            self._begun.is_lost = False
            self._lose(b"\n")
        return rest

    def flush(self) -> None:
        """Queue the beginning of a line. Waits for nothing."""
        beginning = getattr(self._begun, "text", "")
        if beginning:
            self._begun.text = ""
            self._begun.is_lost = not self._put_text(beginning)

    def drain(self, timeout_s: float) -> bool:
        """Wait until the queue is written, or lost; return whether it is.

        Args:
            timeout_s: How long at most.
        """
        self.flush()
        with self._changed:
            if self._unreported and self._thread is not None:
                self._ends, self._is_idle = True, False
                self._changed.notify_all()
            return self._changed.wait_for(lambda: self._is_idle, timeout_s)

    def close(self) -> None:
        """End the thread when the queue is written; the descriptor stays open."""
        super().close()
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def _put_text(self, text: str) -> bool:
        return self.put(text.encode(self.encoding, self.errors))

    def put(self, data: bytes) -> bool:
        """Write bytes now, or queue them; otherwise count their lines, and return False.

        Never blocks, never raises.
        """
        with self._changed:
            is_begun = False
            if self._directly and self._is_idle and not self._queue:
                remainder = self._write_now(data)
                if not remainder:
                    return True
                is_begun, data = len(remainder) < len(data), remainder
            has_room = self._held_bytes + len(data) + TEXT_BYTES <= self._held_max_bytes
            if not has_room or not self._runs():
                self._is_torn = self._is_torn or is_begun
                self._lose(data)
                return False
            self._queue.append(data)
            self._held_bytes += len(data) + TEXT_BYTES
            self._is_idle = False
            self._changed.notify_all()
            return True

    def _write_now(self, data: bytes) -> bytes:
        """Write what there is room for; return the rest."""
        try:
            return data[os.write(self._descriptor, data) :]
        except BlockingIOError:
            return data
        except OSError:
            self._lose(data)
            return b""

    def _lose(self, data: bytes | memoryview) -> None:
        count = bytes(data).count(b"\n")
        with self._changed:
            self.lines_lost += count
            self._unreported += count

    def _runs(self) -> bool:
        """Start the thread if there is none, as in the child of a fork; return whether it runs."""
        if self._thread is not None and self._thread.is_alive():
            return True
        thread = threading.Thread(target=self._work, name="output", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # there are no more threads
            return False
        self._thread = thread
        return True

    # In the thread

    def _work(self) -> None:
        while True:
            with self._changed:
                while not self._queue and not self._is_to_report():
                    if self._is_closed:
                        return
                    if not self._is_idle:
                        self._is_idle = True
                        self._changed.notify_all()
                    self._changed.wait(_REPORT_EVERY_S if self._unreported else None)
                reports = self._is_to_report()
                data = self._queue.popleft() if self._queue else b""
                self._ends = self._ends and bool(data)
            if reports:
                self._report()
            if data:
                self._write(data)
                with self._changed:
                    self._held_bytes -= len(data) + TEXT_BYTES

    def _is_to_report(self) -> bool:
        """Return whether to report now how many lines were lost: now and then, and at the end."""
        is_last = self._ends and not self._queue
        return self._unreported > 0 and (
            is_last or self._clock() - self._reported_at >= _REPORT_EVERY_S
        )

    def _report(self) -> None:
        count = self._unreported
        self._reported_at = self._clock()
        if not self._write_all(f"{self.lost_line(count)}\n".encode(self.encoding, self.errors)):
            with self._changed:
                self._unreported -= count

    def _write(self, data: bytes) -> None:
        remainder = self._write_all(data)
        if remainder:
            self._lose(remainder)

    def _write_all(self, data: bytes) -> memoryview | None:
        """Write bytes, or give them up at an error; return what is not written."""
        remainder = memoryview(data)
        try:
            if self._is_torn:  # the line before has no end
                self._write_some(memoryview(b"\n"))
                self._is_torn = False
            while remainder:
                remainder = remainder[self._write_some(remainder) :]
        except OSError:
            self._is_torn = self._is_torn or (
                len(remainder) < len(data) and data[-len(remainder) - 1 : -len(remainder)] != b"\n"
            )
            return remainder
        return None

    def _write_some(self, data: memoryview) -> int:
        """Write as much as there is room for, but wait for room.

        Raises:
            OSError: There is no reader, no space, or no such stream.
        """
        while True:
            try:
                return os.write(self._descriptor, data)
            except BlockingIOError:  # somebody has made it non-blocking
                room = select.poll()
                room.register(self._descriptor, select.POLLOUT)
                room.poll()


class _Bytes(io.RawIOBase):
    """Takes bytes for an output of text."""

    def __init__(self, output: QueuedOutput) -> None:
        self._output = output

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._output.fileno()

    def write(self, data: Any) -> int:
        content = bytes(data)
        self._output.flush()
        self._output.put(content)
        return len(content)


_all: weakref.WeakSet[QueuedOutput] = weakref.WeakSet()


def _begin_all() -> None:
    for output in _all:
        output.begin()


os.register_at_fork(after_in_child=_begin_all)


def open_standard_streams() -> None:
    """Open /dev/null for each standard stream that is closed.

    Otherwise a socket could get the number of standard error, and a client the text.
    """
    for descriptor, flags in _NULL.items():
        try:
            os.fstat(descriptor)
        except OSError:
            opened = os.open(os.devnull, flags)  # gets the lowest number that is free
            if opened != descriptor:
                os.dup2(opened, descriptor)
                os.close(opened)
            os.set_inheritable(descriptor, True)
    if sys.stdin is None:
        sys.stdin = os.fdopen(0, closefd=False)
    if sys.stdout is None:
        sys.stdout = os.fdopen(1, "w", closefd=False)


def queue_standard_error() -> None:
    """Let a thread write standard error; the end of the process waits for it for `END_S`."""
    sys.stderr = QueuedOutput(2)
    atexit.register(_drain)


def queue_output_of_worker() -> None:
    """Let nothing that a policy prints wait for the gateway."""
    try:
        # Opened once more: C code and processes of the policy have it as a blocking stream.
        descriptor = os.open("/proc/self/fd/1", os.O_WRONLY | os.O_NONBLOCK)
        output = QueuedOutput(descriptor, directly=True)
    except OSError:  # elsewhere than on Linux
        output = QueuedOutput(1)
    sys.stdout = sys.stderr = output
    # A process that a policy forks may close all others.
    os.register_at_fork(after_in_child=_unqueue)
    atexit.register(_drain)


def _unqueue() -> None:
    sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__


def queue_standard_output() -> None:
    """Let a thread write standard output, too: for a service, which waits for no reader."""
    if sys.stdout is sys.__stdout__:  # not in a test that captures it
        sys.stdout = QueuedOutput(1)


def log_lines_lost() -> int:
    """Return how many lines of standard error were lost, in a worker of all output."""
    return sys.stderr.lines_lost if isinstance(sys.stderr, QueuedOutput) else 0


def _drain() -> None:
    deadline = time.monotonic() + END_S
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, QueuedOutput):
            stream.drain(max(0.0, deadline - time.monotonic()))
