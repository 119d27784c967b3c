"""`pyspark.pipelines` with expectations.

::

    from penstock import pipelines as dp

    @dp.table
    @dp.expect("dated", "order_date IS NOT NULL")
    @dp.expect_or_drop("positive", dp.cel("value.amount > 0"))
    @dp.expect_or_quarantine(orders_plan, into="orders_quarantine")
    def orders():
        return spark.readStream.table("raw")

Names, parameters and meaning are those of Databricks' expectations, so that a project moves by
changing an import. Each name of `pyspark.pipelines` is here, too. Needs PySpark 4.1 or newer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

try:
    from pyspark import pipelines as _pipelines
except ImportError as error:
    raise ImportError(
        "penstock.pipelines needs PySpark 4.1 or newer: pip install 'pyspark[pipelines]'"
    ) from error

from penstock.spark.pipelines.datasets import (
    append_flow,
    create_auto_cdc_flow,
    create_streaming_table,
    materialized_view,
    table,
    temporary_view,
)
from penstock.spark.pipelines.expectations import Action, Cel, decorator_of, expectation_of

if TYPE_CHECKING:
    from penstock.spark.pipelines.expectations import Constraint, Decorator

__all__ = [
    "append_flow",
    "cel",
    "create_auto_cdc_flow",
    "create_streaming_table",
    "expect",
    "expect_all",
    "expect_all_or_drop",
    "expect_all_or_fail",
    "expect_or_drop",
    "expect_or_fail",
    "expect_or_quarantine",
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


def cel(condition: str) -> Cel:
    """Return a constraint in CEL, a rule of the wire: `value.amount > 0`.

    Args:
        condition: As of the policy `Rules`. It refuses rows with null or missing fields.
    """
    return Cel(condition)


def expect(description: str, constraint: Constraint) -> Decorator:
    """Count the rows of a dataset that fail a condition; they stay in it.

    Args:
        description: The name of the expectation in the counts.
        constraint: A SQL expression, which a row fails if it is false or null. Or the rules of the
            wire: `cel(...)`, a plan (`penstock.spark.plan`), or a policy's class or instance.

    Raises:
        TypeError: The description or an expression is not a string, or is empty.
        ConfigurationError: A condition or a policy cannot be used.
    """
    return expect_all({description: constraint})


def expect_or_drop(description: str, constraint: Constraint) -> Decorator:
    """Leave the rows that fail a condition out of a dataset, and count them; see `expect`."""
    return expect_all_or_drop({description: constraint})


def expect_or_fail(description: str, constraint: Constraint) -> Decorator:
    """Let an update fail at a row that fails a condition; see `expect`."""
    return expect_all_or_fail({description: constraint})


def expect_or_quarantine(plan: Constraint, into: str) -> Decorator:
    """Move the rows that a plan refuses to a table of the pipeline, with the verdict on each.

    Args:
        plan: From `penstock.spark.plan` or `load_plan`, or the class or an instance of a policy, or
            `cel(...)`.
        into: The name of the table, and of the expectation in the counts.

    Raises:
        TypeError: The plan is a SQL expression, which has no verdict; or there is no table.
        ConfigurationError: A condition or a policy cannot be used.
    """
    if isinstance(plan, str):
        raise TypeError("expect_or_quarantine takes a plan; for a condition, write cel(...)")
    if not isinstance(into, str) or not into.strip():
        raise TypeError(f"expect_or_quarantine: into is the name of a table, not {into!r}")
    return decorator_of([expectation_of(into, plan, Action.QUARANTINE, into)])


def expect_all(expectations: Mapping[str, Constraint]) -> Decorator:
    """Count the rows of a dataset that fail conditions; they stay in it.

    Args:
        expectations: Constraints by description; see `expect`.

    Raises:
        TypeError: A description or an expression is not a string, or is empty.
        ConfigurationError: A condition or a policy cannot be used.
    """
    return _all_with(expectations, Action.KEEP)


def expect_all_or_drop(expectations: Mapping[str, Constraint]) -> Decorator:
    """Leave the rows that fail any condition out of a dataset; see `expect_all`."""
    return _all_with(expectations, Action.DROP)


def expect_all_or_fail(expectations: Mapping[str, Constraint]) -> Decorator:
    """Let an update fail at a row that fails any condition; see `expect_all`."""
    return _all_with(expectations, Action.FAIL)


def _all_with(expectations: Mapping[str, Constraint], action: Action) -> Decorator:
    if not isinstance(expectations, Mapping):
        raise TypeError("expectations are constraints by description: {description: constraint}")
    return decorator_of([expectation_of(*item, action) for item in expectations.items()])
