"""Has Spark do the micro-batches of a stream."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from penstock.jobs.tasks.writing import write_raw
from penstock.kafka.client.positions import Claim
from penstock.spark.execution.task_runner import SparkRunner
from penstock.spark.verdicts import close_policies

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from uuid import UUID

    from pyspark.sql import SparkSession

    from penstock.jobs.plan import RecordPlan
    from penstock.jobs.tasks.planning import Sizes
    from penstock.jobs.tasks.writing_task import WritingResult, WritingTask
    from penstock.kafka.cluster.offsets import Topic
    from penstock.spark.streams.offsets import MicroBatch

BUDGET_S: Final = 5.0
"""How long a task works on its ranges: the end of a stream waits for the running tasks."""


class StreamWork:
    """Does micro-batches with the policies of a plan."""

    def __init__(
        self,
        spark: SparkSession,
        task: WritingTask,
        *,
        plan_of: Callable[[Mapping[str, Topic]], RecordPlan],
        sizes_of: Callable[[Mapping[str, Topic]], Sizes],
        again: bool = False,
    ) -> None:
        """Prepare.

        Args:
            task: The work of tasks; its `run` is the id of the run.
            plan_of: Returns the plan for new topics.
            sizes_of: Returns how large the records of topics are.
            again: What earlier runs of the job have committed does not count.
        """
        self._spark = spark
        self._runner = SparkRunner(spark)
        self._again = again
        self._task = replace(task, budget_s=BUDGET_S)
        self._plan_of = plan_of
        self._sizes_of = sizes_of
        self._ids: dict[str, UUID] = dict(task.topic_ids)
        self._sizes: Sizes | None = None

    def __call__(
        self,
        batch: MicroBatch,
        counted_as: str,
        topics: Mapping[str, Topic],
        earlier_runs: frozenset[str],
    ) -> WritingResult:
        """Do a micro-batch; see `penstock.spark.streams.stream.MicroBatchWork`."""
        ids = {name: topic.topic_id for name, topic in topics.items()}
        if not ids.items() <= self._ids.items():
            plan = self._plan_of(topics)
            # The policies of the plan before would stay in the workers.
            close_policies(self._spark, workers=self._runner.cores)
            self._task = replace(self._task, plan=plan, topic_ids=ids)
            self._ids, self._sizes = ids, None
        if self._sizes is None:
            self._sizes = self._sizes_of(topics)
        run = self._task.run
        task = replace(
            self._task,
            run=counted_as,
            turn=batch.number,
            claims={
                offset_range.of: Claim(run, earlier_runs, offset_range.start, self._again)
                for offset_range in (*batch.ranges, *batch.kept)
            },
            counted_as={
                (partition.topic, partition.number): as_
                for partition, as_ in batch.counted_as.items()
            },
        )
        return write_raw(
            self._runner,
            batch.ranges,
            task,
            sizes=self._sizes,
            empty_ranges=batch.kept,
            at_once=True,
        )
