"""A compacted topic in memory."""

from collections.abc import Callable, Sequence
from types import SimpleNamespace

from penstock.kafka.cluster.compacted_topic import CompactedTopicError, LogRecord


class Died(BaseException):
    """The gateway's process ended in the middle of its work."""


class MemoryTopic:
    """The topic settings topic, on brokers that never fail."""

    def __init__(self, clock: SimpleNamespace) -> None:
        self.records: list[LogRecord] = []
        self.logs: list[MemoryLog] = []
        self._clock = clock

    def append(self, key: bytes | None, value: bytes | None) -> int:
        """Append a record; return the offset after it."""
        end = len(self.records) + 1
        self.records.append(LogRecord(end, key, value, int(self._clock.time() * 1000)))
        for log in self.logs:
            log.deliver()
        return end

    def compact(self) -> None:
        """Keep only the last record of each key."""
        last = {record.key: record for record in self.records}
        self.records = [record for record in self.records if record is last[record.key]]

    @property
    def keys(self) -> list[str]:
        """Return the keys of all records; a minus marks the key of a tombstone."""
        return [
            ("-" if record.value is None else "") + (record.key or b"").decode()
            for record in self.records
        ]


class MemoryLog:
    """Replaces `CompactedTopic`: the access of a gateway to the topic.

    Attributes:
        lags: Whether written records are not delivered for now.
        failure: The error of `append` and `end`; "" if they succeed.
        dies: The record, counted from 1, at which the gateway dies: before it is written if
            the number is negative, and after it otherwise.
    """

    topic = "settings"

    def __init__(self, kept: MemoryTopic) -> None:
        self.lags = False
        self.failure = ""
        self.dies = 0
        self.closed = False
        self._kept = kept
        self._written = 0
        self._delivered = 0
        self._take = None

    def open(self, timeout_s: float) -> list[LogRecord]:
        self._delivered = len(self._kept.records)
        return [*self._kept.records, LogRecord(self._delivered, ends=True)]

    def follow(
        self, take: Callable[[list[LogRecord]], None], complain: Callable[[str], None]
    ) -> None:
        self._take = take
        self._kept.logs.append(self)
        self.deliver()

    def deliver(self) -> None:
        """Deliver the records that were not delivered yet."""
        while not self.lags and self._delivered < len(self._kept.records):
            self._take([self._kept.records[self._delivered]])
            self._delivered += 1

    def append(
        self,
        records: Sequence[tuple[bytes | None, bytes | None]],
        done: Callable[[int, str | None], None],
    ) -> None:
        if self.failure:
            done(0, self.failure)
            return
        for key, value in records:
            self._written += 1
            if self._written == -self.dies:
                raise Died
            end = self._kept.append(key, value)
            if self._written == self.dies:
                raise Died
        done(end, None)

    def end(self, timeout_s: float) -> int:
        if self.failure:
            raise CompactedTopicError(self.failure)
        return len(self._kept.records)

    def close(self) -> None:
        self.closed = True
