"""The pipeline: the gateway's policies over records that are stored or still flowing.

::

    from penstock.spark import register

    register(spark)
    records = (
        spark.read.format("penstock")
        .option("plan", "/etc/penstock/penstock.properties")
        .option("subscribe", "orders")
        .load()
    )
    records.groupBy("verdict.outcome", "verdict.message").count().show()

or, over any frame with the columns of Spark's Kafka source::

    from penstock.spark import load_plan, split

    accepted, rejected = split(frame, load_plan("/etc/penstock/penstock.properties"))

Needs `penstock[spark]`, also where Spark's executors run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from penstock.spark.split import split
from penstock.spark.verdicts import apply, close_policies, judge
from penstock.stored.plan import RecordPlan, load_plan

if TYPE_CHECKING:
    from penstock.spark.data_source import PenstockDataSource, register

__all__ = [
    "PenstockDataSource",
    "RecordPlan",
    "apply",
    "close_policies",
    "judge",
    "load_plan",
    "register",
    "split",
]

_LAZY: Final = frozenset({"PenstockDataSource", "register"})


def __getattr__(name: str) -> Any:
    """Import the data source when it is first used: executors that only judge do without it."""
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from penstock.spark import data_source  # noqa: PLC0415

    return getattr(data_source, name)
