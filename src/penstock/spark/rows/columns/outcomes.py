"""What a condition can come to for rows whose columns are known.

A condition may read a column that is not there, and be true nevertheless: CEL leaves out an error
beside `true ||` and `false &&`, and the other branch of `? :`. Nothing is ruled out that may be.
"""

from __future__ import annotations

from enum import Flag, auto
from typing import TYPE_CHECKING, Any, Final, Protocol

from penstock.policies.rules.paths import path_of
from penstock.policies.schema_policy.rules.checked import Call, Collection, Constant, Loop, Part

if TYPE_CHECKING:
    from penstock.policies.schema_policy.rules.checked import Tree

VALUE: Final = "value"
"""The variable that is the row."""
EQUALS, DIFFERS, IN = "_==_", "_!=_", "@in"


class Outcomes(Flag):
    """The results that an expression may have; none if it always ends with an error."""

    NONE = 0
    TRUE = auto()
    FALSE = auto()
    OTHER = auto()
    ANY = TRUE | FALSE | OTHER


_BOOLEAN: Final = Outcomes.TRUE | Outcomes.FALSE
_OF_MISFITS: Final = {
    EQUALS: Outcomes.FALSE, IN: Outcomes.FALSE, DIFFERS: Outcomes.TRUE,
}  # fmt: skip
"""Where values of two types are no error, but different."""


class ValueParts(Protocol):
    """Facts about the values."""

    def is_missing(self, path: tuple[str, ...]) -> bool:
        """Return whether no value has the part with a path."""

    def is_misfit(self, call: Call) -> bool:
        """Return whether a call has arguments of types that do not fit each other."""


def outcomes_of(tree: Tree, parts: ValueParts) -> Outcomes:
    """Return what an expression may come to."""
    path = path_of(tree, VALUE)
    if path is not None:
        is_tested = isinstance(tree, Part) and tree.is_tested
        return _of_part(path, parts, is_tested=is_tested)
    if isinstance(tree, Constant):
        constant: Any = tree.value
        if not isinstance(constant, bool):
            return Outcomes.OTHER
        return Outcomes.TRUE if constant else Outcomes.FALSE
    if isinstance(tree, Call):
        return _of_call(tree, parts)
    if isinstance(tree, Collection):
        is_made = all(outcomes_of(part, parts) for part in tree.parts)
        return Outcomes.OTHER if is_made else Outcomes.NONE
    if isinstance(tree, (Loop, Part)):
        # In the step of a loop, a name may have another meaning; of no items, there is no step.
        whole = tree.collection if isinstance(tree, Loop) else tree.whole
        return Outcomes.ANY if outcomes_of(whole, parts) else Outcomes.NONE
    return Outcomes.ANY


def _of_part(path: tuple[str, ...], parts: ValueParts, *, is_tested: bool) -> Outcomes:
    if not parts.is_missing(path):
        return _BOOLEAN if is_tested else Outcomes.ANY
    if not is_tested or parts.is_missing(path[:-1]):
        return Outcomes.NONE
    return Outcomes.FALSE


def _of_call(call: Call, parts: ValueParts) -> Outcomes:
    results = [outcomes_of(argument, parts) for argument in call.arguments]
    match call.function, results:
        case "_&&_", [first, second]:
            return (first & second & Outcomes.TRUE) | ((first | second) & Outcomes.FALSE)
        case "_||_", [first, second]:
            return (first & second & Outcomes.FALSE) | ((first | second) & Outcomes.TRUE)
        case "!_", [only]:
            return _inverted(only)
        case "_?_:_", [condition, yes, no]:
            return _chosen(condition, Outcomes.TRUE, yes) | _chosen(condition, Outcomes.FALSE, no)
    if not all(results):
        return Outcomes.NONE
    if parts.is_misfit(call):
        return _OF_MISFITS.get(call.function, Outcomes.NONE)
    return Outcomes.ANY


def _inverted(outcomes: Outcomes) -> Outcomes:
    inverted = Outcomes.NONE
    if Outcomes.TRUE in outcomes:
        inverted |= Outcomes.FALSE
    if Outcomes.FALSE in outcomes:
        inverted |= Outcomes.TRUE
    return inverted


def _chosen(condition: Outcomes, if_it: Outcomes, branch: Outcomes) -> Outcomes:
    return branch if if_it in condition else Outcomes.NONE
