"""A compacted topic with the state that gateways share: read, followed and written.

By the gateway's own principal, through librdkafka. One thread follows the topic, and passes on
the records in order.
"""

from __future__ import annotations

import threading
import time
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import structlog
from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ConfigResource,
    OffsetSpec,
    ResourceType,
)
from confluent_kafka.cimpl import NewTopic

from penstock.cluster.created_topics import DENIED, create, partitions_of
from penstock.configuration import ConfigurationError
from penstock.configuration.clients import client_properties
from penstock.errors import UnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

log = structlog.get_logger()

_TOPIC_CONFIGS: Final = {
    "cleanup.policy": "compact",
    # Small, and read completely at every start, so it is compacted often.
    "min.cleanable.dirty.ratio": "0.1",
    "segment.bytes": str(16 * 2**20),
    # The age of creations is measured by the brokers' clocks.
    "message.timestamp.type": "LogAppendTime",
}
RECORD_MAX_BYTES: Final = 16 * 2**20
_POLL_S: Final = 0.5
_RETRY_AFTER_S: Final = 0.1


class CompactedTopicError(UnavailableError):
    """The topic cannot be read or written now. The message is for users."""


class LogRecord(NamedTuple):
    """A record, or the end of the topic (`ends`, without key and value)."""

    position: int
    """The offset after it."""
    key: bytes | None = None
    value: bytes | None = None
    timestamp_ms: int = 0
    ends: bool = False


