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
from penstock.policy import ProduceRequestInterceptorSkipRecordException

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Sequence

    from penstock.engine.views import Records

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
    new_keys: list[bytes | None] = []
    new_values: list[bytes | None] = []
    verdicts: list[tuple[int, Verdict]] = []
    headers_of_all = list(of.headers)
    rows = zip(of.keys, of.values, headers_of_all, strict=False)
    for index, (original_key, original_value, headers) in enumerate(rows):
        key, value = original_key, original_value
        current = interceptors[0]
        try:
            for current in interceptors:
                key, value = _checked(current.process(key, value, topic, partition, headers))
        except ProduceRequestInterceptorSkipRecordException:
            key = value = None
            verdicts.append((index, dropped(current.name)))
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            key = value = None
            verdicts.append((index, failure(current.name, current.failed_code, error)))
            if until_failure:
                break
        new_keys.append(key)
        new_values.append(value)
    columns = Columns(of.count, list(of.timestamps), new_keys, new_values, headers_of_all)
    return columns, verdicts, (new_keys, new_values)


def _checked(result: Any) -> tuple[bytes | None, bytes | None]:
    """Give key and value of a result, or say what is wrong with it."""
    if result is None:
        raise TypeError("process_record() returned None")
    key, value = result.key, result.value
    for field in (key, value):
        if field is not None and type(field) is not bytes:
            raise TypeError("a result's key and value are bytes or None")
    return key, value


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
