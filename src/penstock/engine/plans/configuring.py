"""Configures an instance of a policy, and reads its hints: how much of a record it looks at."""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING, Any, Final

from penstock.configuration import ConfigurationError
from penstock.configuration.interfaces import INTERCEPTORS, RECORDS, VALIDATION, VALIDATORS
from penstock.engine.batch_methods import (
    OF_INTERCEPTORS,
    OF_VALIDATION_POLICIES,
    OF_VALIDATORS,
    overrides,
)
from penstock.engine.not_now import unusable_by
from penstock.engine.plans.loading import describe
from penstock.policy import RecordIntrospectionHints, RecordsPolicy, RecordsPolicyWithContext

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.engine.plans.configured_policy import ConfiguredPolicy

_INTERFACES: Final = {
    RECORDS: (RecordsPolicy, RecordsPolicyWithContext),
    VALIDATORS: OF_VALIDATORS.interfaces,
    VALIDATION: OF_VALIDATION_POLICIES.interfaces,
    INTERCEPTORS: OF_INTERCEPTORS.interfaces,
}
_BUILT_IN: Final = "penstock.policies."
_OF_KEYS: Final = re.compile(r"[\w.-]")
"""Characters that cannot follow a complete key."""


def configure(instance: Any, definition: ConfiguredPolicy) -> None:
    """Configure an instance, as its interface has it.

    KIP-729 has no `configure()`, and that of KIP-905 takes no arguments. That of a named policy
    gets its configs with any interface, if it takes an argument.

    Raises:
        ConfigurationError: It fails, or cannot take the keys that are set for it.
    """
    method = getattr(instance, "configure", None)
    if not has_life_cycle(definition):
        return
    is_given = definition.interface not in {INTERCEPTORS, VALIDATORS}
    if definition.is_named:
        is_given = is_given or (callable(method) and _takes_configs(method))
        _check_keys_are_read(instance, definition, is_given=is_given)
    if not callable(method):
        return
    try:
        method(*((definition.configs,) if is_given else ()))
    except (Exception, SystemExit) as error:
        raise unusable_by(error, _problem(definition, error)) from None


def _problem(definition: ConfiguredPolicy, error: BaseException) -> str:
    """Return the problem; a built-in policy explains it for the reader of the file."""
    if type(error) is not ValueError or not definition.class_name.startswith(_BUILT_IN):
        return f"{definition.where}: configure() failed: {describe(error)}"
    text = str(error)
    begins_with_own_key = any(
        text.startswith(key) and not _OF_KEYS.match(text, len(key)) for key in definition.own
    )
    return (
        f"{definition.file}: {definition.own_prefix}{text}"
        if begins_with_own_key
        else f"{definition.where}: {text}"
    )


def has_life_cycle(definition: ConfiguredPolicy) -> bool:
    """Return whether `configure()` and `close()` are called: KIP-729 has neither."""
    return definition.is_named or definition.interface != VALIDATORS


def _takes_configs(method: Callable[..., Any]) -> bool:
    try:
        inspect.signature(method).bind(None)
    except TypeError:
        return False
    except ValueError:  # a method in C may have no signature
        return True
    return True


def _check_keys_are_read(instance: Any, definition: ConfiguredPolicy, *, is_given: bool) -> None:
    """Raise ConfigurationError if keys are set for a policy that would never read them."""
    if not definition.own:
        return
    try:
        if is_given and overrides(instance, "configure", _INTERFACES[definition.interface]):
            return
    except TypeError as error:
        raise ConfigurationError(f"{definition.where}: {error}") from None
    keys = ", ".join(f"{definition.own_prefix}{key}" for key in definition.own)
    raise ConfigurationError(
        f"{definition.where}: {keys} cannot be passed to it: it has no configure(configs)"
    )


def hints_of(instance: Any, definition: ConfiguredPolicy) -> RecordIntrospectionHints:
    """Read the hints of a policy of KIP-940, once, after `configure()`."""
    where = f"{definition.where}: get_hints()"
    get_hints = getattr(instance, "get_hints", None)
    if not callable(get_hints):
        return RecordIntrospectionHints()
    try:
        returned_hints = get_hints()
        if not hasattr(returned_hints, "access_headers"):
            raise TypeError(
                f"it must return RecordIntrospectionHints, not {type(returned_hints).__name__}"
            )
        hints = RecordIntrospectionHints(
            bool(returned_hints.access_headers),
            int(returned_hints.access_key_bytes),
            int(returned_hints.access_value_bytes),
        )
    except (Exception, SystemExit) as error:
        raise unusable_by(error, f"{where} failed: {describe(error)}") from None
    if hints.access_key_bytes < 0 or hints.access_value_bytes < 0:
        raise ConfigurationError(f"{where}: bytes must be 0 or more, or ALL: {hints}")
    return hints
