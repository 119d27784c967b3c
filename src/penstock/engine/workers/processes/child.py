"""The parent's end of one worker process: its socket, its output, its end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import structlog

from penstock.configuration.processes import descendants
from penstock.configuration.processes.environment import environment_of_policies
from penstock.engine.workers import messages
from penstock.engine.workers.processes.output import OutputPipe
from penstock.engine.workers.progress import SharedProgress, shared_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from penstock.engine.verdict import PolicyVerdict
    from penstock.engine.workers.gathered_writes import GatheredWrites
    from penstock.engine.workers.messages import Ready, TopicsLoaded
    from penstock.engine.workers.processes.worker import Worker

log = structlog.get_logger()

_MEMORY = {"MALLOC_TRIM_THRESHOLD_": "67108864", "MALLOC_TOP_PAD_": "16777216",
           "MALLOC_MMAP_THRESHOLD_": "33554432"}  # fmt: skip
"""For glibc: memory of a batch is kept for the next batch. To return and allocate it again
costs as much as a policy that changes a field of every record."""
_MESSAGE_MAX = 2**31
_PREFIX = messages.PREFIX
_FROM_WORKER = frozenset(
    {
        messages.READY,
        messages.LOAD_FAILED,
        messages.VERDICT,
        messages.RING_VERDICT,
        messages.TOPICS_LOADED,
        messages.RECORDS_CLASS,
        messages.EVENTS,
        messages.SHARED,
    }
)
_UNSENT_MAX = 64 * 2**20
"""A worker that does not read while so many bytes wait for it gets no shared values."""
_LOOK_S = 0.25
"""How often to look for the end of a process whose socket another process keeps open."""
_POLL_S = 0.01
_HANG_UP_S = 1.0
"""How long a process that has closed its socket may take to end by itself."""
_OTHERS = frozenset({signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT})
"""Signals that come from another process, or from a kernel that is short of memory.

