"""`audit.topic`: a record for each refusal, written by the gateway's own principal.

Directly at the brokers, so that no policy judges it. A record is written when all replicas in sync
have it. A record that brokers do not take is retried until they do, or the gateway ends. It does
not wait for one partition: after a time it goes to another. The first may have it too, if its
response was lost; its run and number then show that it is the same record.
"""

from __future__ import annotations

import math
import random
import time
from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple

import structlog
from kio.schema.errors import ErrorCode

from penstock.configuration import ConfigurationError
from penstock.errors import UnavailableError
from penstock.kafka.client.admin.topics import WRITE, DescribedTopic, NewTopic
from penstock.kafka.client.connections.connection import LEADER_NOT_AVAILABLE, Connection, connect
from penstock.kafka.client.connections.metadata import NO_NODE
from penstock.kafka.client.errors import ClientError, DeniedError, ResponseError, response_error
from penstock.kafka.client.protocol.write_errors import RefusedBatchError
from penstock.kafka.client.writing.idempotent_pipeline import idempotent_pipeline
from penstock.kafka.client.writing.limits import WriterLimits
from penstock.kafka.client.writing.own_records import LZ4, own_batch, own_source
from penstock.kafka.cluster.created_topics import configs_of, create, describe
from penstock.kafka.wire.errors import WireError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from penstock.gateway.observing.audit_trail.trail import Settle
    from penstock.kafka.client.connections.pipeline import Pipeline

log = structlog.get_logger()

_POLL_S: Final = 0.1
_RETRY_S: Final = 1.0
_TIMEOUT_S: Final = 5.0
_BATCH_BYTES: Final = 512 * 1024
"""Of a batch before it is compressed; a larger record is alone."""
_LIMITS: Final = WriterLimits(delivery_timeout_s=15.0)
"""After this time records go to another partition; they are not given up for their age."""
_AVOIDED_S: Final = 300.0
"""How long a partition gets no records after a failure, as long as there are others."""
_REJECTED: Final = frozenset(
    {
        int(ErrorCode.message_too_large),
        int(ErrorCode.record_list_too_large),
        int(ErrorCode.invalid_record),
        int(ErrorCode.corrupt_message),
    }
)
"""Errors that a retry cannot correct. A broker reports them for the complete batch of a record."""


class AuditTopicError(UnavailableError):
    """The topic cannot be described or created now. The message is for users."""


class _UnstoredRecord(NamedTuple):
    """A record that is not stored yet.

    Attributes:
        is_alone: Whether its batch has no other record, as brokers have rejected a larger batch.
    """

    record: bytes
    is_alone: bool = False


