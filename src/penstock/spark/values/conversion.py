"""Converts values to the type of a column: as Arrow takes them, and exactly.

Only fractions of microseconds are cut, and numbers for DOUBLE and FLOAT rounded. Spark's
`from_json` rounds decimals, makes texts of numbers, takes the first element of an array for a
struct, and says neither which field does not fit nor why. The conversion is the same for values of
JSON, Avro and Protobuf. Fields that the column does not have are left out; fields that the value
does not have are null.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa
from pyspark.sql import types as T  # noqa: N812 - as everybody names it

from penstock.policies.decoded.wanted import Wanted
from penstock.spark.values import numbers, times
from penstock.spark.values.misfits import MisfitError, kind_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

OF_REQUIRED: Final = "is null, but a field of it is NOT NULL"
_SURROGATE: Final = "has half a surrogate pair, which STRING cannot have"
REQUIRED: Final = "is null, but NOT NULL"
"""The flaw of a null where a column has none."""
_REQUIRED_FIELD: Final = "is null or missing, but NOT NULL"
_OF_REQUIRED: Final = "is null or missing, but a field of it is NOT NULL"
_OTHER_CASE: Final = "is missing: the name of a field differs from it in case only"
_MOST: Final = 1_000_000
"""How many fields of the column a value may fill: an empty object fills all fields of a struct."""
_TOO_MANY: Final = f"fills more than {_MOST:,} fields of the column"


class Conversion(NamedTuple):
    """The conversion to a type.

    Attributes:
        spark: The type for Spark, without NOT NULL and collations, which Arrow does not have.
        convert: Returns the value that Arrow takes for a value that is not null; raises
            `MisfitError`.
    """

    spark: T.DataType
    arrow: pa.DataType
    convert: Callable[[Any], Any]


class _Table:
    """How a table takes values, and how many fields of the column a value may still fill."""

    def __init__(self, checks_nulls: bool) -> None:
        self.checks_nulls = checks_nulls
        self._left = _MOST

    def begin(self) -> None:
        """Begin a value."""
        self._left = _MOST

    def fill(self, count: int) -> None:
        """Count fields.

        Raises:
            MisfitError: The value fills too many.
        """
        self._left -= count
        if self._left < 0:
            raise MisfitError(_TOO_MANY)


def conversion_of(kind: T.DataType, *, checks_nulls: bool = False) -> Conversion:
    """Return the conversion to a type; by one thread.

    Args:
        checks_nulls: Whether the table refuses a null where a struct has a NOT NULL field.

    Raises:
        ValueError: No value can have this type, or a type within it; the text names it.
    """
    table = _Table(checks_nulls)
    inner = _conversion_of(kind, "value", table)

    def convert(value: Any) -> Any:
        table.begin()
        return inner.convert(value)

    return inner._replace(convert=convert)


def _conversion_of(kind: T.DataType, place: str, table: _Table) -> Conversion:
    if isinstance(kind, T.StructType):
        return _struct(kind, place, table)
    if isinstance(kind, T.ArrayType):
        return _array(kind, place, table)
    if isinstance(kind, T.MapType):
        return _map(kind, place, table)
    if isinstance(kind, T.DecimalType):
        return Conversion(
            kind,
            pa.decimal128(kind.precision, kind.scale),
            numbers.decimal(kind.precision, kind.scale),
        )
    conversion = _PLAIN.get(type(kind))
    if conversion is None:
        raise ValueError(f"{place} is {kind.simpleString().upper()}")
    return conversion


def has_required(kind: T.DataType) -> bool:
    """Return whether a type is a struct with a NOT NULL field, itself or in a struct in it."""
    return isinstance(kind, T.StructType) and any(
        not field.nullable or has_required(field.dataType) for field in kind
    )


def wanted_of(kind: T.DataType) -> Wanted:
    """Return which fields of a value a type has."""
    if isinstance(kind, T.StructType):
        return Wanted({field.name: wanted_of(field.dataType) for field in kind})
    if isinstance(kind, T.ArrayType):
        return wanted_of(kind.elementType)
    if isinstance(kind, T.MapType):
        return Wanted(None, wanted_of(kind.valueType))
    return Wanted({})


def _struct(kind: T.StructType, place: str, table: _Table) -> Conversion:
    inner = {
        field.name: _conversion_of(field.dataType, f"{place}.{field.name}", table) for field in kind
    }
    flaws = {
        field.name: _OF_REQUIRED if field.nullable else _REQUIRED_FIELD
        for field in kind
        if not field.nullable or (table.checks_nulls and has_required(field.dataType))
    }
    fields = [(name, conversion.convert, flaws.get(name)) for name, conversion in inner.items()]
    names = frozenset(inner)
    size = 1 + len(fields)

    def convert(value: Any) -> dict[str, Any]:
        if type(value) is not dict:
            raise MisfitError(f"is {kind_of(value)}, not STRUCT")
        table.fill(size)
        if not value.keys() >= names:
            _check_case(value, names)
        struct_value = {}
        for name, convert_field, flaw in fields:
            field_value = value.get(name)
            if field_value is not None:
                try:
                    field_value = convert_field(field_value)
                except MisfitError as error:
                    raise error.within(name) from None
            elif flaw is not None:
                raise MisfitError(flaw).within(name)
            struct_value[name] = field_value
        return struct_value

    spark = T.StructType(
        [T.StructField(name, conversion.spark) for name, conversion in inner.items()]
    )
    return Conversion(
        spark, pa.struct([(name, conversion.arrow) for name, conversion in inner.items()]), convert
    )


def _check_case(value: Mapping[str, Any], names: frozenset[str]) -> None:
    """Check that no field would be left out whose name differs from a missing one in case only."""
    missing_names = names - value.keys()
    others = value.keys() - names
    if others:
        folded = {name.lower() for name in others}
        for name in sorted(missing_names):
            if name.lower() in folded:
                raise MisfitError(_OTHER_CASE).within(name)


def _array(kind: T.ArrayType, place: str, table: _Table) -> Conversion:
    inner = _conversion_of(kind.elementType, f"{place}[]", table)
    may_be_null = kind.containsNull

    def convert(value: Any) -> list[Any]:
        if type(value) is not list:
            raise MisfitError(f"is {kind_of(value)}, not ARRAY")
        table.fill(1 + len(value))
        elements = []
        for position, item in enumerate(value):
            try:
                elements.append(_converted(item, inner, may_be_null))
            except MisfitError as error:
                raise error.within(position) from None
        return elements

    return Conversion(T.ArrayType(inner.spark), pa.list_(inner.arrow), convert)


def _map(kind: T.MapType, place: str, table: _Table) -> Conversion:
    if not isinstance(kind.keyType, T.StringType):
        raise ValueError(  # noqa: TRY004 - no caller passed it
            f"the keys of {place} are {kind.keyType.simpleString().upper()}, not STRING"
        )
    inner = _conversion_of(kind.valueType, f"{place}{{}}", table)
    may_be_null = kind.valueContainsNull

    def convert(value: Any) -> list[tuple[str, Any]]:
        if type(value) is not dict:
            raise MisfitError(f"is {kind_of(value)}, not MAP")
        table.fill(1 + len(value))
        entries = []
        for key, item in value.items():
            try:
                entries.append((_text(key), _converted(item, inner, may_be_null)))
            except MisfitError as error:
                raise error.within("*") from None  # a key is content
        return entries

    return Conversion(
        T.MapType(T.StringType(), inner.spark), pa.map_(pa.string(), inner.arrow), convert
    )


def _converted(value: Any, inner: Conversion, may_be_null: bool) -> Any:
    if value is not None:
        return inner.convert(value)
    if not may_be_null:
        raise MisfitError(REQUIRED)
    return None


def _text(value: Any) -> str:
    if type(value) is not str:
        raise MisfitError(f"is {kind_of(value)}, not STRING")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise MisfitError(_SURROGATE) from None
    return value


def _bytes(value: Any) -> bytes:
    if type(value) is bytes:
        return value
    if type(value) is not str:
        raise MisfitError(f"is {kind_of(value)}, not BINARY")
    try:
        return base64.b64decode(value, validate=True)
    except ValueError:
        raise MisfitError("is a string that is not base64, not BINARY") from None


_PLAIN: Final[Mapping[type[T.DataType], Conversion]] = {
    type(kind): Conversion(kind, arrow, convert)
    for kind, arrow, convert in (
        (T.BooleanType(), pa.bool_(), numbers.boolean),
        (T.ByteType(), pa.int8(), numbers.integer(8, "TINYINT")),
        (T.ShortType(), pa.int16(), numbers.integer(16, "SMALLINT")),
        (T.IntegerType(), pa.int32(), numbers.integer(32, "INT")),
        (T.LongType(), pa.int64(), numbers.integer(64, "BIGINT")),
        (T.FloatType(), pa.float32(), numbers.single),
        (T.DoubleType(), pa.float64(), numbers.double),
        (T.StringType(), pa.string(), _text),
        (T.BinaryType(), pa.binary(), _bytes),
        (T.DateType(), pa.date32(), times.date),
        (T.TimestampType(), pa.timestamp("us", "UTC"), times.timestamp),
        (T.TimestampNTZType(), pa.timestamp("us"), times.local_timestamp),
    )
}
