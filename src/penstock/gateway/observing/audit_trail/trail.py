"""The queue between the event loop, in which refusals happen, and the thread that writes them.

Nothing waits for the trail. The queue is bounded: if the file or the topic cannot be written for
long, later refusals are left out, counted, and logged. Every record has a number, so that a gap in
the trail shows how many were left out. What a waiting client gets again and again is one record a
minute (`repeated_refusals`).
"""

from __future__ import annotations

import threading
import time
import uuid
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

import structlog

from penstock.gateway.observing.audit_trail.record import audit_record, change_record
from penstock.gateway.observing.audit_trail.repeated_refusals import RepeatedRefusals

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.gateway.observing.plan_watch import PlanChange
    from penstock.gateway.refusal_log import Refused

log = structlog.get_logger()

HELD_MAX_BYTES: Final = 32 * 2**20
"""The limit of the queue; each record counts with `RECORD_BYTES` more than its text."""
RECORD_BYTES: Final = 512
CLOSE_TIMEOUT_S: Final = 5.0
_WARN_EVERY_S: Final = 10.0
_RETRY_S: Final = 1.0
_JOIN_EXTRA_S: Final = 2.0


class Settle(Protocol):
    """Gets the outcome of records."""

    def __call__(self, records: Sequence[bytes], *, is_written: bool) -> None:
        """Count records that are written, or are given up."""


class Sink(Protocol):
    """Where records are written; all methods but the first two are called in the trail's thread."""

    @property
    def name(self) -> str:
        """The file or the topic, for the log."""

    def start(self, settle: Settle, warn: Callable[[str], None]) -> None:
        """Take the callbacks for records that are done, and for errors."""

    def take(self, records: Sequence[bytes]) -> None:
        """Take records over; each is settled once, sooner or later."""

    def work(self) -> float | None:
        """Go on with the taken records.

        Returns:
            After how many seconds to call again at the latest; None if nothing is left.
        """

    def reopen(self) -> None:
        """Look whether a file was renamed."""

    def close(self) -> None:
        """Stop; unsettled records are given up."""


