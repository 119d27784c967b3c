"""The gateway's end of a ring, as far as a worker sees it: what a native thread writes there."""

import mmap
import os
import select
import struct

from penstock import _native

_WRITTEN, _LEFT_OUT, _WAITS, _OUTCOMES, _MARK = 0, 64, 192, 256, 2048
_SLOTS, _SLOT_BYTES, _BATCHES_MAX, _REPLY_BYTES = 4096, 64, 1024, 16
_REPLIES = _SLOTS + _BATCHES_MAX * _SLOT_BYTES
_DATA = _REPLIES + 16 * _BATCHES_MAX * _REPLY_BYTES
_DATA_BYTES = 4 * 2**20
ACCEPTED, REFUSED, LEFT_OUT = 1, 2, 3


class RingMemory:
    """A ring of one thread.

    Attributes:
        reader: The worker's end.
        wake_count: How often the worker had to be woken.
    """

    def __init__(self):
        self._ring = _native.Ring(1, 1)
        memory, work, outcomes = self._ring.descriptors()
        self.reader = _native.RingReader(memory, work, [outcomes])
        self.wake_count = 0
        self._memory = mmap.mmap(memory, _DATA + _DATA_BYTES)
        self._work = os.open(f"/proc/self/fd/{work}", os.O_WRONLY | os.O_NONBLOCK)
        self._called = os.open(f"/proc/self/fd/{outcomes}", os.O_RDONLY | os.O_NONBLOCK)
        self._count = self._end = 0

    def write(self, records, plan=b"plan", context=b""):
        """Write a batch, and wake the worker if it waits."""
        self._count += 1
        number, content = self._count, plan + context + records
        start = self._end if self._end + len(content) <= _DATA_BYTES else 0
        self._end = start + len(content)
        self._memory[_DATA + start : _DATA + self._end] = content
        slot = struct.pack(
            "<QIIIihH16sI",
            number,
            start,
            len(plan),
            len(records),
            0,
            9,
            0,
            bytes(16),
            len(context),
        )
        at = _SLOTS + number % _BATCHES_MAX * _SLOT_BYTES
        self._memory[at : at + len(slot)] = slot
        self._put(_WRITTEN, number)
        if self._number(_WAITS):
            self._put(_WAITS, 0)
            self.wake_count += 1
            os.write(self._work, b"\1")

    def expect_mark(self, number):
        """Have the worker handle the messages up to a mark before it begins the next batch."""
        self._ring.expect_mark(number)

    def recall(self):
        """Have the worker leave out all batches so far that a native thread has written."""
        self._ring.recall()

    def write_nonsense(self):
        """Write what no gateway has written, where the worker reads the number of a mark."""
        self._put(_MARK, 2**64 - 1)

    def overwrite(self, data):
        """Write over the end of the last batch, as a class of a worker may."""
        self._memory[_DATA + self._end - len(data) : _DATA + self._end] = data

    def leave_out(self, number):
        """Have the worker leave out all batches up to a number."""
        self._put(_LEFT_OUT, number)

    @property
    def outcome_count(self):
        """How many batches have an outcome."""
        return self._number(_OUTCOMES)

    def outcomes(self):
        """Return the outcomes of all batches so far."""
        found = []
        for position in range(self.outcome_count):
            at = _REPLIES + position % _BATCHES_MAX * _REPLY_BYTES
            number, _, outcome = struct.unpack_from("<QII", self._memory, at)
            assert number == position + 1
            found.append(outcome)
        return found

    def is_called(self, timeout_s=0.0):
        """Return whether the worker has called, and take note of it."""
        called = bool(select.select([self._called], [], [], timeout_s)[0])
        if called:
            os.read(self._called, 65536)
        return called

    def close(self):
        """Close the descriptors."""
        os.close(self._work)
        os.close(self._called)
        self._memory.close()

    def _number(self, at):
        return struct.unpack_from("<Q", self._memory, at)[0]

    def _put(self, at, value):
        struct.pack_into("<Q", self._memory, at, value)
