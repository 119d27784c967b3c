"""A compacted topic with the state that gateways share: read, followed and written.

By the gateway's own principal. One thread follows the topic, and passes on the records in order.
"""

from __future__ import annotations

import threading
import time
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

import structlog

from penstock.configuration import ConfigurationError
from penstock.errors import MalformedError, UnavailableError
from penstock.kafka.client.admin.topics import READ, WRITE, DescribedTopic, NewTopic
from penstock.kafka.client.connections.connection import Connection, connect, first_done
from penstock.kafka.client.connections.retries import Retries
from penstock.kafka.client.errors import (
    ClientError,
    DeniedError,
    TopicRecreatedError,
    TruncatedError,
)
from penstock.kafka.client.protocol.log_offsets import (
    LATEST,
    LogPartition,
    offset_request,
    read_offset,
)
from penstock.kafka.client.protocol.raw_requests import raw_request
from penstock.kafka.client.reading.batches import read_fetched_batch
from penstock.kafka.client.reading.offset_ranges import WantedRange
from penstock.kafka.client.reading.reader import Follows, RangeReader
from penstock.kafka.cluster.compacted_topic_writer import CompactedTopicWriter
from penstock.kafka.cluster.created_topics import Replicas, configs_of, create, describe
from penstock.kafka.records.batch import MAX_RECORDS
from penstock.kafka.records.uncompressed import BatchLimits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from penstock.kafka.client.connections.connection import PendingResponse
    from penstock.kafka.client.reading.batches import FetchedBatch

log = structlog.get_logger()

