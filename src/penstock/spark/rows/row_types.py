"""The types of rows for workers, where nothing may look at the columns of a frame.

That is so in the query functions of a declarative pipeline: the columns are known where the update
runs. There, Arrow's arrays have the types, also of a column that is null in each row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812 - as everybody names it

from penstock.configuration import ConfigurationError
from penstock.spark.rows.columns.faults import faults_of

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    import pyarrow as pa
    from pyspark.sql import Column

    from penstock.spark.rows.columns.faults import Demand

TYPES: Final = "types"
"""The part of a row that has the types of its columns, and nothing else."""


def types_of(row: Column) -> Column:
    """Return a column that is null, and has the type of an array of rows.

    Args:
        row: The rows, as structs.
    """
    return F.when(F.lit(False), F.array(row))


class TypesCheck(NamedTuple):
    """Checks in a worker that rows can meet a plan.

    Attributes:
        title: What judges the rows, for errors.
        demands: Those of the plan.
        others: The names of columns that are not part of the value.
    """

    title: str
    demands: Sequence[Demand]
    others: Collection[str] = ()

    def check(self, types: pa.Array) -> None:
        """Check the first batch of a task.

        Args:
            types: The part `TYPES`.

        Raises:
            ConfigurationError: No row can meet a policy.
        """
        fields = _fields(types.type)
        if fields is not None and (error := faults_of(self.demands, fields, self.others).error):
            raise ConfigurationError(f"{self.title}: {error}")


def _fields(kind: pa.DataType) -> Sequence[Any] | None:
    """Return the fields of rows, in Spark; None if PySpark does not know a type of Arrow's."""
    from pyspark.sql.pandas.types import from_arrow_type  # noqa: PLC0415 - needs pandas

    try:
        row: Any = from_arrow_type(kind.value_type)
    except PySparkException:
        return None
    fields: Sequence[Any] = row.fields
    return fields
