"""Policies over single records: KIP-729 (a chain for all topics), KIP-940 (one, by topic)."""

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
"""Every byte, however long: Java's ``Long.MAX_VALUE``."""


class BrokerRecordValidator:
    """A link of the chain ``record.validator.classes`` (KIP-729): every record of every topic.

    One instance a worker process, made by calling the class without arguments; the
    proposal gives it neither ``configure`` nor ``close``. Calls never overlap::

        class KeyRequired(BrokerRecordValidator):
            def validate_record(self, topic_partition, key, value, headers):
                if key is None:
                    return InvalidRecordException("a key is required")
                return None

    A class may judge columns instead, or besides: see ``validate_batch``.
    """

    def validate_record(
        self,
        topic_partition: TopicPartition,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[Header],
    ) -> InvalidRecordException | None:
        """Return None to let the record pass, or the exception that says why not.

        The first validator of the chain that objects decides; the records after it are
        still looked at, so that the client learns of all of them at once. A raised
        ``InvalidRecordException`` counts as a returned one.
        """
        raise NotImplementedError

    def validate_batch(
        self, topic_partition: TopicPartition, batch: BatchProxy
    ) -> Iterable[tuple[int, str | None]]:
        """Return the positions in the batch that are refused, each with its message.

        Optional: where a class has it, it is called in place of ``validate_record``, which
        need not be there then. It says of each record what ``validate_record`` would say,
        whatever other records come with it. ``RecordValidationPolicy.validate_batch`` says
        what it may return.
        """
        raise NotImplementedError


class RecordIntrospectionHints(NamedTuple):
    """How much of a record the policy will look at (KIP-940); the rest is not given to it.

    Attributes:
        access_headers: Whether headers are looked at.
        access_key_bytes: How many bytes of the key, from its start: 0 for none of it,
            ``ALL`` for the whole. A policy that reads a schema id needs 5.
        access_value_bytes: The same for the value.
    """

    access_headers: bool = True
    access_key_bytes: int = ALL
    access_value_bytes: int = ALL


class TopicMetadata(NamedTuple):
    """Where a record is going (KIP-940).

    Attributes:
        topic_id_partition: The partition, with the topic's name and id.
        validation_policy: The value of the topic's ``record.validation.policy``; what it
            means is the policy's own business. Empty where another key has switched the policy on.
        configs: The topic level keys that the policy declares (``topic_configs``), as text, with
            their defaults where the topic has none. Read-only.
    """

    topic_id_partition: TopicIdPartition
    validation_policy: str
    configs: Mapping[str, str] = _NO_CONFIGS

    def __hash__(self) -> int:
        return hash(self[:2])