_TOPIC_CONFIGS: Final = {
    "cleanup.policy": "compact",
    # Small, and read completely at every start, so it is compacted often.
    "min.cleanable.dirty.ratio": "0.1",
    "segment.bytes": str(16 * 2**20),
    # The age of creations is measured by the brokers' clocks.
    "message.timestamp.type": "LogAppendTime",
}
_MESSAGES_MAX: Final = 500
"""The most records that are passed on together: taking them blocks the event loop."""
_RETRY_AFTER_S: Final = 0.1
_RETRY_FOLLOWING_AFTER_S: Final = 1.0
NEXT_LEADER_AFTER_S: Final = 1.0
"""When the end is requested again, from the leader as it is then; the third time after twice as
long, and so on."""
SHORTEST_REQUEST_S: Final = 0.1
"""The end is not requested with less time."""
_BACKOFF_S, _MAX_BACKOFF_S, _PATIENCE_S = 0.05, 0.2, 2.0
"""The pauses of a reader, since clients of the gateway wait for it; and for how long its errors
are no reason for a warning."""
_JOIN_S: Final = 5.0
"""How long a thread has to end."""
_LAST_WRITES_S: Final = 2.0
"""How long it writes, when it is closed, what is not written yet."""
_NO_ANSWER: Final = "no answer"
_PARTITION: Final = 0
_FOREVER: Final = 2**62
_LIMITS: Final = BatchLimits(2**31 - 1, MAX_RECORDS)
"""Penstock has written the records itself."""


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
            topic: The name of the topic.
            file: The configuration file, for errors; relative locations start at its folder.
            key: The key of the file that names the topic.
            otherwise: How to do without the topic, for errors.
            configs: Additional configs for the creation of the topic.
            wait_ms: How long a broker waits for more records at the end before it responds without
                records; short if the topic is read once, and not followed.
        """
        self._wait_ms = wait_ms
        self._properties = properties
        self._file = file
        self.topic = topic
        self._where = f"{file}: {key}: {topic}"
        self._otherwise = otherwise
        self._configs = {**_TOPIC_CONFIGS, **configs}
        self._partition = LogPartition(topic, _PARTITION)
        self._stop_event = threading.Event()
        self._reader: RangeReader | None = None
        self._position = 0
        self._threads: list[threading.Thread] = []
        self._writing_thread: threading.Thread | None = None
        self._writer: CompactedTopicWriter | None = None

    @property
    def _connection(self) -> Connection:
        return connect(self._properties, self._file)

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
            self._writer = CompactedTopicWriter(self.topic, self._connection)
            return self._read_all(deadline)
        except (ClientError, MalformedError) as error:
            raise self._error(error) from None

    def is_there(self, timeout_s: float) -> bool:
        """Whether the topic exists, as far as the principal may know it. Blocks.

        Raises:
            CompactedTopicError: The cluster does not respond.
        """
        try:
            return describe(self._connection, self.topic, timeout_s) is not None
        except DeniedError:
            return False
        except (ClientError, MalformedError) as error:
            raise self._error(error) from None

    def read(self, timeout_s: float) -> list[LogRecord]:
        """Return all records of the topic, or none if it does not exist. Blocks.

        Raises:
            ConfigurationError: Not authorized.
            CompactedTopicError: The cluster does not respond.
        """
        deadline = time.monotonic() + timeout_s
        try:
            if describe(self._connection, self.topic, timeout_s) is not None:
                return self._read_all(deadline)
            return []
        except (ClientError, MalformedError) as error:
            raise self._error(error) from None
        finally:
            self._close_reader()

    def follow(
        self, take: Callable[[Sequence[LogRecord]], None], warn: Callable[[str], None]
    ) -> None:
        """Pass on new records, in order, and errors; both are called in another thread."""
        following_thread = self._thread_of(self._follow, take, warn)
        self._writing_thread = self._thread_of(self._write)
        self._threads += [following_thread, self._writing_thread]

    def _thread_of(self, target: Callable[..., None], *arguments: object) -> threading.Thread:
        thread = threading.Thread(target=target, args=arguments, name=self.topic, daemon=True)
        thread.start()
        return thread

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
        try:
            return self._end(time.monotonic() + timeout_s)
        except (ClientError, MalformedError) as error:
            error.__traceback__ = None  # its frames have the response, which has the error
            raise CompactedTopicError(f"{self.topic}: {error}") from None

    def _end(self, deadline: float, *, committed: bool = False) -> int:
        """Return the offset in the first response.

        Args:
            deadline: By the monotonic clock, in seconds.
            committed: Whether it is before open transactions.
        """
        requests: list[PendingResponse] = []
        try:
            return self._first_end(requests, deadline, committed=committed)
        except ClientError as error:
            if error.retriable:
                self._connection.refresh(self.topic)
            raise
        finally:
            for request in requests:
                request.abandon()

    def _first_end(
        self, requests: list[PendingResponse], deadline: float, *, committed: bool
    ) -> int:
        wait_s = NEXT_LEADER_AFTER_S
        while (left_s := deadline - time.monotonic()) >= SHORTEST_REQUEST_S:
            requests.append(self._request_end(left_s, committed=committed))
            is_last = left_s - wait_s < SHORTEST_REQUEST_S
            response = first_done(requests, left_s if is_last else wait_s)
            if response is not None:
                end = read_offset(response.wait(), self._partition)
                if end < 0:
                    raise CompactedTopicError(f"{self.topic}: its end is not known")
                return end
            # Another broker may lead by now; the first may have gone.
            self._connection.refresh(self.topic)
            wait_s *= 2
        raise CompactedTopicError(f"{self.topic}: {_NO_ANSWER}")

    def _request_end(self, timeout_s: float, *, committed: bool) -> PendingResponse:
        connection = self._connection
        leader = connection.leader(self.topic, _PARTITION, timeout_s=timeout_s)
        request = offset_request(leader, self._partition, LATEST, committed=committed)
        return connection.begin(leader.node, raw_request(request), has_deadline=True)

    def close(self) -> None:
        """Stop following. Blocks for a moment."""
        self._stop_event.set()
        for thread in self._threads:
            thread.join(_JOIN_S)
        # A batch may keep the thread for longer, and one thread at a time may use the writer.
        is_writing = self._writing_thread is not None and self._writing_thread.is_alive()
        if self._writer is not None and not is_writing:
            self._writer.close(_LAST_WRITES_S)
        self._close_reader()

    def _close_reader(self) -> None:
        if self._reader is not None:
            self._reader.close()

    def _ensure_patiently(self, deadline: float) -> None:
        has_warned = False
        while True:
            try:
                self._ensure(deadline)
                return
            except ClientError as error:
                if not error.retriable:
                    raise
                why = str(error)
                if time.monotonic() >= deadline:
                    raise CompactedTopicError(f"{self._where}: {why}") from None
            if not has_warned:
                has_warned = True
                log.warning("waiting for a topic with state", topic=self.topic, reason=why)
            time.sleep(_RETRY_AFTER_S)

    def _ensure(self, deadline: float) -> None:
        """Create the topic, or check it if it exists."""
        connection = self._connection
        timeout_s = max(1.0, deadline - time.monotonic())
        description = describe(connection, self.topic, timeout_s, operations=True)
        replicas = Replicas.of(connection, timeout_s)
        if description is not None:
            self._check(description, replicas, timeout_s)
            return
        configs = {**self._configs, "min.insync.replicas": str(replicas.min_insync)}
        if not create(connection, NewTopic(self.topic, 1, replicas.count, configs), timeout_s):
            raise CompactedTopicError(
                f"{self._where}: was created, but does not appear in the metadata"
            )

    def _check(self, description: DescribedTopic, replicas: Replicas, timeout_s: float) -> None:
        if len(description.partitions) != 1:
            raise ConfigurationError(
                f"{self._where} has {len(description.partitions)} partitions; it must have one, "
                "because the order of its records decides: name another topic"
            )
        if not description.allows(READ, WRITE):
            raise self._denied("Read and Write are not both allowed")
        configs = configs_of(self._connection, self.topic, timeout_s)
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
            description.partitions[_PARTITION].replicas, int(configs["min.insync.replicas"] or 1)
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
        """Return the records up to the present end; others may write in the meantime."""
        reader = self._reader = self._new_reader()
        records: list[LogRecord] = []
        end: int | None = None
        while time.monotonic() < deadline:
            try:
                if end is None:
                    end = self._end(deadline, committed=True)
                if reader.position >= end:
                    break
                records += _records(reader.poll())
            except ClientError as error:
                if not error.retriable:
                    raise
                time.sleep(_RETRY_AFTER_S)
        else:
            raise CompactedTopicError(f"{self._where}: could not be read in time")
        self._position = reader.position
        return [*records, LogRecord(self._position, ends=True)]

    def _new_reader(self) -> RangeReader:
        """Return a reader that continues at the position."""
        connection = self._connection
        settings = connection.settings._replace(backoff_s=_BACKOFF_S, max_backoff_s=_MAX_BACKOFF_S)
        return RangeReader(
            connection,
            WantedRange(self.topic, _PARTITION, self._position, _FOREVER),
            on_lost=lambda _: None,  # retention, or a deletion of records
            merged_within=_LIMITS,
            follows=Follows(f"read {self.topic}", self._wait_ms),
            retries=Retries(settings, limit_s=_PATIENCE_S),
        )

    def _follow(
        self, take: Callable[[Sequence[LogRecord]], None], warn: Callable[[str], None]
    ) -> None:
        while not self._stop_event.is_set():
            try:
                self._pass_on(take)
            except (TruncatedError, TopicRecreatedError) as error:
                warn(str(error))
                self._position = 0
                self._reader = self._new_reader()
            except ClientError as error:
                warn(str(error))
                self._stop_event.wait(_MAX_BACKOFF_S)
            except Exception as error:  # or nothing would be read any more
                if isinstance(error, MalformedError):
                    warn(str(error))
                else:
                    log.exception("a topic cannot be read", topic=self.topic)
                self._stop_event.wait(_RETRY_FOLLOWING_AFTER_S)
                self._reader = self._new_reader()  # records that have not been passed on

    def _pass_on(self, take: Callable[[Sequence[LogRecord]], None]) -> None:
        """Pass on the next records; and the position behind them, if no record is there."""
        assert self._reader is not None
        records = list(_records(self._reader.poll()))
        reached = self._reader.position
        if reached > (records[-1].position if records else self._position):
            records.append(LogRecord(reached, ends=True))
        for start in range(0, len(records), _MESSAGES_MAX):
            take(records[start : start + _MESSAGES_MAX])
            self._position = records[start : start + _MESSAGES_MAX][-1].position

    def _write(self) -> None:
        assert self._writer is not None
        self._writer.run(self._stop_event)

    def _error(self, error: ClientError | MalformedError) -> Exception:
        if isinstance(error, DeniedError):
            return self._denied(str(error))
        return CompactedTopicError(f"{self._where}: {error}")

    def _denied(self, why: str) -> ConfigurationError:
        return ConfigurationError(
            f"{self._where}: {why}; the principal of upstream.* needs Describe, Read and Write on "
            f"it, and Create if it does not exist; or {self._otherwise}"
        )


def _records(batches: Iterable[FetchedBatch]) -> Iterator[LogRecord]:
    for fetched in batches:
        batch = read_fetched_batch(fetched, max_decompressed_bytes=_LIMITS.decompressed_bytes)
        records = batch.records
        for offset, key, value, timestamp in zip(
            batch.offsets, records.keys, records.values, records.timestamps, strict=True
        ):
            yield LogRecord(offset + 1, key, value, timestamp)
