"""Which of a policy's methods is called: the one for a record, or the one for a batch."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from penstock.policy import (
    BrokerRecordValidator,
    ProduceRequestInterceptor,
    RecordValidationPolicy,
)

if TYPE_CHECKING:
    from collections.abc import Callable


class Methods(NamedTuple):
    """The two methods of an interface that judge records.

    Attributes:
        interface: The class that declares both, and implements neither.
        by_record: The name of the one that is given a record.
        by_batch: The name of the one that is given a batch.
        batch_arguments: How many arguments the second is called with.
    """

    interface: type
    by_record: str
    by_batch: str
    batch_arguments: int


OF_VALIDATORS: Final = Methods(BrokerRecordValidator, "validate_record", "validate_batch", 2)
OF_VALIDATION_POLICIES: Final = Methods(RecordValidationPolicy, "validate", "validate_batch", 2)
OF_INTERCEPTORS: Final = Methods(ProduceRequestInterceptor, "process_record", "process_batch", 3)


class Callables(NamedTuple):
    """The methods of an instance; at least one of them is not None.

    Attributes:
        by_record: Called with a record.
        by_batch: Called with a batch, in place of the first.
    """

    by_record: Callable[..., Any] | None
    by_batch: Callable[..., Any] | None


def callables(instance: Any, methods: Methods) -> Callables:
    """Find an instance's methods.

    A method for batches that was inherited does not speak for a class that overrides the method
    for records: what that class adds would never be called.

    Raises:
        TypeError: There is no method, or the one for batches cannot be called as it will be; the
            text says why.
    """
    by_record = getattr(instance, methods.by_record, None)
    by_batch = getattr(instance, methods.by_batch, None)
    record_depth = _depth(instance, methods.by_record, methods.interface)
    batch_depth = _depth(instance, methods.by_batch, methods.interface)
    if not callable(by_batch) or batch_depth is None:
        by_batch = None
    elif record_depth is None:
        by_record = None
    elif record_depth < batch_depth:
        by_batch = None
    if by_batch is not None:
        _check(by_batch, methods)
    elif not callable(by_record):
        raise TypeError(f"has no method {methods.by_record}() or {methods.by_batch}()")
    return Callables(by_record, by_batch)


def overrides(instance: Any, name: str, interface: type) -> Callable[..., Any] | None:
    """Return a method that an instance has, unless it is that of the interface, which does nothing.

    Raises:
        TypeError: It would not run when it is called.
    """
    found = getattr(instance, name, None)
    if not callable(found) or _depth(instance, name, interface) is None:
        return None
    if inspect.iscoroutinefunction(found) or inspect.isasyncgenfunction(found):
        raise TypeError(f"{name}() must not be async: it is not run when it is called")
    if inspect.isgeneratorfunction(found):
        raise TypeError(f"{name}() must not yield: it is not run when it is called")
    return found  # type: ignore[no-any-return]


def _depth(instance: Any, name: str, interface: type) -> int | None:
    """Return how far from the instance a method is defined; None if only in the interface."""
    if name in getattr(instance, "__dict__", ()):
        return 0
    for depth, cls in enumerate(type(instance).__mro__, 1):
        if name in vars(cls):
            return None if cls is interface else depth
    return None


def _check(by_batch: Callable[..., Any], methods: Methods) -> None:
    name, count = methods.by_batch, methods.batch_arguments
    if inspect.iscoroutinefunction(by_batch) or inspect.isasyncgenfunction(by_batch):
        raise TypeError(f"{name}() must not be async: it is not run when it is called")
    try:
        inspect.signature(by_batch).bind(*[None] * count)
    except TypeError:
        raise TypeError(f"{name}() must take {count} arguments besides self") from None
    except ValueError:
        pass  # a method in C may have no signature