class AuditTrail:
    """Writes refusals in a separate thread.

    Attributes:
        written: How many are written: in the file, or acknowledged by all replicas in sync.
        left_out: How many will never be.
        held_bytes: The bytes of records that are on their way.
    """

    def __init__(
        self,
        sink: Sink,
        gateway: str,
        *,
        held_max_bytes: int = HELD_MAX_BYTES,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Start the thread.

        Args:
            sink: Where records are written; it is open.
            gateway: The name of the gateway.
            held_max_bytes: The most that may be on its way.
            clock: Returns the time in seconds since the epoch.
            monotonic: Returns the time by which refusals are counted together.
        """
        self.written = self.left_out = self.held_bytes = 0
        self._sink = sink
        self._gateway = gateway
        self._run_id = uuid.uuid4().hex
        self._number = 0
        self._held_max_bytes = held_max_bytes
        self._clock = clock
        self._monotonic = monotonic
        self._repeated = RepeatedRefusals()
        self._queue: deque[bytes] = deque()
        self._held = 0
        self._logged = 0
        self._logged_at = self._warned_at = float("-inf")
        self._is_troubled = False
        self._woken = False
        self._reopens = False
        self._ends_at: float | None = None
        self._changed = threading.Condition()
        sink.start(self._settle, self._warn)
        self._thread = threading.Thread(target=self._work, name="audit trail", daemon=True)
        self._thread.start()

    def put(self, refused: Refused) -> None:
        """Queue a refusal, or leave it out if there is no room. Never blocks, never raises."""
        at_s = self._clock()
        if not (refused.is_awaited and self._is_repeated(refused, at_s)):
            self._add(refused, 1, at_s)

    def _is_repeated(self, refused: Refused, at_s: float) -> bool:
        """Count a refusal with others of its client, unless it is to be written at once."""
        with self._changed:
            is_open = self._ends_at is None
            return is_open and self._repeated.put(refused, self._monotonic(), at_s)

    def put_change(self, change: PlanChange) -> None:
        """Queue a change of a topic's plan, as `put`."""
        self._queue_record(partial(change_record, change, at_s=self._clock()))

    def _add(self, refused: Refused, count: int, at_s: float, *, by_thread: bool = False) -> None:
        """Queue a refusal.

        Args:
            count: How many refusals the record stands for.
            at_s: When it was, in seconds since the epoch.
            by_thread: See `_queue_record`.
        """
        write = partial(audit_record, refused, at_s=at_s, count=count)
        self._queue_record(write, by_thread=by_thread)

    def _queue_record(self, write: Callable[..., bytes], *, by_thread: bool = False) -> None:
        """Number a record, and queue it; leave it out if there is no room, or after the end.

        Args:
            write: Returns the record.
            by_thread: Whether the thread adds it, which then writes it, even at the end.
        """
        with self._changed:
            self._number += 1
            number, has_room = self._number, self.held_bytes < self._held_max_bytes
        if not has_room:
            self._leave_out()
            return
        try:
            record = write(gateway=self._gateway, run=self._run_id, number=number)
        except Exception:
            log.exception("a refusal cannot be written to the audit trail")
            self._leave_out()
            return
        with self._changed:
            if by_thread or self._ends_at is None:
                self._queue.append(record)
                self._held += 1
                self.held_bytes += len(record) + RECORD_BYTES
                self._wake()
                return
        self._leave_out()

    def reopen(self) -> None:
        """Open the file again if it was renamed (`logrotate`)."""
        with self._changed:
            self._reopens = True
            self._wake()

    def close(self, timeout_s: float = CLOSE_TIMEOUT_S) -> None:
        """Write the queued records, for so long at most; the rest is left out. Blocks."""
        with self._changed:
            self._ends_at = time.monotonic() + timeout_s
            self._wake()
        self._thread.join(timeout_s + _JOIN_EXTRA_S)
        with self._changed:
            self.left_out += self._held
            self._held = self.held_bytes = 0
        self._log_left_out()

    def _wake(self) -> None:
        self._woken = True
        self._changed.notify()

    def _leave_out(self) -> None:
        with self._changed:
            self.left_out += 1
        if time.monotonic() - self._logged_at > _WARN_EVERY_S:
            self._log_left_out()

    def _log_left_out(self) -> None:
        with self._changed:
            count, self._logged = self.left_out - self._logged, self.left_out
            self._logged_at = time.monotonic()
        if count:
            log.error("refusals left out of the audit trail", to=self._sink.name, count=count,
                      total=self.left_out)  # fmt: skip

    # In the thread

    def _work(self) -> None:
        within_s: float | None = None
        is_ended = False
        while not is_ended:
            with self._changed:
                self._changed.wait_for(lambda: self._woken, self._until_due(within_s))
                self._woken = False
                reopens, self._reopens = self._reopens, False
                ends_at = self._ends_at
            self._add_repeated(is_last=ends_at is not None)
            with self._changed:
                records = list(self._queue)
                self._queue.clear()
            within_s = self._work_on(records, reopens=reopens)
            is_ended = ends_at is not None and (within_s is None or time.monotonic() > ends_at)
            if within_s is None:
                within_s = self._log_left_out_in_time()
        self._sink.close()

    def _until_due(self, within_s: float | None) -> float | None:
        """Return after how many seconds the thread has to work; None for until it is woken."""
        due_s = self._repeated.due_s
        if due_s is None:
            return within_s
        due_in_s = max(due_s - self._monotonic(), 0)
        return due_in_s if within_s is None else min(within_s, due_in_s)

    def _add_repeated(self, *, is_last: bool) -> None:
        """Queue the records of refusals that were counted for a minute; at the end, of all."""
        with self._changed:
            if is_last:
                due = list(self._repeated.take_all())
            else:
                due = list(self._repeated.take_due(self._monotonic()))
        for refusal in due:
            self._add(refusal.last, refusal.count, refusal.at_s, by_thread=True)

    def _work_on(self, records: Sequence[bytes], *, reopens: bool) -> float | None:
        """Return after how many seconds to call again; None if all is written."""
        try:
            if reopens:
                self._sink.reopen()
            if records:
                self._sink.take(records)
            within_s = self._sink.work()
        except Exception as error:
            log.exception("an error in the audit trail")
            self._warn(type(error).__name__)
            return _RETRY_S
        if within_s is None and self._is_troubled:
            self._is_troubled = False
            log.info("the audit trail is written again", to=self._sink.name)
        return within_s

    def _log_left_out_in_time(self) -> float | None:
        """Log how many records were left out, if any, or return the seconds until it is time."""
        if self.left_out == self._logged:
            return None
        left_s = self._logged_at + _WARN_EVERY_S - time.monotonic()
        if left_s > 0:
            return left_s
        self._log_left_out()
        return None

    def _settle(self, records: Sequence[bytes], *, is_written: bool) -> None:
        with self._changed:
            self._held -= len(records)
            self.held_bytes -= sum(map(len, records)) + len(records) * RECORD_BYTES
            if is_written:
                self.written += len(records)
            else:
                self.left_out += len(records)

    def _warn(self, reason: str) -> None:
        self._is_troubled = True
        now = time.monotonic()
        if now - self._warned_at > _WARN_EVERY_S:
            self._warned_at = now
            log.error("the audit trail cannot be written now", to=self._sink.name, reason=reason)
