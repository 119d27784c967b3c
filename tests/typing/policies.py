"""A policy of each kind, as a user writes it with full annotations: mypy has nothing to say."""

from collections.abc import Iterable, Mapping, Sequence

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
    RecordIntrospectionHints,
    RecordProxy,
    RecordValidationPolicy,
    RequestContext,
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
    """KIP-108, with who asks."""

    def validate(self, request: CreateTopicPolicy.RequestMetadata, context: RequestContext) -> None:
        if context.principal is None:
            raise PolicyViolationException("log in first")


class Alteration(AlterConfigPolicy):
    """KIP-133."""

    def validate(self, request: AlterConfigPolicy.RequestMetadata) -> None:
        if request.configs.get("retention.ms") == "-1":
            raise PolicyViolationException(f"{request.resource.name} would grow for ever")


class AlterationWithContext(AlterConfigPolicyWithContext):
    """KIP-133, with who asks."""

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

    # mypy compares with the interface without a context, too.
    def validate_record(  # type: ignore[override]
        self,
        topic_partition: TopicPartition,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[Header],
        context: ClientContext,
    ) -> InvalidRecordException | None:
        return InvalidRecordException("who?") if context.principal is None else None


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
