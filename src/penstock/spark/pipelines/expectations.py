"""The expectations of a dataset: conditions that each row of its query should meet."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import reduce, update_wrapper
from operator import and_
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from pyspark.sql import Column, DataFrame

    Query = Callable[[], DataFrame]
    Decorator = Callable[[Query], "ExpectedQuery"]


class Action(Enum):
    """The treatment of a row that fails an expectation."""

    KEEP = "keep"
    """It stays in the table, and is counted."""
    DROP = "drop"
    """It is left out of the table, and is counted."""
    FAIL = "fail"
    """The update fails."""


@dataclass(frozen=True)
class Expectation:
    """A condition that each row of a dataset should meet.

    Attributes:
        description: Its name in the counts.
        constraint: A SQL expression. A row fails it also if it is null.
        action: The treatment of a row that fails it.
    """

    description: str
    constraint: str
    action: Action

    @property
    def is_met(self) -> Column:
        """The condition for a row of the query; never null."""
        return functions.coalesce(functions.expr(self.constraint), functions.lit(False))


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
        """Return the frame of the function, as without expectations."""
        return self.query()

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


def expectations_of(constraints: Mapping[str, str], action: Action) -> Decorator:
    """Return a decorator that adds expectations to the query function of a dataset.

    Args:
        constraints: SQL expressions by description.
        action: The treatment of a row that fails one.

    Raises:
        TypeError: A description or an expression is not a string, or is empty; or the decorator is
            not below that of a dataset.
    """
    for description, constraint in constraints.items():
        for text, name in ((description, "description"), (constraint, "constraint")):
            if not isinstance(text, str) or not text.strip():
                raise TypeError(
                    f"an expectation's {name} is a string that is not empty, not {text!r}"
                )
    added = [Expectation(*item, action) for item in constraints.items()]

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


def leaves_rows_out(expectations: Iterable[Expectation]) -> bool:
    """Whether rows that fail an expectation are not in the table."""
    return any(expectation.action is Action.DROP for expectation in expectations)


# Frames

ROW: Final = "row"
"""The column with all columns of the query."""
FAILED: Final = "failed"
"""The column with the descriptions of the expectations that the row fails."""


def with_failed(frame: DataFrame, expectations: Iterable[Expectation]) -> DataFrame:
    """Return the rows of a query with the expectations that they fail: columns `row`, `failed`.

    Without an analysis, which a pipeline does not allow in a query function.
    """
    failed = [
        functions.when(~expectation.is_met, functions.lit(expectation.description))
        for expectation in expectations
    ]
    return frame.select(
        functions.struct(functions.col("*")).alias(ROW),
        functions.array_compact(functions.array(*failed)).alias(FAILED),
    )


def kept(frame: DataFrame, expectations: Iterable[Expectation]) -> DataFrame:
    """Return the rows of `with_failed` that stay in the table, with the columns of the query."""
    dropping = _descriptions(expectations, Action.DROP)
    passing = [~functions.array_contains(FAILED, description) for description in dropping]
    return frame.where(_all(passing)).select(f"{ROW}.*")


def checked(frame: DataFrame, expectations: Iterable[Expectation], dataset: str) -> DataFrame:
    """Return a frame whose query fails at a row that fails an expectation with this action."""
    for expectation in expectations:
        if expectation.action is Action.FAIL:
            message = f"a row of {dataset} fails the expectation {expectation.description!r}"
            frame = frame.where(functions.assert_true(expectation.is_met, message).isNull())
    return frame


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


def _descriptions(expectations: Iterable[Expectation], action: Action) -> list[str]:
    return [expectation.description for expectation in expectations if expectation.action is action]


def _all(conditions: Iterable[Column]) -> Column:
    return reduce(and_, conditions, functions.lit(True))
