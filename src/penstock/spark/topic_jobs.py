"""The jobs over topics that `penstock.spark` has as functions; each as its command does it."""

from __future__ import annotations

import dataclasses
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from penstock.batch_jobs.redrive import AGAIN, DROPPED, RETURNED
from penstock.batch_jobs.targets import Target
from penstock.client.places import find_starts, read_places
from penstock.client.positions import Task as PositionTask
from penstock.client.positions import check_job, redrive_job
from penstock.cluster import topic_names
from penstock.cluster.offsets import Cluster, Topic
from penstock.cluster.ranges import OffsetRange, Partition
from penstock.configuration import ConfigurationError
from penstock.engine.dead_letters import PARKED_SUFFIX
from penstock.engine.verdict import OF_RECORDS
from penstock.report.document import About, RangeEntry, Report
from penstock.report.next_steps import keys_in_force
from penstock.report.summary import summarize
from penstock.spark.audit import audit as frame_audit
from penstock.spark.source_access import own_settings
from penstock.spark.task_runner import SparkRunner
from penstock.stored.access import ClusterAccess
from penstock.stored.audit import audit_raw
from penstock.stored.positions import (
    check_not_lost,
    claims,
    done_before,
    from_positions,
    job_id,
    known_positions,
    run_id,
    run_mark,
)
from penstock.stored.retention import log_was_cut
from penstock.stored.sizes import measured
from penstock.stored.writing import write_raw
from penstock.stored.writing_task import ACCEPTED, PARKED, REJECTED, WritingTask
from penstock.wire.names import NO_ID

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from penstock.client.places import Places
    from penstock.client.positions import Position
    from penstock.configuration import Configuration
    from penstock.report.counts import Reason
    from penstock.stored.plan import RecordPlan
    from penstock.stored.positions import Known
    from penstock.stored.tasks import Sizes

_REASONS_MAX: Final = 1000
_FORMER_GROUP: Final = "penstock-redrive"


@dataclass(frozen=True)
class JobResult:
    """What a job over topics did.

    Attributes:
        counts: Records by what became of them.
        reasons: Why records were not accepted, the most frequent first.
        done_before: Offsets that an earlier run of the same job had done.
        removed: Offsets that retention removed before they were read.
        job: What the job's place is kept under.
    """

    counts: Mapping[str, int]
    reasons: Sequence[tuple[Reason, int]] = field(default=())
    done_before: int = 0
    removed: int = 0
    job: str = ""

    def __getattr__(self, name: str) -> Any:
        """Return a count by its name, such as `accepted`."""
        counts = self.__dict__.get("counts", {})
        if name not in counts:
            raise AttributeError(name)
        return counts[name]


class Topics:
    """A plan's cluster."""

    def __init__(self, plan: RecordPlan) -> None:
        """Read the keys of the plan's file; nothing is contacted.

        Raises:
            ConfigurationError: A store cannot be read.
        """
        self._configuration: Configuration = plan.configuration
        self.properties = self._configuration.upstream_properties
        self.file = plan.path
        self.cluster = Cluster(self.properties, plan.path.parent)
        self.access = ClusterAccess.of(self.properties, plan.path)
        self.places_topic = self._configuration.redrive_places_topic

    def plan_of(self, plan: RecordPlan, topics: Sequence[Topic]) -> RecordPlan:
        """Return the plan with the ids and the own settings of topics."""
        ids = {one.name: one.topic_id for one in topics}
        return plan.for_topics(ids, own_settings(self._configuration, self.properties, topics))

    def sizes(self, topics: Sequence[Topic]) -> Sizes:
        """Return how large the records of topics are, as far as brokers tell."""
        return measured(self.access.connect(), self.cluster.ranges(topics, "earliest", "latest"))

    def places(self) -> Places:
        """Read how far jobs have come, as far as that is kept in the topic of places."""
        return read_places(
            self.properties, self.file, self.places_topic, key="redrive.places.topic", create=True
        )

    def known(self, job: str, topics: Sequence[Topic], places: Places) -> Known:
        """Return how far a job has come."""
        ids = {one.name: one.topic_id for one in topics}
        partitions = [Partition(one.name, number) for one in topics for number in one.partitions]
        return known_positions(self.access.connect(), job, ids, partitions, places)

    def filled(self, name: str) -> list[str]:
        """Return the name of a topic if it has records."""
        bounds = self.cluster.bounds(self.cluster.topic(name)).values()
        return [name] if any(end > start for start, end in bounds) else []

    def target(self, name: str) -> Target:
        """Return a topic to write to."""
        partitions = len(self.cluster.topic(name).partitions)
        return Target(name, partitions, self.cluster.max_message_bytes(name))


