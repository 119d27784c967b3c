"""`audit`, `split`, `redact` and `redrive` as functions, for notebooks and your own jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, overload

from penstock.configuration import ConfigurationError
from penstock.spark.arguments import (
    check_place,
    check_plan,
    check_text,
    check_unused,
    topic_name,
    topic_names,
)
from penstock.spark.jobs.split import split as split_frame

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, Observation, SparkSession

    from penstock.jobs.plan import RecordPlan
    from penstock.jobs.report.document import Report
    from penstock.spark.jobs.topic_jobs import JobResult

    Topics = str | Sequence[str]

_WITH_FRAME: Final = "only with topics; a frame has the records that it has: filter it before"
_AS_FRAME: Final = "read files and tables with Spark, and pass the frame"
_WITH_TOPICS: Final = "only with a frame, not with topics"
# Modules that need the cluster or reports are imported in functions: executors do without.


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
    """Judge records, and report which of them the policies would refuse. Changes nothing.

    Args:
        source: A frame with Kafka's columns; or the topics to read: names and globs.
        plan: From `load_plan`. With topics, the file names the cluster, and topic level keys of the
            topics are read from it.
        spark: The session. Default: the active session.
        start: With topics: the start: `earliest`, `latest`, an ISO time or `PARTITION:OFFSET,...`.
        end: With topics: the end, in the same form.
        other: A plan to compare with.
        topic: With a frame: the topic of all records, if it is known; see `judge`.

    Returns:
        The report, as the command writes it to `report.json`: `judged`, `accepted`, `refused`,
        `dropped`, `failed`, `reasons`, `contracts` and more.

    Raises:
        ConfigurationError: A topic or an offset does not exist, a column is missing, or the frame
            is a stream.
        ClusterError: The cluster does not answer.
    """
    from penstock.spark.jobs import topic_jobs  # noqa: PLC0415

    names = topic_names(source, "audit", folders=_AS_FRAME)
    check_plan(plan)
    if other is not None:
        check_plan(other, "other")
    if names is None:
        _check_whole(start, end)
        return topic_jobs.audit_frame(source, plan, other=other, topic=topic)  # type: ignore[arg-type]
    check_unused({"topic": topic}, _WITH_TOPICS)
    _check_range(start, end)
    return topic_jobs.audit_topics(_session(spark), names, plan, start=start, end=end, other=other)


@overload
def split(
    df: DataFrame,
    plan: RecordPlan,
    *,
    topic: str | None = None,
    observation: Observation | None = None,
) -> tuple[DataFrame, DataFrame]: ...


@overload
def split(
    df: Topics,
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
    df: DataFrame | Topics,
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
    """Split records into accepted records and dead letters.

    With a frame: judge its records now, once, and return two frames; see
    `penstock.spark.jobs.split.split`. With topics: write each record once, to one of two topics, as
    the command does. If it is called again, it continues where it ended.

    Args:
        df: A frame with Kafka's columns; or the topics to read: names and globs.
        plan: From `load_plan`.
        topic: With a frame: the topic of all records, if it is known.
        observation: With a frame: counts the records. It needs PySpark 4.1 or newer.
        accepted: With topics: the topic for accepted records.
        rejected: With topics: the topic for dead letters.
        start: With topics: the start, as for `audit`.
        end: With topics: the end.
        job: With topics: the name under which the job's positions are kept. Default: derived
            from the topics.
        again: With topics: start at `start` again, for example after a policy change. Records
            of earlier runs of the job are written again.
        spark: With topics: the session. Default: the active session.

    Returns:
        With a frame, two frames; with topics, the counts.

    Raises:
        ConfigurationError: A topic does not exist, a column is missing, or the frame is a stream.
        ClusterError: The cluster does not answer.
    """
    names = topic_names(df, "split", folders=_AS_FRAME)
    check_plan(plan)
    if names is None:
        unused = {"accepted": accepted, "rejected": rejected}
        check_unused(
            unused, "only with topics; of a frame, write the two frames that split returns"
        )
        _check_whole(start, end, job=job, again=again)
        return split_frame(df, plan, topic=topic, observation=observation)  # type: ignore[arg-type]
    if accepted is None or rejected is None or accepted == rejected:
        raise ConfigurationError("split: name two topics to write to, accepted and rejected")
    check_unused({"topic": topic, "observation": observation}, _WITH_TOPICS)
    accepted = topic_name(accepted, "split: accepted", "split")
    rejected = topic_name(rejected, "split: rejected", "split")
    _check_range(start, end, job)
    from penstock.spark.jobs import topic_jobs  # noqa: PLC0415

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
    """Rewrite the records of topics with the plan's interceptors (KIP-905), to another topic.

    Records on which an interceptor fails are left out and counted.

    Args:
        source: The topics to read: names and globs.
        plan: From `load_plan`, with an interceptor.
        to: The target topic.
        start: The start, as for `audit`.
        job: The name under which the job's positions are kept. Default: derived from the
            command, the topics, the targets and `start`.
        again: Start at `start` again. Records of earlier runs of the job are written again.
        spark: The session. Default: the active session.

    Raises:
        ConfigurationError: A topic does not exist, or the plan has no interceptor.
        ClusterError: The cluster does not answer.
    """
    from penstock.spark.jobs import topic_jobs  # noqa: PLC0415

    names = topic_names(source, "redact", folders=_AS_FRAME)
    check_plan(plan)
    if names is None:
        raise ConfigurationError(
            "redact: name topics; for a frame there is apply(frame, plan), which rewrites it"
        )
    target = topic_name(to, "redact: to", "redact")
    _check_range(start, job=job)
    return topic_jobs.redact_topics(
        _session(spark), names, plan, target_name=target, start=start, job=job, again=again
    )


def redrive(
    source: str,
    plan: RecordPlan,
    *,
    to: str,
    topic: str | None = None,
    repair: str | None = None,
    max_replays: int = 5,
    spark: SparkSession | None = None,
) -> JobResult:
    """Judge dead letters again, and write the accepted records to a topic, each once.

    Records that are refused again are appended to the dead letters, and after `max_replays`
    attempts to `SOURCE.parked`. So are records that policies accept and the broker of `to` refuses:
    the result counts them as `refused`, and their reasons have the policy `broker`.

    Args:
        source: The topic of dead letters.
        plan: From `load_plan`.
        to: The target topic, whose policies judge.
        topic: Whose letters return: names and globs, separated by commas. Default: those of `to`.
            The others stay, and the result counts them by topic, as `others`.
        repair: The class of an interceptor (KIP-905) that repairs records before they are judged.
        max_replays: The maximum number of attempts for a record.
        spark: The session. Default: the active session.

    Raises:
        ConfigurationError: A topic does not exist, the interceptor cannot be loaded, or a record is
            not a dead letter; then nothing is written.
        ClusterError: The cluster does not answer.
    """
    source = topic_name(source, "redrive: source", "redrive")
    target = topic_name(to, "redrive: to", "redrive")
    check_plan(plan)
    if topic is not None:
        check_text(topic, "redrive: topic")
    if repair is not None:
        check_text(repair, "redrive: repair", such_as="the name of a class, such as module.Class,")
    if source == target:
        raise ConfigurationError("redrive: the target must not be the dead letter topic")
    if not isinstance(max_replays, int) or max_replays < 1:
        raise ConfigurationError("redrive: max_replays must be a number of at least 1")
    from penstock.spark.jobs import topic_jobs  # noqa: PLC0415

    return topic_jobs.redrive_topic(
        _session(spark),
        source,
        plan,
        target_name=target,
        topic=topic,
        repair=repair,
        max_replays=max_replays,
    )


def _check_whole(start: str, end: str, **arguments: Any) -> None:
    """Refuse keys that have no effect on a frame."""
    places = {"start": start != "earliest", "end": end != "latest"}
    check_unused({**places, **arguments}, _WITH_FRAME)


def _check_range(start: str, end: str = "latest", job: str | None = None) -> None:
    check_place(start, "start")
    check_place(end, "end")
    if job is not None:
        check_text(job, "job")


def _session(session: SparkSession | None) -> SparkSession:
    if session is not None:
        if not hasattr(session, "createDataFrame"):
            raise ConfigurationError(f"spark: pass a SparkSession, not {type(session).__name__}")
        return session
    from pyspark.sql import SparkSession  # noqa: PLC0415

    current_session = SparkSession.getActiveSession() or _connect_session() or _default_session()
    if current_session is None:
        raise ConfigurationError("there is no Spark session: create one, or pass it as spark=")
    return current_session


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
    session: SparkSession | None = Remote.getActiveSession()  # type: ignore[assignment]
    return session
