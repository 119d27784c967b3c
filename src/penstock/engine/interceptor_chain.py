"""KIP-905: records mapped, dropped or observed by a chain of interceptors.

Each sees what its predecessor made of key and value, and the original headers. Dropping
ends the chain for a record; anything else that is raised, and a result that is none, is a
failure of the record.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.engine.columns import Columns
from penstock.engine.loading import frames_of
from penstock.engine.verdict import FailureCause, Outcome, Verdict, bounded, cause_of, dropped
from penstock.policy import (
    ProduceRequestInterceptorResult,
    ProduceRequestInterceptorSkipRecordException,
)

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Sequence

    from penstock.engine.columns import Headers, RecordColumns

FAILED_MESSAGE = (
    "The registered produce request interceptors were unable to successfully process the request"
)


class Interceptor(NamedTuple):
    """A configured interceptor.

    Attributes:
        name: Its class, as the configuration names it.
        pattern: Found anywhere in the names of the topics it is for.
        process: Its `process_record`.
        failed_code: What a record that it fails on is answered with.
    """

    name: str
    pattern: re.Pattern[str]
    process: Callable[..., Any]
    failed_code: int


class InterceptedRecords(NamedTuple):
    """What a chain made of some records.

    Attributes:
        keys: By position; None for those that were dropped or failed on.
        values: By position; None for those that were dropped or failed on.
        verdicts: Position and verdict of the records that were dropped or failed on.
        changed: Whether any other record has another key or value than before.
    """

    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]
    verdicts: list[tuple[int, Verdict]]
    changed: bool

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

    Args:
        interceptors: Those for the topic, in order.
        topic: The topic's name.
        partition: The partition's number.
        records: The records.
        until_failure: Whether the first failure ends it, since nothing of the batch will be
            stored; the failure is the last verdict then, and the columns are not complete.
    """
    keys: list[bytes | None] = []
    values: list[bytes | None] = []
    verdicts: list[tuple[int, Verdict]] = []
    changed = False
    chain = _Chain(interceptors)
    process = chain.process if len(interceptors) > 1 else interceptors[0].process
    add_key, add_value = keys.append, values.append
    skipped = {one.name: dropped(one.name) for one in interceptors}
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
                changed = changed or value != original_value or key != original_key
        except ProduceRequestInterceptorSkipRecordException:
            key = value = None
            verdicts.append((len(keys), skipped[chain.current.name]))
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            key = value = None
            blamed = chain.current
            verdicts.append((len(keys), failure(blamed.name, blamed.failed_code, error)))
            if until_failure:
                break
        add_key(key)
        add_value(value)
    return InterceptedRecords(keys, values, verdicts, changed)


class _Chain:
    """Several interceptors as one; `current` is the one that is at work, or was last."""

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
        for one in self._interceptors:
            self.current = one
            key, value = _result(one.process(key, value, topic, partition, headers))
            _check(key, value)
        return ProduceRequestInterceptorResult(key, value)


def _result(given: Any) -> tuple[Any, Any]:
    """Return key and value of a result, which may be of a class of the policy's own."""
    if given is None:
        raise TypeError("process_record() returned None")
    return given.key, given.value


def _check(key: Any, value: Any) -> None:
    if (type(value) is not bytes and value is not None) or (
        type(key) is not bytes and key is not None
    ):
        raise TypeError("a result's key and value are bytes or None")


def failure(name: str, code: int, error: BaseException) -> Verdict:
    """Return the verdict after an interceptor raised anything but a skip."""
    why = type(error).__name__
    return unable(name, code, why, cause=cause_of(error), detail=frames_of(error))


def unable(name: str, code: int, why: str, *, cause: FailureCause, detail: str = "") -> Verdict:
    """Return the verdict where interceptors have no result."""
    return Verdict(
        outcome=Outcome.FAILED,
        code=code,
        message=bounded(f"{FAILED_MESSAGE}: {why}"),
        policy=name,
        detail=detail,
        cause=cause,
    )
