"""The objections of the policies over records (KIP-686, KIP-729, KIP-940).

Validators that judge record by record and are next to each other in the chain are one stage, with
the policy of KIP-940 behind them: each record goes through all of them. A policy that judges
columns, or batches, is a stage by itself. A stage gets
the records to which none before it objected, so the first objection to a record counts, however
the policies of a chain are mixed.
"""

from __future__ import annotations

from itertools import repeat
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from penstock.engine.answers import AnswerError, read_objections, returned_error
from penstock.engine.columns import as_proxies, as_records, halves
from penstock.engine.interceptors.policy_batch import PolicyBatch
from penstock.engine.plans.loading import frames_of
from penstock.engine.verdict import FailureCause, Outcome, cause_of, failed, postponed, refused
from penstock.kafka.error_codes import POLICY_VIOLATION
from penstock.policy import (
    InvalidRecordException,
    PolicyViolationException,
    RecordIntrospectionHints,
    RetriableException,
    UndecidableException,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from penstock.engine.columns import RecordColumns
    from penstock.engine.verdict import PolicyVerdict
    from penstock.policy import TopicMetadata, TopicPartition

_OTHERS: Final = (
    (PolicyViolationException, InvalidRecordException),
    (InvalidRecordException, PolicyViolationException),
)
"""The exception with which only the other interfaces refuse, and that of a policy's own."""


class RecordPolicy(NamedTuple):
    """A configured policy of KIP-729 or KIP-940.

    Attributes:
        name: Its name, or its class as the configuration names it.
        validate: Its `validate_record` or `validate`; None if it has only `validate_batch`.
        validate_batch: The method that is called instead of it, or None.
        prepare_batch: Called before either, once for several records; or None.
        hints: How much of a record it looks at (KIP-940); None for a validator (KIP-729).
        topic_configs: The topic configs that it gets, if they are not the topic's own.
        reads_timestamps: Whether it may look at the timestamps of records that it gets together.
        objections_of_rules: Says of records that it refuses which of its rules object to each, if
            it has rules: position, rule, text and fields of the value.
        judges_by_rules: Whether it refuses those records that this objects to, and no others, with
            the text of the first objection.
    """

    name: str
    validate: Callable[..., Any] | None
    validate_batch: Callable[..., Any] | None = None
    prepare_batch: Callable[..., Any] | None = None
    hints: RecordIntrospectionHints | None = None
    topic_configs: Mapping[str, str] | None = None
    reads_timestamps: bool = True
    objections_of_rules: Callable[..., Any] | None = None
    judges_by_rules: bool = False

    @property
    def is_apart(self) -> bool:
        """Whether it is given records together, and so is a stage by itself."""
        return self.validate_batch is not None or self.prepare_batch is not None

    def topic(self, destination: Destination) -> TopicMetadata:
        """Return the destination of the records, as the policy gets it."""
        if self.topic_configs is None:
            return destination.topic
        return destination.topic._replace(configs=self.topic_configs)

    def by_record(self) -> RecordPolicy:
        """Return the same policy, judging record by record if it can."""
        return self if self.validate is None else self._replace(validate_batch=None)


class BatchPolicy(NamedTuple):
    """A configured policy of KIP-686.

    Attributes:
        name: Its name, or its class as the configuration names it.
        validate: Its `validate`.
    """

    name: str
    validate: Callable[..., Any]

    def by_record(self) -> BatchPolicy:
        """Return itself: it judges only batches."""
        return self

    def judge(self, topic: str, partition: int, records: RecordColumns) -> PolicyVerdict | None:
        """Judge records as one batch; return None if it accepts them."""
        try:
            # Reading columns may fail as well: for want of memory.
            views = tuple(as_records(records))
            returned = self.validate(topic, partition, views)
            if returned is not None:
                raise returned_error(returned, PolicyViolationException)
        except PolicyViolationException as violation:
            return refused(POLICY_VIOLATION, violation.message, self.name)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            return failure(self.name, error)
        return None

    def judge_each(
        self, destination: TopicPartition, records: RecordColumns, size: int
    ) -> list[tuple[int, PolicyVerdict]]:
        """Judge records that are not a batch, some at a time: its verdict is that of all of them.

        Args:
            destination: Where they are going.
            size: How many consecutive records it gets at most.

        Returns:
            Position and verdict of the records that are not accepted. That it cannot decide now
            ends it.
        """
        verdicts: list[tuple[int, PolicyVerdict]] = []
        for start in range(0, records.count, size):
            some = range(start, min(start + size, records.count))
            part = records if size >= records.count else records.pick(some)
            verdict = self.judge(*destination, part)
            if verdict is not None:
                verdicts += ((index, verdict) for index in some)
                if verdict.outcome is Outcome.POSTPONED:
                    break
        return verdicts


Policy = RecordPolicy | BatchPolicy
"""A policy over records, but for an interceptor."""


class Objection(NamedTuple):
    """The objection of a policy to a record: its text.

    Or a verdict: where a policy did not decide, or refused the batch that the record is in.
    """

    position: int
    message: str | None
    policy: str
    failure: PolicyVerdict | None = None


class Destination(NamedTuple):
    """The destination of records, as policies of KIP-729 and of KIP-940 get it."""

    topic_partition: TopicPartition
    topic: TopicMetadata


class Stage(Protocol):
    """Policies that judge the same records together."""

    def objections(
        self,
        destination: Destination,
        records: RecordColumns,
        *,
        each: bool,
        batch: PolicyBatch | None = None,
    ) -> Iterable[Objection]:
        """Return their objections, by ascending position.

        Args:
            destination: Where the records are going.
            records: At least one.
            batch: The same records as the policy was given them to prepare for; a policy that
                judges columns is given the same object.
            each: Whether records are judged as if each had been sent alone, so that a record that a
                policy fails on does not keep the others from being judged. Where a policy cannot
                decide now, that is the last objection either way.
        """
        ...


class Stages:
    """The policies over records of one topic, in order."""

    def __init__(self, policies: Iterable[Policy]) -> None:
        """Arrange policies: those that judge record by record, and are side by side, in one stage.

        Args:
            policies: In the order in which they judge.
        """
        self._stages: list[Stage] = []
        run: list[RecordPolicy] = []
        for policy in policies:
            if isinstance(policy, BatchPolicy) or policy.is_apart:
                self._end(run)
                self._stages.append(_apart(policy))
            elif policy.hints is None:
                run.append(policy)
            else:
                self._end(run, policy)
        self._end(run)

    def _end(self, run: list[RecordPolicy], last: RecordPolicy | None = None) -> None:
        """Make a stage of validators, perhaps with a policy of KIP-940 as the last."""
        if run or last is not None:
            self._stages.append(_ByRecord(tuple(run), last))
        run.clear()

    def objections(
        self, destination: Destination, records: RecordColumns, *, each: bool, batch_size: int = 1
    ) -> Iterable[Objection]:
        """Return the objections of the policies; see `Stage.objections`.

        Args:
            destination: Where the records are going.
            records: Any number of them.
            each: See `Stage.objections`.
            batch_size: The most consecutive records that a policy over batches gets, if records
                are judged separately.
        """
        if not records.count:
            return () if each else self._of_nothing(destination, records)
        if not self._stages:
            return ()
        if len(self._stages) == 1:
            return _objections_of(self._stages[0], destination, records, each, batch_size)
        return self._in_turn(destination, records, each, batch_size)

    def _of_nothing(self, destination: Destination, records: RecordColumns) -> Iterable[Objection]:
        """Judge a batch without records, to which only policies over batches can object."""
        wholes = (stage for stage in self._stages if isinstance(stage, _Whole))
        objection_lists = (stage.objections(destination, records, each=False) for stage in wholes)
        return next(filter(None, objection_lists), ())

    def _in_turn(
        self, destination: Destination, records: RecordColumns, each: bool, batch_size: int
    ) -> list[Objection]:
        """Run the stages in order, each over the remaining records."""
        all_objections: list[Objection] = []
        positions: Sequence[int] = range(records.count)
        for stage in self._stages:
            if all_objections and not each and isinstance(stage, _Whole):
                continue  # the batch is refused for some of its records
            objections = _objections_of(stage, destination, records, each, batch_size)
            some = list(_until_end(objections, each=each))
            if not some:
                continue
            if _is_postponed(some[-1]):
                return [some[-1]]
            all_objections += (
                objection._replace(position=positions[objection.position]) for objection in some
            )
            indexes = _left(records.count, some, each=each)
            if not indexes:
                break
            records = records.pick(indexes)
            positions = [positions[index] for index in indexes]
        all_objections.sort(key=attrgetter("position"))
        return all_objections


def _objections_of(
    stage: Stage, destination: Destination, records: RecordColumns, each: bool, batch_size: int
) -> Iterable[Objection]:
    if each and isinstance(stage, _Whole):
        return stage.each(destination, records, batch_size)
    return stage.objections(destination, records, each=each)


def _left(count: int, objections: Sequence[Objection], *, each: bool) -> list[int]:
    """Return the positions that the next stage judges.

    If a batch is judged as a unit, the records after its first failure are not judged.
    """
    objected_positions = {objection.position for objection in objections}
    if not each:
        count = next(
            (objection.position for objection in objections if objection.failure is not None), count
        )
    return [index for index in range(count) if index not in objected_positions]


class _ByRecord:
    """Validators (KIP-729), and the validation policy (KIP-940), called with each record."""

    def __init__(
        self,
        validators: Sequence[RecordPolicy],
        validation: RecordPolicy | None = None,
    ) -> None:
        self._validators = [(validator.name, validator.validate) for validator in validators]
        self._validation = validation
        hints = validation.hints if validation is not None else None
        self._hints = hints or RecordIntrospectionHints()

    def objections(
        self,
        destination: Destination,
        records: RecordColumns,
        *,
        each: bool,  # noqa: ARG002 - the caller stops at the first failure if it wants to
        batch: PolicyBatch | None = None,  # noqa: ARG002 - views are made of the records
    ) -> Iterator[Objection]:
        if not self._validators and self._validation is not None:
            return self._of_validation(self._validation.topic(destination), records)
        return self._of_validators(destination, records)

    def _of_validators(
        self, destination: Destination, records: RecordColumns
    ) -> Iterator[Objection]:
        """Judge by KIP-729, and by KIP-940 the records to which no validator objects."""
        last = self._validation
        topic_partition = destination.topic_partition
        topic = last.topic(destination) if last is not None else destination.topic
        validate: Any = last.validate if last is not None else None
        views = as_proxies(records, self._hints) if validate else repeat(None, records.count)
        rows = zip(records.keys, records.values, records.headers, views, strict=False)
        current = ""
        for index, (key, value, headers, proxy) in enumerate(rows):
            try:
                for current, validate_record in self._validators:
                    try:
                        objection = validate_record(topic_partition, key, value, headers)  # type: ignore[misc]
                    except InvalidRecordException as raised:
                        objection = raised
                    if objection is not None:
                        yield Objection(index, _text_of(objection), current)
                        break
                else:
                    if last is not None:
                        current = last.name
                        returned = validate(topic, proxy)
                        if returned is not None:
                            raise returned_error(returned, InvalidRecordException)
            except InvalidRecordException as raised:
                yield Objection(index, raised.message, current)
            except (KeyboardInterrupt, GeneratorExit):
                raise
            except BaseException as error:
                yield Objection(index, None, current, failure(current, error))

    def _of_validation(self, topic: TopicMetadata, records: RecordColumns) -> Iterator[Objection]:
        """Judge by KIP-940 alone: the hot loop."""
        policy: Any = self._validation
        name, validate = policy.name, policy.validate
        for index, proxy in enumerate(as_proxies(records, self._hints)):
            try:
                returned = validate(topic, proxy)
                if returned is not None:
                    raise returned_error(returned, InvalidRecordException)
            except InvalidRecordException as raised:
                yield Objection(index, raised.message, name)
            except KeyboardInterrupt:
                raise
            except BaseException as error:
                yield Objection(index, None, name, failure(name, error))


class _ByBatch:
    """One policy that judges columns: a validator, or the validation policy with its hints."""

    def __init__(self, policy: RecordPolicy) -> None:
        self._policy = policy
        self._name = policy.name
        self._validate_batch: Any = policy.validate_batch
        self._hints = policy.hints

    def objections(
        self,
        destination: Destination,
        records: RecordColumns,
        *,
        each: bool,
        batch: PolicyBatch | None = None,
    ) -> list[Objection]:
        """Return the objections of the policy.

        A failure belongs to the batch, at its first position. If records are judged
        separately, the policy gets halves of the batch, until the records are found that it
        fails on.
        """
        try:
            if self._hints is None:
                answer = self._validate_batch(destination.topic_partition, PolicyBatch(records))
            else:
                answer = self._validate_batch(
                    self._policy.topic(destination), batch or PolicyBatch(records, self._hints)
                )
            messages = read_objections(answer, records.count)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            if records.count == 1 or not (each and _is_about_records(error)):
                return [Objection(0, None, self._name, failure(self._name, error))]
        else:
            return [
                Objection(position, messages[position], self._name) for position in sorted(messages)
            ]
        some: list[Objection] = []
        for start, half in halves(records):
            for objection in self.objections(destination, half, each=True):
                some.append(objection._replace(position=start + objection.position))
                if _is_postponed(objection):
                    return some
        return some


class _PreparingPolicy:
    """A validation policy, which prepares once for some records before it judges them."""

    def __init__(self, policy: RecordPolicy, stage: Stage) -> None:
        self._policy = policy
        self._name = policy.name
        self._prepare: Any = policy.prepare_batch
        self._hints = policy.hints or RecordIntrospectionHints()
        self._stage = stage

    def objections(
        self,
        destination: Destination,
        records: RecordColumns,
        *,
        each: bool,
        batch: PolicyBatch | None = None,
    ) -> Iterable[Objection]:
        """Return the policy's objections; if it cannot prepare for the records, that failure."""
        batch = batch or PolicyBatch(records, self._hints)
        try:
            self._prepare(self._policy.topic(destination), batch)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            verdict = failure(self._name, error)
            count = records.count if each and _is_about_records(error) else 1
            return [Objection(index, None, self._name, verdict) for index in range(count)]
        return self._stage.objections(destination, records, each=each, batch=batch)


class _Whole:
    """A policy over batches (KIP-686)."""

    def __init__(self, policy: BatchPolicy) -> None:
        self._policy = policy

    def objections(
        self,
        destination: Destination,
        records: RecordColumns,
        *,
        each: bool,
        batch: PolicyBatch | None = None,  # noqa: ARG002 - views are made of the records
    ) -> list[Objection]:
        """Return its verdict about a batch: at the first position, if records are not separate."""
        if each:
            return self.each(destination, records, 1)
        verdict = self._policy.judge(*destination.topic_partition, records)
        return [] if verdict is None else [Objection(0, None, self._policy.name, verdict)]

    def each(self, destination: Destination, records: RecordColumns, size: int) -> list[Objection]:
        """Return its verdicts about records that are not a batch; see `BatchPolicy.judge_each`."""
        verdicts = self._policy.judge_each(destination.topic_partition, records, size)
        return [Objection(index, None, self._policy.name, verdict) for index, verdict in verdicts]


def _apart(policy: Policy) -> Stage:
    """Return the stage of a policy that judges separately."""
    if isinstance(policy, BatchPolicy):
        return _Whole(policy)
    stage: Stage = _ByBatch(policy) if policy.validate_batch else _ByRecord((), policy)
    return _PreparingPolicy(policy, stage) if policy.prepare_batch else stage


def failure(name: str, error: BaseException) -> PolicyVerdict:
    """Return the verdict for an exception of a policy that is not a refusal."""
    if isinstance(error, RetriableException):
        return postponed(name, error)
    detail = frames_of(error)
    for other, right in _OTHERS:
        if isinstance(error, other):
            detail = f"this interface refuses with {right.__name__}; {detail}"
    return failed(name, f"failed: {type(error).__name__}", detail=detail, cause=cause_of(error))


def _until_end(objections: Iterable[Objection], *, each: bool) -> Iterator[Objection]:
    for objection in objections:
        yield objection
        if objection.failure is not None and (not each or _is_postponed(objection)):
            return


def _is_postponed(objection: Objection) -> bool:
    return (
        objection.failure is not None
        and objection.failure.outcome is Outcome.POSTPONED
        and objection.failure.cause is not FailureCause.UNDECIDABLE
    )


def _is_about_records(error: BaseException) -> bool:
    """Return whether an exception may be about some records of many: no moment is to blame."""
    return not isinstance(error, RetriableException) or isinstance(error, UndecidableException)


def _text_of(objection: object) -> str | None:
    if isinstance(objection, RetriableException):
        raise objection
    if isinstance(objection, InvalidRecordException):
        return objection.message
    raise AnswerError(
        f"validate_record() returned {type(objection).__name__}; "
        "it must return None, an InvalidRecordException or a RetriableException"
    )
