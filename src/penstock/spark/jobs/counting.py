"""Counts that Spark takes while it evaluates a frame: of outcomes, and of reasons."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from pyspark.sql import Observation
from pyspark.sql import functions as F  # noqa: N812 - as everybody names it

from penstock.configuration import ConfigurationError
from penstock.engine.verdict import Outcome
from penstock.jobs.report.counts import OUTCOMES

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_REASONS_MAX: Final = 1000
_REASONS_TRACKED: Final = 4096
"""Below three quarters of it, counts are exact: a sketch of the most frequent items."""
_MESSAGE_MAX: Final = 500
_REASON: Final = "topic string, outcome string, policy string, code int, message string"
_NAMES: Final = ("topic", "outcome", "policy", "code", "message")


def counted(df: DataFrame, label: Column, names: tuple[str, ...]) -> tuple[DataFrame, Observation]:
    """Count the records for which `label` has each of the names, whenever the frame is evaluated.

    Returns:
        The frame to evaluate, and the object that holds the counts by name afterwards.
    """
    observation = Observation()
    counts = [F.count(F.when(label == name, True)).alias(name) for name in names]
    return df.observe(observation, *counts), observation


def check_version(version: str) -> None:
    """Check that a version of Spark has what `count_verdicts` needs: `approx_top_k`.

    Args:
        version: Of the session, which is that of the server with Spark Connect.

    Raises:
        ConfigurationError: It is older than 4.1.
    """
    numbers = re.match(r"(\d+)\.(\d+)", version)
    if numbers and (int(numbers[1]), int(numbers[2])) < (4, 1):
        raise ConfigurationError(
            f"observation needs Spark 4.1 or newer, and this session has {version}: leave it out, "
            "and group what judge() returns by verdict.outcome"
        )


def count_verdicts(judged_rows: DataFrame, observation: Observation) -> None:
    """Count the records by outcome and by reason, in a separate job.

    The size of the counts is bounded, for any reasons.

    Args:
        judged_rows: With the columns `topic` and `verdict`.
        observation: Gets the counts.
    """
    outcome = F.col("verdict.outcome")
    reason = F.struct(
        F.col("topic"),
        outcome,
        F.col("verdict.policy"),
        F.col("verdict.code"),
        F.substring("verdict.message", 1, _MESSAGE_MAX).alias("message"),
    )
    # The sketch takes texts. Accepted records are one item, which is left out.
    text = F.when(outcome != Outcome.ACCEPTED.value, F.to_json(reason))
    top = F.expr(f"approx_top_k(reason, {_REASONS_MAX + 1}, {_REASONS_TRACKED})")
    reasons = F.transform(
        F.filter(top, lambda entry: entry["item"].isNotNull()),
        lambda entry: F.struct(F.from_json(entry["item"], _REASON).alias("of"), entry["count"]),
    )
    flat = F.transform(
        reasons,
        lambda entry: F.struct(*(entry["of"][name].alias(name) for name in _NAMES), entry["count"]),
    )
    counts = [F.count(F.when(outcome == name, True)).alias(name) for name in OUTCOMES]
    frame = judged_rows.select("topic", "verdict", text.alias("reason"))
    frame.observe(observation, *counts, flat.alias("reasons")).count()
