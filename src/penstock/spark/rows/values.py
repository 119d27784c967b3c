"""The value of a row, and the other parts of the record that it is judged as: columns of Spark.

All of them are expressions that Spark resolves later: nothing here looks at the columns of a frame,
which is not allowed where a declarative pipeline defines its tables.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pyspark.sql import functions as F  # noqa: N812 - as everybody names it

from penstock.configuration import ConfigurationError
from penstock.spark.arguments import check_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column

VALUE: Final = "value"
VERDICT: Final = "verdict"
_IGNORED_NULLS: Final = {"null": "false", "missing": "true"}
NULLS: Final = tuple(_IGNORED_NULLS)
"""What may become of a null column: null in the value, or no field."""


class RecordColumns(NamedTuple):
    """The columns of a frame that are parts of the record, and not of its value.

    Attributes:
        key: Bytes or text; other types as Spark casts them to text.
        headers: An array of structs of `key` and `value`, or a map.
        timestamp: A timestamp, or what Spark casts to one.
        topic: Text.
    """

    key: str | None = None
    headers: str | None = None
    timestamp: str | None = None
    topic: str | None = None

    def check(self, function: str) -> None:
        """Check the arguments of a function.

        Raises:
            ConfigurationError: One is not the name of a column, or two are the same.
        """
        names = {name: column for name, column in self._asdict().items() if column is not None}
        for name, column in names.items():
            check_text(column, f"{function}: {name}", such_as="the name of a column")
        if len(set(names.values())) < len(names):
            raise ConfigurationError(
                f"{function}: {' and '.join(names)} name the same column; each needs its own"
            )

    def check_fields(self, fields: Sequence[Any], function: str) -> None:
        """Check that a frame has these columns, and no two of one name.

        Args:
            fields: The fields of its schema in Spark.

        Raises:
            ConfigurationError: It has not, or the headers are of another type.
        """
        names = [field.name for field in fields]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ConfigurationError(
                f"{function}: the frame has two columns {twice[0]}; rename or drop one"
            )
        of_names = {field.name.lower(): field.dataType for field in fields}
        for part, column in self._asdict().items():
            if column is None:
                continue
            if column.lower() not in of_names:
                raise ConfigurationError(
                    f"{function}: {part}: there is no column {column}; the rows have "
                    f"{', '.join(names)}"
                )
            kind = of_names[column.lower()]
            if part == "headers" and not _can_be_headers(kind):
                raise ConfigurationError(
                    f"{function}: headers: {column} must be an array of structs of key and value, "
                    f"or a map, not {kind.simpleString()}"
                )

    def arguments(self) -> dict[str, Column]:
        """Return the parts of records, by name, without the value."""
        parts = {}
        if self.key is not None:
            # A binary column stays what it is: Spark takes its bytes for those of the text.
            parts["key"] = _column(self.key).cast("string").cast("binary")
        if self.headers is not None:
            parts["headers"] = _column(self.headers)
        if self.timestamp is not None:
            parts["timestamp"] = _column(self.timestamp).cast("timestamp")
        if self.topic is not None:
            parts["topic"] = _column(self.topic).cast("string")
        return parts


def value_of(left_out: list[str], nulls: str) -> Column:
    """Return the row as JSON, without some columns.

    Args:
        left_out: The names of the columns, some of which may be missing.
        nulls: One of `NULLS`.
    """
    row = F.struct("*")
    return json_of(row.dropFields(*map(quoted, left_out)) if left_out else row, nulls)


def json_of(row: Column, nulls: str) -> Column:
    """Return a struct as JSON, as the value of a row."""
    return F.to_json(row, {"ignoreNullFields": _IGNORED_NULLS[nulls]})


def quoted(name: str) -> str:
    """Return a name of a column as Spark reads it, whatever it consists of."""
    return "`" + name.replace("`", "``") + "`"


def _can_be_headers(kind: Any) -> bool:
    name = type(kind).__name__
    if name == "ArrayType":
        parts = getattr(kind.elementType, "names", ())
        return set(parts) == {"key", "value"}
    return name in {"MapType", "NullType"}


def _column(name: str) -> Column:
    return F.col(quoted(name))
