"""`judge` and `apply`: from DataFrame to DataFrame, over the columns of Kafka's records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F  # noqa: N812 - as everybody names it
from pyspark.sql import types as T  # noqa: N812
from pyspark.sql.pandas import functions as pandas_functions

from penstock.configuration import ConfigurationError
from penstock.jobs.report.counts import OUTCOMES
from penstock.spark import evaluation
from penstock.spark.arguments import check_observation, check_plan, check_text
from penstock.spark.execution.interpreters import check_workers
from penstock.spark.frames.added_columns import with_column
from penstock.spark.frames.frame_columns import check_columns, check_frame, types_of
from penstock.spark.frames.kafka_columns import COLUMNS

if TYPE_CHECKING:
    from collections.abc import Collection

    from pyspark.sql import Column, DataFrame, Observation, SparkSession

    from penstock.jobs.plan import RecordPlan

_UNLIMITED: Final = 2**31 - 1
_ARROW_UDF: Final[Any] = getattr(pandas_functions, "arrow_udf", None)
"""Since PySpark 4.1; before, all columns come to Python and go back (`by_rows`)."""

# No DDL: with Spark Connect, its server reads that, and not within a pipeline.
_VERDICT_TYPE: Final = (
    T.StructType()
    .add("outcome", T.StringType())
    .add("policy", T.StringType())
    .add("code", T.IntegerType())
    .add("message", T.StringType())
)
VERDICT_WITH_OBJECTIONS: Final = T.StructType(
    [
        *_VERDICT_TYPE.fields,
        T.StructField(
            "objections",
            T.ArrayType(
                T.StructType()
                .add("policy", T.StringType())
                .add("rule", T.StringType())
                .add("code", T.IntegerType())
                .add("message", T.StringType())
                .add("mode", T.StringType())
            ),
        ),
    ]
)
"""Spark's type of a verdict with all objections."""
_PATHS: Final = T.StructField("paths", T.StringType())
_COUNTING_TYPE: Final = T.StructType([*_VERDICT_TYPE.fields, _PATHS])
_APPLIED_TYPE: Final = (
    T.StructType()
    .add("verdict", _VERDICT_TYPE)
    .add("key", T.BinaryType())
    .add("value", T.BinaryType())
)


def judge(
    df: DataFrame,
    plan: RecordPlan,
    *,
    topic: str | None = None,
    observation: Observation | str | None = None,
    objections: bool = False,
) -> DataFrame:
    """Add the verdict on each record.

    Every record is judged once in a job, by the gateway's chain of policies. It works on batch and
    streaming frames, with classic sessions and Spark Connect.

    Args:
        df: A frame with the columns of Spark's Kafka source: `topic` (string), `partition` (int),
            and of `key`, `value` (binary), `timestamp` and `headers` (with `includeHeaders`) those
            that the policies read.
        plan: From `load_plan`.
        topic: The topic of all records, if it is known. Its column is not copied to Python then,
            which is a tenth faster. Default: the topic of the plan.
        observation: Counts the records while they are judged: `judged`, `accepted`, `refused`,
            `dropped` and `failed`. An Observation for a batch; or a name, under which listeners of
            queries get the counts, and `observedMetrics` of a stream's progress has them.
        objections: Whether `verdict` also has `objections`: all of them, each with `policy`,
            `rule`, `code`, `message` and `mode`. Those of policies whose mode is `mark` or
            `observe` then leave the outcome as it is.

    Returns:
        The frame with the column `verdict`: a struct of `outcome` (`accepted`,
        `refused`, `dropped`, `failed`), `policy`, `code` (Kafka's error code, 0 when
        accepted) and `message`.

    Raises:
        ConfigurationError: A column that the policies need is missing, or has another type.
    """
    check_arguments("judge", df, plan, topic)
    judged_rows = _judged(df, plan, topic, counting=False, objections=objections)
    if observation is None:
        return judged_rows
    check_observation(observation)
    outcome = F.col("verdict.outcome")
    counts = [F.count(F.when(outcome == name, True)).alias(name) for name in OUTCOMES]
    return judged_rows.observe(observation, F.count(F.lit(1)).alias("judged"), *counts)


def judge_counting(df: DataFrame, plan: RecordPlan, *, topic: str | None = None) -> DataFrame:
    """Do what `judge` does; `verdict` also has `paths`: how often paths led to a field.

    These are JSON, a list of the values of `PathCount`, with the last record of a batch; null with
    the others.
    """
    return _judged(df, plan, topic, counting=True)


def _judged(
    df: DataFrame,
    plan: RecordPlan,
    topic: str | None,
    *,
    counting: bool,
    objections: bool = False,
) -> DataFrame:
    topic = topic_of(plan, topic)
    kind: dict[str, bool] = {"replacing": False, "counting": counting, "objections": objections}
    if _ARROW_UDF is None:
        return by_rows(df, plan, topic, **kind)
    verdict = _evaluated(df, plan, topic, **kind)
    return with_column(df, "verdict", verdict)


def apply(df: DataFrame, plan: RecordPlan, *, topic: str | None = None) -> DataFrame:
    """Add the verdict on each record, and replace key and value by those of the interceptors.

    Args:
        df: As for `judge`, with `key` and `value` in any case.
        plan: From `load_plan`.
        topic: As for `judge`.

    Returns:
        The frame with `key` and `value` of the interceptors (KIP-905), null for dropped and failed
        records, and `verdict` as from `judge`.

    Raises:
        ConfigurationError: A column that the policies need is missing, or has another type.
    """
    check_arguments("apply", df, plan, topic)
    topic = topic_of(plan, topic)
    if not plan.has_interceptors:
        return judge(df, plan, topic=topic)
    if _ARROW_UDF is None:
        return by_rows(df, plan, topic, replacing=True)
    result = with_column(df, "verdict", _evaluated(df, plan, topic, replacing=True))
    for name in ("key", "value", "verdict"):  # the verdict itself is the last
        result = with_column(result, name, F.col(f"verdict.{name}"))
    return result


