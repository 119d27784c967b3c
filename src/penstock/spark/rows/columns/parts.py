"""What the values of a column are in JSON, as Spark's `to_json` writes them.

Dates, timestamps and bytes are strings there, maps are objects, and a double that is no number is a
string.
"""

from __future__ import annotations

import datetime as dt
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.spark.rows.columns.kleene import Verdict, any_of, chosen
from penstock.spark.rows.columns.numbers import numbers_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.spark.rows.columns.numbers import Numbers

_REPLACEMENT: Final = "\ufffd"
_FEW: Final = 4
_FIRST_DAY: Final = pa.scalar(dt.date(1583, 1, 1))
_LAST_DAY: Final = pa.scalar(dt.date(9999, 12, 31))
"""Between them, every calendar and every form of Spark's writes the same date."""


class Part:
    """Values of a column; those that are null are not looked at.

    Attributes:
        kind: The type in JSON: `null`, `boolean`, `number`, `string`, `array` or `object`; None if
            it is not known.
        is_of_kind: True for the values that certainly have this type.
        lengths: The characters of strings, or the items of arrays, where they are known.
    """

    kind: str | None = None
    is_of_kind: Verdict = None
    lengths: pa.Array | None = None

    def is_one_of(self, constants: Sequence[Any]) -> Verdict:
        """Return whether they equal one of some JSON values."""
        del constants
        return None

    def matches(self, pattern: str) -> Verdict:
        """Return whether strings match a pattern of Arrow's."""
        del pattern
        return None


class Null(Part):
    """Nothing but null."""

    kind = "null"
    is_of_kind = True

    def is_one_of(self, constants: Sequence[Any]) -> Verdict:
        return None in constants


class Booleans(Part):
    """True and false."""

    kind = "boolean"
    is_of_kind = True

    def __init__(self, array: pa.Array) -> None:
        self._array = array

    def is_one_of(self, constants: Sequence[Any]) -> Verdict:
        constants_of_kind = {constant for constant in constants if isinstance(constant, bool)}
        if len(constants_of_kind) != 1:
            return bool(constants_of_kind)
        return self._array if constants_of_kind == {True} else pc.invert(self._array)


class NumbersPart(Part):
    """Numbers.

    Attributes:
        numbers: How they are compared; None if their texts are not known.
    """

    kind = "number"

    def __init__(self, array: pa.Array, draft: int) -> None:
        self.numbers: Numbers | None = numbers_of(array, draft)
        self.is_of_kind = True
        if pa.types.is_floating(array.type):
            finite = pc.is_finite(array).fill_null(fill_value=True)
            if not pc.all(finite).as_py() and len(array):
                self.is_of_kind = chosen(finite, True, None)

    def is_one_of(self, constants: Sequence[Any]) -> Verdict:
        constants_of_kind = [
            constant
            for constant in constants
            if isinstance(constant, (int, float)) and not isinstance(constant, bool)
        ]
        if constants_of_kind and self.numbers is None:
            return None
        verdict: Verdict = any_of(
            [
                self.numbers.compared("const", constant)
                for constant in constants_of_kind
                if self.numbers
            ]
        )
        return verdict if constants_of_kind or self.is_of_kind is True else None


class Strings(Part):
    """Strings whose content is not known here: bytes and timestamps."""

    kind = "string"
    is_of_kind = True

    def is_one_of(self, constants: Sequence[Any]) -> Verdict:
        return None if any(isinstance(constant, str) for constant in constants) else False


class Texts(Part):
    """Texts."""

    kind = "string"
    is_of_kind = True

    def __init__(self, array: pa.Array) -> None:
        self._given = array

    def is_one_of(self, constants: Sequence[Any]) -> Verdict:
        constants_of_kind = [constant for constant in constants if isinstance(constant, str)]
        if not constants_of_kind:
            return False
        # Spark replaces bytes that are no text.
        if self._array is None or any(_REPLACEMENT in text for text in constants_of_kind):
            return None
        if len(constants_of_kind) <= _FEW:
            return self._known(any_of([pc.equal(self._array, text) for text in constants_of_kind]))
        return self._known(
            pc.is_in(self._array, value_set=pa.array(constants_of_kind, self._array.type))
        )

    @property
    def lengths(self) -> pa.Array | None:  # type: ignore[override]
        return None if self._array is None else self._known(pc.utf8_length(self._array))

    def matches(self, pattern: str) -> Verdict:
        if self._array is None:
            return None
        if pattern.startswith("^") and pattern[1:].isalnum():
            return self._known(pc.starts_with(self._array, pattern[1:]))
        try:
            return self._known(pc.match_substring_regex(self._array, pattern))
        except pa.ArrowInvalid:  # too large for its machine
            return None

    @cached_property
    def _array(self) -> pa.Array | None:
        """The texts; None if one of them is not UTF-8."""
        try:
            self._given.validate(full=True)
        except pa.ArrowInvalid:
            return None
        return self._given

    def _known(self, verdict: Any) -> Any:
        return verdict


