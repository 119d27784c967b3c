"""The expectations of a dataset: conditions that each row of its query should meet."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from functools import update_wrapper
from typing import TYPE_CHECKING, Final, NamedTuple

from pyspark.sql import functions
from pyspark.sql import types as T  # noqa: N812 - as everybody names it

from penstock.engine.verdict import Outcome
from penstock.jobs.plan import RecordPlan
from penstock.jobs.report.results import KEPT
from penstock.spark.rows.judged import verdict_on
from penstock.spark.rows.plan import RowPlan, plan, row_plan_of
from penstock.spark.rows.values import VERDICT
from penstock.spark.verdicts import VERDICT_WITH_OBJECTIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pyspark.sql import Column, DataFrame

    Query = Callable[[], DataFrame]
    Decorator = Callable[[Query], "ExpectedQuery"]


_RULE_NAME_MAX: Final = 100


class Action(Enum):
    """The treatment of a row that fails an expectation."""

    KEEP = KEPT
    """It stays in the table, and is counted."""
    DROP = "drop"
    """It is left out of the table, and is counted."""
    FAIL = "fail"
    """The update fails."""
    QUARANTINE = "quarantine"
    """It is in another table, with the verdict on it, and is counted."""


class Cel(NamedTuple):
    """A condition in CEL, as of the policy `Rules`: it refuses null and missing fields."""

    condition: str


Constraint = str | Cel | RowPlan | RecordPlan | type | object
"""A SQL expression; or the rules of the wire: a condition, a plan, or the class or an instance of a
policy."""


@dataclass(frozen=True)
class Expectation:
    """A condition that each row of a dataset should meet.

    Attributes:
        description: Its name in the counts.
        constraint: A SQL expression, which a row fails also if it is null; or a plan.
        action: The treatment of a row that fails it.
        into: The table of the rows that are quarantined.
    """

    description: str
    constraint: str | RowPlan
    action: Action
    into: str = ""

    @property
    def is_sql(self) -> bool:
        """Whether Spark itself judges it."""
        return isinstance(self.constraint, str)

    @property
    def is_met(self) -> Column:
        """The condition for a row of the query, if it is SQL; never null."""
        return functions.coalesce(functions.expr(str(self.constraint)), functions.lit(False))


def expectation_of(
    description: str, constraint: Constraint, action: Action, into: str = ""
) -> Expectation:
    """Make an expectation.

    Args:
        description: Its name in the counts.
        constraint: Judged by Spark or as on the wire.
        action: The treatment of a row that fails it.
        into: The table of the rows that are quarantined.

    Raises:
        TypeError: The description or an expression is not a string, or is empty.
        ConfigurationError: A condition or a policy cannot be used.
    """
    if not isinstance(description, str) or not description.strip():
        raise TypeError(f"an expectation's description is a string, not {description!r}")
    if constraint is None or (isinstance(constraint, str) and not constraint.strip()):
        raise TypeError(f"the expectation {description!r} has no constraint")
    if isinstance(constraint, str):
        return Expectation(description, constraint, action, into)
    if isinstance(constraint, Cel):
        rule = re.sub(r"[^A-Za-z0-9_-]", "_", description)[:_RULE_NAME_MAX]
        row_plan = plan(rules={rule: constraint.condition})
    elif isinstance(constraint, RowPlan | RecordPlan):
        row_plan = row_plan_of(constraint, f"the expectation {description!r}")
    elif isinstance(constraint, type) or hasattr(type(constraint), "validate"):
        row_plan = plan(policies=[constraint])
    else:
        raise TypeError(
            f"the constraint of the expectation {description!r} is SQL, cel(...), a plan or a "
            f"policy, not {type(constraint).__name__}"
        )
    return Expectation(description, row_plan, action, into)


class ExpectedQuery:
    """The query function of a dataset, with expectations of its rows.

    Attributes:
        query: Called when the pipeline runs.
        expectations: In the order in which they are written.
    """

    def __init__(self, query: Query, expectations: Iterable[Expectation] = ()) -> None:
        """Make it without a call of the function.

        Args:
            query: Called without arguments when the pipeline runs.
            expectations: In the order in which they are written.
        """
        self.query = query
        self.expectations = tuple(expectations)
        update_wrapper(self, query)

    def __call__(self) -> DataFrame:
        """Refuse to be the query function of another decorator, which would judge no row.

        Raises:
            TypeError: Always.
        """
        raise TypeError(
            f"the expectations of {self.query.__name__!r} need @table, @materialized_view or "
            "@temporary_view of penstock.pipelines; for the flows to a table, give them to "
            "create_streaming_table"
        )

    def expecting(self, expectations: Iterable[Expectation]) -> ExpectedQuery:
        """Return the query with more expectations, which are written above the others.

        Raises:
            ValueError: Two expectations have the same description.
        """
        merged = [*expectations, *self.expectations]
        descriptions = [expectation.description for expectation in merged]
        for description in descriptions:
            if descriptions.count(description) > 1:
                raise ValueError(
                    f"two expectations of {self.query.__name__!r} are called {description!r}"
                )
        return ExpectedQuery(self.query, merged)


def decorator_of(added: Sequence[Expectation]) -> Decorator:
    """Return a decorator that adds expectations to the query function of a dataset.

    It raises TypeError if it is not below the decorator of a dataset, and ValueError if the dataset
    has another expectation of the same description.
    """

    def decorate(query: Query) -> ExpectedQuery:
        if not callable(query):
            raise TypeError(
                "write expectations below @table, @materialized_view or @temporary_view"
            )
        return as_expected(query).expecting(added)

    return decorate


def as_expected(query: Query) -> ExpectedQuery:
    """Return a query function with its expectations, of which it may have none."""
    return query if isinstance(query, ExpectedQuery) else ExpectedQuery(query)


LEAVING_OUT: Final = frozenset({Action.DROP, Action.QUARANTINE})


def needs_all_rows(expectations: Iterable[Expectation]) -> bool:
    """Whether a table of all rows is needed: rows are left out, or cannot be judged again alike."""
    return any(
        expectation.action in LEAVING_OUT or not expectation.is_sql for expectation in expectations
    )


# Frames

ROW: Final = "row"
"""The column with all columns of the query."""
CHECKS: Final = "checks"
"""The column with the expectations that judged the row, each with its action and `is_met`."""
VERDICTS: Final = "verdicts"
"""The column with the verdicts of expectations that quarantine rows, by description."""
COLUMNS: Final = (ROW, CHECKS, VERDICTS)
_CHECK: Final = (
    T.StructType()
    .add("expectation", T.StringType())
    .add("action", T.StringType())
    .add("is_met", T.BooleanType())
)


def with_checks(frame: DataFrame, expectations: Sequence[Expectation], dataset: str) -> DataFrame:
    """Return the rows of a query with the expectations that judged them.

    Without an analysis, which a pipeline does not allow in a query function. The columns are the
    same for all expectations: those of a table may change between two updates.

    Args:
        frame: The frame of the query function.
        expectations: In the order in which they are written.
        dataset: The name of the dataset, for errors.

    Returns:
        The columns `row`, `checks` and `verdicts`. A query of it fails at a row that fails an
        expectation with that action.
    """
    in_sql = [expectation for expectation in expectations if expectation.is_sql]
    checks = [_check(expectation, expectation.is_met) for expectation in in_sql]
    rows = checked(frame, in_sql, dataset).select(
        functions.struct("*").alias(ROW), _array(checks).alias(CHECKS)
    )
    checks = []
    verdicts: list[Column] = []
    for position, expectation in enumerate(expectations):
        if isinstance(expectation.constraint, str):
            continue
        name = f"verdict_{position}"
        title = f"{dataset}: the expectation {expectation.description!r}"
        verdict = verdict_on(functions.col(ROW), expectation.constraint, title)
        # With withColumn(), a server would analyse the frame: see pipelines.
        rows = rows.select("*", verdict.alias(name))
        is_met = functions.col(name)["outcome"] == Outcome.ACCEPTED.value
        checks.append(_check(expectation, is_met))
        if expectation.action is Action.FAIL:
            rows = rows.where(_is_checked(expectation, is_met, dataset))
        elif expectation.action is Action.QUARANTINE:
            verdicts += [functions.lit(expectation.description), functions.col(name)]
    map_type = T.MapType(T.StringType(), VERDICT_WITH_OBJECTIONS)
    by_description = functions.create_map(*verdicts) if verdicts else functions.lit(None)
    return rows.select(
        ROW,
        functions.concat(CHECKS, _array(checks)).alias(CHECKS),
        by_description.cast(map_type).alias(VERDICTS),
    )


def _check(expectation: Expectation, is_met: Column) -> Column:
    return functions.struct(
        functions.lit(expectation.description).alias("expectation"),
        functions.lit(expectation.action.value).alias("action"),
        is_met.alias("is_met"),
    )


def _array(checks: Iterable[Column]) -> Column:
    return functions.array(*checks).cast(T.ArrayType(_CHECK))


def kept(frame: DataFrame) -> DataFrame:
    """Return the rows of `with_checks` that stay in the table, with the columns of the query."""
    leaving_out = sorted(action.value for action in LEAVING_OUT)

    def leaves_out(check: Column) -> Column:
        return ~check["is_met"] & check["action"].isin(*leaving_out)

    return frame.where(~functions.exists(CHECKS, leaves_out)).select(f"{ROW}.*")


def quarantined(frame: DataFrame, expectation: Expectation) -> DataFrame:
    """Return the rows of `with_checks` that fail an expectation: their columns, and `verdict`.

    Spark says so if a column of the query has this name already.
    """

    def is_bad(check: Column) -> Column:
        is_of_it = check["expectation"] == expectation.description
        return is_of_it & (check["action"] == Action.QUARANTINE.value) & ~check["is_met"]

    bad = frame.where(functions.exists(CHECKS, is_bad))
    verdict = functions.col(VERDICTS)[expectation.description].alias(VERDICT)
    return bad.select(f"{ROW}.*", verdict)


def checked(frame: DataFrame, expectations: Iterable[Expectation], dataset: str) -> DataFrame:
    """Return a frame whose query fails at a row that fails one of the expectations in SQL."""
    for expectation in expectations:
        if expectation.action is Action.FAIL:
            frame = frame.where(_is_checked(expectation, expectation.is_met, dataset))
    return frame


def _is_checked(expectation: Expectation, is_met: Column, dataset: str) -> Column:
    message = f"a row of {dataset} fails the expectation {expectation.description!r}"
    # Else Spark may check rows before a join or a condition of the query that leaves them out.
    not_moved = functions.rand() < 0
    return functions.assert_true(is_met | not_moved, message).isNull()


def counted(frame: DataFrame, expectations: Iterable[Expectation]) -> DataFrame:
    """Return the counts of rows of `with_checks`: `expectation`, `action`, `passed`, `failed`.

    Each row counts for the expectations that judged it, which may be others today.
    """
    groups = frame.groupBy(CHECKS).agg(functions.count(functions.lit(1)).alias("rows"))
    checks = groups.select(functions.explode(CHECKS).alias("check"), "rows")
    none = [functions.struct(_check(each, functions.lit(True)), functions.lit(0).cast("long"))
            for each in expectations]  # fmt: skip
    zeros = frame.sparkSession.range(1).select(functions.inline(functions.array(*none)))
    all_checks = checks.union(zeros).select("check.*", "rows")
    is_met, rows = functions.col("is_met"), functions.col("rows")
    return all_checks.groupBy("expectation", "action").agg(
        functions.sum(functions.when(is_met, rows).otherwise(0)).alias("passed"),
        functions.sum(functions.when(is_met, 0).otherwise(rows)).alias("failed"),
    )


def counted_in_table(frame: DataFrame, expectations: Sequence[Expectation]) -> DataFrame:
    """Return the counts of the rows of a table that drops none, as `counted` does.

    They are judged again at each update.
    """
    counts = [
        functions.count(functions.when(~expectation.is_met, 1)).alias(f"c{i}")
        for i, expectation in enumerate(expectations)
    ]
    totals = frame.agg(functions.count(functions.lit(1)).alias("all"), *counts)
    rows = [
        functions.struct(
            functions.lit(expectation.description).alias("expectation"),
            functions.lit(expectation.action.value).alias("action"),
            (functions.col("all") - functions.col(f"c{i}")).alias("passed"),
            functions.col(f"c{i}").alias("failed"),
        )
        for i, expectation in enumerate(expectations)
    ]
    return totals.select(functions.inline(functions.array(*rows)))