def check_arguments(function: str, df: DataFrame, plan: RecordPlan, topic: str | None) -> None:
    """Check the frame that a user passed to a function over frames.

    Args:
        topic: The one topic, or None.

    Raises:
        ConfigurationError: It is not a frame, not a plan, or no name of a topic; or its session
            cannot run policies.
    """
    frame = check_frame(df, function)
    check_plan(plan)
    check_workers(frame.sparkSession)
    if topic is not None:
        check_text(topic, "topic")


def topic_of(plan: RecordPlan, topic: str | None) -> str | None:
    """Return the topic of all records: that of a call, or of the plan.

    Raises:
        ConfigurationError: The plan is for another topic, and lacks the policies of that topic.
    """
    if topic is None or plan.topic is None or topic == plan.topic:
        return plan.topic if topic is None else topic
    raise ConfigurationError(f"topic: the plan is for topic {plan.topic}, not {topic}")


def close_policies(spark: SparkSession, *, workers: int) -> None:
    """Close the policies in Spark's Python workers, before a session is stopped.

    Spark ends its workers without notice. This runs a short task on each.

    Args:
        workers: The number of tasks that run at the same time.
    """
    tasks = spark.range(0, workers, 1, workers)
    tasks.mapInArrow(evaluation.close_in_worker, "id long").count()


def needed_columns(
    df: DataFrame,
    plan: RecordPlan,
    topic: str | None,
    *,
    replacing: bool,
    optional: Collection[str] = (),
) -> tuple[tuple[str, ...], dict[str, int]]:
    """Return the columns that are always brought to Python, and those that the policies need.

    The latter with the maximum number of bytes; the arguments are those of `judge`.

    Args:
        df: Kafka's columns.
        topic: The one topic of all records, or None.
        replacing: Whether keys and values are needed in any case.
        optional: Other columns that are used if they exist.

    Raises:
        ConfigurationError: A column is missing, exists twice, or has another type.
    """
    always = ("topic", "partition") if topic is None else ("partition",)
    columns = dict(plan.columns)
    types = types_of(df)
    if types is None:  # Spark itself reports what is missing
        types = [*COLUMNS.items()]
    elif "timestamp" in columns and ("headers", COLUMNS["headers"]) in types:
        columns.setdefault("headers", _UNLIMITED)  # they have the timestamps that are far
    if replacing:
        columns |= {"key": _UNLIMITED, "value": _UNLIMITED}
    usage = f"the policies of {plan.path} look at"
    check_columns(types, (*always, *columns), usage, optional)
    return always, columns


def by_rows(
    df: DataFrame,
    plan: RecordPlan,
    topic: str | None,
    *,
    replacing: bool,
    counting: bool = False,
    objections: bool = False,
) -> DataFrame:
    """Do what `judge` and `apply` do, with `mapInArrow`, which PySpark has since 3.3.

    Args:
        df: Kafka's columns, and perhaps others.
        topic: The one topic of all records, or None.
        replacing: Whether keys and values become those of the interceptors.
        counting: Whether verdicts have `paths`, as those of `judge_counting`.
        objections: Whether verdicts have `objections`.

    Raises:
        ConfigurationError: A column that the policies need is missing.
    """
    always, columns = needed_columns(df, plan, topic, replacing=replacing)
    bare_frame = df.drop("verdict")
    rows = evaluation.rows_with_verdicts(
        plan,
        (*always, *columns),
        replacing=replacing,
        topic=topic,
        counting=counting,
        objections=objections,
    )
    schema = with_verdict(bare_frame.schema, counting=counting, objections=objections)
    return bare_frame.mapInArrow(rows, schema)


def with_verdict(
    schema: T.StructType, *, counting: bool = False, objections: bool = False
) -> T.StructType:
    """Return the schema of judged rows.

    Args:
        schema: That of the rows.
        counting: Whether verdicts have `paths`.
        objections: Whether verdicts have `objections`.
    """
    if objections:
        return T.StructType([*schema.fields, T.StructField("verdict", VERDICT_WITH_OBJECTIONS)])
    verdict = _COUNTING_TYPE if counting else _VERDICT_TYPE
    return T.StructType([*schema.fields, T.StructField("verdict", verdict)])


def _evaluated(
    df: DataFrame,
    plan: RecordPlan,
    topic: str | None,
    *,
    replacing: bool,
    counting: bool = False,
    objections: bool = False,
) -> Column:
    always, columns = needed_columns(df, plan, topic, replacing=replacing)
    arguments = [F.col(name) for name in always]
    for name, max_bytes in columns.items():
        column = F.col(name)
        # Policies that read only the first bytes get no more of them.
        arguments.append(F.substring(column, 1, max_bytes) if max_bytes < _UNLIMITED else column)
    evaluate = evaluation.verdicts(
        plan,
        (*always, *columns),
        replacing=replacing,
        topic=topic,
        counting=counting,
        objections=objections,
    )
    of_judged = _COUNTING_TYPE if counting else _VERDICT_TYPE
    if objections:
        of_judged = VERDICT_WITH_OBJECTIONS
    function: Any = _ARROW_UDF(evaluate, _APPLIED_TYPE if replacing else of_judged)
    # Spark evaluates a deterministic function again wherever its result is used.
    verdict: Column = function.asNondeterministic()(*arguments)
    return verdict