class Dates(Texts):
    """Dates, as texts."""

    @cached_property
    def _array(self) -> pa.Array | None:
        return self._given.cast(pa.string())

    def _known(self, verdict: Any) -> Any:
        days = self._given
        is_known = pc.and_(pc.greater_equal(days, _FIRST_DAY), pc.less_equal(days, _LAST_DAY))
        is_known = is_known.fill_null(fill_value=True)
        if pc.all(is_known).as_py() in {True, None}:
            return verdict
        if not isinstance(verdict, pa.Array):
            return None
        return pc.if_else(is_known, verdict, pa.scalar(None, verdict.type))


class Items(Part):
    """Lists, or the entries of maps."""

    def __init__(self, array: pa.Array, *, is_map: bool) -> None:
        self.kind = "object" if is_map else "array"
        self.is_of_kind = True
        self.is_map = is_map
        self._array = entries_of(array) if is_map else array

    @property
    def lengths(self) -> pa.Array | None:  # type: ignore[override]
        return pc.list_value_length(self._array)

    def is_one_of(self, constants: Sequence[Any]) -> Verdict:
        kind = dict if self.is_map else list
        return None if any(isinstance(constant, kind) for constant in constants) else False

    def all(self, judge: Callable[[pa.Array], Verdict]) -> Verdict:
        """Return whether a verdict on the items holds for all of a list, or values of a map."""
        items = pc.list_flatten(self._array)
        verdict = judge(items.field("value") if self.is_map else items)
        if verdict is True:
            return True
        count = len(self._array)
        # Arrow counts items of a null list among the parents, but leaves them out of the items.
        lengths = pc.fill_null(pc.list_value_length(self._array), 0).to_numpy()
        parents = np.repeat(np.arange(count), lengths)
        if not isinstance(verdict, pa.Array):
            verdict = pa.array([verdict], pa.bool_()).take(pa.array(np.zeros(len(parents), int)))
        unknown = verdict.is_null().to_numpy(zero_copy_only=False)
        false = pc.invert(verdict).fill_null(fill_value=False).to_numpy(zero_copy_only=False)
        fits, is_unknown = np.ones(count, bool), np.zeros(count, bool)
        is_unknown[parents[unknown]] = True
        fits[parents[false]] = False
        return pa.array(fits, mask=is_unknown & fits)


class Struct(Part):
    """Structs whose fields have different names."""

    kind = "object"
    is_of_kind = True

    def __init__(self, array: pa.StructArray) -> None:
        self._array = array
        self.positions = {field.name: index for index, field in enumerate(array.type)}

    def field(self, name: str) -> pa.Array | None:
        """Return the column of a field; None without such a field."""
        index = self.positions.get(name)
        return None if index is None else self._array.field(index)

    def is_one_of(self, constants: Sequence[Any]) -> Verdict:
        return None if any(isinstance(constant, dict) for constant in constants) else False


def part_of(array: pa.Array, draft: int) -> Part:
    """Return what the values of a column are; a `Part` itself where they are not known."""
    kind = array.type
    for is_of_type, make in _BY_TYPE:
        if is_of_type(kind):
            return make(array)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal128(kind):
        return NumbersPart(array, draft)
    if pa.types.is_struct(kind) and is_plain(kind):
        return Struct(array)
    return Part()


def is_plain(kind: pa.StructType) -> bool:
    """Return whether a struct is an object in JSON, and each of its names is there once.

    A variant travels as a struct, too, whose fields say that they are its parts.
    """
    is_own = all(not field.metadata or b"variant" not in field.metadata for field in kind)
    return is_own and len({field.name for field in kind}) == kind.num_fields


def entries_of(array: pa.MapArray) -> pa.ListArray:
    """Return maps as lists of structs of `key` and `value`."""
    kind = array.type
    entry = pa.struct([("key", kind.key_type), ("value", kind.item_type)])
    return array.cast(pa.list_(entry))


_BY_TYPE: Final[tuple[tuple[Callable[[Any], bool], Callable[[Any], Part]], ...]] = (
    (pa.types.is_boolean, Booleans),
    (pa.types.is_string, Texts),
    (pa.types.is_large_string, Texts),
    (pa.types.is_date32, Dates),
    (pa.types.is_timestamp, lambda _: Strings()),
    (pa.types.is_binary, lambda _: Strings()),
    (pa.types.is_large_binary, lambda _: Strings()),
    (pa.types.is_list, lambda array: Items(array, is_map=False)),
    (pa.types.is_map, lambda array: Items(array, is_map=True)),
)
