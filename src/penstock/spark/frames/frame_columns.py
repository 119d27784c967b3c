"""Checks the frames that users pass: Kafka's columns, each once and with its type."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from pyspark.errors import PySparkException

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
_NOT_ANALYSED: Final = "ATTEMPT_ANALYSIS_IN_PIPELINE_QUERY_FUNCTION"
_FROM_NUMBER: Final = 'F.timestamp_millis("{name}")'
_CAST: Final = 'F.col("{name}").cast("{wanted}")'
_UNKNOWN: Final = {"topic": 'F.lit("NAME")', "partition": "F.lit(0)"}
_NULL: Final = 'F.lit(None).cast("{wanted}")'
CONTENT: Final = frozenset({"key", "value", "headers"})
"""What policies judge. Null does not replace it: a record without a value is a tombstone."""
_AS_JSON: Final = 'F.to_json({fields}, {{"ignoreNullFields": "false"}}).cast("binary")'
_OF_KEYS: Final = 'F.col("COLUMN").cast("binary")'
_NO_HEADERS: Final = 'F.array().cast("{wanted}")'
_AS_TEXT: Final = 'F.col("{name}").cast("string").cast("binary")'
_NESTED: Final = ("struct", "map", "array")
_HEADERS: Final = (
    'F.transform("headers", lambda h: F.struct(h["key"], h["value"].cast("binary").alias("value")))'
)


def check_frame(value: Any, function: str) -> DataFrame:
    """Return the frame that a user passed.

    Args:
        function: Which was called, for the error.

    Raises:
        ConfigurationError: It is not a frame of Spark.
    """
    if not callable(getattr(value, "mapInArrow", None)) or not hasattr(type(value), "dtypes"):
        raise ConfigurationError(
            f"{function}: pass a DataFrame of Spark with Kafka's columns, not {_kind(value)}"
        )
    frame: DataFrame = value
    return frame


def types_of(frame: DataFrame) -> Sequence[tuple[str, str]] | None:
    """Return the columns of a frame with Spark's types.

    Returns:
        None in a query function of a declarative pipeline, in which Spark analyses no frame.
    """
    try:
        return frame.dtypes
    except PySparkException as error:
        if _NOT_ANALYSED not in str(error):
            raise
        return None


def check_columns(
    types: Sequence[tuple[str, str]],
    needed: Collection[str],
    usage: str,
    optional: Collection[str],
    judged_columns: Collection[str] = CONTENT,
) -> None:
    """Check columns that are used.

    Args:
        types: The frame's columns with Spark's types.
        needed: The required columns.
        usage: What needs them, for the error.
        optional: Columns that are used if they exist.
        judged_columns: Columns that policies look at; the error proposes no null for those of
            them that are in `CONTENT`.

    Raises:
        ConfigurationError: A column is missing, exists twice, or has another type.
    """
    names = [name for name, _ in types]
    missing_names = [name for name in needed if name not in names]
    if missing_names:
        raise ConfigurationError(_missing(missing_names, names, usage, judged_columns))
    for name, spark_type in types:
        if name not in needed and name not in optional:
            continue
        if names.count(name) > 1:
            raise ConfigurationError(f"the frame has two columns {name}: drop or rename one")
        if not _fits(name, spark_type):
            raise ConfigurationError(_wrong(name, spark_type))


def _missing(
    missing_names: Sequence[str], names: Sequence[str], usage: str, judged_columns: Collection[str]
) -> str:
    # Spark takes names that differ in case for the same: a new column would replace the other.
    otherwise = {name.lower(): name for name in names}
    renamed = {
        column: otherwise[column.lower()] for column in missing_names if column.lower() in otherwise
    }
    added = ", ".join(
        f'"{column}": {expression}'
        for column in missing_names
        if column not in renamed and (expression := _added(column, names, judged_columns))
    )
    return (
        f"the records have no column {', '.join(missing_names)}, which {usage}; there are "
        f"{', '.join(names)}"
        + (" (read Kafka with includeHeaders=true)" if "headers" in missing_names else "")
        + "".join(
            f'; rename it: frame.withColumnRenamed("{frame_name}", "{kafka_name}")'
            for kafka_name, frame_name in renamed.items()
        )
        + (f"; where it is not known, give frame.withColumns({{{added}}})" if added else "")
    )


def _added(column: str, names: Sequence[str], judged_columns: Collection[str]) -> str:
    """Return an expression for a column that is missing; empty without any."""
    kind = COLUMNS[column]
    if column not in judged_columns or column not in CONTENT:
        return _UNKNOWN.get(column, _NULL.format(wanted=kind))
    if column == "key":
        return _OF_KEYS
    if column == "headers":
        return _NO_HEADERS.format(wanted=kind)
    own = [name for name in names if name not in COLUMNS and name != "verdict"]
    fields = '"*"' if len(own) == len(names) else ", ".join(map(_quoted, own))
    return _AS_JSON.format(fields=f"F.struct({fields})") if own else ""


def _quoted(name: str) -> str:
    quoted = "`" + name.replace("`", "``") + "`" if "." in name or "`" in name else name
    return json.dumps(quoted, ensure_ascii=False)


def _fits(name: str, spark_type: str) -> bool:
    # A collation or a length belongs to the type of a text.
    if COLUMNS[name] == "string":
        return spark_type.startswith(("string", "varchar", "char"))
    return spark_type == COLUMNS[name] or spark_type in _ALSO.get(name, ())


def _wrong(name: str, spark_type: str) -> str:
    required_type = COLUMNS[name]
    how = ""
    if name == "timestamp" and spark_type in _INTEGERS:
        how = f": give it as {_FROM_NUMBER.format(name=name)}, if it is in ms"
    elif spark_type == "void" and name == "value":
        how = ": all its values are null, so there is nothing to judge"
    elif required_type == "binary" and spark_type.startswith(_NESTED):
        how = f": give it as {_AS_JSON.format(fields=_quoted(name))}"
    elif required_type == "binary" and spark_type not in {"void", "string"}:
        how = f": give it as {_AS_TEXT.format(name=name)}"
    elif name == "headers" and spark_type != "void":
        how = f": give it as {_HEADERS}" if spark_type.startswith("array<struct") else ""
    else:
        how = f": give it as {_CAST.format(name=name, wanted=required_type)}"
    return f"column {name} is {spark_type}, not {required_type}{how}"


def _kind(value: Any) -> str:
    kind = type(value)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"