Not SIGINT, which is ignored: Python ends itself with it where a policy raises KeyboardInterrupt.
"""
_DRAIN_TIMEOUT_S = 1.0
"""How long to wait for the last messages and output of a dead process."""


class ProcessEnd(NamedTuple):
    """How a process has ended.

    Attributes:
        text: In words, for the log.
        by_another: Whether another process, or the kernel, has killed it.
    """

    text: str
    by_another: bool = False


class Events(Protocol):
    """Callbacks for the messages of a worker.

    Attributes:
        writes: Gathers writes.
    """

    writes: GatheredWrites

    def on_ready(self, worker: Worker, ready: Ready) -> None:
        """Its policies are loaded."""

    def on_load_failed(self, worker: Worker, text: str, *, may_pass: bool) -> None:
        """Its policies cannot be loaded, or not now."""

    def on_topics_loaded(self, worker: Worker, report: TopicsLoaded) -> None:
        """It has loaded topics, or cannot."""

    def on_records_class(self, name: str, *, takes_client: bool) -> None:
        """It has loaded a class of KIP-686 that the file does not name."""

    def on_policy_events(self, counts: Sequence[tuple[str, str, int]]) -> None:
        """Its policies have counted something: event, result, how often."""

    def on_shared(self, worker: Worker, values: Sequence[tuple[str, bytes]]) -> None:
        """Its policies share values with other workers: names and values."""

    def on_verdicts(
        self, worker: Worker, verdicts: Sequence[tuple[int, PolicyVerdict, float]]
    ) -> None:
        """Attempts, their verdicts, and how many seconds each took, in order."""

    def on_ring_verdict(
        self, worker: Worker, number: int, verdict: PolicyVerdict, took_s: float
    ) -> None:
        """The verdict on a batch of its ring, and how many seconds it took."""

    def on_protocol_error(self, worker: Worker) -> None:
        """It sent something that is not a message."""


class Child(asyncio.Protocol):
    """One process and the socket to it.

    Attributes:
        worker: What the schedule calls it.
        progress: The memory that is shared with it.
        ring: Its ring, if native threads have batches judged by it.
    """

    progress: SharedProgress

    def __init__(
        self, worker: Worker, events: Events, *, nice: int = 0, ring: Any | None = None
    ) -> None:
        """Prepare; no process is started.

        Args:
            worker: See above.
            events: Gets what the process sends, and its end.
            nice: As of nice(1): the higher, the longer it waits for a processor.
            ring: Native threads write batches into it.
        """
        self.ring = ring
        self.worker = worker
        self._nice = nice
        self._events = events
        self._pieces: list[bytes] = []
        self._missing_bytes = 0
        self._last_mark = 0
        self._is_garbled = False
        self._is_killed = False
        self._hung_up = asyncio.Event()
        self._mark = ""
        self._process: subprocess.Popen[bytes] | None = None
        self._output: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start the process; it waits for policies.

        Raises:
            OSError: There are no more descriptors or processes.
        """
        parent_socket, child_socket = socket.socketpair()
        output: OutputPipe | None = None
        self._mark = descendants.new_marker()
        try:
            output = OutputPipe()
            with child_socket, shared_file() as shared:
                self.progress = SharedProgress(shared.fileno())
                for end in (parent_socket, child_socket):
                    for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
                        end.setsockopt(socket.SOL_SOCKET, option, 4 * 2**20)
                self._process = self._start_process(child_socket.fileno(), shared.fileno(), output)
            descendants.started(self._mark, self._process.pid)
            output.started()
            if self._nice:
                with contextlib.suppress(OSError):
                    os.setpriority(os.PRIO_PROCESS, self._process.pid, self._nice)
            parent_socket.setblocking(False)
            loop = asyncio.get_running_loop()
            self._transport, _ = await loop.create_unix_connection(lambda: self, sock=parent_socket)
        except BaseException:
            self.abandon()
            descendants.ended(self._mark)
            parent_socket.close()
            if output is not None:
                output.close()
            raise
        self._output = loop.create_task(output.log(self._process.pid))

    def _start_process(
        self, socket_fd: int, progress_fd: int, output: OutputPipe
    ) -> subprocess.Popen[bytes]:
        """Start the process without forking this process.

        uvloop forks: that copies the page tables, and runs Python in a copy of this process whose
        other threads are gone. `subprocess` needs a millisecond or two.
        """
        rings = [] if self.ring is None else self.ring.descriptors()
        return subprocess.Popen(
            [
                sys.executable,
                "-u",
                "-m",
                "penstock.engine.workers.processes.process",
                str(socket_fd),
                str(progress_fd),
                *map(str, rings),
            ],
            stdin=subprocess.DEVNULL,
            stdout=output.write_end,
            stderr=output.write_end,
            pass_fds=(socket_fd, progress_fd, *rings),
            env={**_MEMORY, **environment_of_policies(), descendants.VARIABLE: self._mark},
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        """The process id."""
        assert self._process is not None
        return self._process.pid

    def write(self, buffers: Sequence[bytes | memoryview]) -> None:
        """Send a message; does nothing if the process has closed its socket."""
        self._events.writes.write(self._transport, buffers)

    def share(self, buffers: Sequence[bytes]) -> None:
        """Send values that others share, unless too many bytes wait to be sent."""
        if self._transport.get_write_buffer_size() < _UNSENT_MAX:
            if self.ring is None:
                self.write(buffers)
                return
            self._last_mark += 1
            self.write([*buffers, messages.mark(self._last_mark)])
            self.ring.expect_mark(self._last_mark)

    def kill(self) -> None:
        """Kill the process and its descendants."""
        if self._process is not None:
            self._is_killed = self._is_killed or self._process.poll() is None
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def abandon(self) -> None:
        """Kill the process, and let a thread wait for its end."""
        self.kill()
        if self._process is not None:
            asyncio.get_running_loop().run_in_executor(None, self._process.wait)

    async def ended(self) -> ProcessEnd:
        """Wait until the process is dead, and all that it has sent has been taken.

        A process that hangs up is ended. What it has left running may keep its socket and its
        output open: neither is waited for.
        """
        process = self._process
        assert process is not None
        hung_up = asyncio.ensure_future(self._hung_up.wait())
        while process.poll() is None and not self._hung_up.is_set():
            await asyncio.wait([hung_up], timeout=_LOOK_S)
        # The socket of a process that is killed is closed before its end can be waited for.
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(_reaped(process), _HANG_UP_S)
        self.kill()
        await _reaped(process)
        # Only now: a killed process may have been about to start another process.
        descendants.ended(self._mark)
        killed_count = await asyncio.to_thread(descendants.kill_descendants, self._mark)
        if killed_count:
            log.warning("a policy left processes running", worker=self.pid, processes=killed_count)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(hung_up, _DRAIN_TIMEOUT_S)
        self._transport.close()
        return self._how(process.returncode)

    def _how(self, returncode: int) -> ProcessEnd:
        if self._is_killed:
            hung_up = self._hung_up.is_set()
            return ProcessEnd("killed after it closed its socket" if hung_up else "killed")
        if returncode >= 0:
            return ProcessEnd(f"exited with status {returncode}")
        try:
            name = signal.Signals(-returncode).name
        except ValueError:  # a real-time signal
            name = f"signal {-returncode}"
        if -returncode in _OTHERS:
            return ProcessEnd(f"killed by another process ({name})", by_another=True)
        return ProcessEnd(f"ended by {name}")

    async def read_output(self) -> None:
        """Log the output of a dead process."""
        if self._output is not None:
            await asyncio.wait([self._output], timeout=_DRAIN_TIMEOUT_S)
            self._output.cancel()

    def data_received(self, data: bytes) -> None:
        """Parse messages. Only a policy that writes to our socket can make them invalid."""
        if self._is_garbled:
            return
        verdicts: list[tuple[int, PolicyVerdict, float]] = []
        for kind, body in self._split(self._join(data)):
            try:
                if kind == messages.VERDICT:
                    verdicts.append(messages.read_verdict(body))
                    continue
                report = self._read(kind, body)
            except Exception:
                self._is_garbled = True
                break
            report()
        if verdicts:
            self._events.on_verdicts(self.worker, verdicts)
        if self._is_garbled:
            self._events.on_protocol_error(self.worker)

    def _read(self, kind: int, body: bytes) -> Callable[[], None]:
        """Read a message other than a verdict; return the event that reports it.

        Raises:
            ValueError: It is invalid.
        """
        events, worker = self._events, self.worker
        if kind == messages.RING_VERDICT:
            return partial(events.on_ring_verdict, worker, *messages.read_verdict(body))
        if kind == messages.READY:
            return partial(events.on_ready, worker, messages.read_ready(body))
        if kind == messages.TOPICS_LOADED:
            return partial(events.on_topics_loaded, worker, messages.read_topics_loaded(body))
        if kind == messages.RECORDS_CLASS:
            name, takes_client = messages.read_records_class(body)
            return partial(events.on_records_class, name, takes_client=takes_client)
        if kind == messages.SHARED:
            return partial(events.on_shared, worker, messages.read_shared(body))
        if kind == messages.EVENTS:
            return partial(events.on_policy_events, messages.read_events(body))
        text, may_pass = messages.read_load_failed(body)
        return partial(events.on_load_failed, worker, text, may_pass=may_pass)

    def _join(self, data: bytes) -> bytes:
        """Return the rest of earlier data and new data; nothing while a message is incomplete."""
        if not self._pieces:
            return data
        self._pieces.append(data)
        self._missing_bytes -= len(data)
        if self._missing_bytes > 0:
            return b""
        joined = b"".join(self._pieces)
        self._pieces = []
        return joined

    def _split(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        """Yield the kind and body of each message; keep the bytes after the last full message."""
        missing_bytes = 1
        start, size = 0, len(data)
        while size - start >= _PREFIX.size:
            length, kind = _PREFIX.unpack_from(data, start)
            if length > _MESSAGE_MAX or kind not in _FROM_WORKER:
                self._is_garbled = True
                return
            end = start + _PREFIX.size - 1 + length
            if size < end:
                missing_bytes = end - size
                break
            yield kind, data[start + _PREFIX.size : end]
            start = end
        if start < size:
            self._pieces, self._missing_bytes = [data[start:]], missing_bytes

    def connection_lost(self, _: Exception | None) -> None:
        """The process ended, or is about to."""
        self._hung_up.set()


async def _reaped(process: subprocess.Popen[bytes]) -> None:
    """Wait until a process that is about to end has ended."""
    while process.poll() is None:  # noqa: ASYNC110 - nothing notifies of it
        await asyncio.sleep(_POLL_S)