class CompactedTopic:
    """A reader and writer of a compacted topic."""

    def __init__(
        self,
        properties: Mapping[str, str],
        folder: Path,
        topic: str,
        file: Path,
        *,
        key: str,
        otherwise: str,
        configs: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Make the client; `open` and `read` connect.

        Args:
            properties: The keys after `upstream.`, as for a Java client.
            folder: The folder of relative locations in them.
            topic: The name of the topic.
            file: The configuration file, for errors.
            key: The key of the file that names the topic.
            otherwise: How to do without the topic, for errors.
            configs: Additional configs for the creation of the topic.
        """
        self._settings: dict[str, Any] = {
            **client_properties(properties, folder),
            "client.id": "penstock",
            "log_level": 0,
            # Clients of the gateway wait while the broker is unavailable.
            "reconnect.backoff.max.ms": 500,
            "topic.metadata.refresh.fast.interval.ms": 100,
            "retry.backoff.ms": 50,
            "retry.backoff.max.ms": 200,
        }
        self.topic = topic
        self._where = f"{file}: {key}: {topic}"
        self._otherwise = otherwise
        self._configs = {**_TOPIC_CONFIGS, **configs}
        self._partition = TopicPartition(topic, 0)
        self._stopped = threading.Event()
        self._consumer: Consumer | None = None
        self._threads: list[threading.Thread] = []
        self._retired: list[Producer] = []

    def open(self, timeout_s: float) -> list[LogRecord]:
        """Create the topic if it does not exist, and read all of it. Blocks.

        Returns:
            The records, in order.

        Raises:
            ConfigurationError: Not authorized, or the topic is not suitable.
            CompactedTopicError: The cluster does not respond.
        """
        deadline = time.monotonic() + timeout_s
        try:
            self._ensure(deadline)
            self._producer = self._new_producer()
            return self._read_all(deadline)
        except KafkaException as error:
            raise self._error(error.args[0]) from None

    def _new_producer(self) -> Producer:
        return Producer(
            {
                **self._settings,
                "enable.idempotence": True,
                "linger.ms": 0,
                "message.max.bytes": RECORD_MAX_BYTES,
                "message.timeout.ms": 10_000,
            }
        )

    def read(self, timeout_s: float) -> list[LogRecord]:
        """Return all records of the topic, or none if it does not exist. Blocks.

        Raises:
            ConfigurationError: Not authorized.
            CompactedTopicError: The cluster does not respond.
        """
        deadline = time.monotonic() + timeout_s
        try:
            self._admin = AdminClient(self._settings)
            if self._partitions(timeout_s) is not None:
                return self._read_all(deadline)
            return []
        except KafkaException as error:
            raise self._error(error.args[0]) from None
        finally:
            if self._consumer is not None:
                self._consumer.close()

    def follow(self, take: Callable[[LogRecord], None], warn: Callable[[str], None]) -> None:
        """Pass on new records, and errors; both functions are called in another thread."""
        for what, arguments in ((self._follow, (take, warn)), (self._deliver, ())):
            thread = threading.Thread(target=what, args=arguments, name=self.topic, daemon=True)
            thread.start()
            self._threads.append(thread)

    def append(
        self,
        records: Sequence[tuple[bytes, bytes | None]],
        done: Callable[[int, str | None], None],
    ) -> None:
        """Write records.

        Args:
            records: Keys and values; None deletes a key.
            done: Called once in another thread: with the offset after the last record, or with an
                error message.
        """
        left = len(records)
        last, failure = 0, None
        producer = self._producer
        counting = threading.Lock()

        def delivered(error: KafkaError | None, message: Any) -> None:
            if error is not None:
                self._replace_if_fatal(producer, error)
                settled(0, error.str())
            else:
                settled(message.offset() + 1, None)

        def settled(end: int, why: str | None) -> None:
            nonlocal left, last, failure
            with counting:
                left -= 1
                last, failure = max(last, end), why or failure
                is_last = not left
            if is_last:
                done(last, failure)

        for key, value in records:
            try:
                producer.produce(self.topic, value, key, 0, on_delivery=delivered)
            except (KafkaException, BufferError) as error:
                if isinstance(error, KafkaException):
                    self._replace_if_fatal(producer, error.args[0])
                settled(0, str(error))

    def _replace_if_fatal(self, producer: Producer, error: KafkaError) -> None:
        """Replace the producer after a fatal error."""
        is_fatal = error.fatal() or error.code() == KafkaError._FATAL  # noqa: SLF001 - its name
        if is_fatal and producer is self._producer:
            log.warning("a producer is made anew", topic=self.topic, reason=error.str())
            self._retired.append(producer)
            self._producer = self._new_producer()

    def end(self, timeout_s: float) -> int:
        """Return the offset after the last record. Blocks.

        Raises:
            CompactedTopicError: The cluster does not respond.
        """
        latest = {self._partition: OffsetSpec.latest()}  # type: ignore[no-untyped-call]
        try:
            future = self._admin.list_offsets(latest, request_timeout=timeout_s)[self._partition]
            return int(future.result(timeout_s + 1).offset)
        except (KafkaException, TimeoutError) as error:
            # The old client caches the leader and its epoch, and does not refresh them.
            self._admin = AdminClient(self._settings)
            why = error.args[0].str() if isinstance(error, KafkaException) else "no answer"
            raise CompactedTopicError(f"{self.topic}: {why}") from None

    def close(self) -> None:
        """Stop following. Blocks for a moment."""
        self._stopped.set()
        for thread in self._threads:
            thread.join(5)
        if self._consumer is not None:
            self._producer.flush(2)
            self._consumer.close()

    def _partitions(self, timeout_s: float) -> Sequence[Any] | None:
        return partitions_of(self._admin, self.topic, timeout_s)

    def _ensure(self, deadline: float) -> None:
        """Create the topic, or check it if it exists."""
        admin = self._admin = AdminClient(self._settings)
        left = max(1.0, deadline - time.monotonic())
        partitions = self._partitions(left)
        if partitions is not None:
            self._check(admin, len(partitions), left)
            return
        new = NewTopic(self.topic, 1, -1, config=self._configs)
        if not create(admin, new, left):
            raise CompactedTopicError(f"{self._where}: was created and does not appear")

    def _check(self, admin: AdminClient, partitions: int, timeout_s: float) -> None:
        if partitions != 1:
            raise ConfigurationError(
                f"{self._where} has {partitions} partitions; it must have one, because the order "
                "of its records decides: name another topic"
            )
        resource = ConfigResource(ResourceType.TOPIC, self.topic)
        try:
            configs = admin.describe_configs([resource], request_timeout=timeout_s)[
                resource
            ].result(timeout_s + 1)
        except KafkaException as error:
            if error.args[0].code() in DENIED:
                return  # created by somebody else, who is authorized to check it
            raise
        wanted = self._configs["cleanup.policy"]
        policy = configs["cleanup.policy"].value or ""
        if "compact" not in policy or ("delete" in policy and "delete" not in wanted):
            raise ConfigurationError(
                f"{self._where} has cleanup.policy={policy}; it must be {wanted}, or records "
                "would be lost: alter it, or name another topic"
            )

    def _read_all(self, deadline: float) -> list[LogRecord]:
        self._consumer = Consumer(
            {
                **self._settings,
                "group.id": "penstock",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "earliest",
                "check.crcs": True,
                "fetch.error.backoff.ms": 100,
            }
        )
        self._consumer.assign([TopicPartition(self.topic, 0, 0)])
        records: list[LogRecord] = []
        end = self._end_now(deadline)
        while True:
            left = deadline - time.monotonic()
            message = self._consumer.poll(left) if left > 0 else None
            if message is None:
                raise CompactedTopicError(f"{self._where}: could not be read in time")
            error = message.error()
            if error is None:
                records.append(_record(message))
                if records[-1].position >= end:
                    return records
            elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - its public name
                records.append(LogRecord(message.offset() or 0, ends=True))
                return records
            elif not error.retriable() and error.code() in DENIED:
                raise KafkaException(error)

    def _end_now(self, deadline: float) -> int:
        """Return the offset after the last record; others may write in the meantime."""
        assert self._consumer is not None
        while True:
            left = max(0.1, deadline - time.monotonic())
            try:
                _, end = self._consumer.get_watermark_offsets(self._partition, timeout=left)
                return int(end)
            except KafkaException as error:
                if error.args[0].code() in DENIED or time.monotonic() > deadline:
                    raise
                time.sleep(_RETRY_AFTER_S)

    def _follow(self, take: Callable[[LogRecord], None], warn: Callable[[str], None]) -> None:
        assert self._consumer is not None
        while not self._stopped.is_set():
            try:
                message = self._consumer.poll(_POLL_S)
            except KafkaException as failure:
                warn(failure.args[0].str())
                self._stopped.wait(1)
                continue
            if message is None:
                continue
            error = message.error()
            if error is None:
                take(_record(message))
            elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - its public name
                take(LogRecord(message.offset() or 0, ends=True))
            elif error.code() != KafkaError.GROUP_AUTHORIZATION_FAILED:  # no group is used
                warn(error.str())
                self._stopped.wait(0.2)

    def _deliver(self) -> None:
        while not self._stopped.is_set():
            self._producer.poll(_POLL_S)
            for producer in list(self._retired):  # calls the callbacks of its records
                producer.poll(0)
                if not len(producer):
                    self._retired.remove(producer)

    def _error(self, error: KafkaError) -> Exception:
        if error.code() in DENIED:
            return ConfigurationError(
                f"{self._where}: {error.str()}; the principal of upstream.* needs Describe, Read "
                f"and Write on it, and Create where it is not there; or {self._otherwise}"
            )
        return CompactedTopicError(f"{self._where}: {error.str()}")


def _record(message: Any) -> LogRecord:
    return LogRecord(message.offset() + 1, message.key(), message.value(), message.timestamp()[1])
