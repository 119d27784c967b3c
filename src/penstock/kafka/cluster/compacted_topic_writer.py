"""Writes records to a compacted topic, through an idempotent producer that is replaced if it fails.

librdkafka's idempotent producer ends with a fatal error, such as a broker's
OUT_OF_ORDER_SEQUENCE_NUMBER, and when it has lost all its brokers: it gives up
the records that it holds, and another producer writes the next records.
"""

from __future__ import annotations

import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import structlog
from confluent_kafka import KafkaError, KafkaException, Producer

from penstock.kafka.cluster.librdkafka import is_fatal, watched
from penstock.kafka.cluster.librdkafka import producer as new_producer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Done = Callable[[int, str | None], None]

log = structlog.get_logger()

RECORD_MAX_BYTES: Final = 16 * 2**20
MESSAGE_TIMEOUT_MS: Final = 10_000
_POLL_S: Final = 0.5
_PAUSE_S: Final = 0.2


class _Append:
    """Records written together; `callback` is called when the last record has its result."""

    def __init__(self, count: int, callback: Done) -> None:
        self._remaining = count
        self._callback = callback
        self._end = 0
        self._failure: str | None = None
        self._lock = threading.Lock()

    def settle(self, end: int, failure: str | None) -> None:
        """Take the result of one record: the offset after it, or an error message."""
        with self._lock:
            self._remaining -= 1
            self._end, self._failure = max(self._end, end), failure or self._failure
            is_last = not self._remaining
        if is_last:
            self._callback(self._end, self._failure)


class CompactedTopicWriter:
    """Writes to the only partition of a topic.

    Each record gets a result: it is replicated, or it failed, at the latest after
    `MESSAGE_TIMEOUT_MS`. A record that failed may be in the topic nevertheless.
    """

    def __init__(self, topic: str, settings: Mapping[str, Any]) -> None:
        """Make the producer; it connects by itself.

        Args:
            topic: The name of the topic.
            settings: librdkafka's properties for the cluster.
        """
        self.topic = topic
        self._settings = settings
        self._replacement_lock = threading.Lock()
        self._retired_producers: list[Producer] = []
        self._generation = 0
        self._producer = self._new_producer()

    def _new_producer(self) -> Producer:
        self._generation += 1
        return new_producer(
            {
                **watched(self._settings, partial(self._lost_brokers, self._generation)),
                "enable.idempotence": True,
                "linger.ms": 0,
                "message.max.bytes": RECORD_MAX_BYTES,
                "message.timeout.ms": MESSAGE_TIMEOUT_MS,
                "error_cb": partial(self._failed, self._generation),
            }
        )

    def append(self, records: Sequence[tuple[bytes, bytes | None]], callback: Done) -> None:
        """Write records.

        Args:
            records: Keys and values; None deletes a key.
            callback: Called once, in the thread of `run` or in this thread: with the offset after
                the last record, or with an error message.
        """
        together = _Append(len(records), callback)
        for key, value in records:
            try:
                self._produce(key, value, together)
            except (KafkaException, BufferError) as error:
                together.settle(0, str(error))

    def _produce(self, key: bytes, value: bytes | None, together: _Append) -> None:
        producer = self._producer
        try:
            producer.produce(self.topic, value, key, 0,
                             on_delivery=partial(self._delivered, producer, together))  # fmt: skip
        except KafkaException as error:
            if not self._replace_if_fatal(producer, error.args[0]):
                raise
            producer = self._producer  # the other producer has not taken it
            producer.produce(self.topic, value, key, 0,
                             on_delivery=partial(self._delivered, producer, together))  # fmt: skip

    def _delivered(
        self, producer: Producer, together: _Append, error: KafkaError | None, message: Any
    ) -> None:
        if error is None:
            together.settle(message.offset() + 1, None)
        else:
            self._replace_if_fatal(producer, error)
            together.settle(0, _reason(error))

    def _failed(self, generation: int, error: KafkaError) -> None:
        """Take an error that belongs to no record; a fatal error would be raised otherwise."""
        if generation == self._generation:
            self._replace_if_fatal(self._producer, error)

    def _replace_if_fatal(self, producer: Producer, error: KafkaError) -> bool:
        """Replace a producer after a fatal error; return whether the error is fatal."""
        if not is_fatal(error):
            return False
        self._replace(producer, error.str())
        return True

    def _lost_brokers(self, generation: int) -> None:
        if generation == self._generation:
            self._replace(self._producer, "it has lost all its brokers")

    def _replace(self, producer: Producer, why: str) -> None:
        with self._replacement_lock:
            if producer is self._producer:
                log.warning("a producer is replaced", topic=self.topic, reason=why)
                replacement = self._new_producer()
                self._retired_producers.append(producer)
                self._producer = replacement

    def run(self, stopped: threading.Event) -> None:
        """Call back with the results of records until the event is set."""
        while not stopped.is_set():
            if not self._poll(_POLL_S):
                stopped.wait(_PAUSE_S)

    def _poll(self, timeout_s: float) -> bool:
        """Call back with the available results; return whether that worked."""
        try:
            for producer in list(self._retired_producers):
                producer.purge()  # its records fail at once, and are written again if needed
                self._call_back(producer, 0)
                if not len(producer):
                    self._retired_producers.remove(producer)
            self._call_back(self._producer, timeout_s)
        except Exception:  # or no later record would get its result
            log.exception("writing to a topic fails", topic=self.topic)
            return False
        return True

    def _call_back(self, producer: Producer, timeout_s: float) -> None:
        try:
            producer.poll(timeout_s)
        except KafkaException as error:  # a fatal error is raised before the results
            if not self._replace_if_fatal(producer, error.args[0]):
                raise

    def close(self, timeout_s: float) -> None:
        """Wait for the records that are being written, when `run` has ended. Blocks."""
        deadline = time.monotonic() + timeout_s  # `flush` loses results where an error is fatal
        while (self._retired_producers or len(self._producer)) and time.monotonic() < deadline:
            if not self._poll(_PAUSE_S):
                return


def _reason(error: KafkaError) -> str:
    """Return why a record was not written, and what causes it if that is known."""
    if error.code() == KafkaError.TOPIC_EXCEPTION:
        # A gateway takes no records for the topics in which it keeps its own state.
        return f"{error.str()} (if the upstream is a gateway that uses this topic, name another)"
    return error.str()
