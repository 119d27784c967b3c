"""Counts of judged rows, which Spark takes while it evaluates a frame."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - as everybody names it

from penstock.configuration import ConfigurationError
from penstock.engine.all_objections import WARNING_MODES
from penstock.engine.verdict import Outcome
from penstock.spark.arguments import can_observe
from penstock.spark.rows.values import VERDICT

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Observation

    from penstock.spark.rows.plan import RowPlan

_OUTCOMES = (Outcome.ACCEPTED.value, Outcome.REFUSED.value, Outcome.FAILED.value)


def check_observation(observation: object, function: str) -> None:
    """Check what counts rows, if anything does.

    Args:
        function: Which was called, for the error.

    Raises:
        ConfigurationError: It is not an observation, or no name of one.
    """
    if observation is not None and not can_observe(observation):
        raise ConfigurationError(
            f"{function}: observation must be an Observation of Spark, or a name, not "
            f"{type(observation).__name__}"
        )


def observed(
    judged_rows: DataFrame, plan: RowPlan, observation: Observation | str | None
) -> DataFrame:
    """Return a frame that counts its rows for an observation, if there is one."""
    if observation is None:
        return judged_rows
    return judged_rows.observe(observation, *_counts(plan))


def _counts(plan: RowPlan) -> list[Column]:
    outcome = F.col(VERDICT)["outcome"]
    counts = {"judged": F.lit(True), **{name: outcome == name for name in _OUTCOMES}}
    for policy, rule in plan.rules:
        name = f"refused.{policy if rule is None else rule}"
        counts[name] = (
            counts[name] | _objects(policy, rule) if name in counts else _objects(policy, rule)
        )
    return [F.count(F.when(condition, True)).alias(name) for name, condition in counts.items()]


def _objects(policy: str, rule: str | None) -> Column:
    """Return whether a rule, or any of a policy without rules of a known name, refuses a row."""
    warnings = sorted(WARNING_MODES)

    def is_of_rule(objection: Column) -> Column:
        of_policy = (objection["policy"] == policy) & ~objection["mode"].isin(*warnings)
        return of_policy if rule is None else of_policy & (objection["rule"] == rule)

    objections = F.col(VERDICT)["objections"]
    refused = F.col(VERDICT)["outcome"] == Outcome.REFUSED.value
    return refused & F.exists(objections, is_of_rule)
