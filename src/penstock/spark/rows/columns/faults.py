"""What a plan requires of values, and why the rows of a frame can never have it.

The columns of a frame are known before there is a row: what refuses every row is an error then. On
the wire, nothing is known of a value before it comes, so that a plan from a file may have rules
that only make sense for records of a topic: of these, only one that cannot be true for any row is
an error. A policy whose mode is `mark` or `observe` refuses nothing, and may be there to find out
how much it would: its rules are not errors, but warnings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from penstock.engine.all_objections import WARNING_MODES
from penstock.spark.rows.columns.conditions import fault_in
from penstock.spark.rows.columns.fields import (
    BOOLEAN,
    NUMBER,
    TEXT,
    Columns,
    kind_of,
    missing,
    sql_of,
    type_at,
    written,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from penstock.policies.requirements import Requirement

_FAULTS_MOST: Final = 5
_OF_TYPES: Final = {
    "string": TEXT, "number": NUMBER, "integer": NUMBER, "boolean": BOOLEAN,
}  # fmt: skip
_MAY_BE_TEXT: Final = frozenset({"FloatType", "DoubleType"})
"""A number that is none, such as NaN, is a text in JSON."""
_OF_STRUCTS: Final = {
    "StructType": "object", "MapType": "object", "ArrayType": "array",
}  # fmt: skip


class Demand(NamedTuple):
    """What a policy requires of values.

    Attributes:
        requirement: The requirement; its key has all that leads to it, such as the file.
        mode: The policy's mode (`penstock.mode`).
        is_for_rows: Whether it was written for these rows, and not for records of a topic.
    """

    requirement: Requirement
    mode: str
    is_for_rows: bool


class Faults(NamedTuple):
    """Why no row can have what policies ask.

    Attributes:
        errors: Of policies that then refuse each row.
        warnings: Of policies that only warn.
    """

    errors: Sequence[str]
    warnings: Sequence[str]

    @property
    def error(self) -> str | None:
        """The errors in one line; None without any."""
        return _joined(self.errors)

    @property
    def warning(self) -> str | None:
        """The warnings in one line; None without any."""
        return _joined(self.warnings)


def faults_of(demands: Iterable[Demand], fields: Sequence[Any], others: Collection[str]) -> Faults:
    """Return why no row can have what policies ask.

    Args:
        fields: The fields of the frame's schema in Spark.
        others: The names of columns that are not part of the value.
    """
    errors: list[str] = []
    warnings: list[str] = []
    for text, demand in _faulty(demands, Columns.of(fields, others)):
        (warnings if demand.mode in WARNING_MODES else errors).append(text)
    return Faults(errors, warnings)


def _faulty(demands: Iterable[Demand], columns: Columns) -> Iterator[tuple[str, Demand]]:
    for demand in demands:
        requirement = demand.requirement
        if requirement.condition is None:
            text = _fault_of_field(requirement, columns)
        else:
            text = fault_in(requirement.condition, columns, is_for_rows=demand.is_for_rows)
        if text is not None:
            yield f"{requirement.where}{text}", demand


def _fault_of_field(requirement: Requirement, columns: Columns) -> str | None:
    path = requirement.field
    if text := missing(path, columns):
        return f" requires {written(path)}, but {text}"
    kind = type_at(path, columns)
    name = type(kind).__name__
    own_kind = kind_of(kind) or _OF_STRUCTS.get(name)
    kinds = {_OF_TYPES.get(each, each) for each in requirement.types}
    if own_kind is None or not kinds or {own_kind, "null"} & kinds:
        return None
    if name in _MAY_BE_TEXT and TEXT in kinds:
        return None
    types = " or ".join(requirement.types)
    return f" requires {written(path)} as {types}, but {written(path)} is {sql_of(kind)}"


def _joined(texts: Sequence[str]) -> str | None:
    if not texts:
        return None
    more = len(texts) - _FAULTS_MOST
    shown = "; also ".join(texts[:_FAULTS_MOST])
    return f"{shown}; and {more} more" if more > 0 else shown
