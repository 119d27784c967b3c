"""`pyspark.pipelines` with expectations.

::

    from penstock import pipelines as dp

    @dp.table
    @dp.expect("dated", "order_date IS NOT NULL")
    @dp.expect_or_drop("positive", "amount > 0")
    def orders():
        return spark.readStream.table("raw")

Names, parameters and meaning are those of Databricks' expectations, so that a project moves by
changing an import. Each name of `pyspark.pipelines` is here, too. Needs PySpark 4.1 or newer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

try:
    from pyspark import pipelines as _pipelines
except ImportError as error:
    raise ImportError(
        "penstock.pipelines needs PySpark 4.1 or newer: pip install 'pyspark[pipelines]'"
    ) from error

from penstock.spark.pipelines.datasets import (
    append_flow,
    create_streaming_table,
    materialized_view,
    table,
    temporary_view,
)
from penstock.spark.pipelines.expectations import Action, expectations_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.spark.pipelines.expectations import Decorator

__all__ = [
    "append_flow",
    "create_streaming_table",
    "expect",
    "expect_all",
    "expect_all_or_drop",
    "expect_all_or_fail",
    "expect_or_drop",
    "expect_or_fail",
    "materialized_view",
    "table",
    "temporary_view",
]
__all__ += [name for name in _pipelines.__all__ if name not in __all__]


def __getattr__(name: str) -> Any:
    """Return what only `pyspark.pipelines` has, in the version that is installed."""
    if name in _pipelines.__all__:
        return getattr(_pipelines, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def expect(description: str, constraint: str) -> Decorator:
    """Count the rows of a dataset that fail a condition; they stay in it.

    Args:
        description: The name of the expectation in the counts.
        constraint: A SQL expression. A row fails it if it is false or null.

    Raises:
        TypeError: An argument is not a string, or is empty.
    """
    return expect_all({description: constraint})


def expect_or_drop(description: str, constraint: str) -> Decorator:
    """Leave the rows that fail a condition out of a dataset, and count them; see `expect`."""
    return expect_all_or_drop({description: constraint})


def expect_or_fail(description: str, constraint: str) -> Decorator:
    """Let an update fail at a row that fails a condition; see `expect`."""
    return expect_all_or_fail({description: constraint})


def expect_all(expectations: Mapping[str, str]) -> Decorator:
    """Count the rows of a dataset that fail conditions; they stay in it.

    Args:
        expectations: SQL expressions by description; see `expect`.

    Raises:
        TypeError: A description or an expression is not a string, or is empty.
    """
    return expectations_of(expectations, Action.KEEP)


def expect_all_or_drop(expectations: Mapping[str, str]) -> Decorator:
    """Leave the rows that fail any condition out of a dataset; see `expect_all`."""
    return expectations_of(expectations, Action.DROP)


def expect_all_or_fail(expectations: Mapping[str, str]) -> Decorator:
    """Let an update fail at a row that fails any condition; see `expect_all`."""
    return expectations_of(expectations, Action.FAIL)