class RecordValidationPolicy:
    """Judges single records of the topics that ask for it (KIP-940).

    One class for the gateway, ``record.validation.policy.class.name``; it runs for topics
    that have a ``record.validation.policy``, and reads there what to do. Each worker
    process has one instance: ``configure`` once, then ``get_hints`` once, then any number
    of ``validate``, then ``close`` once. Calls never overlap::

        class HeaderRequired(RecordValidationPolicy):
            def get_hints(self):
                return RecordIntrospectionHints(True, 0, 0)

            def validate(self, topic, record):
                if not any(header.key == topic.validation_policy for header in record.headers):
                    raise InvalidRecordException(f"header {topic.validation_policy} is missing")

    A class may judge columns instead, or besides: see ``validate_batch``.

    Attributes:
        topic_configs: Keys of its own that topics may have; see `TopicConfig`. Of the class: it is
            read before there is an instance.
    """

    topic_configs: ClassVar[Sequence[TopicConfig]] = ()

    def configure(self, configs: Mapping[str, str]) -> None:
        """Receive the whole configuration file, as text by key."""

    def get_hints(self) -> RecordIntrospectionHints:
        """Return how much of a record ``validate`` looks at; everything, unless overridden."""
        return RecordIntrospectionHints()

    def prepare_topic(self, topic: str, configs: Mapping[str, str]) -> None:
        """Prepare to judge a topic: a place for what takes time, such as reading its schemas.

        Optional. Called when a worker first meets a topic with these configs, and when it starts,
        for the topics that the file names without a wildcard. The limit is that of
        ``prepare_batch``; at the start that of ``configure``.

        Args:
            topic: The topic's name.
            configs: As in ``TopicMetadata``.

        Raises:
            ValueError: The topic cannot be judged by these configs; at the start that is an error
                of the configuration, later nothing passes.
            RetriableException: It cannot be prepared now, which is no error: the next batch is.
        """

    def load_topic(self, topic: str, configs: Mapping[str, str]) -> None:
        """Look up what judging a topic will need, so that its first batch need not wait.

        Optional. Called in the gateway's workers, at any time while they have nothing to judge,
        for topics that are known at the start; also for one for which ``prepare_topic`` has not
        been called. A worker judges as well without it, so what it raises is a warning in the
        log, and no more. It is not called by ``penstock check``, nor on Spark, where the records
        are there already.

        The limit is that of ``prepare_batch``. A worker that exceeds it is replaced, and no
        topic is loaded any more.

        Args:
            topic: The topic's name.
            configs: As in ``TopicMetadata``.

        Raises:
            RetriableException: What is looked up does not answer: no other topic is loaded.
            Exception: This topic is not loaded; others are.
        """

    def prepare_batch(self, topic: TopicMetadata, batch: BatchProxy) -> None:
        """Prepare to judge some records: a place for look-ups, such as in a registry.

        Optional. Called once, right before ``validate`` or ``validate_batch`` is called with the
        same records, however they are judged. The deadline of judging
        (``policy.timeout.ms``) does not run meanwhile, but one of its own
        (``policy.preparation.timeout.ms``). On Spark it is called at the same place, without one.

        Args:
            topic: Where the records are going.
            batch: The records to which no policy before this one objects, as columns.

        Raises:
            RetriableException: What is looked up does not answer: the client tries again.
            Exception: Anything else is a failure: nothing of the batch passes.
        """

    def validate(self, topic: TopicMetadata, record: RecordProxy) -> None:
        """Return to let the record pass; raise ``InvalidRecordException`` to refuse it."""
        raise NotImplementedError

    def validate_batch(
        self, topic: TopicMetadata, batch: BatchProxy
    ) -> Iterable[tuple[int, str | None]]:
        """Return the positions in the batch that are refused, each with its message.

        Optional: where a class has it, it is called in place of ``validate``, which need not
        be there then. A class that derives from one that has both and overrides ``validate``
        alone is judged by its ``validate``. It says of each record what ``validate`` would
        say, whatever other records come with it: which records come together differs between
        the gateway and Spark, and from batch to batch. ``penstock.policy.testing`` compares.

        Args:
            topic: Where the records are going.
            batch: The records to which no policy before this one objects, as columns.

        Returns:
            Position, from 0, and message (or None) of each record that is refused, in any
            order; nothing for a batch that passes. May be a generator. Of several messages
            for one position the first counts. A position that is not in the batch, a message
            that is no text, and None in place of an iterable are failures.

        Raises:
            Exception: Anything that is raised is a failure: nothing of the batch passes. An
                ``InvalidRecordException``, too: it does not say which record it is about.
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
        """Return None to let the record pass, or the exception that says why not."""
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
        """Prepare to judge some records."""

    def validate(self, topic: TopicMetadata, record: RecordProxy, context: ClientContext) -> None:
        """Return to let the record pass; raise ``InvalidRecordException`` to refuse it."""
        raise NotImplementedError

    def validate_batch(
        self, topic: TopicMetadata, batch: BatchProxy, context: ClientContext
    ) -> Iterable[tuple[int, str | None]]:
        """Return the positions in the batch that are refused, each with its message."""
        raise NotImplementedError
