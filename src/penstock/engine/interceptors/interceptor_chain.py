"""KIP-905: records mapped, dropped or observed by a chain of interceptors.

Each gets the key and value of its predecessor, and the original headers. Dropping a record
ends the chain for it; any other exception, and a result of another type, is a
failure of the record.
"""

from __future__ import annotations

from itertools import chain
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.engine.answers import AnswerError, read_results
from penstock.engine.columns import Columns, halves
from penstock.engine.interceptors.policy_batch import PolicyBatch
from penstock.engine.plans.loading import frames_of
from penstock.engine.verdict import (
    UNDECIDED,
    FailureCause,
    Outcome,
    PolicyVerdict,
    bounded,
    cause_of,
    dropped,
    postponed,
)
from penstock.policy import (
    ProduceRequestInterceptorResult,
    ProduceRequestInterceptorSkipRecordException,
    RetriableException,
)

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Mapping, Sequence

    from penstock.engine.columns import Headers, RecordColumns

FAILED_MESSAGE = (
    "The registered produce request interceptors were unable to successfully process the request"
)

_SKIP = ProduceRequestInterceptorSkipRecordException()
_DROPS = "it dropped a record, and says by drops_records that it never does"


class Interceptor(NamedTuple):
    """A configured interceptor.

    Attributes:
        name: Its class, as the configuration names it.
        pattern: Found anywhere in the names of the topics it is for.
        process: Its `process_record`; None where it has only the other.
        failed_code: The error code for records on which it fails.
        process_batch: The method that is called instead of it, or None.
        prepare_batch: Called before either, once for several records; or None.
        drops_records: Whether it may drop records.
        reads_timestamps: Whether it may look at the timestamps of records that it gets together.
    """

    name: str
    pattern: re.Pattern[str]
    process: Callable[..., Any] | None
    failed_code: int
    process_batch: Callable[..., Any] | None = None
    prepare_batch: Callable[..., Any] | None = None
    drops_records: bool = True
    reads_timestamps: bool = True

    @property
    def skipped(self) -> PolicyVerdict:
        """The verdict about a record for which it raises the skip exception."""
        if self.drops_records:
            return dropped(self.name)
        return failure(self.name, self.failed_code, TypeError(_DROPS))

    @property
    def is_apart(self) -> bool:
        """Whether it is given records together, and so is a stage by itself."""
        return self.process_batch is not None or self.prepare_batch is not None

    def by_record(self) -> Interceptor:
        """Return the same interceptor, working record by record if it can."""
        return self if self.process is None else self._replace(process_batch=None)


class InterceptedRecords(NamedTuple):
    """The results of a chain for some records.

    Attributes:
        keys: By position; None for those that were dropped or failed on.
        values: By position; None for those that were dropped or failed on.
        verdicts: Position and verdict of the records that were dropped or failed on.
        has_changes: Whether any other record has another key or value than before.
    """

    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]
    verdicts: list[tuple[int, PolicyVerdict]]
    has_changes: bool

    def records(self, records: RecordColumns) -> Columns:
        """Return the records with what became of key and value."""
        return Columns(
            records.count, list(records.timestamps), self.keys, self.values, list(records.headers)
        )


def intercept(
    interceptors: Sequence[Interceptor],
    topic: str,
    partition: int,
    records: RecordColumns,
    *,
    until_failure: bool = False,
) -> InterceptedRecords:
    """Run a chain over records.

    Interceptors that work record by record and are next to each other are one stage: each
    record goes through all of them. One that works on columns, or prepares for them, is a stage
    by itself, and gets the records that no stage before it dropped or failed on.

    Args:
        interceptors: Those for the topic, in order.
        topic: The topic's name.
        partition: The partition's number.
        until_failure: Whether the first failure ends it, since nothing of the batch will be
            stored; the failure is the last verdict then, and the columns are not complete.
            That an interceptor cannot decide now (`RetriableException`) ends it either way.
    """
    if not records.count:
        return InterceptedRecords((), (), [], has_changes=False)
    stages = _stages(interceptors)
    if len(stages) == 1:
        return _run(stages[0], topic, partition, records, until_failure=until_failure)
    rest = records
    positions: Sequence[int] = range(records.count)
    verdicts: list[tuple[int, PolicyVerdict]] = []
    has_changes = False
    for stage in stages:
        if not rest.count:
            break
        interception = _run(stage, topic, partition, rest, until_failure=until_failure)
        if interception.verdicts and interception.verdicts[-1][1].outcome is Outcome.POSTPONED:
            return interception
        if interception.has_changes:
            rest, has_changes = interception.records(rest), True
        if interception.verdicts:
            verdicts += ((positions[index], verdict) for index, verdict in interception.verdicts)
            indexes = _kept(rest.count, interception.verdicts, until_failure=until_failure)
            rest = rest.pick(indexes)
            positions = [positions[index] for index in indexes]
    verdicts.sort(key=itemgetter(0))
    failures = (n for n, (_, verdict) in enumerate(verdicts, 1) if verdict.outcome in UNDECIDED)
    end = next(failures, None) if until_failure else None
    keys: list[bytes | None] = [None] * records.count
    values: list[bytes | None] = [None] * records.count
    for position, key, value in zip(positions, rest.keys, rest.values, strict=False):
        keys[position], values[position] = key, value
    return InterceptedRecords(
        keys, values, verdicts[:end], has_changes and _differ(records, positions, rest)
    )


