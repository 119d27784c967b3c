"""One topic's policies, applied to records: the one place where policies are called.

Order: the batch policy (KIP-686), then for each record the validators (KIP-729) and the
validation policy (KIP-940). The first objection to a record counts; the records after it
are still looked at. Whatever a policy raises that is not its way of saying no is a failure,
and a failure never lets anything pass.
"""

from __future__ import annotations

from itertools import repeat
from operator import attrgetter
from typing import TYPE_CHECKING, Final, Protocol

from penstock.engine.loading import frames_of
from penstock.engine.verdict import (
    ACCEPTED,
    POLICY_VIOLATION,
    RecordError,
    Verdict,
    failed,
    refused,
    refused_records,
)
from penstock.policy import (
    Header,
    InvalidRecordException,
    PolicyViolationException,
    Record,
    RecordProxy,
    TopicIdPartition,
    TopicMetadata,
    TopicPartition,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from uuid import UUID

    from penstock.configuration import ConfigurationError
    from penstock.engine.plan import TopicPlan
    from penstock.engine.policies import Policies
    from penstock.policy import RecordIntrospectionHints


class DecodedRecord(Protocol):
    """A record as the record batch reader (or a row of Spark) gives it."""

    @property
    def timestamp(self) -> int: ...
    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...
    @property
    def headers(self) -> Sequence[tuple[str, bytes | None]]: ...


class Chain:
    """The policies of one topic, ready to judge.

    Raises:
        ConfigurationError: A policy of the topic cannot be configured.
    """

    def __init__(self, plan: TopicPlan, policies: Policies) -> None:
        self.plan = plan
        self._records_policy = (
            policies.records_policy(plan.records_policy, plan.topic)
            if plan.records_policy
            else None
        )
        self._validators = [
            (name, policies.validators[name].validate_record) for name in plan.validators
        ]
        self._validation = policies.validation if plan.validation_policy else None
        self._hints = policies.hints

    def judge(self, partition: int, topic_id: UUID, records: Sequence[DecodedRecord]) -> Verdict:
        """Judge the records of one batch.

        Args:
            partition: The partition's number.
            topic_id: The topic's id.
            records: In the client's order.

        Returns:
            The verdict about the batch; positions in it count from 0 in `records`.
        """
        if self._records_policy is not None:
            verdict = self._judge_batch(partition, records)
            if verdict is not ACCEPTED:
                return verdict
        if self._validators:
            return self._judge_by_validators(partition, topic_id, records)
        if self._validation is not None:
            return self._judge_by_validation(partition, topic_id, records)
        return ACCEPTED

    def _judge_batch(self, partition: int, records: Sequence[DecodedRecord]) -> Verdict:
        """KIP-686."""
        name = self.plan.records_policy or ""
        views = tuple(
            Record(record.timestamp, record.key, record.value, _headers(record))
            for record in records
        )
        try:
            self._records_policy.validate(self.plan.topic, partition, views)  # type: ignore[union-attr]
        except PolicyViolationException as violation:
            return refused(POLICY_VIOLATION, violation.message, name)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            return _failure(name, error)
        return ACCEPTED

    def _judge_by_validators(
        self, partition: int, topic_id: UUID, records: Sequence[DecodedRecord]
    ) -> Verdict:
        """KIP-729, and KIP-940 for the records to which no validator objects."""
        topic_partition = TopicPartition(self.plan.topic, partition)
        validate = self._validation.validate if self._validation is not None else None
        topic = self._topic_metadata(partition, topic_id)
        views = proxies(records, self._hints) if validate else repeat(None, len(records))
        errors = []
        current = ""
        try:
            for index, (record, proxy) in enumerate(zip(records, views, strict=True)):
                headers = _headers(record)
                for current, validate_record in self._validators:
                    try:
                        objection = validate_record(
                            topic_partition, record.key, record.value, headers
                        )
                    except InvalidRecordException as raised:
                        objection = raised
                    if objection is not None:
                        errors.append(RecordError(index, _text_of(objection), current))
                        break
                else:
                    if validate is not None:
                        current = self.plan.validation_policy or ""
                        try:
                            validate(topic, proxy)
                        except InvalidRecordException as raised:
                            errors.append(RecordError(index, raised.message, current))
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            return _failure(current, error)
        return refused_records(errors) if errors else ACCEPTED

    def _judge_by_validation(
        self, partition: int, topic_id: UUID, records: Sequence[DecodedRecord]
    ) -> Verdict:
        """KIP-940 alone: the loop that most records go through."""
        name = self.plan.validation_policy or ""
        topic = self._topic_metadata(partition, topic_id)
        validate = self._validation.validate  # type: ignore[union-attr]
        errors = []
        index = 0
        try:
            for proxy in proxies(records, self._hints):
                try:
                    validate(topic, proxy)
                except InvalidRecordException as raised:
                    errors.append(RecordError(index, raised.message, name))
                index += 1
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            return _failure(name, error)
        return refused_records(errors) if errors else ACCEPTED

    def _topic_metadata(self, partition: int, topic_id: UUID) -> TopicMetadata:
        return TopicMetadata(
            TopicIdPartition(topic_id, self.plan.topic, partition),
            self.plan.validation_setting or "",
        )


def proxies(
    records: Sequence[DecodedRecord], hints: RecordIntrospectionHints
) -> Iterator[RecordProxy]:
    """Give KIP-940's view of each record, with what the hints ask for and no more.

    Built from iterators that run in C: this is most of what judging itself costs a record.
    """
    count = len(records)
    headers: Iterable[object] = map(_headers, records) if hints[0] else repeat((), count)
    keys = _starts(map(_key, records), hints[1], count)
    values = _starts(map(_value, records), hints[2], count)
    return map(tuple.__new__, repeat(RecordProxy, count), zip(headers, keys, values, strict=True))


def _starts(fields: Iterator[bytes | None], length: int, count: int) -> Iterator[bytes | None]:
    """Cut each field to the hinted length."""
    if not length:
        return repeat(None, count)
    if length >= _LONGEST:
        return fields
    return (None if field is None else field[:length] for field in fields)


_LONGEST: Final = 2**31 - 1
_key = attrgetter("key")
_value = attrgetter("value")


def _headers(record: DecodedRecord) -> tuple[Header, ...]:
    headers = record.headers
    return tuple(map(Header._make, headers)) if headers else ()


def _text_of(objection: object) -> str | None:
    if isinstance(objection, InvalidRecordException):
        return objection.message
    raise TypeError(
        f"validate_record() returned {type(objection).__name__}; "
        "it returns None or an InvalidRecordException"
    )


def _failure(name: str, error: BaseException) -> Verdict:
    kind = type(error).__name__
    return failed(name, f"failed: {kind}", detail=frames_of(error), error_type=kind)


def unusable(plan: TopicPlan, error: ConfigurationError) -> Verdict:
    """The verdict for a topic whose policy cannot be configured."""
    return failed(
        ", ".join(plan.policies), "cannot be configured", detail=str(error), error_type="Unusable"
    )
