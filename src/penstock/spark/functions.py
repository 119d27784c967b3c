"""`audit`, `split`, `redact` and `redrive` as functions: for notebooks, and jobs of your own."""

from __future__ import annotations

from typing import TYPE_CHECKING, overload

from penstock.configuration import ConfigurationError
from penstock.spark.split import split as split_frame

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, Observation, SparkSession

    from penstock.report.document import Report
    from penstock.spark.topic_jobs import JobResult
    from penstock.stored.plan import RecordPlan

    Topics = str | Sequence[str]

# What needs the cluster or reports is imported where it is called: executors do without.


def audit(
    source: DataFrame | Topics,
    plan: RecordPlan,
    *,
    spark: SparkSession | None = None,
    start: str = "earliest",
    end: str = "latest",
    other: RecordPlan | None = None,
    topic: str | None = None,
) -> Report:
    """Judge records, and report what the policies would refuse; nothing is changed.

    Args:
        source: A frame with Kafka's columns; or the topics to read: names and globs.
        plan: From `load_plan`. With topics, the file names the cluster, and what is set on the
            topics themselves is read there.
        spark: The session; the active one unless it is given.
        start: With topics: where to begin: `earliest`, `latest`, an ISO time or
            `PARTITION:OFFSET,...`.
        end: With topics: where to end, likewise.
        other: A plan to compare it with.
        topic: With a frame: the one topic of all records, where it is known; see `judge`.

    Returns:
        The report, as the command writes it to `report.json`: `judged`, `accepted`, `refused`,
        `dropped`, `failed`, `reasons` and more.

    Raises:
        ConfigurationError: A topic or an offset is not there, a column is missing, or the frame is
            a streaming one.
        ClusterError: The cluster does not answer.
    """
    from penstock.spark import topic_jobs  # noqa: PLC0415

    names = _names(source)
    if names is None:
        return topic_jobs.audit_frame(source, plan, other=other, topic=topic)  # type: ignore[arg-type]
    return topic_jobs.audit_topics(_session(spark), names, plan, start=start, end=end, other=other)


@overload
def split(
    source: DataFrame,
    plan: RecordPlan,
    *,
    topic: str | None = None,
    observation: Observation | None = None,
) -> tuple[DataFrame, DataFrame]: ...


@overload
def split(
    source: Topics,
    plan: RecordPlan,
    *,
    accepted: str,
    rejected: str,
    start: str = "earliest",
    end: str = "latest",
    job: str | None = None,
    again: bool = False,
    spark: SparkSession | None = None,
) -> JobResult: ...


def split(
    source: DataFrame | Topics,
    plan: RecordPlan,
    *,
    topic: str | None = None,
    observation: Observation | None = None,
    accepted: str | None = None,
    rejected: str | None = None,
    start: str = "earliest",
    end: str = "latest",
    job: str | None = None,
    again: bool = False,
    spark: SparkSession | None = None,
) -> tuple[DataFrame, DataFrame] | JobResult:
    """Split records into accepted ones and dead letters.

    With a frame: judge its records now, once, and return two frames; see
    `penstock.spark.split.split`. With topics: write each record to one of two topics, once, as the
    command does; called again, it goes on where it ended.

    Args:
        source: A frame with Kafka's columns; or the topics to read: names and globs.
        plan: From `load_plan`.
        topic: With a frame: the one topic of all records, where it is known.
        observation: With a frame: counts them.
        accepted: With topics: the topic for accepted records.
        rejected: With topics: the topic for dead letters.
        start: With topics: where to begin, as for `audit`.
        end: With topics: where to end.
        job: With topics: what the job's place is kept under; made of the topics unless it is given.
        again: With topics: begin at `start` again, and write what earlier runs of the job have
            written once more, such as after policies have changed.
        spark: With topics: the session; the active one unless it is given.

    Returns:
        With a frame, two frames; with topics, what was counted.

    Raises:
        ConfigurationError: A topic is not there, a column is missing, or the frame is a streaming
            one.
        ClusterError: The cluster does not answer.
    """
    names = _names(source)
    if names is None:
        return split_frame(source, plan, topic=topic, observation=observation)  # type: ignore[arg-type]
    if accepted is None or rejected is None or accepted == rejected:
        raise ConfigurationError("split: name two topics to write to, accepted and rejected")
    from penstock.spark import topic_jobs  # noqa: PLC0415

    return topic_jobs.split_topics(
        _session(spark),
        names,
        plan,
        accepted=accepted,
        rejected=rejected,
        start=start,
        end=end,
        job=job,
        again=again,
    )


