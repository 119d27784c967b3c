"""Checks the frames that users pass: Kafka's columns, each once and with its type."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from penstock.configuration import ConfigurationError
from penstock.spark.frames.kafka_columns import COLUMNS

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from pyspark.sql import DataFrame

_INTEGERS: Final = ("tinyint", "smallint", "int", "bigint")
_ALSO: Final = {
    "partition": _INTEGERS,
    "offset": _INTEGERS,
    "timestampType": _INTEGERS,
}
"""Other types that are judged as well; a frame that was read from JSON has them."""
_FROM_NUMBER: Final = 'F.timestamp_millis("{name}")'
_CAST: Final = 'F.col("{name}").cast("{wanted}")'
_UNKNOWN: Final = {"topic": 'F.lit("NAME")', "partition": "F.lit(0)"}
_NULL: Final = 'F.lit(None).cast("{wanted}")'
_HEADERS: Final = (
    'F.transform("headers", lambda h: F.struct(h["key"], h["value"].cast("binary").alias("value")))'
)


def check_frame(given: Any, function: str) -> DataFrame:
    """Return the frame that a user passed.

    Args:
        given: The argument.
        function: Which was called, for the error.

    Raises:
        ConfigurationError: It is not a frame of Spark.
    """
    if not callable(getattr(given, "mapInArrow", None)) or not hasattr(given, "dtypes"):
        raise ConfigurationError(
            f"{function}: pass a DataFrame of Spark with Kafka's columns, not {_kind(given)}"
        )
    frame: DataFrame = given
    return frame


def check_columns(
    types: Sequence[tuple[str, str]], needed: Collection[str], by: str, optional: Collection[str]
) -> None:
    """Check columns that are used.

    Args:
        types: The frame's columns with Spark's types.
        needed: The required columns.
        by: What needs them, for the error.
        optional: Columns that are used if they exist.

    Raises:
        ConfigurationError: A column is missing, exists twice, or has another type.
    """
    names = [name for name, _ in types]
    missing = [name for name in needed if name not in names]
    if missing:
        raise ConfigurationError(_missing(missing, names, by))
    for name, given in types:
        if name not in needed and name not in optional:
            continue
        if names.count(name) > 1:
            raise ConfigurationError(f"the frame has two columns {name}: drop or rename one")
        if not _fits(name, given):
            raise ConfigurationError(_wrong(name, given))


def _missing(missing: Sequence[str], names: Sequence[str], by: str) -> str:
    # Spark takes names that differ in case for the same: a new column would replace the other.
    otherwise = {name.lower(): name for name in names}
    renamed = {
        column: otherwise[column.lower()] for column in missing if column.lower() in otherwise
    }
    added = ", ".join(
        f'"{column}": {_UNKNOWN.get(column, _NULL.format(wanted=COLUMNS[column]))}'
        for column in missing
        if column not in renamed
    )
    return (
        f"the records have no column {', '.join(missing)}, which {by}; there are "
        f"{', '.join(names)}"
        + (" (read Kafka with includeHeaders=true)" if "headers" in missing else "")
        + "".join(
            f'; rename it: frame.withColumnRenamed("{given}", "{wanted}")'
            for wanted, given in renamed.items()
        )
        + (f"; where it is not known, give frame.withColumns({{{added}}})" if added else "")
    )


def _fits(name: str, given: str) -> bool:
    # A collation or a length belongs to the type of a text.
    if COLUMNS[name] == "string":
        return given.startswith(("string", "varchar", "char"))
    return given == COLUMNS[name] or given in _ALSO.get(name, ())


def _wrong(name: str, given: str) -> str:
    wanted = COLUMNS[name]
    how = ""
    if name == "timestamp" and given in _INTEGERS:
        how = f": give it as {_FROM_NUMBER.format(name=name)}, if it is in ms"
    elif given == "void":
        how = f": give it as {_NULL.format(wanted=wanted)}"
    elif name == "headers":
        how = f": give it as {_HEADERS}" if given.startswith("array<struct") else ""
    else:
        how = f": give it as {_CAST.format(name=name, wanted=wanted)}"
    return f"column {name} is {given}, not {wanted}{how}"


def _kind(given: Any) -> str:
    kind = type(given)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"
