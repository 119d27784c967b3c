"""The output of policies: read from a pipe of their worker, and logged within a limit.

A policy may print a line for each record. The event loop reads no more often than every few
milliseconds, however much is written, and splits and logs a bounded number of lines a second; the
others are counted. What does not fit into the pipe waits in the worker, or is lost and counted
there (`penstock.queued_output`): a policy does not wait, unless it writes to the descriptor itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import time
from typing import TYPE_CHECKING, Final

import structlog

if TYPE_CHECKING:
    from collections.abc import Callable

log = structlog.get_logger()

LINES_A_SECOND: Final = 100
"""The most lines of one worker that are logged in a second."""
LINE_MAX: Final = 2000
"""The most characters of a line that are logged."""
READ_BYTES: Final = 256 * 1024
_PAUSE_S: Final = 0.01
_REPORT_S: Final = 1.0
"""How long after the last line those that were left out are counted in the log."""
_SET_PIPE_SIZE: Final = getattr(fcntl, "F_SETPIPE_SZ", None)


class OutputLines:
    """Splits output into lines, and logs some of them."""

    def __init__(self, worker: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin with the output of a worker.

        Args:
            worker: Its process id, for the log.
            clock: Returns the time in seconds.
        """
        self._worker = worker
        self._clock = clock
        self._second_end = 0.0
        self._line_budget = 0
        self._line_start = b""
        self.left_out = 0

    def take(self, data: bytes) -> None:
        """Log the next lines, or count them."""
        now = self._clock()
        if now >= self._second_end:
            self.report()
            self._second_end, self._line_budget = now + 1.0, LINES_A_SECOND
        *lines, rest = data.split(b"\n", self._line_budget)
        self._line_budget -= len(lines)
        for line in lines:
            self._log(self._line_start + line)
            self._line_start = b""
        if not self._line_budget:
            # The rest is not split: it may be thousands of lines.
            count = rest.count(b"\n")
            self.left_out += count
            if count:
                self._line_start = b""
                rest = rest[rest.rindex(b"\n") + 1 :]
        self._line_start = (self._line_start + rest)[
            : 4 * LINE_MAX
        ]  # a character has 4 bytes at most

    def end(self) -> None:
        """Log a line without an end of line, and how many lines were left out."""
        if self._line_start:
            self.take(b"\n")
        self.report()

    def report(self) -> None:
        """Log how many lines were left out."""
        if self.left_out:
            log.warning("policy output left out", worker=self._worker, lines=self.left_out)
        self.left_out = 0

    def _log(self, line: bytes) -> None:
        text = line.decode("utf-8", "replace").rstrip()[:LINE_MAX]
        log.info("policy output", worker=self._worker, text=text)


class OutputPipe:
    """The pipe to which a worker and its policies write.

    Attributes:
        write_end: The worker's end; `started` closes it here.
    """

    def __init__(self) -> None:
        """Open the pipe.

        Raises:
            OSError: There are no more descriptors.
        """
        self._read_end, self.write_end = os.pipe()
        os.set_blocking(self._read_end, False)
        if _SET_PIPE_SIZE is not None:
            with contextlib.suppress(OSError):  # more than this user may have
                fcntl.fcntl(self._read_end, _SET_PIPE_SIZE, READ_BYTES)

    def started(self) -> None:
        """Leave the other end to the worker."""
        os.close(self.write_end)
        self.write_end = -1

    def close(self) -> None:
        """Close the files that are open."""
        for end in (self._read_end, self.write_end):
            if end >= 0:
                os.close(end)
        self._read_end = self.write_end = -1

    async def log(self, worker: int) -> None:
        """Log the output until its last writer has ended, then close."""
        lines = OutputLines(worker)
        try:
            while data := await self._read(lines):
                lines.take(data)
                await asyncio.sleep(_PAUSE_S)
        finally:
            lines.end()
            self.close()

    async def _read(self, lines: OutputLines) -> bytes:
        while True:
            try:
                return os.read(self._read_end, READ_BYTES)
            except BlockingIOError:
                await self._readable(lines)

    async def _readable(self, lines: OutputLines) -> None:
        loop = asyncio.get_running_loop()
        readable = asyncio.Event()
        loop.add_reader(self._read_end, readable.set)
        try:
            if lines.left_out:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_REPORT_S):
                        await readable.wait()
                        return
                lines.report()
            await readable.wait()
        finally:
            loop.remove_reader(self._read_end)