def _stages(interceptors: Sequence[Interceptor]) -> list[list[Interceptor]]:
    stages: list[list[Interceptor]] = []
    for interceptor in interceptors:
        if stages and not interceptor.is_apart and not stages[-1][0].is_apart:
            stages[-1].append(interceptor)
        else:
            stages.append([interceptor])
    return stages


def _run(
    stage: Sequence[Interceptor],
    topic: str,
    partition: int,
    records: RecordColumns,
    *,
    until_failure: bool,
) -> InterceptedRecords:
    unprepared = _prepare(stage[0], topic, partition, records, until_failure=until_failure)
    if unprepared:
        nothing = (None,) * len(unprepared)
        return InterceptedRecords(nothing, nothing, unprepared, has_changes=False)
    if stage[0].process_batch:
        return _by_batch(stage[0], topic, partition, records, until_failure=until_failure)
    return _by_record(stage, topic, partition, records, until_failure=until_failure)


def _prepare(
    interceptor: Interceptor,
    topic: str,
    partition: int,
    records: RecordColumns,
    *,
    until_failure: bool,
) -> list[tuple[int, PolicyVerdict]]:
    """Prepare an interceptor for records; return verdicts if that fails."""
    if interceptor.prepare_batch is None:
        return []
    prepare: Any = interceptor.prepare_batch
    try:
        prepare(topic, partition, PolicyBatch(records))
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        verdict = failure(interceptor.name, interceptor.failed_code, error)
        is_one = until_failure or isinstance(error, RetriableException)
        return [(index, verdict) for index in range(1 if is_one else records.count)]
    return []


def _kept(
    count: int, verdicts: Sequence[tuple[int, PolicyVerdict]], *, until_failure: bool
) -> Sequence[int]:
    """Return the positions for the next stage; with `until_failure`, those before a failure."""
    decided_indexes = {index for index, _ in verdicts}
    if until_failure and verdicts[-1][1].outcome in UNDECIDED:
        count = verdicts[-1][0]
    return [index for index in range(count) if index not in decided_indexes]


def _differ(records: RecordColumns, positions: Sequence[int], rest: RecordColumns) -> bool:
    """Return whether any remaining record has changed."""
    originals = records.pick(positions)
    pairs = chain(
        zip(originals.values, rest.values, strict=False),
        zip(originals.keys, rest.keys, strict=False),
    )
    return any(old is not new and old != new for old, new in pairs)


def _by_record(
    interceptors: Sequence[Interceptor],
    topic: str,
    partition: int,
    records: RecordColumns,
    *,
    until_failure: bool,
) -> InterceptedRecords:
    keys: list[bytes | None] = []
    values: list[bytes | None] = []
    verdicts: list[tuple[int, PolicyVerdict]] = []
    has_changes = False
    several = _InterceptorGroup(interceptors)
    process: Any = several.process if len(interceptors) > 1 else interceptors[0].process
    add_key, add_value = keys.append, values.append
    skipped = {interceptor.name: interceptor.skipped for interceptor in interceptors}
    for original_key, original_value, headers in zip(
        records.keys, records.values, records.headers, strict=False
    ):
        try:
            result = process(original_key, original_value, topic, partition, headers)
            if type(result) is not ProduceRequestInterceptorResult:
                result = _result(result)
            key, value = result
            if value is not original_value or key is not original_key:
                _check(key, value)
                has_changes = has_changes or value != original_value or key != original_key
        except ProduceRequestInterceptorSkipRecordException:
            key = value = None
            verdicts.append((len(keys), skipped[several.current.name]))
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            key = value = None
            blamed = several.current
            verdicts.append((len(keys), failure(blamed.name, blamed.failed_code, error)))
            if until_failure or isinstance(error, RetriableException):
                break
        add_key(key)
        add_value(value)
    return InterceptedRecords(keys, values, verdicts, has_changes)


class _InterceptorGroup:
    """Several interceptors as one; `current` is the interceptor that runs, or ran last."""

    def __init__(self, interceptors: Sequence[Interceptor]) -> None:
        self._interceptors = interceptors
        self.current = interceptors[0]

    def process(
        self,
        key: bytes | None,
        value: bytes | None,
        topic: str,
        partition: int,
        headers: Headers,
    ) -> ProduceRequestInterceptorResult:
        for interceptor in self._interceptors:
            self.current = interceptor
            process: Any = interceptor.process
            key, value = _result(process(key, value, topic, partition, headers))
            _check(key, value)
        return ProduceRequestInterceptorResult(key, value)


