"""The pipeline: the gateway's policies over records that are stored or still flowing.

::

    from penstock.spark import apply, judge, load_plan

    plan = load_plan("/etc/penstock/penstock.properties")
    records = spark.read.format("kafka").options(...).option("includeHeaders", "true").load()
    judge(records, plan).groupBy("verdict").count().show()

Needs `penstock[spark]`, also where Spark's executors run.
"""

from penstock.spark.plan import RecordPlan, load_plan
from penstock.spark.verdicts import apply, close_policies, judge

__all__ = ["RecordPlan", "apply", "close_policies", "judge", "load_plan"]
