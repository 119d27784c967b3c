"""KIP-905: records mapped, dropped or observed by a chain of interceptors.

Each sees what its predecessor made of key and value, and the original headers. Dropping
ends the chain for a record; anything else that is raised, and a result that is none, is a
failure of the record.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.engine.loading import frames_of
from penstock.engine.verdict import Outcome, Verdict, bounded, dropped
from penstock.engine.views import Columns
from penstock.policy import (
    ProduceRequestInterceptorResult,
    ProduceRequestInterceptorSkipRecordException,
)

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Iterable, Sequence

    from penstock.engine.views import Headers, Records

FAILED_MESSAGE = (
    "The registered produce request interceptors were unable to successfully process the request"
)


_WRONG_TYPE = "a result's key and value are bytes or None"

if TYPE_CHECKING:
    Row = tuple[bytes | None, bytes | None, "Headers"]
    Results = tuple[list[bytes | None], list[bytes | None], list[tuple[int, Verdict]]]


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


def intercept(
    interceptors: Sequence[Interceptor],
    topic: str,
    partition: int,
    of: Records,
    *,
    until_failure: bool = False,
) -> tuple[
    Columns,
    list[tuple[int, Verdict]],
    tuple[Sequence[bytes | None], Sequence[bytes | None]],
]:
    """Run a chain over records.

    Args:
        interceptors: Those for the topic, in order.
        topic: The topic's name.
        partition: The partition's number.
        of: The records.
        until_failure: Whether the first failure ends it, since nothing of the batch will be
            stored; the failure is the last verdict then, and the columns are not complete.

    Returns:
        The records with what became of key and value; position and verdict of those that
        were dropped or failed on; all keys and values.
    """
    headers_of_all = list(of.headers)
    rows = zip(of.keys, of.values, headers_of_all, strict=False)
    if len(interceptors) == 1:
        keys, values, verdicts = _by_one(interceptors[0], topic, partition, rows, until_failure)
    else:
        keys, values, verdicts = _by_chain(interceptors, topic, partition, rows, until_failure)
    return (
        Columns(of.count, list(of.timestamps), keys, values, headers_of_all),
        verdicts,
        (
            keys,
            values,
        ),
    )


def _by_one(
    interceptor: Interceptor, topic: str, partition: int, rows: Iterable[Row], until_failure: bool
) -> Results:
    """Run a single interceptor: the loop that most records go through."""
    keys: list[bytes | None] = []
    values: list[bytes | None] = []
    verdicts: list[tuple[int, Verdict]] = []
    process, add_key, add_value = interceptor.process, keys.append, values.append
    skipped = dropped(interceptor.name)
    for original_key, original_value, headers in rows:
        try:
            result = process(original_key, original_value, topic, partition, headers)
            if type(result) is not ProduceRequestInterceptorResult:
                result = _result(result)
            key, value = result
            if (type(value) is not bytes and value is not None) or (
                type(key) is not bytes and key is not None
            ):
                raise TypeError(_WRONG_TYPE)
        except ProduceRequestInterceptorSkipRecordException:
            key = value = None
            verdicts.append((len(keys), skipped))
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            key = value = None
            verdicts.append((len(keys), failure(interceptor.name, interceptor.failed_code, error)))
            if until_failure:
                break
        add_key(key)
        add_value(value)
    return keys, values, verdicts


def _by_chain(
    interceptors: Sequence[Interceptor],
    topic: str,
    partition: int,
    rows: Iterable[Row],
    until_failure: bool,
) -> Results:
    keys: list[bytes | None] = []
    values: list[bytes | None] = []
    verdicts: list[tuple[int, Verdict]] = []
    skipped = {one.name: dropped(one.name) for one in interceptors}
    for original_key, original_value, headers in rows:
        key, value = original_key, original_value
        current = interceptors[0]
        try:
            for current in interceptors:
                key, value = _result(current.process(key, value, topic, partition, headers))
                for field in (key, value):
                    if type(field) is not bytes and field is not None:
                        raise TypeError(_WRONG_TYPE)
        except ProduceRequestInterceptorSkipRecordException:
            key = value = None
            verdicts.append((len(keys), skipped[current.name]))
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            key = value = None
            verdicts.append((len(keys), failure(current.name, current.failed_code, error)))
            if until_failure:
                break
        keys.append(key)
        values.append(value)
    return keys, values, verdicts


def _result(given: Any) -> tuple[Any, Any]:
    """Give key and value of a result, which may be of a class of the policy's own."""
    if given is None:
        raise TypeError("process_record() returned None")
    return given.key, given.value


def failure(name: str, code: int, error: BaseException) -> Verdict:
    """The verdict after an interceptor raised something else than a skip."""
    kind = type(error).__name__
    return unable(name, code, kind, detail=frames_of(error))


def unable(name: str, code: int, why: str, *, detail: str = "") -> Verdict:
    """The verdict where interceptors came to no result."""
    return Verdict(
        outcome=Outcome.FAILED,
        code=code,
        message=bounded(f"{FAILED_MESSAGE}: {why}"),
        policy=name,
        detail=detail,
        error_type=why,
    )