def audit_frame(
    df: DataFrame, plan: RecordPlan, *, other: RecordPlan | None, topic: str | None
) -> Report:
    """Judge the records of a frame; see `penstock.spark.functions.audit`."""
    if df.isStreaming:
        raise ConfigurationError(
            "a stream has no end to report at; call audit in foreachBatch, or of topics"
        )
    began = time.monotonic()
    counts = frame_audit(df, plan, other=other, topic=topic)
    names = sorted({one for one in counts.by_topic() if one})
    about = _about(plan, other, source="a frame", names=names, began=began)
    return summarize(counts, about.model_copy(update={"is_topic": False}))


def audit_topics(
    spark: SparkSession,
    given: str,
    plan: RecordPlan,
    *,
    start: str,
    end: str,
    other: RecordPlan | None,
) -> Report:
    """Judge the records of topics; see `penstock.spark.functions.audit`."""
    began = time.monotonic()
    there = Topics(plan)
    topics = there.cluster.topics(given)
    plan = there.plan_of(plan, topics)
    other = None if other is None else there.plan_of(other, topics)
    ranges = there.cluster.ranges(topics, start, end)
    found = audit_raw(
        SparkRunner(spark), there.access, ranges, plan, other=other, sizes=there.sizes(topics)
    )
    names = [one.name for one in topics]
    about = _about(plan, other, source=given, names=names, began=began)
    read = {"ranges": _entries(sorted(ranges)), "lost": _entries(found.coverage.lost)}
    return summarize(found.counts, about.model_copy(update=read))


def split_topics(
    spark: SparkSession,
    given: str,
    plan: RecordPlan,
    *,
    accepted: str,
    rejected: str,
    start: str,
    end: str,
    job: str | None,
) -> JobResult:
    """Write records to one of two topics; see `penstock.spark.functions.split`."""
    targets = {ACCEPTED: accepted, REJECTED: rejected}
    return _written(spark, "split", given, plan, targets, start, end, job)


def redact_topics(
    spark: SparkSession, given: str, plan: RecordPlan, *, to: str, start: str, job: str | None
) -> JobResult:
    """Rewrite records into a topic; see `penstock.spark.functions.redact`."""
    plan.interceptors_only()
    return _written(spark, "redact", given, plan, {ACCEPTED: to}, start, "latest", job)


def redrive_topic(
    spark: SparkSession,
    source: str,
    plan: RecordPlan,
    *,
    to: str,
    repair: str | None,
    max_replays: int,
) -> JobResult:
    """Judge dead letters again; see `penstock.spark.functions.redrive`."""
    there = Topics(plan)
    letters, target = there.cluster.topic(source), there.cluster.topic(to)
    parked = source + PARKED_SUFFIX
    if to == parked:
        raise ConfigurationError(f"redrive: {to} is where it parks what fails too often")
    plan = there.plan_of(plan, (target,))
    if repair is not None:
        plan = plan.with_interceptor(repair)
    job = redrive_job(target.name, target.topic_id)
    places = there.places()
    ranges = _dead_letters_left(there, letters, job, places, parked, target.name)
    there.cluster.create_like(parked, letters)
    targets = {ACCEPTED: to, REJECTED: source, PARKED: parked}
    known = there.known(job, (letters,), places)
    work = _work(there, "redrive", plan, (letters,), ranges, targets, job, known)
    work = dataclasses.replace(work, replays_max=max_replays)
    return _run(spark, there, (letters,), ranges, work, (RETURNED, AGAIN, PARKED, DROPPED))


