"""Policies over single records: KIP-729 (for all topics) and KIP-940 (by topic)."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from penstock.policy.clients import ClientContext
    from penstock.policy.columns import BatchProxy
    from penstock.policy.exceptions import InvalidRecordException
    from penstock.policy.records import Header, RecordProxy, TopicIdPartition, TopicPartition
    from penstock.policy.topic_configs import TopicConfig

_NO_CONFIGS: Final[Mapping[str, str]] = MappingProxyType({})
ALL: Final = 2**63 - 1
"""All bytes: Java's ``Long.MAX_VALUE``."""


class BrokerRecordValidator:
    """Judges every record of every topic, as one of ``record.validator.classes`` (KIP-729).

    Each worker process has an instance, created without arguments. KIP-729 has neither
    ``configure`` nor ``close``. Calls never overlap::

        class KeyRequired(BrokerRecordValidator):
            def validate_record(self, topic_partition, key, value, headers):
                if key is None:
                    return InvalidRecordException("a key is required")
                return None

    A class can also judge columns, in addition to records or instead: see ``validate_batch``.
    """

    def validate_record(
        self,
        topic_partition: TopicPartition,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[Header],
    ) -> InvalidRecordException | None:
        """Return None to accept the record, or the exception with the reason to refuse it.

        The first validator that refuses a record decides about it. The other records are judged as
        well, so the client gets all bad records at once. The exception can also be raised.
        """
        raise NotImplementedError

    def validate_batch(
        self, topic_partition: TopicPartition, batch: BatchProxy
    ) -> Iterable[tuple[int, str | None]]:
        """Return the positions in the batch that are refused, each with its message.

        Optional. If a class has it, it is called instead of ``validate_record``, which is then not
        needed. Its result for a record must be that of ``validate_record``, and not depend on the
        other records. ``RecordValidationPolicy.validate_batch`` describes the return value.
        """
        raise NotImplementedError


class RecordIntrospectionHints(NamedTuple):
    """The parts of a record that the policy gets (KIP-940).

    Attributes:
        access_headers: Whether it gets headers.
        access_key_bytes: The number of bytes of the key, from its start: 0 for no key, ``ALL`` for
            the whole key. A policy that reads a schema id needs 5.
        access_value_bytes: The same for the value.
    """

    access_headers: bool = True
    access_key_bytes: int = ALL
    access_value_bytes: int = ALL


class TopicMetadata(NamedTuple):
    """The topic of a record (KIP-940).

    Attributes:
        topic_id_partition: The partition, with the topic's name and id.
        validation_policy: The value of the topic's ``record.validation.policy``, whose meaning the
            policy defines. Empty if another key has enabled the policy.
        configs: The topic level keys that the policy declares (``topic_configs``), as text, with
            their defaults. Read-only.
    """

    topic_id_partition: TopicIdPartition
    validation_policy: str
    configs: Mapping[str, str] = _NO_CONFIGS

    def __hash__(self) -> int:
        return hash(self[:2])


