"""How long the texts of rows may be, without writing them."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from penstock.spark.rows.columns.parts import entries_of

if TYPE_CHECKING:
    from collections.abc import Callable

_LONGEST_SCALAR: Final = 64
"""No number, date or timestamp has more bytes."""
_ESCAPED: Final = 6
"""The most bytes in JSON for a byte of a text."""


def longest_text(array: pa.Array) -> float:
    """Return how many bytes the JSON of a value of a column has at most."""
    kind = array.type
    for is_of_type, longest in _BY_TYPE:
        if is_of_type(kind):
            return longest(array)
    return _LONGEST_SCALAR if _is_scalar(kind) else inf


def _is_scalar(kind: pa.DataType) -> bool:
    return any(is_of_type(kind) for is_of_type in _SCALARS)


def _of_text(array: pa.Array) -> float:
    return _ESCAPED * (pc.max(pc.binary_length(array)).as_py() or 0) + 8


def _of_struct(array: pa.StructArray) -> float:
    names = sum(_ESCAPED * len(field.name.encode()) + 4 for field in array.type)
    return (
        names + 2 + sum(longest_text(array.field(index)) for index in range(array.type.num_fields))
    )


def _of_list(array: pa.ListArray) -> float:
    most = pc.max(pc.list_value_length(array)).as_py() or 0
    return 4 + most * (longest_text(pc.list_flatten(array)) + 1) if most else 4


_SCALARS: Final[tuple[Callable[[Any], bool], ...]] = (
    pa.types.is_boolean,
    pa.types.is_integer,
    pa.types.is_floating,
    pa.types.is_decimal128,
    pa.types.is_date32,
    pa.types.is_timestamp,
)
_BY_TYPE: Final[tuple[tuple[Callable[[Any], bool], Callable[[Any], float]], ...]] = (
    (pa.types.is_string, _of_text),
    (pa.types.is_large_string, _of_text),
    (pa.types.is_binary, _of_text),
    (pa.types.is_large_binary, _of_text),
    (pa.types.is_struct, _of_struct),
    (pa.types.is_list, _of_list),
    (pa.types.is_map, lambda array: _of_list(entries_of(array))),
)
