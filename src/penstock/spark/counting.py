"""Counts of outcomes that are taken while records are written, in the same pass."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Observation
from pyspark.sql import functions as F  # noqa: N812 - as everybody names it

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def counted(df: DataFrame, by: Column, names: tuple[str, ...]) -> tuple[DataFrame, Observation]:
    """Count the records for which `by` has each of the names, whenever the frame is evaluated.

    Returns:
        The frame to evaluate, and what holds the counts by name afterwards.
    """
    observation = Observation()
    counts = [F.count(F.when(by == name, True)).alias(name) for name in names]
    return df.observe(observation, *counts), observation
