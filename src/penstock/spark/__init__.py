"""The pipeline: the gateway's policies over stored records and streams.

::

    from penstock.spark import audit, load_plan, split

    plan = load_plan("/etc/penstock/penstock.properties")
    report = audit("orders", plan)

    records = (
        spark.read.format("penstock")
        .option("plan", "/etc/penstock/penstock.properties")
        .option("subscribe", "orders")
        .load()
    )
    records.groupBy("verdict.outcome", "verdict.message").count().show()

or, over any frame with the columns of Spark's Kafka source::

    accepted, rejected = split(frame, plan)

Needs `penstock-kafka[spark]`, also on Spark's executors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from penstock.spark.functions import audit, redact, redrive, split
from penstock.spark.verdicts import apply, close_policies, judge
from penstock.stored.plan import RecordPlan, load_plan

if TYPE_CHECKING:
    from penstock.spark.source.data_source import PenstockDataSource, register

__all__ = [
    "PenstockDataSource",
    "RecordPlan",
    "apply",
    "audit",
    "close_policies",
    "judge",
    "load_plan",
    "redact",
    "redrive",
    "register",
    "split",
]

_LAZY: Final = frozenset({"PenstockDataSource", "register"})


def __getattr__(name: str) -> Any:
    """Import the data source when it is first used: executors that only judge do without it."""
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from penstock.spark.source import data_source  # noqa: PLC0415
    except ModuleNotFoundError as error:
        if error.name != "pyspark.sql.datasource":
            raise
        raise ImportError('format("penstock") needs PySpark 4.0 or newer') from None
    return getattr(data_source, name)
