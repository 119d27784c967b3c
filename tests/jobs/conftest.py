"""Commands in this process, on Spark or without it; topics filled with known records."""

from tests.spark.conftest import command, configured, plan, produce, rows, runner

__all__ = ["command", "configured", "plan", "produce", "rows", "runner"]