class AuditTopic:
    """Produces records to a topic; a `penstock.gateway.observing.audit_trail.trail.Sink`."""

    def __init__(self, properties: Mapping[str, str], topic: str, file: Path) -> None:
        """Prepare; `open` connects.

        Args:
            properties: The keys after `upstream.`, as for a Java client.
            topic: The name of the topic.
            file: The configuration file, for errors; relative locations start at its folder.
        """
        self.name = topic
        self._properties = properties
        self._file = file
        self._where = f"{file}: audit.topic: {topic}"
        self._unsent_records: deque[_UnstoredRecord] = deque()
        self._sent_records: list[_UnstoredRecord] = []
        self._sent_to = 0
        self._failed_at: dict[int, float] = {}
        self._retry_at = 0.0
        self._pipeline: Pipeline | None = None

    @property
    def _connection(self) -> Connection:
        return connect(self._properties, self._file)

    def open(self, timeout_s: float) -> None:
        """Create the topic if it does not exist, otherwise check it. Blocks.

        Raises:
            ConfigurationError: Not authorized, or the topic would lose records.
            AuditTopicError: The cluster does not respond.
        """
        connection = self._connection
        try:
            description = describe(connection, self.name, timeout_s, operations=True)
            if description is not None:
                self._check(description, timeout_s)
            elif not create(connection, NewTopic(self.name), timeout_s):
                raise AuditTopicError(
                    f"{self._where}: was created, but does not appear in the metadata"
                )
        except DeniedError as error:
            raise self._denied(str(error)) from None
        except (ClientError, WireError) as error:
            raise AuditTopicError(f"{self._where}: {error}") from None

    def _check(self, description: DescribedTopic, timeout_s: float) -> None:
        if not description.allows(WRITE):
            raise self._denied("Write is not allowed")
        configs = configs_of(self._connection, self.name, timeout_s)
        if configs is None:
            return  # created by a client, who is authorized to check it
        policy = configs["cleanup.policy"]
        if "compact" in policy:
            raise ConfigurationError(
                f"{self._where} has cleanup.policy={policy}; it must be delete, because its "
                "records have no keys: alter it, or name another topic"
            )

    def _denied(self, why: str) -> ConfigurationError:
        return ConfigurationError(
            f"{self._where}: {why}; the principal of upstream.* needs Describe and Write on it, "
            "and Create if it does not exist; or write to audit.file"
        )

    def start(self, settle: Settle, warn: Callable[[str], None]) -> None:
        """Take the callbacks for records that are delivered, and for errors."""
        self._settle = settle
        self._warn = warn

    def take(self, records: Sequence[bytes]) -> None:
        """Take records, which `work` sends."""
        self._unsent_records += map(_UnstoredRecord, records)

    def work(self) -> float | None:
        """Send records, and take the brokers' responses; retry what they did not store.

        Raises:
            Exception: An unexpected error; the next call sends the records of the batch again.
        """
        if not self._sent_records and not self._unsent_records:
            return None
        pause_s = self._retry_at - time.monotonic()
        if pause_s > 0:
            return pause_s
        try:
            self._send_some()
        except (ClientError, WireError) as error:
            self._fail(error)
        except Exception:  # or the records of an empty pipeline would count as written
            self._put_back()
            raise
        return 0.0 if self._sent_records or self._unsent_records else None

    def reopen(self) -> None:
        """Do nothing: a topic is not renamed."""

    def close(self) -> None:
        """Give up undelivered records."""
        self._sent_records = []
        self._unsent_records.clear()

    def _send_some(self) -> None:
        """Send a batch, unless one is on its way; wait for its response for a moment.

        Raises:
            ClientError: It is not stored.
            WireError: A response cannot be read.
        """
        if not self._sent_records:
            self._begin()
        if self._pipeline is None or self._pipeline.poll(_POLL_S):
            records, self._sent_records = self._sent_records, []
            self._settle([each.record for each in records], is_written=True)

    def _begin(self) -> None:
        if self._pipeline is None:
            self._pipeline = self._new_pipeline()
        self._sent_to = partition = self._partition()
        self._sent_records = self._next_records()
        batch = own_batch([(None, each.record) for each in self._sent_records], LZ4)
        self._pipeline.put(self.name, partition, batch, own_source(self.name, partition))

    def _new_pipeline(self) -> Pipeline:
        return idempotent_pipeline(
            self._connection, _LIMITS, timeout_s=_TIMEOUT_S, channel="audit trail",
            on_retry=self._take_cause,
        )  # fmt: skip

    def _take_cause(self, error: ClientError) -> None:
        if _code(error) in _REJECTED:
            raise error
        self._warn(str(error))

    def _partition(self) -> int:
        """Return any partition that has a leader, and has not failed lately if there is one."""
        leaders = self._connection.topic(self.name, timeout_s=_TIMEOUT_S).leaders
        numbers = [number for number, leader in leaders.items() if leader.node != NO_NODE]
        if not numbers:
            self._connection.refresh(self.name)
            raise response_error(LEADER_NOT_AVAILABLE, f"topic {self.name}")
        avoided_from = time.monotonic() - _AVOIDED_S
        healthy = [each for each in numbers if self._failed_at.get(each, -math.inf) < avoided_from]
        if not healthy:
            return min(numbers, key=self._failed_at.__getitem__)
        return random.choice(healthy)  # noqa: S311 - no secret

    def _next_records(self) -> list[_UnstoredRecord]:
        """Return the records of the next batch."""
        records = [self._unsent_records.popleft()]
        size = len(records[0].record)
        while self._unsent_records and not (
            records[0].is_alone or self._unsent_records[0].is_alone
        ):
            size += len(self._unsent_records[0].record)
            if size > _BATCH_BYTES:
                break
            records.append(self._unsent_records.popleft())
        return records

    def _fail(self, error: ClientError | WireError) -> None:
        """Send the records of a batch again; drop a record if brokers refuse it."""
        if _code(error) not in _REJECTED:
            self._put_back()
            self._warn(str(error))
        elif len(self._sent_records) == 1:
            self._pipeline = None
            records, self._sent_records = self._sent_records, []
            self._warn(str(error))
            self._settle([records[0].record], is_written=False)
        else:
            self._take_back(one_by_one=True)

    def _put_back(self) -> None:
        """Send the records of a batch again, after a pause, and rather to another partition."""
        now = time.monotonic()
        if self._sent_records:
            self._failed_at[self._sent_to] = now
        self._take_back()
        self._retry_at = now + _RETRY_S

    def _take_back(self, *, one_by_one: bool = False) -> None:
        """Make the records of a batch the next to send, each alone if they were rejected."""
        self._pipeline = None  # its sequence numbers are used up
        records, self._sent_records = self._sent_records, []
        self._unsent_records.extendleft(
            _UnstoredRecord(record, is_alone or one_by_one)
            for record, is_alone in reversed(records)
        )


def _code(error: ClientError | WireError) -> int | None:
    if isinstance(error, RefusedBatchError) and error.refusal is not None:
        return error.refusal.code
    return error.code if isinstance(error, ResponseError) else None
