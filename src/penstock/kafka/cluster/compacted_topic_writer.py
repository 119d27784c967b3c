"""Writes records to a compacted topic, as an idempotent producer that is replaced if it fails.

Records that come while a request is under way are written together with the next request.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import structlog

from penstock.kafka.client.errors import ClientError, ResponseError
from penstock.kafka.client.protocol.write_errors import AbortedError, RefusedBatchError
from penstock.kafka.client.writing.idempotent_pipeline import idempotent_pipeline
from penstock.kafka.client.writing.limits import WriterLimits
from penstock.kafka.client.writing.own_records import own_batch, own_source
from penstock.kafka.wire.errors import INVALID_TOPIC_EXCEPTION, WireError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.kafka.client.connections.connection import Connection
    from penstock.kafka.client.connections.pipeline import Pipeline
    from penstock.kafka.client.protocol.produced_batches import BatchSource

    Done = Callable[[int, str | None], None]

log = structlog.get_logger()

RECORD_MAX_BYTES: Final = 16 * 2**20
MESSAGE_TIMEOUT_S: Final = 10.0
_PARTITION: Final = 0
_POLL_S: Final = 0.5
_PAUSE_S: Final = 0.2
_BATCH_BYTES: Final = 1_000_000
"""Of a batch, which brokers take by default; a larger record is alone."""
_RECORD_BYTES: Final = 32
"""What a record takes at most besides key and value."""
_LATE: Final = f"not stored within {MESSAGE_TIMEOUT_S:.0f} s"

_NO_OFFSET: Final = "stored, but the broker has not responded with the offset"


class _Append:
    """Records written together; `callback` is called when the last record has its result."""

    def __init__(self, count: int, callback: Done) -> None:
        self._remaining = count
        self._callback = callback
        self._end = 0
        self._failure: str | None = None

    def settle(self, end: int, failure: str | None) -> None:
        """Take the result of one record: the offset after it, or an error message."""
        self._remaining -= 1
        self._end, self._failure = max(self._end, end), failure or self._failure
        if self._remaining:
            return
        try:
            self._callback(self._end, self._failure)
        except Exception:  # or no later record of the batch would get its result
            log.exception("a result of writing to a topic is not taken")


@dataclass(slots=True, frozen=True)
class _UnsentRecord:
    """A record that is not sent yet."""

    key: bytes
    value: bytes | None
    together: _Append
    deadline: float

    @property
    def size(self) -> int:
        return len(self.key) + len(self.value or b"") + _RECORD_BYTES


class CompactedTopicWriter:
    """Writes to the only partition of a topic.

    Each record gets a result: it is replicated, or it failed. It is not sent after
    `MESSAGE_TIMEOUT_S`; the batch that it is in has as long as its newest record, so that the
    result comes at the latest soon after twice that time. A record that failed may be in the topic
    nevertheless.
    """

    def __init__(self, topic: str, connection: Connection) -> None:
        """Prepare; nothing is sent.

        Args:
            topic: The name of the topic.
            connection: To the cluster.
        """
        self.topic = topic
        self._connection = connection
        self._source = own_source(topic, _PARTITION)
        self._condition = threading.Condition()
        self._unsent_records: deque[_UnsentRecord] = deque()
        self._pipeline: Pipeline | None = None
        self._offset = -1
        self._cause = ""

    def append(self, records: Sequence[tuple[bytes, bytes | None]], callback: Done) -> None:
        """Write records.

        Args:
            records: Keys and values; None deletes a key.
            callback: Called once, in the thread of `run`: with the offset after the last record,
                or with an error message.
        """
        together = _Append(len(records), callback)
        deadline = time.monotonic() + MESSAGE_TIMEOUT_S
        with self._condition:
            self._unsent_records += [
                _UnsentRecord(*record, together, deadline) for record in records
            ]
            self._condition.notify()

    def run(self, stopped: threading.Event) -> None:
        """Write records, and call back with their results, until the event is set."""
        while not stopped.is_set():
            try:
                self._write_next(_POLL_S)
            except Exception:  # or no later record would get its result
                log.exception("writing to a topic fails", topic=self.topic)
                stopped.wait(_PAUSE_S)

    def close(self, timeout_s: float) -> None:
        """Write the records that are waiting. Blocks, for so long at most.

        Only when `run` has ended: a pipeline is used by one thread at a time.
        """
        deadline = time.monotonic() + timeout_s
        while self._unsent_records and time.monotonic() < deadline:
            self._write_next(0, deadline)

    def _write_next(self, timeout_s: float, deadline: float = math.inf) -> None:
        """Write the records that are waiting, as many as a batch takes; wait for the first.

        Args:
            timeout_s: How long to wait for the first record.
            deadline: When the batch has failed, also before its own deadline.
        """
        with self._condition:
            if not self._unsent_records:
                self._condition.wait(timeout_s)
            late_records = self._take_late()
            records = self._take()
        for record in late_records:
            record.together.settle(0, _LATE)
        if not records:
            return
        end, failure = self._outcome(records, deadline)
        for number, record in enumerate(records):
            record.together.settle(end and end - len(records) + number + 1, failure)

    def _outcome(self, records: Sequence[_UnsentRecord], deadline: float) -> tuple[int, str | None]:
        """Write a batch; return the offset after it, or 0 and why that is not known."""
        try:
            # The newest record has the most time left; the others may be late, and are stored.
            end = self._write(records, min(deadline, records[-1].deadline))
            # Without the offset nobody would know when the records have been read back.
            return end, None if end else _NO_OFFSET
        except (ClientError, WireError) as error:
            log.warning("a producer is replaced", topic=self.topic, reason=str(error))
            failure = _reason(error)
        except Exception as error:  # each record gets its result
            log.exception("writing to a topic fails", topic=self.topic)
            failure = type(error).__name__
        self._pipeline = None
        return 0, failure

    def _take_late(self) -> list[_UnsentRecord]:
        """Take the records that have waited for too long: no batch with others fails with them."""
        now = time.monotonic()
        records: list[_UnsentRecord] = []
        while self._unsent_records and self._unsent_records[0].deadline <= now:
            records.append(self._unsent_records.popleft())
        return records

    def _take(self) -> list[_UnsentRecord]:
        records: list[_UnsentRecord] = []
        size = 0
        while self._unsent_records and (
            not records or size + self._unsent_records[0].size <= _BATCH_BYTES
        ):
            records.append(self._unsent_records.popleft())
            size += records[-1].size
        return records

    def _write(self, records: Sequence[_UnsentRecord], deadline: float) -> int:
        """Write a batch; return the offset after it, or 0 if that is not known."""
        if self._pipeline is None:
            self._pipeline = idempotent_pipeline(
                self._connection,
                WriterLimits(RECORD_MAX_BYTES, delivery_timeout_s=MESSAGE_TIMEOUT_S),
                timeout_s=deadline - time.monotonic(),
                channel=f"write {self.topic}",
                on_stored=self._stored,
                on_retry=self._take_cause,
            )
        batch = own_batch([(record.key, record.value) for record in records])
        self._cause = ""
        self._pipeline.put(self.topic, _PARTITION, batch, self._source, deadline)
        # Not `flush`: a broker may let a request wait for longer.
        if not self._pipeline.poll(max(0.0, deadline - time.monotonic())):
            # Or the next producer would wait for the same leader, on the same connection.
            self._pipeline.cancel()
            self._connection.refresh(self.topic)
            raise AbortedError(f"{_LATE}{self._cause}")
        return self._offset + len(records) if self._offset >= 0 else 0

    def _stored(self, _: BatchSource, offset: int) -> None:
        self._offset = offset

    def _take_cause(self, error: ClientError) -> None:
        self._cause = f": {error}"


def _reason(error: ClientError | WireError) -> str:
    """Return why records were not written, and what causes it if that is known."""
    code = error.code if isinstance(error, ResponseError) else None
    if isinstance(error, RefusedBatchError) and error.refusal is not None:
        code = error.refusal.code
    if code == INVALID_TOPIC_EXCEPTION:
        # A gateway takes no records for the topics in which it keeps its own state.
        return f"{error} (if the upstream is a gateway that uses this topic, name another)"
    return str(error)