def _by_batch(
    interceptor: Interceptor,
    topic: str,
    partition: int,
    records: RecordColumns,
    *,
    until_failure: bool,
) -> InterceptedRecords:
    """Run one interceptor over columns.

    A failure of the batch stands at its first position. Where each record counts for itself, the
    interceptor is given halves again, until the records are found that it fails on.
    """
    process: Any = interceptor.process_batch
    try:
        results = read_results(process(topic, partition, PolicyBatch(records)), records.count)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        if until_failure or records.count == 1 or isinstance(error, RetriableException):
            failed = failure(interceptor.name, interceptor.failed_code, error)
            return InterceptedRecords((None,), (None,), [(0, failed)], has_changes=False)
    else:
        return _applied(interceptor, records, results, until_failure=until_failure)
    (_, first), (middle, second) = halves(records)
    first_result = _by_batch(interceptor, topic, partition, first, until_failure=False)
    if first_result.verdicts and first_result.verdicts[-1][1].outcome is Outcome.POSTPONED:
        return first_result
    second_result = _by_batch(interceptor, topic, partition, second, until_failure=False)
    return InterceptedRecords(
        (*first_result.keys, *second_result.keys),
        (*first_result.values, *second_result.values),
        first_result.verdicts
        + [(middle + index, verdict) for index, verdict in second_result.verdicts],
        first_result.has_changes or second_result.has_changes,
    )


def _applied(
    interceptor: Interceptor,
    records: RecordColumns,
    results: Mapping[int, Any],
    *,
    until_failure: bool,
) -> InterceptedRecords:
    """Return the records with the results of `process_batch`."""
    if not results:
        keys, values = _unchanged(records.keys), _unchanged(records.values)
        return InterceptedRecords(keys, values, [], has_changes=False)
    new_keys, new_values = list(records.keys), list(records.values)
    verdicts: list[tuple[int, PolicyVerdict]] = []
    skipped = interceptor.skipped
    has_changes = False
    for position in sorted(results):
        result = _made_of(results[position])
        if not isinstance(result, BaseException):
            key, value = result
            has_changes = has_changes or value != new_values[position] or key != new_keys[position]
            new_keys[position], new_values[position] = key, value
            continue
        skips = isinstance(result, ProduceRequestInterceptorSkipRecordException)
        verdicts.append(
            (
                position,
                skipped if skips else failure(interceptor.name, interceptor.failed_code, result),
            )
        )
        new_keys[position] = new_values[position] = None
        if (until_failure and not skips) or isinstance(result, RetriableException):
            break
    return InterceptedRecords(new_keys, new_values, verdicts, has_changes)


def _made_of(result: Any) -> tuple[bytes | None, bytes | None] | BaseException:
    """Return key and value of a result of `process_batch`, or an error message."""
    if isinstance(result, BaseException):
        return result
    if isinstance(result, type) and issubclass(
        result, ProduceRequestInterceptorSkipRecordException
    ):
        return _SKIP  # `raise` takes a class, too
    try:
        key, value = _result(result)
        _check(key, value)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return error
    return key, value


def _unchanged(column: Any) -> Sequence[bytes | None]:
    """Return an unchanged column as it is, if it can be indexed."""
    same: Sequence[bytes | None] = column if hasattr(column, "__getitem__") else tuple(column)
    return same


def _result(result: Any) -> tuple[Any, Any]:
    """Return key and value of a result, which may be of a class of the policy's own."""
    try:
        return result.key, result.value
    except AttributeError:
        raise AnswerError(
            f"the result for a record is {type(result).__name__}; it must be a "
            "ProduceRequestInterceptorResult"
        ) from None


def _check(key: Any, value: Any) -> None:
    if (type(value) is not bytes and value is not None) or (
        type(key) is not bytes and key is not None
    ):
        raise AnswerError(
            f"a result has key {type(key).__name__} and value {type(value).__name__}; each must be "
            "bytes or None"
        )


def failure(name: str, code: int, error: BaseException) -> PolicyVerdict:
    """Return the verdict after an interceptor raised anything but a skip."""
    if isinstance(error, RetriableException):
        return postponed(name, error)
    why = type(error).__name__
    return unable(name, code, why, cause=cause_of(error), detail=frames_of(error))


def unable(
    name: str, code: int, why: str, *, cause: FailureCause, detail: str = ""
) -> PolicyVerdict:
    """Return the verdict where interceptors have no result."""
    return PolicyVerdict(
        outcome=Outcome.FAILED,
        code=code,
        message=bounded(f"{FAILED_MESSAGE}: {why}"),
        policy=name,
        detail=detail,
        cause=cause,
    )
