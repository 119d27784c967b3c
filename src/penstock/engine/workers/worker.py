"""The parent's end of one worker process."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
from collections import deque
from enum import Enum
from typing import TYPE_CHECKING

import structlog

from penstock.engine.workers import messages
from penstock.engine.workers.progress import INTERCEPTING, Progress, shared_file

if TYPE_CHECKING:
    import re
    from collections.abc import Callable

    from penstock.engine.verdict import Verdict
    from penstock.engine.workers.pool import Job

    Patterns = list[tuple[str, re.Pattern[str]]]

log = structlog.get_logger()

SENT_AHEAD, SENT_AHEAD_BYTES = 2, 128 * 1024
"""What a worker is sent before it answers, so that it does not wait for the next one: so many
batches, and more of them while they are small."""

_MEMORY = {"MALLOC_TRIM_THRESHOLD_": "67108864", "MALLOC_TOP_PAD_": "16777216",
           "MALLOC_MMAP_THRESHOLD_": "33554432"}  # fmt: skip
"""For glibc: memory of one batch is kept for the next one. To give it back and take it again
costs as much as a policy that changes a field of every record."""
_LINE_MAX = 2000
_MESSAGE_MAX = 2**31
_FROM_WORKER = frozenset({messages.READY, messages.LOAD_FAILED, messages.VERDICT})


class State(Enum):
    """Where a worker is in its life."""

    SPARE = "spare"
    LOADING = "loading"
    READY = "ready"
    CLOSING = "closing"
    DEAD = "dead"


class Worker(asyncio.Protocol):
    """One process: what it was sent, what it has yet to answer."""

    def __init__(
        self,
        *,
        on_state: Callable[[Worker], None],
        on_verdict: Callable[[Worker, Job, Verdict], None],
    ) -> None:
        self.state = State.SPARE
        self.was_ready = False
        self.failure = ""
        self.garbled = False
        self.sent: deque[Job] = deque()
        self.queue: deque[Job] = deque()
        self._sent_bytes = 0
        self._begun = (0, 0)
        self.head_since = 0.0
        self.idle_since = 0.0
        self.patterns: Patterns = []
        self.wants_context = False
        self._on_state = on_state
        self._on_verdict = on_verdict
        self._buffer = bytearray()
        self._loop = asyncio.get_running_loop()

    async def start(self) -> None:
        """Start the process; it waits for `load`."""
        ours, theirs = socket.socketpair()
        with theirs, shared_file() as shared:
            self._progress = Progress(shared.fileno())
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
        self._transport, _ = await self._loop.create_unix_connection(lambda: self, sock=ours)
        self._output = self._loop.create_task(self._log_output())

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def head(self) -> Job | None:
        """Give the batch in hand: what it began last and has not answered, or is to begin."""
        if not self.sent:
            return None
        state = self._progress.state
        if state != self._begun:
            self._begun = state
            self.head_since = self._loop.time()
        begun = state[0]
        first = self.sent[0]
        if begun <= first.number:
            return first
        return next((job for job in self.sent if job.number == begun), first)

    def intercepts(self, job: Job) -> bool:
        """Whether a batch is with its interceptors, and not yet judged."""
        return self._progress.state == (job.number, INTERCEPTING)

    @property
    def load_factor(self) -> int:
        """How many batches it has before it."""
        return len(self.sent) + len(self.queue)

    def load(self, message: bytes) -> None:
        """Make a spare process load the policies."""
        self.state = State.LOADING
        self._transport.write(message)

    def give(self, job: Job) -> None:
        """Queue a batch."""
        job.owner = self
        if self.queue or not self._has_room(job):
            self.queue.append(job)
        else:
            self._send(job)

    def retire(self, message: bytes) -> None:
        """Have it close an instance that none of its batches needs; see `messages.retire`."""
        if self.state is State.READY:
            self._transport.write(message)

    def _has_room(self, job: Job) -> bool:
        if self.sent and (job.alone or self.sent[-1].alone):
            return False
        return len(self.sent) < SENT_AHEAD or self._sent_bytes < SENT_AHEAD_BYTES

    def kill(self, why: str) -> None:
        """End the process, and what it started, at once."""
        self.failure = self.failure or why
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)

    async def close(self, timeout_s: float) -> None:
        """Let it close its policies and end; kill it when that takes too long."""
        if self.state is not State.DEAD:
            self.state = State.CLOSING
            self._transport.write(messages.message(messages.CLOSE))
        try:
            async with asyncio.timeout(timeout_s):
                await self._process.wait()
        except TimeoutError:
            self.kill("did not end in time")
            await self._process.wait()
        # What it started in its own session goes with it.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        await self._output
        self._transport.close()

    def data_received(self, data: bytes) -> None:
        """Take messages. Only a policy that writes to our socket can make them wrong."""
        if self.garbled:
            return
        buffer = self._buffer
        buffer += data
        start = 0
        prefix = messages.PREFIX
        while len(buffer) - start >= prefix.size:
            length, kind = prefix.unpack_from(buffer, start)
            if length > _MESSAGE_MAX or kind not in _FROM_WORKER:
                self._garbage()
                return
            end = start + prefix.size + length - 1
            if len(buffer) < end:
                break
            body = bytes(buffer[start + prefix.size : end])
            start = end
            try:
                self._take(kind, body)
            except (ValueError, KeyError, TypeError, IndexError):
                self._garbage()
                return
        del buffer[:start]

    def _garbage(self) -> None:
        self.garbled = True
        self.kill("sent what is not a message")

    def connection_lost(self, _: Exception | None) -> None:
        """The process ended, or is about to."""
        if self.state is State.DEAD:
            return
        loading = self.state is State.LOADING
        self.state = State.DEAD
        self.kill("ended while its policies were loaded" if loading else "ended")
        self._on_state(self)

    def _take(self, kind: int, body: bytes) -> None:
        if kind == messages.VERDICT:
            number, verdict = messages.read_verdict(body)
            if not self.sent or self.sent[0].number != number:
                raise ValueError("a verdict nobody waits for")
            job = self.sent.popleft()
            self._sent_bytes -= job.size
            self.head_since = self._loop.time()
            while self.queue and self._has_room(self.queue[0]):
                self._send(self.queue.popleft())
            if not self.sent:
                self.idle_since = self.head_since
            self._on_verdict(self, job, verdict)
        elif kind == messages.READY and self.state is State.LOADING:
            self.patterns, self.wants_context = messages.read_ready(body)
            self.state = State.READY
            self.was_ready = True
            self.idle_since = self._loop.time()
            self._on_state(self)
        elif kind == messages.LOAD_FAILED:
            self.failure = body.decode("utf-8", "replace")

    def _send(self, job: Job) -> None:
        if not self.sent:
            self.head_since = self._loop.time()
        self.sent.append(job)
        self._sent_bytes += job.size
        self._transport.writelines(job.buffers)

    async def _log_output(self) -> None:
        """Log what policies print, marked as theirs."""
        stdout = self._process.stdout
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
