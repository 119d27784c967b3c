"""The parent's end of one worker process: its socket, its output, its end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
from typing import TYPE_CHECKING, Any, Protocol

import structlog

from penstock.engine.workers import messages
from penstock.engine.workers.progress import Progress, shared_file

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.engine.verdict import Verdict
    from penstock.engine.workers.messages import Ready
    from penstock.engine.workers.worker import Worker

log = structlog.get_logger()

_MEMORY = {"MALLOC_TRIM_THRESHOLD_": "67108864", "MALLOC_TOP_PAD_": "16777216",
           "MALLOC_MMAP_THRESHOLD_": "33554432"}  # fmt: skip
"""For glibc: memory of one batch is kept for the next one. To give it back and take it again
costs as much as a policy that changes a field of every record."""
_LINE_MAX = 2000
_MESSAGE_MAX = 2**31
_FROM_WORKER = frozenset({messages.READY, messages.LOAD_FAILED, messages.VERDICT})
_LOOK_S = 0.01
_REST_S = 1.0
"""How long what a dead process has sent and printed is waited for."""


class Events(Protocol):
    """Takes what a worker says."""

    def told_ready(self, worker: Worker, ready: Ready) -> None:
        """Its policies are loaded."""

    def told_failure(self, worker: Worker, text: str) -> None:
        """Its policies cannot be loaded."""

    def told_verdict(self, worker: Worker, attempt: int, verdict: Verdict) -> None:
        """It has judged."""

    def told_garbage(self, worker: Worker) -> None:
        """What it sent is no message."""

    def heard_all(self) -> None:
        """All messages that have arrived have been given."""


class Child(asyncio.Protocol):
    """One process and the socket to it."""

    def __init__(self, worker: Worker, events: Events) -> None:
        self.worker = worker
        self._events = events
        self._buffer = bytearray()
        self._garbled = False
        self._hung_up = asyncio.Event()
        self._process: asyncio.subprocess.Process | None = None
        self._output: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start the process; it waits for policies.

        Raises:
            OSError: There are no more descriptors or processes.
        """
        ours, theirs = socket.socketpair()
        try:
            with theirs, shared_file() as shared:
                self.progress = Progress(shared.fileno())
                for end in (ours, theirs):
                    for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
                        end.setsockopt(socket.SOL_SOCKET, option, 4 * 2**20)
                self._process = await asyncio.create_subprocess_exec(
                    sys.executable,
                    "-u",
                    "-m",
                    "penstock.engine.workers.process",
                    str(theirs.fileno()),
                    str(shared.fileno()),
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=asyncio.subprocess.STDOUT,
                    pass_fds=(theirs.fileno(), shared.fileno()),
                    env={**_MEMORY, **os.environ},
                    start_new_session=True,
                )
            ours.setblocking(False)
            loop = asyncio.get_running_loop()
            self._transport, _ = await loop.create_unix_connection(lambda: self, sock=ours)
        except BaseException:
            self.kill()
            ours.close()
            raise
        self._output = loop.create_task(self._log_output(self._process))

    @property
    def pid(self) -> int:
        """The process id."""
        assert self._process is not None
        return self._process.pid

    def write(self, buffers: Iterable[bytes | memoryview]) -> None:
        """Send a message."""
        self._transport.writelines(buffers)

    def kill(self) -> None:
        """End the process, and what it started, at once."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)

    async def ended(self) -> str:
        """Wait until the process is dead, and all that it has sent has been taken.

        A process that hangs up is ended. What it has left running may keep its socket and its
        output open: neither is waited for.
        """
        process = self._process
        assert process is not None
        waiting = asyncio.ensure_future(process.wait())
        hung_up = asyncio.ensure_future(self._hung_up.wait())
        while process.returncode is None and not self._hung_up.is_set():
            either = (waiting, hung_up)
            await asyncio.wait(either, timeout=0.25, return_when=asyncio.FIRST_COMPLETED)
        self.kill()
        while process.returncode is None:
            await asyncio.wait([waiting], timeout=_LOOK_S)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(hung_up, _REST_S)
        waiting.cancel()
        self._transport.close()
        return "ended"

    async def read_output(self) -> None:
        """Log what a dead process has printed."""
        if self._output is not None:
            await asyncio.wait([self._output], timeout=_REST_S)
            self._output.cancel()

    def data_received(self, data: bytes) -> None:
        """Take messages. Only a policy that writes to our socket can make them wrong."""
        if self._garbled:
            return
        try:
            for kind, body in self._messages(data):
                self._take(kind, body)
        except _NoMessageError:
            self._garbled = True
            self._events.told_garbage(self.worker)
        self._events.heard_all()

    def _messages(self, data: bytes) -> Iterable[tuple[int, bytes]]:
        buffer = self._buffer
        buffer += data
        start = 0
        prefix = messages.PREFIX
        while len(buffer) - start >= prefix.size:
            length, kind = prefix.unpack_from(buffer, start)
            if length > _MESSAGE_MAX or kind not in _FROM_WORKER:
                raise _NoMessageError
            end = start + prefix.size + length - 1
            if len(buffer) < end:
                break
            yield kind, bytes(buffer[start + prefix.size : end])
            start = end
        del buffer[:start]

    def _take(self, kind: int, body: bytes) -> None:
        read: Any
        try:
            if kind == messages.VERDICT:
                read = messages.read_verdict(body)
            else:
                read = messages.read_ready(body) if kind == messages.READY else None
        except Exception:
            raise _NoMessageError from None
        if kind == messages.VERDICT:
            self._events.told_verdict(self.worker, *read)
        elif kind == messages.READY:
            self._events.told_ready(self.worker, read)
        else:
            self._events.told_failure(self.worker, body.decode("utf-8", "replace"))

    def connection_lost(self, _: Exception | None) -> None:
        """The process ended, or is about to."""
        self._hung_up.set()

    async def _log_output(self, process: asyncio.subprocess.Process) -> None:
        """Log what policies print, marked as theirs."""
        stdout = process.stdout
        assert stdout is not None
        while True:
            try:
                line = await stdout.readline()
            except ValueError:  # longer than the reader's limit; it dropped the line
                continue
            if not line:
                return
            text = line.decode("utf-8", "replace").rstrip()[:_LINE_MAX]
            log.info("policy output", worker=self.pid, text=text)


class _NoMessageError(Exception):
    """A worker sent what is no message."""
