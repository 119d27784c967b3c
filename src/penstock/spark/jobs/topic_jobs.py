"""The jobs over topics that `penstock.spark` has as functions; each as its command does it."""

from __future__ import annotations

import dataclasses
import time
import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from penstock.configuration import ConfigurationError
from penstock.engine.modes.dead_letters import PARKED_SUFFIX
from penstock.engine.verdict import OF_RECORDS
from penstock.jobs.audit import audit_raw
from penstock.jobs.batches.letter_topics import LetterTopics
from penstock.jobs.contracts import measured_contracts
from penstock.jobs.redrive_job import outcomes_of, prepare_redrive
from penstock.jobs.report.summary import summarize
from penstock.jobs.subject import subject_of
from penstock.jobs.tasks.planning import plan_tasks
from penstock.jobs.tasks.writing_task import ACCEPTED, REJECTED
from penstock.jobs.topics.stored_topics import StoredTopics
from penstock.jobs.topics.topic_settings import own_settings
from penstock.jobs.writing_job import WritingJob, write_topics
from penstock.kafka.client.positions import check_job
from penstock.kafka.cluster.topic_names import parse
from penstock.spark.execution.task_runner import SparkRunner
from penstock.spark.frames.frame_columns import check_columns
from penstock.spark.jobs.audit import AUDITED
from penstock.spark.jobs.audit import audit as frame_audit
from penstock.spark.jobs.data_sets import measure_frame, measure_topics
from penstock.spark.verdicts import check_arguments, topic_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from penstock.jobs.data_sets import RuleKey
    from penstock.jobs.plan import RecordPlan
    from penstock.jobs.report.counts import Reason, RecordCounts
    from penstock.jobs.report.document import Report
    from penstock.kafka.cluster.offsets import Topic
    from penstock.policies.data_contract.data_set import Totals

_REASONS_MAX: Final = 1000


@dataclass(frozen=True)
class JobResult:
    """What a job over topics did.

    Attributes:
        counts: Records by what became of them.
        reasons: Why records were not accepted, the most frequent first.
        done_before: Offsets that an earlier run of the same job had done.
        removed: Offsets that retention removed before they were read.
        job: What the job's place is kept under.
        plans: The digest of each topic's plan, as `penstock check` prints it.
        others: Of `redrive`: how many letters stay because they are of other topics, by topic.
    """

    counts: Mapping[str, int]
    reasons: Sequence[tuple[Reason, int]] = field(default=())
    done_before: int = 0
    removed: int = 0
    job: str = ""
    plans: Mapping[str, str] = field(default_factory=dict)
    others: Mapping[str, int] = field(default_factory=dict)

    def __getattr__(self, name: str) -> Any:
        """Return a count by its name, such as `accepted`."""
        counts = self.__dict__.get("counts", {})
        if name not in counts:
            raise AttributeError(name)
        return counts[name]


def audit_frame(
    df: DataFrame, plan: RecordPlan, *, other: RecordPlan | None, topic: str | None
) -> Report:
    """Judge the records of a frame; see `penstock.spark.functions.audit`."""
    check_arguments("audit", df, plan, topic)
    if df.isStreaming:
        raise ConfigurationError(
            "a stream has no end to report at; call audit in foreachBatch, or of topics"
        )
    check_columns(
        df.dtypes, AUDITED, "an audit reports", optional=("headers",), judged_columns=plan.columns
    )
    began, topic = time.monotonic(), topic_of(plan, topic)
    counts = frame_audit(df, plan, other=other, topic=topic)
    names = sorted(filter(None, counts.by_topic()))
    contracts = measured_contracts(plan, names, lambda _: measure_frame(df, plan, topic))
    about = subject_of("a frame", names, plan, other, seconds=time.monotonic() - began)
    report = summarize(counts, about.model_copy(update={"is_topic": False}))
    return report.model_copy(update={"contracts": contracts})


def audit_topics(
    spark: SparkSession,
    source: str,
    plan: RecordPlan,
    *,
    start: str,
    end: str,
    other: RecordPlan | None,
) -> Report:
    """Judge the records of topics; see `penstock.spark.functions.audit`."""
    began = time.monotonic()
    there = _topics_of(plan)
    topics = there.sources(source, warn=_warn)
    plan = _plan_of(there, plan, topics)
    other = None if other is None else _plan_of(there, other, topics)
    ranges = there.cluster.ranges(topics, start, end)
    runner, names = SparkRunner(spark), [topic.name for topic in topics]
    raw_audit = audit_raw(
        runner, there.access, ranges, plan, other=other, sizes=there.sizes(topics)
    )

    def measure(some: Collection[str]) -> Mapping[RuleKey, Totals]:
        tasks = plan_tasks(
            [offset_range for offset_range in ranges if offset_range.topic in some],
            cores=runner.cores,
        )
        return measure_topics(spark, there.access, tasks, plan)

    contracts = measured_contracts(plan, names, measure)
    about = subject_of(
        source,
        names,
        plan,
        other,
        ranges=ranges,
        coverage=raw_audit.coverage,
        seconds=time.monotonic() - began,
    )
    return summarize(raw_audit.counts, about).model_copy(update={"contracts": contracts})


