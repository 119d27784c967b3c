"""The batches that native threads of the gateway have judged in a worker process, through its ring.

The ring is memory (`native/src/ring`), so no message of the parent has them: a worker judges them
while it waits for a message, and for a short time among messages. It writes into the ring whether
it accepts a batch. Any other verdict is also a message to the parent, which is sent before that.
"""

from __future__ import annotations

import math
import socket
import time
from typing import TYPE_CHECKING, Any, Final

from penstock.engine.chain import inapplicable
from penstock.engine.verdict import ACCEPTED, FailureCause
from penstock.engine.workers import messages

if TYPE_CHECKING:
    from penstock.engine.verdict import PolicyVerdict
    from penstock.engine.workers.processes.process import WorkerJudge

_SIGNAL_EVERY_S: Final = 0.0002
"""How long native threads do not hear of outcomes while there are more batches."""
_COUNTED_EVERY_MS: Final = 100
_AMONG_MESSAGES_S: Final = 0.002
"""How long batches of the ring are judged while there may be messages."""
_SLOW_S: Final = 0.002
"""After a batch that took longer, native threads hear of its outcome at once."""


class RingBatches:
    """The batches of a worker's ring.

    Attributes:
        is_ending: Whether this process is out of memory, so that it judges no more.
    """

    def __init__(self, reader: Any, parent: socket.socket) -> None:
        self._reader = reader
        self._parent = parent
        self._judge: WorkerJudge | None = None
        self._counted_at = 0.0
        self._is_counted = True
        self.is_ending = False

    def begin(self, judge: WorkerJudge) -> None:
        """Judge batches from now on."""
        self._judge = judge

    def judge_until_message(self) -> None:
        """Judge batches until the parent has sent a message, or has ended."""
        if self._judge is None:
            return
        descriptor, wait = self._parent.fileno(), self._reader.wait
        while not self._judge_some(self._judge):
            is_readable = wait(descriptor, -1 if self._is_counted else _COUNTED_EVERY_MS)
            self._send_counts_in_time(self._judge)
            if is_readable:
                return

    def judge_some(self) -> None:
        """Judge the batches that are there, for a short time."""
        if self._judge is not None and not self.is_ending:
            self._judge_some(self._judge, _AMONG_MESSAGES_S)

    def _judge_some(self, judge: WorkerJudge, limit_s: float = math.inf) -> bool:
        """Judge the batches that are there; return whether a message came before the last.

        Or whether this worker has to end.
        """
        take_next, answer, say = self._reader.next, self._reader.answer, self._reader.say
        start = signal_time = began = time.monotonic()
        while not self.is_ending and (batch := take_next()) is not None:
            number, version, partition, topic_id, plan, records = batch
            verdict = _verdict_of(judge, version, partition, topic_id, plan, records)
            now = time.monotonic()
            if verdict is not ACCEPTED:  # before its outcome: Python may then wait for it
                self._parent.sendall(messages.ring_verdict(number, verdict, now - began))
            answer(verdict is ACCEPTED, messages.microseconds(now - began))
            self.is_ending = verdict.cause is FailureCause.OUT_OF_MEMORY
            self._is_counted = False
            if now - signal_time > _SIGNAL_EVERY_S or now - began > _SLOW_S:
                say()
                self._send_counts_in_time(judge)
                signal_time = now
                if now - start > limit_s or has_message(self._parent):
                    return True
            began = now
        say()
        return self.is_ending

    def _send_counts_in_time(self, judge: WorkerJudge) -> None:
        if not self._is_counted and (
            time.monotonic() - self._counted_at > _COUNTED_EVERY_MS / 1000
        ):
            self._send_counts(judge)

    def _send_counts(self, judge: WorkerJudge) -> None:
        self._is_counted, self._counted_at = True, time.monotonic()
        counts = judge.counted()
        if counts:
            self._parent.sendall(counts)


def _verdict_of(
    judge: WorkerJudge, version: int, partition: int, topic_id: bytes, plan: bytes, records: bytes
) -> PolicyVerdict:
    """Return the verdict on a batch of a ring."""
    try:
        return judge.judge_in_ring(plan, version, partition, topic_id, records)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a panic of native code is no Exception
        return inapplicable(error)


def has_message(parent: socket.socket) -> bool:
    """Return whether the parent has sent something, or has ended."""
    try:
        parent.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except BlockingIOError:
        return False
    return True
