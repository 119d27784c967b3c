"""The values of rows as JSON: what Spark's `to_json` writes, up to the digits of a double.

Java and Arrow write the same double with other digits, and a decimal with another exponent.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.spark.rows.columns.parts import entries_of
from penstock.spark.rows.columns.zones import offset_texts, offsets_of

if TYPE_CHECKING:
    from collections.abc import Callable

_NULL: Final = pa.scalar("null")
_WHOLE: Final = "^-?[0-9]+$"
_ESCAPED: Final = r'["\\\x00-\x1f]'
_FIRST_LONG_YEAR: Final = np.datetime64("10000-01-01")
_FIRST_YEAR: Final = np.datetime64("0001-01-01")
_SHORT_YEAR: Final = re.compile("^(-?)([0-9]{1,3})(?=-)")


def row_texts(array: pa.Array, *, keeps_nulls: bool) -> pa.Array:
    """Return the JSON of each value, without nulls.

    Args:
        array: Of a type that can be written.
        keeps_nulls: Whether a null field is null in the text, and not left out.
    """
    kind = array.type
    if pa.types.is_struct(kind):
        texts = _of_struct(array, keeps_nulls=keeps_nulls)
    elif pa.types.is_map(kind):
        texts = _of_map(array, keeps_nulls=keeps_nulls)
    elif pa.types.is_list(kind):
        items = row_texts(pc.list_flatten(array), keeps_nulls=keeps_nulls)
        texts = _joined("[", _lists(array, items), "]")
    else:
        write = _writer_of(kind)
        assert write is not None, kind
        texts = write(array)
    return pc.if_else(array.is_valid(), texts, _NULL) if array.null_count else texts


def _of_struct(array: pa.StructArray, *, keeps_nulls: bool) -> pa.Array:
    pieces: list[Any] = []
    for index, field in enumerate(array.type):
        column = array.field(index)
        name = f"{json.dumps(field.name, ensure_ascii=False)}:"
        texts = row_texts(column, keeps_nulls=keeps_nulls)
        if keeps_nulls or not column.null_count:
            pieces += [f",{name}", texts]
        else:
            piece = pc.binary_join_element_wise(f",{name}", texts, "")
            pieces.append(pc.if_else(column.is_valid(), piece, ""))
    if not pieces:
        return pa.repeat("{}", len(array))
    inside = pc.utf8_ltrim(pc.binary_join_element_wise(*pieces, ""), ",")
    return pc.binary_join_element_wise("{", inside, "}", "")


def _of_map(array: pa.MapArray, *, keeps_nulls: bool) -> pa.Array:
    lists = entries_of(array)
    entries = pc.list_flatten(lists)
    names = entries.field("key")
    is_text = pa.types.is_string(names.type) or pa.types.is_large_string(names.type)
    plain = names.cast(pa.string())
    name_texts = _of_text(plain) if is_text else _joined('"', plain, '"')
    values = row_texts(entries.field("value"), keeps_nulls=keeps_nulls)
    return _joined("{", _lists(lists, _joined("", name_texts, ":", values)), "}")


def _lists(array: pa.ListArray, items: pa.Array) -> pa.Array:
    """Return the texts of the items of each list, with commas between them."""
    lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy()
    ends = np.zeros(len(array) + 1, np.int32)
    np.cumsum(lengths, out=ends[1:])
    return pc.binary_join(pa.ListArray.from_arrays(pa.array(ends), items), ",")


def _joined(*parts: Any) -> pa.Array:
    return pc.binary_join_element_wise(*parts, "")


def _of_double(array: pa.Array) -> pa.Array:
    texts = array.cast(pa.string())
    texts = pc.if_else(pc.match_substring_regex(texts, _WHOLE), _joined(texts, ".0"), texts)
    for is_it, text in (
        (pc.is_nan(array), '"NaN"'),
        (pc.equal(array, np.inf), '"Infinity"'),
        (pc.equal(array, -np.inf), '"-Infinity"'),
    ):
        texts = pc.if_else(is_it, text, texts)
    return texts


def _of_text(array: pa.Array) -> pa.Array:
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:  # as Spark replaces what is no text
        contents = array.cast(pa.binary()).to_pylist()
        texts = [text if text is None else text.decode(errors="replace") for text in contents]
        array = pa.array(texts, pa.string())
    has_escapes = pc.match_substring_regex(array, _ESCAPED).fill_null(fill_value=False)
    plain = _joined('"', array, '"')
    if not pc.any(has_escapes).as_py():
        return plain
    texts = plain.to_pylist()
    for position in pc.indices_nonzero(has_escapes).to_pylist():
        texts[position] = json.dumps(array[position].as_py(), ensure_ascii=False)
    return pa.array(texts, pa.string())


def _of_bytes(array: pa.Array) -> pa.Array:
    values = array.to_pylist()
    texts = [None if value is None else f'"{b64encode(value).decode()}"' for value in values]
    return pa.array(texts, pa.string())


def _of_date(array: pa.Array) -> pa.Array:
    return _joined('"', _times(_numbers(array, pa.int32()).astype("M8[D]")), '"')


def _of_timestamp(array: pa.Array) -> pa.Array:
    micros = _numbers(array, pa.int64())
    offsets = offsets_of(micros, array.type.tz)
    if offsets is None:
        return _joined('"', _times((micros // 1000).astype("M8[ms]")), '"')
    wall = (micros // 1000 + offsets * 1000).astype("M8[ms]")
    return _joined('"', _times(wall), pa.array(offset_texts(offsets), pa.string()), '"')


def _numbers(array: pa.Array, kind: pa.DataType) -> Any:
    return array.cast(kind).fill_null(0).to_numpy(zero_copy_only=False)


def _times(times: Any) -> pa.Array:
    """Return times as texts; years have four digits, and those that have more have a sign."""
    texts = pa.array(np.datetime_as_string(times), pa.string())
    are_long = times >= _FIRST_LONG_YEAR
    if are_long.any():
        texts = pc.if_else(pa.array(are_long), _joined("+", texts), texts)
    if (times < _FIRST_YEAR).any():
        padded = [_SHORT_YEAR.sub(_padded, text, count=1) for text in texts.to_pylist()]
        texts = pa.array(padded, pa.string())
    return texts


def _padded(year: re.Match[str]) -> str:
    return year[1] + year[2].zfill(4)


def _writer_of(kind: pa.DataType) -> Callable[[pa.Array], pa.Array] | None:
    if pa.types.is_signed_integer(kind) or pa.types.is_decimal128(kind):
        return lambda array: array.cast(pa.string())
    return next((write for is_of_type, write in _WRITERS if is_of_type(kind)), None)


_WRITERS: Final[tuple[tuple[Callable[[Any], bool], Callable[[pa.Array], pa.Array]], ...]] = (
    (pa.types.is_boolean, lambda array: pc.if_else(array, "true", "false")),
    (pa.types.is_float64, _of_double),
    (pa.types.is_string, _of_text),
    (pa.types.is_large_string, lambda array: _of_text(array.cast(pa.string()))),
    (pa.types.is_binary, _of_bytes),
    (pa.types.is_large_binary, _of_bytes),
    (pa.types.is_date32, _of_date),
    (pa.types.is_timestamp, _of_timestamp),
)
