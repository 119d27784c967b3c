"""The tasks of `format("penstock")`."""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition

from penstock.jobs.tasks.planning import Limit, plan_tasks

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from uuid import UUID

    from penstock.jobs.tasks.planning import Sizes, Task
    from penstock.kafka.cluster.ranges import OffsetRange


class SourceTask(InputPartition):
    """Some offset ranges, with the ids of their topics."""

    def __init__(self, task: Task, topic_ids: Mapping[str, UUID]) -> None:
        topics = dict.fromkeys(offset_range.topic for offset_range in task.ranges)
        self.ranges = tuple(task.wanted(topic_ids))
        super().__init__(
            f"{sum(offset_range.offsets for offset_range in task.ranges)} offsets of {len(topics)}"
        )


def source_tasks(
    ranges: Sequence[OffsetRange], topic_ids: Mapping[str, UUID], sizes: Sizes, least: int | None
) -> list[InputPartition]:
    """Cut ranges into tasks.

    A partition is one task, in the order of its offsets, as in Spark's Kafka source. A partition is
    cut only if you want more tasks than there are partitions; its parts have no order.

    Args:
        ranges: The ranges to read.
        sizes: How large the records are.
        least: The number of tasks that is aimed at, at least; None for a number by their size.
    """
    with_records = [offset_range for offset_range in ranges if offset_range.offsets]
    # How many cores the executors have is not known here.
    cores = os.cpu_count() or 1
    if least is None:
        tasks = plan_tasks(with_records, cores=cores, sizes=sizes, ordered=True)
    elif least <= len({offset_range.of for offset_range in with_records}):
        tasks = plan_tasks(with_records, cores=least, sizes=sizes, ordered=True, at_once=True)
    else:
        offsets = sum(offset_range.offsets for offset_range in with_records)
        limit = Limit(max(math.ceil(offsets / least), 1))
        tasks = plan_tasks(with_records, cores=cores, sizes=sizes, limit=limit)
    return [SourceTask(task, topic_ids) for task in tasks]