def redact(
    source: Topics,
    plan: RecordPlan,
    *,
    to: str,
    start: str = "earliest",
    job: str | None = None,
    again: bool = False,
    spark: SparkSession | None = None,
) -> JobResult:
    """Rewrite the records of topics by the plan's interceptors (KIP-905) into another topic.

    What an interceptor fails on is left out, and counted.

    Args:
        source: The topics to read: names and globs.
        plan: From `load_plan`; with an interceptor.
        to: The topic that is written to.
        start: Where to begin, as for `audit`.
        job: What the job's place is kept under; made of the topics unless it is given.
        again: Begin at `start` again, and write what earlier runs of the job have written once
            more.
        spark: The session; the active one unless it is given.

    Raises:
        ConfigurationError: A topic is not there, or the plan has no interceptor.
        ClusterError: The cluster does not answer.
    """
    from penstock.spark import topic_jobs  # noqa: PLC0415

    names = _names(source)
    if names is None:
        raise ConfigurationError(
            "redact: name topics; for a frame there is apply(frame, plan), which rewrites it"
        )
    return topic_jobs.redact_topics(
        _session(spark), names, plan, to=to, start=start, job=job, again=again
    )


def redrive(
    source: str,
    plan: RecordPlan,
    *,
    to: str,
    repair: str | None = None,
    max_replays: int = 5,
    spark: SparkSession | None = None,
) -> JobResult:
    """Judge dead letters again, and return to a topic what passes now; nothing returns twice.

    What fails again is appended to the dead letters, and parked after so many attempts.

    Args:
        source: The topic of dead letters.
        plan: From `load_plan`.
        to: The topic that is written to, whose policies judge.
        repair: The class of an interceptor (KIP-905) that repairs records before they are judged.
        max_replays: After how many attempts a record is parked, in `SOURCE.parked`.
        spark: The session; the active one unless it is given.

    Raises:
        ConfigurationError: A topic is not there, or the interceptor cannot be loaded.
        ClusterError: The cluster does not answer.
    """
    if source == to:
        raise ConfigurationError("redrive: the target must not be the dead letter topic")
    if max_replays < 1:
        raise ConfigurationError("redrive: max_replays must be 1 or more")
    from penstock.spark import topic_jobs  # noqa: PLC0415

    return topic_jobs.redrive_topic(
        _session(spark), source, plan, to=to, repair=repair, max_replays=max_replays
    )


def _names(source: DataFrame | Topics) -> str | None:
    """Return topics as the commands' `--topic`; None where the source is a frame."""
    if isinstance(source, str):
        return source
    if isinstance(source, (list, tuple, set, frozenset)):
        return ",".join(source)
    return None


def _session(given: SparkSession | None) -> SparkSession:
    if given is not None:
        return given
    from pyspark.sql import SparkSession  # noqa: PLC0415

    found = SparkSession.getActiveSession() or _connect_session() or _default_session()
    if found is None:
        raise ConfigurationError("there is no Spark session: create one, or pass it as spark=")
    return found


def _default_session() -> SparkSession | None:
    """Return the session that was made, and that is not active before it is first used."""
    from pyspark.errors import PySparkException  # noqa: PLC0415
    from pyspark.sql import SparkSession  # noqa: PLC0415

    try:
        return SparkSession.active()
    except PySparkException:
        return None


def _connect_session() -> SparkSession | None:
    try:
        from pyspark.sql.connect.session import SparkSession as Remote  # noqa: PLC0415
    except ImportError:
        return None
    found: SparkSession | None = Remote.getActiveSession()  # type: ignore[assignment]
    return found