def _written(
    spark: SparkSession,
    command: str,
    given: str,
    plan: RecordPlan,
    targets: Mapping[str, str],
    start: str,
    end: str,
    job: str | None,
) -> JobResult:
    there = Topics(plan)
    without = frozenset((*targets.values(), *(one + PARKED_SUFFIX for one in targets.values())))
    topics = there.cluster.topics(given, without=without)
    if both := sorted({one.name for one in topics} & set(targets.values())):
        raise ConfigurationError(f"topic {both[0]} cannot be written to while it is read")
    plan = there.plan_of(plan, topics)
    if command == "redact":
        plan = plan.interceptors_only()
    ranges = there.cluster.ranges(topics, start, end)
    name = (
        _job(there, command, given, topics, targets, start)
        if job is None
        else check_job(job, "job")
    )
    places = there.places()
    known = there.known(name, topics, places)
    if not known and start != "latest":
        filled = there.filled(targets[ACCEPTED])
        names = [one.name for one in topics]
        check_not_lost(
            name, names, filled, places, known, mark=run_mark(command, list(targets.values()))
        )
    goes_back = job is None or start in {"earliest", "latest"}
    begun = from_positions(ranges, known, goes_back=goes_back, to_end=goes_back and end == "latest")
    work = _work(there, command, plan, topics, begun, targets, name, known)
    done = _run(spark, there, topics, begun, work, tuple(one.value for one in OF_RECORDS))
    return dataclasses.replace(done, done_before=done.done_before + done_before(ranges, begun))


def _job(
    there: Topics,
    command: str,
    given: str,
    topics: Sequence[Topic],
    targets: Mapping[str, str],
    start: str,
) -> str:
    """Return the id that the command of the same name gives the job: either goes on."""
    names = topic_names.parse(given)
    if any(map(topic_names.is_glob, names)):
        topics = [Topic(name, NO_ID, ()) for name in names]
    written = [there.cluster.topic(one) for one in targets.values()]
    return job_id(command, topics, written, start)


def _work(
    there: Topics,
    command: str,
    plan: RecordPlan,
    topics: Sequence[Topic],
    ranges: Sequence[OffsetRange],
    targets: Mapping[str, str],
    job: str,
    known: Known,
) -> WritingTask:
    run = run_id(command, targets.values())
    return WritingTask(
        there.access,
        plan,
        {one.name: one.topic_id for one in topics},
        {name: there.target(topic) for name, topic in targets.items()},
        job,
        run,
        claims(job, run, ranges, known),
        places=there.places_topic,
    )


def _run(
    spark: SparkSession,
    there: Topics,
    topics: Sequence[Topic],
    ranges: Sequence[OffsetRange],
    work: WritingTask,
    outcomes: Sequence[str],
) -> JobResult:
    found = write_raw(SparkRunner(spark), ranges, work, sizes=there.sizes(topics))
    reasons, _ = found.counts.reasons.most_common(_REASONS_MAX)
    return JobResult(
        {one: found.counts.outcomes[one] for one in outcomes},
        tuple(reasons),
        found.before,
        found.counts.removed,
        work.job,
    )


def _dead_letters_left(
    there: Topics, letters: Topic, job: str, places: Places, parked: str, target: str
) -> tuple[OffsetRange, ...]:
    """Return what of a dead letter topic has not been worked through."""
    tasks = [PositionTask(job, letters.name, letters.topic_id, one) for one in letters.partitions]
    starts = find_starts(
        there.access.connect(),
        tasks,
        places,
        former_group=f"{_FORMER_GROUP}-{target}",
        sign=f"topic {parked} is there" if there.cluster.exists(parked) else "",
        remedy=f"say where to go on: kafka-consumer-groups --group {tasks[0].group} --topic "
        f"{letters.name} --reset-offsets --to-earliest (or --to-latest, --to-offset N) --execute",
    )
    bounds = there.cluster.bounds(letters)
    found = []
    for number in letters.partitions:
        first, end = bounds[number]
        position: Position | None = starts.get(number)
        if position is not None and position.offset > end:
            raise log_was_cut(
                OffsetRange(letters.name, number, first, end).of, end, position.offset
            )
        start = first if position is None else max(position.offset, first)
        found.append(OffsetRange(letters.name, number, start, end))
    return tuple(found)


def _about(
    plan: RecordPlan,
    other: RecordPlan | None,
    *,
    source: str,
    names: Sequence[str],
    began: float,
) -> About:
    return About(
        source=source,
        file=str(plan.path),
        fingerprint=plan.fingerprint,
        keys=keys_in_force(plan.policies.properties, tuple(names), plan.policies.topic_keys),
        other=None if other is None else str(other.path),
        seconds=round(time.monotonic() - began, 1),
    )


def _entries(ranges: Sequence[OffsetRange]) -> tuple[RangeEntry, ...]:
    return tuple(
        RangeEntry(topic=one.topic, partition=one.partition, start=one.start, end=one.end)
        for one in ranges
    )
