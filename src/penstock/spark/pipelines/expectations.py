"""The expectations of a dataset: conditions that each row of its query should meet."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from functools import reduce, update_wrapper
from operator import and_
from typing import TYPE_CHECKING, Final, NamedTuple

from pyspark.sql import functions

from penstock.engine.verdict import Outcome
from penstock.jobs.plan import RecordPlan
from penstock.spark.rows.judged import verdict_on
from penstock.spark.rows.plan import RowPlan, plan, row_plan_of
from penstock.spark.rows.values import VERDICT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from pyspark.sql import Column, DataFrame

    Query = Callable[[], DataFrame]
    Decorator = Callable[[Query], "ExpectedQuery"]


_RULE_NAME_MAX: Final = 100


class Action(Enum):
    """The treatment of a row that fails an expectation."""

    KEEP = "keep"
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
        row_plan = row_plan_of(constraint, f"the expectation {description!r}", has_topics=False)
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
FAILED: Final = "failed"
"""The column with the descriptions of the expectations that the row fails."""


def with_failed(frame: DataFrame, expectations: Sequence[Expectation], dataset: str) -> DataFrame:
    """Return the rows of a query with the expectations that they fail.

    Without an analysis, which a pipeline does not allow in a query function.

    Args:
        frame: The frame of the query function.
        expectations: In the order in which they are written.
        dataset: The name of the dataset, for errors.

    Returns:
        The columns `row`, `failed`, and for each expectation that quarantines rows the verdict. A
        query of it fails at a row that fails an expectation with that action.
    """
    in_sql = [expectation for expectation in expectations if expectation.is_sql]
    failed = [(expectation, expectation.is_met) for expectation in in_sql]
    rows = checked(frame, in_sql, dataset).select(
        functions.struct("*").alias(ROW), _failed(failed).alias(FAILED)
    )
    failed = []
    verdict_names = []
    for position, expectation in enumerate(expectations):
        if isinstance(expectation.constraint, str):
            continue
        name = verdict_name(position)
        verdict = verdict_on(functions.col(ROW), expectation.constraint)
        # With withColumn(), a server would analyse the frame: see pipelines.
        rows = rows.select("*", verdict.alias(name))
        is_met = functions.col(name)["outcome"] == Outcome.ACCEPTED.value
        failed.append((expectation, is_met))
        if expectation.action is Action.FAIL:
            rows = rows.where(_is_checked(expectation, is_met, dataset))
        elif expectation.action is Action.QUARANTINE:
            verdict_names.append(name)
    all_failed = functions.concat(FAILED, _failed(failed)).alias(FAILED)
    return rows.select(ROW, all_failed, *verdict_names)


def _failed(conditions: Iterable[tuple[Expectation, Column]]) -> Column:
    """Return the descriptions of the expectations that are not met, as an array."""
    descriptions = [
        functions.when(~is_met, functions.lit(expectation.description))
        for expectation, is_met in conditions
    ]
    return functions.array_compact(functions.array(*descriptions).cast("array<string>"))


def verdict_name(position: int) -> str:
    """Return the name of the column with the verdicts for an expectation, by its position."""
    return f"verdict_{position}"


def kept(frame: DataFrame, expectations: Iterable[Expectation]) -> DataFrame:
    """Return the rows of `with_failed` that stay in the table, with the columns of the query."""
    passing = [
        ~functions.array_contains(FAILED, expectation.description)
        for expectation in expectations
        if expectation.action in LEAVING_OUT
    ]
    return frame.where(reduce(and_, passing, functions.lit(True))).select(f"{ROW}.*")


def quarantined(frame: DataFrame, position: int, expectation: Expectation) -> DataFrame:
    """Return the rows of `with_failed` that fail an expectation: their columns, and `verdict`."""
    bad = frame.where(functions.array_contains(FAILED, expectation.description))
    row = functions.col(ROW).dropFields(VERDICT).alias(ROW)
    verdict = functions.col(verdict_name(position)).alias(VERDICT)
    return bad.select(row, verdict).select(f"{ROW}.*", VERDICT)


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
    """Return the counts of rows of `with_failed`: `expectation`, `action`, `passed`, `failed`."""
    return _counts(
        frame,
        {
            expectation: functions.array_contains(FAILED, expectation.description)
            for expectation in expectations
        },
    )


def counted_in_table(frame: DataFrame, expectations: Iterable[Expectation]) -> DataFrame:
    """Return the counts of the rows of a table that drops none, as `counted` does."""
    return _counts(frame, {expectation: ~expectation.is_met for expectation in expectations})


def _counts(frame: DataFrame, is_failed: Mapping[Expectation, Column]) -> DataFrame:
    counts = [
        functions.count(functions.when(failed, 1)).alias(f"c{i}")
        for i, failed in enumerate(is_failed.values())
    ]
    totals = frame.agg(functions.count(functions.lit(1)).alias("all"), *counts)
    rows = [
        functions.struct(
            functions.lit(expectation.description).alias("expectation"),
            functions.lit(expectation.action.value).alias("action"),
            (functions.col("all") - functions.col(f"c{i}")).alias("passed"),
            functions.col(f"c{i}").alias("failed"),
        )
        for i, expectation in enumerate(is_failed)
    ]
    return totals.select(functions.inline(functions.array(*rows)))
