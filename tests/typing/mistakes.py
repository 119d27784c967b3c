"""Mistakes that mypy has to find: each `type: ignore` is an error itself where it finds nothing."""

from penstock.policy import (
    CreateTopicPolicy,
    Header,
    ProduceRequestInterceptor,
    ProduceRequestInterceptorResult,
    RecordProxy,
    RecordValidationPolicy,
    RecordValidationPolicyWithContext,
    TopicMetadata,
)


class Creation(CreateTopicPolicy):
    """Takes what no gateway gives, and compares what may be None."""

    def validate(self, request: str) -> None:  # type: ignore[override]
        pass

    def is_large(self, request: CreateTopicPolicy.RequestMetadata) -> bool:
        return request.num_partitions > 12  # type: ignore[operator]


class Validation(RecordValidationPolicy):
    """Reads what a record has not, and a value that may be None."""

    def validate(self, topic: TopicMetadata, record: RecordProxy) -> None:
        record.payload  # type: ignore[attr-defined]  # noqa: B018
        len(record.value)  # type: ignore[arg-type]


class ValidationWithContext(RecordValidationPolicyWithContext):
    """Leaves out the context that it is given."""

    def validate(self, topic: TopicMetadata, record: RecordProxy) -> None:  # type: ignore[override]
        pass


class Interceptor(ProduceRequestInterceptor):
    """Returns text instead of bytes."""

    def result(self) -> ProduceRequestInterceptorResult:
        return ProduceRequestInterceptorResult("key", b"value")  # type: ignore[arg-type]

    def header(self) -> Header:
        return Header("key", "text")  # type: ignore[arg-type]
