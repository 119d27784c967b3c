"""The batches that native threads of the gateway have judged in a worker process, through its ring.

The ring is memory (`native/src/ring`), so no message of the parent has them: a worker judges them
while it waits for a message, and for a short time among messages. The loop is native up to the
call of the judge (`native/src/python_ring.rs`): where a process sleeps between two batches, the
code of each call of Python comes from memory again. It writes into the ring whether it accepts a
batch. Any other verdict is also a message to the parent, which is sent before that; so is the
verdict on a batch in which policies have shared values.
"""

from __future__ import annotations

import socket
import time
from typing import TYPE_CHECKING, Any, Final, Protocol

from penstock.engine.chain import inapplicable
from penstock.engine.verdict import ACCEPTED, FailureCause
from penstock.engine.workers import messages
from penstock.kafka.records.native import new_header
from penstock.policy import ClientContext

if TYPE_CHECKING:
    from collections.abc import Callable

    _OtherBatch = tuple[int, Any, bool, float]

_AMONG_MESSAGES_S: Final = 0.002
"""How long batches of the ring are judged while there may be messages."""


class RingJudge(Protocol):
    """The judge of a worker."""

    data_in_ring: Callable[[], bytes]
    """Returns the bytes of the batch that is being judged."""

    @property
    def limits(self) -> tuple[int, int]:
        """The most bytes and records of a batch, decompressed."""

    @property
    def judge_in_ring(self) -> Callable[..., Any]:
        """Returns the verdict on a batch: plan, version, partition, topic id, client, records."""

    def counted(self) -> bytes:
        """Return a message with the counts since the last; empty without any."""


class RingBatches:
    """The batches of a worker's ring.

    Attributes:
        is_ending: Whether this process is out of memory, so that it judges no more.
    """

    def __init__(self, reader: Any, parent: socket.socket) -> None:
        self._reader = reader
        self._parent = parent
        self._judge: RingJudge | None = None
        self.is_ending = False

    def begin(self, judge: RingJudge) -> None:
        """Judge batches from now on."""
        self._judge = judge
        judge.data_in_ring = self._reader.batch
        self._reader.begin(judge.judge_in_ring, ACCEPTED, new_header, ClientContext, *judge.limits)

    def judge_until_message(self) -> None:
        """Judge batches until the parent has sent a message, or will, or has ended."""
        if self._judge is None:
            return
        judge_others, descriptor = self._reader.judge, self._parent.fileno()
        is_over = False
        while not (is_over or self.is_ending):
            is_over, other = judge_others(descriptor)
            self._finish(self._judge, other)

    def judge_some(self) -> None:
        """Judge the batches that are there, for a short time."""
        if self._judge is None:
            return
        judge_others, descriptor = self._reader.judge, self._parent.fileno()
        end = time.monotonic() + _AMONG_MESSAGES_S
        is_over = False
        while not (is_over or self.is_ending):
            is_over, other = judge_others(descriptor, end - time.monotonic())
            self._finish(self._judge, other)

    def note_handled(self, mark: int) -> None:
        """Note that all messages up to a mark are handled: batches may have waited for that."""
        self._reader.note_handled(mark)

    def _finish(self, judge: RingJudge, other: _OtherBatch | None) -> None:
        """Send the verdict on a batch that is not accepted, and counts if it is time."""
        if other is not None:
            number, verdict, was_raised, took_s = other
            if was_raised:
                if isinstance(verdict, KeyboardInterrupt):
                    raise verdict
                verdict = inapplicable(verdict)  # a panic of native code is no Exception
            # Before its outcome: Python may then wait for it. Other workers have what its policies
            # share before that.
            framed = messages.ring_verdict(number, verdict, took_s)
            self._parent.sendall(judge.counted() + framed)
            self._reader.answer(False, messages.microseconds(took_s))
            self.is_ending = verdict.cause is FailureCause.OUT_OF_MEMORY
        if self._reader.take_due():
            counts = judge.counted()
            if counts:
                self._parent.sendall(counts)


def has_message(parent: socket.socket) -> bool:
    """Return whether the parent has sent something, or has ended."""
    try:
        parent.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except BlockingIOError:
        return False
    return True
