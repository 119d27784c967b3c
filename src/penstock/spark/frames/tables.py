"""Archives of records as tables of Spark's catalog, with any columns."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import functions as F  # noqa: N812 - as everybody names it

from penstock.configuration import ConfigurationError
from penstock.jobs.locations import TABLE
from penstock.spark.execution.failures import first_line
from penstock.spark.execution.java_errors import Py4JJavaError
from penstock.spark.frames.kafka_columns import COLUMNS, from_ms

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession

_NEEDED: Final = ("key", "value", "topic")
_CONDITION: Final = re.compile(r"^\[([A-Z_.]+)\]\s*")


def _headers(column: Column) -> Column:
    return column.cast(COLUMNS["headers"])


_CONVERSIONS: Final[Mapping[str, Mapping[str, Callable[[Column], Column]]]] = {
    "binary": {"string": lambda text: F.encode(text, "UTF-8")},
    "string": {},
    "int": {kind: lambda column: column.cast("int") for kind in ("tinyint", "smallint", "bigint")},
    "bigint": {
        kind: lambda column: column.cast("bigint") for kind in ("tinyint", "smallint", "int")
    },
    "timestamp": {"timestamp_ntz": lambda column: column.cast("timestamp"), "bigint": from_ms},
    COLUMNS["headers"]: {
        "array<struct<key:string,value:string>>": _headers,
        "map<string,binary>": lambda column: _headers(F.map_entries(column)),
        "map<string,string>": lambda column: _headers(F.map_entries(column)),
    },
}
"""Types of a table's columns that are taken besides Kafka's own."""


def parse_columns(arguments: Sequence[str]) -> dict[str, str]:
    """Read the values of `--column`: `NAME=EXPRESSION`, with a name of Kafka's columns.

    Raises:
        ConfigurationError: One of them is not a pair, or a name is given twice.
    """
    expressions: dict[str, str] = {}
    for argument in arguments:
        name, separator, expression = (part.strip() for part in argument.partition("="))
        if not separator or not expression or name not in COLUMNS:
            raise ConfigurationError(
                f"--column {argument}: NAME=EXPRESSION, such as value=payload or "
                f"topic=\"'orders'\", with one of {', '.join(COLUMNS)}"
            )
        if name in expressions:
            raise ConfigurationError(f"--column {name} is given twice")
        expressions[name] = expression
    return expressions


def read_table(spark: SparkSession, name: str, columns: Mapping[str, str]) -> DataFrame:
    """Read a table as Kafka's columns.

    A column comes from the expression that is given for it, else from the table's column of the
    same name. `key`, `value` and `topic` have to be there; the others are null if they are not. A
    text becomes bytes in UTF-8, a number becomes a time in ms, a map becomes headers.

    Args:
        name: The table, as Spark's SQL names it.
        columns: SQL expressions over the table's columns, by Kafka's.

    Raises:
        ConfigurationError: There is no such table, a column is missing, an expression is not
            usable, or a type is another.
    """
    where = f"--input {TABLE}{name}"
    table = find_table(spark, name)
    own = {column.lower() for column in table.columns}
    expressions = {column: f"`{column}`" for column in COLUMNS if column.lower() in own} | dict(
        columns
    )
    missing_names = [column for column in _NEEDED if column not in expressions]
    if missing_names:
        raise ConfigurationError(
            f"{where}: no column {', '.join(missing_names)}; name an expression for each, such as "
            f"--column {missing_names[0]}=EXPRESSION (--column key=NULL for records without keys, "
            f"--column \"topic='orders'\" for one topic); the table has {', '.join(table.columns)}"
        )
    return table.select(
        *(_column(table, where, column, expressions.get(column)) for column in COLUMNS)
    )


def find_table(spark: SparkSession, name: str) -> DataFrame:
    """Return a table with its own columns.

    Args:
        name: The table, as Spark's SQL names it.

    Raises:
        ConfigurationError: There is no such table, or it cannot be read.
    """
    where = f"--input {TABLE}{name}"
    try:
        table = spark.table(name)
        _ = table.columns
    except (AnalysisException, ParseException) as error:
        raise ConfigurationError(f"{where}: {_problem(error)}") from None
    except Py4JJavaError as error:  # of the table's format, such as its jars are for another Spark
        problem = first_line(str(error.java_exception))
        raise ConfigurationError(f"{where}: cannot be read: {problem}") from None
    return table


def has_places(spark: SparkSession, name: str, columns: Mapping[str, str]) -> bool:
    """Return whether a table says which partition and offset its records are of.

    Args:
        name: The table, which `read_table` reads.
        columns: As there.
    """
    own = {column.lower() for column in spark.table(name).columns}
    return own.union(columns) >= {"partition", "offset"}


def _column(table: DataFrame, where: str, name: str, expression: str | None) -> Column:
    required_type = COLUMNS[name]
    if expression is None:
        return F.lit(None).cast(required_type).alias(name)
    column = F.expr(expression)
    try:
        ((_, actual_type),) = table.select(column.alias(name)).dtypes
    except (AnalysisException, ParseException) as error:
        raise ConfigurationError(
            f"{where}: --column {name}={expression}: {_problem(error)}"
        ) from None
    if actual_type == "void":
        return column.cast(required_type).alias(name)
    if actual_type != required_type:
        convert = _CONVERSIONS[required_type].get(actual_type)
        if convert is None:
            raise ConfigurationError(
                f"{where}: column {name} is {actual_type}; required is "
                f"{' or '.join((required_type, *_CONVERSIONS[required_type]))}: name an "
                f"expression with --column {name}=EXPRESSION"
            )
        column = convert(column)
    return column.alias(name)


def _problem(error: AnalysisException | ParseException) -> str:
    return _CONDITION.sub("", first_line(str(error)))
