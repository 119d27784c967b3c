"""A policy of each kind, as a user writes it with full annotations: mypy has nothing to say."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar

from penstock.policy import (
    AlterConfigPolicy,
    AlterConfigPolicyWithContext,
    BatchProxy,
    BrokerRecordValidator,
    BrokerRecordValidatorWithContext,
    ClientContext,
    CreateTopicPolicy,
    CreateTopicPolicyWithContext,
    Header,
    InvalidRecordException,
    PolicyViolationException,
    ProduceRequestInterceptor,
    ProduceRequestInterceptorResult,
    ProduceRequestInterceptorSkipRecordException,
    ProduceRequestInterceptorWithContext,
    Record,
    RecordIntrospectionHints,
    RecordProxy,
    RecordsPolicy,
    RecordsPolicyWithContext,
    RecordValidationPolicy,
    RecordValidationPolicyWithContext,
    RequestContext,
    TopicConfig,
    TopicMetadata,
    TopicPartition,
    count_event,
)


class Creation(CreateTopicPolicy):
    """KIP-108."""

    def validate(self, request: CreateTopicPolicy.RequestMetadata) -> None:
        if request.num_partitions is not None and request.num_partitions > 12:
            raise PolicyViolationException(f"{request.topic} has too many partitions")


class CreationWithContext(CreateTopicPolicyWithContext):
    """KIP-108, with the context of the client."""

    def validate(self, request: CreateTopicPolicy.RequestMetadata, context: RequestContext) -> None:
        if context.principal is None:
            raise PolicyViolationException("log in first")


class Alteration(AlterConfigPolicy):
    """KIP-133."""

    def validate(self, request: AlterConfigPolicy.RequestMetadata) -> None:
        if request.configs.get("retention.ms") == "-1":
            raise PolicyViolationException(f"{request.resource.name} would grow without a limit")


class AlterationWithContext(AlterConfigPolicyWithContext):
    """KIP-133, with the context of the client."""

    def validate(self, request: AlterConfigPolicy.RequestMetadata, context: RequestContext) -> None:
        if context.client_id is None:
            raise PolicyViolationException("a client id is required")


class Validator(BrokerRecordValidator):
    """KIP-729, record by record."""

    def validate_record(
        self,
        topic_partition: TopicPartition,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[Header],
    ) -> InvalidRecordException | None:
        if key is None and not headers:
            return InvalidRecordException(f"{topic_partition.topic}: a key is required")
        return None


class ValidatorWithContext(BrokerRecordValidatorWithContext):
    """KIP-729, with who sent it."""

    def validate_record(
        self,
        topic_partition: TopicPartition,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[Header],
        context: ClientContext,
    ) -> InvalidRecordException | None:
        return InvalidRecordException("who?") if context.principal is None else None

    def validate_batch(
        self, topic_partition: TopicPartition, batch: BatchProxy, context: ClientContext
    ) -> Iterable[tuple[int, str | None]]:
        return [(0, "who?")] if context.principal is None else []


class Whole(RecordsPolicy):
    """KIP-686."""

    def validate(self, topic: str, partition: int, records: Iterable[Record]) -> None:
        if any(not record.has_key for record in records):
            raise PolicyViolationException(f"{topic}: every record needs a key")


class WholeWithContext(RecordsPolicyWithContext):
    """KIP-686, with who sent it."""

    def configure(self, configs: Mapping[str, str]) -> None:
        self._who = configs.get("own.who", "")

    def validate(
        self, topic: str, partition: int, records: Iterable[Record], context: ClientContext
    ) -> None:
        if context.principal != self._who:
            raise PolicyViolationException(f"{topic} is for {self._who}")

    def close(self) -> None:
        super().close()


class Interceptor(ProduceRequestInterceptor):
    """KIP-905."""

    def interceptor_topic_pattern(self) -> str:
        return "orders-.*"

    def process_record(
        self,
        key: bytes | None,
        value: bytes | None,
        topic: str,
        partition: int,
        headers: Sequence[Header],
    ) -> ProduceRequestInterceptorResult:
        if value is None:
            raise ProduceRequestInterceptorSkipRecordException
        return ProduceRequestInterceptorResult(key, value.upper())


class InterceptorWithContext(ProduceRequestInterceptorWithContext):
    """KIP-905, with who sent it."""

    drops_records = False

    def configure(self) -> None:
        super().configure()

    def interceptor_topic_pattern(self) -> re.Pattern[str]:
        return re.compile("orders-.*")

    def prepare_batch(
        self, topic: str, partition: int, batch: BatchProxy, context: ClientContext
    ) -> None:
        self._who = context.client_id

    def process_record(
        self,
        key: bytes | None,
        value: bytes | None,
        topic: str,
        partition: int,
        headers: Sequence[Header],
        context: ClientContext,
    ) -> ProduceRequestInterceptorResult:
        return ProduceRequestInterceptorResult(str(context.principal).encode(), value)

    def process_batch(
        self, topic: str, partition: int, batch: BatchProxy, context: ClientContext
    ) -> Iterable[tuple[int, ProduceRequestInterceptorResult | Exception]]:
        yield 0, ProduceRequestInterceptorResult(None, str(context.address).encode())


class Validation(RecordValidationPolicy):
    """KIP-940, record by record and as columns."""

    def configure(self, configs: Mapping[str, str]) -> None:
        self._limit = int(configs.get("own.limit", "10"))

    def get_hints(self) -> RecordIntrospectionHints:
        return RecordIntrospectionHints(True, 0, 0)

    def validate(self, topic: TopicMetadata, record: RecordProxy) -> None:
        if record.value is not None and len(record.value) > self._limit:
            count_event("too long")
            raise InvalidRecordException(f"{topic.topic_id_partition}: too long")

    def validate_batch(
        self, topic: TopicMetadata, batch: BatchProxy
    ) -> Iterable[tuple[int, str | None]]:
        return [(0, None)] if topic.validation_policy else []


class ValidationWithContext(RecordValidationPolicyWithContext):
    """KIP-940, with who sent it: record by record and as columns."""

    topic_configs: ClassVar[Sequence[TopicConfig]] = (TopicConfig("own.who", "STRING", "", "Who."),)

    def configure(self, configs: Mapping[str, str]) -> None:
        super().configure(configs)

    def get_hints(self) -> RecordIntrospectionHints:
        return super().get_hints()._replace(access_headers=False)

    def prepare_topic(self, topic: str, configs: Mapping[str, str]) -> None:
        super().prepare_topic(topic, configs)

    def load_topic(self, topic: str, configs: Mapping[str, str]) -> None:
        super().load_topic(topic, configs)

    def prepare_batch(
        self, topic: TopicMetadata, batch: BatchProxy, context: ClientContext
    ) -> None:
        super().prepare_batch(topic, batch, context)

    def validate(self, topic: TopicMetadata, record: RecordProxy, context: ClientContext) -> None:
        if context.principal != topic.configs["own.who"]:
            raise InvalidRecordException("not for you")

    def validate_batch(
        self, topic: TopicMetadata, batch: BatchProxy, context: ClientContext
    ) -> Iterable[tuple[int, str | None]]:
        return [(0, None)] if context.address is None else []

    def close(self) -> None:
        super().close()
