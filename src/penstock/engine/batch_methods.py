"""Which of a policy's methods is called: for a record, or for a batch.

A method that has a parameter `context` is given the client that sent the records.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from penstock.policy import (
    BrokerRecordValidator,
    BrokerRecordValidatorWithContext,
    ProduceRequestInterceptor,
    ProduceRequestInterceptorWithContext,
    RecordValidationPolicy,
    RecordValidationPolicyWithContext,
)

if TYPE_CHECKING:
    from collections.abc import Callable


class Methods(NamedTuple):
    """The two methods of an interface that judge records.

    Attributes:
        interfaces: The classes that declare both, and implement neither: without and with context.
        by_record: The name of the method for a record.
        by_batch: The name of the method for a batch.
        record_arguments: How many arguments the first is called with, without a context.
        batch_arguments: How many arguments the second is called with, without a context.
    """

    interfaces: tuple[type, ...]
    by_record: str
    by_batch: str
    record_arguments: int
    batch_arguments: int


OF_VALIDATORS: Final = Methods(
    (BrokerRecordValidator, BrokerRecordValidatorWithContext),
    "validate_record", "validate_batch", 4, 2,
)  # fmt: skip
OF_VALIDATION_POLICIES: Final = Methods(
    (RecordValidationPolicy, RecordValidationPolicyWithContext),
    "validate", "validate_batch", 2, 2,
)  # fmt: skip
OF_INTERCEPTORS: Final = Methods(
    (ProduceRequestInterceptor, ProduceRequestInterceptorWithContext),
    "process_record", "process_batch", 5, 3,
)  # fmt: skip
CONTEXT: Final = "context"
"""The name of the parameter for the client."""


class Callables(NamedTuple):
    """The methods of an instance; at least one of them is not None.

    Attributes:
        by_record: Called with a record.
        by_batch: Called with a batch instead of `by_record`.
    """

    by_record: Callable[..., Any] | None
    by_batch: Callable[..., Any] | None


def callables(instance: Any, methods: Methods) -> Callables:
    """Find an instance's methods.

    A method for batches that was inherited does not speak for a class that overrides the method
    for records: what that class adds would never be called.

    Raises:
        TypeError: There is no method, or the method for batches has a wrong signature; the
            text gives the reason.
    """
    by_record = getattr(instance, methods.by_record, None)
    by_batch = getattr(instance, methods.by_batch, None)
    record_depth = _depth(instance, methods.by_record, methods.interfaces)
    batch_depth = _depth(instance, methods.by_batch, methods.interfaces)
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
    elif record_depth is not None and not takes_context(by_record):
        check_arguments(by_record, getattr(methods.interfaces[0], methods.by_record))
    if takes_context(by_record):
        check_context(by_record, methods.by_record, methods.record_arguments)
    return Callables(by_record, by_batch)


def takes_context(method: Any) -> bool:
    """Return whether a method has a parameter for the client that sent the records."""
    try:
        parameter = inspect.signature(method).parameters.get(CONTEXT)
    except (TypeError, ValueError):  # no function, or a C function without a signature
        return False
    return parameter is not None and parameter.kind not in {
        parameter.VAR_POSITIONAL,
        parameter.VAR_KEYWORD,
    }


def check_context(method: Any, name: str, count: int) -> None:
    """Check that a method that takes a context accepts a context.

    Args:
        name: Its name, for the text.
        count: How many other arguments it is called with.

    Raises:
        TypeError: It cannot.
    """
    try:
        # A decorator is called instead of the method whose parameters it shows.
        for is_inner in (True, False):
            signature = inspect.signature(method, follow_wrapped=is_inner)
            signature.bind(*[None] * count, **{CONTEXT: None})
    except TypeError:
        raise TypeError(
            f"{name}() must take {count} arguments besides self, and then {CONTEXT}, by its name"
        ) from None


def overrides(instance: Any, name: str, interfaces: tuple[type, ...]) -> Callable[..., Any] | None:
    """Return a method that an instance has, unless it is of an interface, which does nothing.

    Raises:
        TypeError: It would not run when it is called.
    """
    method = getattr(instance, name, None)
    if not callable(method) or _depth(instance, name, interfaces) is None:
        return None
    if inspect.iscoroutinefunction(method) or inspect.isasyncgenfunction(method):
        raise TypeError(f"{name}() must not be async: a call would not run it")
    if inspect.isgeneratorfunction(method):
        raise TypeError(f"{name}() must not yield: a call would not run it")
    return method  # type: ignore[no-any-return]


def _depth(instance: Any, name: str, interfaces: tuple[type, ...]) -> int | None:
    """Return how far from the instance a method is defined; None if only in an interface."""
    if name in getattr(instance, "__dict__", ()):
        return 0
    for depth, cls in enumerate(type(instance).__mro__, 1):
        if name in vars(cls):
            return None if cls in interfaces else depth
    return None


def _check(by_batch: Callable[..., Any], methods: Methods) -> None:
    name, count = methods.by_batch, methods.batch_arguments
    if inspect.iscoroutinefunction(by_batch) or inspect.isasyncgenfunction(by_batch):
        raise TypeError(f"{name}() must not be async: a call would not run it")
    if takes_context(by_batch):
        check_context(by_batch, name, count)
        return
    check_arguments(by_batch, getattr(methods.interfaces[0], name))


def check_arguments(method: Callable[..., Any], declared: Callable[..., Any]) -> None:
    """Check that a method can be called as that of its interface, without a context.

    Args:
        method: The method, bound to its instance.
        declared: The interface's own function.

    Raises:
        TypeError: It cannot; the text has the arguments.
    """
    _, *names = inspect.signature(declared).parameters
    try:
        inspect.signature(method).bind(*names)
    except TypeError:
        raise TypeError(
            f"{declared.__name__}() must take {len(names)} arguments besides self: "
            f"{', '.join(names)}"
        ) from None
    except ValueError:
        pass  # a method in C may have no signature