def split_topics(
    spark: SparkSession,
    source: str,
    plan: RecordPlan,
    *,
    accepted: str,
    rejected: str,
    start: str,
    end: str,
    job: str | None,
    again: bool,
) -> JobResult:
    """Write records to one of two topics; see `penstock.spark.functions.split`."""
    targets = {ACCEPTED: accepted, REJECTED: rejected}
    return _written(spark, plan, WritingJob("split", source, targets, start, end, job, again))


def redact_topics(
    spark: SparkSession,
    source: str,
    plan: RecordPlan,
    *,
    target_name: str,
    start: str,
    job: str | None,
    again: bool,
) -> JobResult:
    """Rewrite records into a topic; see `penstock.spark.functions.redact`."""
    plan.interceptors_only()  # before the cluster is contacted
    writing_job = WritingJob(
        "redact", source, {ACCEPTED: target_name}, start, name=job, again=again
    )
    return _written(spark, plan, writing_job)


def redrive_topic(
    spark: SparkSession,
    source: str,
    plan: RecordPlan,
    *,
    target_name: str,
    topic: str | None,
    repair: str | None,
    max_replays: int,
) -> JobResult:
    """Judge dead letters again; see `penstock.spark.functions.redrive`."""
    if target_name == source + PARKED_SUFFIX:
        raise ConfigurationError(
            f"redrive: records that fail too often are written to {target_name}"
        )
    if repair is not None:
        plan = plan.with_interceptor(repair)  # before the cluster is contacted
    there = _topics_of(plan)
    letters, target = there.cluster.topic(source), there.cluster.topic(target_name)
    plan = _plan_of(there, plan, (target,))
    if not plan.has_policy(target_name):
        _warn(
            f"redrive: no policy of {plan.path} judges topic {target_name}: its letters all return"
        )
    topics = LetterTopics((target_name,) if topic is None else parse(topic))
    redrive_job = prepare_redrive(
        there, letters, target, plan, topics=topics, max_replays=max_replays
    )
    runner = SparkRunner(spark)
    scanned = redrive_job.scan(runner, runner.counter())
    scanned.check(f"redrive: source: {source}")
    writing_result = redrive_job.write(there, runner)
    result = _result(
        writing_result.counts,
        outcomes_of(writing_result.counts),
        writing_result.before,
        redrive_job.work.job,
        plan.digests_of([target_name]),
    )
    return dataclasses.replace(result, others=scanned.others)


def _written(spark: SparkSession, plan: RecordPlan, job: WritingJob) -> JobResult:
    if job.name is not None:
        check_job(job.name, "job")
    there = _topics_of(plan)
    topics = there.sources(job.source, job.targets.values(), key="source", warn=_warn)
    plan = _plan_of(there, plan, topics)
    digests = plan.digests_of(topic.name for topic in topics)
    if job.command == "redact":
        plan = plan.interceptors_only()
    ranges = there.cluster.ranges(topics, job.start, job.end)
    what = f"{job.command} {job.source}"
    writing_run = write_topics(
        there, job, lambda: SparkRunner(spark), topics, ranges, plan, what=what, warn=_warn
    )
    outcomes = {outcome.value: writing_run.counts.outcomes[outcome.value] for outcome in OF_RECORDS}
    return _result(writing_run.counts, outcomes, writing_run.done_before, writing_run.job, digests)


def _warn(text: str) -> None:
    warnings.warn(text, stacklevel=1)  # the caller is at a varying depth


def _result(
    counts: RecordCounts,
    outcomes: Mapping[str, int],
    done_before: int,
    job: str,
    plans: Mapping[str, str],
) -> JobResult:
    reasons, _ = counts.reasons.most_common(_REASONS_MAX)
    return JobResult(outcomes, tuple(reasons), done_before, counts.removed, job, plans)


def _topics_of(plan: RecordPlan) -> StoredTopics:
    """Return the topics of a plan's cluster; nothing is contacted."""
    configuration = plan.configuration
    places = configuration.redrive_places_topic
    return StoredTopics(configuration.upstream_properties, plan.path, places)


def _plan_of(there: StoredTopics, plan: RecordPlan, topics: Sequence[Topic]) -> RecordPlan:
    """Return a plan with the ids and the own settings of topics."""
    ids = {topic.name: topic.topic_id for topic in topics}
    return plan.for_topics(ids, own_settings(plan.configuration, there.properties, topics))
