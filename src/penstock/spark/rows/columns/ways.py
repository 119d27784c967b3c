"""Which rows are judged by their columns: the plan has to allow it, and the types of the columns.

The plan allows it if a schema says for each policy which values it accepts. The columns allow it if
their JSON is known without Spark, and each keyword has a verdict on their types.
"""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from penstock.spark.rows.columns.schema_judge import SchemaJudge
from penstock.spark.rows.columns.zones import is_known

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from penstock.policies.json_schema.column_schema import ColumnSchema

_SCALARS: Final[dict[str, tuple[pa.DataType, Any]]] = {
    "BooleanType": (pa.bool_(), True),
    "ByteType": (pa.int8(), 1),
    "ShortType": (pa.int16(), 1),
    "IntegerType": (pa.int32(), 1),
    "LongType": (pa.int64(), 1),
    "DoubleType": (pa.float64(), 1.5),
    "StringType": (pa.string(), "a"),
    "CharType": (pa.string(), "a"),
    "VarcharType": (pa.string(), "a"),
    "BinaryType": (pa.binary(), b"a"),
    "DateType": (pa.date32(), dt.date(2024, 2, 29)),
    "TimestampType": (pa.timestamp("us"), 0),
    "TimestampNTZType": (pa.timestamp("us"), 0),
}
"""Types of Spark that have the same JSON in every Java, each with a value."""
_MOST_LEVELS: Final = 100
"""Below those that a text may have."""
_KEYS: Final = frozenset(("StringType", "ByteType", "ShortType", "IntegerType", "LongType"))


def columns_to_judge(
    schemas: Sequence[ColumnSchema],
    fields: Sequence[Any],
    *,
    left_out: Collection[str],
    keeps_nulls: bool,
    zone: str = "UTC",
) -> list[str] | None:
    """Return the columns by which rows can be judged; None if that takes their values.

    Args:
        schemas: Of all policies.
        fields: The fields of the frame's schema in Spark.
        left_out: The names of columns that are not part of the value.
        keeps_nulls: Whether a null field is null in the value, and not left out.
        zone: The time zone of the session.
    """
    own = [field for field in fields if field.name not in left_out]
    names = {field.name.lower() for field in own}
    lowered = {name.lower() for name in left_out}
    if len(names) < len(own) or names & lowered:  # Spark may not tell such names apart
        return None
    if any(_levels(field.dataType) > _MOST_LEVELS for field in own):  # also of those not read
        return None
    names_read = _fields_of(schemas)
    columns = [field for field in own if names_read is None or field.name in names_read]
    sample = _sample_of(columns) if columns else None
    if sample is None:
        return None
    if any(map(_has_instants, columns)) and not is_known(zone):
        return None
    kind, value = sample
    row = pa.array([value], kind)
    judges = [SchemaJudge(schema, keeps_nulls=keeps_nulls) for schema in schemas]
    if not all(judge.knows(row) for judge in judges):
        return None
    return [field.name for field in columns]


def _has_instants(field: Any) -> bool:
    return "timestamp" in field.dataType.simpleString()


def _fields_of(schemas: Sequence[ColumnSchema]) -> set[str] | None:
    fields: set[str] = set()
    for schema in schemas:
        if schema.fields is None:
            return None
        fields |= schema.fields
    return fields


def _levels(kind: Any) -> int:
    """Return how many levels the JSON of a type may have; those of a variant have no limit."""
    name = type(kind).__name__
    if name == "StructType":
        return 1 + max((_levels(field.dataType) for field in kind.fields), default=0)
    if name == "ArrayType":
        return 1 + _levels(kind.elementType)
    if name == "MapType":
        return 1 + _levels(kind.valueType)
    return _MOST_LEVELS + 1 if name == "VariantType" else 0


def _sample(kind: Any) -> tuple[pa.DataType, Any] | None:
    """Return a type of Spark as Arrow's, with a value; None if its JSON is not known here.

    That of a 32-bit fraction depends on the version of Java.
    """
    name = type(kind).__name__
    if name == "StructType":
        return _sample_of(kind.fields)
    if name == "ArrayType":
        item = _sample(kind.elementType)
        return None if item is None else (pa.list_(item[0]), [item[1]])
    if name == "MapType":
        key, item = _sample(kind.keyType), _sample(kind.valueType)
        if key is None or item is None or type(kind.keyType).__name__ not in _KEYS:
            return None
        return pa.map_(key[0], item[0]), [(key[1], item[1])]
    if name == "DecimalType" and kind.scale >= 0:
        return pa.decimal128(kind.precision, kind.scale), Decimal(1).scaleb(-kind.scale)
    return _SCALARS.get(name)


def _sample_of(fields: Sequence[Any]) -> tuple[pa.DataType, Any] | None:
    samples = {field.name: _sample(field.dataType) for field in fields}
    if len(samples) < len(fields) or None in samples.values():
        return None
    types_and_values = {name: sample for name, sample in samples.items() if sample is not None}
    kind = pa.struct([(name, sample[0]) for name, sample in types_and_values.items()])
    return kind, {name: sample[1] for name, sample in types_and_values.items()}
