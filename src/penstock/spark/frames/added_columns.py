"""Columns that are added to frames."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 - as everybody names it

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_OTHERS: Final = "__penstock_others"
_REGISTRY: Final = "pyspark.pipelines.graph_element_registry"


def with_column(frame: DataFrame, name: str, column: Column) -> DataFrame:
    """Return a frame with a column, instead of another of its name, as `withColumn` does.

    In a query function of a declarative pipeline, `withColumn` has a server analyse the frame. It
    then takes tables of the pipeline for tables of the catalog, and an update reads them before it
    has written them. So there the column is selected instead.
    """
    if not is_in_pipeline():
        return frame.withColumn(name, column)
    others = F.struct("*").dropFields(name).alias(_OTHERS)
    return frame.select(others, column.alias(name)).select(f"{_OTHERS}.*", name)


def is_in_pipeline() -> bool:
    """Whether the definitions of a declarative pipeline are being read."""
    module = sys.modules.get(_REGISTRY)
    if module is None:
        return False
    try:
        module.get_active_graph_element_registry()
    except Exception:  # an error of PySpark, which differs with its version
        return False
    return True
