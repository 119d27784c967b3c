"""Follows a compacted topic, and writes to it, from the event loop.

Before a gateway uses a topic or a producer for the first time, it reads the compacted topic to its
end, so that earlier writes of other gateways are effective here, too.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import structlog

from penstock.kafka.cluster.compacted_topic import SHORTEST_REQUEST_S, CompactedTopicError
from penstock.kafka.cluster.state_writes import StateWrites

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.kafka.cluster.compacted_topic import CompactedTopic, LogRecord

log = structlog.get_logger()

_WARN_EVERY_S: Final = 10.0
_RETRY_AFTER_S: Final = 0.1
_TAKEN_AT_ONCE: Final = 500
WRITE_TIMEOUT_S: Final = 15.0
"""The time after which a write has failed in any case: later than the writer would report it."""
_PROBE_AFTER_S: Final = 1.0
_LATE: Final = f"not written within {WRITE_TIMEOUT_S:.0f} s"
_CUT: Final = "{} has lost records that were read from it: restart the gateways"


@dataclass(slots=True, eq=False)
class _Write:
    """Records that are being written; without a timer they have their result."""

    callback: Callable[[int, str | None], None]
    timer: asyncio.TimerHandle | None = None


class LogFollower:
    """One gateway's view of a compacted topic: all records up to a position.

    Attributes:
        topic: The name of the topic.
        position: Up to where it has been read.
        writes: How writes have ended.
    """

    def __init__(
        self,
        topic: CompactedTopic,
        take: Callable[[LogRecord], None],
        *,
        probe_key: bytes = b"probe",
        ahead: Callable[[LogRecord], None] | None = None,
    ) -> None:
        """Make the follower; `start` connects.

        Args:
            take: Called in the event loop with each record, in order.
            probe_key: A key that no record has: while writing fails, it is deleted again and again,
                to find out when writing works.
            ahead: Called in another thread with each record that is followed, before `take` waits
                for the event loop.
        """
        self._probe_key = probe_key
        self.topic = topic.topic
        self.position = 0
        self._log = topic
        self._on_record = take
        self._ahead = ahead
        self._waiters: list[tuple[int, asyncio.Future[None]]] = []
        self._late = self._why_late = f"{self.topic} could not be read in time"
        self._read_task: asyncio.Task[None] | None = None
        self._callers: dict[asyncio.Future[str | None], float] = {}
        self._warning_s = 0.0
        self._probe: asyncio.TimerHandle | None = None
        self.writes = StateWrites(self.topic)

    async def start(self, timeout_s: float) -> None:
        """Read all records, and follow the topic from then on.

        Raises:
            ConfigurationError: The topic cannot be used.
            CompactedTopicError: The cluster does not respond.
        """
        self._loop = asyncio.get_running_loop()
        records = await asyncio.to_thread(self._log.open, timeout_s)
        for start in range(0, len(records), _TAKEN_AT_ONCE):
            self._take_all(records[start : start + _TAKEN_AT_ONCE])
            await asyncio.sleep(0)
        self._log.follow(self._read_in_thread, partial(self._from_thread, self._warn))

    def _read_in_thread(self, records: Sequence[LogRecord]) -> None:
        if self._ahead is not None:
            for record in records:
                if not record.ends:
                    self._ahead(record)
        self._from_thread(self._take_all, records)

    def _from_thread(self, call: Callable[[Any], None], argument: object) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(call, argument)

    async def close(self) -> None:
        """Stop following."""
        if self._probe is not None:
            self._probe.cancel()
        await asyncio.to_thread(self._log.close)

    # Reading

    async def read_to_end(self, timeout_s: float) -> None:
        """Read the topic up to its present end.

        One read runs at a time; all calls in the meantime share the next read.

        Args:
            timeout_s: When to give up, also if that is before the next read can begin.

        Raises:
            CompactedTopicError: It cannot be read now.
        """
        caller: asyncio.Future[str | None] = self._loop.create_future()
        self._callers[caller] = timeout_s
        if self._read_task is None or self._read_task.done():
            self._read_task = self._loop.create_task(self._read_for_callers())
        try:
            async with asyncio.timeout(timeout_s):
                why = await caller
        except TimeoutError:
            why = self._why_late
        if why is not None:
            raise CompactedTopicError(why)

    async def _read_for_callers(self) -> None:
        """Read until nothing waits for a read any more."""
        self._why_late = self._late
        while callers := {
            key: timeout_s for key, timeout_s in self._callers.items() if not key.done()
        }:
            self._callers = {}
            try:
                why = await self._fetch_end_and_read(max(callers.values()))
            except Exception:  # the next read may succeed
                log.exception("a topic cannot be read", topic=self.topic)
                why = self._late
            for caller in callers:
                if not caller.done():
                    caller.set_result(why)
        self._callers = {}

    async def _fetch_end_and_read(self, timeout_s: float) -> str | None:
        """Return None when it has been read, or why it could not."""
        deadline = self._loop.time() + timeout_s
        try:
            async with asyncio.timeout_at(deadline):
                while (left_s := deadline - self._loop.time()) >= SHORTEST_REQUEST_S:
                    start_position = self.position
                    try:
                        end = await asyncio.to_thread(self._log.end, left_s)
                    except CompactedTopicError as error:  # a broker may be restarting
                        self._why_late = str(error)
                        await asyncio.sleep(_RETRY_AFTER_S)
                    else:
                        if end >= start_position:
                            self._why_late = self._late
                            await self._read_up_to(end)
                            return None
                        # Or a broker has answered that does not lead it any more.
                        detail = f"it ends at {end}, and was read up to {start_position}"
                        self._why_late = f"{_CUT.format(self.topic)} ({detail})"
                        await asyncio.sleep(_RETRY_AFTER_S)
        except TimeoutError:
            pass
        return self._why_late

    async def _read_up_to(self, position: int) -> None:
        if self.position < position:
            future = self._loop.create_future()
            self._waiters.append((position, future))
            await future

    def when_read(
        self, position: int, timeout_s: float, callback: Callable[[str | None], None]
    ) -> None:
        """Call `callback` with None when the topic has been read up to a position.

        Args:
            timeout_s: After so long it is called with an error message.
            callback: It may be called before this returns.
        """
        if self.position >= position:
            callback(None)
            return
        future: asyncio.Future[None] = self._loop.create_future()
        timer = self._loop.call_later(timeout_s, future.cancel)

        def read(_: object) -> None:
            timer.cancel()
            callback(self._late if future.cancelled() else None)

        future.add_done_callback(read)
        self._waiters.append((position, future))

    def _take_all(self, records: Sequence[LogRecord]) -> None:
        for record in records:
            self._take(record)

    def _take(self, record: LogRecord) -> None:
        if not record.ends:
            if record.position <= self.position:
                self._warn(_CUT.format(self.topic))
                return
            try:
                self._on_record(record)
            except Exception:  # the position advances nevertheless
                log.exception("a record cannot be applied", topic=self.topic)
        self.position = max(self.position, record.position)
        if self._waiters:
            self._wake()

    def _wake(self) -> None:
        still = []
        for position, future in self._waiters:
            if self.position < position:
                still.append((position, future))
            elif not future.done():
                future.set_result(None)
        self._waiters = [waiter for waiter in still if not waiter[1].done()]

    def _warn(self, why: str) -> None:
        now = time.monotonic()
        if now - self._warning_s > _WARN_EVERY_S:
            self._warning_s = now
            log.warning("a topic cannot be read", topic=self.topic, reason=why)

    # Writing

    def write(
        self,
        records: Sequence[tuple[bytes, bytes | None]],
        callback: Callable[[int, str | None], None],
    ) -> None:
        """Write records.

        Args:
            records: Keys and values; None deletes a key.
            callback: Called once in the event loop, with the position after the last record and
                None, or with an error message; at the latest after `WRITE_TIMEOUT_S`.
        """
        write = _Write(callback)
        write.timer = self._loop.call_later(WRITE_TIMEOUT_S, self._written, write, 0, _LATE)

        def written(end: int, failure: str | None) -> None:
            if not self._loop.is_closed():
                self._loop.call_soon_threadsafe(self._written, write, end, failure)

        self._log.append(records, written)

    def _written(self, write: _Write, end: int, failure: str | None) -> None:
        if write.timer is None:
            return  # it was late, and has failed
        write.timer.cancel()
        write.timer = None
        self.writes.ended(failure, is_late=failure is _LATE)
        if failure is not None and self._probe is None:
            self._probe = self._loop.call_later(_PROBE_AFTER_S, self._write_probe)
        write.callback(end, failure)

    def _write_probe(self) -> None:
        self._probe = None
        if self.writes.why_not:
            self.write([(self._probe_key, None)], lambda *_: None)

    async def append(
        self, records: Sequence[tuple[bytes, bytes | None]], read_timeout_s: float
    ) -> None:
        """Write records; return when they have been read back.

        Raises:
            CompactedTopicError: They could not be written, or not be read in time.
        """
        future: asyncio.Future[tuple[int, str | None]] = self._loop.create_future()

        def done(end: int, failure: str | None) -> None:
            if not future.done():
                future.set_result((end, failure))

        self.write(records, done)
        end, failure = await future
        if failure is not None:
            raise CompactedTopicError(f"{self.topic}: {failure}")
        try:
            async with asyncio.timeout(read_timeout_s):
                await self._read_up_to(end)
        except TimeoutError:
            raise CompactedTopicError(self._late) from None
