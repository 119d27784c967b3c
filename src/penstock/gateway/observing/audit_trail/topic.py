"""`audit.topic`: a record for each refusal, written by the gateway's own principal.

Directly at the brokers, so that no policy judges it. A record is written when all replicas in sync
have it. A record that brokers do not take is retried until they do, or the gateway ends.
"""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import structlog
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclOperation,
    AdminClient,
)
from confluent_kafka.cimpl import NewTopic

from penstock.configuration import ConfigurationError
from penstock.errors import UnavailableError
from penstock.kafka.cluster.created_topics import DENIED, configs_of, create, describe
from penstock.kafka.cluster.librdkafka import admin_client, client_settings, is_fatal, watched
from penstock.kafka.cluster.librdkafka import producer as new_producer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from penstock.gateway.observing.audit_trail.trail import Settle

log = structlog.get_logger()

_POLL_S: Final = 0.1
_RETRY_S: Final = 1.0
_REJECTED: Final = frozenset(
    {
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.RECORD_LIST_TOO_LARGE,
        KafkaError.INVALID_RECORD,
        KafkaError.INVALID_MSG,
    }
)
"""Errors that a retry cannot correct. A broker reports them for the complete batch of a record."""


class AuditTopicError(UnavailableError):
    """The topic cannot be described or created now. The message is for users."""


class AuditTopic:
    """Produces records to a topic; a `penstock.gateway.observing.audit_trail.trail.Sink`."""

    def __init__(self, properties: Mapping[str, str], folder: Path, topic: str, file: Path) -> None:
        """Make the client; `open` connects.

        Args:
            properties: The keys after `upstream.`, as for a Java client.
            folder: The folder of relative locations in them.
            topic: The name of the topic.
            file: The configuration file, for errors.
        """
        self.name = topic
        self._settings: dict[str, Any] = {
            **client_settings(properties, folder),
            "reconnect.backoff.max.ms": 1000,
        }
        self._where = f"{file}: audit.topic: {topic}"
        self._again: list[bytes] = []
        self._retry_at = 0.0
        self._alone: Producer | None = None
        self._retired: list[Producer] = []

    def open(self, timeout_s: float) -> None:
        """Create the topic if it does not exist, otherwise check it. Blocks.

        Raises:
            ConfigurationError: Not authorized, or the topic would lose records.
            AuditTopicError: The cluster does not respond.
        """
        admin = admin_client(self._settings)
        try:
            description = describe(admin, self.name, timeout_s, operations=True)
            if description is not None:
                self._check(admin, description, timeout_s)
            elif not create(admin, NewTopic(self.name, -1, -1), timeout_s):
                raise AuditTopicError(
                    f"{self._where}: was created, but does not appear in the metadata"
                )
        except KafkaException as error:
            raise self._error(error.args[0]) from None
        self._producer = self._new_producer()

    def _check(self, admin: AdminClient, description: Any, timeout_s: float) -> None:
        allowed = description.authorized_operations  # None where brokers do not report them
        if allowed is not None and AclOperation.WRITE not in allowed:
            raise self._denied("Write is not allowed")
        configs = configs_of(admin, self.name, timeout_s)
        if configs is None:
            return  # created by a client, who is authorized to check it
        policy = configs["cleanup.policy"]
        if "compact" in policy:
            raise ConfigurationError(
                f"{self._where} has cleanup.policy={policy}; it must be delete, because its "
                "records have no keys: alter it, or name another topic"
            )

    def _error(self, error: KafkaError) -> Exception:
        if error.code() in DENIED:
            return self._denied(error.str())
        return AuditTopicError(f"{self._where}: {error.str()}")

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
        """Send records."""
        for record in records:
            self._send(record)

    def work(self) -> float | None:
        """Take the brokers' responses, and retry the records that they did not store."""
        now = time.monotonic()
        if self._again and now >= self._retry_at:
            again, self._again = self._again, []
            self.take(again)
        # Each callback of a record is called in here.
        self._producer.poll(_POLL_S if len(self._producer) else 0)
        if self._alone is not None:
            self._alone.poll(_POLL_S if len(self._alone) else 0)
        for producer in list(self._retired):
            producer.purge()
            producer.poll(0)
            if not len(producer):
                self._retired.remove(producer)
        if self._retired or any(map(len, self._producers())):
            return 0.0
        return max(0.0, self._retry_at - now) if self._again else None

    def reopen(self) -> None:
        """Do nothing: a topic is not renamed."""

    def close(self) -> None:
        """Give up undelivered records."""
        for producer in (*self._producers(), *self._retired):
            producer.purge()
            producer.poll(0)

    def _producers(self) -> list[Producer]:
        return [self._producer, *([self._alone] if self._alone is not None else [])]

    def _new_producer(self, *, alone: bool = False) -> Producer:
        """Return a producer.

        Args:
            alone: Whether it sends each record by itself.
        """
        return new_producer(
            {
                **watched(self._settings, self._lost_brokers),
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": 0 if alone else 50,
                **({"batch.num.messages": 1} if alone else {}),
                "compression.type": "lz4",
                # What may be on its way is bounded by the trail, and is not given up for its age.
                "message.timeout.ms": 0,
                "queue.buffering.max.messages": 0,
                "on_delivery": partial(self._delivered, alone=alone),
                "error_cb": self._failed,
            }
        )

    def _send(self, record: bytes, *, alone: bool = False) -> None:
        if alone and self._alone is None:
            self._alone = self._new_producer(alone=True)
        producer = self._alone if alone and self._alone is not None else self._producer
        try:
            producer.produce(self.name, record)
        except KafkaException as error:
            self._not_sent(error.args[0], record, alone=True)  # it never comes into a batch
        except BufferError as error:
            self._send_later(record, str(error))

    def _delivered(self, error: KafkaError | None, message: Any, *, alone: bool) -> None:
        record = message.value()
        if error is None:
            self._settle([record], is_written=True)
        else:
            self._not_sent(error, record, alone=alone)

    def _not_sent(self, error: KafkaError, record: bytes, *, alone: bool) -> None:
        """Send a record again; drop it if brokers refuse it."""
        if error.code() not in _REJECTED:
            self._replace_if_fatal(error)
            self._send_later(record, error.str())
        elif alone:
            self._warn(error.str())
            self._settle([record], is_written=False)
        else:
            self._send(record, alone=True)

    def _send_later(self, record: bytes, why: str) -> None:
        self._warn(why)
        self._again.append(record)
        self._retry_at = time.monotonic() + _RETRY_S

    def _failed(self, error: KafkaError) -> None:
        """Handle an error that is not about one record: brokers that cannot be reached."""
        self._warn(error.str())

    def _replace_if_fatal(self, error: KafkaError) -> None:
        if is_fatal(error):
            self._replace(error.str())

    def _lost_brokers(self) -> None:
        self._replace("it has lost all its brokers")

    def _replace(self, why: str) -> None:
        """Replace the producers; their records come back as not delivered."""
        # If another producer fails while the last give their records back, the next record of
        # it that fails comes here again.
        if not self._retired:
            log.warning("a producer is replaced", topic=self.name, reason=why)
            replacement = self._new_producer()
            self._retired += self._producers()
            self._producer, self._alone = replacement, None
