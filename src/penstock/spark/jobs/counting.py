"""Counts that Spark takes while it evaluates a frame: of outcomes, and of reasons."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import Observation
from pyspark.sql import functions as F  # noqa: N812 - as everybody names it

from penstock.configuration import ConfigurationError
from penstock.engine.verdict import Outcome
from penstock.jobs.report.bounded_counter import BoundedCounter
from penstock.jobs.report.counts import OUTCOMES, REASONS_KEPT, Reason

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column, DataFrame, SparkSession

_REASONS_MAX: Final = 1000
_REASONS_TRACKED: Final = 4096
"""Below three quarters of it, counts are exact: a sketch of the most frequent items."""
_MESSAGE_MAX: Final = 500
_REASON: Final = "topic string, outcome string, policy string, code int, message string"
_NAMES: Final = ("topic", "outcome", "policy", "code", "message")


def counted(
    df: DataFrame, label: Column, names: tuple[str, ...], *, reasons: bool = False
) -> tuple[DataFrame, Observation]:
    """Count the records for which `label` has each of the names, whenever the frame is evaluated.

    Args:
        df: With the columns `topic` and `verdict`, if reasons are counted.
        reasons: Whether reasons are counted, too, for `reasons_in`.

    Returns:
        The frame to evaluate, and the object that holds the counts by name afterwards.
    """
    observation = Observation()
    counts = [F.count(F.when(label == name, True)).alias(name) for name in names]
    if reasons:
        counts.append(_top_reasons(_reason_text()).alias("reasons"))
    return df.observe(observation, *counts), observation


def check_version(version: str) -> None:
    """Check that a version of Spark has what `count_verdicts` needs: `approx_top_k`.

    Args:
        version: Of the session, which is that of the server with Spark Connect.

    Raises:
        ConfigurationError: It is older than 4.1.
    """
    if not _has_top_reasons(version):
        raise ConfigurationError(
            f"observation needs Spark 4.1 or newer, and this session has {version}: leave it out, "
            "and group what judge() returns by verdict.outcome"
        )


def _has_top_reasons(version: str) -> bool:
    numbers = re.match(r"(\d+)\.(\d+)", version)
    return not numbers or (int(numbers[1]), int(numbers[2])) >= (4, 1)


def counts_reasons(spark: SparkSession) -> bool:
    """Return whether reasons can be counted: Spark has `approx_top_k` since 4.1."""
    return _has_top_reasons(spark.version)


def reasons_in(counts: Mapping[str, Any]) -> BoundedCounter[Reason]:
    """Return the reasons among the counts of an observation, if it has any."""
    reasons: BoundedCounter[Reason] = BoundedCounter(REASONS_KEPT)
    for entry in counts.get("reasons") or ():
        reasons.add(Reason(*(entry[name] for name in _NAMES)), entry["count"])
    return reasons


def count_verdicts(judged_rows: DataFrame, observation: Observation) -> None:
    """Count the records by outcome and by reason, in a separate job.

    The size of the counts is bounded, for any reasons.

    Args:
        judged_rows: With the columns `topic` and `verdict`.
        observation: Gets the counts.
    """
    outcome = F.col("verdict.outcome")
    counts = [F.count(F.when(outcome == name, True)).alias(name) for name in OUTCOMES]
    reasons = _top_reasons(F.col("reason")).alias("reasons")
    frame = judged_rows.select("topic", "verdict", _reason_text().alias("reason"))
    frame.observe(observation, *counts, reasons).count()


def _reason_text() -> Column:
    """Return the reason of a record as text: the sketch takes no others.

    Accepted records are one item, which is left out.
    """
    outcome = F.col("verdict.outcome")
    reason = F.struct(
        F.col("topic"),
        outcome,
        F.col("verdict.policy"),
        F.col("verdict.code"),
        F.substring("verdict.message", 1, _MESSAGE_MAX).alias("message"),
    )
    return F.when(outcome != Outcome.ACCEPTED.value, F.to_json(reason))


def _top_reasons(text: Column) -> Column:
    top = F.call_function("approx_top_k", text, F.lit(_REASONS_MAX + 1), F.lit(_REASONS_TRACKED))
    reasons = F.transform(
        F.filter(top, lambda entry: entry["item"].isNotNull()),
        lambda entry: F.struct(F.from_json(entry["item"], _REASON).alias("of"), entry["count"]),
    )
    return F.transform(
        reasons,
        lambda entry: F.struct(*(entry["of"][name].alias(name) for name in _NAMES), entry["count"]),
    )
