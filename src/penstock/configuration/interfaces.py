"""The interfaces of the proposals that judge records, and how to find that of a class.

An interface goes by the key of the file that names its classes.
"""

from __future__ import annotations

import inspect
from typing import Any, Final

from penstock.configuration.topic_keys import RECORDS_POLICY
from penstock.policy import (
    AlterConfigPolicy,
    AlterConfigPolicyWithContext,
    BrokerRecordValidator,
    BrokerRecordValidatorWithContext,
    CreateTopicPolicy,
    CreateTopicPolicyWithContext,
    ProduceRequestInterceptor,
    ProduceRequestInterceptorWithContext,
    RecordsPolicy,
    RecordsPolicyWithContext,
    RecordValidationPolicy,
    RecordValidationPolicyWithContext,
)

INTERCEPTORS: Final = "produce.request.interceptors"
RECORDS: Final = RECORDS_POLICY
VALIDATORS: Final = "record.validator.classes"
VALIDATION: Final = "record.validation.policy.class.name"
CREATE_TOPIC: Final = "create.topic.policy.class.name"
ALTER_CONFIG: Final = "alter.config.policy.class.name"

_CLASSES: Final = {
    ProduceRequestInterceptor: INTERCEPTORS,
    BrokerRecordValidator: VALIDATORS,
    RecordsPolicy: RECORDS,
    RecordValidationPolicy: VALIDATION,
}
_ALL_CLASSES: Final = {
    **_CLASSES,
    ProduceRequestInterceptorWithContext: INTERCEPTORS,
    BrokerRecordValidatorWithContext: VALIDATORS,
    RecordsPolicyWithContext: RECORDS,
    RecordValidationPolicyWithContext: VALIDATION,
    CreateTopicPolicy: CREATE_TOPIC,
    CreateTopicPolicyWithContext: CREATE_TOPIC,
    AlterConfigPolicy: ALTER_CONFIG,
    AlterConfigPolicyWithContext: ALTER_CONFIG,
}
_ARGUMENTS: Final = {
    RECORDS: len(("topic", "partition", "records")),
    VALIDATION: len(("topic", "record")),
}
"""The number of arguments of `validate`, by interface: two interfaces have that method."""
_CONTEXT: Final = "context"
_METHODS: Final = {
    "process_record": INTERCEPTORS,
    "process_batch": INTERCEPTORS,
    "validate_record": VALIDATORS,
}
"""The methods that identify an interface."""


def belongs_elsewhere(cls: type, key: str, method: str) -> str | None:
    """Return the key of a class's interface if it is not the interface of a given key.

    A class may derive from one interface and have the method of another as its own.

    Args:
        key: The key that names it.
        method: What classes there must have.
    """
    bases = {base: other for base, other in _ALL_CLASSES.items() if issubclass(cls, base)}
    if not bases or key in bases.values():
        return None
    is_its_own = callable(getattr(cls, method, None))
    if is_its_own and not any(hasattr(base, method) for base in bases):
        return None
    return next(iter(bases.values()))


def interface_of(cls: type) -> str:
    """Return the key of a class's interface, by its base class or by its methods.

    Raises:
        TypeError: It has no interface, or more than one; the text completes "<class> ...".
    """
    bases = [base for base in _CLASSES if issubclass(cls, base)]
    if len(bases) > 1:
        names = " and ".join(base.__name__ for base in bases)
        raise TypeError(f"has more than one interface: {names}; derive from one of them")
    if bases:
        return _CLASSES[bases[0]]
    if issubclass(cls, (CreateTopicPolicy, AlterConfigPolicy)):
        raise TypeError("judges topics, but no records")
    interfaces = {key for name, key in _METHODS.items() if callable(getattr(cls, name, None))}
    if callable(getattr(cls, "validate", None)):
        interfaces.add(_of_validate(cls))
    if len(interfaces) > 1:
        methods = " and ".join(
            f"{name}()" for name in (*_METHODS, "validate") if callable(getattr(cls, name, None))
        )
        raise TypeError(f"has the methods of more than one interface: {methods}")
    if interfaces:
        return interfaces.pop()
    if callable(getattr(cls, "validate_batch", None)):
        raise TypeError(
            "has only validate_batch(), which two interfaces have: derive "
            "from BrokerRecordValidator or RecordValidationPolicy"
        )
    raise TypeError(
        "has no validate(), validate_record() or process_record(): "
        "see the interfaces of penstock.policy"
    )


def _of_validate(cls: Any) -> str:
    """Return the interface that `validate` belongs to, by its arguments."""
    is_plain = not isinstance(inspect.getattr_static(cls, "validate"), (staticmethod, classmethod))
    fitting = [key for key, count in _ARGUMENTS.items() if _takes(cls.validate, count + is_plain)]
    if len(fitting) != 1:
        what = "can be called as that of either" if fitting else "takes neither the arguments of"
        raise TypeError(
            f"has a validate() that {what} RecordsPolicy (topic, partition, records) or "
            "RecordValidationPolicy (topic, record): derive from the intended class"
        )
    return fitting[0]


def _takes(method: Any, count: int) -> bool:
    """Return whether a method accepts so many arguments, and a context if there is one."""
    try:
        signature = inspect.signature(method)
        keywords = {_CONTEXT: None} if _CONTEXT in signature.parameters else {}
        signature.bind(*[None] * count, **keywords)
    except TypeError:
        return False
    except ValueError:  # a method in C may have no signature
        return True
    return True
