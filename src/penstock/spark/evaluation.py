"""The function that runs in Spark's Python workers: Arrow batches in, verdicts out.

A worker process serves one task after another. Policies are loaded and configured when the
first of them comes, and closed by `close_policies`, or when a task ends in a worker that is not
used again. Spark ends its workers without a chance to do anything more, so a session that
just stops closes nothing.
"""

from __future__ import annotations

import atexit
import os
import sys
import time
from collections.abc import Iterator  # noqa: TC003 - Spark reads the annotations
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from penstock.configuration import ConfigurationError
from penstock.engine.chain import Chain, RecordVerdicts, unusable
from penstock.engine.instances import PolicyInstances
from penstock.engine.plan import NO_SETTINGS, Plan, TopicPlan
from penstock.engine.verdict import failed
from penstock.spark.asking_again import decided
from penstock.spark.rows import Rows, runs, verdict_array
from penstock.wire.names import NO_ID

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.engine.chain import KeysAndValues
    from penstock.engine.columns import RecordColumns
    from penstock.engine.verdict import Verdict
    from penstock.spark.plan import RecordPlan

Arrays = tuple[pa.Array, ...]

_CHAINS_CACHED: Final = 10_000


class Evaluator:
    """The policies of one plan in one process."""

    def __init__(self, plan: RecordPlan) -> None:
        self._plan = plan
        self._topics = Plan(plan.policies)
        self._policies = PolicyInstances(plan.policies, self._topics.names)
        self._topics.set_interceptor_patterns(self._policies.patterns)
        self._chains: dict[str, Chain | Verdict] = {}

    def judge(self, columns: dict[str, pa.Array], topic: str | None) -> pa.StructArray:
        """Return the verdicts about a batch; `topic` where there is no column of it."""
        return verdict_array(len(columns["partition"]), self._judge_each(columns, topic)[0])

    def apply(self, columns: dict[str, pa.Array], topic: str | None) -> pa.StructArray:
        """Return the verdicts about a batch, with the new keys and values."""
        verdicts, replaced = self._judge_each(columns, topic)
        keys, values = columns["key"], columns["value"]
        if replaced:
            new_keys, new_values = keys.to_pylist(), values.to_pylist()
            for start, (some_keys, some_values) in replaced:
                new_keys[start : start + len(some_keys)] = some_keys
                new_values[start : start + len(some_values)] = some_values
            keys, values = pa.array(new_keys, pa.binary()), pa.array(new_values, pa.binary())
        verdict = verdict_array(len(keys), verdicts)
        return pa.StructArray.from_arrays([verdict, keys, values], ["verdict", "key", "value"])

    def judge_records(
        self, topic: str | None, partition: int, records: RecordColumns
    ) -> RecordVerdicts:
        """Return what becomes of records of one partition, each as if it had been sent alone.

        Args:
            topic: Their topic; where it is not known, all of them fail.
            partition: Their partition.
            records: In the order of their offsets.

        Raises:
            PostponedError: A policy cannot decide, even after a while: the task fails, and Spark
                tries it again.
        """
        chain = self.chain(topic)
        if not isinstance(chain, Chain):
            return RecordVerdicts([(index, chain) for index in range(records.count)], None)
        if chain.is_empty:
            return RecordVerdicts((), None)
        return decided(
            lambda: chain.judge_each(
                partition,
                self._plan.topic_ids.get(topic or "", NO_ID),
                records,
                records_policy_batch=self._plan.records_policy_batch,
            ),
            self._plan.ask_again_s,
        )

    def close(self) -> None:
        """Close the policies."""
        for complaint in self._policies.close():
            sys.stderr.write(f"close() failed: {complaint}\n")

    def _judge_each(
        self, columns: dict[str, pa.Array], one_topic: str | None
    ) -> tuple[list[tuple[int, Verdict]], list[tuple[int, KeysAndValues]]]:
        rows = Rows(columns)
        verdicts: list[tuple[int, Verdict]] = []
        replaced = []
        topics = columns["topic"] if one_topic is None else one_topic
        for start, end, topic, partition in runs(topics, columns["partition"]):
            decided = self.judge_records(topic, partition, rows.columns(start, end))
            verdicts += ((start + index, verdict) for index, verdict in decided.verdicts)
            if decided.replaced is not None:
                replaced.append((start, decided.replaced))
        return verdicts, replaced

    def chain(self, topic: str | None) -> Chain | Verdict:
        """Return a topic's chain, or the verdict about all its records where there is none."""
        if topic is None:
            return failed("of this topic", "cannot be known: the record has no topic")
        found = self._chains.get(topic)
        if found is None:
            if len(self._chains) >= _CHAINS_CACHED:
                self._chains.clear()
            own = self._plan.topic_settings.get(topic, NO_SETTINGS)
            plan = self._topics.for_topic(topic, own) or TopicPlan(topic=topic)
            try:
                found = Chain(plan, self._policies)
            except ConfigurationError as error:
                found = unusable(plan, error)
            self._chains[topic] = found
        return found


def verdicts(
    plan: RecordPlan, names: Sequence[str], *, replacing: bool, topic: str | None
) -> Callable[[Iterator[Arrays]], Iterator[pa.Array]]:
    """Make the function that Spark calls once in each task.

    Args:
        plan: The policies.
        names: The columns that come, in their order; `partition` among them, and `topic`
            unless `topic` is given.
        replacing: Whether keys and values are returned besides the verdicts.
        topic: The one topic of all records.
    """

    def evaluate(batches: Iterator[Arrays]) -> Iterator[pa.Array]:
        return _evaluated(batches, plan, names, replacing, topic)

    return evaluate


def _evaluated(
    batches: Iterator[Arrays],
    plan: RecordPlan,
    names: Sequence[str],
    replacing: bool,
    topic: str | None,
) -> Iterator[pa.Array]:
    evaluator = evaluator_of(plan)
    judge = evaluator.apply if replacing else evaluator.judge
    for arrays in batches:
        yield judge(dict(zip(names, arrays, strict=True)), topic)
    task_ended()


def task_ended() -> None:
    """Close this process's policies if it is not used for another task."""
    if not os.environ.get("SPARK_REUSE_WORKER"):
        _close_all()


def close_in_worker(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Close this process's policies; for `DataFrame.mapInArrow`."""
    for batch in batches:
        _close_all()
        time.sleep(_CLOSE_TASK_S)  # so that the other tasks come to other workers
        yield batch


_CLOSE_TASK_S: Final = 0.3
_evaluators: Final[dict[str, Evaluator]] = {}


def evaluator_of(plan: RecordPlan) -> Evaluator:
    """Return this process's policies of a plan, which are loaded the first time.

    Raises:
        ConfigurationError: A policy cannot be loaded or configured here.
    """
    found = _evaluators.get(plan.fingerprint)
    if found is None:
        if not _evaluators:
            atexit.register(_close_all)
        found = _evaluators[plan.fingerprint] = Evaluator(plan)
    return found


def _close_all() -> None:
    while _evaluators:
        _evaluators.popitem()[1].close()
