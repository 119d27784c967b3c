"""A compacted topic with the state that gateways share: read, followed and written.

By the gateway's own principal, through librdkafka. One thread follows the topic, and passes on
the records in order.
"""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future, as_completed
from contextlib import suppress
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import structlog
from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclOperation,
    AdminClient,
    OffsetSpec,
)
from confluent_kafka.cimpl import NewTopic

from penstock.configuration import ConfigurationError
from penstock.errors import UnavailableError
from penstock.kafka.cluster.compacted_topic_writer import CompactedTopicWriter
from penstock.kafka.cluster.created_topics import (
    DENIED,
    Replicas,
    configs_of,
    create,
    describe,
    may_pass,
    partitions_of,
)
from penstock.kafka.cluster.librdkafka import admin_client, client_settings, consumer, watched

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
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
_POLL_S: Final = 0.5
_MESSAGES_MAX: Final = 500
"""The most records that are passed on together: taking them blocks the event loop."""
_RETRY_AFTER_S: Final = 0.1
_RETRY_FOLLOWING_AFTER_S: Final = 1.0
NEXT_CLIENT_AFTER_S: Final = 1.0
"""When another client requests the end, too; the third after twice as long, and so on."""
SHORTEST_REQUEST_S: Final = 0.1
"""The end is not requested with less time: list_offsets of confluent-kafka aborts the process if
its timeout, of a few ms, is over before it returns."""
_NO_ANSWER: Final = "no answer"


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
        wait_ms: int = 500,
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
            wait_ms: How long a broker waits for more records at the end before it responds without
                records; short if the topic is read once, and not followed.
        """
        self._wait_ms = wait_ms
        self._settings: dict[str, Any] = {
            **client_settings(properties, folder),
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
        self._stop_event = threading.Event()
        self._consumer: Consumer | None = None
        self._has_lost_brokers = False
        self._position = 0
        self._threads: list[threading.Thread] = []
        self._writer: CompactedTopicWriter | None = None

    def open(self, timeout_s: float) -> list[LogRecord]:
        """Create the topic if it does not exist, and read all of it. Blocks.

        Args:
            timeout_s: For so long it tries again while brokers are slow, start, or are away.

        Returns:
            The records, in order.

        Raises:
            ConfigurationError: Not authorized, or the topic is not suitable.
            CompactedTopicError: The cluster does not respond.
        """
        deadline = time.monotonic() + timeout_s
        try:
            self._ensure_patiently(deadline)
            self._writer = CompactedTopicWriter(self.topic, self._settings)
            return self._read_all(deadline)
        except KafkaException as error:
            raise self._error(error.args[0]) from None

    def is_there(self, timeout_s: float) -> bool:
        """Whether the topic exists, as far as the principal may know it. Blocks.

        Raises:
            CompactedTopicError: The cluster does not respond.
        """
        try:
            admin = admin_client(self._settings)
            return describe(admin, self.topic, timeout_s) is not None
        except KafkaException as error:
            if error.args[0].code() in DENIED:
                return False
            raise self._error(error.args[0]) from None

    def read(self, timeout_s: float) -> list[LogRecord]:
        """Return all records of the topic, or none if it does not exist. Blocks.

        Raises:
            ConfigurationError: Not authorized.
            CompactedTopicError: The cluster does not respond.
        """
        deadline = time.monotonic() + timeout_s
        try:
            self._admin = admin_client(self._settings)
            if partitions_of(self._admin, self.topic, timeout_s) is not None:
                return self._read_all(deadline)
            return []
        except KafkaException as error:
            raise self._error(error.args[0]) from None
        finally:
            if self._consumer is not None:
                self._consumer.close()

    def follow(
        self, take: Callable[[Sequence[LogRecord]], None], warn: Callable[[str], None]
    ) -> None:
        """Pass on new records, in order, and errors; both are called in another thread."""
        for what, arguments in ((self._follow, (take, warn)), (self._write, ())):
            thread = threading.Thread(target=what, args=arguments, name=self.topic, daemon=True)
            thread.start()
            self._threads.append(thread)

    def append(
        self,
        records: Sequence[tuple[bytes, bytes | None]],
        callback: Callable[[int, str | None], None],
    ) -> None:
        """Write records.

        Args:
            records: Keys and values; None deletes a key.
            callback: Called once, in another thread or in this thread: with the offset after the
                last record, or with an error message.
        """
        assert self._writer is not None
        self._writer.append(records, callback)

    def end(self, timeout_s: float) -> int:
        """Return the offset after the last record. Blocks, at most for `timeout_s`.

        Raises:
            CompactedTopicError: The cluster does not respond.
        """
        deadline = time.monotonic() + timeout_s
        requests: dict[Future[Any], AdminClient] = {}  # a client that is freed answers nothing
        try:
            return self._end(requests, deadline)
        finally:
            # Clients block when they are freed: an error would free them later, in another thread.
            requests.clear()

    def _end(self, requests: dict[Future[Any], AdminClient], deadline: float) -> int:
        wait_s, why = NEXT_CLIENT_AFTER_S, _NO_ANSWER
        while why is _NO_ANSWER and (left_s := deadline - time.monotonic()) >= SHORTEST_REQUEST_S:
            is_last = left_s - wait_s < SHORTEST_REQUEST_S
            try:
                self._request_end(requests, left_s)
                end, why = _first_end(requests, left_s if is_last else wait_s)
                if not why:
                    return end
                # It keeps the leader and its epoch, and waits for that broker, even if it has gone.
                self._admin = admin_client(self._settings)
            except KafkaException as error:
                why = error.args[0].str()
            wait_s *= 2
        raise CompactedTopicError(f"{self.topic}: {why}")

    def _request_end(self, requests: dict[Future[Any], AdminClient], timeout_s: float) -> None:
        admin = self._admin
        latest = {self._partition: OffsetSpec.latest()}  # type: ignore[no-untyped-call]
        answers = admin.list_offsets(latest, request_timeout=timeout_s)
        requests[answers[self._partition]] = admin

    def close(self) -> None:
        """Stop following. Blocks for a moment."""
        self._stop_event.set()
        for thread in self._threads:
            thread.join(5)
        if self._writer is not None:
            self._writer.close(2)
        if self._consumer is not None:
            self._consumer.close()

    def _ensure_patiently(self, deadline: float) -> None:
        has_warned = False
        while True:
            try:
                self._ensure(deadline)
                return
            except (KafkaException, TimeoutError) as error:
                why = error.args[0].str() if isinstance(error, KafkaException) else _NO_ANSWER
                if isinstance(error, KafkaException) and not may_pass(error.args[0]):
                    raise
                if time.monotonic() >= deadline:
                    raise CompactedTopicError(f"{self._where}: {why}") from None
            if not has_warned:
                has_warned = True
                log.warning("waiting for a topic with state", topic=self.topic, reason=why)
            time.sleep(_RETRY_AFTER_S)

    def _ensure(self, deadline: float) -> None:
        """Create the topic, or check it if it exists."""
        admin = self._admin = admin_client(self._settings)
        timeout_s = max(1.0, deadline - time.monotonic())
        description = describe(admin, self.topic, timeout_s, operations=True)
        replicas = Replicas.of(admin, timeout_s)
        if description is not None:
            self._check(admin, description, replicas, timeout_s)
            return
        configs = {**self._configs, "min.insync.replicas": str(replicas.min_insync)}
        if not create(admin, NewTopic(self.topic, 1, replicas.count, config=configs), timeout_s):
            raise CompactedTopicError(
                f"{self._where}: was created, but does not appear in the metadata"
            )

    def _check(
        self, admin: AdminClient, description: Any, replicas: Replicas, timeout_s: float
    ) -> None:
        if len(description.partitions) != 1:
            raise ConfigurationError(
                f"{self._where} has {len(description.partitions)} partitions; it must have one, "
                "because the order of its records decides: name another topic"
            )
        allowed = description.authorized_operations  # None where brokers do not say
        if allowed is not None and not {AclOperation.READ, AclOperation.WRITE} <= set(allowed):
            raise self._denied("Read and Write are not both allowed")
        configs = configs_of(admin, self.topic, timeout_s)
        if configs is None:
            return  # created by another principal, who is authorized to check it
        expected_policy = self._configs["cleanup.policy"]
        policy = configs["cleanup.policy"]
        if "compact" not in policy or ("delete" in policy and "delete" not in expected_policy):
            raise ConfigurationError(
                f"{self._where} has cleanup.policy={policy}; it must be {expected_policy}, or "
                "records would be lost: alter it, or name another topic"
            )
        has = Replicas(
            len(description.partitions[0].replicas), int(configs["min.insync.replicas"] or 1)
        )
        if has.are_fewer_than(replicas):
            log.warning(
                "a topic with state can lose it when a broker fails",
                topic=self.topic,
                replicas=has.count,
                min_insync_replicas=has.min_insync,
                wanted_replicas=replicas.count,
                wanted_min_insync_replicas=replicas.min_insync,
            )

    def _read_all(self, deadline: float) -> list[LogRecord]:
        self._consumer = self._new_consumer()
        records: list[LogRecord] = []
        end = self._end_now(deadline)
        while (remaining_s := deadline - time.monotonic()) > 0:
            for message in self._poll(min(remaining_s, _POLL_S)):
                error = message.error()
                if error is None:
                    records.append(_record(message))
                elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - its public name
                    records.append(LogRecord(message.offset() or 0, ends=True))
                elif not error.retriable() and error.code() in DENIED:
                    raise KafkaException(error)
            if records:
                self._position = records[-1].position
                if records[-1].ends or self._position >= end:
                    return records
        raise CompactedTopicError(f"{self._where}: could not be read in time")

    def _new_consumer(self) -> Consumer:
        """Return a consumer that continues at the position."""
        log_consumer = consumer(
            {
                **watched(self._settings, self._lost_brokers),
                "group.id": "penstock",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "earliest",
                "check.crcs": True,
                "fetch.error.backoff.ms": 100,
                "fetch.wait.max.ms": self._wait_ms,
            }
        )
        log_consumer.assign([TopicPartition(self.topic, 0, self._position)])
        return log_consumer

    def _lost_brokers(self) -> None:
        self._has_lost_brokers = True

    def _poll(self, timeout_s: float) -> list[Any]:
        """Return the available messages, at least one unless the time is over."""
        assert self._consumer is not None
        if self._has_lost_brokers:
            log.warning(
                "a consumer is replaced", topic=self.topic, reason="it has lost all its brokers"
            )
            replacement = self._new_consumer()
            self._consumer.close()
            self._consumer, self._has_lost_brokers = replacement, False
        first = self._consumer.poll(timeout_s)
        if first is None:
            return []
        return [first, *self._consumer.consume(_MESSAGES_MAX - 1, 0)]

    def _end_now(self, deadline: float) -> int:
        """Return the offset after the last record; others may write in the meantime."""
        assert self._consumer is not None
        while True:
            timeout_s = max(0.1, deadline - time.monotonic())
            try:
                _, end = self._consumer.get_watermark_offsets(self._partition, timeout=timeout_s)
                return int(end)
            except KafkaException as error:
                if error.args[0].code() in DENIED or time.monotonic() > deadline:
                    raise
                time.sleep(_RETRY_AFTER_S)

    def _follow(
        self, take: Callable[[Sequence[LogRecord]], None], warn: Callable[[str], None]
    ) -> None:
        while not self._stop_event.is_set():
            try:
                self._pass_on(self._poll(_POLL_S), take, warn)
            except Exception as failure:  # or nothing would be read any more
                if isinstance(failure, KafkaException):
                    warn(failure.args[0].str())
                else:
                    log.exception("a topic cannot be read", topic=self.topic)
                self._stop_event.wait(_RETRY_FOLLOWING_AFTER_S)
                self._go_back()

    def _go_back(self) -> None:
        """Read records again that have not been passed on."""
        assert self._consumer is not None
        with suppress(KafkaException):
            self._consumer.assign([TopicPartition(self.topic, 0, self._position)])

    def _pass_on(
        self,
        messages: Sequence[Any],
        take: Callable[[Sequence[LogRecord]], None],
        warn: Callable[[str], None],
    ) -> None:
        records = []
        for message in messages:
            error = message.error()
            if error is None:
                records.append(_record(message))
            elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - its public name
                records.append(LogRecord(message.offset() or 0, ends=True))
            elif error.code() != KafkaError.GROUP_AUTHORIZATION_FAILED:  # no group is used
                warn(error.str())
                self._stop_event.wait(0.2)
        if records:
            take(records)
            self._position = records[-1].position

    def _write(self) -> None:
        assert self._writer is not None
        self._writer.run(self._stop_event)

    def _error(self, error: KafkaError) -> Exception:
        if error.code() in DENIED:
            return self._denied(error.str())
        return CompactedTopicError(f"{self._where}: {error.str()}")

    def _denied(self, why: str) -> ConfigurationError:
        return ConfigurationError(
            f"{self._where}: {why}; the principal of upstream.* needs Describe, Read and Write on "
            f"it, and Create if it does not exist; or {self._otherwise}"
        )


def _first_end(requests: Iterable[Future[Any]], timeout_s: float) -> tuple[int, str]:
    """Return the first end in a response, and the reason if there is none."""
    why = _NO_ANSWER
    try:
        for future in as_completed(requests, timeout_s):
            error = future.exception()  # raised, it would keep this frame, and all clients with it
            if isinstance(error, KafkaException):
                why = error.args[0].str()
                continue
            end = int(future.result().offset)
            if end >= 0:
                return end, ""
            why = "its end is not known"  # librdkafka has a negative number then
    except TimeoutError:
        pass
    return -1, why


def _record(message: Any) -> LogRecord:
    return LogRecord(message.offset() + 1, message.key(), message.value(), message.timestamp()[1])
