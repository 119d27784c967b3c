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

Only this package imports PySpark. It distributes: `execution` runs tasks of `penstock.jobs`,
`jobs` are those over frames, `frames` and `values` are columns of records, `rows` are those of any
table, `pipelines` are declarative pipelines; `source`, `sink` and `streams` read and write. The
verdict on a record is `penstock.engine`'s. Begin with `functions.py` and `verdicts.py`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from penstock.jobs.plan import RecordPlan, load_plan
    from penstock.jobs.report.results import as_datacontract, as_openlineage
    from penstock.spark.execution.settings import SETTINGS
    from penstock.spark.functions import audit, redact, redrive, split
    from penstock.spark.rows.audit import audit_rows
    from penstock.spark.rows.judged import judge_rows, split_rows
    from penstock.spark.rows.plan import RowPlan, plan
    from penstock.spark.source.data_source import PenstockDataSource, register
    from penstock.spark.verdicts import apply, close_policies, judge

__all__ = [
    "SETTINGS",
    "PenstockDataSource",
    "RecordPlan",
    "RowPlan",
    "apply",
    "as_datacontract",
    "as_openlineage",
    "audit",
    "audit_rows",
    "close_policies",
    "judge",
    "judge_rows",
    "load_plan",
    "plan",
    "redact",
    "redrive",
    "register",
    "split",
    "split_rows",
]

_MODULES: Final = {
    "SETTINGS": "penstock.spark.execution.settings",
    "PenstockDataSource": "penstock.spark.source.data_source",
    "RecordPlan": "penstock.jobs.plan",
    "RowPlan": "penstock.spark.rows.plan",
    "apply": "penstock.spark.verdicts",
    "as_datacontract": "penstock.jobs.report.results",
    "as_openlineage": "penstock.jobs.report.results",
    "audit": "penstock.spark.functions",
    "audit_rows": "penstock.spark.rows.audit",
    "close_policies": "penstock.spark.verdicts",
    "judge": "penstock.spark.verdicts",
    "judge_rows": "penstock.spark.rows.judged",
    "load_plan": "penstock.jobs.plan",
    "plan": "penstock.spark.rows.plan",
    "redact": "penstock.spark.functions",
    "redrive": "penstock.spark.functions",
    "register": "penstock.spark.source.data_source",
    "split": "penstock.spark.functions",
    "split_rows": "penstock.spark.rows.judged",
}


def __getattr__(name: str) -> Any:
    """Import a name's module when it is first used.

    Executors that only judge do without the data source, and the daemon of Spark's workers, which
    forks, without any of them.
    """
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        module = importlib.import_module(_MODULES[name])
    except ModuleNotFoundError as error:
        if error.name != "pyspark.sql.datasource":
            raise
        raise ImportError('format("penstock") needs PySpark 4.0 or newer') from None
    return getattr(module, name)