class RecordValidationPolicy:
    """Judges single records of the topics that enable it (KIP-940).

    ``record.validation.policy.class.name`` names the class. It judges topics that have a
    ``record.validation.policy``, whose value it interprets. Each worker process has an instance:
    ``configure`` is called once, then ``get_hints`` once, then ``validate`` any number of times,
    then ``close`` once. Calls never overlap::

        class HeaderRequired(RecordValidationPolicy):
            def get_hints(self):
                return RecordIntrospectionHints(True, 0, 0)

            def validate(self, topic, record):
                if not any(header.key == topic.validation_policy for header in record.headers):
                    raise InvalidRecordException(f"header {topic.validation_policy} is missing")

    A class can also judge columns, in addition to records or instead: see ``validate_batch``.

    Attributes:
        topic_configs: Topic level keys of this policy; see `TopicConfig`. An attribute of the
            class, because it is read before there is an instance.
    """

    topic_configs: ClassVar[Sequence[TopicConfig]] = ()

    def configure(self, configs: Mapping[str, str]) -> None:
        """Receive the whole configuration file, as text by key."""

    def get_hints(self) -> RecordIntrospectionHints:
        """Return the parts of a record that ``validate`` gets: everything, unless overridden."""
        return RecordIntrospectionHints()

    def prepare_topic(self, topic: str, configs: Mapping[str, str]) -> None:
        """Prepare to judge a topic, for example by reading its schemas.

        Optional. It is called when a worker first judges a topic with these configs, and at the
        start for topics that the file names without a wildcard. Its deadline is that of
        ``prepare_batch``, at the start that of ``configure``.

        Args:
            topic: The topic's name.
            configs: As in ``TopicMetadata``.

        Raises:
            ValueError: The topic cannot be judged by these configs. At the start that is an error
                of the configuration; later, every batch is refused.
            RetriableException: The topic cannot be prepared now. It is called again with the next
                batch.
        """

    def load_topic(self, topic: str, configs: Mapping[str, str]) -> None:
        """Look up what judging a topic needs, so that its first batch does not wait.

        Optional. It is called in the gateway's idle workers, for topics that are known at the
        start, also before ``prepare_topic``. An exception is only a warning in the log. ``penstock
        check`` and Spark do not call it.

        Its deadline is that of ``prepare_batch``. A worker that exceeds it is replaced, and no more
        topics are loaded.

        Args:
            topic: The topic's name.
            configs: As in ``TopicMetadata``.

        Raises:
            RetriableException: The look-up got no answer: no more topics are loaded.
            Exception: This topic is not loaded; other topics are.
        """

    def prepare_batch(self, topic: TopicMetadata, batch: BatchProxy) -> None:
        """Prepare to judge records, for example by look-ups in a registry.

        Optional. It is called once, right before ``validate`` or ``validate_batch`` is called with
        the same records. Its deadline is ``policy.preparation.timeout.ms``, during which
        ``policy.timeout.ms`` does not run. On Spark it has no deadline.

        Args:
            topic: The topic of the records.
            batch: The records that no policy before this policy refused, as columns.

        Raises:
            RetriableException: The look-up got no answer: the client retries.
            Exception: Any other exception is a failure: nothing of the batch is stored.
        """

    def validate(self, topic: TopicMetadata, record: RecordProxy) -> None:
        """Return to accept the record; raise ``InvalidRecordException`` to refuse it."""
        raise NotImplementedError

    def validate_batch(
        self, topic: TopicMetadata, batch: BatchProxy
    ) -> Iterable[tuple[int, str | None]]:
        """Return the positions in the batch that are refused, each with its message.

        Optional. If a class has it, it is called instead of ``validate``, which is then not needed.
        If a subclass overrides only ``validate``, that is called. The result for a record must be
        that of ``validate``, and not depend on the other records: batches differ between the
        gateway and Spark. ``penstock.policy.testing`` compares both methods.

        Args:
            topic: The topic of the records.
            batch: The records that no policy before this policy refused, as columns.

        Returns:
            Pairs of the position, from 0, and the message (or None) of each refused record, in any
            order. It can be empty, or a generator. The first message for a position counts. An
            unknown position, a message that is not text, and None instead of an iterable are
            failures.

        Raises:
            Exception: Any exception is a failure, also an ``InvalidRecordException``, because it
                names no record. Nothing of the batch is stored.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Release what ``configure`` acquired."""


if TYPE_CHECKING:
    # With a context, methods take an argument more than those that they override, which no type
    # checker accepts. So to type checkers, the class that is derived from has the others alone.

    class _Validator:
        pass

    class _ValidationPolicy:
        topic_configs: ClassVar[Sequence[TopicConfig]] = ()

        def configure(self, configs: Mapping[str, str]) -> None: ...

        def get_hints(self) -> RecordIntrospectionHints:
            raise NotImplementedError

        def prepare_topic(self, topic: str, configs: Mapping[str, str]) -> None: ...

        def load_topic(self, topic: str, configs: Mapping[str, str]) -> None: ...

        def close(self) -> None: ...

else:
    _Validator, _ValidationPolicy = BrokerRecordValidator, RecordValidationPolicy


class BrokerRecordValidatorWithContext(_Validator):
    """A `BrokerRecordValidator` that also gets the client that sent the records."""

    def validate_record(
        self,
        topic_partition: TopicPartition,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[Header],
        context: ClientContext,
    ) -> InvalidRecordException | None:
        """Return None to accept the record, or the exception with the reason to refuse it."""
        raise NotImplementedError

    def validate_batch(
        self, topic_partition: TopicPartition, batch: BatchProxy, context: ClientContext
    ) -> Iterable[tuple[int, str | None]]:
        """Return the positions in the batch that are refused, each with its message."""
        raise NotImplementedError


class RecordValidationPolicyWithContext(_ValidationPolicy):
    """A `RecordValidationPolicy` that also gets the client that sent the records."""

    def prepare_batch(
        self, topic: TopicMetadata, batch: BatchProxy, context: ClientContext
    ) -> None:
        """Prepare to judge records."""

    def validate(self, topic: TopicMetadata, record: RecordProxy, context: ClientContext) -> None:
        """Return to accept the record; raise ``InvalidRecordException`` to refuse it."""
        raise NotImplementedError

    def validate_batch(
        self, topic: TopicMetadata, batch: BatchProxy, context: ClientContext
    ) -> Iterable[tuple[int, str | None]]:
        """Return the positions in the batch that are refused, each with its message."""
        raise NotImplementedError
