"""`judge_rows` and `split_rows`: from DataFrame to DataFrame, over any columns.

They only describe the work, and look at no data. Where the columns of the frame and the plan allow
it, its workers get columns; else, and always within a declarative pipeline, they get values.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Final

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import functions as F  # noqa: N812 - as everybody names it
from pyspark.sql import types as T  # noqa: N812
from pyspark.sql.pandas import functions as pandas_functions

from penstock.configuration import ConfigurationError
from penstock.engine.verdict import Outcome
from penstock.spark.execution.interpreters import check_workers
from penstock.spark.frames.added_columns import is_in_pipeline
from penstock.spark.rows.batches import TEMPORARY, rows_with_verdicts, verdicts
from penstock.spark.rows.columns.faults import faults_of
from penstock.spark.rows.columns.ways import columns_to_judge
from penstock.spark.rows.observed import check_observation, observed
from penstock.spark.rows.plan import row_plan_of
from penstock.spark.rows.row_types import TYPES, TypesCheck, types_of
from penstock.spark.rows.values import VALUE, VERDICT, RecordColumns, json_of, quoted, value_of
from penstock.spark.verdicts import VERDICT_WITH_OBJECTIONS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame, Observation

    from penstock.jobs.plan import RecordPlan
    from penstock.spark.rows.columns.faults import Demand
    from penstock.spark.rows.plan import RowPlan

_ONLY_WARNED: Final = "every row gets an objection of a policy that only warns"
_ZONE: Final = "spark.sql.session.timeZone"
_PYSPARK: Final = "pyspark."
_ARROW_UDF: Final[Any] = getattr(pandas_functions, "arrow_udf", None)
"""Since PySpark 4.1; before, all columns come to Python and go back."""


def judge_rows(
    frame: DataFrame,
    plan: RowPlan | RecordPlan,
    *,
    key: str | None = None,
    headers: str | None = None,
    timestamp: str | None = None,
    topic: str | None = None,
    observation: Observation | str | None = None,
) -> DataFrame:
    """Add the verdict on each row, lazily: on batch and streaming frames, classic or Connect.

    A row is judged as the record whose value is the row as JSON: what Spark's `to_json` writes with
    `ignoreNullFields=false`, or with `true` if the plan has `nulls="missing"`.

    Args:
        frame: Any columns, except for one with the name `verdict`.
        plan: From `plan`; or from `load_plan`, with the topic of the rows.
        key: The column that is the record's key: bytes or text, or what Spark casts to text. It is
            not part of the value, and neither are the three that follow.
        headers: The column with the record's headers: an array of structs of `key` and `value`, or
            a map.
        timestamp: The column with the record's timestamp, or what Spark casts to one.
        topic: The column with the name of the record's topic.
        observation: Counts rows whenever the frame is evaluated: an `Observation` (batch only), or
            the name of one. It has `judged`, `accepted`, `refused`, `failed`, and for each rule
            `refused.<rule>`, for a policy without rules `refused.<policy>`.

    Returns:
        The frame with the column `verdict`, as from `judge`, which also has `objections`: all
        objections to the row, each with `policy`, `rule`, `code`, `message` and `mode`. Those of
        policies whose mode is `mark` or `observe` leave the outcome as it is.

    Raises:
        ConfigurationError: An argument has the wrong type, or the topic of the rows is not known.
    """
    columns = RecordColumns(key, headers, timestamp, topic)
    return _judged("judge_rows", frame, plan, columns, observation)


def split_rows(
    frame: DataFrame,
    plan: RowPlan | RecordPlan,
    *,
    key: str | None = None,
    headers: str | None = None,
    timestamp: str | None = None,
    topic: str | None = None,
    observation: Observation | str | None = None,
) -> tuple[DataFrame, DataFrame]:
    """Split rows into good rows and bad rows, lazily; the arguments are those of `judge_rows`.

    Each of the two frames judges when it is evaluated. Where a policy may answer differently the
    second time, write what `judge_rows` returns, and filter that.

    Returns:
        The accepted rows with the frame's columns, and all others with these and `verdict`.

    Raises:
        ConfigurationError: As for `judge_rows`.
    """
    columns = RecordColumns(key, headers, timestamp, topic)
    judged_rows = _judged("split_rows", frame, plan, columns, observation)
    is_good = F.col(VERDICT)["outcome"] == Outcome.ACCEPTED.value
    good = judged_rows.where(is_good)
    # A server of Spark Connect analyses a frame from which a column is dropped: see pipelines.
    own = good.select(F.expr(f"* EXCEPT ({VERDICT})")) if _ARROW_UDF else good.drop(VERDICT)
    return own, judged_rows.where(~is_good)


def _judged(
    function: str,
    frame: DataFrame,
    plan: RowPlan | RecordPlan,
    columns: RecordColumns,
    observation: Observation | str | None,
) -> DataFrame:
    check_rows(frame, function)
    row_plan = row_plan_of(plan, function, has_topics=columns.topic is not None)
    columns.check(function)
    check_observation(observation, function)
    check_columns(frame, row_plan, columns, function)
    _check_verdict(frame, function)
    try:
        value = value_to_judge(frame, row_plan, columns)
        parts = {VALUE: value, **columns.arguments()}
        if _ARROW_UDF:
            types_check = None
            if not _is_known(frame):
                demands, others = _demands(row_plan, columns), set(filter(None, columns))
                types_check = TypesCheck(function, demands, others)
            verdict = _verdict(parts, row_plan, F.struct("*"), types_check).alias(VERDICT)
            judged_rows = frame.select("*", verdict)
        else:
            judged_rows = _by_rows(frame, row_plan, parts)
    except AnalysisException as error:
        if "CANNOT_DROP_ALL_FIELDS" not in str(error):
            raise
        raise ConfigurationError(
            f"{function}: the frame has no column for the value: all are other parts of the record"
        ) from None
    return observed(judged_rows, row_plan, observation)


def value_to_judge(frame: DataFrame, plan: RowPlan, columns: RecordColumns) -> Column:
    """Return the columns by which rows are judged, as a struct; or their value, as JSON.

    In a query function of a declarative pipeline, no columns of a frame are looked at.

    Args:
        columns: Those that are not part of the value.
    """
    others = [name for name in columns if name is not None]
    value = value_of(others, plan.nulls)
    if not _is_known(frame) or not plan.schemas or columns.topic is not None:
        return value
    try:
        fields = frame.schema.fields
        zone = str(frame.sparkSession.conf.get(_ZONE))
    except PySparkException:  # it says so where the frame is evaluated
        return value
    names = columns_to_judge(
        plan.schemas,
        fields,
        left_out=set(others),
        keeps_nulls=plan.keeps_nulls,
        zone=zone,
    )
    return value if names is None else F.struct(*(F.col(quoted(name)) for name in names))


def check_rows(frame: Any, function: str) -> None:
    """Check the frame that a user passed, without a look at its columns.

    Raises:
        ConfigurationError: It is not a frame of Spark, or its session cannot run policies.
    """
    if not all(callable(getattr(type(frame), name, None)) for name in ("mapInArrow", "observe")):
        kind = type(frame)
        name = (
            kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"
        )
        hint = ""
        if isinstance(frame, str):
            hint = f"; of a table: spark.table({frame!r})"
        elif kind.__module__.startswith(("pandas.", "pyarrow.")):
            hint = "; make one with spark.createDataFrame(...)"
        raise ConfigurationError(f"{function}: pass a DataFrame of Spark, not {name}{hint}")
    check_workers(frame.sparkSession)


def _is_known(frame: DataFrame) -> bool:
    """Return whether the columns of a frame may be looked at."""
    return type(frame).__module__.startswith(_PYSPARK) and not is_in_pipeline()


def check_columns(frame: DataFrame, plan: RowPlan, columns: RecordColumns, function: str) -> None:
    """Check that the frame has the columns that are read, as far as its columns are known.

    Args:
        columns: Those that are not part of the value.

    Raises:
        ConfigurationError: A column is missing or there twice, or no row can have what a policy
            requires.
    """
    if not _is_known(frame):
        return
    try:
        fields = frame.schema.fields
    except PySparkException:  # it says so where the frame is evaluated
        return
    columns.check_fields(fields, function)
    faults = faults_of(_demands(plan, columns), fields, set(filter(None, columns)))
    if faults.error:
        raise ConfigurationError(f"{function}: {faults.error}")
    if faults.warning:  # the caller is at a varying depth
        warnings.warn(f"{function}: {_ONLY_WARNED}: {faults.warning}", stacklevel=1)


def _demands(plan: RowPlan, columns: RecordColumns) -> Sequence[Demand]:
    """Return the requirements for each row, whichever topic a column says that it is of."""
    if columns.topic is None:
        return plan.demands
    return [
        each for each in plan.demands if each.is_for_rows and each.requirement.condition is not None
    ]


def _check_verdict(frame: DataFrame, function: str) -> None:
    """Check that no column has the name of the verdict's, as far as the columns are known.

    Raises:
        ConfigurationError: One has.
    """
    if not _is_known(frame):
        return
    try:
        names = frame.columns
    except PySparkException:  # it says so where the frame is evaluated
        return
    if VERDICT in map(str.lower, names):
        raise ConfigurationError(
            f"{function}: the frame has a column {VERDICT}, as the rows' verdicts have: leave it "
            f'out, frame.drop("{VERDICT}"), or rename it'
        )


def verdict_on(row: Column, plan: RowPlan, title: str) -> Column:
    """Return the verdict on a row that is a struct, for PySpark 4.1 and newer.

    It is evaluated again wherever it is used in another expression.

    Args:
        title: What judges the rows, for errors.
    """
    types_check = TypesCheck(title, plan.demands)
    return _verdict({VALUE: json_of(row, plan.nulls)}, plan, row, types_check)


def _verdict(
    parts: dict[str, Column], plan: RowPlan, row: Column, types_check: TypesCheck | None
) -> Column:
    """Return the verdict on rows.

    Args:
        row: The whole row, as a struct.
        types_check: Checks its columns in the workers; None if they have been checked.
    """
    if types_check is not None and types_check.demands:
        parts = {**parts, TYPES: types_of(row)}
    function = _ARROW_UDF(verdicts(plan, list(parts), types_check), VERDICT_WITH_OBJECTIONS)
    # Spark evaluates a deterministic function again wherever its result is used.
    verdict: Column = function.asNondeterministic()(*parts.values())
    return verdict


def _by_rows(frame: DataFrame, plan: RowPlan, parts: dict[str, Any]) -> DataFrame:
    added = {TEMPORARY + name: column for name, column in parts.items()}
    rows = frame.select("*", *(column.alias(name) for name, column in added.items()))
    schema = T.StructType([*frame.schema.fields, T.StructField(VERDICT, VERDICT_WITH_OBJECTIONS)])
    return rows.mapInArrow(rows_with_verdicts(plan, list(parts)), schema)
